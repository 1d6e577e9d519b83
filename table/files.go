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

// partFiles are the files of a partition, by file group, so that what changes a
// few groups costs what those have. The lists are sorted by name and never
// written to, nor is groups: later files share them.
type partFiles struct {
	groups map[hudi.FileID][]hudi.File
	// all are all files, sorted by name, put together when first asked for.
	all func() []hudi.File
}

func newPartFiles(list []hudi.File) *partFiles {
	list = sorted(list)
	p := &partFiles{groups: map[hudi.FileID][]hudi.File{}, all: func() []hudi.File { return list }}
	for _, f := range list {
		id, _, _ := sliceOf(f.Name)
		p.groups[id] = append(p.groups[id], f)
	}
	return p
}

// with is p after changes.
func (p *partFiles) with(changes []change) *partFiles {
	n := &partFiles{groups: maps.Clone(p.groups)}
	n.all = sync.OnceValue(func() []hudi.File { return sorted(slices.Concat(slices.Collect(maps.Values(n.groups))...)) })
	byGroup := map[hudi.FileID][]change{}
	for _, c := range changes {
		if id, _, ok := sliceOf(c.file.Name); ok {
			byGroup[id] = append(byGroup[id], c)
		}
	}
	for id, changes := range byGroup {
		list := slices.Grow(slices.Clone(n.groups[id]), len(changes))
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
		if n.groups[id] = list; len(list) == 0 {
			delete(n.groups, id)
		}
	}
	return n
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
	f.mu.Lock()
	defer f.mu.Unlock()
	if part, ok := f.parts[p]; ok {
		return part.all(), nil
	}
	if f.whole {
		return nil, nil
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
		return nil, nil // not a partition to any reader
	}
	f.parts[p] = newPartFiles(list)
	return f.parts[p].all(), nil
}

// of are the files of some groups of a partition that was listed; false when it
// was not.
func (f *files) of(p string, groups map[hudi.FileID]bool) ([]hudi.File, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	part, ok := f.parts[p]
	if !ok {
		return nil, false
	}
	var list []hudi.File
	for id := range groups {
		list = append(list, part.groups[id]...)
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
