// Package timeline reads and names the instants of a table: the files in
// .hoodie whose names say what was begun and what is done. What the names look
// like differs by timeline layout and stays in here (docs/format/timeline.md).
package timeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

// State is how far an instant has come.
type State uint8

// The states, in the order in which an instant passes through them.
const (
	Requested State = iota
	Inflight
	Completed
)

// String is the state in lower case.
func (s State) String() string {
	switch s {
	case Requested:
		return "requested"
	case Inflight:
		return "inflight"
	case Completed:
		return "completed"
	}
	return "unknown"
}

// Instant is one entry of the timeline. A completed compaction is listed as
// the commit that it became, a completed log compaction as a deltacommit, a
// completed clustering as a replacecommit.
type Instant struct {
	Time   hudi.Time
	Action commitmeta.Action
	State  State
	// Completion is when a completed instant became so, by its name; "" in tables
	// before version 8, and for files that an upgrade of the table left.
	Completion hudi.Time
	// Modified is when the file of the most advanced state was last written,
	// by the store's clock.
	Modified time.Time
}

// String is the instant as people read it: "20260101000000000 deltacommit completed".
func (i Instant) String() string {
	return string(i.Time) + " " + string(i.Action) + " " + i.State.String()
}

// Done says whether the instant is completed.
func (i Instant) Done() bool { return i.State == Completed }

// Writes says whether the instant's action adds rows or rewrites files of the
// table: all but cleans, rollbacks, restores, savepoints and indexing.
func (i Instant) Writes() bool {
	switch i.Action {
	case commitmeta.ActionCommit, commitmeta.ActionDeltaCommit, commitmeta.ActionCompaction,
		commitmeta.ActionLogCompaction, commitmeta.ActionReplaceCommit, commitmeta.ActionClustering:
		return true
	default:
		return false
	}
}

// Same says whether two instants are the same in the same state, whenever
// their files were written.
func (i Instant) Same(o Instant) bool {
	return i.Time == o.Time && i.Action == o.Action && i.State == o.State
}

// group is what the files of one instant have in common: a compaction ends as
// a commit of the same time.
type group struct {
	time   hudi.Time
	action commitmeta.Action
}

func groupOf(i Instant) group {
	switch i.Action {
	case commitmeta.ActionCompaction:
		return group{i.Time, commitmeta.ActionCommit}
	case commitmeta.ActionLogCompaction:
		return group{i.Time, commitmeta.ActionDeltaCommit}
	case commitmeta.ActionClustering:
		return group{i.Time, commitmeta.ActionReplaceCommit}
	default:
		return group{i.Time, i.Action}
	}
}

// List is a Lister's only listing.
func List(ctx context.Context, b *storage.Bucket, v hudi.Version) ([]Instant, error) {
	l, err := NewLister(b, v)
	if err != nil {
		return nil, err
	}
	return l.List(ctx)
}

// Merge keeps the most advanced state of each instant, in ascending order of
// time, action.
func Merge(all []Instant) []Instant {
	best := make(map[group]Instant, len(all))
	for _, i := range all {
		g := groupOf(i)
		if have, ok := best[g]; !ok || i.State > have.State {
			best[g] = i
		}
	}
	list := make([]Instant, 0, len(best))
	for _, i := range best {
		list = append(list, i)
	}
	slices.SortFunc(list, compare)
	return list
}

// compare is the order of a timeline.
func compare(a, b Instant) int {
	if c := compareTimes(a.Time, b.Time); c != 0 {
		return c
	}
	return cmp.Compare(a.Action, b.Action)
}

func compareTimes(a, b hudi.Time) int {
	if c := a.Compare(b); c != 0 {
		return c
	}
	return cmp.Compare(a, b)
}

// at is the place of the first instant that is not before a time.
func at(list []Instant, t hudi.Time) int {
	n, _ := slices.BinarySearchFunc(list, t, func(i Instant, t hudi.Time) int { return compareTimes(i.Time, t) })
	return n
}

// Differences are the instants that only one of two timelines, both in their
// order, has in their state.
func Differences(a, b []Instant) []Instant {
	var diff []Instant
	for len(a) > 0 && len(b) > 0 {
		c := compare(a[0], b[0])
		switch {
		case c == 0 && a[0].State == b[0].State:
			a, b = a[1:], b[1:]
			continue
		case c == 0:
			diff = append(diff, a[0], b[0])
			a, b = a[1:], b[1:]
		case c < 0:
			diff, a = append(diff, a[0]), a[1:]
		default:
			diff, b = append(diff, b[0]), b[1:]
		}
	}
	return append(append(diff, a...), b...)
}

// Has says whether a timeline has a write of that time, and whether it is
// completed.
func Has(list []Instant, t hudi.Time) (completed, there bool) {
	for n := at(list, t); n < len(list) && list[n].Time == t; n++ {
		if list[n].Writes() {
			completed, there = completed || list[n].Done(), true
		}
	}
	return completed, there
}
