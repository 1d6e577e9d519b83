package logfile

import (
	"encoding/base64"
	"fmt"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// Text shows the values of a column whose type is more than the name of a
// primitive, for those who may not know Avro. It is safe for concurrent use.
type Text struct {
	column string
	typ    *avro.Type
}

// NewTexts prepares the columns of a schema: nil for those of a primitive's name
// alone, but for bytes.
func NewTexts(s *hudi.Schema) ([]*Text, error) {
	parsed, err := avro.Parse(s.Avro())
	if err != nil {
		return nil, fmt.Errorf("parse the schema of the rows: %w", err)
	}
	all := make([]*Text, s.Len())
	for i := range s.Columns() {
		if c := &s.Columns()[i]; c.Type != "" || c.Kind == hudi.KindBytes {
			inner, _, _ := parsed.Type().Fields[i].Type.Optional()
			all[i] = &Text{column: c.Name, typ: inner}
		}
	}
	return all, nil
}

// Append appends a value that is not null: dates and times as ISO 8601 has
// them, decimals as all their digits, other bytes as Base64, nested values as
// JSON. quoted says that JSON needs quotes around it.
func (t *Text) Append(dst []byte, v hudi.Value) (out []byte, quoted bool, err error) {
	switch v.Kind() {
	case hudi.KindNested:
		out, rest, err := avro.AppendJSON(dst, t.typ, v.Raw())
		if err != nil {
			return dst, false, fmt.Errorf("show column %q: %w", t.column, err)
		}
		if len(rest) > 0 {
			return dst, false, fmt.Errorf("show column %q: %w: %d bytes too many", t.column, avro.ErrData, len(rest))
		}
		return out, false, nil
	case hudi.KindInt, hudi.KindLong:
		out, quoted = avro.AppendNumber(dst, t.typ, v.Long())
		return out, quoted, nil
	case hudi.KindBytes:
		if t.typ.Logical == avro.LogicalDecimal {
			return avro.AppendDecimal(dst, v.Raw(), t.typ.Scale), false, nil
		}
		return base64.StdEncoding.AppendEncode(dst, v.Raw()), true, nil
	case hudi.KindString:
		return append(dst, v.Text()...), true, nil
	default:
		return dst, false, fmt.Errorf("show column %q: %w: a %s", t.column, avro.ErrData, v.Kind())
	}
}
