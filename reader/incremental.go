package reader

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// RangeError is an ErrCleaned with what an operator needs to know.
type RangeError struct {
	// Begin is the asked range's exclusive begin, "" for a snapshot of the past,
	// At the instant of that.
	Begin, At hudi.Time
	// Commit wrote File, which is gone.
	Commit hudi.Time
	File   string
	// Oldest is the oldest begin after Begin, or the oldest instant after At, with
	// which the reading works.
	Oldest hudi.Time
}

// Error implements error.
func (e *RangeError) Error() string {
	what := fmt.Sprintf("read changes after %q", e.Begin)
	if e.At != "" {
		what = fmt.Sprintf("read the table as of %s", e.At)
	}
	return fmt.Sprintf("%s: %v: %q of commit %s is gone", what, ErrCleaned, e.File, e.Commit)
}

// Unwrap makes it an ErrCleaned.
func (e *RangeError) Unwrap() error { return ErrCleaned }

// Hint says what to do.
func (e *RangeError) Hint() string {
	return fmt.Sprintf("begin at %s or later, or read the newest snapshot", e.Oldest)
}

// Incremental yields the rows that the commits after begin, up to and with end,
// wrote, as their newest versions within the range: only what the range wrote
// is merged, so that a row which lost against an older one shows up, and hard
// deletes do not show (tombstones do). An empty end is the last commit. This is
// what Hudi's own incremental queries give.
func Incremental(ctx context.Context, v *table.View, begin, end hudi.Time, o Options) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		v, err := v.Reaching(ctx, begin)
		if err != nil {
			yield(nil, err)
			return
		}
		if end == "" || end.After(v.Last()) {
			end = v.Last()
		}
		if !begin.Before(end) {
			return
		}
		r := span{view: v.AsOf(end), begin: begin, end: end, o: o}
		if err := r.read(ctx, yield); err != nil {
			yield(nil, err)
		}
	}
}

// span is a range of commits.
type span struct {
	view       *table.View
	begin, end hudi.Time
	o          Options
}

func (r *span) holds(t hudi.Time) bool { return t.After(r.begin) && !t.After(r.end) }

// complete says whether the files are still there that the range's commits, the
// last ones of each file group, wrote: with a RangeError, whose Oldest is the last
// commit with a file that is gone.
func (r *span) complete(ctx context.Context, wrote map[string]map[hudi.FileID]*group) error {
	var gone *RangeError
	for _, partition := range slices.Sorted(maps.Keys(wrote)) {
		list, err := r.view.Slices(ctx, partition)
		if err != nil {
			return err
		}
		slice := make(map[hudi.FileID]hudi.Slice, len(list))
		for _, s := range list {
			slice[s.File] = s
		}
		for _, id := range slices.Sorted(maps.Keys(wrote[partition])) {
			g := wrote[partition][id]
			file, commit := g.missing(slice[id])
			if file == "" {
				continue
			}
			if gone == nil {
				gone = &RangeError{Begin: r.begin, Commit: commit, File: file}
			}
			if commit.After(gone.Oldest) {
				gone.Oldest = commit
			}
		}
	}
	if gone != nil {
		return gone
	}
	return nil
}

func (r *span) read(ctx context.Context, yield func(*hudi.Record, error) bool) error {
	o := r.o
	o.IncludeDeletes, o.HardDeletes = true, false
	p, err := newProjection(ctx, r.view, &o, r.begin)
	if err != nil {
		return err
	}
	p.only = r.holds
	r.o = o
	wrote, err := r.wanted(ctx)
	if err != nil {
		return err
	}
	for _, partition := range slices.Sorted(maps.Keys(wrote)) {
		found, err := r.cut(ctx, partition, wrote[partition])
		if err != nil {
			return err
		}
		for _, s := range found {
			m, err := newMerger(ctx, r.view, s, p.read, o)
			if err != nil {
				return err
			}
			m.only = r.holds
			if !p.pass(func(y func(*hudi.Record, error) bool) { m.run(ctx, y) }, yield) {
				return nil
			}
		}
	}
	return nil
}

// wanted is what the range wrote to the partitions that are asked for, all of
// which is still there.
func (r *span) wanted(ctx context.Context) (map[string]map[hudi.FileID]*group, error) {
	wrote, err := r.written(ctx)
	if err != nil {
		return nil, err
	}
	partitions := r.o.within(slices.Collect(maps.Keys(wrote)))
	maps.DeleteFunc(wrote, func(p string, _ map[hudi.FileID]*group) bool { return !slices.Contains(partitions, p) })
	return wrote, r.complete(ctx, wrote)
}

// group is what the range wrote to one file group.
type group struct {
	// files are the names, each with the commit that wrote it.
	files map[string]hudi.Time
	// latest is the greatest base instant in the names.
	latest hudi.Time
	// replaced says that a replacecommit of the range took the group away.
	replaced bool
}

// written is what the write stats of the range name, by partition and group.
func (r *span) written(ctx context.Context) (map[string]map[hudi.FileID]*group, error) {
	all := map[string]map[hudi.FileID]*group{}
	for _, i := range r.view.Writes() {
		if !r.holds(i.Time) {
			continue
		}
		body, err := r.view.Body(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("read commit %s: %w", i.Time, err)
		}
		if err := note(all, i, &body); err != nil {
			return nil, fmt.Errorf("read commit %s: %w", i.Time, err)
		}
	}
	return all, nil
}

func note(all map[string]map[hudi.FileID]*group, i timeline.Instant, body *commitmeta.Body) error {
	for partition, stats := range body.Stats {
		for k := range stats {
			name := path.Base(stats[k].Path)
			instant, err := baseInstant(name)
			if err != nil {
				return err
			}
			g := groupOf(all, partition, stats[k].File)
			g.files[name] = i.Time
			if instant.After(g.latest) {
				g.latest = instant
			}
		}
	}
	for partition, ids := range body.Replaced {
		for _, id := range ids {
			groupOf(all, partition, id).replaced = true
		}
	}
	return nil
}

func groupOf(all map[string]map[hudi.FileID]*group, partition string, id hudi.FileID) *group {
	if all[partition] == nil {
		all[partition] = map[hudi.FileID]*group{}
	}
	g := all[partition][id]
	if g == nil {
		g = &group{files: map[string]hudi.Time{}}
		all[partition][id] = g
	}
	return g
}

// baseInstant is the instant of the slice that a file belongs to.
func baseInstant(name string) (hudi.Time, error) {
	if b, err := hudi.ParseBaseFileName(name); err == nil {
		return b.Instant, nil
	}
	l, err := hudi.ParseLogFileName(name)
	return l.Instant, err
}

// cut is the latest slices of a partition, each less the files that the range
// did not write.
func (r *span) cut(ctx context.Context, partition string, wrote map[hudi.FileID]*group) ([]hudi.Slice, error) {
	list, err := r.view.Slices(ctx, partition)
	if err != nil {
		return nil, err
	}
	var found []hudi.Slice
	for _, s := range list {
		g := wrote[s.File]
		if g == nil {
			continue
		}
		if s = g.keep(s); s.Base.Name != "" || len(s.Logs) > 0 {
			found = append(found, s)
		}
	}
	return found, nil
}

// keep is s less the files that are not the group's.
func (g *group) keep(s hudi.Slice) hudi.Slice {
	if _, mine := g.files[s.Base.Name]; !mine {
		s.Base = hudi.File{}
	}
	s.Logs = slices.DeleteFunc(slices.Clone(s.Logs), func(log hudi.File) bool {
		_, mine := g.files[log.Name]
		return !mine
	})
	return s
}

// missing is a file of the group's latest slice that is not in s, with the last
// commit that wrote such a one; "" when all are there or do not matter.
func (g *group) missing(s hudi.Slice) (file string, commit hudi.Time) {
	if g.replaced || s.Instant.After(g.latest) {
		return "", "" // all that the range wrote lies below what counts
	}
	there := map[string]bool{s.Base.Name: true}
	for _, log := range s.Logs {
		there[log.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(g.files)) {
		// note has read the names.
		if instant, err := baseInstant(name); err != nil || instant != g.latest || there[name] {
			continue
		}
		if at := g.files[name]; file == "" || at.After(commit) {
			file, commit = name, at
		}
	}
	return file, commit
}
