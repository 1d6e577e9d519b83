package catalog

import (
	"context"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// marks are a metastore's notes of the last commit that it knows of: its time, and
// when the last to complete did.
type marks struct{ last, completed hudi.Time }

// written is what happened to partitions since some marks.
type written struct {
	// live have files, gone are values that have none any more.
	live []Partition
	gone []string
	// whole says that live are all that the table has.
	whole bool
}

// writtenSince is what commits after the marks did. Where the timeline does not say so
// (the marks are empty, archived, or of commits that were taken back) it is the whole
// table.
func (s *syncer) writtenSince(ctx context.Context, m marks) (written, error) {
	if w, ok := s.since[m]; ok {
		return w, nil
	}
	var w written
	var err error
	if s.reaches(m) {
		w, err = s.fromCommits(ctx, m)
	} else {
		w, err = s.fromFolders(ctx)
	}
	if err != nil {
		return w, err
	}
	s.since[m] = w
	return w, nil
}

// reaches says whether the active timeline tells all that happened after the marks.
func (s *syncer) reaches(m marks) bool {
	if m.last == "" || m.completed == "" || m.last.After(s.v.Last()) {
		return false
	}
	known := false
	for _, i := range s.v.Instants() {
		switch {
		case i.Action == commitmeta.ActionRestore && i.Time.After(m.last):
			return false // it took back commits that the metastore knows
		case i.Done() && i.Writes() && !i.Time.After(m.last):
			known = true
		}
	}
	return known
}

// after says whether a write is one that the marks do not have.
func (s *syncer) after(i timeline.Instant, m marks) bool {
	return i.Time.After(m.last) || s.v.When(i).After(m.completed)
}

func (s *syncer) fromCommits(ctx context.Context, m marks) (written, error) {
	// Of partitions of which file groups were replaced it is asked whether there is
	// anything left.
	touched := map[string]bool{}
	for _, i := range s.v.Writes() {
		if !s.after(i, m) {
			continue
		}
		b, err := s.v.Body(ctx, i)
		if err != nil {
			return written{}, err
		}
		for p := range b.Stats {
			touched[p] = touched[p] || false
		}
		for p := range b.Replaced {
			touched[p] = true
		}
	}
	return s.sorted(ctx, slices.Sorted(maps.Keys(touched)), func(p string) bool { return touched[p] })
}

func (s *syncer) fromFolders(ctx context.Context) (written, error) {
	paths, err := s.v.Partitions(ctx)
	if err != nil {
		return written{}, err
	}
	w, err := s.sorted(ctx, paths, func(string) bool { return true })
	w.whole = true
	return w, err
}

// sorted tells partitions with files from those without; look says of which that is
// asked.
func (s *syncer) sorted(ctx context.Context, paths []string, look func(path string) bool) (w written, err error) {
	var live, gone []string
	for _, p := range paths {
		if look(p) {
			list, err := s.v.Slices(ctx, p)
			if err != nil {
				return w, err
			}
			if len(list) == 0 {
				gone = append(gone, p)
				continue
			}
		}
		live = append(live, p)
	}
	if w.live, err = s.state.folders(live); err != nil {
		return w, err
	}
	none, err := s.state.folders(gone)
	for _, p := range none {
		w.gone = append(w.gone, p.Value)
	}
	return w, err
}
