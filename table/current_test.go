package table_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// carried is a table whose commits follow each other, with a count of how often
// the timeline was listed.
type carried struct {
	t     *testing.T
	d     storage.Driver
	tb    *table.Table
	clock *clock
	lists atomic.Int64
	next  int
}

func newCarried(t *testing.T) *carried {
	t.Helper()
	c := &carried{t: t, d: teststore.New(t), clock: newClock()}
	b := storage.New(c.d, &storage.Options{Observe: func(e storage.Event) {
		if e.Op == "list" && e.Name == ".hoodie/" {
			c.lists.Add(1)
		}
	}})
	c.tb = must[*table.Table](t)(table.Create(t.Context(), b, table.CreateOptions{Name: "docs", PartitionField: "pt"}, table.Options{Clock: c.clock.Now}))
	lease(t, c.tb)
	return c
}

// commit commits a new group on what is known of the table.
func (c *carried) commit() (hudi.Time, error) {
	v := must[*table.View](c.t)(c.tb.Current(c.t.Context()))
	x, err := c.tb.BeginAt(c.t.Context(), v)
	if err != nil {
		return "", err
	}
	return c.finish(x)
}

func (c *carried) finish(x *table.Txn) (hudi.Time, error) {
	ctx := c.t.Context()
	c.next++
	s := must[commitmeta.WriteStat](c.t)(put(ctx, x, "pt=1", base(x, c.next), table.MarkCreate, "base"))
	if err := x.Commit(ctx, body(s)); err != nil {
		return x.Instant(), errors.Join(err, x.Abort(ctx))
	}
	return x.Instant(), nil
}

// listed says that something listed the timeline so many times.
func (c *carried) listed(what string, want int64, do func()) {
	c.t.Helper()
	c.lists.Store(0)
	do()
	if got := c.lists.Load(); got != want {
		c.t.Errorf("%s: listed %d times, want %d", what, got, want)
	}
}

// same holds what is known against what is there.
func (c *carried) same() {
	c.t.Helper()
	ctx := c.t.Context()
	v := must[*table.View](c.t)(c.tb.Current(ctx))
	fresh := must[*table.View](c.t)(must[*table.Table](c.t)(table.Open(ctx, bucketOf(c.d), options())).View(ctx))
	if d := timeline.Differences(v.Instants(), fresh.Instants()); len(d) > 0 {
		c.t.Errorf("known and there differ: %v", d)
	}
	for n, i := range fresh.Instants() {
		near := time.Duration(0)
		if !teststore.InMemory() { // S3 says whole seconds after a put, some dialects more in a list
			near = time.Second
		}
		if i.Done() && i.Modified.Sub(v.Instants()[n].Modified).Abs() > near {
			c.t.Errorf("%s: %s and %s", i, i.Modified, v.Instants()[n].Modified)
		}
	}
	if got, want := allSlices(c.t, v), allSlices(c.t, fresh); !equalSlices(got, want) {
		c.t.Errorf("known %+v\nthere %+v", got, want)
	}
}

func equalSlices(a, b []hudi.Slice) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameSlice(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Commits that follow each other list the timeline once each; whatever else this
// process does to it is seen, too.
func TestCurrent(t *testing.T) {
	c := newCarried(t)
	ctx := t.Context()
	must[hudi.Time](t)(c.commit())
	first := must[hudi.Time](t)(c.commit())
	c.listed("the next commits", 3, func() {
		for range 3 {
			must[hudi.Time](t)(c.commit())
		}
	})
	c.listed("a look", 0, c.same)
	c.clock.add(4 * time.Second)
	c.listed("a moment later", 0, c.same)
	c.clock.add(time.Second)
	c.listed("later", 1, c.same)
	for what, do := range map[string]func() error{
		"a savepoint": func() error {
			_, err := c.tb.Save(ctx, first, "", "")
			return err
		},
		"an aborted transaction": func() error {
			x, err := c.tb.Begin(ctx)
			return errors.Join(err, x.Abort(ctx))
		},
		"a compaction's plan": func() error {
			_, err := c.tb.Schedule(ctx, c.plan())
			return err
		},
	} {
		must[hudi.Time](t)(c.commit())
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		c.listed(what, 1, c.same)
	}
}

// plan is the compaction of a group that gets a log file first.
func (c *carried) plan() commitmeta.CompactionPlan {
	ctx := c.t.Context()
	x := must[*table.Txn](c.t)(c.tb.Begin(ctx))
	s := must[[]hudi.Slice](c.t)(x.View().Slices(ctx, "pt=1"))[0]
	name := hudi.LogFileName{File: s.File, Instant: s.Instant, Version: 1 + len(s.Logs), Token: "0-1-0"}.String()
	stat := must[commitmeta.WriteStat](c.t)(put(ctx, x, "pt=1", name, table.MarkAppend, logContent(c.t, x.Instant())))
	if err := x.Commit(ctx, body(stat)); err != nil {
		c.t.Fatal(err)
	}
	s = must[[]hudi.Slice](c.t)(must[*table.View](c.t)(c.tb.Current(ctx)).Slices(ctx, "pt=1"))[0]
	o := commitmeta.CompactionOperation{Location: s.Location, Instant: s.Instant, Base: s.Base.Name}
	for _, f := range s.Logs {
		o.Logs = append(o.Logs, f.Name)
	}
	return commitmeta.CompactionPlan{Operations: []commitmeta.CompactionOperation{o}}
}

// What another engine has committed since the last look is found before our
// commit takes effect, and the next attempt is on top of it.
func TestCurrentIsStale(t *testing.T) {
	c := newCarried(t)
	ctx := t.Context()
	must[hudi.Time](t)(c.commit())
	must[hudi.Time](t)(c.commit())
	foreign := must[hudi.Time](t)(commitBehind(t, c.d, 77))
	at, err := c.commit()
	if !errors.Is(err, table.ErrStale) || !errors.Is(err, table.ErrConflict) {
		t.Fatalf("commit on a view without the foreign commit: %v", err)
	}
	v := must[*table.View](t)(c.tb.View(ctx))
	if !v.Committed(foreign) || v.Committed(at) {
		t.Fatalf("%v", v.Instants())
	}
	x := must[*table.Txn](t)(c.tb.BeginAt(ctx, v))
	must[hudi.Time](t)(c.finish(x))
	c.same()
	// One that was looked at and not carried is in conflict, and no more.
	x = must[*table.Txn](t)(c.tb.BeginAt(ctx, must[*table.View](t)(c.tb.View(ctx))))
	next := must[hudi.Time](t)(x.Instant().Next())
	putAll(t, c.d, map[string]string{".hoodie/" + string(next) + ".commit": "{}"})
	if _, err = c.finish(x); !errors.Is(err, table.ErrConflict) || errors.Is(err, table.ErrStale) {
		t.Errorf("%v", err)
	}
}

// A view that is not the last one is refused before anything is put.
func TestBeginAtRefuses(t *testing.T) {
	c := newCarried(t)
	ctx := t.Context()
	old := must[*table.View](t)(c.tb.Current(ctx))
	must[hudi.Time](t)(c.commit())
	before := len(names(t, c.d, ""))
	_, err := c.tb.BeginAt(ctx, old)
	wantErr(t, "begin at an old view", err, table.ErrStale)
	v := must[*table.View](t)(c.tb.Current(ctx))
	other := must[*table.Table](t)(table.Open(ctx, bucketOf(c.d), options()))
	_, err = c.tb.BeginAt(ctx, must[*table.View](t)(other.View(ctx)))
	wantErr(t, "begin at another's view", err, table.ErrStale)
	_, err = other.BeginAt(ctx, must[*table.View](t)(other.View(ctx)))
	wantErr(t, "begin without the lease", err, table.ErrNoLease)
	if after := len(names(t, c.d, "")); after != before {
		t.Errorf("%d files, %d before", after, before)
	}
	must[*table.Txn](t)(c.tb.BeginAt(ctx, v))
}

// between is a store that calls a function right before a delta commit is
// completed, and lets a listing of the timeline wait.
type between struct {
	storage.Driver
	before       func()
	hold         atomic.Bool
	listed, goOn chan struct{}
}

func (b *between) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	if b.before != nil && strings.HasSuffix(name, ".deltacommit") {
		b.before()
	}
	return b.Driver.Put(ctx, name, data, cond)
}

func (b *between) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		var all []storage.Object
		for o := range b.Driver.List(ctx, prefix, folders) {
			all = append(all, o)
		}
		if prefix == ".hoodie/" && b.hold.CompareAndSwap(true, false) {
			close(b.listed)
			<-b.goOn
		}
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// A listing that was made right before a commit, and ends before or after it,
// must not make that commit unknown again.
func TestCurrentKeepsOwnCommit(t *testing.T) {
	for _, late := range []bool{true, false} {
		t.Run(fmt.Sprintf("late=%t", late), func(t *testing.T) {
			ctx := t.Context()
			d := &between{Driver: teststore.New(t), listed: make(chan struct{}), goOn: make(chan struct{})}
			tb := must[*table.Table](t)(table.Create(ctx, bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, options()))
			lease(t, tb)
			must[hudi.Time](t)(commitBases(ctx, tb, 1))
			x := must[*table.Txn](t)(tb.BeginAt(ctx, must[*table.View](t)(tb.Current(ctx))))
			s := must[commitmeta.WriteStat](t)(put(ctx, x, "pt=2", base(x, 2), table.MarkCreate, "base"))
			looked := make(chan error, 1)
			d.before = func() {
				d.hold.Store(true)
				go func() {
					_, err := tb.View(ctx)
					looked <- err
				}()
				<-d.listed
				if !late {
					close(d.goOn)
					looked <- <-looked
				}
			}
			if err := x.Commit(ctx, body(s)); err != nil {
				t.Fatal(err)
			}
			if late {
				close(d.goOn)
			}
			if err := <-looked; err != nil {
				t.Fatal(err)
			}
			if v := must[*table.View](t)(tb.Current(ctx)); v.Last() != x.Instant() {
				t.Errorf("%s is not in %v", x.Instant(), v.Instants())
			}
		})
	}
}
