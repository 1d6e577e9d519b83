package writer_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/writer"
)

// simulated is a table of file sizes, to which Assign's plans are applied.
type simulated struct {
	latest map[string][]hudi.Slice
	// rewritten is what was read to be written again, worst the most of one
	// commit, and held what the new keys take.
	rewritten, worst, held int64
}

const (
	simRow    = 300      // bytes of a stored row
	simFooter = 10 << 10 // and of what every base file has beside rows
)

func (s *simulated) apply(plan []writer.Assignment) {
	cost := int64(0)
	for _, a := range plan {
		p, n := a.Slice.Partition, int64(len(a.Records))*simRow
		s.held += n
		if a.New {
			s.latest[p] = append(s.latest[p], sized(p, string(a.Slice.File), n+simFooter))
			continue
		}
		for i := range s.latest[p] {
			if base := &s.latest[p][i].Base; s.latest[p][i].File == a.Slice.File {
				cost += base.Size
				base.Size += n
			}
		}
	}
	s.rewritten, s.worst = s.rewritten+cost, max(s.worst, cost)
}

func (s *simulated) files() int {
	n := 0
	for _, list := range s.latest {
		n += len(list)
	}
	return n
}

// TestPolicy commits new keys a thousand times and holds the number of live
// files and the bytes written again against what docs/adr/0016 promises. The
// figures there are this test's (go test ./writer -run TestPolicy -v).
func TestPolicy(t *testing.T) {
	const commits, mib = 1000, 1 << 20
	rows := 2_000_000
	if testing.Short() {
		rows = 200_000
	}
	row := hudi.Row{hudi.String(strings.Repeat("document ", 100))}
	for _, c := range []struct {
		rows, partitions   int
		fileBytes, rewrite int64
	}{
		{10, 1, 128 * mib, -1}, {10, 1, 128 * mib, 1 * mib}, {10, 1, 128 * mib, 16 * mib},
		{1000, 1, 128 * mib, -1}, {1000, 1, 128 * mib, 1 * mib}, {1000, 1, 128 * mib, 16 * mib}, {1000, 1, 128 * mib, 128 * mib},
		{10_000, 1, 128 * mib, 16 * mib}, {1000, 1, 4 * mib, 16 * mib}, {1000, 50, 128 * mib, 16 * mib}, {20_000, 1, 4 * mib, 16 * mib},
	} {
		s := &simulated{latest: map[string][]hudi.Slice{}}
		o := writer.Options{FileBytes: c.fileBytes, MaxRewrite: c.rewrite, NewID: ids(1)}
		rs := make([]hudi.Located, c.rows) // the policy does not look at keys
		for i := range rs {
			rs[i] = located(fmt.Sprintf("%08x", uint32(i)*2654435761), fmt.Sprint("p=", i%c.partitions), "")
			rs[i].Row = row
		}
		for range min(commits, rows/c.rows) {
			plan, err := writer.Assign(writer.State{Latest: s.latest, RowBytes: simRow}, rs, o)
			if err != nil {
				t.Fatal(err)
			}
			s.apply(plan)
		}
		most := s.bound(min(c.rewrite, max(16*int64(c.rows)*simRow, 256<<10)), c.fileBytes, c.partitions)
		t.Logf("%6d rows a commit, %2d partitions, file_size %s, max_rewrite %s: %6.1f MB in %4d files (at most %.0f), %7.1f MB rewritten, %5.2f MB the most in a commit",
			c.rows, c.partitions, mibs(c.fileBytes), mibs(c.rewrite), float64(s.held)/1e6, s.files(), most, float64(s.rewritten)/1e6, float64(s.worst)/1e6)
		if s.worst > max(c.rewrite, 0) || s.worst > max(16*int64(c.rows)*simRow, 256<<10) {
			t.Errorf("%d bytes rewritten in one commit", s.worst)
		}
		if float64(s.files()) > most {
			t.Errorf("%d files, more than %.0f", s.files(), most)
		}
	}
}

// bound is the most live files that the policy promises: a group is closed when
// it is full or, in a partition that has its share of the budget, when it is
// larger than that; and each partition has one that is not.
func (s *simulated) bound(rewrite, fileBytes int64, partitions int) float64 {
	if rewrite < 0 {
		return math.Inf(1)
	}
	closed := min(fileBytes*5/6, rewrite/int64(partitions))
	return float64(s.held)/float64(closed-simFooter) + float64(partitions)
}

func mibs(n int64) string { return strings.Replace(fmt.Sprintf("%d MiB", n>>20), "-1 MiB", "off", 1) }
