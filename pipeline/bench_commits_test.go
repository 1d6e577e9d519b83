package pipeline_test

import (
	"path/filepath"
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
)

// BenchmarkSmallCommits makes 5,000 commits of ten rows, a fifth of them
// updates, one commit a second by an injected clock, with all services on, and
// compares what the last commits cost with what those about the 100th did: CPU
// of this process, services included.
func BenchmarkSmallCommits(b *testing.B) {
	const parts, rows, window = 25, 10, 150
	for b.Loop() {
		c := &countedCommits{clock: time.Now()}
		c.follow(b, startServer(b), parts, rows)
		cost := func(from int) float64 {
			return float64((c.cpu[from+window] - c.cpu[from]).Microseconds()) / window / 1000
		}
		early, late := cost(25), cost(len(c.cpu)-window-1)
		b.ReportMetric(early, "cpu-ms/commit-100")
		b.ReportMetric(late, "cpu-ms/commit-5000")
		b.ReportMetric(late/early, "late/early")
		b.ReportMetric(float64(len(c.cpu)), "commits")
		b.ReportMetric(float64(c.files), "live-files")
		b.ReportMetric(float64(c.instants), "instants")
	}
}

// countedCommits notes the CPU time at each commit.
type countedCommits struct {
	clock           time.Time
	ticks           atomic.Int64
	cpu             []time.Duration
	files, instants int
}

func (c *countedCommits) now() time.Time {
	return c.clock.Add(time.Duration(c.ticks.Load()) * time.Second)
}

func (c *countedCommits) follow(b *testing.B, s *server, parts, rows int) {
	b.Helper()
	ctx := b.Context()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	d, err := file.New(dir, nil)
	check(err)
	t, err := table.Create(ctx, storage.New(d, nil), table.CreateOptions{Name: "docs", OrderColumn: hudi.ColumnRevOrder, KeyColumn: hudi.ColumnID},
		table.Options{Location: dir, Clock: c.now})
	check(err)
	lease, err := t.Lease(ctx)
	check(err)
	defer func() { _ = lease.Close() }()
	source := openBench(b, s.url)
	defer func() { _ = source.Close() }()
	n, err := normalize.New(normalize.Options{Table: "docs"})
	check(err)
	cache, err := keycache.Open(ctx, keycache.Options{Dir: filepath.Join(b.TempDir(), "cache"), Identity: dir, Fallback: index.NewBloom(index.BloomOptions{})})
	check(err)
	defer func() { _ = cache.Close() }()
	fail := func(what string, err error, _ time.Duration) { b.Errorf("%s: %v", what, err) }
	services := compaction.New(compaction.Options{Table: t, Clock: c.now, Events: compaction.Events{Failed: fail}})
	committed := func(pipeline.Progress) {
		c.ticks.Add(1)
		c.cpu = append(c.cpu, cpuTime())
	}
	const added = 1600 // of the 2,000 changes of a part
	for part := range parts {
		s.ask("mix %d", part*added)
		p, err := pipeline.New(ctx, pipeline.Options{Source: source, Table: t, Normalizer: n, Once: true, MaxRows: rows, Index: cache, Clock: c.now,
			Services: services, Events: pipeline.Events{Committed: committed}})
		check(err)
		check(p.Run(ctx))
	}
	v, err := t.View(ctx)
	check(err)
	c.instants = len(v.Instants())
	list, err := v.Slices(ctx, "")
	check(err)
	for i := range list {
		c.files += 1 + len(list[i].Logs)
	}
}
