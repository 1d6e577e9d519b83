package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

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

// csvWriter prints RFC 4180: a header, commas, CRLF, quotes where they are
// needed. A null is nothing at all between the commas, an empty string a pair of
// quotes. Values are those of jsonl: bytes Base64, nested values JSON.
type csvWriter struct {
	out    io.Writer
	schema *hudi.Schema
	line   []byte
}

func newCSVWriter(out io.Writer, s *hudi.Schema) (*csvWriter, error) {
	w := &csvWriter{out: out, schema: s}
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

func (w *csvWriter) write(row hudi.Row) error {
	const floatBits, doubleBits, base = 32, 64, 10
	for i, v := range row {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		switch v.Kind() {
		case hudi.KindNull:
		case hudi.KindBoolean:
			w.line = strconv.AppendBool(w.line, v.Boolean())
		case hudi.KindInt, hudi.KindLong:
			w.line = strconv.AppendInt(w.line, v.Long(), base)
		case hudi.KindFloat:
			w.float(float64(v.Float()), floatBits)
		case hudi.KindDouble:
			w.float(v.Double(), doubleBits)
		case hudi.KindString:
			w.text(v.Text())
		case hudi.KindBytes:
			w.text(base64.StdEncoding.EncodeToString(v.Raw()))
		default:
			c := &w.schema.Columns()[i]
			nested, err := logfile.AppendNestedJSON(nil, c, v)
			if err != nil {
				return fmt.Errorf("column %q: %w", c.Name, err)
			}
			w.text(string(nested))
		}
	}
	return w.end()
}

func (w *csvWriter) close() error { return nil }

// float writes a number as jsonl does, but NaN and the infinities by their names.
func (w *csvWriter) float(f float64, bits int) {
	switch {
	case math.IsInf(f, 1):
		w.line = append(w.line, "Infinity"...)
	case math.IsInf(f, -1):
		w.line = append(w.line, "-Infinity"...)
	default:
		w.line = strconv.AppendFloat(w.line, f, 'g', -1, bits)
	}
}

func (w *csvWriter) text(s string) {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		w.line = append(w.line, s...)
		return
	}
	w.line = append(w.line, '"')
	w.line = append(w.line, strings.ReplaceAll(s, `"`, `""`)...)
	w.line = append(w.line, '"')
}
