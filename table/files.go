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
	// whole says that all partitions are in lists.
	whole bool
	// lists holds the files of a partition, sorted by name. The slices are
	// never written to.
	lists map[string][]hudi.File
}

func newFiles(b *storage.Bucket) *files {
	return &files{bucket: b, lists: map[string][]hudi.File{}}
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
		f.lists = make(map[string][]hudi.File, len(marked))
		for p := range marked {
			f.lists[p] = sorted(lists[p])
		}
		f.whole = true
	}
	return slices.Sorted(maps.Keys(f.lists)), nil
}

// partition is the files of one partition. It lists that folder once.
func (f *files) partition(ctx context.Context, p string) ([]hudi.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if list, ok := f.lists[p]; ok || f.whole {
		return list, nil
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
		list = nil // not a partition to any reader
	}
	list = sorted(list)
	if marked {
		f.lists[p] = list
	}
	return list, nil
}

// with is f after changes.
func (f *files) with(changes []change) *files {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := &files{bucket: f.bucket, whole: f.whole, lists: maps.Clone(f.lists)}
	byPartition := map[string][]change{}
	for _, c := range changes {
		byPartition[c.partition] = append(byPartition[c.partition], c)
	}
	for p, changes := range byPartition {
		list, ok := n.lists[p]
		if !ok && !n.whole {
			continue // will be listed
		}
		byName := make(map[string]hudi.File, len(list)+len(changes))
		for _, file := range list {
			byName[file.Name] = file
		}
		for _, c := range changes {
			if c.removed {
				delete(byName, c.file.Name)
			} else {
				byName[c.file.Name] = c.file
			}
		}
		n.lists[p] = sorted(slices.Collect(maps.Values(byName)))
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
