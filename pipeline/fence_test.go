package pipeline_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

var stride = flag.Int("fault.stride", 17, "which part of all operations the sweeps of faults and fences visit: 1 is all")

// host is a process with the world's store, which has no locks but leases.
type host struct {
	*storagetest.Process
	driver storage.Driver
}

func (w *world) host(freeze bool) host {
	p := storagetest.NewProcess(w.driver, storagetest.ProcessOptions{Freeze: freeze})
	return host{p, storagetest.Leased(p, storage.LeaseOptions{Clock: p.Clock})}
}

// standBy ingests as soon as the lease is to be had. Time passes for the others, too.
func (w *world) standBy(h host, others ...host) {
	w.t.Helper()
	w.must(w.takeOver(h, others...))
}

func (w *world) takeOver(h host, others ...host) ([]pipeline.Progress, error) {
	w.t.Helper()
	for waited := time.Duration(0); ; {
		done, err := w.ingest(h.driver)
		var locked *storage.LockedError
		if !errors.As(err, &locked) {
			return done, err
		}
		if waited += locked.Again; waited > 2*storage.DefaultValidity {
			w.t.Fatalf("after %s: %v", waited, err)
		}
		for _, o := range append(others, h) {
			o.Advance(locked.Again)
		}
	}
}

// A writer gets no time at one of its writes, for longer than its lease stands;
// another takes over, and goes on. Then the first one goes on: it commits nothing
// more, ends with an error that says so, and the table equals the source.
func TestFencing(t *testing.T) {
	for i, freeze := range []bool{false, true} {
		for k := 1 + i*5; ; k += *stride {
			if !fenceAt(t, k, freeze) {
				break
			}
		}
	}
}

// fenceAt stops the first writer at its k-th write and says whether it has so many.
func fenceAt(t *testing.T, k int, freeze bool) bool {
	t.Helper()
	w := newWorld(t, uint64(k))
	w.partitioned, w.docs = true, 0
	w.tune = w.serving(compaction.Inline, 1, time.Hour, compaction.Events{})
	w.round(30)
	w.must(w.ingest(w.host(false).driver))
	w.check("before")
	w.round(30)
	first, next := w.host(freeze), w.host(false)
	at, ended := w.stopAt(first, k)
	if ended == nil {
		return false
	}
	what := fmt.Sprintf("stopped before write %d, %s, with its clock %v", k, at, freeze)
	w.standBy(next, first)
	w.check(what + ": the second has taken over")
	w.round(20)
	w.must(w.ingest(next.driver))
	before := w.instants()
	first.Continue()
	// Of a lock, of what is left after a commit, and of a compaction, which is run again
	// another time, it may not even hear.
	err, late := <-ended, freeze && isCompleted(at)
	if !errors.Is(err, table.ErrLost) && !errors.Is(err, table.ErrHeld) && !isLock(at) && at.Kind != storagetest.Delete && !late && !w.compacts(at) {
		t.Fatalf("%s: it ended with %v", what, err)
	}
	if late {
		w.must(w.ingest(next.driver)) // takes it back
	}
	w.check(what + ": and it went on")
	if after := w.instants(); after != before {
		t.Fatalf("%s: it went on, and of %d commits there are %d", what, before, after)
	}
	w.round(20)
	w.must(w.ingest(next.driver))
	w.check(what + ": in the end")
	w.nothingLeft()
	return true
}

// stopAt has an ingest of h stop before its k-th write, and says which that is. What
// the ingest ends with comes from the channel; nil when it ended before.
func (w *world) stopAt(h host, k int) (storagetest.Op, <-chan error) {
	n, at := 0, storagetest.Op{}
	stopped := h.StopAt(func(op storagetest.Op) bool {
		if op.Kind != storagetest.Put && op.Kind != storagetest.Commit && op.Kind != storagetest.Delete {
			return false
		}
		n++
		at = op
		return n == k
	})
	ended := make(chan error, 1)
	go func() {
		_, err := w.ingest(h.driver)
		ended <- err
	}()
	select {
	case err := <-ended:
		w.must(nil, err)
		return at, nil
	case <-stopped:
		return at, ended
	}
}

// The same with a writer that also compacts, cleans and archives, so that the
// timeline soon has moved past what it was about to write when its clock stood still.
func TestFencingOfServices(t *testing.T) {
	for i, freeze := range []bool{true, false} {
		for k := 1 + i*7; fenceKept(t, k, freeze); k += *stride {
		}
	}
}

func fenceKept(t *testing.T, k int, freeze bool) bool {
	t.Helper()
	w := kept(t, 11)
	w.maxRows = 12
	for range 4 {
		w.round(15)
		w.must(w.ingest(w.host(false).driver))
		w.latest("before")
	}
	w.round(30)
	first, next := w.host(freeze), w.host(false)
	at, ended := w.stopAt(first, k)
	if ended == nil {
		return false
	}
	what := fmt.Sprintf("stopped before write %d, %s, with its clock %v", k, at, freeze)
	w.standBy(next, first)
	w.latest(what + ": the second has taken over")
	first.Continue()
	if err := <-ended; err != nil && !errors.Is(err, table.ErrLost) && !errors.Is(err, table.ErrHeld) && !errors.Is(err, table.ErrConflict) && !errors.Is(err, storage.ErrNotExist) {
		t.Fatalf("%s: it ended with %v", what, err)
	}
	for range 2 {
		w.round(20)
		w.must(w.ingest(next.driver))
		w.latest(what + ": and it went on")
	}
	w.nothingLeft()
	return true
}

// compacts says whether an operation is of a compaction.
func (w *world) compacts(op storagetest.Op) bool {
	w.t.Helper()
	return slices.ContainsFunc(w.view().Instants(), func(i timeline.Instant) bool {
		return (i.Action == commitmeta.ActionCompaction || i.Action == commitmeta.ActionCommit) && strings.Contains(op.Name, string(i.Time))
	})
}

func isLock(op storagetest.Op) bool { return strings.HasSuffix(op.Name, "lock") }

// isCompleted says whether an operation is a commit point.
func isCompleted(op storagetest.Op) bool {
	_, name, _ := strings.Cut(op.Name, ".hoodie/")
	i, ok := timeline.ParseFileName(6, name)
	return ok && op.Kind == storagetest.Put && i.Done()
}

// Writers that die, one after the other, each at another write; each time one that
// stood by takes over. None waits for a lease longer than it stands, and all is
// there once.
func TestStandbyOfTheDead(t *testing.T) {
	w := newWorld(t, 5)
	w.partitioned, w.maxRows = true, 20
	w.tune = w.serving(compaction.Inline, 2, time.Hour, compaction.Events{})
	first := w.host(false)
	w.round(40)
	w.must(w.ingest(first.driver))
	w.check("before")
	for k := range 8 {
		w.round(30)
		n := 0
		first.StopAt(func(op storagetest.Op) bool {
			if op.Kind == storagetest.Put || op.Kind == storagetest.Commit {
				n++
			}
			if n == 6*k+1 {
				go first.Kill()
			}
			return false
		})
		_, err := w.ingest(first.driver)
		if err != nil && !errors.Is(err, storagetest.ErrCrashed) {
			t.Fatal(err)
		}
		first.Kill()
		next := w.host(false)
		w.standBy(next, first)
		w.check(fmt.Sprintf("after death %d", k))
		first = next
	}
	w.nothingLeft()
}

// A writer whose store no longer answers ends when its lease does, although its
// source has nothing for it to do.
func TestLostWhileIdle(t *testing.T) {
	w := newWorld(t, 6)
	w.round(20)
	p := storagetest.NewProcess(w.driver, storagetest.ProcessOptions{})
	const short = 600 * time.Millisecond
	d := storagetest.Leased(p, storage.LeaseOptions{Validity: short})
	w.tune = func(o *pipeline.Options) { o.Once = false }
	committed := make(chan struct{}, 1)
	tune := w.tune
	w.tune = func(o *pipeline.Options) {
		tune(o)
		o.Events.Committed = func(pipeline.Progress) { committed <- struct{}{} }
	}
	ended := make(chan error, 1)
	go func() {
		_, err := w.run(context.Background(), d, "")
		ended <- err
	}()
	<-committed
	p.Kill()
	if err := <-ended; !errors.Is(err, table.ErrLost) {
		t.Fatal(err)
	}
}

// A process dies while it compacts. One that starts afterwards, and ends as soon as it
// has caught up, compacts: it need not live for as long as the dead one's leases stand.
func TestStandbyOfADeadExecutor(t *testing.T) {
	w := newWorld(t, 7)
	w.partitioned, w.maxRows = true, 20
	w.tune = w.serving(compaction.Inline, 2, time.Hour, compaction.Events{})
	first := w.host(false)
	stopped := first.StopAt(func(op storagetest.Op) bool {
		return op.Kind == storagetest.Put && strings.HasSuffix(op.Name, ".compaction.inflight")
	})
	ended := make(chan error)
	go func() {
		err := error(nil)
		for err == nil {
			w.round(30)
			w.model() // which takes note of where rows are
			_, err = w.ingest(first.driver)
		}
		ended <- err
	}()
	<-stopped
	first.Kill()
	first.Continue()
	if err := <-ended; !errors.Is(err, storagetest.ErrCrashed) {
		t.Fatal(err)
	}
	if w.compactions() > 0 || len(w.view().Compactions()) != 1 {
		t.Fatalf("no compaction was begun: %v", w.view().Compactions())
	}
	w.standBy(w.host(false))
	if w.compactions() == 0 || len(w.view().Compactions()) > 0 {
		t.Errorf("pending still: %v", w.view().Compactions())
	}
	w.check("afterwards")
}
