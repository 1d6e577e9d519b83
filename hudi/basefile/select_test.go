package basefile_test

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
)

// between is a hint for the values of a column from low to high, and what it
// says of one value.
func between(column string, low, high hudi.Value, compare func(a, b hudi.Value) int) (basefile.Hint, func(hudi.Value) bool) {
	return basefile.Hint{Column: column, May: func(least, greatest hudi.Value) bool {
			return compare(greatest, low) >= 0 && compare(least, high) <= 0
		}}, func(v hudi.Value) bool {
			return !v.IsNull() && compare(v, low) >= 0 && compare(v, high) <= 0
		}
}

func texts(a, b hudi.Value) int   { return cmp.Compare(a.Text(), b.Text()) }
func longs(a, b hudi.Value) int   { return cmp.Compare(a.Long(), b.Long()) }
func doubles(a, b hudi.Value) int { return cmp.Compare(a.Double(), b.Double()) }

// those are the keys and last cells of the rows of seq that matter.
func those(t *testing.T, seq iter.Seq2[*hudi.Record, error], matters func(*hudi.Record) bool) (list []string) {
	t.Helper()
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		if matters(r) {
			list = append(list, strings.Clone(r.Key.Record)+" "+strings.Clone(r.Row[8].Text()))
		}
	}
	return list
}

// TestSelect: whatever range of whatever columns is asked for, no row that
// matters is missing; and where the values are in order little is read.
func TestSelect(t *testing.T) {
	rs := benchRecords(12_000)
	r := rand.New(rand.NewPCG(7, 8))
	s := benchSchema(t)
	at := func(name string) int {
		i, _ := s.Lookup(name)
		return i
	}
	for i := range rs {
		row := rs[i].Row
		row[at("l0")] = hudi.Long(int64(i))
		row[at("d")] = hudi.Double(float64(i) / 7)
		row[at("s0")] = hudi.String(fmt.Sprintf("a long beginning that all have %06d", i))
		row[at("_rescued")] = hudi.String(fmt.Sprintf("%06d", r.IntN(1000)))
		if i%3 == 0 {
			row[at("l1")], row[at("s1")] = hudi.Value{}, hudi.String("")
		}
		if i > 8000 {
			row[at("s2")] = hudi.Value{}
		}
	}
	o := options()
	o.RowGroupBytes = 2 << 20
	data, _ := write(t, s, o, rs...)
	columns := map[string]func(a, b hudi.Value) int{"l0": longs, "l1": longs, "d": doubles, "s0": texts, "s1": texts, "s2": texts, "_rescued": texts, "_doc": texts, "_id": texts}
	names := []string{"l0", "l1", "d", "s0", "s1", "s2", "_rescued", "_doc", "_id"}
	read, whole := int64(0), int64(0)
	for n := range 16 {
		var hints []basefile.Hint
		var tests []func(*hudi.Record) bool
		for range 1 + n%2 {
			name := names[r.IntN(len(names))]
			low, high := rs[r.IntN(len(rs))].Row[at(name)], rs[r.IntN(len(rs))].Row[at(name)]
			if low.IsNull() || high.IsNull() {
				continue
			}
			if columns[name](low, high) > 0 {
				low, high = high, low
			}
			hint, holds := between(name, low, high, columns[name])
			hints = append(hints, hint)
			tests = append(tests, func(r *hudi.Record) bool { return holds(r.Row[at(name)]) })
		}
		matters := func(r *hudi.Record) bool {
			return !slices.ContainsFunc(tests, func(f func(*hudi.Record) bool) bool { return !f(r) })
		}
		want := those(t, open(t, data).Records(s, "_rev_order"), matters)
		if got := those(t, open(t, data).Select(hints, s, "_rev_order"), matters); !slices.Equal(got, want) {
			t.Fatalf("%d: %d rows, want %d", n, len(got), len(want))
		}
	}
	for _, c := range []struct {
		n    *int64
		hint []basefile.Hint
	}{{&whole, nil}, {&read, []basefile.Hint{{Column: "l0", May: func(least, greatest hudi.Value) bool {
		return greatest.Long() >= 6000 && least.Long() <= 6010
	}}}}} {
		counted := &counting{ReaderAt: bytes.NewReader(data)}
		f, err := basefile.Open(counted, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, err := range f.Select(c.hint, s, "_rev_order") {
			if err != nil {
				t.Fatal(err)
			}
			rows++
		}
		*c.n = counted.n.Load()
		t.Logf("%d bytes for %d rows", *c.n, rows)
	}
	if read*4 > whole {
		t.Errorf("%d bytes for eleven rows, %d for all", read, whole)
	}
}

// TestSelectMissing: rows do not matter when the file lacks the column.
func TestSelectMissing(t *testing.T) {
	data, _ := write(t, benchSchema(t), options(), benchRecords(10)...)
	s := schema(t, hudi.Column{Name: "later", Kind: hudi.KindLong})
	hint := basefile.Hint{Column: "later", May: func(_, _ hudi.Value) bool { return true }}
	if got := found(t, open(t, data).Select([]basefile.Hint{hint}, s, "")); len(got) != 0 {
		t.Fatal(got)
	}
}
