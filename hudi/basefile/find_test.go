package basefile_test

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
)

type finder func(*basefile.File, *basefile.KeySet, *hudi.Schema) iter.Seq2[*hudi.Record, error]

func finders() map[string]finder {
	return map[string]finder{
		"find": func(f *basefile.File, k *basefile.KeySet, s *hudi.Schema) iter.Seq2[*hudi.Record, error] {
			return f.Find(k, s, "_rev_order")
		},
		"sparse": func(f *basefile.File, k *basefile.KeySet, s *hudi.Schema) iter.Seq2[*hudi.Record, error] {
			return f.FindSparse(k, s, "_rev_order")
		},
	}
}

// found are records as text, deep enough that a wrong row shows.
func found(t testing.TB, rows iter.Seq2[*hudi.Record, error]) []string {
	t.Helper()
	var out []string
	for r, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%q %s %s %s %d %t %q", r.Key.Record, r.Key.Partition, r.CommitTime, r.CommitSeqno, r.Order, r.Delete, fmt.Sprint(r.Row)))
	}
	return out
}

// filtered is what Find must yield, read the plain way.
func filtered(f *basefile.File, keys *basefile.KeySet, s *hudi.Schema) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		for r, err := range f.Records(s, "_rev_order") {
			if (err != nil || keys.Has(r.Key.Record)) && !yield(r, err) {
				return
			}
		}
	}
}

// counting counts the bytes that are read.
type counting struct {
	io.ReaderAt
	n atomic.Int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n.Add(int64(n))
	return n, err
}

// large is a file of several row groups and many pages, its keys in order,
// some beyond the basic plane.
func large(t testing.TB, n int) (data []byte, keys []string) {
	t.Helper()
	rs := benchRecords(n)
	for i := range rs {
		rs[i].Order = int64(i % 7)
		if i%50 == 0 {
			key := strings.Repeat("\U0001F600", 1+i%3) + rs[i].Key.Record
			rs[i].Key.Record, rs[i].Row[0] = key, hudi.String(key)
		}
	}
	slices.SortFunc(rs, func(a, b hudi.Record) int { return hudi.CompareUTF16(a.Key.Record, b.Key.Record) })
	for i := range rs {
		keys = append(keys, rs[i].Key.Record)
	}
	o := options()
	o.RowGroupBytes = 8 << 20
	data, _ = write(t, benchSchema(t), o, rs...)
	return data, keys
}

// TestFind: the rows of a set of keys are those that reading everything finds,
// and reading few of them reads little of the file.
func TestFind(t *testing.T) {
	sizes := []int{0, 1, 3, 40, 700, 5000}
	if testing.Short() {
		sizes = []int{0, 3, 700}
	}
	data, keys := large(t, 40_000)
	s := benchSchema(t)
	few := schema(t, hudi.Column{Name: "_rev", Kind: hudi.KindString}, hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean})
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range sizes {
		var asked []string
		for range n {
			asked = append(asked, keys[r.IntN(len(keys))], fmt.Sprintf("%016x", r.Uint64()))
		}
		if n == 3 { // the ends, and neighbours
			asked = append(asked, keys[0], keys[1], keys[len(keys)-1])
		}
		set := basefile.NewKeySet(asked)
		for _, target := range []*hudi.Schema{s, few} {
			want := found(t, filtered(open(t, data), set, target))
			if n > 0 && len(want) == 0 {
				t.Fatal("nothing to find")
			}
			for name, find := range finders() {
				if got := found(t, find(open(t, data), set, target)); !slices.Equal(got, want) {
					t.Errorf("%s of %d keys: %d rows, want %d", name, n, len(got), len(want))
				}
			}
		}
	}
	whole, one := &counting{ReaderAt: bytes.NewReader(data)}, &counting{ReaderAt: bytes.NewReader(data)}
	for c, read := range map[*counting]finder{
		whole: filtered,
		one:   finders()["find"],
	} {
		f, err := basefile.Open(c, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		c.n.Store(0)
		if got := found(t, read(f, basefile.NewKeySet(keys[len(keys)/2:len(keys)/2+1]), few)); len(got) != 1 {
			t.Fatalf("%d rows", len(got))
		}
	}
	if one.n.Load()*2 > whole.n.Load() {
		t.Errorf("one key: %d bytes read, all: %d", one.n.Load(), whole.n.Load())
	}
	t.Logf("of %d bytes: %d read for one key, %d for all", len(data), one.n.Load(), whole.n.Load())
}

// TestFindLeaves: a consumer that has enough ends it.
func TestFindLeaves(t *testing.T) {
	data, keys := large(t, 5_000)
	set := basefile.NewKeySet(keys[:50])
	n := 0
	for range open(t, data).FindSparse(set, benchSchema(t), "_rev_order") {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Error(n)
	}
}

// TestFindNested: values of many places in a row are sought too.
func TestFindNested(t *testing.T) {
	s, r := wideSchema(t), rand.New(rand.NewPCG(5, 6))
	var rs []hudi.Record
	for i := range 3000 {
		rs = append(rs, randomRecord(t, r, i))
	}
	data, _ := write(t, s, options(), rs...)
	var asked []string
	for i := 0; i < len(rs); i += 1 + r.IntN(90) {
		asked = append(asked, rs[i].Key.Record)
	}
	set := basefile.NewKeySet(asked)
	want := found(t, filtered(open(t, data), set, s))
	for name, find := range finders() {
		if got := found(t, find(open(t, data), set, s)); !slices.Equal(got, want) || len(want) < 30 {
			t.Errorf("%s: %d rows, want %d", name, len(got), len(want))
		}
	}
}

// BenchmarkFind is what 20 keys of a file of 20,000 rows cost.
func BenchmarkFind(b *testing.B) {
	data, keys := large(b, 20_000)
	few := schema(b, hudi.Column{Name: "_rev", Kind: hudi.KindString}, hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean})
	var asked []string
	for i := 500; i < len(keys); i += 1000 {
		asked = append(asked, keys[i])
	}
	set := basefile.NewKeySet(asked)
	b.ReportAllocs()
	for b.Loop() {
		if got := found(b, open(b, data).Find(set, few, "_rev_order")); len(got) != len(asked) {
			b.Fatal(len(got))
		}
	}
}
