package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// A lock of compactions that nobody renews is watched until it is over; one whose
// holder says that it stands yet is left alone; a stop is heeded.
func TestOutlive(t *testing.T) {
	for until, c := range map[string]struct{ waits, stopped bool }{
		"2020-01-01T00:00:00Z": {waits: true},
		"2120-01-01T00:00:00Z": {},
		"2020-01-01T01:00:00Z": {stopped: true},
	} {
		o := storage.LeaseOptions{Validity: 50 * time.Millisecond}
		if c.stopped {
			o.Validity = time.Hour
		}
		b := storage.New(storagetest.Leased(mem.New(nil), o), nil)
		tb, err := table.Create(t.Context(), b, table.CreateOptions{Name: "t"}, table.Options{})
		if err != nil {
			t.Fatal(err)
		}
		const lock = ".hoodie/couch2hudi/compaction.lock"
		if _, err := b.Put(t.Context(), lock, []byte(`{"token":"dead","renewal":1,"holder":"one who died","until":"`+until+`"}`)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		if c.stopped {
			stop()
		}
		_, release, err := outlive(ctx, tb, io.NopCloser(strings.NewReader("")), b)
		stop()
		if c.stopped != errors.Is(err, context.Canceled) || !c.stopped && err != nil {
			t.Errorf("%s: %v", until, err)
		}
		if err != nil {
			continue
		}
		held, err := b.Lock(t.Context(), lock)
		if c.waits != (err == nil) {
			t.Errorf("%s: the lock of compactions: %v", until, err)
		}
		if err == nil {
			err = held.Close()
		} else {
			err = nil
		}
		if err := errors.Join(err, release()); err != nil {
			t.Error(err)
		}
	}
}
