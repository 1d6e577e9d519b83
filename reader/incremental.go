package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"time"

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
		if last := v.Latest(); end == "" || end.After(last) {
			end = last
		}
		if !begin.Before(end) {
			return
		}
		r := span{view: v.Until(end), begin: begin, end: end, o: o}
		if err := r.read(ctx, yield); err != nil {
			yield(nil, err)
		}
	}
}

// span is a range of commits, by the When of the view.
type span struct {
	view       *table.View
	begin, end hudi.Time
	o          Options
	// wrote are the times of its writes, and first is before them all.
	wrote map[hudi.Time]bool
	first hudi.Time
}

// holds says whether a write lies in the range.
func (r *span) holds(i timeline.Instant) bool {
	when := r.view.When(i)
	return when.After(r.begin) && !when.After(r.end)
}

// of says whether a row or a log block is one of the range. It carries the time
// of its write, which need not be where that stands.
func (r *span) of(t hudi.Time) bool { return r.wrote[t] }

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
			name, file := g.missing(slice[id])
			if name == "" {
				continue
			}
			if gone == nil {
				gone = &RangeError{Begin: r.begin, Commit: file.commit, File: name}
			}
			if file.when.After(gone.Oldest) {
				gone.Oldest = file.when
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
	p, err := newProjection(ctx, r.view, &o)
	if errors.Is(err, table.ErrNoSchema) && r.view.Last() == "" {
		return nil // the range ends before the first commit
	}
	if err != nil {
		return err
	}
	r.o = o
	wrote, err := r.wanted(ctx)
	if err != nil {
		return err
	}
	p.only = r.of
	o.push = o.push.after(r.first)
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
			m.only = r.of
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

// wroteFile is a file that a commit of the range wrote.
type wroteFile struct {
	// commit wrote the file; when is where that stands in ranges.
	commit, when hudi.Time
	// place decides to which slice the file belongs: the latest that is not later.
	place hudi.Time
}

// group is what the range wrote to one file group.
type group struct {
	// files are by name.
	files map[string]wroteFile
	// replaced says that a replacecommit of the range took the group away.
	replaced bool
}

// written is what the write stats of the range name, by partition and group.
func (r *span) written(ctx context.Context) (map[string]map[hudi.FileID]*group, error) {
	all := map[string]map[hudi.FileID]*group{}
	r.wrote = map[hudi.Time]bool{}
	var first hudi.Time
	for _, i := range r.view.Writes() {
		if !r.holds(i) {
			continue
		}
		if r.wrote[i.Time] = true; first == "" {
			first = i.Time
		}
		body, err := r.view.Body(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("read commit %s: %w", i.Time, err)
		}
		if err := r.note(all, i, &body); err != nil {
			return nil, fmt.Errorf("read commit %s: %w", i.Time, err)
		}
	}
	if at, err := first.Clock(); err == nil {
		r.first = hudi.FormatTime(at.Add(-time.Millisecond))
	}
	return all, nil
}

func (r *span) note(all map[string]map[hudi.FileID]*group, i timeline.Instant, body *commitmeta.Body) error {
	for partition, stats := range body.Stats {
		for k := range stats {
			name := path.Base(stats[k].Path)
			place, err := r.view.Place(name)
			if err != nil {
				return err
			}
			groupOf(all, partition, stats[k].File).files[name] = wroteFile{commit: i.Time, when: r.view.When(i), place: place}
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
		g = &group{files: map[string]wroteFile{}}
		all[partition][id] = g
	}
	return g
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

// missing is a file of the group that belongs to s, or to a later slice, and is not
// in s: the one that the last commit wrote. Its name is "" when all are there, or do
// not matter, since they lie below what counts.
func (g *group) missing(s hudi.Slice) (name string, file wroteFile) {
	if g.replaced {
		return "", wroteFile{}
	}
	there := map[string]bool{s.Base.Name: true}
	for _, log := range s.Logs {
		there[log.Name] = true
	}
	for _, n := range slices.Sorted(maps.Keys(g.files)) {
		f := g.files[n]
		if f.place.Before(s.Instant) || there[n] {
			continue
		}
		if name == "" || f.when.After(file.when) {
			name, file = n, f
		}
	}
	return name, file
}
