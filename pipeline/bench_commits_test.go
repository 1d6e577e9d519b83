package pipeline_test

import (
	"flag"
	"fmt"
	"iter"
	"runtime/debug"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
)

var smallCommits = flag.Int("small.commits", 5000, "how many commits BenchmarkSmallCommits makes")

// mostGrowth is how much more CPU the last commits may take than those about the
// 100th.
const mostGrowth = 1.2

// collectAt is the garbage that the binary lets be before it collects, in percent.
const collectAt = 400

// BenchmarkSmallCommits makes 5,000 commits of ten rows, two of them new documents
// and two deletions, to a table of 40,000, one commit a second by an injected clock,
// with all services on. The last 120 take turns with the 41st to the 160th of a
// second table, made in the same way, and it compares what both cost: CPU of this
// process, services included, without the kernel's flushing of disks. Turns, because
// two spans of one run that lie a quarter of an hour apart differ by a fifth on a
// shared machine, whatever the program does. As many documents go as come, for what
// is compared is what the number of commits costs, not that of documents, which each
// compaction of their file group reads. A compaction is planned each minute, so that
// both have two, and runs between two commits: beside them, which take no second
// here, it would still run many commits later. It fails when the last cost more than
// 1.2 times as much, and when files or timeline have grown without bound: by more
// than the file groups have, which are few at first and many when all documents of
// the first commit are gone.
func BenchmarkSmallCommits(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	for _, buckets := range []int{0, 16} {
		b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) {
			for b.Loop() {
				compareCommits(b, buckets)
			}
		})
	}
}

func compareCommits(b *testing.B, buckets int) {
	const window, about, retain = 120, 100, 900
	commits := *smallCommits
	table := func() *secondly {
		s := &secondly{tb: b, buckets: buckets, fresh: 1, gone: 1, first: 40_000,
			services: compaction.Options{Mode: compaction.Inline, Clean: compaction.CleanPolicy{Retain: retain * time.Second, Every: retain / 3 * time.Second}}}
		s.open()
		return s
	}
	old, young := table(), table()
	half := held{}
	old.committed = func(n int) {
		if n == commits/2+retain/9 { // as long after a clean as the last
			half = old.held()
		}
	}
	a, stop := iter.Pull(old.each(commits))
	defer stop()
	z, end := iter.Pull(young.each(about + window/2))
	defer end()
	for old.commits <= commits-window {
		a()
	}
	for young.commits < about-window/2 {
		z()
	}
	late, early := turns(b, window, turn{old, a}, turn{young, z})
	held := old.held()
	b.ReportMetric(early, "cpu-ms/commit-100")
	b.ReportMetric(late, "cpu-ms/commit-last")
	b.ReportMetric(late/early, "late/early")
	b.ReportMetric(float64(old.commits), "commits")
	b.ReportMetric(float64(held.live), "live-files")
	b.ReportMetric(float64(held.data), "data-files")
	b.ReportMetric(float64(held.groups), "file-groups")
	b.ReportMetric(float64(held.instants), "instants")
	if late > mostGrowth*early {
		b.Errorf("the last commits took %.2f ms of CPU each, those about the 100th %.2f ms", late, early)
	}
	if commits > 3*retain && (held.instants > half.instants*5/4 || held.data*half.groups > half.data*held.groups*5/4) {
		b.Errorf("half-way %+v, in the end %+v", half, held)
	}
}

// turn is an ingest and what makes its next commit.
type turn struct {
	*secondly
	next func() (int, bool)
}

// turns lets two make so many commits in turns and says what one of each cost, in
// milliseconds of CPU. That an ingest starts anew each 200 commits is the
// benchmark's way, and does not count.
func turns(b *testing.B, n int, one, other turn) (ofOne, ofOther float64) {
	var sum [2]time.Duration
	for range n {
		for i, t := range []turn{one, other} {
			before, starts := cpuTime(), t.starts
			if _, more := t.next(); !more {
				b.Fatal("no further commit")
			}
			sum[i] += cpuTime() - before - (t.starts - starts)
		}
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) / 1000 }
	return ms(sum[0]), ms(sum[1])
}
