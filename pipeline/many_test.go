package pipeline_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/writer"
)

var manyCommits = flag.Int("many.commits", 150, "how many commits TestManySmallCommits makes; docs/operations.md has figures of 1,000")

// TestManySmallCommits makes many commits of ten rows, most of them of
// new documents, and counts the files that a reader opens then: with the bloom
// index few base files, with buckets one each; and no more logs to each than
// compactions leave.
func TestManySmallCommits(t *testing.T) {
	const rows, logs = 10, 10
	commits := *manyCommits
	if testing.Short() {
		commits /= 10
	}
	for _, buckets := range []int{0, 16} {
		t.Run(fmt.Sprint("buckets ", buckets), func(t *testing.T) {
			w := newWorld(t, 5)
			w.maxRows = rows
			w.tune = w.many(buckets, logs)
			for i := range commits * rows * 4 / 3 {
				id := i
				if i%5 == 4 { // a fifth is updates
					id = w.rand.IntN(i)
				}
				w.must(w.db.Put(fmt.Sprintf("doc-%d-%06d", id%7, id), w.body()))
			}
			done, err := w.ingest(w.driver)
			w.must(nil, err)
			if len(done) < commits {
				t.Fatalf("%d commits", len(done))
			}
			groups, files := w.liveFiles()
			most := max(buckets, 12)
			if groups > most || files > groups*(1+logs) {
				t.Errorf("%d file groups of %d files, want %d groups with %d logs at most", groups, files, most, logs)
			}
			t.Logf("%d commits: %d file groups, %d live files, %d compactions", len(done), groups, files, w.compactions())
			w.equal("in the end", w.model(), w.snapshot())
		})
	}
}

// many are options with the defaults of run, but that compactions come between
// two commits, and without waiting.
func (w *world) many(buckets, logs int) func(*pipeline.Options) {
	dir := filepath.Join(w.t.TempDir(), "cache")
	return func(o *pipeline.Options) {
		o.MaxRows, o.Writer = w.maxRows, writer.Options{Buckets: buckets}
		find := index.Index(index.NewBloom(index.BloomOptions{}))
		if buckets > 0 {
			find = index.NewBucket(index.BucketOptions{Buckets: buckets})
		}
		cache, err := keycache.Open(w.t.Context(), keycache.Options{Dir: dir, Identity: "docs", Fallback: find})
		w.must(nil, err)
		w.t.Cleanup(func() { _ = cache.Close() })
		o.Index = cache
		o.Services = compaction.New(compaction.Options{Table: o.Table, Mode: compaction.Inline,
			Events: compaction.Events{Failed: func(what string, err error, _ time.Duration) { w.t.Errorf("%s: %v", what, err) }},
			Policy: compaction.Policy{MaxDeltaCommits: logs, MinGap: time.Nanosecond}})
	}
}

// liveFiles counts the file groups of the newest view, and the base and log
// files that a reader opens of them.
func (w *world) liveFiles() (groups, files int) {
	w.t.Helper()
	ctx, v := context.Background(), w.view()
	partitions, err := v.Partitions(ctx)
	w.must(nil, err)
	for _, p := range partitions {
		list, err := v.Slices(ctx, p)
		w.must(nil, err)
		for _, s := range list {
			groups++
			files += len(s.Logs)
			if s.Base.Name != "" {
				files++
			}
		}
	}
	return groups, files
}
