package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/filter"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/rebucket"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// bucketWorld is a world whose table has n buckets, after some rounds.
func bucketWorld(t *testing.T, seed uint64, n, rounds, edits int, hard bool) *world {
	t.Helper()
	w := newWorld(t, seed)
	w.partitioned, w.hard = true, hard
	w.buckets(n)
	for range rounds {
		w.round(edits)
		w.must(w.ingest(w.driver))
		w.check("before rebucketing")
	}
	return w
}

// buckets makes the next ingests write n buckets, and a table that they create.
func (w *world) buckets(n int) {
	p := pipeline.Pins{Ordering: pipeline.OrderingLeafSum, Layout: pipeline.Layout{Index: "bucket", Buckets: n, Key: "_id",
		PartitionField: "day", PartitionFormat: "yyyyMMdd", PartitionName: "pt"}}
	w.pinned = p.Properties()
	w.layoutOf(p)
}

func (w *world) rebucket(d storage.Driver, o rebucket.Options) (done pipeline.Rebucketed, err error) {
	ctx := context.Background()
	t, err := table.Open(ctx, storage.New(d, nil), table.Options{})
	if err != nil {
		return done, err
	}
	lease, err := t.Lease(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, closeQuietly(lease)) }()
	return pipeline.Rebucket(ctx, t, o)
}

// stored is every row with its meta columns, as text, by key; and the buckets are
// those of n.
func (w *world) stored(v *table.View, n int) map[string]string {
	w.t.Helper()
	ctx := context.Background()
	all := map[string]string{}
	partitions, err := v.Partitions(ctx)
	w.must(nil, err)
	schema, err := v.Schema(ctx)
	w.must(nil, err)
	for _, p := range partitions {
		list, err := v.Slices(ctx, p)
		w.must(nil, err)
		_, err = hudi.BucketSlices(list, n)
		w.must(nil, err)
		for _, s := range list {
			b, _ := hudi.BucketOf(s.File)
			for r, err := range reader.Slice(ctx, v, s, schema, reader.Options{}) {
				w.must(nil, err)
				if hudi.Bucket(r.Key.Record, n) != b {
					w.t.Fatalf("%q is in %s", r.Key.Record, s.File)
				}
				all[p+"/"+r.Key.Record] = fmt.Sprint(r.CommitTime, r.CommitSeqno, r.Order, r.Row)
			}
		}
	}
	return all
}

func sameRows(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Fatalf("%s: %d rows, want %d, or others", what, len(got), len(want))
	}
}

// TestRebucket changes the number up and down: rows, with their commit times,
// and incremental reads are what they were; the checkpoint goes on.
func TestRebucket(t *testing.T) {
	t.Run("tombstones", func(t *testing.T) { rebucketed(t, bucketWorld(t, 51, 4, 4, 60, false)) })
	t.Run("hard deletes", func(t *testing.T) { rebucketed(t, bucketWorld(t, 56, 4, 4, 60, true)) })
}

func rebucketed(t *testing.T, w *world) {
	was := 4
	numbers := []int{8, 3, 1, 7}
	if testing.Short() {
		numbers = numbers[:2]
	}
	for _, n := range numbers {
		before := w.view()
		rows := w.stored(before, was)
		seq := w.lastSeq()
		done, err := w.rebucket(w.driver, rebucket.Options{Buckets: n, Memory: 1 << 16})
		w.must(nil, err)
		if done.From != was || done.Rows != int64(len(rows)) || done.Dropped != 0 || done.Files == 0 || done.Instant == "" {
			t.Fatalf("%+v, of %d rows", done, len(rows))
		}
		after := w.view()
		if after.Last() != done.Instant {
			t.Fatalf("the last commit is %s, not %s", after.Last(), done.Instant)
		}
		sameRows(t, "rows", w.stored(after, n), rows)
		sameRows(t, "the past", w.stored(after.AsOf(before.Last()), was), rows)
		w.check(fmt.Sprintf("%d buckets", n))
		if w.lastSeq() != seq {
			t.Error("last_seq was not carried on")
		}
		if got := after.Table().Properties().Get(hudi.PropBuckets); got != strconv.Itoa(n) {
			t.Errorf("hoodie.properties has %s buckets", got)
		}
		for r, err := range reader.Incremental(t.Context(), after, before.Last(), "", reader.Options{}) {
			t.Fatalf("a reader who goes on sees %v, %v", r, err)
		}
		w.round(40)
		if _, err := w.ingest(w.driver); !errors.Is(err, pipeline.ErrPinned) || !strings.Contains(err.Error(), fmt.Sprintf("table.buckets is %d", n)) {
			t.Fatalf("a start with the old number: %v", err)
		}
		w.buckets(n)
		w.must(w.ingest(w.driver))
		w.check(fmt.Sprintf("the next commits into %d buckets", n))
		was = n
	}
	// The same number again writes nothing.
	last := w.view().Last()
	done, err := w.rebucket(w.driver, rebucket.Options{Buckets: was})
	if err != nil || done.Instant != "" || w.view().Last() != last {
		t.Fatalf("%+v, %v", done, err)
	}
}

// Refusals: a table of another index, of another engine, with a pending
// compaction; and of a table without commits only the pin changes.
func TestRebucketRefuses(t *testing.T) {
	w := newWorld(t, 52)
	w.layoutOf(bloomPins())
	w.must(w.db.Put("a", []byte(`{"n":1,"day":"2024-01-01"}`)))
	w.must(w.ingest(w.driver))
	if _, err := w.rebucket(w.driver, rebucket.Options{Buckets: 4}); !errors.Is(err, pipeline.ErrPinned) || !strings.Contains(err.Error(), "table.index is bloom") {
		t.Errorf("a bloom table: %v", err)
	}
	w = bucketWorld(t, 53, 4, 1, 10, false)
	plan, err := commitmeta.EncodeCompactionPlan(commitmeta.CompactionPlan{})
	w.must(nil, err)
	next, err := w.view().Last().Next()
	w.must(nil, err)
	name := ".hoodie/" + string(next) + ".compaction.requested"
	w.must(storage.New(w.driver, nil).Put(t.Context(), name, plan))
	if _, err := w.rebucket(w.driver, rebucket.Options{Buckets: 8}); !errors.Is(err, table.ErrForeign) {
		t.Errorf("a pending compaction: %v", err)
	}
	w = newWorld(t, 54)
	w.partitioned = true
	w.buckets(4)
	w.must(w.open(t.Context(), w.driver))
	if done, err := w.rebucket(w.driver, rebucket.Options{Buckets: 8}); err != nil || done.Instant != "" {
		t.Errorf("an empty table: %+v, %v", done, err)
	}
	w.buckets(8)
	w.must(w.db.Put("a", []byte(`{"n":1,"day":"2024-01-01"}`)))
	w.must(w.ingest(w.driver))
	bare := teststore.New(t)
	w.must(table.Create(t.Context(), storage.New(bare, nil), table.CreateOptions{Name: "docs"}, table.Options{}))
	if _, err := w.rebucket(bare, rebucket.Options{Buckets: 8}); !errors.Is(err, pipeline.ErrPinned) {
		t.Errorf("a table that says nothing: %v", err)
	}
}

// copied is a store with the same objects.
func copied(t *testing.T, d storage.Driver) storage.Driver {
	t.Helper()
	from, to := storage.New(d, nil), teststore.New(t)
	for o, err := range from.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		const most = 1 << 20
		data, err := from.ReadAll(t.Context(), o.Name, most)
		if err == nil {
			_, err = storage.New(to, nil).Put(t.Context(), o.Name, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestRebucketCrashSweep dies at each write of a rebucketing, before and after
// its effect: the table has the old number of buckets or the new one, all its
// rows, and takes the next commit; and a second attempt comes to the end.
func TestRebucketCrashSweep(t *testing.T) {
	const was, n = 3, 5
	w := bucketWorld(t, 55, was, 2, 9, false)
	start, rows := w.driver, w.stored(w.view(), was)
	old, newer, stride := 0, 0, 1
	if testing.Short() {
		stride = 23
	}
	for _, after := range []bool{false, true} {
		for k := 1; ; k += stride {
			w.driver = copied(t, start)
			crasher := storagetest.NewCrasher(w.driver, storagetest.Crash{At: k, After: after})
			_, err := w.rebucket(crasher, rebucket.Options{Buckets: n})
			if !crasher.Dead() {
				w.must(nil, err)
				break
			}
			v := w.view()
			have, err := pipeline.ReadPins(t.Context(), v)
			w.must(nil, err)
			sameRows(t, crasher.Where(), w.stored(v, have.Buckets), rows)
			w.check(crasher.Where())
			if have.Buckets == was {
				old++
			} else {
				newer++
			}
			w.buckets(have.Buckets)
			again := w.driver
			w.driver = copied(t, again)
			w.must(w.ingest(w.driver))
			w.check(crasher.Where() + ", ingested")
			if got := w.view().Table().Properties().Get(hudi.PropBuckets); got != strconv.Itoa(have.Buckets) {
				t.Fatalf("%s: hoodie.properties has %s buckets after a start, the table %d", crasher.Where(), got, have.Buckets)
			}
			w.nothingLeft()
			w.driver = again
			w.must(w.rebucket(w.driver, rebucket.Options{Buckets: n}))
			sameRows(t, crasher.Where()+", again", w.stored(w.view(), n), rows)
			if got := w.view().Table().Properties().Get(hudi.PropBuckets); got != strconv.Itoa(n) {
				t.Fatalf("%s, again: hoodie.properties has %s buckets", crasher.Where(), got)
			}
			w.nothingLeft()
		}
	}
	if !testing.Short() && (old < 20 || newer < 6) {
		t.Fatalf("%d crashes left the old number, %d the new one", old, newer)
	}
	t.Logf("%d crashes left the old number, %d the new one", old, newer)
}

// What a table says of its filter stands in the commit that rebuckets it, as in
// every other.
func TestRebucketKeepsTheFilter(t *testing.T) {
	w := newWorld(t, 11)
	w.partitioned, w.hard = true, true
	only, err := filter.Compile("n >= 0")
	if err != nil {
		t.Fatal(err)
	}
	w.shape = func(o *normalize.Options) { o.Filter = only }
	w.buckets(2)
	w.round(40)
	w.must(w.ingest(w.driver))
	before, err := pipeline.ReadFilter(t.Context(), w.view())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.rebucket(w.driver, rebucket.Options{Buckets: 4}); err != nil {
		t.Fatal(err)
	}
	after, err := pipeline.ReadFilter(t.Context(), w.view())
	if err != nil || after != before || after.Filter == "" {
		t.Errorf("%+v, %v; before %+v", after, err, before)
	}
}
