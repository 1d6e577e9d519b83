package pipeline_test

import (
	"flag"
	"fmt"
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
// with all services on, and compares what the last 120 cost with what the 41st to the
// 160th did: CPU of this process, services included, without the kernel's flushing
// of disks. As many documents go as come, for what is compared is what the number of
// commits costs, not that of documents, which each compaction of their file group
// reads. A compaction is planned each minute, so that both have two, and runs between
// two commits: beside them, which take no second here, it would still run many
// commits later. It fails when the last cost more than 1.2 times as much, and when
// files or timeline have grown without bound: by more than the file groups have,
// which are few at first and many when all documents of the first commit are gone.
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
	const window, retain = 120, 900
	commits := *smallCommits
	cpu := []time.Duration{0}
	s := &secondly{tb: b, buckets: buckets, fresh: 1, gone: 1, first: 40_000,
		services: compaction.Options{Mode: compaction.Inline, Clean: compaction.CleanPolicy{Retain: retain * time.Second, Every: retain / 3 * time.Second}}}
	half := held{}
	s.committed = func(n int) {
		if n == commits/2+retain/9 { // as long after a clean as the last
			half = s.held()
		}
		cpu = append(cpu, cpuTime())
	}
	s.open()
	cpu[0] = cpuTime()
	s.run(commits)
	cost := func(from, to int) float64 {
		return float64((cpu[to] - cpu[from]).Microseconds()) / float64(to-from) / 1000
	}
	for n := 100; n+window/2 < len(cpu); n += 300 {
		b.Logf("about commit %4d: %.2f ms", n, cost(n-window/2, n+window/2))
	}
	early, late := cost(100-window/2, 100+window/2), cost(len(cpu)-1-window, len(cpu)-1)
	end := s.held()
	b.ReportMetric(early, "cpu-ms/commit-100")
	b.ReportMetric(late, "cpu-ms/commit-last")
	b.ReportMetric(late/early, "late/early")
	b.ReportMetric(float64(len(cpu)-1), "commits")
	b.ReportMetric(float64(end.live), "live-files")
	b.ReportMetric(float64(end.data), "data-files")
	b.ReportMetric(float64(end.groups), "file-groups")
	b.ReportMetric(float64(end.instants), "instants")
	if late > mostGrowth*early {
		b.Errorf("the last commits took %.2f ms of CPU each, those about the 100th %.2f ms", late, early)
	}
	if commits > 3*retain && (end.instants > half.instants*5/4 || end.data*half.groups > half.data*end.groups*5/4) {
		b.Errorf("half-way %+v, in the end %+v", half, end)
	}
}
