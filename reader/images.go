package reader

import (
	"context"
	"fmt"
	"iter"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Change is what one commit did to one row: a Before for updates and deletes, an
// After for inserts and updates. Tombstones are rows, and so updates. A row that
// moved to another partition is a delete there and an insert here.
type Change struct {
	// Instant is the commit's.
	Instant hudi.Time
	// Op is 0 only in what Images yields.
	Op  hudi.Op
	Key hudi.Key
	// Before and After are nil where there is none. What came out of a change
	// file has no meta columns.
	Before, After *hudi.Record
	// Order is the ordering value of the change: of a delete that of the delete.
	Order int64
}

// Images says what records, one a key and in the order of keys as UTF-16 units, do
// to the rows of a slice, in that order. Of a record that does nothing, since it
// loses against the row that is there or deletes none, the change has no Op, and the
// record is its After. The columns are target's. Instants are not
// set. A change is valid until the next step. With Options.Keys, which must
// hold all keys of the records, only their pages of the base file are read.
func Images(ctx context.Context, v *table.View, s hudi.Slice, target *hudi.Schema, records iter.Seq2[*hudi.Record, error], o Options) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		before := newStream(Compacted(ctx, v, s, target, o, &Tally{}))
		defer before.stop()
		var c Change
		for r, err := range records {
			if err == nil {
				err = before.reach(r.Key.Record)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if c = imageOf(before.at(r.Key.Record), r); !yield(&c, nil) {
				return
			}
		}
	}
}

// imageOf is what a record does to the row of its key, nil for none.
func imageOf(row, r *hudi.Record) Change {
	c := Change{Key: r.Key, Order: r.Order}
	switch {
	case row != nil && !hudi.IncomingWins(row, r), row == nil && r.Delete:
		c.After = r
	case row == nil:
		c.Op, c.After = hudi.OpInsert, r
	case r.Delete:
		c.Op, c.Before = hudi.OpDelete, row
	default:
		c.Op, c.Before, c.After = hudi.OpUpdate, row, r
	}
	return c
}

// stream is a sequence of records in the order of keys, of which the next can be
// looked at.
type stream struct {
	next func() (*hudi.Record, error, bool)
	stop func()
	head *hudi.Record
	// begun says that the first record was asked for.
	begun bool
}

func newStream(seq iter.Seq2[*hudi.Record, error]) *stream {
	next, stop := iter.Pull2(seq)
	return &stream{next: next, stop: stop}
}

// pop makes head the next record, nil after the last.
func (s *stream) pop() error {
	s.begun = true
	r, err, more := s.next()
	if s.head = r; !more || err != nil {
		s.head = nil
	}
	if err != nil {
		return fmt.Errorf("read rows as they were: %w", err)
	}
	return nil
}

// reach passes over the records before a key.
func (s *stream) reach(key string) error {
	for !s.begun || s.head != nil && hudi.CompareUTF16(s.head.Key.Record, key) < 0 {
		if err := s.pop(); err != nil {
			return err
		}
	}
	return nil
}

// at is the head if it has the key.
func (s *stream) at(key string) *hudi.Record {
	if s.head == nil || s.head.Key.Record != key {
		return nil
	}
	return s.head
}
