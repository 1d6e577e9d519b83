package mem_test

import (
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Driver { return mem.New(nil) })
}

func TestNowGivesModificationTimes(t *testing.T) {
	at := time.Date(2024, 1, 5, 10, 0, 0, 0, time.UTC)
	d := mem.New(&mem.Options{Now: func() time.Time { return at }})
	o, err := d.Put(t.Context(), "o", nil, storage.Cond{})
	if err != nil || !o.Modified.Equal(at) {
		t.Errorf("Put = %+v, %v", o, err)
	}
}

func TestContentOutlivesClose(t *testing.T) {
	d := mem.New(nil)
	if _, err := d.Put(t.Context(), "o", []byte("kept"), storage.Cond{}); err != nil {
		t.Fatal(err)
	}
	if err := storage.New(d, nil).Close(); err != nil {
		t.Fatal(err)
	}
	got, err := storage.New(d, nil).ReadAll(t.Context(), "o", 10)
	if string(got) != "kept" || err != nil {
		t.Errorf("after Close: %q, %v", got, err)
	}
}
