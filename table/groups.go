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
	// Files are names of base, log and change files.
	Files []string
}

// Groups are the file groups of a partition, by file id, replaced ones too.
func (v *View) Groups(ctx context.Context, partition string) ([]Group, error) {
	files, err := v.files.partition(ctx, partition)
	if err != nil {
		return nil, err
	}
	groups := map[hudi.FileID]map[hudi.Time][]string{}
	for _, f := range files {
		id, at, ok := sliceOf(f.Name)
		if !ok {
			continue
		}
		if groups[id] == nil {
			groups[id] = map[hudi.Time][]string{}
		}
		groups[id][at] = append(groups[id][at], f.Name)
	}
	list := make([]Group, 0, len(groups))
	for id, found := range groups {
		g := Group{Location: hudi.Location{Partition: partition, File: id}}
		g.Replaced, g.Compacting = v.replaced[g.Location], v.compacting[g.Location]
		for _, at := range slices.SortedFunc(maps.Keys(found), hudi.Time.Compare) {
			g.Slices = append(g.Slices, GroupSlice{Instant: at, Committed: v.Committed(at), Files: found[at]})
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
		files, err := v.files.partition(ctx, l.Partition)
		if err != nil {
			return nil, err
		}
		holding[at] = slices.ContainsFunc(files, func(f hudi.File) bool {
			id, base, ok := sliceOf(f.Name)
			return ok && id == l.File && v.Committed(base)
		})
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
