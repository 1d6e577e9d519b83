// Package timeline reads and names the instants of a table: the files in
// .hoodie whose names say what was begun and what is done. What the names look
// like differs by timeline layout and stays in here (docs/format/timeline.md).
package timeline

import (
	"cmp"
	"context"
	"slices"
	"strings"
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
// the commit that it became, a completed log compaction as a deltacommit.
type Instant struct {
	Time   hudi.Time
	Action commitmeta.Action
	State  State
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
		commitmeta.ActionLogCompaction, commitmeta.ActionReplaceCommit:
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
	default:
		return group{i.Time, i.Action}
	}
}

// List reads the active timeline in ascending order of time, each instant in
// its most advanced state. Names that are no instant's are passed over.
func List(ctx context.Context, b *storage.Bucket, v hudi.Version) ([]Instant, error) {
	folder, err := Folder(v)
	if err != nil {
		return nil, err
	}
	var all []Instant
	for o, err := range b.ListFolders(ctx, folder) {
		if err != nil {
			return nil, err
		}
		i, ok := ParseFileName(strings.TrimPrefix(o.Name, folder))
		if !ok {
			continue
		}
		i.Modified = o.Modified
		all = append(all, i)
	}
	return Merge(all), nil
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
	slices.SortFunc(list, func(a, b Instant) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Time, b.Time), cmp.Compare(a.Action, b.Action))
	})
	return list
}
