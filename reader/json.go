package reader

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

// AppendJSON appends a record as one JSON object: with meta its commit time,
// sequence number, key and partition path, then the cells of its row in the
// order of s. Longs are exact, floating point numbers the shortest that read
// back the same, bytes Base64, dates and times the numbers they are stored as,
// nested values JSON again. NaN and the infinities, which JSON lacks, are
// strings. The row of a hard delete is empty.
func AppendJSON(dst []byte, s *hudi.Schema, r *hudi.Record, meta bool) ([]byte, error) {
	if r.Row != nil && len(r.Row) != s.Len() {
		return dst, fmt.Errorf("row of %d cells with a schema of %d columns", len(r.Row), s.Len())
	}
	w := jsonObject{dst: append(dst, '{'), start: len(dst) + 1}
	if meta {
		w.text(hudi.MetaCommitTime, string(r.CommitTime))
		w.text(hudi.MetaCommitSeqno, r.CommitSeqno)
		w.text(hudi.MetaRecordKey, r.Key.Record)
		w.text(hudi.MetaPartitionPath, r.Key.Partition)
	}
	columns := s.Columns()
	for i := range r.Row {
		w.name(columns[i].Name)
		if err := w.cell(&columns[i], r.Row[i]); err != nil {
			return dst, fmt.Errorf("column %q: %w", columns[i].Name, err)
		}
	}
	return append(w.dst, '}'), nil
}

type jsonObject struct {
	dst []byte
	// start is where the first member begins.
	start int
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
	w.dst, _ = jsontext.AppendQuote(w.dst, s) // the error only tells of such bytes
}

func (w *jsonObject) cell(c *hudi.Column, v hudi.Value) error {
	const floatBits, doubleBits = 32, 64
	switch v.Kind() {
	case hudi.KindBoolean:
		w.dst = strconv.AppendBool(w.dst, v.Boolean())
	case hudi.KindInt, hudi.KindLong:
		w.dst = strconv.AppendInt(w.dst, v.Long(), 10)
	case hudi.KindFloat:
		w.float(float64(v.Float()), floatBits)
	case hudi.KindDouble:
		w.float(v.Double(), doubleBits)
	case hudi.KindString:
		w.quote(v.Text())
	case hudi.KindBytes:
		w.quote(base64.StdEncoding.EncodeToString(v.Raw()))
	case hudi.KindNested:
		var err error
		w.dst, err = logfile.AppendNestedJSON(w.dst, c, v)
		return err
	default:
		w.dst = append(w.dst, "null"...)
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
func AppendChangeJSON(dst []byte, s *hudi.Schema, c *Change) ([]byte, error) {
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
		if w.dst, err = AppendJSON(w.dst, s, image.row, false); err != nil {
			return dst, err
		}
	}
	return append(w.dst, '}'), nil
}
