package writer

import (
	"context"
	"fmt"
	"io"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// changelog says whether rows in files tell what was done to them.
func (f *job) changelog() bool { return f.files != f.schema }

// telling puts what was done in front of rows.
type telling struct {
	record hudi.Record
	cells  hudi.Row
}

// row is a row that tells op; it is valid until the next. Deletes are as they were.
func (t *telling) row(r *hudi.Record, op string) *hudi.Record {
	if r.Delete {
		return r
	}
	t.cells = append(append(t.cells[:0], hudi.String(op)), r.Row...)
	t.record = *r
	t.record.Row = t.cells
	return &t.record
}

// delete is the row that a delete takes, with the order of the delete: Flink's
// streams of such tables stand no delete block (docs/format/cdc.md). A delete that
// takes none has a row of its key and order alone.
func (t *telling) delete(f *job, c *reader.Change) *hudi.Record {
	t.cells = append(t.cells[:0], hudi.String(hudi.RowDelete))
	t.record = hudi.Record{Key: c.Key, Order: c.Order}
	if c.Before == nil {
		t.cells = append(t.cells, make(hudi.Row, f.schema.Len())...)
		if i, ok := f.schema.Lookup(f.txn.View().Table().KeyColumn()); ok {
			t.cells[1+i] = hudi.String(c.Key.Record)
		}
	} else {
		t.record = *c.Before
		t.record.Key, t.record.CommitTime, t.record.CommitSeqno = c.Key, "", ""
		t.record.Order = max(c.Before.Order, c.Order)
		t.cells = append(t.cells, c.Before.Row...)
	}
	if i, ok := f.schema.Lookup(f.txn.View().Table().OrderColumn()); ok {
		t.cells[1+i] = hudi.Long(t.record.Order)
	}
	t.record.Row = t.cells
	return &t.record
}

// writeChangelog writes a log file in which each update stands behind the row as it
// was, with the order that it had, and each delete is the row that it takes. What is
// new wins over the row before it, also where nobody looks at operations.
func (f *job) writeChangelog(ctx context.Context, stat commitmeta.WriteStat, name string) (commitmeta.WriteStat, error) {
	records, keys := f.inOrder()
	o := reader.Options{Memory: f.o.share(), TempDir: f.o.TempDir, Keys: keys}
	size, err := f.store(ctx, name, table.MarkAppend, func(up io.Writer) error {
		w, err := logfile.NewWriter(up, f.files, logfile.WriterOptions{Stamp: f.stamp(), File: f.Slice.File, BlockBytes: f.o.blockBytes()})
		if err != nil {
			return err
		}
		var tell telling
		for c, err := range reader.Images(ctx, f.txn.View(), f.Slice, f.schema, records, o) {
			if err == nil {
				err = f.tell(w, &tell, c, &stat)
			}
			if err != nil {
				return err
			}
		}
		_, err = w.Close()
		return err
	})
	if err != nil {
		return commitmeta.WriteStat{}, fmt.Errorf("write log file %q: %w", name, err)
	}
	stat.Writes, stat.Bytes = stat.Updates, size
	return stat, nil
}

// tell appends a change and counts it.
func (f *job) tell(w *logfile.Writer, tell *telling, c *reader.Change, stat *commitmeta.WriteStat) error {
	switch {
	case c.Op == hudi.OpDelete || (c.Op == 0 && c.After.Delete):
		stat.Deletes++
		return w.Append(tell.delete(f, c))
	case c.Op == hudi.OpUpdate:
		before := *c.Before
		before.Key, before.CommitTime, before.CommitSeqno = c.Key, "", ""
		if err := w.Append(tell.row(&before, hudi.RowUpdateBefore)); err != nil {
			return err
		}
		stat.Updates++
		return w.Append(tell.row(c.After, hudi.RowUpdateAfter))
	}
	stat.Updates++
	return w.Append(tell.row(c.After, hudi.RowInsert))
}
