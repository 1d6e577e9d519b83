package main

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// printRows prints rows as JSON lines or as a table for people.
func printRows(s streams, schema *hudi.Schema, rows iter.Seq2[*hudi.Record, error], f queryFlags) error {
	out := bufio.NewWriterSize(s.out, 64<<10)
	var err error
	if f.format == "jsonl" || (f.format == "" && !terminal(s.out)) {
		err = printJSON(out, schema, limited(rows, f.limit))
	} else {
		err = printTable(out, schema, limited(rows, f.limit))
	}
	if flush := out.Flush(); err == nil {
		err = flush
	}
	return err
}

func limited(rows iter.Seq2[*hudi.Record, error], limit int64) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		n := int64(0)
		for r, err := range rows {
			if !yield(r, err) {
				return
			}
			if n++; limit > 0 && n >= limit {
				return
			}
		}
	}
}

func printJSON(out io.Writer, schema *hudi.Schema, rows iter.Seq2[*hudi.Record, error]) error {
	var line []byte
	for r, err := range rows {
		if err != nil {
			return err
		}
		if line, err = reader.AppendJSON(line[:0], schema, r, true); err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// tableChunk is how many rows are aligned with each other, so that a long
// table streams.
const tableChunk = 500

// printTable prints aligned columns; _doc and _rescued only when they are few.
func printTable(out io.Writer, schema *hudi.Schema, rows iter.Seq2[*hudi.Record, error]) error {
	var shown []int
	heads := []string{"_hoodie_commit_time"}
	for i, c := range schema.Columns() {
		if (c.Name == hudi.ColumnDoc || c.Name == hudi.ColumnRescued) && schema.Len() > 2 {
			continue
		}
		shown, heads = append(shown, i), append(heads, c.Name)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	n := 0
	for r, err := range rows {
		if err != nil {
			return err
		}
		if n%tableChunk == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
			_, _ = fmt.Fprintln(w, strings.Join(heads, "\t"))
		}
		cells := []string{string(r.CommitTime)}
		for _, i := range shown {
			cells = append(cells, cell(r.Row[i]))
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
		n++
	}
	_, _ = fmt.Fprintf(w, "(%d rows)\n", n)
	return w.Flush()
}

// cell is a value for people: short, on one line.
func cell(v hudi.Value) string {
	const most = 40
	var s string
	switch v.Kind() {
	case hudi.KindNull:
		return "-"
	case hudi.KindBoolean:
		s = strconv.FormatBool(v.Boolean())
	case hudi.KindInt, hudi.KindLong:
		s = strconv.FormatInt(v.Long(), 10)
	case hudi.KindFloat:
		s = fmt.Sprint(v.Float())
	case hudi.KindDouble:
		s = fmt.Sprint(v.Double())
	case hudi.KindString:
		s = v.Text()
	default:
		return fmt.Sprintf("(%d bytes)", len(v.Raw()))
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '·'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
