package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/table"
)

// Tally is what Compacted met.
type Tally struct {
	// Base is how many rows the base file has by its own word.
	Base int64
	// Inserted are rows that the logs alone have, Hidden rows of the base file
	// that are gone, Updated those that the logs have a newer version of.
	Inserted, Hidden, Updated int64
	// LogRows are rows in the log files, of any version, LogKeys the keys that
	// they and the deletes name, LogBlocks the blocks that were read.
	LogRows, LogKeys, LogBlocks int64
}

// Rows is how many rows the slice has.
func (t *Tally) Rows() int64 { return t.Base + t.Inserted - t.Hidden }

// Compacted yields the rows of a slice's next base file: what Slice yields, in
// the order of keys as UTF-16 units. However many rows and keys there are, it
// holds no more than o.Memory and a few pages: log rows go to a temporary file
// in sorted runs, and so do those of a base file that is not in order. With Keys,
// which are beside that memory, other rows are left out. Columns and the options of
// deletes do not matter. Afterwards t says what it met.
func Compacted(ctx context.Context, v *table.View, s hudi.Slice, target *hudi.Schema, o Options, t *Tally) iter.Seq2[*hudi.Record, error] {
	o.HardDeletes = false
	return compacted(ctx, v, s, target, nil, o, t)
}

// compacted is Compacted of the blocks of instants that only says, all when it is
// nil. With HardDeletes it yields deletes that meet no row of the base file, too.
func compacted(ctx context.Context, v *table.View, s hudi.Slice, target *hudi.Schema, only func(hudi.Time) bool, o Options, t *Tally) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		m, err := newMerger(ctx, v, s, target, o)
		if err != nil {
			yield(nil, err)
			return
		}
		m.only = only
		const parts = 2 // the logs, and a base file that is not in order
		c := &compacter{merger: m, tally: t}
		c.logs.budget, c.rows.budget = o.memory()/parts, o.memory()/parts
		c.logs.spill, c.rows.spill = o.spill(), o.spill()
		going, err := c.run(ctx, yield)
		if closed := errors.Join(c.logs.close(), c.rows.close()); closed != nil {
			err = errors.Join(err, closed)
		}
		if err != nil && going {
			yield(nil, err)
		}
	}
}

// compacter merges a slice by sorting.
type compacter struct {
	*merger
	tally *Tally
	// logs are what the log files say, rows those of a base file out of order.
	logs, rows sorter
	scratch    []byte
	// merged is logs in order; top is the winner of the key that is next, in
	// memory of its own, while there is one.
	merged *merge
	top    sorted
	bytes  []byte
	there  bool
	// met says that a row of the base file had top's key.
	met bool
}

func (c *compacter) run(ctx context.Context, yield func(*hudi.Record, error) bool) (bool, error) {
	if err := c.gather(ctx); err != nil {
		return true, err
	}
	var err error
	if c.merged, err = c.logs.merge(); err != nil {
		return true, err
	}
	if err := c.fold(); err != nil {
		return true, err
	}
	if going, err := c.base(ctx, yield); err != nil || !going {
		return going, err
	}
	for c.there {
		if err := c.alive(ctx); err != nil {
			return true, err
		}
		if going, err := c.left(yield); err != nil || !going {
			return going, err
		}
	}
	return true, nil
}

// gather sorts the records of the log files.
func (c *compacter) gather(ctx context.Context) error {
	blocks, closers, err := c.blocks(ctx)
	defer func() {
		for _, f := range closers {
			f.Close() //nolint:errcheck,gosec // nothing was written
		}
	}()
	if err != nil {
		return err
	}
	for _, b := range blocks {
		c.tally.LogBlocks++
		if err := c.block(ctx, b); err != nil {
			return fmt.Errorf("read log file %q, block at offset %d: %w", b.name, b.Offset, err)
		}
	}
	return nil
}

func (c *compacter) block(ctx context.Context, b block) error {
	records, err := c.records(b)
	if err != nil {
		return err
	}
	for r, err := range records {
		if err == nil {
			err = c.alive(ctx)
		}
		if err == nil && c.o.Keys != nil && !c.o.Keys.Has(r.Key.Record) {
			continue
		}
		if err == nil {
			c.scratch, err = c.logs.add(0, r, c.scratch)
		}
		if err != nil {
			return err
		}
		if b.Type != logfile.Delete {
			c.tally.LogRows++
		}
	}
	return nil
}

// fold makes top the newest of what the logs say of the key that is next.
func (c *compacter) fold() error {
	head := c.merged.head()
	if c.there = head != nil; !c.there {
		return nil
	}
	c.met = false
	c.tally.LogKeys++
	c.keep(head)
	for {
		if err := c.merged.pop(); err != nil {
			return err
		}
		head = c.merged.head()
		if head == nil || head.key != c.top.key {
			return nil
		}
		if hudi.IncomingWins(c.top.decisive(), head.decisive()) {
			c.keep(head)
		}
	}
}

// keep copies a record to top.
func (c *compacter) keep(s *sorted) {
	c.bytes = append(append(c.bytes[:0], s.key...), s.row...)
	c.top = *s
	c.top.key = hudi.StringOf(c.bytes[:len(s.key):len(s.key)]).Text()
	if s.row != nil {
		c.top.row = c.bytes[len(s.key):]
	}
}

func (s *sorted) decisive() *hudi.Record {
	return &hudi.Record{Order: s.order, Delete: s.deleted, Natural: s.natural}
}

// fill makes out the record, with the memory of row.
func (c *compacter) fill(s *sorted) error {
	c.out = hudi.Record{Key: hudi.Key{Record: s.key, Partition: c.slice.Partition}, Order: s.order, Delete: s.deleted,
		Natural: s.natural, Row: c.row}
	if s.deleted {
		return nil
	}
	err := readRow(s.row, &c.out)
	c.row = c.out.Row
	return err
}

// left yields top, whose key the base file does not have, and goes on.
func (c *compacter) left(yield func(*hudi.Record, error) bool) (bool, error) {
	if !c.met && (!c.top.deleted || c.o.HardDeletes) {
		if err := c.fill(&c.top); err != nil {
			return true, err
		}
		if !c.top.deleted {
			c.tally.Inserted++
		}
		if !c.emit(yield) {
			return false, nil
		}
	}
	return true, c.fold()
}

// base merges the rows of the base file with the logs.
func (c *compacter) base(ctx context.Context, yield func(*hudi.Record, error) bool) (bool, error) {
	if c.slice.Base.Name == "" {
		return true, nil
	}
	f, r, err := openBase(ctx, c.view, c.slice)
	if err != nil {
		return true, err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	c.tally.Base = f.Footer().Rows
	rows, err := c.rowsOf(ctx, f)
	if err != nil {
		return true, fmt.Errorf("read keys of base file %q: %w", c.slice.Base.Name, err)
	}
	for r, err := range rows {
		if err == nil {
			err = c.alive(ctx)
		}
		if err != nil {
			return true, fmt.Errorf("read base file %q: %w", c.slice.Base.Name, err)
		}
		if going, err := c.meet(r, yield); err != nil || !going {
			return going, err
		}
	}
	return true, nil
}

// meet yields what comes before a row of the base file, then what becomes of it.
func (c *compacter) meet(r *hudi.Record, yield func(*hudi.Record, error) bool) (bool, error) {
	for c.there && hudi.CompareUTF16(c.top.key, r.Key.Record) < 0 {
		if going, err := c.left(yield); err != nil || !going {
			return going, err
		}
	}
	c.out = *r
	c.out.Key.Partition = c.slice.Partition
	if c.there && c.top.key == r.Key.Record {
		c.met = true
		if hudi.IncomingWins(&c.out, c.top.decisive()) {
			if !c.top.deleted {
				c.tally.Updated++
			}
			if err := c.fill(&c.top); err != nil {
				return true, err
			}
		}
	}
	if c.out.Delete {
		c.tally.Hidden++
		return true, nil
	}
	return c.emit(yield), nil
}

// rowsOf are the rows of the base file in the order of keys.
func (c *compacter) rowsOf(ctx context.Context, f *basefile.File) (iter.Seq2[*hudi.Record, error], error) {
	if c.o.Keys != nil {
		return c.sort(f.Find(c.o.Keys, c.target, c.order)), nil
	}
	ordered, err := c.ordered(ctx, f)
	if err != nil || ordered {
		return f.Records(c.target, c.order), err
	}
	return c.sort(f.Records(c.target, c.order)), nil
}

// ordered says whether the rows of the base file are in the order of keys, as
// all files of ours are and most of Hudi's.
func (c *compacter) ordered(ctx context.Context, f *basefile.File) (bool, error) {
	var last []byte
	for key, err := range f.Keys() {
		if err == nil {
			err = c.alive(ctx)
		}
		if err != nil {
			return false, err
		}
		if hudi.CompareUTF16(hudi.StringOf(last).Text(), key) > 0 {
			return false, nil
		}
		last = append(last[:0], key...)
	}
	return true, nil
}

// sort is rows in the order of keys.
func (c *compacter) sort(rows iter.Seq2[*hudi.Record, error]) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		for r, err := range rows {
			if err == nil {
				c.scratch, err = c.rows.add(0, r, c.scratch)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		m, err := c.rows.merge()
		var out hudi.Record
		for err == nil && m.head() != nil {
			s := m.head()
			out = hudi.Record{Key: hudi.Key{Record: s.key}, Order: s.order, Delete: s.deleted, Natural: s.natural, Row: out.Row}
			if !s.deleted {
				err = readRow(s.row, &out)
			}
			if err == nil {
				if !yield(&out, nil) {
					return
				}
				err = m.pop()
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}
