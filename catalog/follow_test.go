package catalog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/catalog"
)

// patience is how long a test waits for what a goroutine is to do.
const patience = 2 * time.Minute

// told collects what a Follower tells.
type told struct {
	synced chan catalog.Result
	failed chan time.Duration
}

func newTold() *told {
	return &told{synced: make(chan catalog.Result, 1000), failed: make(chan time.Duration, 1000)}
}

func (d *told) events() catalog.Events {
	return catalog.Events{
		Syncing: func(string, bool) {},
		Synced:  func(_ string, r catalog.Result, _ time.Duration) { d.synced <- r },
		Failed:  func(_ string, _ error, again time.Duration) { d.failed <- again },
	}
}

func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

func (w *world) target(name string) catalog.Target {
	return catalog.Target{Name: name, Options: w.o, Open: func(context.Context) (catalog.Metastore, error) { return w.m, nil }}
}

// The metastore is told at the start, after commits, and at the end.
func TestFollow(t *testing.T) {
	w, d := newWorld(t, "pt"), newTold()
	w.commit("a")
	f := catalog.Follow(t.Context(), catalog.FollowOptions{Table: w.reader(), Targets: []catalog.Target{w.target("m")}, Events: d.events()})
	if r := next(t, d.synced); !r.Database {
		t.Errorf("%+v", r)
	}
	at := w.commit("b")
	f.Committed()
	if r := next(t, d.synced); r.Instant != at {
		t.Errorf("%s, want %s", r.Instant, at)
	}
	at = w.commit("c")
	f.Committed()
	f.Close()
	wantPartitions(t, w, "a", "b", "c")
	if got := w.there("").Parameters[lastSync]; got != string(at) {
		t.Errorf("%s, want %s", got, at)
	}
}

// A table without a commit is no failure.
func TestFollowNewTable(t *testing.T) {
	w, d := newWorld(t, "pt"), newTold()
	f := catalog.Follow(t.Context(), catalog.FollowOptions{Table: w.reader(), Targets: []catalog.Target{w.target("m")}, Events: d.events()})
	w.commit("a")
	f.Committed()
	f.Close()
	wantPartitions(t, w, "a")
	if len(d.failed) > 0 {
		t.Error("a failure was told")
	}
}

// While a metastore hangs commits do not wait, another metastore is told, and all
// commits meanwhile are one sync.
func TestFollowHangs(t *testing.T) {
	w, d, fine := newWorld(t, "pt"), newTold(), newTold()
	w.commit("a")
	var mu sync.Mutex
	opened := 0
	hangs := make(chan struct{})
	hung := w.target("hangs")
	hung.Open = func(ctx context.Context) (catalog.Metastore, error) {
		mu.Lock()
		opened++
		mu.Unlock()
		select {
		case <-hangs:
			return w.m, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	other := newWorld(t, "pt")
	other.commit("a")
	well := w.target("fine")
	well.Open = func(context.Context) (catalog.Metastore, error) { return other.m, nil }
	f := catalog.Follow(t.Context(), catalog.FollowOptions{Table: w.reader(), Targets: []catalog.Target{hung, well}, Events: catalog.Events{
		Syncing: func(string, bool) {},
		Synced: func(target string, r catalog.Result, took time.Duration) {
			if target == "fine" {
				fine.synced <- r
				return
			}
			d.synced <- r
		},
		Failed: func(target string, err error, _ time.Duration) { t.Errorf("%s: %v", target, err) },
	}})
	next(t, fine.synced)
	for range 100 {
		w.commit("b")
		f.Committed()
	}
	for at := w.commit("c"); next(t, fine.synced).Instant != at; f.Committed() {
	}
	close(hangs)
	next(t, d.synced)
	f.Close()
	mu.Lock()
	defer mu.Unlock()
	if opened > 3 {
		t.Errorf("%d syncs of a metastore that hung", opened)
	}
	wantPartitions(t, w, "a", "b", "c")
}

// Failures are told and tried again, later each time.
func TestFollowRetries(t *testing.T) {
	w, d := newWorld(t, "pt"), newTold()
	w.commit("a")
	var mu sync.Mutex
	left := 4
	target := w.target("m")
	target.Open = func(context.Context) (catalog.Metastore, error) {
		mu.Lock()
		defer mu.Unlock()
		if left--; left >= 0 {
			return nil, errors.New("down")
		}
		return w.m, nil
	}
	f := catalog.Follow(t.Context(), catalog.FollowOptions{Table: w.reader(), Targets: []catalog.Target{target}, Events: d.events(),
		Retry: time.Millisecond, MaxRetry: 4 * time.Millisecond})
	const ms = time.Millisecond
	for _, want := range []time.Duration{ms, 2 * ms, 4 * ms, 4 * ms} {
		if got := next(t, d.failed); got != want {
			t.Errorf("again after %s, want %s", got, want)
		}
	}
	next(t, d.synced)
	f.Close()
	wantPartitions(t, w, "a")
}

// A Follower of a metastore that is down ends after one last attempt; of one that
// hangs after LastPatience, or at once when its context does.
func TestFollowCloses(t *testing.T) {
	w := newWorld(t, "pt")
	w.commit("a")
	down := w.target("down")
	down.Open = func(context.Context) (catalog.Metastore, error) { return nil, errors.New("down") }
	d := newTold()
	f := catalog.Follow(t.Context(), catalog.FollowOptions{Table: w.reader(), Targets: []catalog.Target{down}, Events: d.events(), Retry: time.Hour, MaxRetry: time.Hour})
	next(t, d.failed)
	f.Close()
	if got := next(t, d.failed); got != 0 {
		t.Errorf("the last attempt is followed by another after %s", got)
	}

	hangs := w.target("hangs")
	hangs.Open = func(ctx context.Context) (catalog.Metastore, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, ends := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		o := catalog.FollowOptions{Table: w.reader(), Targets: []catalog.Target{hangs}, Events: d.events(), LastPatience: time.Millisecond}
		if ends {
			o.LastPatience = time.Hour
			cancel()
		}
		f := catalog.Follow(ctx, o)
		f.Close()
		cancel()
	}
	if len(d.failed) > 0 {
		t.Error("what was given up is told as a failure")
	}
}

// Interval keeps syncs apart, but not the last one.
func TestFollowInterval(t *testing.T) {
	w, d := newWorld(t, "pt"), newTold()
	w.commit("a")
	f := catalog.Follow(t.Context(), catalog.FollowOptions{Table: w.reader(), Targets: []catalog.Target{w.target("m")}, Events: d.events(), Interval: time.Hour})
	next(t, d.synced)
	at := w.commit("b")
	f.Committed()
	if len(d.synced) > 0 {
		t.Error("synced again within the interval")
	}
	f.Close()
	if r := next(t, d.synced); r.Instant != at {
		t.Errorf("%s, want %s", r.Instant, at)
	}
}
