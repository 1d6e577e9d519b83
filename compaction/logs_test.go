package compaction_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestRunOfManyLogs: a slice with hundreds of log files, which are all open at once, is
// merged within the bound of what is held of them, and each is read twice at most.
func TestRunOfManyLogs(t *testing.T) {
	w := newWorld(t, 5)
	const commits = 200
	for range commits {
		w.commit(14)
	}
	plan := w.planAll()
	at, err := w.table.Schedule(t.Context(), plan)
	w.must(err)
	var reads atomic.Int64
	observe := func(e storage.Event) {
		if e.Op == "read" && strings.Contains(e.Name, ".log.") {
			reads.Add(1)
		}
	}
	// All logs together take several times as much.
	const limit = 64 << 10
	cache := storage.NewCache(limit)
	other, err := table.Open(t.Context(), storage.New(w.store, &storage.Options{Cache: cache, Observe: observe}), w.options())
	w.must(err)
	r, err := compaction.Run(t.Context(), other, at, compaction.RunOptions{Clock: w.clock.Now})
	w.must(err)
	now, most := cache.Bytes()
	if r.ReadBytes < 4*limit || r.LogFiles < commits || now != 0 || most > limit || most < limit/2 {
		t.Errorf("%d log files, %d bytes: %d bytes held at the end, %d at most, of %d", r.LogFiles, r.ReadBytes, now, most, limit)
	}
	if reads.Load() > 2*r.LogFiles {
		t.Errorf("%d log files were read by %d requests", r.LogFiles, reads.Load())
	}
	w.check("hundreds of logs")
	w.settled("hundreds of logs")
}
