package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// serving makes every ingest compact what has so many log files, or any for
// longer than age.
func (w *world) serving(m compaction.Mode, logs int, age time.Duration, e compaction.Events) func(*pipeline.Options) {
	return func(o *pipeline.Options) {
		smallFiles(o)
		o.Services = compaction.New(compaction.Options{Table: o.Table, Mode: m, Events: e, Run: compaction.RunOptions{Memory: 1 << 16},
			Policy: compaction.Policy{MaxDeltaCommits: logs, MaxAge: age, MinGap: time.Nanosecond}})
	}
}

// compactions counts the completed ones.
func (w *world) compactions() int {
	w.t.Helper()
	n, v := 0, w.view()
	for _, i := range v.Writes() {
		b, err := v.Body(context.Background(), i)
		w.must(nil, err)
		if b.Compacted {
			n++
		}
	}
	return n
}

// The invariants of the simulation with services in every mode.
func TestSimulationWithServices(t *testing.T) {
	seeds := *seeds
	if testing.Short() {
		seeds = 1
	}
	for seed := range uint64(seeds) {
		for k, mode := range []compaction.Mode{compaction.Async, compaction.Inline, compaction.ScheduleOnly} {
			partitioned, hard := (seed+uint64(k))%2 == 0, (seed+uint64(k))%3 == 0
			t.Run(fmt.Sprintf("seed=%d,mode=%s,partitioned=%t,hard=%t", seed, mode, partitioned, hard), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, seed)
				w.partitioned, w.hard, w.maxRows = partitioned, hard, 60
				w.tune = w.serving(mode, 2, time.Hour, compaction.Events{Failed: func(what string, err error, _ time.Duration) { t.Errorf("%s: %v", what, err) }})
				for r := range *rounds {
					w.round(20 + w.rand.IntN(120))
					w.must(w.ingest(w.driver))
					w.check(fmt.Sprintf("round %d", r))
					if mode == compaction.ScheduleOnly && r%2 == 1 {
						w.runPending()
						w.check(fmt.Sprintf("round %d, compacted", r))
					}
				}
				if n := w.compactions(); n < 2 {
					t.Errorf("%d compactions", n)
				}
			})
		}
	}
}

// runPending is another process that runs what is planned, without the lease.
func (w *world) runPending() {
	w.t.Helper()
	t, err := w.open(context.Background(), w.driver)
	w.must(t, err)
	for _, i := range w.view().Compactions() {
		w.must(compaction.Run(context.Background(), t, i.Time, compaction.RunOptions{}))
	}
}

// TestCrashSweepWithServices dies at storage writes of a run of several commits
// and compactions, before and after their effect, starts again and compares.
func TestCrashSweepWithServices(t *testing.T) {
	deaths, stride := 0, 3
	if testing.Short() {
		stride = 61
	}
	for _, after := range []bool{false, true} {
		first := map[bool]int{false: 1, true: 2} // not the same writes in both
		for k := first[after]; ; k += stride {
			w := newWorld(t, 43)
			w.partitioned = true
			w.tune = w.serving(compaction.Inline, 1, time.Hour, compaction.Events{})
			crasher := storagetest.NewCrasher(w.driver, storagetest.Crash{At: k, After: after})
			for r := range 4 {
				w.round(15)
				_, err := w.ingest(crasher)
				if crasher.Dead() {
					w.must(w.ingest(w.driver))
				} else if err != nil {
					t.Fatalf("round %d, alive: %v", r, err)
				}
				w.check("after a crash " + crasher.Where())
			}
			if w.compactions() == 0 {
				t.Fatalf("no compaction, %s", crasher.Where())
			}
			w.nothingLeft()
			if !crasher.Dead() {
				break
			}
			ops := crasher.Ops()
			if strings.Contains(ops[len(ops)-1].Name, ".compaction.") {
				deaths++
			}
		}
	}
	if deaths == 0 && !testing.Short() {
		t.Error("no death in a compaction's instant")
	}
}

// keepUp runs an ingest that does not end by itself before ctx does.
func (w *world) keepUp(ctx context.Context, tune func(*pipeline.Options)) (err error) {
	t, err := w.open(ctx, w.driver)
	if err != nil {
		return err
	}
	lease, err := t.Lease(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeQuietly(lease)) }()
	return w.keepUpLeased(ctx, t, tune)
}

func (w *world) keepUpLeased(ctx context.Context, t *table.Table, tune func(*pipeline.Options)) (err error) {
	source, err := couchdb.Open(ctx, couchdb.Options{URL: w.server.URL() + "/docs"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, io.Closer(source).Close()) }()
	var done []pipeline.Progress
	o := w.options(source, t, "", &done)
	o.Once = false
	tune(&o)
	p, err := pipeline.New(ctx, o)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// A table whose database is quiet is compacted by age, so that read-optimized
// views do not stay behind.
func TestQuietTableIsCompacted(t *testing.T) {
	w := newWorld(t, 8)
	w.tune = func(o *pipeline.Options) { o.Writer.MaxRewrite = -1 }
	w.round(100)
	w.must(w.ingest(w.driver))
	w.round(100)
	w.must(w.ingest(w.driver))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var told error
	w.must(nil, w.keepUp(ctx, w.serving(compaction.Async, 1000, time.Second, compaction.Events{
		Compacted: func(compaction.Result) { cancel() },
		Failed:    func(_ string, err error, _ time.Duration) { told = err; cancel() }})))
	if told != nil || w.compactions() == 0 {
		t.Errorf("%d compactions, %v", w.compactions(), told)
	}
	w.check("quiet")
}
