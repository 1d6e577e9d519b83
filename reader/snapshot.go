package reader

import (
	"context"
	"iter"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Snapshot yields the rows of the table at the view's time, partition by
// partition, with the columns of Target. Tombstones of tables of ours are left
// out unless Options.IncludeDeletes.
func Snapshot(ctx context.Context, v *table.View, o Options) iter.Seq2[*hudi.Record, error] {
	return whole(ctx, v, o, func(s hudi.Slice) hudi.Slice { return s })
}

// ReadOptimized yields the rows of the base files alone: fast, and as old as
// the last compaction of each file group.
func ReadOptimized(ctx context.Context, v *table.View, o Options) iter.Seq2[*hudi.Record, error] {
	return whole(ctx, v, o, func(s hudi.Slice) hudi.Slice {
		s.Logs = nil
		return s
	})
}

// whole reads all slices of the view, each as change makes it.
func whole(ctx context.Context, v *table.View, o Options, change func(hudi.Slice) hudi.Slice) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		if v.Last() == "" {
			return // nothing was ever written, not even a schema
		}
		if err := readWhole(ctx, v, o, change, yield); err != nil {
			yield(nil, err)
		}
	}
}

func readWhole(ctx context.Context, v *table.View, o Options, change func(hudi.Slice) hudi.Slice, yield func(*hudi.Record, error) bool) error {
	o.HardDeletes = false // for Slice alone: here every record is a row
	p, err := newProjection(ctx, v, o)
	if err != nil {
		return err
	}
	if v.At() != "" {
		// The past may be cleaned away: what is left of it is no snapshot.
		past := span{view: v, end: v.At()}
		if err := past.complete(ctx); err != nil {
			return err
		}
	}
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return err
	}
	for _, partition := range partitions {
		slices, err := v.Slices(ctx, partition)
		if err != nil {
			return err
		}
		for _, s := range slices {
			if !p.pass(Slice(ctx, v, change(s), p.read, o), yield) {
				return nil
			}
		}
	}
	return nil
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
}

func newProjection(ctx context.Context, v *table.View, o Options) (*projection, error) {
	s, err := v.Schema(ctx)
	if err != nil {
		return nil, err
	}
	target, err := project(s, o.Columns)
	if err != nil {
		return nil, err
	}
	p := &projection{read: target, width: target.Len(), marked: -1}
	if _, ours := tombstones(s); !ours || o.IncludeDeletes {
		return p, nil
	}
	if p.read, err = widen(target, s, hudi.ColumnDeleted); err != nil {
		return nil, err
	}
	p.marked, _ = p.read.Lookup(hudi.ColumnDeleted)
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
	return p.marked < 0 || !r.Row[p.marked].Boolean()
}
