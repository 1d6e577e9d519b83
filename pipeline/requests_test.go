package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/storage"
)

// TestRequests counts what commits ask of the storage. The usual commit lists the
// timeline once and makes as many requests late as early, whatever has gathered
// by then; with all that services do, the mean stays, too.
func TestRequests(t *testing.T) {
	const commits, window = 240, 60
	for _, buckets := range []int{0, 4} {
		t.Run(fmt.Sprintf("buckets=%d", buckets), func(t *testing.T) {
			var mu sync.Mutex
			lists, all, archived := 0, 0, 0
			var listed, asked []int
			var atFirst *int
			s := &secondly{tb: t, buckets: buckets, fresh: 1, first: 500, services: compaction.Options{
				Mode:    compaction.Inline,
				Policy:  compaction.Policy{MaxAge: 200 * time.Second, MinGap: 20 * time.Second},
				Clean:   compaction.CleanPolicy{Retain: 30 * time.Second, Every: 10 * time.Second},
				Archive: compaction.ArchivePolicy{KeepMin: 30, KeepMax: 40},
			}}
			s.observe = func(e storage.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Op == "list" {
					lists++
				}
				if strings.Contains(e.Name, "/archived/") {
					archived++
				}
				all++
			}
			s.committed = func(int) {
				mu.Lock()
				defer mu.Unlock()
				listed, asked = append(listed, lists), append(asked, all)
				lists, all = 0, 0
				if atFirst == nil {
					n := archived
					atFirst = &n
				}
			}
			s.open()
			s.run(commits)
			archived, atFirst = 0, nil
			s.run(1)
			if *atFirst > 0 {
				t.Errorf("a start asks %d times for what is archived", *atFirst)
			}
			early, late := asked[window:2*window], asked[len(asked)-window:]
			if n := median(listed[window:]); n != 1 {
				t.Errorf("the usual commit lists %d times", n)
			}
			t.Logf("requests a commit: median %d, later %d; mean %.1f, later %.1f", median(early), median(late), mean(early), mean(late))
			if median(late) > median(early)+1 || mean(late) > 1.1*mean(early) {
				t.Errorf("early %v\nlate %v", early, late)
			}
		})
	}
}

func median(list []int) int { return slices.Sorted(slices.Values(list))[len(list)/2] }

func mean(list []int) float64 {
	sum := 0
	for _, n := range list {
		sum += n
	}
	return float64(sum) / float64(len(list))
}
