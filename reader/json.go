package reader

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

// Printer shows the rows of a schema as text. It is safe for concurrent use.
type Printer struct {
	schema *hudi.Schema
	// texts are those of columns whose type is more than a primitive's name.
	texts []*logfile.Text
}

// NewPrinter prepares a schema.
func NewPrinter(s *hudi.Schema) (*Printer, error) {
	texts, err := logfile.NewTexts(s)
	return &Printer{schema: s, texts: texts}, err
}

// AppendJSON appends a record as one JSON object: with meta its commit time,
// sequence number, key and partition path, then the cells of its row in the
// order of the schema. Longs and decimals are exact, floating point numbers the
// shortest that read back the same, dates and times as ISO 8601 has them, other
// bytes Base64, nested values JSON again. NaN and the infinities, which JSON
// lacks, are strings. The row of a hard delete is empty.
func (p *Printer) AppendJSON(dst []byte, r *hudi.Record, meta bool) ([]byte, error) {
	if r.Row != nil && len(r.Row) != p.schema.Len() {
		return dst, fmt.Errorf("row of %d cells with a schema of %d columns", len(r.Row), p.schema.Len())
	}
	w := jsonObject{dst: append(dst, '{'), start: len(dst) + 1}
	if meta {
		w.text(hudi.MetaCommitTime, string(r.CommitTime))
		w.text(hudi.MetaCommitSeqno, r.CommitSeqno)
		w.text(hudi.MetaRecordKey, r.Key.Record)
		w.text(hudi.MetaPartitionPath, r.Key.Partition)
	}
	columns := p.schema.Columns()
	for i := range r.Row {
		w.name(columns[i].Name)
		if err := w.cell(p.texts[i], r.Row[i]); err != nil {
			return dst, err
		}
	}
	return append(w.dst, '}'), nil
}

// AppendText appends the cell of a column as AppendJSON shows it, a string and
// what else stands between quotes there as it is. A null is nothing.
func (p *Printer) AppendText(dst []byte, column int, v hudi.Value) ([]byte, error) {
	switch {
	case v.IsNull():
		return dst, nil
	case p.texts[column] != nil:
		out, _, err := p.texts[column].Append(dst, v)
		return out, err
	case v.Kind() == hudi.KindString:
		return append(dst, v.Text()...), nil
	}
	w := jsonObject{dst: dst, plain: true}
	err := w.cell(nil, v)
	return w.dst, err
}

type jsonObject struct {
	dst []byte
	// start is where the first member begins.
	start int
	// plain leaves quotes out.
	plain bool
}

func (w *jsonObject) name(name string) {
	if len(w.dst) > w.start {
		w.dst = append(w.dst, ',')
	}
	w.quote(name)
	w.dst = append(w.dst, ':')
}

func (w *jsonObject) text(name, value string) {
	w.name(name)
	w.quote(value)
}

// quote writes a string. Bytes that are no UTF-8 become U+FFFD: JSON has no
// place for them.
func (w *jsonObject) quote(s string) {
	if w.plain {
		w.dst = append(w.dst, s...)
		return
	}
	w.dst, _ = jsontext.AppendQuote(w.dst, s) // the error only tells of such bytes
}

func (w *jsonObject) cell(t *logfile.Text, v hudi.Value) error {
	const floatBits, doubleBits = 32, 64
	switch v.Kind() {
	case hudi.KindNull:
		w.dst = append(w.dst, "null"...)
		return nil
	case hudi.KindString:
		w.quote(v.Text())
		return nil
	default:
	}
	if t != nil {
		return w.shown(t, v)
	}
	switch v.Kind() {
	case hudi.KindBoolean:
		w.dst = strconv.AppendBool(w.dst, v.Boolean())
	case hudi.KindInt, hudi.KindLong:
		w.dst = strconv.AppendInt(w.dst, v.Long(), 10)
	case hudi.KindFloat:
		w.float(float64(v.Float()), floatBits)
	case hudi.KindDouble:
		w.float(v.Double(), doubleBits)
	default:
		return fmt.Errorf("a value of kind %s in a plain column", v.Kind())
	}
	return nil
}

// shown writes a value whose column's type is more than a primitive's name. What
// goes between quotes has nothing in it that JSON would escape.
func (w *jsonObject) shown(t *logfile.Text, v hudi.Value) error {
	start := len(w.dst)
	out, quoted, err := t.Append(append(w.dst, '"'), v)
	if err != nil {
		return err
	}
	if w.dst = out; quoted {
		w.dst = append(w.dst, '"')
	} else {
		w.dst = slices.Delete(w.dst, start, start+1)
	}
	return nil
}

func (w *jsonObject) float(f float64, bits int) {
	switch {
	case math.IsNaN(f):
		w.quote("NaN")
	case math.IsInf(f, 1):
		w.quote("Infinity")
	case math.IsInf(f, -1):
		w.quote("-Infinity")
	default:
		w.dst = appendFloat(w.dst, f, bits)
	}
}

// appendFloat writes as encoding/json does: exponents for the very large and
// the very small alone.
func appendFloat(dst []byte, f float64, bits int) []byte {
	const large, small = 1e21, 1e-6
	if abs := math.Abs(f); abs != 0 && (abs < small || abs >= large) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits)
}

// AppendChangeJSON appends a change as one JSON object: its instant, op ("i", "u"
// or "d"), record key and partition path, and the rows before and after as
// AppendJSON has them without meta columns, null where there is none.
func (p *Printer) AppendChangeJSON(dst []byte, c *Change) ([]byte, error) {
	w := jsonObject{dst: append(dst, '{'), start: len(dst) + 1}
	w.text("instant", string(c.Instant))
	w.text("op", c.Op.String())
	w.text("key", c.Key.Record)
	w.text("partition", c.Key.Partition)
	for _, image := range []struct {
		name string
		row  *hudi.Record
	}{{"before", c.Before}, {"after", c.After}} {
		w.name(image.name)
		if image.row == nil {
			w.dst = append(w.dst, "null"...)
			continue
		}
		var err error
		if w.dst, err = p.AppendJSON(w.dst, image.row, false); err != nil {
			return dst, err
		}
	}
	return append(w.dst, '}'), nil
}
