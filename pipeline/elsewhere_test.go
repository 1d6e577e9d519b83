package pipeline_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/filter"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// sorting marks documents as not for the table, as routing does.
type sorting struct {
	*couchdb.Source
	keep func(c *changes.Change) bool
}

func (s *sorting) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	b, err := s.Source.Next(ctx, after, limit)
	s.mark(b.Changes)
	return b, err
}

func (s *sorting) Read(ctx context.Context, ids []string) ([]changes.Change, error) {
	cs, err := s.Source.Read(ctx, ids)
	s.mark(cs)
	return cs, err
}

func (s *sorting) mark(cs []changes.Change) {
	for i := range cs {
		cs[i].Elsewhere = !s.keep(&cs[i])
	}
}

// sorted is a world whose table gets the documents whose n is within bounds.
type sorted struct {
	*arranged
	least, most int64
}

// newSorted sorts documents as routing does, or by a filter.
func newSorted(t *testing.T, a arrangement, filtered bool) *sorted {
	t.Helper()
	s := &sorted{arranged: newArranged(t, a), most: 600}
	if filtered {
		s.shape = func(o *normalize.Options) { o.Filter = s.filter() }
		return s
	}
	s.watch = func(source *couchdb.Source) changes.Source {
		return &sorting{Source: source, keep: func(c *changes.Change) bool {
			if c.Deleted {
				return false
			}
			_, n := s.dayAndN(c.Body)
			return s.belongs(n)
		}}
	}
	return s
}

func (s *sorted) belongs(n int64) bool { return n >= s.least && n < s.most }

func (s *sorted) filter() *filter.Filter {
	s.t.Helper()
	f, err := filter.Compile(fmt.Sprintf("day startsWith \"2024-\" and n >= %d and not (n >= %d)", s.least, s.most))
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// check compares the table's live rows with the documents that are for it.
func (s *sorted) check(what string) {
	s.t.Helper()
	want := s.model()
	for id, d := range want {
		if d.Deleted || !s.belongs(d.N) {
			delete(want, id)
		}
	}
	if len(want) == 0 {
		s.t.Fatalf("%s: no document is for the table", what)
	}
	s.equal(what, want, s.live())
}

// live are the table's live rows.
func (s *sorted) live() map[string]state {
	return s.rows(func(ctx context.Context, v *table.View) func(func(*hudi.Record, error) bool) {
		return reader.Snapshot(ctx, v, reader.Options{})
	})
}

func (s *sorted) take(what string, d storage.Driver) {
	s.t.Helper()
	s.ingestOnce(d)
	s.check(what)
}

// tombstones are the ids of deleted rows.
func (s *sorted) tombstones() map[string]bool {
	ids := map[string]bool{}
	for id, r := range s.snapshot() {
		if r.Deleted {
			ids[id] = true
		}
	}
	return ids
}

// again reads the whole feed once more, as after the rule was changed.
func (s *sorted) again(what string) {
	s.t.Helper()
	before := s.also
	s.also = func(o *pipeline.Options) {
		if before != nil {
			before(o)
		}
		o.Replay, o.Rewrite = true, s.hard
	}
	s.take(what, s.driver)
	s.also = before
}

// TestElsewhere follows documents that are now for the table and now not, in every
// way of finding keys, through crashes, a rewind, a past copy and changes of the
// rule.
func TestElsewhere(t *testing.T) {
	for n, a := range []arrangement{
		{folders: "hive", small: true}, {cached: true, small: true}, {buckets: 7, folders: "hive"}, {buckets: 7, cached: true},
		{hard: true, small: true}, {hard: true, cached: true, folders: "hive", small: true}, {hard: true, buckets: 7},
	} {
		if testing.Short() && n%3 != 0 {
			continue
		}
		filtered := n%2 == 0
		t.Run(fmt.Sprintf("%s, filtered=%t", a, filtered), func(t *testing.T) {
			t.Parallel()
			newSorted(t, a, filtered).sort(n)
		})
	}
}

// sort is the life of one table.
func (s *sorted) sort(n int) {
	t := s.t
	s.maxRows = 40
	s.round(60)
	past := s.db.Snapshot()
	s.take("the beginning", s.driver)
	for crash := range 3 {
		s.round(30)
		crasher := storagetest.NewCrasher(s.driver, storagetest.Crash{At: 3 + 7*crash + n, After: crash%2 == 0})
		s.take("a crash", crasher)
	}
	s.db.FailOver()
	s.round(20)
	s.take("a rewind", s.driver)
	if !s.hard {
		gone := s.tombstones()
		s.db.ServeStale(past)
		s.db.FailOver()
		s.ingestOnce(s.driver)
		for id := range s.live() {
			if gone[id] {
				t.Errorf("a past copy brought %q back", id)
			}
		}
		s.db.Heal()
		s.take("after the past", s.driver)
	}
	s.most = 300
	s.again("a narrower rule")
	s.least, s.most = 200, 900
	s.again("another rule")
	s.round(40)
	s.take("the end", s.driver)
}

// A filter that lets nothing in is no reason to read the same rows again: the position
// moves with them.
func TestFilteredPosition(t *testing.T) {
	s := newSorted(t, arrangement{}, true)
	s.most = -1
	s.round(50)
	s.ingestOnce(s.driver)
	if n := s.instants(); n != 1 {
		t.Fatalf("%d commits", n)
	}
	s.nothingLeft()
	s.round(10)
	done, err := s.ingest(s.driver)
	if err != nil || len(done) != 1 || done[0].Stats.Elsewhere != done[0].Stats.Rows || done[0].Stats.Rows == 0 || done[0].Files != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	s.nothingLeft()
}

// A table says through which filter its rows came, and that there are others as long
// as there are.
func TestFilterNotes(t *testing.T) {
	s := newSorted(t, arrangement{}, true)
	var told []pipeline.FilterNote
	s.also = func(o *pipeline.Options) {
		o.Events.Refiltered = func(n pipeline.FilterNote) { told = append(told, n) }
	}
	s.round(60)
	expect := func(what string, want pipeline.FilterNote, tells int) {
		t.Helper()
		s.ingestOnce(s.driver)
		got, err := pipeline.ReadFilter(t.Context(), s.view())
		if err != nil || got != want || len(told) != tells {
			t.Fatalf("%s: %+v, told %d times, %v; want %+v, %d", what, got, len(told), err, want, tells)
		}
	}
	first := s.filter().String()
	expect("a new table", pipeline.FilterNote{Filter: first}, 0)
	s.round(10)
	expect("going on", pipeline.FilterNote{Filter: first}, 0)
	s.most = 500
	second := s.filter().String()
	s.round(10)
	expect("another filter", pipeline.FilterNote{Filter: second, Mixed: true, Before: first}, 1)
	s.round(10)
	expect("still mixed", pipeline.FilterNote{Filter: second, Mixed: true, Before: first}, 2)
	replay := s.also
	s.also = func(o *pipeline.Options) {
		replay(o)
		o.Replay = true
	}
	expect("replayed", pipeline.FilterNote{Filter: second}, 3)
	s.check("replayed")
	s.also = replay
	s.round(10)
	expect("going on after the replay", pipeline.FilterNote{Filter: second}, 3)
	s.shape = nil
	s.round(10)
	expect("no filter any more", pipeline.FilterNote{Mixed: true, Before: second}, 4)
}
