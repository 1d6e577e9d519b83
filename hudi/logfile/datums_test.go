package logfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

func TestDatums(t *testing.T) {
	var file bytes.Buffer
	const schema = `"string"`
	w := logfile.NewDatumWriter(&file, schema, 100)
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprintf("datum %d", i))
		if err := w.Append([]byte(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, "")
	if err := w.Append(nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err == nil {
		t.Error("closed twice")
	}
	var got []string
	blocks := 0
	for s := logfile.NewScanner(bytes.NewReader(file.Bytes()), int64(file.Len())); ; blocks++ {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || b.Type != logfile.AvroData || b.Schema != schema || len(b.Header) != 1 {
			t.Fatalf("%+v, %v", b, err)
		}
		for datum, err := range b.Datums() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(datum))
		}
	}
	if !slices.Equal(got, want) || blocks < 5 {
		t.Fatalf("%d blocks: %q", blocks, got)
	}
	none := logfile.NewDatumWriter(&file, schema, 0)
	if size := file.Len(); none.Close() != nil || file.Len() != size {
		t.Error("nothing takes room")
	}
}

func TestDatumsRefuse(t *testing.T) {
	for _, err := range (&logfile.Block{Type: logfile.Delete}).Datums() {
		if !errors.Is(err, logfile.ErrUnsupported) {
			t.Error(err)
		}
	}
	full := logfile.NewDatumWriter(noRoom{}, `"string"`, 1)
	if err := full.Append([]byte("x")); !errors.Is(err, io.ErrShortWrite) || !errors.Is(full.Close(), io.ErrShortWrite) {
		t.Error(err)
	}
}

type noRoom struct{}

func (noRoom) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
