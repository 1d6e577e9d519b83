package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"text/tabwriter"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/reader"
)

// rowSource is rows to be printed, whatever they are: each has the cells of
// schema, valid until the next one.
type rowSource struct {
	schema *hudi.Schema
	rows   iter.Seq2[hudi.Row, error]
}

// rowWriter prints rows in one format.
type rowWriter interface {
	// write prints a row, which may be reused afterwards.
	write(hudi.Row) error
	// close prints what stands behind the last row. It does not close what is
	// written to.
	close() error
}

// The formats of rows.
const (
	formatTable   = "table"
	formatJSONL   = "jsonl"
	formatCSV     = "csv"
	formatParquet = "parquet"
)

// exportRowGroup is the size of a row group of an exported file, before compression.
const exportRowGroup = 16 << 20

// newRowWriter is the writer of a format.
func newRowWriter(format string, out io.Writer, s *hudi.Schema) (rowWriter, error) {
	switch format {
	case formatTable:
		return newTableWriter(out, s)
	case formatCSV:
		return newCSVWriter(out, s)
	case formatParquet:
		w, err := basefile.NewWriter(out, s, basefile.WriterOptions{Bare: true, RowGroupBytes: exportRowGroup})
		if err != nil {
			return nil, fmt.Errorf("write Parquet: %w", err)
		}
		return &parquetWriter{w: w}, nil
	default:
		p, err := reader.NewPrinter(s)
		return &jsonWriter{out: out, printer: p}, err
	}
}

// printRows prints a source in a format to a stream.
func printRows(out io.Writer, format string, from rowSource) error {
	b := bufio.NewWriterSize(out, 64<<10)
	w, err := newRowWriter(format, b, from.schema)
	if err != nil {
		return err
	}
	for row, err := range from.rows {
		if err == nil {
			err = w.write(row)
		}
		if err != nil {
			if format != formatParquet { // a part of a Parquet file is none
				err = errors.Join(err, b.Flush())
			}
			return err
		}
	}
	if err := w.close(); err != nil {
		return err
	}
	return b.Flush()
}

// layout is which cells of records are printed, the meta columns among them.
type layout struct {
	schema *hudi.Schema
	// from is the place of each cell in the record's row, or which meta column.
	from []int
	row  hudi.Row
}

// metaShown are the meta columns that records have, in front of all others.
func metaShown() []string {
	return []string{hudi.MetaCommitTime, hudi.MetaCommitSeqno, hudi.MetaRecordKey, hudi.MetaPartitionPath}
}

// newLayout prints the columns that are named, of records with rows of data, or
// without names all of them with the meta columns in front.
func newLayout(data *hudi.Schema, names []string) (*layout, error) {
	if len(names) == 0 {
		names = metaShown()
		for _, c := range data.Columns() {
			names = append(names, c.Name)
		}
	}
	l := &layout{row: make(hudi.Row, len(names))}
	var columns []hudi.Column
	for _, name := range names {
		if i, ok := data.Lookup(name); ok {
			columns, l.from = append(columns, data.Columns()[i]), append(l.from, i)
			continue
		}
		for i, m := range metaShown() {
			if m == name {
				columns, l.from = append(columns, hudi.Column{Name: name, Kind: hudi.KindString}), append(l.from, -1-i)
			}
		}
	}
	var err error
	l.schema, err = hudi.MakeSchema(data.Name, data.Namespace, columns...)
	return l, err
}

// source is records as rows of the layout.
func (l *layout) source(records iter.Seq2[*hudi.Record, error]) rowSource {
	return rowSource{l.schema, func(yield func(hudi.Row, error) bool) {
		for r, err := range records {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(l.cells(r), nil) {
				return
			}
		}
	}}
}

func (l *layout) cells(r *hudi.Record) hudi.Row {
	for i, from := range l.from {
		if from >= 0 {
			l.row[i] = r.Row[from]
			continue
		}
		switch metaShown()[-1-from] {
		case hudi.MetaCommitTime:
			l.row[i] = hudi.String(string(r.CommitTime))
		case hudi.MetaCommitSeqno:
			l.row[i] = hudi.String(r.CommitSeqno)
		case hudi.MetaRecordKey:
			l.row[i] = hudi.String(r.Key.Record)
		default:
			l.row[i] = hudi.String(r.Key.Partition)
		}
	}
	return l.row
}

func limited(from rowSource, limit int64) rowSource {
	if limit == 0 {
		return from
	}
	return rowSource{from.schema, func(yield func(hudi.Row, error) bool) {
		n := int64(0)
		for r, err := range from.rows {
			if !yield(r, err) {
				return
			}
			if n++; n >= limit {
				return
			}
		}
	}}
}

// jsonWriter prints an object a line.
type jsonWriter struct {
	out     io.Writer
	printer *reader.Printer
	line    []byte
	record  hudi.Record
}

func (w *jsonWriter) write(row hudi.Row) (err error) {
	w.record.Row = row
	if w.line, err = w.printer.AppendJSON(w.line[:0], &w.record, false); err != nil {
		return err
	}
	w.line = append(w.line, '\n')
	_, err = w.out.Write(w.line)
	return err
}

func (w *jsonWriter) close() error { return nil }

// parquetWriter writes a Parquet file, a row group at a time.
type parquetWriter struct {
	w      *basefile.Writer
	record hudi.Record
}

func (w *parquetWriter) write(row hudi.Row) error {
	w.record.Row = row
	return w.w.Append(&w.record)
}

func (w *parquetWriter) close() error {
	_, err := w.w.Close()
	return err
}

// tableWriter prints aligned columns for people, without those that hold whole
// documents when there are others.
type tableWriter struct {
	w     *tabwriter.Writer
	p     *cells
	shown []int
	heads []string
	cells []string
	n     int64
}

// tableChunk is how many rows are aligned with each other, so that a long
// table streams.
const tableChunk = 500

func newTableWriter(out io.Writer, s *hudi.Schema) (*tableWriter, error) {
	p, err := newCells(s)
	if err != nil {
		return nil, err
	}
	t := &tableWriter{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), p: p}
	const few = 7 // with the meta columns
	for i, c := range s.Columns() {
		wide := c.Name == hudi.ColumnDoc || c.Name == hudi.ColumnRescued
		meta := hudi.IsMetaColumn(c.Name) && c.Name != hudi.MetaCommitTime
		if s.Len() >= few && (wide || meta) {
			continue
		}
		t.shown, t.heads = append(t.shown, i), append(t.heads, c.Name)
	}
	return t, nil
}

func (t *tableWriter) write(row hudi.Row) error {
	if t.n%tableChunk == 0 {
		if err := t.w.Flush(); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(t.w, strings.Join(t.heads, "\t"))
	}
	t.n++
	t.cells = t.cells[:0]
	for _, i := range t.shown {
		text, err := t.p.cell(i, row[i])
		if err != nil {
			return err
		}
		t.cells = append(t.cells, text)
	}
	_, err := fmt.Fprintln(t.w, strings.Join(t.cells, "\t"))
	return err
}

func (t *tableWriter) close() error {
	_, _ = fmt.Fprintf(t.w, "(%d rows)\n", t.n)
	return t.w.Flush()
}
