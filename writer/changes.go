package writer

import (
	"context"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// changes writes the change file of a rewriting, if the table keeps those, and
// gives its path and length. Inserts are in it too: readers of changes take a base
// file that replaces another for damaged without one (docs/format/cdc.md).
func (f *job) changes(ctx context.Context) (map[string]int64, error) {
	v, at := f.txn.View(), f.Slice.Location
	mode := v.Table().CDC()
	if mode == hudi.CDCOff {
		return nil, nil //nolint:nilnil // no change files is an answer
	}
	name := hudi.LogFileName{File: at.File, Instant: f.txn.Instant(), Version: 1, Token: f.token(), CDC: true}.String()
	records, keys := f.inOrder()
	o := reader.Options{Memory: f.o.share(), TempDir: f.o.TempDir, Keys: keys}
	size, err := f.store(ctx, name, table.MarkChanges, func(up io.Writer) error {
		w, err := logfile.NewChangeWriter(up, f.schema, mode, logfile.WriterOptions{Stamp: f.stamp(), File: at.File, BlockBytes: f.o.blockBytes()})
		if err != nil {
			return err
		}
		for c, err := range reader.Images(ctx, v, f.Slice, f.schema, records, o) {
			if err != nil {
				return err
			}
			if c.Op == 0 {
				continue
			}
			if err := w.Append(changeOf(c)); err != nil {
				return err
			}
		}
		return w.Close()
	})
	if err != nil {
		return nil, fmt.Errorf("write change file %q: %w", name, err)
	}
	return map[string]int64{path.Join(at.Partition, name): size}, nil
}

func changeOf(c *reader.Change) logfile.Change {
	out := logfile.Change{Op: c.Op, Key: c.Key.Record}
	if c.Before != nil {
		out.Before = c.Before.Row
	}
	if c.After != nil {
		out.After = c.After.Row
	}
	return out
}

// inOrder are the job's records in the order of keys as UTF-16 units, and the keys.
func (f *job) inOrder() (iter.Seq2[*hudi.Record, error], *basefile.KeySet) {
	list, keys := slices.Clone(f.Records), make([]string, len(f.Records))
	for i, r := range list {
		keys[i] = r.Key.Record
	}
	slices.SortFunc(list, func(a, b *hudi.Located) int { return hudi.CompareUTF16(a.Key.Record, b.Key.Record) })
	return func(yield func(*hudi.Record, error) bool) {
		for _, r := range list {
			if !yield(&r.Record, nil) {
				return
			}
		}
	}, basefile.NewKeySet(keys)
}
