package basefile

import (
	"errors"
	"fmt"
	"iter"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Hint says of a column which values matter, so that what holds no such value
// need not be read.
type Hint struct {
	// Column is a column of the target or a meta column, of plain values. Rows in
	// which it is null do not matter.
	Column string
	// May says whether a value that matters may lie between two, both included.
	// They are in the type that rows have them in, and may be wider than the
	// values that there are.
	May func(least, greatest hudi.Value) bool
}

// Select is Records less those row groups and pages that by the file's own
// statistics hold no row that matters to all of the hints. Rows that do not
// matter may still come: hints save reading, they do not decide.
func (f *File) Select(hints []Hint, target *hudi.Schema, orderColumn string) iter.Seq2[*hudi.Record, error] {
	if len(hints) == 0 {
		return f.Records(target, orderColumn)
	}
	return func(yield func(*hudi.Record, error) bool) {
		p, err := f.plan(target, orderColumn, false)
		if err != nil {
			yield(nil, err)
			return
		}
		places, all := p.places(hints)
		if !all {
			return // a column that the file lacks is null in all its rows
		}
		for _, g := range f.file.RowGroups() {
			more, err := p.selected(g, places, yield)
			if err != nil {
				yield(nil, fmt.Errorf("read base file: %w", wrap(err)))
				return
			}
			if !more {
				return
			}
		}
	}
}

// hinted is a hint with the leaf of the file that it is about.
type hinted struct {
	leaf int
	may  func(least, greatest parquet.Value) bool
}

// places finds the leaves of hints; all is false when one is not in the file.
func (p *plan) places(hints []Hint) (list []hinted, all bool) {
	for _, h := range hints {
		i := len(p.flats) - 1 // the row's own column stands behind one with a role
		for ; i >= 0 && p.flats[i].cursor.name != h.Column; i-- {
		}
		if i < 0 {
			return nil, false
		}
		how := &p.flats[i].how
		list = append(list, hinted{p.flats[i].cursor.column, func(least, greatest parquet.Value) bool {
			low, err := how.value(&least)
			if err != nil {
				return true
			}
			high, err := how.value(&greatest)
			return err != nil || h.May(low, high)
		}})
	}
	return list, true
}

// selected yields the rows of one row group that may matter; more is false when
// the consumer left.
func (p *plan) selected(g parquet.RowGroup, hints []hinted, yield func(*hudi.Record, error) bool) (more bool, err error) {
	rows, err := promising(g, hints)
	if err != nil {
		return false, err
	}
	if len(rows) == 0 {
		return true, nil
	}
	if rows[0] == (stretch{0, g.NumRows()}) {
		return p.group(g, yield)
	}
	if indexed, err := p.indexed(g); err != nil || !indexed {
		if err != nil {
			return false, err
		}
		return p.group(g, yield)
	}
	defer func() {
		for _, c := range p.cursors {
			c.close()
		}
	}()
	if err := p.open(g); err != nil {
		return false, err
	}
	for _, s := range rows {
		if more, err := p.stretch(s, yield); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// stretch yields a stretch of rows.
func (p *plan) stretch(s stretch, yield func(*hudi.Record, error) bool) (more bool, err error) {
	if err := p.seek(s.from); err != nil {
		return false, err
	}
	for range s.to - s.from {
		if err := p.next(); err != nil {
			return false, err
		}
		if !yield(&p.record, nil) {
			return false, nil
		}
	}
	return true, nil
}

// seek takes all columns to a row.
func (p *plan) seek(row int64) (err error) {
	defer caught(&err)
	for _, c := range p.cursors {
		if err := c.seek(row); err != nil {
			return err
		}
	}
	return nil
}

// promising are the rows of a row group that may matter to all hints.
func promising(g parquet.RowGroup, hints []hinted) ([]stretch, error) {
	rows := []stretch{{0, g.NumRows()}}
	for _, h := range hints {
		// The library gives as a group's bounds what its footer says.
		if c, ok := g.ColumnChunks()[h.leaf].(interface {
			Bounds() (least, greatest parquet.Value, ok bool)
		}); ok {
			if least, greatest, ok := c.Bounds(); ok && !h.may(least, greatest) {
				return nil, nil
			}
		}
	}
	for _, h := range hints {
		list, err := stretches(g, h.leaf, h.may)
		if errors.Is(err, parquet.ErrMissingColumnIndex) || errors.Is(err, parquet.ErrMissingOffsetIndex) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = both(rows, list)
	}
	return rows, nil
}

// stretch are the rows from one on to another, that one left out.
type stretch struct{ from, to int64 }

// both are the rows that are in two lists of stretches in order.
func both(a, b []stretch) (list []stretch) {
	for len(a) > 0 && len(b) > 0 {
		s := stretch{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}
		if s.from < s.to {
			list = append(list, s)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return list
}

// stretches are the rows of a leaf's pages whose bounds may say yes to.
func stretches(g parquet.RowGroup, leaf int, may func(least, greatest parquet.Value) bool) (list []stretch, err error) {
	defer caught(&err)
	rows := g.NumRows()
	chunk := g.ColumnChunks()[leaf]
	bounds, err := chunk.ColumnIndex()
	if err != nil {
		return nil, err
	}
	places, err := chunk.OffsetIndex()
	if err != nil {
		return nil, err
	}
	n := places.NumPages()
	if bounds.NumPages() != n {
		return nil, fmt.Errorf("%w: bounds of %d pages, places of %d", ErrFormat, bounds.NumPages(), n)
	}
	for i := range n {
		s := stretch{places.FirstRowIndex(i), rows}
		if i+1 < n {
			s.to = places.FirstRowIndex(i + 1)
		}
		if s.from < 0 || s.from > s.to || s.to > rows {
			return nil, fmt.Errorf("%w: page %d has the rows from %d to %d of %d", ErrFormat, i, s.from, s.to, rows)
		}
		if bounds.NullPage(i) || !may(bounds.MinValue(i), bounds.MaxValue(i)) {
			continue
		}
		if k := len(list) - 1; k >= 0 && list[k].to == s.from {
			list[k].to = s.to
			continue
		}
		list = append(list, s)
	}
	return list, nil
}
