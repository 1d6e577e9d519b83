package main

import (
	"bytes"
	"io"
	"strings"
	"unicode"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// cells shows the cells of rows to people: short, each on one line.
type cells struct {
	schema  *hudi.Schema
	printer *reader.Printer
	buf     []byte
}

func newCells(s *hudi.Schema) (*cells, error) {
	p, err := reader.NewPrinter(s)
	return &cells{schema: s, printer: p}, err
}

func (c *cells) cell(column int, v hudi.Value) (string, error) {
	if v.IsNull() {
		return "-", nil
	}
	var err error
	c.buf, err = c.printer.AppendText(c.buf[:0], column, v)
	return clip(string(c.buf)), err
}

// clip is a text for people.
func clip(s string) string {
	const most = 40
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

// csvWriter prints RFC 4180: a header, commas, CRLF, quotes where they are
// needed. A null is nothing at all between the commas, an empty string a pair of
// quotes. Values are those of jsonl, nested ones JSON.
type csvWriter struct {
	out     io.Writer
	printer *reader.Printer
	line    []byte
	cell    []byte
}

func newCSVWriter(out io.Writer, s *hudi.Schema) (*csvWriter, error) {
	p, err := reader.NewPrinter(s)
	if err != nil {
		return nil, err
	}
	w := &csvWriter{out: out, printer: p}
	for i, c := range s.Columns() {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		w.line = append(w.line, c.Name...)
	}
	return w, w.end()
}

func (w *csvWriter) end() error {
	w.line = append(w.line, "\r\n"...)
	_, err := w.out.Write(w.line)
	w.line = w.line[:0]
	return err
}

func (w *csvWriter) write(row hudi.Row) (err error) {
	for i, v := range row {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		if v.IsNull() {
			continue
		}
		if w.cell, err = w.printer.AppendText(w.cell[:0], i, v); err != nil {
			return err
		}
		w.text(w.cell)
	}
	return w.end()
}

func (w *csvWriter) close() error { return nil }

func (w *csvWriter) text(s []byte) {
	if len(s) > 0 && !bytes.ContainsAny(s, ",\"\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		w.line = append(w.line, s...)
		return
	}
	w.line = append(w.line, '"')
	w.line = append(w.line, bytes.ReplaceAll(s, []byte(`"`), []byte(`""`))...)
	w.line = append(w.line, '"')
}
