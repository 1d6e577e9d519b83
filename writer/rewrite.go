package writer

import (
	"context"
	"fmt"
	"io"
	"iter"
	"path"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// rewrite writes the slice, base file and logs, and the records on top of it
// into a new base file of the group. Rows that were there keep their commit
// time and number; deletes are gone (docs/format/basefile.md).
func (f *job) rewrite(ctx context.Context) (commitmeta.WriteStat, error) {
	at := f.Slice.Location
	name := hudi.BaseFileName{File: at.File, Token: f.token(), Instant: f.txn.Instant()}.String()
	t := f.newTally()
	size, err := f.store(ctx, name, table.MarkMerge, func(up io.Writer) error {
		w, err := f.baseWriter(up, name)
		if err != nil {
			return err
		}
		o := reader.Options{Memory: f.o.share(), TempDir: f.o.TempDir}
		for r, err := range reader.Merged(ctx, f.txn.View(), f.Slice, f.files, f.incoming(), o) {
			if err != nil {
				return err
			}
			t.row(r)
			if err := w.Append(r); err != nil {
				return err
			}
		}
		_, err = w.Close()
		return err
	})
	if err != nil {
		return commitmeta.WriteStat{}, fmt.Errorf("write base file %q in place of %q: %w", name, f.Slice.Base.Name, err)
	}
	changes, err := f.changes(ctx)
	if err != nil {
		return commitmeta.WriteStat{}, err
	}
	return commitmeta.WriteStat{File: at.File, Path: path.Join(at.Partition, name), Partition: at.Partition, PrevCommit: f.Slice.Instant,
		Writes: t.rows, Inserts: t.inserts, Updates: t.updates, Deletes: t.deletes, Bytes: size, CDC: changes}, nil
}

// incoming are the records that come on top of the slice.
func (f *job) incoming() iter.Seq[*hudi.Record] {
	return func(yield func(*hudi.Record) bool) {
		var tell telling
		for _, r := range f.Records {
			record := &r.Record
			if f.changelog() && !r.Delete {
				// A group with updates is not written again in such a table.
				record = tell.row(record, hudi.RowInsert)
			}
			if !yield(record) {
				return
			}
		}
	}
}

// tally counts what a rewriting does, as the write stat of Hudi's own merge has
// it: all rows of the new file, and those that the commit's records changed.
type tally struct {
	rows, inserts, updates, deletes int64
	// incoming are the commit's records that were not met yet.
	incoming map[string]*hudi.Located
}

func (f *job) newTally() *tally {
	t := &tally{incoming: make(map[string]*hudi.Located, len(f.Records))}
	for _, r := range f.Records {
		t.incoming[r.Key.Record] = r
		if r.Delete {
			t.deletes++
		}
	}
	return t
}

// row counts a row of the new file.
func (t *tally) row(r *hudi.Record) {
	t.rows++
	in := t.incoming[r.Key.Record]
	switch {
	case in == nil:
	case in.Delete:
		t.deletes-- // it was older than the row
	case r.CommitTime != "": // so was this one
	case in.File == "":
		t.inserts++
	default:
		t.updates++
	}
}
