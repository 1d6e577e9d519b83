package reader_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// parsed is a predicate.
func parsed(t testing.TB, text string) *reader.Where {
	t.Helper()
	w, err := reader.ParseWhere(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// randomWhere makes conditions that hold for some of the rows.
func randomWhere(r *rand.Rand) string {
	key := func() string { return fmt.Sprintf("'k%03d'", r.IntN(120)) }
	order := func() int { return r.IntN(12) }
	kinds := []func() string{
		func() string { return "_id = " + key() },
		func() string { return "_id in (" + key() + "," + key() + "," + key() + ")" },
		func() string { return "_id >= " + key() },
		func() string { return "_hoodie_record_key < " + key() },
		func() string { return "_id != " + key() },
		func() string { return fmt.Sprintf("_rev_order > %d", order()) },
		func() string { return fmt.Sprintf("_rev_order <= %d", order()) },
		func() string { return fmt.Sprintf("_rev_order in (%d, %d)", order(), order()) },
		func() string { return fmt.Sprintf("v >= '%d'", r.IntN(10)) },
		func() string { return fmt.Sprintf("v = '%d'", r.IntN(40)) },
		func() string { return "v is null" },
		func() string { return "v is not null" },
		func() string { return "_deleted = false" },
		func() string { return "_hoodie_partition_path = 'pt=b'" },
		func() string { return "_hoodie_commit_time > '20260102030410'" },
	}
	text := []string{kinds[r.IntN(len(kinds))]()}
	for range r.IntN(3) {
		text = append(text, kinds[r.IntN(len(kinds))]())
	}
	return strings.Join(text, " and ")
}

// kept is what a predicate leaves of all rows, and of their columns.
func kept(t *testing.T, s *hudi.Schema, where string, partitions []string, all iter.Seq2[*hudi.Record, error]) []string {
	t.Helper()
	f, err := parsed(t, where).Bind(s)
	if err != nil {
		t.Fatal(err)
	}
	return seen(t, s, func(yield func(*hudi.Record, error) bool) {
		for r, err := range all {
			in := err != nil || len(partitions) == 0 || slices.Contains(partitions, r.Key.Partition)
			if in && (err != nil || f.Keeps(r)) && !yield(r, err) {
				return
			}
		}
	})
}

// randomCommits writes base files and logs to three groups: newer versions,
// late ones, deletes and tombstones.
func randomCommits(f *fixture, r *rand.Rand) []hudi.Time {
	groups := []struct {
		partition string
		id        hudi.FileID
	}{{"pt=a", "g-0"}, {"pt=a", "h-0"}, {"pt=b", "i-0"}}
	times := []hudi.Time{""}
	base := map[hudi.FileID]hudi.Time{}
	for version := range 5 {
		var writes []write
		for g, where := range groups {
			if version > 0 && r.IntN(2) == 0 {
				continue
			}
			var rs []hudi.Record
			for i := g; i < 120; i += len(groups) {
				order := int64(r.IntN(12))
				key := fmt.Sprintf("k%03d", i)
				switch pick := r.IntN(10); {
				case pick < 3:
				case pick == 3 && base[where.id] != "":
					rs = append(rs, remove(key, order))
				case pick == 4:
					rs = append(rs, tombstone(key, order))
				default:
					rs = append(rs, put(key, order, strconv.Itoa(r.IntN(40))))
				}
			}
			w := logOf(where.partition, where.id, base[where.id], version, rs...)
			if base[where.id] == "" {
				w = baseOf(where.partition, where.id, rs...)
			}
			writes = append(writes, w)
		}
		times = append(times, f.commit(writes...))
		for _, where := range groups {
			if base[where.id] == "" {
				base[where.id] = times[len(times)-1]
			}
		}
	}
	return times
}

// TestWherePushed: what is not read because of a predicate or of partitions is
// not missing, in any way of reading, from tables where newer versions, late
// ones and deletes lie in logs over base files.
func TestWherePushed(t *testing.T) {
	rows := 0
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFixture(t)
		times := randomCommits(f, r)
		v := f.view()
		for range 60 {
			where := randomWhere(r)
			full := reader.Options{IncludeDeletes: r.IntN(2) == 0}
			if r.IntN(4) == 0 {
				full.Memory, full.TempDir = 1, t.TempDir()
			}
			o := full
			o.Where = parsed(t, where)
			if r.IntN(3) == 0 {
				o.Partitions = []string{[]string{"pt=a", "pt=b", "pt=c"}[r.IntN(3)]}
			}
			from, to := r.IntN(len(times)), r.IntN(len(times))
			ways := map[string]func(reader.Options) iter.Seq2[*hudi.Record, error]{
				"snapshot":       func(o reader.Options) iter.Seq2[*hudi.Record, error] { return reader.Snapshot(t.Context(), v, o) },
				"read optimized": func(o reader.Options) iter.Seq2[*hudi.Record, error] { return reader.ReadOptimized(t.Context(), v, o) },
				"incremental": func(o reader.Options) iter.Seq2[*hudi.Record, error] {
					return reader.Incremental(t.Context(), v, times[min(from, to)], times[max(from, to)], o)
				},
				"as of": func(o reader.Options) iter.Seq2[*hudi.Record, error] {
					return reader.Snapshot(t.Context(), v.AsOf(times[max(from, to)]), o)
				},
			}
			for name, read := range ways {
				want := kept(t, f.schema, where, o.Partitions, read(full))
				got := seen(t, f.schema, read(o))
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, %s, %s in %q:\n%s\nwant:\n%s", seed, name, where, o.Partitions, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				rows += len(got)
			}
		}
	}
	if rows < 5000 {
		t.Fatalf("%d rows in all: the predicates ask for next to nothing", rows)
	}
}

// TestWhereColumns: columns that the predicate alone needs are read and not
// yielded; one that is not there is an error before anything is read.
func TestWhereColumns(t *testing.T) {
	f := newFixture(t)
	f.commit(baseOf("pt=a", "g-0", put("a", 1, "x"), put("b", 2, "y")))
	o := reader.Options{Columns: []string{"v", "_id"}, Where: parsed(t, "_rev_order = 2")}
	for r, err := range reader.Snapshot(t.Context(), f.view(), o) {
		if err != nil || len(r.Row) != 2 || r.Row[0].Text() != "y" || r.Row[1].Text() != "b" {
			t.Fatalf("%v %v", r, err)
		}
	}
	o.Where = parsed(t, "w = 2")
	var wrong *reader.WhereError
	if err := failure(reader.Snapshot(t.Context(), f.view(), o)); !errors.As(err, &wrong) || wrong.Column != "w" {
		t.Fatal(err)
	}
}

// reads counts what a reading asks of storage.
type reads struct {
	requests, bytes int64
	files           map[string]bool
}

// exact is a store of which is read what is asked, as of files.
type exact struct{ storage.Driver }

// counted opens the table anew over a bucket that counts.
func (f *fixture) counted() (*table.View, *reads) {
	f.t.Helper()
	n := &reads{files: map[string]bool{}}
	b := storage.New(exact{f.driver}, &storage.Options{Observe: func(e storage.Event) {
		if e.Op == "read" && !strings.HasPrefix(e.Name, ".hoodie/") {
			n.requests++
			n.bytes += e.Bytes
			n.files[e.Name] = true
		}
	}})
	return openView(f.t, b), n
}

// scattered is a key that tells nothing of its neighbours in number.
func scattered(i int) string { return fmt.Sprintf("%08x", uint32(i)*2654435761) }

// scatteredRows is a table of n rows in ten base files, each with keys from end
// to end, so that only filters tell which one has a key.
func scatteredRows(t testing.TB, n int) *fixture {
	t.Helper()
	const files = 10
	f := newFixture(t)
	r := rand.New(rand.NewPCG(9, 9))
	var writes []write
	for file := range files {
		rs := make([]hudi.Record, 0, n/files)
		for i := file; i < n; i += files {
			var text strings.Builder
			for range 24 { // as many bytes as a small document
				fmt.Fprintf(&text, "%016x", r.Uint64())
			}
			rs = append(rs, put(scattered(i), 1, text.String()))
		}
		writes = append(writes, baseOf("pt=a", hudi.FileID(fmt.Sprintf("g%d-0", file)), rs...))
	}
	f.commit(writes...)
	return f
}

func (f *fixture) asked(where string, o reader.Options) (rows int, n *reads) {
	f.t.Helper()
	v, n := f.counted()
	if where != "" {
		o.Where = parsed(f.t, where)
	}
	for _, err := range reader.Snapshot(f.t.Context(), v, o) {
		if err != nil {
			f.t.Fatal(err)
		}
		rows++
	}
	return rows, n
}

// TestOneKey: a key is found by the footers and one page of each column, not by
// reading the table.
func TestOneKey(t *testing.T) {
	f := scatteredRows(t, 60_000)
	all, whole := f.asked("", reader.Options{})
	none, footers := f.asked("_id = 'no such key'", reader.Options{})
	one, n := f.asked("_id = '"+scattered(12_345)+"'", reader.Options{})
	if all != 60_000 || none != 0 || one != 1 {
		t.Fatalf("%d rows, %d of no key, %d of one", all, none, one)
	}
	t.Logf("whole table: %d bytes in %d requests; no key: %d in %d; one key: %d in %d", whole.bytes, whole.requests, footers.bytes, footers.requests, n.bytes, n.requests)
	if pages := n.bytes - footers.bytes; pages*20 > whole.bytes || n.bytes*8 > whole.bytes {
		t.Errorf("%d bytes of footers and %d of pages are read, of %d", footers.bytes, pages, whole.bytes)
	}
	if n.requests-footers.requests > 30 {
		t.Errorf("%d requests for a page of each column", n.requests-footers.requests)
	}
	if rows, n := f.asked("", reader.Options{Partitions: []string{"pt=b"}}); rows != 0 || n.requests != 0 {
		t.Errorf("%d rows, %d requests for another partition", rows, n.requests)
	}
	if rows, n := f.asked("v > 'z'", reader.Options{}); rows != 0 || n.bytes*10 > footers.bytes*11 {
		t.Errorf("%d rows, %d bytes for values beyond what statistics say", rows, n.bytes)
	}
	if rows, n := f.asked("", reader.Options{Columns: []string{"_rev_order"}}); rows != all || n.bytes*3 > whole.bytes {
		t.Errorf("%d rows, %d bytes of %d for one small column", rows, n.bytes, whole.bytes)
	}
}
