package reader_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// line is a row as text, meta columns included.
func (f *fixture) line(r *hudi.Record) string {
	return fmt.Sprintf("%s %d %s %s %s", r.Key.Record, r.Order, f.schema.At(r.Row, "v").Text(), r.CommitTime, r.CommitSeqno)
}

// compacted are the rows of the one slice as Compacted has them, and as Slice.
func (f *fixture) compacted(o reader.Options) (got, want []string, t reader.Tally) {
	f.t.Helper()
	v := f.view()
	list, err := v.Slices(f.t.Context(), "pt=a")
	if err != nil || len(list) != 1 {
		f.t.Fatalf("%v %v", list, err)
	}
	for r, err := range reader.Compacted(f.t.Context(), v, list[0], f.schema, o, &t) {
		if err != nil {
			f.t.Fatal(err)
		}
		got = append(got, f.line(r))
	}
	for r, err := range reader.Slice(f.t.Context(), v, list[0], f.schema, reader.Options{}) {
		if err != nil {
			f.t.Fatal(err)
		}
		want = append(want, f.line(r))
	}
	slices.Sort(want)
	return got, want, t
}

// key has the order of bytes and of UTF-16 units in common.
func key(n int) string { return fmt.Sprintf("k%04d", n) }

// What Compacted yields is what Slice yields, in order, in as much memory as one
// likes, and the tally adds up.
func TestCompactedIsSlice(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 6))
		f := newFixture(t)
		const keys = 60
		record := func() hudi.Record {
			k, order := key(r.IntN(keys)), r.Int64N(6)
			if r.IntN(4) == 0 {
				return remove(k, order)
			}
			return put(k, order, strings.Repeat("x", r.IntN(300)))
		}
		base := hudi.Time("")
		if seed%4 > 0 {
			var rows []hudi.Record
			for n := range keys {
				if r.IntN(2) == 0 {
					rows = append(rows, put(key(n), 3, "base"))
				}
			}
			base = f.commit(baseOf("pt=a", "g-0", rows...))
		}
		version := 0
		for range 1 + r.IntN(4) {
			var rs []hudi.Record
			for range r.IntN(40) + 1 {
				rs = append(rs, record())
			}
			if base == "" { // a slice of logs alone
				base, version = "20260101000000000", 1
				f.commit(logOf("pt=a", "g-0", base, version, rs...))
				continue
			}
			version++
			w := logOf("pt=a", "g-0", base, version, rs...)
			if r.IntN(3) == 0 {
				w.spoil = natural
			}
			f.commit(w)
		}
		for _, memory := range []int64{0, 1, 4000} {
			dir := t.TempDir()
			got, want, tally := f.compacted(reader.Options{Memory: memory, TempDir: dir})
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, memory %d: got\n%s\nwant\n%s", seed, memory, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if tally.Rows() != int64(len(got)) {
				t.Fatalf("seed %d: %d rows, %+v", seed, len(got), tally)
			}
			empty(t, dir)
		}
	}
}

// A base file in no order comes in order all the same, keys that it has twice
// twice.
func TestCompactedWithoutOrder(t *testing.T) {
	f := newFixture(t)
	rows := []hudi.Record{put("m", 1, "m1"), put("c", 7, "c7"), put("x", 1, "x1"), put("b", 1, "b1"), put("c", 2, "again")}
	at := f.commitUnsorted(rows)
	f.commit(logOf("pt=a", "g-0", at, 1, put("n", 1, "n1"), put("b", 2, "b2"), put("c", 6, "c6"), remove("x", 2)))
	for _, memory := range []int64{0, 1} {
		dir := t.TempDir()
		got, want, tally := f.compacted(reader.Options{Memory: memory, TempDir: dir})
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("got\n%q\nwant\n%q", got, want)
		}
		if want := (reader.Tally{Base: 5, Inserted: 1, Hidden: 1, Updated: 2, LogRows: 3, LogKeys: 4, LogBlocks: tally.LogBlocks}); tally != want {
			t.Errorf("got %+v, want %+v", tally, want)
		}
		empty(t, dir)
	}
}

// Who stops reading leaves nothing on disk.
func TestCompactedStopped(t *testing.T) {
	f := newFixture(t)
	at := f.commit(baseOf("pt=a", "g-0", put("b", 1, "b1"), put("d", 1, "d1")))
	f.commit(logOf("pt=a", "g-0", at, 1, put("a", 1, "a1"), put("c", 1, "c1"), put("e", 1, "e1")))
	v := f.view()
	list, err := v.Slices(t.Context(), "pt=a")
	if err != nil {
		t.Fatal(err)
	}
	for stop := range 5 {
		var tally reader.Tally
		dir, n := t.TempDir(), 0
		for range reader.Compacted(t.Context(), v, list[0], f.schema, reader.Options{Memory: 1, TempDir: dir}, &tally) {
			if n++; n > stop {
				break
			}
		}
		empty(t, dir)
	}
}
