package basefile_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
)

// The memory of a record, large values too, may be reused once it was appended,
// and what was refused leaves nothing behind.
func TestLargeValuesMayBeReused(t *testing.T) {
	s := wideSchema(t)
	r := rand.New(rand.NewPCG(8, 9))
	var file bytes.Buffer
	w, err := basefile.NewWriter(&file, s, options())
	if err != nil {
		t.Fatal(err)
	}
	const doc, raw, price = 6, 7, 12
	memory := make([]byte, 1<<20)
	var want []string
	for n := range 40 {
		rec := randomRecord(t, r, n)
		size := 1 + r.IntN(500)
		if n%4 == 1 {
			size = 100_000 + r.IntN(len(memory)-100_000)
		}
		for i := range size {
			memory[i] = byte('a' + (n+i)%26)
		}
		rec.Row[doc], rec.Row[raw] = hudi.StringOf(memory[:size]), hudi.Bytes(memory[:size])
		refused := rec.Clone()
		refused.Row[price] = hudi.Bytes([]byte{1, 2, 3, 4, 5, 6})
		if err := w.Append(&refused); !errors.Is(err, basefile.ErrRecord) {
			t.Fatalf("a wide decimal behind %d bytes: %v", size, err)
		}
		want = append(want, string(memory[:size]))
		if err := w.Append(&rec); err != nil {
			t.Fatal(err)
		}
		clear(memory)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(open(t, file.Bytes()), s, "")
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d rows of %d, %v", len(got), len(want), err)
	}
	for i := range got {
		if got[i].Row[doc].Text() != want[i] || got[i].Row[raw].Text() != want[i] {
			t.Fatalf("row %d: not the %d bytes that were appended", i, len(want[i]))
		}
	}
}
