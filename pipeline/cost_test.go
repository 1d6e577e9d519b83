package pipeline_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/table"
)

// requests are what was asked of a store.
type requests struct {
	ops   map[string]int
	bytes map[string]int64
}

func (r requests) of(ops ...string) (n int) {
	for _, op := range ops {
		n += r.ops[op]
	}
	return n
}

// all are the requests of an object store: the pieces of a small upload are one.
func (r requests) all() int { return r.of("list", "stat", "read", "put", "create", "delete") }

// String is like "2 lists, 6 stats, 6 reads of 29240 bytes, …".
func (r requests) String() string {
	return fmt.Sprintf("%d lists, %d stats, %d reads of %d bytes, %d puts of %d bytes, %d deletes", r.ops["list"], r.ops["stat"],
		r.ops["read"], r.bytes["read"], r.of("put", "create"), r.bytes["put"]+r.bytes["write"], r.ops["delete"])
}

// costly is a table of so many partitions, with a document in each, whose store counts
// requests.
type costly struct {
	tb    testing.TB
	index string
	parts int

	db     *couchfake.Database
	source *couchdb.Source
	table  *table.Table
	find   index.Index
	writer int
	now    time.Time

	mu    sync.Mutex
	count requests
}

const costBuckets = 2

func newCostly(tb testing.TB, find string, parts int) *costly {
	tb.Helper()
	c := &costly{tb: tb, index: find, parts: parts, now: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
	server, err := couchfake.Start(couchfake.Options{})
	c.must(err)
	tb.Cleanup(func() { _ = server.Close() })
	c.db, err = server.Create("docs")
	c.must(err)
	c.source, err = couchdb.Open(tb.Context(), couchdb.Options{URL: server.URL() + "/docs", SeqInterval: 1})
	c.must(err)
	tb.Cleanup(func() { _ = c.source.Close() })
	create := table.CreateOptions{Name: "docs", OrderColumn: hudi.ColumnRevOrder, KeyColumn: hudi.ColumnID, PartitionField: "pt"}
	c.table, err = table.Create(tb.Context(), storage.New(mem.New(nil), &storage.Options{Observe: c.observe}), create, table.Options{Clock: c.clock})
	c.must(err)
	lease, err := c.table.Lease(tb.Context())
	c.must(err)
	tb.Cleanup(func() { _ = lease.Close() })
	c.find = index.NewBloom(index.BloomOptions{})
	if find == "bucket" || find == "bucket, cache" {
		c.writer, c.find = costBuckets, index.NewBucket(index.BucketOptions{Buckets: costBuckets})
	}
	if find == "bloom, cache" || find == "bucket, cache" {
		cache, err := keycache.Open(tb.Context(), keycache.Options{Dir: filepath.Join(tb.TempDir(), "cache"), Identity: "docs", Fallback: c.find})
		c.must(err)
		tb.Cleanup(func() { _ = cache.Close() })
		c.find = cache
	}
	for i := range parts {
		c.put(i, 0)
	}
	c.ingest()
	return c
}

func (c *costly) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatal(err)
	}
}

// clock goes on by a second with each look: instants and files have times of their own.
func (c *costly) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	return c.now
}

func (c *costly) observe(e storage.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count.ops == nil {
		c.count = requests{ops: map[string]int{}, bytes: map[string]int64{}}
	}
	c.count.ops[e.Op]++
	c.count.bytes[e.Op] += e.Bytes
}

// during counts what something asks.
func (c *costly) during(does func()) requests {
	c.mu.Lock()
	c.count = requests{ops: map[string]int{}, bytes: map[string]int64{}}
	c.mu.Unlock()
	does()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.count
	c.count = requests{}
	return got
}

// put writes the n-th document of a partition.
func (c *costly) put(part, n int) {
	day := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, part).Format(time.DateOnly)
	_, err := c.db.Put(fmt.Sprintf("doc-%05d-%d", part, n), fmt.Appendf(nil, `{"day":%q,"n":%d}`, day, n))
	c.must(err)
}

// ingest makes one commit of what is new, and returns what that asked, without the
// start of the process.
func (c *costly) ingest() requests {
	c.tb.Helper()
	n, err := normalize.New(normalize.Options{Table: "docs", Deletes: "tombstone", PartitionField: "day", PartitionFormat: "yyyyMMdd", PartitionName: "pt"})
	c.must(err)
	commits := 0
	o := pipeline.Options{Source: c.source, Table: c.table, Normalizer: n, Once: true, Index: c.find, Clock: c.clock,
		Events: pipeline.Events{Committed: func(pipeline.Progress) { commits++ }}}
	o.Writer.Buckets = c.writer
	p, err := pipeline.New(c.tb.Context(), o)
	c.must(err)
	got := c.during(func() { c.must(p.Run(c.tb.Context())) })
	if commits != 1 {
		c.tb.Fatalf("%d commits", commits)
	}
	return got
}

// touched is how many partitions one commit changes: in each a document that there is,
// and a new one.
const touched = 4

func (c *costly) change(round int) {
	for i := range touched {
		c.put(i, 0)
		c.put(i, round)
	}
}

// costs are the costs of what is done to a table all the time, by its name.
func (c *costly) costs() map[string]requests {
	ctx, k := c.tb.Context(), map[string]requests{}
	for round := 1; round <= 4; round++ {
		c.change(round)
		k["commit"] = c.ingest()
	}
	v, err := c.table.View(ctx)
	c.must(err)
	writes := v.Writes()
	since := func() {
		v, err := c.table.View(ctx)
		c.must(err)
		rows := 0
		for _, err := range reader.Incremental(ctx, v, writes[len(writes)-2].Time, v.Last(), reader.Options{}) {
			c.must(err)
			rows++
		}
		if rows != 2*touched {
			c.tb.Errorf("%d rows since the last commit", rows)
		}
	}
	k["since"] = c.during(since)
	k["compact"] = c.during(func() {
		_, err := compaction.ScheduleAll(ctx, c.table, compaction.Policy{MaxDeltaCommits: 1})
		c.must(err)
		c.must(compaction.RunAll(ctx, c.table, compaction.RunOptions{}, func(compaction.Result) {}))
	})
	c.change(5)
	c.ingest()
	k["clean"] = c.during(func() {
		done, err := compaction.Clean(ctx, c.table, compaction.CleanPolicy{By: compaction.ByCommits, Keep: 1})
		c.must(err)
		if len(done) == 0 {
			c.tb.Error("nothing was cleaned")
		}
	})
	return k
}

// TestCosts: what a commit and an incremental read ask of the store depends on what
// changed, and not on how large the table is.
func TestCosts(t *testing.T) {
	const small, large = 8, 120
	// What one file of a commit takes: a marker, the file, and that the marker goes.
	const perCommit, perFile = 4, 2
	for _, find := range []string{"bloom", "bloom, cache", "bucket, cache"} {
		t.Run(find, func(t *testing.T) {
			few, many := newCostly(t, find, small).costs(), newCostly(t, find, large).costs()
			for _, what := range []string{"commit", "since", "compact", "clean"} {
				if few[what].all() != many[what].all() {
					t.Errorf("%s of %d partitions: %s\nof %d: %s", what, small, few[what], large, many[what])
				}
			}
			commit, since := many["commit"], many["since"]
			if commit.of("list") > 2 || commit.of("put", "create") > perCommit+perFile*touched || commit.of("delete") > 1+touched {
				t.Errorf("a commit: %s", commit)
			}
			// The newest instants, and of each file group its base file: to look keys up, and to
			// write it anew. No file is asked for before it is read.
			if most := 1 + 3*touched; find == "bloom" && commit.of("read") > most || find != "bloom" && commit.of("read") > 2+touched || commit.of("stat") > 0 {
				t.Errorf("a commit: %s", commit)
			}
			if compact := many["compact"]; compact.of("stat") > 2 {
				t.Errorf("a compaction: %s", compact)
			}
			if since.of("list") > 1 || since.of("read") > 1+touched || since.of("stat") > 0 || since.of("put", "create", "delete") > 0 {
				t.Errorf("a reading: %s", since)
			}
		})
	}
}

// BenchmarkCosts prints what commits, incremental reads, compactions and cleans ask of
// the store, for tables of 10, 100 and 1,000 partitions of one document; each commit
// changes four of them.
func BenchmarkCosts(b *testing.B) {
	for _, find := range []string{"bloom", "bloom, cache", "bucket", "bucket, cache"} {
		for _, parts := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", find, parts), func(b *testing.B) {
				for b.Loop() {
					k := newCostly(b, find, parts).costs()
					for _, what := range []string{"commit", "since", "compact", "clean"} {
						b.Logf("%-8s %s", what, k[what])
						b.ReportMetric(float64(k[what].all()), "requests/"+what)
					}
				}
			})
		}
	}
}
