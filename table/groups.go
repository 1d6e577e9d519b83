package table

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// Group is a file group with all its slices, those that no reader sees any more
// too: what a clean chooses from.
type Group struct {
	hudi.Location
	// Slices are in ascending order of their instants.
	Slices []GroupSlice
	// Replaced is the completed replacecommit that took the group out, "" for
	// none.
	Replaced hudi.Time
	// Compacting is the pending compaction of the group, "" for none.
	Compacting hudi.Time
}

// GroupSlice is one slice of a group.
type GroupSlice struct {
	Instant hudi.Time
	// Committed says that the slice's instant is part of the table. One that is
	// not is of a pending compaction or of a failed write.
	Committed bool
	// Files are base, log and change files. The slice is shared and must not be
	// written to.
	Files []hudi.File
}

// Groups are the file groups of a partition, by file id, replaced ones too.
func (v *View) Groups(ctx context.Context, partition string) ([]Group, error) {
	part, err := v.files.listed(ctx, partition)
	if err != nil {
		return nil, err
	}
	list := make([]Group, 0, len(part.groups))
	for id, found := range part.groups {
		g := Group{Location: hudi.Location{Partition: partition, File: id}, Slices: make([]GroupSlice, len(found))}
		g.Replaced, g.Compacting = v.replaced[g.Location], v.compacting[g.Location]
		for i, s := range found {
			g.Slices[i] = GroupSlice{Instant: s.instant, Committed: v.Committed(s.instant), Files: s.files}
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Compare(a.File, b.File) })
	return list, nil
}

// sliceOf is the group and the base instant in the name of a data file.
func sliceOf(name string) (hudi.FileID, hudi.Time, bool) {
	if isLogName(name) {
		n, err := hudi.ParseLogFileName(name)
		return n.File, n.Instant, err == nil
	}
	n, err := hudi.ParseBaseFileName(name)
	return n.File, n.Instant, err == nil
}

// Replaced are the completed replacecommits on the active timeline of whose
// replaced file groups some committed file is still there. Off the timeline they would no
// longer hide those.
func (v *View) Replaced(ctx context.Context) (map[hudi.Time]bool, error) {
	holding := map[hudi.Time]bool{}
	for l, at := range v.replaced {
		if holding[at] {
			continue
		}
		part, err := v.files.listed(ctx, l.Partition)
		if err != nil {
			return nil, err
		}
		holding[at] = slices.ContainsFunc(part.groups[l.File], func(s sliceFiles) bool { return v.Committed(s.instant) })
	}
	maps.DeleteFunc(holding, func(_ hudi.Time, holds bool) bool { return !holds })
	return holding, nil
}

// Saved are the files that savepoints hold, by partition and name.
func (v *View) Saved(ctx context.Context) (map[string]map[string]bool, error) {
	saved := map[string]map[string]bool{}
	for _, i := range v.instants {
		if i.Action != commitmeta.ActionSavepoint || !i.Done() {
			continue
		}
		data, name, err := v.table.content(ctx, i)
		if err != nil {
			return nil, err
		}
		s, err := commitmeta.DecodeSavepoint(data)
		if err != nil {
			return nil, hinted(ErrCorrupt, "delete the savepoint, or restore the file from a copy of the table", "%s: %v", name, err)
		}
		for partition, files := range s.Files {
			if saved[partition] == nil {
				saved[partition] = map[string]bool{}
			}
			for _, f := range files {
				saved[partition][f] = true
			}
		}
	}
	return saved, nil
}

// content is what an instant's file holds.
func (t *Table) content(ctx context.Context, i timeline.Instant) (data []byte, name string, err error) {
	if name, err = t.instantFile(i); err == nil {
		data, err = t.bucket.ReadAll(ctx, name, instantLimit)
	}
	return data, name, err
}
