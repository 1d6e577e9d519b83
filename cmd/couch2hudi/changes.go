package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"text/tabwriter"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// runChanges prints what commits did to rows.
func runChanges(ctx context.Context, s streams, f queryFlags) error {
	begin, err := f.changesCheck(s)
	if err != nil {
		return err
	}
	limitMemory(readMemory)
	t, closeTable, err := openForReading(ctx, f.table)
	if err != nil {
		return err
	}
	defer closeTable()
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	if v, err = f.past(v); err != nil {
		return err
	}
	o := reader.Options{Columns: f.columns}
	if o.Partitions, err = f.paths(ctx, v); err != nil {
		return err
	}
	schema, err := reader.Target(ctx, v, o)
	list := firstChanges(reader.Changes(ctx, v, begin, v.Latest(), o), f.limit)
	switch {
	case errors.Is(err, table.ErrNoSchema):
		list = func(func(*reader.Change, error) bool) {} // no commit, no change
	case errors.Is(err, reader.ErrColumn):
		return &usageError{err: err}
	case err != nil:
		return err
	}
	to := func(out io.Writer) error { return printChanges(out, schema, list, f) }
	if f.out == "" {
		return to(s.out)
	}
	return replaceFile(f.out, to)
}

// changesCheck is where the changes begin; all of them is the default.
func (f *queryFlags) changesCheck(s streams) (hudi.Time, error) {
	wrong := func(text string) (hudi.Time, error) { return "", &usageError{err: errors.New(text)} }
	switch {
	case f.readOptimized || f.asOf != "" || f.deleted || f.where != "" || f.fallback != "" || f.maxIncrement != 0:
		return wrong("--changes goes with --since, --until, --columns, --partition and --limit, and with no other way of reading")
	case f.sinceInclusive && f.since == "":
		return wrong("--since-inclusive needs --since")
	case f.limit < 0:
		return wrong("--limit is negative")
	}
	if err := f.checkReading(s); err != nil {
		return "", err
	}
	if err := oneOfFormats(f.format, formatTable, formatJSONL); err != nil || f.since == "" {
		return "", err
	}
	return f.begin(time.Now())
}

// firstChanges are the first of a sequence, all with 0.
func firstChanges(list iter.Seq2[*reader.Change, error], limit int64) iter.Seq2[*reader.Change, error] {
	return func(yield func(*reader.Change, error) bool) {
		n := int64(0)
		for c, err := range list {
			if !yield(c, err) {
				return
			}
			if n++; limit > 0 && n >= limit {
				return
			}
		}
	}
}

func printChanges(to io.Writer, schema *hudi.Schema, list iter.Seq2[*reader.Change, error], f queryFlags) error {
	out := bufio.NewWriterSize(to, 64<<10)
	var err error
	switch {
	case f.count:
		n := 0
		for _, err := range list {
			if err != nil {
				return err
			}
			n++
		}
		_, err = fmt.Fprintln(out, n)
	case f.format == formatJSONL:
		err = changesAsJSON(out, schema, list)
	default:
		err = changesAsTable(out, schema, list)
	}
	return errors.Join(err, out.Flush())
}

func changesAsJSON(out io.Writer, schema *hudi.Schema, list iter.Seq2[*reader.Change, error]) error {
	p, err := reader.NewPrinter(schema)
	if err != nil {
		return err
	}
	var line []byte
	for c, err := range list {
		if err == nil {
			line, err = p.AppendChangeJSON(line[:0], c)
		}
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// changesAsTable prints a line a change, and of the columns those that changed.
func changesAsTable(out io.Writer, schema *hudi.Schema, list iter.Seq2[*reader.Change, error]) error {
	p, err := newCells(schema)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	n := 0
	for c, err := range list {
		if err != nil {
			return errors.Join(w.Flush(), err)
		}
		if n%tableChunk == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
			_, _ = fmt.Fprintln(w, "instant\top\tkey\tchanged")
		}
		changed, err := p.changed(c)
		if err != nil {
			return errors.Join(w.Flush(), err)
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Instant, c.Op, clip(c.Key.Record), changed); err != nil {
			return err
		}
		n++
	}
	_, _ = fmt.Fprintf(w, "(%d changes)\n", n)
	return w.Flush()
}

// changed are the columns in which an update's rows differ, or those of the one
// row that there is.
func (c *cells) changed(change *reader.Change) (string, error) {
	text, sep := "", ""
	for i, column := range c.schema.Columns() {
		if column.Name == hudi.ColumnDoc || column.Name == hudi.ColumnRescued {
			continue
		}
		var before, after hudi.Value
		if change.Before != nil {
			before = change.Before.Row[i]
		}
		if change.After != nil {
			after = change.After.Row[i]
		}
		if before == after {
			continue
		}
		b, err := c.cell(i, before)
		if err != nil {
			return "", err
		}
		a, err := c.cell(i, after)
		if err != nil {
			return "", err
		}
		switch change.Op {
		case hudi.OpUpdate:
			text += sep + column.Name + " " + b + " → " + a
		case hudi.OpInsert:
			text += sep + column.Name + " " + a
		default:
			text += sep + column.Name + " " + b
		}
		sep = ", "
	}
	return text, nil
}
