package timeline

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Lister lists the active timeline of one table again and again. It remembers
// the files of completed instants, which never change: of those a listing looks
// at the names alone, and what it does beyond that costs what is new. It may be
// used concurrently. Its memory grows with the active timeline.
type Lister struct {
	bucket  *storage.Bucket
	version hudi.Version
	folder  string

	mu    sync.Mutex
	round uint64
	files map[string]*file // by name in the folder
	all   map[group]*states
	list  []Instant // what the last listing gave; never written to
}

// file is one file of the timeline.
type file struct {
	Instant
	name string
	// round is the last listing that met it.
	round uint64
	of    *states
}

// states are the files of one instant.
type states struct {
	group group
	files []*file
	// done says that the best of them is completed.
	done bool
}

// best is the file of the most advanced state; nil when there is none. Of two
// of the same state, which a compaction and a commit may have, it is the first
// by name.
func (s *states) best() *file {
	var best *file
	for _, f := range s.files {
		if best == nil || f.State > best.State || (f.State == best.State && f.name < best.name) {
			best = f
		}
	}
	return best
}

// NewLister is a Lister that has listed nothing yet.
func NewLister(b *storage.Bucket, v hudi.Version) (*Lister, error) {
	folder, err := Folder(v)
	if err != nil {
		return nil, err
	}
	l := &Lister{bucket: b, version: v, folder: folder}
	l.forget()
	return l, nil
}

func (l *Lister) forget() {
	l.files, l.all, l.list = map[string]*file{}, map[group]*states{}, nil
}

// List reads the active timeline in ascending order of time, each instant in
// its most advanced state. Names that are no instant's are passed over. The
// slice is shared and must not be written to.
func (l *Lister) List(ctx context.Context) ([]Instant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, err := l.look(ctx)
	if err != nil {
		l.forget()
		return nil, err
	}
	l.apply(changed)
	return l.list, nil
}

// look lists the names and says which instants are not as they were.
func (l *Lister) look(ctx context.Context) (map[*states]bool, error) {
	l.round++
	met, changed := 0, map[*states]bool{}
	known := func(name string) bool {
		f := l.files[name]
		if f == nil {
			_, ok := ParseFileName(l.version, name)
			return !ok
		}
		// What is pending may be taken back, and begun anew under the same name.
		if !f.of.done {
			return false
		}
		f.round = l.round
		met++
		return true
	}
	for o, err := range l.bucket.ListUnknown(ctx, l.folder, known) {
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(o.Name, l.folder)
		i, ok := ParseFileName(l.version, name)
		if !ok {
			continue // a folder
		}
		i.Modified = o.Modified
		f := l.files[name]
		if f == nil {
			f = l.add(name, i)
			changed[f.of] = true
		} else if !f.Modified.Equal(i.Modified) {
			f.Modified = i.Modified
			changed[f.of] = true
		}
		f.round = l.round
		met++
	}
	if met < len(l.files) {
		l.dropUnmet(changed)
	}
	return changed, nil
}

func (l *Lister) add(name string, i Instant) *file {
	g := groupOf(i)
	s := l.all[g]
	if s == nil {
		s = &states{group: g}
		l.all[g] = s
	}
	f := &file{Instant: i, name: name, of: s}
	s.files = append(s.files, f)
	s.done = s.done || i.Done()
	l.files[name] = f
	return f
}

// dropUnmet forgets the files that the listing has not met.
func (l *Lister) dropUnmet(changed map[*states]bool) {
	for name, f := range l.files {
		if f.round == l.round {
			continue
		}
		delete(l.files, name)
		f.of.files = slices.DeleteFunc(f.of.files, func(o *file) bool { return o == f })
		f.of.done = slices.ContainsFunc(f.of.files, func(o *file) bool { return o.Done() })
		changed[f.of] = true
	}
}

// apply makes the list anew: by a change here and there when these are few.
func (l *Lister) apply(changed map[*states]bool) {
	if len(changed) == 0 {
		return
	}
	const few = 32
	if len(changed) > few {
		list := make([]Instant, 0, len(l.all))
		for g, s := range l.all {
			if f := s.best(); f != nil {
				list = append(list, f.Instant)
			} else {
				delete(l.all, g)
			}
		}
		slices.SortFunc(list, compare)
		l.list = list
		return
	}
	list := make([]Instant, len(l.list), len(l.list)+len(changed))
	copy(list, l.list)
	for s := range changed {
		for n := at(list, s.group.time); n < len(list) && list[n].Time == s.group.time; n++ {
			if groupOf(list[n]) == s.group {
				list = slices.Delete(list, n, n+1)
				break
			}
		}
		f := s.best()
		if f == nil {
			delete(l.all, s.group)
			continue
		}
		n, _ := slices.BinarySearchFunc(list, f.Instant, compare)
		list = slices.Insert(list, n, f.Instant)
	}
	l.list = list
}
