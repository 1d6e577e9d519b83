package catalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/table"
)

// Target is a metastore and the table's name there.
type Target struct {
	// Name is what events call it.
	Name string
	// Open connects to the metastore, once for each sync.
	Open func(ctx context.Context) (Metastore, error)
	Options
}

// FollowOptions say how a Follower goes after the commits of a table.
type FollowOptions struct {
	// Table is read for each sync. It must not be the one that commits are written
	// through, whose views are its writer's.
	Table   *table.Table
	Targets []Target
	// Interval is how long after the beginning of one sync the next of the same target
	// begins at the earliest.
	Interval time.Duration
	// Retry is how long it waits after a first failure, which doubles with each further
	// one up to MaxRetry; default 1 s and 5 min.
	Retry, MaxRetry time.Duration
	// Patience bounds a sync; default 10 min. What it did stays, and the next goes on
	// from there.
	Patience time.Duration
	// LastPatience bounds the sync that Close does; default 30 s.
	LastPatience time.Duration
	Events       Events
	// Clock tells the time; time.Now by default.
	Clock func() time.Time
}

// Events tell what a Follower does. They are called by several goroutines.
type Events struct {
	// Syncing is called before each sync with true, and after it with false, before
	// what came of it is told.
	Syncing func(target string, on bool)
	// Synced is called after each sync that worked.
	Synced func(target string, r Result, took time.Duration)
	// Failed is called after each that did not. again is when it is tried again, 0 for
	// not by this Follower.
	Failed func(target string, err error, again time.Duration)
}

// Follower syncs metastores with a table while commits go on. Each target has a
// goroutine, so that none waits for another, and no commit for any. Many commits
// during one sync are one further sync.
type Follower struct {
	o    FollowOptions
	stop context.CancelFunc // ends what goes on
	last context.CancelFunc // lets each do a last sync, and end
	done sync.WaitGroup
	wake []chan struct{}
}

// Follow starts a Follower, which begins with a sync of each target: what a process
// before this one left is made up for. ctx ends it, too; Close it in any case.
func Follow(ctx context.Context, o FollowOptions) *Follower {
	const retry, maxRetry, patience, lastPatience = time.Second, 5 * time.Minute, 10 * time.Minute, 30 * time.Second
	orDefault := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	orDefault(&o.Retry, retry)
	orDefault(&o.MaxRetry, maxRetry)
	orDefault(&o.Patience, patience)
	orDefault(&o.LastPatience, lastPatience)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	f := &Follower{o: o}
	ctx, f.stop = context.WithCancel(ctx)
	going, last := context.WithCancel(ctx)
	f.last = last
	for i := range o.Targets {
		wake := make(chan struct{}, 1)
		wake <- struct{}{}
		f.wake = append(f.wake, wake)
		f.done.Go(func() { f.follow(ctx, going, &o.Targets[i], wake) })
	}
	return f
}

// Committed says that there is a new commit. It never waits.
func (f *Follower) Committed() {
	for _, w := range f.wake {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Close lets each target have a sync of the newest commit, if it lacks one, and waits
// for that, LastPatience at most; after Follow's ctx ended it only waits for what goes
// on to be given up. No error of a metastore is one of Close: events have told.
func (f *Follower) Close() {
	f.last()
	overdue := time.AfterFunc(f.o.LastPatience, f.stop)
	defer overdue.Stop()
	f.done.Wait()
	f.stop()
}

// follow is a target's goroutine. ctx ends it, and the end of going lets it do what is
// due and end.
func (f *Follower) follow(ctx, going context.Context, t *Target, wake <-chan struct{}) {
	for ctx.Err() == nil {
		select {
		case <-wake:
		case <-going.Done():
			select {
			case <-wake: // a last sync
			default:
				return
			}
		}
		began := f.o.Clock()
		for failures := 0; ; failures++ {
			last := going.Err() != nil
			if f.try(ctx, t, failures, last) {
				break
			}
			if last {
				return // the next process makes up for it
			}
			sleep(going, f.backOff(failures))
		}
		sleep(going, f.o.Interval-f.o.Clock().Sub(began))
	}
}

// try is one sync, the last attempt or not. It says whether there is no more to do
// about it.
func (f *Follower) try(ctx context.Context, t *Target, failures int, last bool) bool {
	began := f.o.Clock()
	f.o.Events.Syncing(t.Name, true)
	r, err := f.sync(ctx, t)
	f.o.Events.Syncing(t.Name, false)
	switch {
	case err == nil:
		f.o.Events.Synced(t.Name, r, f.o.Clock().Sub(began))
		return true
	case ctx.Err() != nil, errors.Is(err, table.ErrNoSchema): // given up; or nothing to tell yet
		return true
	}
	again := f.backOff(failures)
	if last {
		again = 0
	}
	f.o.Events.Failed(t.Name, err, again)
	return false
}

// backOff is how long to wait after so many failures and one more.
func (f *Follower) backOff(failures int) time.Duration {
	d := f.o.Retry
	for ; failures > 0 && d < f.o.MaxRetry; failures-- {
		d *= 2
	}
	return min(d, f.o.MaxRetry)
}

func (f *Follower) sync(ctx context.Context, t *Target) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, f.o.Patience)
	defer cancel()
	m, err := t.Open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = m.Close() }() // what matters was answered
	return Sync(ctx, m, f.o.Table, t.Options)
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
