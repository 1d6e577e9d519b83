package pipeline_test

import (
	"context"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/hudi"
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

// sorted is a world whose table gets the documents whose n leaves one of some
// remainders.
type sorted struct {
	*arranged
	mod, keep int64
}

func newSorted(t *testing.T, a arrangement) *sorted {
	t.Helper()
	s := &sorted{arranged: newArranged(t, a), mod: 3, keep: 2}
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

func (s *sorted) belongs(n int64) bool { return n%s.mod < s.keep }

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
	s.also = func(o *pipeline.Options) { o.Replay, o.Rewrite = true, s.hard }
	s.take(what, s.driver)
	s.also = nil
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
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			s := newSorted(t, a)
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
			s.keep = 1
			s.again("a narrower rule")
			s.mod, s.keep = 5, 4
			s.again("a wider rule")
			s.round(40)
			s.take("the end", s.driver)
		})
	}
}
