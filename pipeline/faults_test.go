package pipeline_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

var storms = flag.Int("fault.storms", 3, "how many seeds of random faults are run")

// kept is a world whose table is compacted, cleaned and archived all the time.
func kept(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed)
	w.partitioned, w.maxRows = true, 40
	w.tune = func(o *pipeline.Options) {
		smallFiles(o)
		o.Services = compaction.New(compaction.Options{Table: o.Table, Mode: compaction.Inline, Run: compaction.RunOptions{Memory: 1 << 16},
			Policy:  compaction.Policy{MaxDeltaCommits: 2, MaxAge: time.Hour, MinGap: time.Nanosecond},
			Clean:   compaction.CleanPolicy{By: compaction.ByCommits, Keep: 2, Every: time.Nanosecond},
			Archive: compaction.ArchivePolicy{KeepMin: 3, KeepMax: 4}})
	}
	return w
}

// latest compares the table's rows with the database. What they were before is
// cleaned.
func (w *world) latest(what string) {
	w.t.Helper()
	w.equal(what, w.model(), w.snapshot())
}

// The store answers with an error, or not in time, to each operation of a run that
// also compacts, cleans and archives: before the operation took effect, or after. The
// run goes on or ends; started again the table equals the source, and nothing is in
// it twice.
func TestFaultSweep(t *testing.T) {
	kinds := []storagetest.Kind{storagetest.Stat, storagetest.Read, storagetest.Put, storagetest.Create, storagetest.Write,
		storagetest.Commit, storagetest.List, storagetest.Delete, storagetest.Sweep}
	for i, kind := range kinds {
		for j, after := range []bool{false, true} {
			step := *stride * 15
			if kind == storagetest.Read || kind == storagetest.Stat {
				step *= 3
			}
			if *stride == 1 {
				step = 1
			}
			for k := 1 + (i*5+j*3)%step; ; k += step {
				err := error(nil)
				if k%2 == 0 {
					err = context.DeadlineExceeded
				}
				if !faultAt(t, storagetest.Fault{Kind: kind, N: k, After: after, Err: err}) {
					break
				}
			}
		}
	}
}

// faultAt runs some rounds with one fault and says whether it came to that.
func faultAt(t *testing.T, f storagetest.Fault) bool {
	t.Helper()
	w := kept(t, 11)
	faulty := storagetest.Faults(w.driver, f)
	what := fmt.Sprintf("fault at %s %d, after it %v, %v", f.Kind, f.N, f.After, f.Err)
	for r := range 5 {
		w.round(15)
		before := faulty.Hit()
		if _, err := w.ingest(faulty); err != nil {
			if faulty.Hit() == before {
				t.Fatalf("%s: round %d: %v", what, r, err)
			}
			if _, again := w.ingest(faulty); again != nil {
				t.Fatalf("%s: round %d ended with %v; started again: %v", what, r, err, again)
			}
		}
		w.latest(fmt.Sprintf("%s: round %d", what, r))
	}
	w.nothingLeft()
	return faulty.Hit() > 0
}

// Stores that fail again and again, at random, also while a run is recovering from
// the last fault: sooner or later each round is through, and all is there once. The
// locks are leases, in the same store.
func TestFaultStorm(t *testing.T) {
	for seed := range uint64(*storms) {
		w := kept(t, seed)
		r := rand.New(rand.NewPCG(seed, 7))
		hits, tries := 0, 0
		for round := range 6 {
			w.round(20)
			for try := 1; ; try++ {
				tries++
				share := 0.02 * r.Float64() / float64(try)
				faulty := storagetest.RandomFaults(w.driver, rand.New(rand.NewPCG(seed, r.Uint64())), share)
				p := storagetest.NewProcess(faulty, storagetest.ProcessOptions{Skew: time.Duration(tries) * time.Hour})
				h := host{p, storagetest.Leased(p, storage.LeaseOptions{Clock: p.Clock})}
				_, err := w.takeOver(h)
				hits += faulty.Hit()
				if err == nil {
					break
				}
				if try == 100 {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
			w.latest(fmt.Sprintf("seed %d, round %d", seed, round))
		}
		w.nothingLeft()
		t.Logf("seed %d: %d faults, %d starts for 6 rounds", seed, hits, tries)
	}
}
