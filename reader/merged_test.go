package reader_test

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/reader"
)

func each(rs []hudi.Record) iter.Seq[*hudi.Record] {
	return func(yield func(*hudi.Record) bool) {
		for i := range rs {
			if !yield(&rs[i]) {
				return
			}
		}
	}
}

// merged is what a slice is with newer records, as lines "key order value" in
// the order in which they come, "*" before those of newer.
func (f *fixture) merged(newer []hudi.Record, o reader.Options) []string {
	f.t.Helper()
	v := f.view()
	list, err := v.Slices(f.t.Context(), "pt=a")
	if err != nil || len(list) != 1 {
		f.t.Fatalf("%v %v", list, err)
	}
	var out []string
	for r, err := range reader.Merged(f.t.Context(), v, list[0], f.schema, each(newer), o) {
		if err != nil {
			f.t.Fatal(err)
		}
		mark := ""
		if r.CommitTime == "" {
			mark = "*"
		}
		out = append(out, fmt.Sprintf("%s%s %d %s", mark, r.Key.Record, r.Order, f.schema.At(r.Row, "v").Text()))
	}
	return out
}

// Rows of the base, of the logs alone and of the newer records come in the
// order of keys; whose version is newest wins; deletes are not there.
func TestMerged(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("b", 1, "b1"), put("d", 5, "d5"), put("f", 1, "f1"), put("h", 1, "h1"), put("j", 1, "j1"), put("\uFFFD", 1, "last")))
	newer := []hudi.Record{put("z", 1, "z1"), put("b", 2, "b2"), put("d", 4, "late"), remove("f", 2), put("\U0001F600", 1, "in between"), remove("x", 1),
		put("h", 3, "back"), put("k", 3, "older than the log's")}
	want := []string{"*b 2 b2", "d 5 d5", "*h 3 back", "j 1 j1", "*k 3 older than the log's", "*z 1 z1", "*\U0001F600 1 in between", "\uFFFD 1 last"}
	if got := f.merged(newer, reader.Options{}); !slices.Equal(got, want) {
		t.Fatalf("got\n%q\nwant\n%q", got, want)
	}
	f.commit(logOf("pt=a", "g-0", t1, 1, put("y", 1, "y1"), put("a", 1, "a1"), put("c", 1, "c1"), put("k", 4, "k4"), remove("h", 2), remove("j", 2), remove("e", 9)))
	newer = append(newer, put("e", 10, "e10"))
	want = []string{"a 1 a1", "*b 2 b2", "c 1 c1", "d 5 d5", "*e 10 e10", "*h 3 back", "k 4 k4", "y 1 y1", "*z 1 z1", "*\U0001F600 1 in between", "\uFFFD 1 last"}
	for _, memory := range []int64{0, 1} {
		if got := f.merged(newer, reader.Options{Memory: memory, TempDir: t.TempDir()}); !slices.Equal(got, want) {
			t.Fatalf("got\n%q\nwant\n%q", got, want)
		}
	}
	for stop := range want {
		v := f.view()
		list, err := v.Slices(t.Context(), "pt=a")
		if err != nil {
			t.Fatal(err)
		}
		dir, n := t.TempDir(), 0
		for range reader.Merged(t.Context(), v, list[0], f.schema, each(newer), reader.Options{Memory: 1, TempDir: dir}) {
			if n++; n > stop {
				break
			}
		}
		empty(t, dir)
	}
}

// A base file of another writer may be in any order: nothing is lost or twice.
func TestMergedWithoutOrder(t *testing.T) {
	f := newFixture(t)
	at := f.commitUnsorted([]hudi.Record{put("m", 1, "m1"), put("c", 7, "c7"), put("x", 1, "x1"), put("b", 1, "b1")})
	f.commit(logOf("pt=a", "g-0", at, 1, put("n", 1, "n1"), put("b", 2, "b2"), put("c", 6, "late")))
	got := f.merged([]hudi.Record{put("a", 1, "a1"), put("c", 5, "later"), put("x", 2, "x2")}, reader.Options{})
	if want := []string{"*a 1 a1", "m 1 m1", "c 7 c7", "n 1 n1", "*x 2 x2", "b 2 b2"}; !slices.Equal(got, want) {
		t.Fatalf("got\n%q\nwant\n%q", got, want)
	}
}

// commitUnsorted commits a base file of group g-0 in the order of its records.
func (f *fixture) commitUnsorted(rs []hudi.Record) hudi.Time {
	f.t.Helper()
	x, body := f.begin()
	name := hudi.BaseFileName{File: "g-0", Token: "0-0-0", Instant: x.Instant()}.String()
	w := baseOf("pt=a", "g-0", slices.Clone(rs)...)
	w.spoil = func([]byte) []byte {
		var p pieces
		if err := f.unsorted(&p, name, hudi.Stamp{Instant: x.Instant()}, rs); err != nil {
			f.t.Fatal(err)
		}
		return p.data
	}
	stat, err := f.store(f.t.Context(), x, w)
	if err != nil {
		f.t.Fatal(err)
	}
	body.Stats["pt=a"] = append(body.Stats["pt=a"], stat)
	if err := x.Commit(f.t.Context(), body); err != nil {
		f.t.Fatal(err)
	}
	return x.Instant()
}

// unsorted writes a base file in the order of its records.
func (f *fixture) unsorted(to io.Writer, name string, stamp hudi.Stamp, rs []hudi.Record) error {
	w, err := basefile.NewWriter(to, f.schema, basefile.WriterOptions{Stamp: stamp, FileName: name})
	if err != nil {
		return err
	}
	for i := range rs {
		rs[i].Key.Partition = "pt=a"
		if err := w.Append(&rs[i]); err != nil {
			return err
		}
	}
	_, err = w.Close()
	return err
}
