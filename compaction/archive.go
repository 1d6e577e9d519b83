package compaction

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// ArchivePolicy says how many completed writes stay on the active timeline; the
// zero value of each field is its default.
type ArchivePolicy struct {
	// KeepMin stay after an archival; 1,800 by default, which is more than a day
	// of commits a minute with their compactions. By default it is 300 while the
	// last 333 writes are of less than an hour: each commit lists what stays.
	KeepMin int
	// KeepMax is the number above which one takes place; a ninth more than KeepMin
	// by default.
	KeepMax int
	// Off archives nothing.
	Off bool
}

const (
	defaultKeepMin = 1800
	keepMaxShare   = 9
	// quickKeepMin is KeepMin's default while that many writes, and those up to its
	// KeepMax, are of less than quick.
	quickKeepMin = 300
	quick        = time.Hour
)

// forWrites are the numbers for a timeline with these completed writes.
func (p ArchivePolicy) forWrites(writes []timeline.Instant) ArchivePolicy {
	if p.KeepMin <= 0 && p.KeepMax <= 0 {
		p.KeepMin = defaultKeepMin
		if few := keepMax(quickKeepMin); len(writes) > few {
			from, err := writes[len(writes)-few].Time.Clock()
			to, err2 := writes[len(writes)-1].Time.Clock()
			if err == nil && err2 == nil && to.Sub(from) < quick {
				p.KeepMin = quickKeepMin
			}
		}
	}
	p.KeepMin = cmp.Or(max(0, p.KeepMin), defaultKeepMin)
	p.KeepMax = max(cmp.Or(p.KeepMax, keepMax(p.KeepMin)), p.KeepMin)
	return p
}

func keepMax(keepMin int) int { return keepMin + max(1, keepMin/keepMaxShare) }

// PlanArchive chooses the instants of a timeline to archive, ascending; none while
// there are no more than KeepMax completed writes. Of the writes the oldest go,
// with the cleans and rollbacks before the last of them. What stays: all from the
// last write before the oldest pending instant on; all from the first savepoint
// on; all from the last write before the oldest unsettled one on, unless that is "";
// restores and indexing; replacecommits that hide files which are still there
// (replaced); and the last clean, which says how far back the table can be read.
func PlanArchive(instants []timeline.Instant, replaced map[hudi.Time]bool, unsettled hudi.Time, p ArchivePolicy) []timeline.Instant {
	if p.Off || len(instants) <= max(p.KeepMin, p.KeepMax) {
		return nil
	}
	writes := make([]timeline.Instant, 0, len(instants))
	for _, i := range instants {
		if i.Done() && i.Writes() {
			writes = append(writes, i)
		}
	}
	p = p.forWrites(writes)
	if p.Off || len(writes) <= p.KeepMax {
		return nil
	}
	writes = writes[:len(writes)-p.KeepMin]
	stays := firstToStay(instants, replaced, unsettled)
	n := len(writes)
	for n > 0 && stays != "" && !writes[n-1].Time.Before(stays) {
		n--
	}
	if n == 0 {
		return nil
	}
	last := writes[n-1].Time
	var clean hudi.Time
	var old []timeline.Instant
	for _, i := range instants {
		if i.Done() && i.Action == commitmeta.ActionClean {
			clean = i.Time
		}
	}
	for _, i := range instants {
		if !i.Done() || i.Time.After(last) {
			continue
		}
		service := i.Action == commitmeta.ActionRollback || (i.Action == commitmeta.ActionClean && i.Time != clean)
		if i.Writes() || service {
			old = append(old, i)
		}
	}
	return old
}

// firstToStay is the oldest instant that has to stay, with all after it; "" when
// none has to.
func firstToStay(instants []timeline.Instant, replaced map[hudi.Time]bool, unsettled hudi.Time) hudi.Time {
	var last hudi.Time // the last completed write
	for _, i := range instants {
		switch {
		case !i.Done(), unsettled != "" && !i.Time.Before(unsettled):
			// Hudi's readers take what is before the timeline for completed, so
			// that there must be a completed write before it.
			return cmp.Or(last, i.Time)
		case i.Action == commitmeta.ActionSavepoint, replaced[i.Time]:
			return i.Time
		case i.Writes():
			last = i.Time
		}
	}
	return ""
}

// NextArchival are the instants that an archival of a table as it is would move.
func NextArchival(ctx context.Context, v *table.View, p ArchivePolicy) ([]timeline.Instant, error) {
	instants := v.Instants()
	if len(PlanArchive(instants, nil, "", p)) == 0 {
		return nil, nil
	}
	replaced, err := v.Replaced(ctx)
	if err != nil {
		return nil, err
	}
	return PlanArchive(instants, replaced, v.Table().Unsettled(), p), nil
}

// Archive moves old instants to the archive, if there are more than the policy
// allows. It needs the table's lease, and that no commit of this process is open.
func Archive(ctx context.Context, t *table.Table, p ArchivePolicy) (table.Archived, error) {
	v, err := t.Current(ctx)
	if err != nil {
		return table.Archived{}, err
	}
	old, err := NextArchival(ctx, v, p)
	if err != nil || len(old) == 0 {
		return table.Archived{}, err
	}
	return t.Archive(ctx, slices.Clone(old))
}

// archive archives when the timeline is long enough.
func (s *Services) archive(ctx context.Context) error {
	done, err := Archive(ctx, s.o.Table, s.o.Archive)
	if err == nil && done.Instants > 0 && s.o.Events.Archived != nil {
		s.tell(func() { s.o.Events.Archived(done) })
	}
	return err
}
