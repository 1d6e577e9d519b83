package table_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/table"
)

// lending is a store whose lock another may have while its holder lives.
type lending struct{ storage.Driver }

type lentLock struct{ storage.NoLock }

func (lentLock) Lent() bool { return true }

func (lending) Lock(context.Context, string) (storage.Lock, error) { return lentLock{}, nil }

// sleeper is a table whose writer was stopped right before it completed a commit of
// a base file and a log file; another has rolled that back and goes on.
type sleeper struct {
	store   *mem.Driver
	clock   *clock
	next    *table.Table
	at      hudi.Time         // what was rolled back
	late    map[string]string // its data files
	done    string            // the name of its completed file
	content []byte
}

func asleep(t *testing.T) *sleeper {
	t.Helper()
	ctx := t.Context()
	s := &sleeper{store: mem.New(nil), clock: newClock()}
	d := lending{s.store}
	o := table.Options{Clock: s.clock.Now}
	first := must[*table.Table](t)(table.Create(ctx, bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, o))
	lease(t, first)
	was := must[hudi.Time](t)(commitBases(ctx, first, 1))
	x := must[*table.Txn](t)(first.Begin(ctx))
	s.at = x.Instant()
	s.late = map[string]string{"pt=2/" + base(x, 2): "base", "pt=1/" + logName(1, was, 1): logContent(t, x.Instant())}
	b := body(must[commitmeta.WriteStat](t)(put(ctx, x, "pt=2", base(x, 2), table.MarkCreate, "base")),
		must[commitmeta.WriteStat](t)(put(ctx, x, "pt=1", logName(1, was, 1), table.MarkAppend, s.late["pt=1/"+logName(1, was, 1)])))
	var err error
	s.content, err = commitmeta.Encode(hudi.Version6, b)
	must[any](t)(nil, err)
	s.done = ".hoodie/" + string(x.Instant()) + ".deltacommit"
	s.next = must[*table.Table](t)(table.Open(ctx, bucketOf(d), o))
	lease(t, s.next)
	if rolled := must[[]timeline.Instant](t)(s.next.Recover(ctx)); len(rolled) != 1 || rolled[0].Time != s.at {
		t.Fatalf("rolled back %v", rolled)
	}
	s.gone(t, "rolled back")
	return s
}

// wakes lets the first writer send what it was about to send.
func (s *sleeper) wakes(t *testing.T, completes bool) {
	t.Helper()
	if completes {
		must[storage.Object](t)(bucketOf(s.store).Put(t.Context(), s.done, s.content))
		return
	}
	putAll(t, s.store, s.late)
}

func (s *sleeper) gone(t *testing.T, when string) {
	t.Helper()
	all := names(t, s.store, "")
	for name := range s.late {
		if slices.Contains(all, name) {
			t.Errorf("%s: %s is there", when, name)
		}
	}
	if slices.Contains(all, s.done) {
		t.Errorf("%s: %s is there", when, s.done)
	}
}

// A completed file that comes after the rollback is taken away by the writer that
// lives, when it looks and when it commits, and by the next one.
func TestCompletedLate(t *testing.T) {
	ctx := t.Context()
	for what, does := range map[string]func(*sleeper) error{
		"a look": func(s *sleeper) error {
			v, err := s.next.View(ctx)
			if err != nil {
				return err
			}
			if i, ok := findInstant(v.Instants(), s.at); ok {
				t.Errorf("the view has %s", i)
			}
			return nil
		},
		"a commit": func(s *sleeper) error {
			_, err := commitBases(ctx, s.next, 3)
			return err
		},
		"a start": func(s *sleeper) error {
			other := must[*table.Table](t)(table.Open(ctx, bucketOf(lending{s.store}), table.Options{Clock: s.clock.Now}))
			lease(t, other)
			rolled, err := other.Recover(ctx)
			if len(rolled) != 1 || rolled[0].Time != s.at {
				t.Errorf("taken back at a start: %v", rolled)
			}
			return err
		},
	} {
		s := asleep(t)
		must[hudi.Time](t)(commitBases(ctx, s.next, 1))
		s.wakes(t, true)
		must[any](t)(nil, does(s))
		s.gone(t, what)
		must[hudi.Time](t)(commitBases(ctx, s.next, 1, 2))
	}
	s := asleep(t)
	x := must[*table.Txn](t)(s.next.Begin(ctx))
	s.wakes(t, true)
	stat := must[commitmeta.WriteStat](t)(put(ctx, x, "pt=4", base(x, 4), table.MarkCreate, "base"))
	must[any](t)(nil, x.Commit(ctx, body(stat)))
	s.gone(t, "a commit that was under way")
}

// Data files that come after the rollback are removed by the next start, and by the
// archival that takes the rollback off the timeline; none takes it off before they may
// have come. A log file whose name another has by then stays.
func TestDataLate(t *testing.T) {
	ctx := t.Context()
	s := asleep(t)
	s.wakes(t, false)
	other := must[*table.Table](t)(table.Open(ctx, bucketOf(lending{s.store}), table.Options{Clock: s.clock.Now}))
	lease(t, other)
	must[[]timeline.Instant](t)(other.Recover(ctx))
	s.gone(t, "a start")

	s = asleep(t)
	for range 3 {
		must[hudi.Time](t)(commitBases(ctx, s.next, 1))
	}
	s.wakes(t, false)
	if at := s.next.Unsettled(); at != s.at {
		t.Errorf("unsettled is %q, want %s", at, s.at)
	}
	s.clock.add(2 * time.Hour)
	if at := s.next.Unsettled(); at != "" {
		t.Errorf("hours later %s is unsettled", at)
	}
	v := must[*table.View](t)(s.next.View(ctx))
	old := v.Instants()[:len(v.Instants())-1]
	must[table.Archived](t)(s.next.Archive(ctx, slices.Clone(old)))
	s.gone(t, "an archival")

	s = asleep(t)
	for name := range s.late {
		if strings.Contains(name, ".log.") {
			s.late[name] = logContent(t, must[hudi.Time](t)(commitBases(ctx, s.next, 5)))
		}
	}
	s.wakes(t, false)
	other = must[*table.Table](t)(table.Open(ctx, bucketOf(lending{s.store}), table.Options{Clock: s.clock.Now}))
	lease(t, other)
	must[[]timeline.Instant](t)(other.Recover(ctx))
	for name := range s.late {
		if there := slices.Contains(names(t, s.store, ""), name); there != strings.Contains(name, ".log.") {
			t.Errorf("%s: there %v", name, there)
		}
	}

	// Where the lock cannot be another's, nothing comes late, and nothing waits.
	kept := create(t, mem.New(nil))
	if at := kept.Unsettled(); at != "" {
		t.Errorf("unsettled under a lock that is not lent: %s", at)
	}
}

// An executor of a compaction that was stopped right before it completed it, where
// another may have the lock meanwhile: it completes it with the files that it wrote, or
// the other one does with his, and there is one base file then.
func TestCompactionLate(t *testing.T) {
	ctx := t.Context()
	planned := func(t *testing.T) (d *mem.Driver, next *table.Table, at hudi.Time, complete func() error) {
		t.Helper()
		d, c := mem.New(nil), newClock()
		o := table.Options{Clock: c.Now}
		first := must[*table.Table](t)(table.Create(ctx, bucketOf(lending{d}), table.CreateOptions{Name: "docs", PartitionField: "pt"}, o))
		lease(t, first)
		must[hudi.Time](t)(commitBases(ctx, first, 1))
		appendLog(t, first, 1)
		at = must[hudi.Time](t)(first.Schedule(ctx, planOf(sliceOf(t, viewOf(t, first), 1))))
		b := must[commitmeta.Body](t)(compacted(ctx, must[*table.Compaction](t)(first.BeginCompaction(ctx, at)), "0-1-0"))
		content, err := commitmeta.Encode(hudi.Version6, b)
		must[any](t)(nil, err)
		next = must[*table.Table](t)(table.Open(ctx, bucketOf(lending{d}), o))
		lease(t, next)
		if rolled := must[[]timeline.Instant](t)(next.Recover(ctx)); len(rolled) != 1 || rolled[0].Time != at {
			t.Fatalf("rolled back %v", rolled)
		}
		return d, next, at, func() error {
			_, err := bucketOf(d).PutIfAbsent(ctx, ".hoodie/"+string(at)+".commit", content)
			return err
		}
	}
	// whole says that the slice is of the compaction, has one base file and nothing
	// beside it, and that it can be written to.
	whole := func(t *testing.T, what, token string, d *mem.Driver, next *table.Table, at hudi.Time) {
		t.Helper()
		again := must[*table.Table](t)(table.Open(ctx, bucketOf(lending{d}), options()))
		lease(t, again)
		must[[]timeline.Instant](t)(again.Recover(ctx))
		for _, tb := range []*table.Table{next, again} {
			s := sliceOf(t, viewOf(t, tb), 1)
			if s.Instant != at || s.Compacting != "" || !strings.Contains(s.Base.Name, "_"+token+"_") {
				t.Errorf("%s: the slice is %+v", what, s)
			}
		}
		for _, name := range names(t, d, "pt=1/") {
			if n, err := hudi.ParseBaseFileName(strings.TrimPrefix(name, "pt=1/")); err == nil && n.Instant == at && n.Token != token {
				t.Errorf("%s: %s is there", what, name)
			}
		}
		if left := names(t, d, ".hoodie/."); len(left) > 0 {
			t.Errorf("%s: left over: %v", what, left)
		}
		appendLog(t, again, 1)
	}

	d, next, at, complete := planned(t)
	must[any](t)(nil, complete())
	whole(t, "it comes at once", "0-1-0", d, next, at)

	d, next, at, complete = planned(t)
	run := must[*table.Compaction](t)(next.BeginCompaction(ctx, at))
	b := must[commitmeta.Body](t)(compacted(ctx, run, "0-2-0"))
	must[any](t)(nil, complete())
	wantErr(t, "it comes while another runs", run.Commit(ctx, b), table.ErrConflict)
	must[any](t)(nil, run.Abort(ctx))
	whole(t, "it comes while another runs", "0-1-0", d, next, at)

	d, next, at, complete = planned(t)
	run = must[*table.Compaction](t)(next.BeginCompaction(ctx, at))
	must[any](t)(nil, run.Commit(ctx, must[commitmeta.Body](t)(compacted(ctx, run, "0-2-0"))))
	wantErr(t, "it comes after another run", complete(), storage.ErrExist)
	whole(t, "it comes after another run", "0-2-0", d, next, at)
}
