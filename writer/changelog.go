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

// writeChangelog writes a log file in which each update stands behind the row as it
// was, and each delete behind the row that it takes. Both come with the order that
// they had, so that who merges without a mind for operations comes to the same rows:
// what is new wins over them (docs/format/cdc.md).
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

// tell appends a change and counts it. Deletes have no row of their own.
func (f *job) tell(w *logfile.Writer, tell *telling, c *reader.Change, stat *commitmeta.WriteStat) error {
	before := func(op string) error {
		r := *c.Before
		r.Key, r.CommitTime, r.CommitSeqno = c.Key, "", ""
		return w.Append(tell.row(&r, op))
	}
	switch c.Op {
	case hudi.OpDelete:
		if err := before(hudi.RowDelete); err != nil {
			return err
		}
		stat.Deletes++
		return w.Append(&hudi.Record{Key: c.Key, Order: c.Order, Delete: true})
	case hudi.OpUpdate:
		if err := before(hudi.RowUpdateBefore); err != nil {
			return err
		}
		stat.Updates++
		return w.Append(tell.row(c.After, hudi.RowUpdateAfter))
	case hudi.OpInsert:
	}
	if c.After.Delete {
		stat.Deletes++
	} else {
		stat.Updates++
	}
	return w.Append(tell.row(c.After, hudi.RowInsert))
}
