package compaction_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// written is how many commits there are before a process dies.
const written = 2

// process is one life of a writer: it recovers, commits the batch unless it is in
// the table, and runs what is due, inline.
func (w *world) process(d storage.Driver, batch []hudi.Located) (err error) {
	ctx := context.Background()
	tb, err := table.Open(ctx, storage.New(d, nil), w.options())
	if err != nil {
		return err
	}
	lease, err := tb.Lease(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Close() }()
	if _, err := tb.Recover(ctx); err != nil {
		return err
	}
	var failed error
	s := compaction.New(compaction.Options{Table: tb, Mode: compaction.Inline, Clock: w.clock.Now,
		Policy: compaction.Policy{MaxDeltaCommits: 1, MinGap: 1}, Run: compaction.RunOptions{Memory: 1, TempDir: w.t.TempDir()},
		Events: compaction.Events{Failed: failing(&failed)}})
	if err := s.Due(ctx); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	v, err := tb.View(ctx)
	if err != nil {
		return err
	}
	if there, err := deltaCommits(ctx, v); err != nil {
		return err
	} else if there < written+1 {
		if err := w.write(ctx, tb, slices.Clone(batch)); err != nil {
			return err
		}
	}
	w.clock.add(time.Second)
	return errors.Join(s.Due(ctx), failed)
}

// deltaCommits counts the delta commits of a table.
func deltaCommits(ctx context.Context, v *table.View) (n int, err error) {
	for _, i := range v.Writes() {
		b, err := v.Body(ctx, i)
		if err != nil {
			return 0, err
		}
		if !b.Compacted {
			n++
		}
	}
	return n, nil
}

// A process dies at each write of commits, plans and runs, before and after it
// takes effect; the next one dies at some write of its own; the third finishes.
// Every row is there once, no matter what, and nothing lies about.
func TestCrashAtEveryWrite(t *testing.T) {
	steps, stride := map[string]int{}, 1
	if testing.Short() {
		stride = 13
	}
	for _, after := range []bool{false, true} {
		for k := 1; ; k += stride {
			if !crashAt(t, storagetest.Crash{At: k, After: after}, steps) {
				break
			}
		}
	}
	for _, step := range []string{".compaction.requested", ".compaction.inflight", ".heartbeat/", ".marker.MERGE", ".parquet", ".commit"} {
		if steps[step] < 2 && stride == 1 {
			t.Errorf("%d deaths at %s: %v", steps[step], step, steps)
		}
	}
}

// crashAt says whether the process died, and counts at what.
func crashAt(t *testing.T, crash storagetest.Crash, steps map[string]int) bool {
	t.Helper()
	w := newWorld(t, 4)
	for range written {
		w.commit(14)
	}
	w.must(w.lease.Close())
	batch := w.batch(9)
	w.note(batch)
	crasher := storagetest.NewCrasher(w.store, crash)
	err := w.process(crasher, batch)
	if !crasher.Dead() {
		w.must(err)
		w.check("alive")
		w.settled("alive")
		return false
	}
	ops := crasher.Ops()
	last := ops[len(ops)-1].Name
	for _, step := range []string{".compaction.requested", ".compaction.inflight", ".heartbeat/", ".marker.MERGE", ".commit", ".parquet"} {
		if strings.HasSuffix(last, step) || strings.Contains(last, step) && strings.HasSuffix(step, "/") {
			steps[step]++
			break
		}
	}
	second := storagetest.NewCrasher(w.store, storagetest.Crash{At: 1 + crash.At%7, After: !crash.After})
	_ = w.process(second, batch) // dies, or is the third already
	where := crasher.Where() + ", then " + second.Where()
	w.must(w.process(w.store, batch))
	w.check(where)
	w.settled(where)
	if left := w.orphans(); len(left) > 0 {
		t.Fatalf("%s: left over %v", where, left)
	}
	return true
}
