package compaction_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// A run changes no row of any read, neither while it is pending nor after, and
// commits beside it stay on top. Read-optimized rows become those of the plan's
// instant. It does not matter how little memory there is.
func TestRun(t *testing.T) {
	for seed := range uint64(6) {
		w := newWorld(t, seed)
		for range 6 {
			w.commit(14)
		}
		before, increments := w.snapshot(w.view()), w.increments(w.view())
		plan := w.planAll()
		at, err := w.table.Schedule(t.Context(), plan)
		w.must(err)
		if got := w.snapshot(w.fresh()); !slices.Equal(got, before) {
			t.Fatalf("pending:\n got %q\nwant %q", got, before)
		}
		asPlanned := before
		if seed%2 == 1 {
			w.commit(14)
			before, increments = w.snapshot(w.view()), w.increments(w.view())
		}
		merged := 0
		r, err := compaction.Run(t.Context(), w.table, at, compaction.RunOptions{Memory: int64(1 + seed%3*4000), TempDir: t.TempDir(),
			Clock: w.clock.Now, Merged: func(m compaction.Merged) { merged = m.Of - m.Done }})
		w.must(err)
		if r.Slices != len(plan.Operations) || merged != 0 {
			t.Errorf("%+v of %d, %d not told", r, len(plan.Operations), merged)
		}
		for what, v := range map[string]*table.View{"the same process": w.view(), "another": w.fresh()} {
			if got := w.snapshot(v); !slices.Equal(got, before) {
				t.Fatalf("seed %d, %s:\n got %q\nwant %q", seed, what, got, before)
			}
			got := w.increments(v)
			for i, lines := range increments {
				if !slices.Equal(got[i], lines) {
					t.Fatalf("seed %d, %s, increment of %s:\n got %q\nwant %q", seed, what, i, got[i], lines)
				}
			}
			optimized := w.lines(reader.ReadOptimized(t.Context(), v, reader.Options{}))
			if seed%2 == 0 && !slices.Equal(optimized, asPlanned) {
				t.Fatalf("read-optimized\n got %q\nwant %q", optimized, asPlanned)
			}
			if got := w.lines(reader.Snapshot(t.Context(), v.AsOf(at), reader.Options{})); !slices.Equal(got, asPlanned) {
				t.Fatalf("as of the plan\n got %q\nwant %q", got, asPlanned)
			}
		}
		w.stats(at, plan)
		w.settled("after a run")
		w.commit(14)
		w.check("after a commit on top")
	}
}

// stats checks what the commit says.
func (w *world) stats(at hudi.Time, plan commitmeta.CompactionPlan) {
	w.t.Helper()
	v := w.fresh()
	i := slices.IndexFunc(v.Instants(), func(i timeline.Instant) bool { return i.Time == at })
	b, err := v.Body(w.t.Context(), v.Instants()[i])
	w.must(err)
	if !b.Compacted || b.Operation != "COMPACT" || b.Extra[commitmeta.ExtraSchema] == "" || b.Extra[commitmeta.ExtraCheckpoint] != "" {
		w.t.Errorf("%+v", b)
	}
	n := 0
	for _, stats := range b.Stats {
		for _, s := range stats {
			n++
			if s.PrevCommit == "" || s.Compaction.LogFiles == 0 || s.Compaction.LogBytes == 0 || s.Compaction.LogBlocks == 0 || s.Compaction.Updated == 0 || s.Bytes == 0 {
				w.t.Errorf("%+v", s)
			}
		}
	}
	if n != len(plan.Operations) {
		w.t.Errorf("%d stats of %d operations", n, len(plan.Operations))
	}
}

// The search for the last checkpoint walks past compactions.
func TestRunHidesNoCheckpoint(t *testing.T) {
	w := newWorld(t, 1)
	w.commit(10)
	w.commit(10)
	last := w.view().Last()
	at, err := w.table.Schedule(t.Context(), w.planAll())
	w.must(err)
	_, err = compaction.Run(t.Context(), w.table, at, compaction.RunOptions{Clock: w.clock.Now})
	w.must(err)
	value, i, ok, err := w.fresh().Extra(t.Context(), commitmeta.ExtraCheckpoint)
	if w.fresh().Last() != at || !ok || err != nil || i.Time != last || value != string(last) {
		t.Errorf("%q of %s, %v %v; want that of %s", value, i, ok, err, last)
	}
}

// When all rows of a slice are deleted, what is left is a base file without rows.
func TestRunLeavesNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.commit(20)
	var rs []hudi.Located
	for k, at := range w.places {
		rs = append(rs, hudi.Located{Location: at, Record: hudi.Record{Key: hudi.Key{Record: k, Partition: at.Partition}, Order: 9, Delete: true}})
	}
	w.must(w.write(t.Context(), w.table, rs))
	w.note(rs)
	at, err := w.table.Schedule(t.Context(), w.planAll())
	w.must(err)
	r, err := compaction.Run(t.Context(), w.table, at, compaction.RunOptions{Clock: w.clock.Now})
	w.must(err)
	if r.Rows != 0 || r.Bytes == 0 {
		t.Errorf("%+v", r)
	}
	w.check("no rows")
	w.commit(20)
	w.check("rows again")
}

// What goes wrong in a run leaves nothing of it but the plan.
func TestRunFails(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t, 2)
		for range 3 {
			w.commit(14)
		}
		at, err := w.table.Schedule(t.Context(), w.planAll())
		w.must(err)
		faulty := storagetest.Faults(w.store, storagetest.Fault{Kind: storagetest.Write, N: n})
		other, err := table.Open(t.Context(), storage.New(faulty, nil), w.options())
		w.must(err)
		_, err = compaction.Run(t.Context(), other, at, compaction.RunOptions{Clock: w.clock.Now})
		if faulty.Hit() == 0 {
			w.must(err)
			if n < 4 {
				t.Fatalf("only %d writes", n)
			}
			return
		}
		if !errors.Is(err, storagetest.ErrFault) {
			t.Fatalf("%v, want the fault", err)
		}
		if left := w.orphans(); len(left) > 0 {
			t.Fatalf("left over: %v", left)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := compaction.Run(ctx, w.table, at, compaction.RunOptions{Clock: w.clock.Now}); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
		_, err = compaction.Run(t.Context(), w.table, at, compaction.RunOptions{Clock: w.clock.Now})
		w.must(err)
		w.check("run again")
		w.settled("run again")
	}
}
