package reader

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sort"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// Snapshot yields the rows of the table at the view's time, partition by
// partition, with the columns of Target. Tombstones of tables of ours are left
// out unless Options.IncludeDeletes.
func Snapshot(ctx context.Context, v *table.View, o Options) iter.Seq2[*hudi.Record, error] {
	return rowsOf(ctx, v, o, func(s hudi.Slice) hudi.Slice { return s })
}

// ReadOptimized yields the rows of the base files alone: fast, and as old as
// the last compaction of each file group.
func ReadOptimized(ctx context.Context, v *table.View, o Options) iter.Seq2[*hudi.Record, error] {
	return rowsOf(ctx, v, o, func(s hudi.Slice) hudi.Slice {
		s.Logs = nil
		return s
	})
}

// rowsOf reads all slices of the view, each as change makes it.
func rowsOf(ctx context.Context, v *table.View, o Options, change func(hudi.Slice) hudi.Slice) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		if err := readWhole(ctx, v, o, change, yield); err != nil {
			yield(nil, err)
		}
	}
}

func readWhole(ctx context.Context, v *table.View, o Options, change func(hudi.Slice) hudi.Slice, yield func(*hudi.Record, error) bool) error {
	o.HardDeletes = false // for Slice alone: here every record is a row
	p, err := newProjection(ctx, v, &o)
	if errors.Is(err, table.ErrNoSchema) && v.Last() == "" {
		return nil // nothing was ever written, not even a schema
	}
	if err != nil {
		return err
	}
	// The past may be cleaned away: what is left of it is no snapshot.
	if err := past(ctx, v); err != nil {
		return err
	}
	partitions := o.Partitions // named, they need no listing of the whole table
	if len(partitions) == 0 {
		if partitions, err = v.Partitions(ctx); err != nil {
			return err
		}
	}
	for _, partition := range o.within(partitions) {
		list, err := v.Slices(ctx, partition)
		if err != nil {
			return err
		}
		for _, s := range list {
			if !p.pass(Slice(ctx, v, change(s), p.read, o), yield) {
				return nil
			}
		}
	}
	return nil
}

// past says whether the files are there of a view of the past.
func past(ctx context.Context, v *table.View) error {
	if v.Uncut() == v {
		return nil
	}
	reach, err := v.Cleaned(ctx)
	if err != nil {
		return err
	}
	err = whole(ctx, v, reach)
	var gone *RangeError
	if !errors.As(err, &gone) {
		return err
	}
	if gone.At = v.At(); gone.At == "" {
		gone.At = v.Last()
	}
	gone.Oldest, err = oldest(ctx, v, reach)
	return errors.Join(gone, err)
}

// whole says whether all files are there that are seen at a view of the past. What
// archived commits wrote is of interest only where a clean may have been.
func whole(ctx context.Context, v *table.View, reach table.Reach) error {
	if reach.Unbounded || v.At().Before(reach.Earliest) {
		var err error
		if v, err = v.Reaching(ctx, ""); err != nil {
			return err
		}
	}
	r := span{view: v, end: v.Latest()}
	wrote, err := r.written(ctx)
	if err != nil {
		return err
	}
	return r.complete(ctx, wrote)
}

// oldest is the oldest write after a view of the past as of which the table can
// still be read.
func oldest(ctx context.Context, v *table.View, reach table.Reach) (hudi.Time, error) {
	at := v.At()
	if at == "" {
		at = v.Last()
	}
	now, err := v.Uncut().Reaching(ctx, at)
	if err != nil {
		return "", err
	}
	later := slices.DeleteFunc(now.Writes(), func(i timeline.Instant) bool { return !i.Time.After(at) })
	if len(later) == 0 {
		return now.Last(), nil
	}
	var failed error
	n := sort.Search(len(later)-1, func(i int) bool {
		err := whole(ctx, now.AsOf(later[i].Time), reach)
		if err != nil && !errors.Is(err, ErrCleaned) {
			failed = err
		}
		return err == nil
	})
	return later[n].Time, failed
}

// projection is which columns are read and which rows and cells of them go on.
type projection struct {
	read *hudi.Schema
	// width is the number of cells that go on.
	width int
	// marked is the place of the tombstone mark, -1 when none are left out.
	marked int
	// only, when set, says which commits' rows go on.
	only func(hudi.Time) bool
	// filter, when set, is Options.Where.
	filter *Filter
}

// newProjection plans a reading, and puts into o what may be left out.
func newProjection(ctx context.Context, v *table.View, o *Options) (*projection, error) {
	s := o.Schema
	if s == nil {
		var err error
		if s, err = v.Schema(ctx); err != nil {
			return nil, err
		}
	}
	target, err := project(s, o.Columns)
	if err != nil {
		return nil, err
	}
	p := &projection{read: target, width: target.Len(), marked: -1}
	more := o.Where.Columns()
	_, ours := tombstones(s)
	if ours && !o.IncludeDeletes {
		more = append(more, hudi.ColumnDeleted)
	}
	if p.read, err = widen(target, s, more...); err != nil {
		return nil, err
	}
	if ours && !o.IncludeDeletes {
		p.marked, _ = p.read.Lookup(hudi.ColumnDeleted)
	}
	if p.filter, err = o.Where.Bind(p.read); err != nil {
		return nil, err
	}
	o.push = pushDown(v, p.filter)
	return p, nil
}

// pass hands on the rows of one slice. It says whether to go on with the next.
func (p *projection) pass(rows iter.Seq2[*hudi.Record, error], yield func(*hudi.Record, error) bool) bool {
	for r, err := range rows {
		if err != nil {
			yield(nil, err)
			return false
		}
		if !p.wants(r) {
			continue
		}
		r.Row = r.Row[:p.width:p.width]
		if !yield(r, nil) {
			return false
		}
	}
	return true
}

func (p *projection) wants(r *hudi.Record) bool {
	if p.only != nil && !p.only(r.CommitTime) {
		return false
	}
	return (p.marked < 0 || !r.Row[p.marked].Boolean()) && p.filter.Keeps(r)
}
