//go:build stores

package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// lake is a world whose table lies in a store that lends its locks, and that each
// process opens for itself.
type lake struct {
	*world
	open   func(clock func() time.Time) (storage.Driver, error)
	starts int
}

func newLake(t *testing.T, seed uint64, open func(clock func() time.Time) (storage.Driver, error)) *lake {
	t.Helper()
	l := &lake{world: kept(t, seed), open: open}
	d, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	l.driver = d
	return l
}

// hurry is how a store's client waits between two tries.
func hurry(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// start is one process: it waits for the lease, in made-up time, and runs until it
// has caught up or cannot go on.
func (l *lake) start() (err error) {
	l.t.Helper()
	l.starts++
	var ahead atomic.Int64
	ahead.Store(int64(time.Duration(l.starts) * time.Hour))
	d, err := l.open(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	// As the binary it lets a dead process's compaction be over.
	for {
		who, err := storage.New(d, nil).Holder(context.Background(), ".hoodie/couch2hudi/compaction.lock")
		if err != nil {
			return err
		}
		if who == nil || !who.Stale || who.Again <= 0 {
			break
		}
		ahead.Add(int64(who.Again))
	}
	for waited := time.Duration(0); ; {
		_, err := l.ingest(d)
		var locked *storage.LockedError
		if !errors.As(err, &locked) {
			return err
		}
		// Twice: on HDFS the first to take a dead one's lease over may have to finish its
		// last renewal, and watches that.
		if waited += locked.Again; waited > 3*storage.DefaultValidity {
			l.t.Fatalf("after %s: %v", waited, err)
		}
		ahead.Add(int64(locked.Again))
	}
}

// whole says that the table is as the database, and that there are no data files beside
// those of its commits.
func (l *lake) whole(what string) {
	l.t.Helper()
	l.latest(what)
	ctx := context.Background()
	v, err := l.view().Reaching(ctx, "")
	l.must(v, err)
	named := map[string]bool{}
	for _, i := range v.Writes() {
		b, err := v.Body(ctx, i)
		l.must(b, err)
		for _, stats := range b.Stats {
			for _, s := range stats {
				named[s.Path] = true
			}
		}
	}
	for o, err := range storage.New(l.driver, nil).List(ctx, "pt=") {
		l.must(o, err)
		if !named[o.Name] && !strings.HasSuffix(o.Name, ".hoodie_partition_metadata") {
			l.t.Errorf("%s: left over: %s", what, o.Name)
		}
	}
}

// settled says that one more start leaves no markers and heartbeats.
func (l *lake) settled(what string) {
	l.t.Helper()
	l.must(nil, l.start())
	for o, err := range storage.New(l.driver, nil).List(context.Background(), ".hoodie/.") {
		l.must(o, err)
		l.t.Errorf("%s: left over: %s", what, o.Name)
	}
	l.nothingLeft()
}
