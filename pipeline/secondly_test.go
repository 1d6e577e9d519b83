package pipeline_test

import (
	"context"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// secondly is an ingest of ten rows each second into a table on the file system,
// with all services on, after one commit of the first documents. The clock is injected: it ticks with each commit, and
// files have its time.
type secondly struct {
	tb testing.TB
	// buckets is the number of the bucket index, 0 for bloom; fresh is how many of
	// five rows are new documents, gone how many are hard deletes, first the number of
	// documents at first, and of those that are updated.
	buckets, fresh, gone, first int
	services                    compaction.Options
	// committed is called after each commit with its number, the first being 1.
	committed func(n int)
	observe   func(storage.Event)

	start         time.Time
	ticks, stamps atomic.Int64
	dir           string
	table         *table.Table
	index         index.Index
	server        *server
	docs, commits int
	// starts is the CPU that went into starting anew.
	starts time.Duration
}

const rowsASecond = 10

func (s *secondly) now() time.Time { return s.start.Add(time.Duration(s.ticks.Load()) * time.Second) }

// stamp is the time for a file: no two have the same.
func (s *secondly) stamp() time.Time { return s.now().Add(time.Duration(s.stamps.Add(1))) }

func (s *secondly) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

// open makes the table and what follows the database into it.
func (s *secondly) open() {
	s.tb.Helper()
	ctx := s.tb.Context()
	s.start, s.dir, s.server = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), s.tb.TempDir(), startServer(s.tb)
	d, err := file.New(s.dir, &file.Options{NoSync: true, Now: s.stamp})
	s.must(err)
	s.table, err = table.Create(ctx, storage.New(d, &storage.Options{Observe: s.observe}),
		table.CreateOptions{Name: "docs", OrderColumn: hudi.ColumnRevOrder, KeyColumn: hudi.ColumnID}, table.Options{Location: s.dir, Clock: s.now})
	s.must(err)
	lease, err := s.table.Lease(ctx)
	s.must(err)
	s.tb.Cleanup(func() { _ = lease.Close() })
	find := index.Index(index.NewBloom(index.BloomOptions{}))
	if s.buckets > 0 {
		find = index.NewBucket(index.BucketOptions{Buckets: s.buckets})
	}
	cache, err := keycache.Open(ctx, keycache.Options{Dir: filepath.Join(s.tb.TempDir(), "cache"), Identity: s.dir, Clock: s.now, Fallback: find})
	s.must(err)
	s.tb.Cleanup(func() { _ = cache.Close() })
	s.index = cache
}

// run makes so many commits.
func (s *secondly) run(commits int) {
	s.tb.Helper()
	for range s.each(commits) {
	}
}

// each makes so many commits and yields the number of each. Between two of them nothing of it runs but the feed.
func (s *secondly) each(commits int) iter.Seq[int] {
	return func(yield func(int) bool) {
		s.tb.Helper()
		ctx, stop := context.WithCancel(s.tb.Context())
		defer stop()
		source := openBench(s.tb, s.server.url)
		defer func() { _ = source.Close() }()
		n, err := normalize.New(normalize.Options{Table: "docs", Deletes: normalize.Hard})
		s.must(err)
		s.services.Table, s.services.Clock = s.table, s.now
		s.services.Events.Failed = func(what string, err error, _ time.Duration) { s.tb.Errorf("%s: %v", what, err) }
		services := compaction.New(s.services)
		until := s.commits + commits
		if s.docs == 0 {
			until++ // one for all that is there already
		}
		committed := func(pipeline.Progress) {
			s.ticks.Add(1)
			if s.commits++; s.committed != nil {
				s.committed(s.commits)
			}
			if !yield(s.commits) || s.commits == until {
				stop()
			}
		}
		for ctx.Err() == nil {
			rows := rowsASecond
			s.server.ask("mix %d %d %d %d", s.docs, s.fresh, s.first, s.gone)
			if s.docs == 0 {
				s.docs, rows = s.first, s.first
			} else {
				s.docs += mixed * s.fresh / mixEvery
			}
			before := cpuTime()
			p, err := pipeline.New(ctx, pipeline.Options{Source: source, Table: s.table, Normalizer: n, Once: true, MaxRows: rows,
				Index: s.index, Writer: writer.Options{Buckets: s.buckets}, Clock: s.now, Services: services, Events: pipeline.Events{Committed: committed}})
			s.must(err)
			s.starts += cpuTime() - before
			s.must(p.Run(ctx))
		}
	}
}

// held is what a table holds.
type held struct {
	// live are the files that a reader of the newest state opens, data all base
	// and log files, timeline the files of the active timeline, instants its
	// instants, files all. Groups are the file groups.
	live, data, timeline, instants, files, groups int
}

func (s *secondly) held() held {
	s.tb.Helper()
	var h held
	v, err := s.table.Current(s.tb.Context())
	s.must(err)
	h.instants = len(v.Instants())
	list, err := v.Slices(s.tb.Context(), "")
	s.must(err)
	h.groups = len(list)
	for i := range list {
		h.live += len(list[i].Logs)
		if list[i].Base.Name != "" {
			h.live++
		}
	}
	s.must(filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a compaction may be at work: what went meanwhile is gone
		}
		h.files++
		switch in, _ := filepath.Rel(s.dir, filepath.Dir(path)); {
		case in == ".hoodie" && strings.HasPrefix(d.Name(), "2026"):
			h.timeline++
		case in == "." && (strings.HasSuffix(d.Name(), ".parquet") || strings.Contains(d.Name(), ".log.")):
			h.data++
		}
		return nil
	}))
	return h
}
