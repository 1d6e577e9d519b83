package couchdb

import (
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

const (
	defaultBytes = 64 << 20
	defaultWait  = 5 * time.Second
)

// batch is a changes.Batch in the making.
type batch struct {
	changes.Batch
	limit  changes.Limit
	opened time.Time // when its first row came
}

func newBatch(after changes.Position, limit changes.Limit, o Options) *batch {
	if limit.Rows <= 0 {
		limit.Rows = o.BatchRows
	}
	if limit.Bytes <= 0 {
		limit.Bytes = defaultBytes
	}
	if limit.Wait <= 0 {
		limit.Wait = defaultWait
	}
	return &batch{Batch: changes.Batch{Last: after}, limit: limit}
}

// add takes a row of n bytes that is delivered.
func (b *batch) add(c changes.Change, n int64) {
	if len(b.Changes) == 0 {
		b.opened = time.Now()
	}
	b.Changes = append(b.Changes, c)
	b.Bytes += n
}

// overdue says that the batch has been open for long enough.
func (b *batch) overdue() bool {
	return len(b.Changes) > 0 && time.Since(b.opened) >= b.limit.Wait
}

// full says that a limit was reached.
func (b *batch) full() bool {
	return len(b.Changes) >= b.limit.Rows || b.Bytes >= b.limit.Bytes || b.overdue()
}

// mark is a place in a batch to which it can be cut back.
type mark struct {
	rows  int
	bytes int64
	last  changes.Position
	moved bool // the place is not the beginning of the response
}

func (b *batch) mark() mark {
	return mark{rows: len(b.Changes), bytes: b.Bytes, last: b.Last}
}

func (b *batch) cutTo(m mark) {
	clear(b.Changes[m.rows:])
	b.Changes, b.Bytes, b.Last = b.Changes[:m.rows], m.bytes, m.last
}
