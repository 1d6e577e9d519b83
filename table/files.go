package table

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

// metafile marks a folder as a partition; tables of other writers may have it
// in the base format instead of text.
const metafile = ".hoodie_partition_metadata"

// files is what storage holds, listed when it is first asked for. A later
// files is made from it by applying changes, without listing again. What was
// listed late may hold files of later instants; the rules of slices leave
// them out.
type files struct {
	bucket *storage.Bucket

	mu sync.Mutex
	// whole says that all partitions are in parts.
	whole bool
	parts map[string]*partFiles
}

// partFiles are the files of a partition, by file group and slice, so that what
// changes a few slices costs what those have, and not what a long retention keeps of
// older ones. The lists are never written to, nor is groups: later files share them.
type partFiles struct {
	groups map[hudi.FileID]groupFiles
	// all are all files, sorted by name, put together when first asked for.
	all func() []hudi.File
}

// groupFiles are the files of a file group by slice, ascending.
type groupFiles []sliceFiles

// sliceFiles are the files that have one base instant in their names, sorted by name.
type sliceFiles struct {
	instant hudi.Time
	files   []hudi.File
}

func newPartFiles(list []hudi.File) *partFiles {
	list = sorted(list)
	changes := make([]change, len(list))
	for i, f := range list {
		changes[i].file = f
	}
	p := (&partFiles{}).with(changes)
	p.all = func() []hudi.File { return list }
	return p
}

// with is p after changes.
func (p *partFiles) with(changes []change) *partFiles {
	n := &partFiles{groups: maps.Clone(p.groups)}
	if n.groups == nil {
		n.groups = map[hudi.FileID]groupFiles{}
	}
	n.all = sync.OnceValue(func() []hudi.File {
		var list []hudi.File
		for _, g := range n.groups {
			list = g.appendTo(list)
		}
		return sorted(list)
	})
	bySlice := map[hudi.FileID]map[hudi.Time][]change{}
	for _, c := range changes {
		id, at, ok := sliceOf(c.file.Name)
		if !ok {
			continue
		}
		if bySlice[id] == nil {
			bySlice[id] = map[hudi.Time][]change{}
		}
		bySlice[id][at] = append(bySlice[id][at], c)
	}
	for id, changes := range bySlice {
		if n.groups[id] = n.groups[id].with(changes); len(n.groups[id]) == 0 {
			delete(n.groups, id)
		}
	}
	return n
}

// with is g after changes to some of its slices.
func (g groupFiles) with(changes map[hudi.Time][]change) groupFiles {
	n := slices.Grow(slices.Clone(g), len(changes))
	for at, changes := range changes {
		i, there := slices.BinarySearchFunc(n, at, func(s sliceFiles, at hudi.Time) int { return s.instant.Compare(at) })
		if !there {
			n = slices.Insert(n, i, sliceFiles{instant: at})
		}
		if n[i].files = changed(n[i].files, changes); len(n[i].files) == 0 {
			n = slices.Delete(n, i, i+1)
		}
	}
	return n
}

// changed is a list of files, sorted by name, after changes.
func changed(list []hudi.File, changes []change) []hudi.File {
	list = slices.Grow(slices.Clone(list), len(changes))
	for _, c := range changes {
		at, there := slices.BinarySearchFunc(list, c.file.Name, func(f hudi.File, name string) int { return strings.Compare(f.Name, name) })
		switch {
		case there && c.removed:
			list = slices.Delete(list, at, at+1)
		case there:
			list[at] = c.file
		case !c.removed:
			list = slices.Insert(list, at, c.file)
		}
	}
	return list
}

func (g groupFiles) appendTo(list []hudi.File) []hudi.File {
	for _, s := range g {
		list = append(list, s.files...)
	}
	return list
}

// file is the file of a name.
func (g groupFiles) file(name string) (hudi.File, bool) {
	_, at, _ := sliceOf(name)
	i, there := slices.BinarySearchFunc(g, at, func(s sliceFiles, at hudi.Time) int { return s.instant.Compare(at) })
	if !there {
		return hudi.File{}, false
	}
	n, there := slices.BinarySearchFunc(g[i].files, name, func(f hudi.File, name string) int { return strings.Compare(f.Name, name) })
	if !there {
		return hudi.File{}, false
	}
	return g[i].files[n], true
}

// latest appends the files of the slices from the newest down to the first that is
// committed and not of a pending compaction: what latest6 can take.
func (g groupFiles) latest(list []hudi.File, r sliceRules, compacting hudi.Time) []hudi.File {
	for _, s := range slices.Backward(g) {
		list = append(list, s.files...)
		if s.instant == compacting || !r.committed(s.instant) || r.at != "" && s.instant.After(r.at) {
			continue
		}
		if slices.ContainsFunc(s.files, isSeen) {
			break
		}
	}
	return list
}

// isSeen says whether a file is part of a slice, which files of changes alone do
// not make.
func isSeen(f hudi.File) bool {
	if !isLogName(f.Name) {
		return true
	}
	n, err := hudi.ParseLogFileName(f.Name)
	return err == nil && !n.CDC
}

func newFiles(b *storage.Bucket) *files {
	return &files{bucket: b, parts: map[string]*partFiles{}}
}

// partitions are the folders with a metafile, sorted. It lists the whole table
// once, in one pass.
func (f *files) partitions(ctx context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.whole {
		lists := map[string][]hudi.File{}
		marked := map[string]bool{}
		for o, err := range f.bucket.List(ctx, "") {
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(o.Name, hoodieFolder) {
				continue
			}
			partition, name := split(o.Name)
			if isMetafile(name) {
				marked[partition] = true
			} else if isData(name) {
				lists[partition] = append(lists[partition], hudi.File{Name: name, Size: o.Size})
			}
		}
		f.parts = make(map[string]*partFiles, len(marked))
		for p := range marked {
			f.parts[p] = newPartFiles(lists[p])
		}
		f.whole = true
	}
	return slices.Sorted(maps.Keys(f.parts)), nil
}

// partition is the files of one partition. It lists that folder once.
func (f *files) partition(ctx context.Context, p string) ([]hudi.File, error) {
	part, err := f.listed(ctx, p)
	if err != nil {
		return nil, err
	}
	return part.all(), nil
}

// listed are the files of one partition, none for a folder that is not one to any
// reader.
func (f *files) listed(ctx context.Context, p string) (*partFiles, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if part, ok := f.parts[p]; ok {
		return part, nil
	}
	if f.whole {
		return newPartFiles(nil), nil
	}
	prefix := p
	if p != "" {
		prefix += "/"
	}
	var list []hudi.File
	marked := false
	for o, err := range f.bucket.ListFolders(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(o.Name, prefix)
		if isMetafile(name) {
			marked = true
		} else if isData(name) {
			list = append(list, hudi.File{Name: name, Size: o.Size})
		}
	}
	if !marked {
		return newPartFiles(nil), nil
	}
	f.parts[p] = newPartFiles(list)
	return f.parts[p], nil
}

// latest are the files of the latest slices of some groups of a partition that was
// listed, by the rules of table version 6; false when it was not.
func (f *files) latest(p string, groups map[hudi.FileID]bool, r sliceRules) ([]hudi.File, bool) {
	f.mu.Lock()
	part, ok := f.parts[p]
	f.mu.Unlock()
	if !ok {
		return nil, false
	}
	var list []hudi.File
	for id := range groups {
		list = part.groups[id].latest(list, r, r.compacting(hudi.Location{Partition: p, File: id}))
	}
	return list, true
}

// with is f after changes.
func (f *files) with(changes []change) *files {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := &files{bucket: f.bucket, whole: f.whole, parts: maps.Clone(f.parts)}
	byPartition := map[string][]change{}
	for _, c := range changes {
		byPartition[c.partition] = append(byPartition[c.partition], c)
	}
	for p, changes := range byPartition {
		part, ok := n.parts[p]
		if !ok && !n.whole {
			continue // will be listed
		}
		if !ok {
			part = newPartFiles(nil)
		}
		n.parts[p] = part.with(changes)
	}
	return n
}

func sorted(list []hudi.File) []hudi.File {
	slices.SortFunc(list, func(a, b hudi.File) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func isMetafile(name string) bool {
	return name == metafile || strings.HasPrefix(name, metafile+".")
}

// isData says whether a name is that of a base or log file.
func isData(name string) bool {
	if isLogName(name) {
		_, err := hudi.ParseLogFileName(name)
		return err == nil
	}
	_, err := hudi.ParseBaseFileName(name)
	return err == nil
}

// split parts an object's name into partition and file name.
func split(name string) (partition, file string) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", name
	}
	return name[:i], name[i+1:]
}

// join is the object name of a partition's file.
func join(partition, name string) string {
	if partition == "" {
		return name
	}
	return partition + "/" + name
}
