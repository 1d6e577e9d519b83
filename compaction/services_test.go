package compaction_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// failing notes the last failure.
func failing(to *error) func(string, error, time.Duration) {
	return func(_ string, err error, _ time.Duration) { *to = err }
}

// told is what services told.
type told struct {
	mu        sync.Mutex
	scheduled []hudi.Time
	compacted []hudi.Time
	failed    []error
}

func (o *told) events() compaction.Events {
	return compaction.Events{
		Scheduled: func(at hudi.Time, _ int) { o.mu.Lock(); o.scheduled = append(o.scheduled, at); o.mu.Unlock() },
		Compacted: func(r compaction.Result) { o.mu.Lock(); o.compacted = append(o.compacted, r.Instant); o.mu.Unlock() },
		Failed: func(_ string, err error, _ time.Duration) {
			o.mu.Lock()
			o.failed = append(o.failed, err)
			o.mu.Unlock()
		},
	}
}

func (w *world) services(m compaction.Mode, commits int, o *told) *compaction.Services {
	return compaction.New(compaction.Options{Table: w.table, Mode: m, Clock: w.clock.Now, Events: o.events(),
		Policy: compaction.Policy{MaxDeltaCommits: commits}})
}

// Services in the background: commits go on, slices are compacted by the number
// of their log files, and on a quiet table by their age.
func TestServicesAsync(t *testing.T) {
	w := newWorld(t, 5)
	var o told
	s := w.services(compaction.Async, 3, &o)
	for range 12 {
		w.commit(14)
		w.must(s.Due(t.Context()))
		w.clock.add(time.Minute)
	}
	w.must(s.Wait(t.Context()))
	if len(o.compacted) < 2 || len(o.failed) > 0 || !slices.Equal(o.scheduled, o.compacted) {
		t.Errorf("%+v", &o)
	}
	w.check("beside commits")
	w.clock.add(10 * time.Minute)
	w.must(s.Due(t.Context()))
	w.must(s.Wait(t.Context()))
	w.commit(5)
	w.clock.add(time.Minute)
	n := len(o.compacted)
	w.must(s.Due(t.Context()))
	w.must(s.Wait(t.Context()))
	if len(o.compacted) != n {
		t.Error("compacted a moment after a commit")
	}
	w.clock.add(10 * time.Minute)
	w.must(s.Due(t.Context()))
	w.must(s.Wait(t.Context()))
	if len(o.compacted) != n+1 {
		t.Errorf("%d compactions of a quiet table, want one", len(o.compacted)-n)
	}
	v := w.fresh()
	for _, p := range []string{"pt=0", "pt=1"} {
		list, err := v.Slices(t.Context(), p)
		w.must(err)
		for _, s := range list {
			if len(s.Logs) > 0 {
				t.Errorf("a quiet table has log files: %+v", s)
			}
		}
	}
	w.check("quiet")
	w.settled("quiet")
}

// A plan that Due found no time to run, because a run was just ending, is run at the
// end: nobody would come back for it.
func TestServicesWaitRunsPlans(t *testing.T) {
	w := newWorld(t, 5)
	for range 6 {
		w.commit(14)
	}
	var planned, o told
	w.must(w.services(compaction.ScheduleOnly, 3, &planned).Due(t.Context()))
	w.must(w.services(compaction.Async, 3, &o).Wait(t.Context()))
	if len(planned.scheduled) != 1 || !slices.Equal(o.compacted, planned.scheduled) || len(o.failed) > 0 {
		t.Errorf("planned %v; %+v", planned.scheduled, &o)
	}
	w.check("waited")
	w.settled("waited")
}

// Another process runs what was only planned.
func TestServicesScheduleOnly(t *testing.T) {
	w := newWorld(t, 5)
	var o, off told
	s := w.services(compaction.ScheduleOnly, 3, &o)
	none := w.services(compaction.Off, 1, &off)
	for range 12 {
		w.commit(14)
		w.must(none.Due(t.Context()))
		w.must(s.Due(t.Context()))
		w.clock.add(time.Minute)
	}
	if len(o.scheduled) == 0 || len(o.compacted)+len(o.failed) > 0 || len(off.scheduled)+len(off.failed) > 0 {
		t.Fatalf("%+v, off %+v", &o, &off)
	}
	other, err := table.Open(t.Context(), storage.New(w.store, nil), w.options())
	w.must(err)
	pending := w.view().Compactions()
	if len(pending) != len(o.scheduled) {
		t.Errorf("pending %v, scheduled %v", pending, o.scheduled)
	}
	for _, i := range slices.Backward(pending) { // in any order
		_, err := compaction.Run(t.Context(), other, i.Time, compaction.RunOptions{Clock: w.clock.Now})
		w.must(err)
		w.check("run by another process")
	}
	w.commit(14)
	w.check("after it")
	w.settled("after it")
}

// What another engine planned is its own until it has been left alone.
func TestServicesForeignPlan(t *testing.T) {
	w := newWorld(t, 6)
	for range 3 {
		w.commit(14)
	}
	at, err := w.table.Schedule(t.Context(), w.planAll())
	w.must(err)
	var o told
	s := w.services(compaction.Inline, 1, &o)
	w.must(s.Due(t.Context()))
	if len(o.compacted) != 0 {
		t.Error("another engine's plan was run at once")
	}
	w.clock.add(10 * time.Minute)
	w.must(s.Due(t.Context()))
	if !slices.Equal(o.compacted, []hudi.Time{at}) {
		t.Errorf("%+v", &o)
	}
	w.check("foreign plan")
}

// A failure is told, tried again after a while, longer each time, and does not
// reach the ingest.
func TestServicesRetry(t *testing.T) {
	w := newWorld(t, 6)
	for range 3 {
		w.commit(14)
	}
	w.must(w.lease.Close())
	faulty := storagetest.Faults(w.store, storagetest.Fault{Kind: storagetest.Write, N: 1}, storagetest.Fault{Kind: storagetest.Write, N: 2})
	tb, err := table.Open(t.Context(), storage.New(faulty, nil), w.options())
	w.must(err)
	w.table = tb
	lease, err := tb.Lease(t.Context())
	w.must(err)
	defer lease.Close()
	var o told
	s := w.services(compaction.Inline, 1, &o)
	for _, c := range []struct {
		wait              time.Duration
		failed, compacted int
	}{{0, 1, 0}, {time.Second, 1, 0}, {10 * time.Second, 2, 0}, {11 * time.Second, 2, 0}, {10 * time.Second, 2, 1}} {
		w.clock.add(c.wait)
		w.must(s.Due(t.Context()))
		if len(o.failed) != c.failed || len(o.compacted) != c.compacted {
			t.Fatalf("after %s: failed %v, compacted %v", c.wait, o.failed, o.compacted)
		}
	}
	if !errors.Is(o.failed[0], storagetest.ErrFault) {
		t.Error(o.failed[0])
	}
	w.check("after failures")
}

// Who is stopped takes the run back; the next process runs the plan.
func TestServicesStop(t *testing.T) {
	t.Setenv(teststore.Env, "mem") // a lease of another store is renewed beside the bubble's end
	synctest.Test(t, servicesStop)
}

func servicesStop(t *testing.T) {
	w := newWorld(t, 6)
	for range 3 {
		w.commit(14)
	}
	var o told
	reached, goOn := make(chan bool), make(chan bool)
	s := compaction.New(compaction.Options{Table: w.table, Clock: w.clock.Now, Events: o.events(), Policy: compaction.Policy{MaxDeltaCommits: 1},
		Run: compaction.RunOptions{Merged: func(compaction.Merged) { reached <- true; <-goOn }}})
	ctx, cancel := context.WithCancel(t.Context())
	w.must(s.Due(ctx))
	<-reached
	w.commit(5) // a commit beside a run
	cancel()
	if err := s.Due(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("due after the end: %v", err)
	}
	if err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("wait after the end: %v", err)
	}
	stopped := make(chan bool)
	go func() { s.Stop(); close(stopped) }()
	synctest.Wait() // the run is told, before it goes on
	close(goOn)
	go func() {
		for range reached { // as many slices as it still merges
		}
	}()
	<-stopped
	close(reached)
	if len(o.compacted)+len(o.failed) > 0 || len(w.view().Compactions()) != 1 {
		t.Errorf("%+v, pending %v", &o, w.view().Compactions())
	}
	if left := w.orphans(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	s = w.services(compaction.Inline, 1, &o)
	w.must(s.Due(t.Context()))
	if len(o.compacted) != 1 {
		t.Errorf("%+v", &o)
	}
	w.check("run by the next")
	w.settled("run by the next")
}
