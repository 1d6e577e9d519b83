package compaction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// ages knows when the oldest log file of each slice was written. It reads each
// commit once.
type ages struct {
	// upTo is the newest commit that was read.
	upTo hudi.Time
	logs map[slot]*log
}

// slot is a slice, by what the names of its log files have.
type slot struct {
	hudi.Location
	base hudi.Time
}

// log sums up the log files of a slice that commits named.
type log struct {
	oldest time.Time
	files  int
	bytes  int64
}

// read reads the commits that it has not read, from since on.
func (a *ages) read(ctx context.Context, v *table.View, since hudi.Time) error {
	if a.logs == nil {
		a.logs = map[slot]*log{}
	}
	if since.Before(a.upTo) {
		since = a.upTo
	}
	var fresh []timeline.Instant
	for _, i := range slices.Backward(v.Instants()) {
		if !i.Time.After(since) {
			break
		}
		if i.Done() && i.Writes() {
			fresh = append(fresh, i)
		}
	}
	for _, i := range slices.Backward(fresh) {
		if err := a.commit(ctx, v, i); err != nil {
			return err
		}
		a.upTo = i.Time
	}
	return nil
}

func (a *ages) commit(ctx context.Context, v *table.View, i timeline.Instant) error {
	b, err := v.Body(ctx, i)
	if err != nil {
		return fmt.Errorf("read commit %s: %w", i.Time, err)
	}
	at, err := i.Time.Clock()
	if err != nil {
		return err
	}
	for partition, stats := range b.Stats {
		for k := range stats {
			s := &stats[k]
			if s.Log == nil {
				continue
			}
			l := a.slot(slot{hudi.Location{Partition: partition, File: s.File}, s.PrevCommit})
			if l.files == 0 || at.Before(l.oldest) {
				l.oldest = at
			}
			l.files++
			l.bytes += s.Bytes
		}
	}
	return nil
}

func (a *ages) slot(s slot) *log {
	if a.logs[s] == nil {
		a.logs[s] = &log{}
	}
	return a.logs[s]
}

// due says whether some slice may be due: whether it is worth looking at all.
func (a *ages) due(p Policy, now time.Time) bool {
	for _, l := range a.logs {
		if l.files >= p.MaxDeltaCommits || now.Sub(l.oldest) >= p.MaxAge || l.bytes >= min(p.LogBytes, smallLogs) {
			return true
		}
	}
	return false
}

// oldest are the times of slices' oldest log files. What is known of slices that
// are no more is forgotten.
func (a *ages) oldest(latest []hudi.Slice) map[hudi.Location]time.Time {
	times, live := map[hudi.Location]time.Time{}, map[slot]*log{}
	for i := range latest {
		s := &latest[i]
		for _, base := range []hudi.Time{s.Instant, s.Compacting} {
			if l := a.logs[slot{s.Location, base}]; l != nil && base != "" {
				live[slot{s.Location, base}] = l
			}
		}
		if l := a.logs[slot{s.Location, s.Instant}]; l != nil {
			times[s.Location] = l.oldest
		}
	}
	a.logs = live
	return times
}
