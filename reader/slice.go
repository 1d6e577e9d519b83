package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/table"
)

// Slice merges the base file and the log files of one slice, with the columns
// of target: the one place where that is done. The logs are merged with each
// other first, then each base row with what the logs say of its key; what is
// left over are inserts. A delete that meets no base row yields nothing.
func Slice(ctx context.Context, v *table.View, s hudi.Slice, target *hudi.Schema, o Options) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		m, err := newMerger(ctx, v, s, target, o)
		if err != nil {
			yield(nil, err)
			return
		}
		m.run(ctx, yield)
	}
}

// merger merges one slice.
type merger struct {
	view  *table.View
	slice hudi.Slice
	// target is what is read; the first width cells of it are yielded.
	target *hudi.Schema
	width  int
	// order is the ordering column; "" when the later arrival wins.
	order string
	o     Options
	// only, when set, says which instants' log blocks are read, of those that
	// are committed.
	only func(hudi.Time) bool
	// newer, when set, are records on top of the logs, and the rows are asked
	// for in the order of keys. Then loose are the entries of the logs that
	// meet no base row and are still to be yielded, in that order.
	newer iter.Seq[*hudi.Record]
	loose []int32
	// all yields the deletes that met no base row too; inBase says of m.out that
	// its key stands in the base file.
	all, inBase bool
	out         hudi.Record
	// row is the memory for rows that come out of the logs.
	row  hudi.Row
	seen int
}

func newMerger(ctx context.Context, v *table.View, s hudi.Slice, target *hudi.Schema, o Options) (*merger, error) {
	m := &merger{view: v, slice: s, target: target, width: target.Len(), order: v.Table().OrderColumn(), o: o}
	if v.Table().ByArrival() {
		m.order = ""
	}
	if _, there := target.Lookup(m.order); there || m.order == "" {
		return m, nil
	}
	whole, err := v.Schema(ctx)
	if err != nil {
		return nil, err
	}
	m.target, err = widen(target, whole, m.order)
	return m, err
}

// run yields the merged rows. Whatever happens, nothing stays on disk.
func (m *merger) run(ctx context.Context, yield func(*hudi.Record, error) bool) {
	logs, err := m.collect(ctx)
	going := true
	if err == nil {
		err = m.top(ctx, logs)
	}
	if err == nil {
		going, err = m.base(ctx, logs, yield)
	}
	if err == nil && going {
		going, err = m.rest(ctx, logs, yield)
	}
	if closed := logs.close(); closed != nil {
		err = errors.Join(err, closed)
	}
	if err != nil && going {
		yield(nil, err)
	}
}

// base streams the base file past the logs. It says whether to go on.
func (m *merger) base(ctx context.Context, logs *newest, yield func(*hudi.Record, error) bool) (bool, error) {
	if m.slice.Base.Name == "" {
		return true, m.match(ctx, nil, logs)
	}
	f, r, err := openBase(ctx, m.view, m.slice)
	if err != nil {
		return true, err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	if err := m.match(ctx, f, logs); err != nil {
		return true, fmt.Errorf("read keys of base file %q: %w", m.slice.Base.Name, err)
	}
	rows, err := m.rows(f)
	if err != nil {
		return true, fmt.Errorf("read base file %q: %w", m.slice.Base.Name, err)
	}
	m.inBase = true
	defer func() { m.inBase = false }()
	for r, err := range rows {
		if err == nil {
			err = m.alive(ctx)
		}
		if err != nil {
			return true, fmt.Errorf("read base file %q: %w", m.slice.Base.Name, err)
		}
		if going, err := m.before(r.Key.Record, logs, yield); err != nil || !going {
			return going, err
		}
		m.out = *r
		m.out.Key.Partition = m.slice.Partition
		if err := m.decide(logs); err != nil {
			return true, err
		}
		if !m.emit(yield) {
			return false, nil
		}
	}
	return true, nil
}

// decide puts what the logs say of the key of m.out in its place, if that wins.
func (m *merger) decide(logs *newest) error {
	e := logs.find(m.out.Key.Record)
	if e == nil {
		return nil
	}
	e.used = true
	if !hudi.IncomingWins(&m.out, e.decisive()) {
		return nil
	}
	if !e.deleted {
		return m.take(logs, e)
	}
	return m.hide(logs, e)
}

// hide makes m.out the delete of an entry, with the newest row that it hides.
func (m *merger) hide(logs *newest, e *entry) error {
	order := m.out.Order
	inLogs := e.held && (!e.natural || e.order >= order)
	if m.o.HardDeletes && inLogs {
		if err := m.take(logs, e); err != nil {
			return err
		}
	}
	m.out.Delete, m.out.Natural, m.out.Order = true, e.natural, e.order
	if e.natural {
		m.out.Order = max(e.order, order)
	}
	return nil
}

// take makes m.out the record of an entry. The row is memory of our own: that
// which m.out shows may belong to the reader of the base file.
func (m *merger) take(logs *newest, e *entry) error {
	m.out.Row = m.row
	err := logs.fill(e, m.slice.Partition, &m.out)
	if m.out.Row != nil {
		m.row = m.out.Row
	}
	return err
}

// rest yields the rows of the logs that met no base row.
func (m *merger) rest(ctx context.Context, logs *newest, yield func(*hudi.Record, error) bool) (bool, error) {
	if n := len(m.loose); n > 0 {
		last := logs.entries[m.loose[n-1]].key
		if going, err := m.before(last, logs, yield); err != nil || !going {
			return going, err
		}
	}
	for i := range logs.entries {
		e := &logs.entries[i]
		if e.used || e.deleted && !m.all {
			continue
		}
		if err := m.alive(ctx); err != nil {
			return true, err
		}
		if err := m.take(logs, e); err != nil {
			return true, err
		}
		if !m.emit(yield) {
			return false, nil
		}
	}
	return true, nil
}

// emit yields m.out, cut to the columns asked for, unless it is a delete that
// nobody wants. It says whether to go on.
func (m *merger) emit(yield func(*hudi.Record, error) bool) bool {
	if m.out.Delete && !m.o.HardDeletes {
		return true
	}
	if m.out.Row != nil { // not of a delete that hides nothing
		m.out.Row = m.out.Row[:m.width:m.width]
	}
	return yield(&m.out, nil)
}

// alive is the error of a cancelled reading; asked for at every record, it
// looks at every thousandth or so.
func (m *merger) alive(ctx context.Context) error {
	const every = 1 << 10
	m.seen++
	if m.seen%every != 1 {
		return nil
	}
	return ctx.Err()
}

// openBase opens the base file of a slice.
func openBase(ctx context.Context, v *table.View, s hudi.Slice) (*basefile.File, file, error) {
	r, err := v.Open(ctx, s.Partition, s.Base)
	if err != nil {
		return nil, nil, fmt.Errorf("open base file: %w", err)
	}
	f, err := basefile.Open(r, r.Size())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open base file %q: %w", s.Base.Name, err), r.Close())
	}
	return f, r, nil
}
