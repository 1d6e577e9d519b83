package pipeline_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/writer"
)

// arrangement is one way in which a table may find its keys and lay its rows.
type arrangement struct {
	// buckets is the number of the bucket index, 0 for bloom.
	buckets int
	cached  bool
	// folders is "" without partitions, else hive, bare or unescaped.
	folders string
	// small has small base files that are written again; otherwise none is.
	small, stay, hard bool
}

func (a arrangement) String() string {
	words := []string{"bloom"}
	if a.buckets > 0 {
		words[0] = fmt.Sprintf("bucket %d", a.buckets)
	}
	if a.folders != "" {
		words = append(words, a.folders)
	}
	for _, part := range []struct {
		word string
		is   bool
	}{{"cached", a.cached}, {"small", a.small}, {"stay", a.stay}, {"hard", a.hard}} {
		if part.is {
			words = append(words, part.word)
		}
	}
	return strings.Join(words, ", ")
}

// arrangements are all of them that differ in what they do: there are no small
// files to write again with buckets, and nothing stays without partitions.
func arrangements() []arrangement {
	var all []arrangement
	for _, buckets := range []int{0, 1, 7, 64} {
		for _, cached := range []bool{false, true} {
			names := []string{"", "hive", "bare", "unescaped"}
			if buckets == 64 {
				names = names[:2] // how folders are named is nothing to the number of files
			}
			for _, folders := range names {
				for _, small := range []bool{false, true} {
					if buckets == 0 || !small {
						all = append(all, arrangement{buckets: buckets, cached: cached, folders: folders, small: small})
					}
				}
			}
			if buckets == 0 || buckets == 7 {
				all = append(all, arrangement{buckets: buckets, cached: cached, folders: "hive", small: buckets == 0, stay: true},
					arrangement{buckets: buckets, cached: cached, small: buckets == 0, hard: true},
					arrangement{buckets: buckets, cached: cached, folders: "hive", small: buckets == 0, hard: true})
			}
		}
	}
	return all
}

// TestLayoutsAgree writes one stream of changes into tables of every index and
// layout. Each is equal to the database after each part of it, and so to all
// others: where rows lie shows in the partition alone.
func TestLayoutsAgree(t *testing.T) {
	type said struct {
		arrangement
		views []map[string]state
	}
	var mu sync.Mutex
	var all []said
	crashes := 0
	t.Run("tables", func(t *testing.T) {
		for n, a := range arrangements() {
			if testing.Short() && n%11 != 0 {
				continue
			}
			t.Run(a.String(), func(t *testing.T) {
				t.Parallel()
				s := newArranged(t, a)
				s.live(5 + 3*n)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, said{a, s.views})
				if s.crashed {
					crashes++
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	first := map[bool]said{}
	for _, one := range all {
		want, known := first[one.hard]
		if !known {
			first[one.hard] = one
			continue
		}
		for i := range one.views {
			if !maps.Equal(want.views[i], one.views[i]) {
				t.Errorf("part %d: %s and %s differ: %d and %d rows", i, want, one, len(want.views[i]), len(one.views[i]))
			}
		}
	}
	if crashes < len(all)*2/3 {
		t.Errorf("%d of %d tables saw a crash", crashes, len(all))
	}
}

// arranged is a world whose table is of one arrangement.
type arranged struct {
	*world
	a       arrangement
	views   []map[string]state
	crashed bool
	fs      vfs.FS // of the cache
	// also changes further options of the next runs.
	also func(*pipeline.Options)
}

func newArranged(t *testing.T, a arrangement) *arranged {
	t.Helper()
	w := newWorld(t, 20261130)
	s := &arranged{world: w, a: a, fs: vfs.NewMem()}
	w.partitioned, w.hard, w.stay = a.folders != "", a.hard, a.stay
	w.bare, w.plain = a.folders == "bare" || a.folders == "unescaped", a.folders == "unescaped"
	return s
}

// live is the stream: every kind of edit, batches of one and of many commits, a
// document that moves there and back, a crash at one of the storage's writes, a
// rewind, and a server that shows the past for a while.
func (s *arranged) live(crash int) {
	s.t.Helper()
	s.hostile()
	s.wander(20)
	s.round(80)
	s.ingestOnce(s.driver)
	s.model() // it learns where documents lie now

	s.maxRows = 25
	s.wander(21)
	s.round(45)
	s.take("many commits", s.driver)
	past := s.db.Snapshot()

	s.wander(20)
	s.round(45)
	crasher := storagetest.NewCrasher(s.driver, storagetest.Crash{At: crash, After: crash%2 == 0})
	s.take("a crash", crasher)

	s.db.FailOver()
	s.round(30)
	if s.hard {
		s.take("a rewind", s.driver)
	} else { // what a hard delete took away may come back from the past
		s.ingestOnce(s.driver)
		before := s.model()
		s.db.ServeStale(past)
		s.db.FailOver()
		s.ingestOnce(s.driver)
		s.equal("fed by a stale copy", before, s.snapshot())
		s.db.Heal()
	}
	s.round(30)
	s.take("the end", s.driver)
	if !s.hard { // hard deletes do not show in incremental reads
		s.equal("incremental reads replayed", s.model(), s.replay())
	}
}

// take brings the table up to the database and keeps what it says then.
func (s *arranged) take(what string, d storage.Driver) {
	s.t.Helper()
	s.ingestOnce(d)
	view := s.snapshot()
	s.equal(what, s.model(), view)
	for id, r := range view {
		r.Partition = ""
		view[id] = r
	}
	s.views = append(s.views, view)
}

// ingestOnce runs the pipeline as one process does, with the cache opened anew;
// after a crash it is started again.
func (s *arranged) ingestOnce(d storage.Driver) {
	s.t.Helper()
	err := s.once(d)
	if c, ok := d.(*storagetest.Crasher); ok && c.Dead() {
		s.crashed = true
		err = s.once(s.driver)
	}
	s.must(nil, err)
}

func (s *arranged) once(d storage.Driver) error {
	files := writer.Options{Buckets: s.a.buckets, MaxRewrite: -1}
	if s.a.small {
		files.FileBytes, files.MaxRewrite = 40_000, 50_000
	}
	find := index.Index(index.NewBloom(index.BloomOptions{}))
	if s.a.buckets > 0 {
		find = index.NewBucket(index.BucketOptions{Buckets: s.a.buckets})
	}
	var cache *keycache.Cache
	if s.a.cached {
		var err error
		if cache, err = keycache.Open(s.t.Context(), keycache.Options{Dir: "cache", FS: s.fs, Identity: "docs", Fallback: find}); err != nil {
			return err
		}
		find = cache
	}
	s.tune = func(o *pipeline.Options) {
		s.serving(compaction.Inline, 2, time.Hour, compaction.Events{Failed: func(what string, err error, _ time.Duration) {
			if !errors.Is(err, storagetest.ErrCrashed) {
				s.t.Errorf("%s: %v", what, err)
			}
		}})(o)
		o.Index, o.Writer = find, files
		if s.also != nil {
			s.also(o)
		}
	}
	_, err := s.ingest(d)
	if cache != nil {
		err = errors.Join(err, cache.Close())
	}
	return err
}

// hostile are documents whose ids separators, engines or file systems trip over.
func (s *arranged) hostile() {
	s.t.Helper()
	for _, id := range []string{"a:b,c:d", "_id:x,y", "with/slash", "\U0001F600", "\uFFFD", "", strings.Repeat("long", 400)} {
		s.must(s.db.Put("x"+id, s.body()))
	}
}

// wander puts some documents into a day of their own.
func (s *arranged) wander(day int) {
	s.t.Helper()
	for n := range 6 {
		s.must(s.db.Put(fmt.Sprint("wanders-", n), fmt.Appendf(nil, `{"day":"2024-01-%02d","n":%d}`, day+n%2, n)))
	}
}
