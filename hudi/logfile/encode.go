package logfile

import (
	"encoding/binary"
	"fmt"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// column says how a cell of a column is encoded.
type column struct {
	name     string
	kind     hudi.Kind
	required bool
	// size is that of a fixed, symbols those of an enum.
	size    int
	symbols []string
}

// rowEncoder turns rows into Avro, by the schema of the table with the meta
// columns in front.
type rowEncoder struct {
	columns []column
	stamp   hudi.Stamp
	file    string
	stamped int64
	// seqno is memory for a sequence number.
	seqno []byte
}

func newRowEncoder(s *hudi.Schema, o WriterOptions) (*rowEncoder, error) {
	parsed, err := avro.Parse(s.AvroWithMeta())
	if err != nil {
		return nil, fmt.Errorf("parse the schema of the rows: %w", err)
	}
	e := &rowEncoder{stamp: o.Stamp, file: string(o.File)}
	for _, c := range s.Columns() {
		f := parsed.Type().Field(c.Name)
		if f == nil {
			return nil, fmt.Errorf("%w: column %q is not in the schema", ErrRecord, c.Name)
		}
		inner, _, _ := f.Type.Optional()
		e.columns = append(e.columns, column{name: c.Name, kind: c.Kind, required: c.Required, size: inner.Size, symbols: inner.Symbols})
	}
	return e, nil
}

// Unions of ours have null first: branch 0, then the type: branch 1, zigzag 2.
const (
	branchNull  = 0
	branchValue = 2
)

// append appends a row, with its length in front.
func (e *rowEncoder) append(dst []byte, r *hudi.Record) ([]byte, error) {
	if len(r.Row) != len(e.columns) {
		return dst, fmt.Errorf("%w: %d cells, the schema has %d columns", ErrRecord, len(r.Row), len(e.columns))
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = e.appendMeta(dst, r)
	var err error
	for i := range r.Row {
		if dst, err = appendCell(dst, &e.columns[i], &r.Row[i]); err != nil {
			return dst[:start], err
		}
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-countBytes))
	return dst, nil
}

func (e *rowEncoder) appendMeta(dst []byte, r *hudi.Record) []byte {
	time, seqno := string(r.CommitTime), r.CommitSeqno
	if time != "" {
		dst = appendMetaText(appendMetaText(dst, time), seqno)
	} else {
		e.seqno = e.stamp.AppendSeqno(e.seqno[:0], e.stamped)
		e.stamped++
		dst = appendMetaText(dst, string(e.stamp.Instant))
		dst = append(avro.AppendLong(append(dst, branchValue), int64(len(e.seqno))), e.seqno...)
	}
	dst = appendMetaText(dst, r.Key.Record)
	dst = appendMetaText(dst, r.Key.Partition)
	return appendMetaText(dst, e.file)
}

func appendMetaText(dst []byte, s string) []byte {
	return append(avro.AppendLong(append(dst, branchValue), int64(len(s))), s...)
}

func appendCell(dst []byte, c *column, v *hudi.Value) ([]byte, error) {
	if v.IsNull() {
		if c.required {
			return dst, fmt.Errorf("%w: null in column %q, which takes none", ErrRecord, c.name)
		}
		return append(dst, branchNull), nil
	}
	if !c.required {
		dst = append(dst, branchValue)
	}
	kind := v.Kind()
	switch c.kind {
	case hudi.KindString:
		if kind == hudi.KindString && c.symbols == nil {
			return append(avro.AppendLong(dst, int64(len(v.Text()))), v.Text()...), nil
		}
	case hudi.KindLong:
		if kind == hudi.KindLong || kind == hudi.KindInt {
			return avro.AppendLong(dst, v.Long()), nil
		}
	case hudi.KindInt:
		if kind == hudi.KindInt {
			return avro.AppendLong(dst, v.Long()), nil
		}
	case hudi.KindBoolean:
		if kind == hudi.KindBoolean {
			if v.Boolean() {
				return append(dst, 1), nil
			}
			return append(dst, 0), nil
		}
	case hudi.KindDouble:
		if kind == hudi.KindDouble {
			return avro.AppendDouble(dst, v.Double()), nil
		}
	case hudi.KindFloat:
		if kind == hudi.KindFloat {
			return avro.AppendFloat(dst, v.Float()), nil
		}
	case hudi.KindNested:
		if kind == hudi.KindNested {
			return append(dst, v.Text()...), nil
		}
	default:
	}
	return appendRareCell(dst, c, v)
}

// appendRareCell encodes bytes, fixed, enums, and integers in floating columns.
func appendRareCell(dst []byte, c *column, v *hudi.Value) ([]byte, error) {
	kind := v.Kind()
	switch {
	case c.kind == hudi.KindBytes && kind == hudi.KindBytes && c.size == 0:
		return append(avro.AppendLong(dst, int64(len(v.Text()))), v.Text()...), nil
	case c.kind == hudi.KindBytes && kind == hudi.KindBytes && c.size == len(v.Text()):
		return append(dst, v.Text()...), nil
	case c.kind == hudi.KindString && kind == hudi.KindString:
		for i, s := range c.symbols {
			if s == v.Text() {
				return avro.AppendLong(dst, int64(i)), nil
			}
		}
		return dst, fmt.Errorf("%w: column %q: %q is no symbol of the enum", ErrRecord, c.name, v.Text())
	case c.kind == hudi.KindDouble && kind == hudi.KindFloat:
		return avro.AppendDouble(dst, float64(v.Float())), nil
	}
	return dst, fmt.Errorf("%w: column %q takes %s, not %s of %d bytes", ErrRecord, c.name, c.kind, kind, len(v.Text()))
}
