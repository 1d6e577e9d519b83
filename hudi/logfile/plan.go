package logfile

import (
	"errors"
	"fmt"
	"math"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// errStop ends an iteration that its consumer left.
var errStop = errors.New("stop")

// role is what a field of a row means besides being a column.
type role uint8

const (
	roleNone role = iota
	roleCommitTime
	roleCommitSeqno
	roleKey
	rolePartition
	roleOperation
	roleIsDeleted
)

const isDeletedColumn = "_hoodie_is_deleted"

// field says what to do with one field of the block's rows.
type field struct {
	name string
	// typ is the field's type without null; null is the branch of null, -1
	// when the field is no union.
	typ  *avro.Type
	null int64
	role role
	// order says that the field is the ordering column.
	order bool
	// column is the place in the target row, -1 for none, kind how it is held there.
	column int
	kind   hudi.Kind
	// copy brings a composite into the target's encoding.
	copy *avro.Resolver
}

// plan decodes the rows of one block onto a target schema. What it decodes is
// valid until the next row.
type plan struct {
	fields []field
	record hudi.Record
	row    hudi.Row
	nested []byte
	// deleted is set by a row that says that it is no row.
	deleted bool
}

func newPlan(schema string, target *hudi.Schema, orderColumn string) (*plan, error) {
	if schema == "" {
		return nil, fmt.Errorf("%w: no schema in the header", ErrCorrupt)
	}
	s, err := avro.Parse(schema)
	if err != nil {
		return nil, err
	}
	if s.Type().Kind != avro.Record {
		return nil, fmt.Errorf("%w: schema is no record", ErrCorrupt)
	}
	return planOf(s.Type(), target, orderColumn)
}

// planOf is the plan for rows of a record type.
func planOf(rows *avro.Type, target *hudi.Schema, orderColumn string) (*plan, error) {
	wanted, err := avro.Parse(target.Avro())
	if err != nil {
		return nil, err
	}
	p := &plan{row: make(hudi.Row, target.Len())}
	for i := range rows.Fields {
		f, err := newField(&rows.Fields[i], target, wanted, orderColumn)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", rows.Fields[i].Name, err)
		}
		p.fields = append(p.fields, f)
	}
	return p, nil
}

func newField(from *avro.Field, target *hudi.Schema, wanted *avro.Schema, orderColumn string) (field, error) {
	f := field{name: from.Name, null: -1, column: -1, role: roleOf(from)}
	var null int
	var nullable bool
	if f.typ, null, nullable = from.Type.Optional(); nullable {
		f.null = int64(null)
	}
	if f.name == orderColumn {
		f.order = true
		if f.typ.Kind != avro.Int && f.typ.Kind != avro.Long {
			return f, fmt.Errorf("%w: it is a %s", ErrOrder, f.typ)
		}
	}
	at, ok := target.Lookup(f.name)
	if !ok {
		return f, nil
	}
	f.column, f.kind = at, target.Columns()[at].Kind
	to, _, _ := wanted.Type().Field(f.name).Type.Optional()
	if f.kind == hudi.KindNested {
		r, err := avro.NewResolver(f.typ, to)
		f.copy = r
		return f, err
	}
	if enum := f.typ.Kind == avro.Enum && to.Kind == avro.String; !enum && !avro.Fits(f.typ, to) {
		return f, fmt.Errorf("%w: %s cannot be read as %s", avro.ErrSchema, f.typ, to)
	}
	return f, nil
}

func roleOf(f *avro.Field) role {
	switch f.Name {
	case hudi.MetaCommitTime:
		return roleCommitTime
	case hudi.MetaCommitSeqno:
		return roleCommitSeqno
	case hudi.MetaRecordKey:
		return roleKey
	case hudi.MetaPartitionPath:
		return rolePartition
	case hudi.MetaOperation:
		return roleOperation
	case isDeletedColumn:
		return roleIsDeleted
	}
	return roleNone
}

// decode makes p.record of one row.
func (p *plan) decode(b []byte) error {
	rest, err := p.decodeSome(b)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes behind the last column", ErrCorrupt, len(rest))
	}
	if p.deleted {
		p.record.Delete = true
	} else {
		p.record.Row = p.row
	}
	return nil
}

// decodeSome decodes the row that b begins with.
func (p *plan) decodeSome(b []byte) ([]byte, error) {
	p.record = hudi.Record{}
	p.deleted = false
	p.nested = p.nested[:0]
	clear(p.row)
	for i := range p.fields {
		f := &p.fields[i]
		if f.null >= 0 {
			branch, n := avro.ReadLong(b)
			if n == 0 || branch < 0 || branch > 1 {
				return nil, fmt.Errorf("%w: column %q: branch %d of a union of two", ErrCorrupt, f.name, branch)
			}
			b = b[n:]
			if branch == f.null {
				continue
			}
		}
		rest, err := p.value(f, b)
		if err != nil {
			return nil, fmt.Errorf("%w: column %q: %w", ErrCorrupt, f.name, err)
		}
		b = rest
	}
	return b, nil
}

// value reads the value of a field that is not null.
func (p *plan) value(f *field, b []byte) (rest []byte, err error) {
	switch {
	case f.role != roleNone:
		return p.special(f, b)
	case f.copy != nil:
		return p.composite(f, b)
	case f.column < 0 && !f.order:
		return avro.Skip(f.typ, b)
	}
	v, rest, err := scalar(f, b)
	if err != nil {
		return nil, err
	}
	if f.order {
		p.record.Order = v.Long()
	}
	if f.column >= 0 {
		p.row[f.column] = widen(v, f.kind)
	}
	return rest, nil
}

func (p *plan) composite(f *field, b []byte) ([]byte, error) {
	if f.copy.Same() {
		rest, err := avro.Skip(f.typ, b)
		if err != nil {
			return nil, err
		}
		p.row[f.column] = hudi.Nested(b[:len(b)-len(rest)])
		return rest, nil
	}
	// The values that point into nested stay good when it grows: the old
	// memory lives on with them.
	start := len(p.nested)
	out, rest, err := f.copy.Append(p.nested, b)
	p.nested = out
	if err != nil {
		return nil, err
	}
	p.row[f.column] = hudi.Nested(out[start:len(out):len(out)])
	return rest, nil
}

// special reads a field that has a role.
func (p *plan) special(f *field, b []byte) ([]byte, error) {
	if f.role == roleIsDeleted {
		if f.typ.Kind != avro.Boolean {
			return avro.Skip(f.typ, b)
		}
		v, rest, err := scalar(f, b)
		if err != nil {
			return nil, err
		}
		p.deleted = p.deleted || v.Boolean()
		if f.column >= 0 {
			p.row[f.column] = widen(v, f.kind)
		}
		return rest, nil
	}
	if f.typ.Kind != avro.String {
		return nil, fmt.Errorf("meta column of type %s", f.typ)
	}
	b, rest, err := avro.ReadText(b)
	text := hudi.StringOf(b).Text()
	switch f.role {
	case roleCommitTime:
		p.record.CommitTime = hudi.Time(text)
	case roleCommitSeqno:
		p.record.CommitSeqno = text
	case roleKey:
		p.record.Key.Record = text
	case rolePartition:
		p.record.Key.Partition = text
	case roleOperation:
		p.deleted = p.deleted || text == "D" || text == "-U"
	default:
	}
	return rest, err
}

var errScalar = errors.New("cut short or out of range")

// scalar reads a value as its own type has it.
func scalar(f *field, b []byte) (hudi.Value, []byte, error) {
	switch f.typ.Kind {
	case avro.String, avro.Bytes:
		text, rest, err := avro.ReadText(b)
		return hudi.StringOf(text), rest, err
	case avro.Long:
		if v, n := avro.ReadLong(b); n > 0 {
			return hudi.Long(v), b[n:], nil
		}
	case avro.Int:
		if v, n := avro.ReadLong(b); n > 0 && v >= math.MinInt32 && v <= math.MaxInt32 {
			return hudi.Int(int32(v)), b[n:], nil
		}
	case avro.Boolean:
		if len(b) > 0 && b[0] <= 1 {
			return hudi.Boolean(b[0] == 1), b[1:], nil
		}
	case avro.Double:
		if v, ok := avro.ReadDouble(b); ok {
			return hudi.Double(v), b[8:], nil
		}
	case avro.Float:
		if v, ok := avro.ReadFloat(b); ok {
			return hudi.Float(v), b[4:], nil
		}
	case avro.Fixed:
		if len(b) >= f.typ.Size {
			return hudi.Bytes(b[:f.typ.Size:f.typ.Size]), b[f.typ.Size:], nil
		}
	case avro.Enum:
		if v, n := avro.ReadLong(b); n > 0 && v >= 0 && v < int64(len(f.typ.Symbols)) {
			return hudi.String(f.typ.Symbols[v]), b[n:], nil
		}
	case avro.Null:
		return hudi.Value{}, b, nil
	default:
	}
	return hudi.Value{}, nil, errScalar
}

// widen holds a value as the target column holds it; newField checked that it can.
func widen(v hudi.Value, k hudi.Kind) hudi.Value {
	if v.Kind() == k || v.IsNull() {
		return v
	}
	switch k {
	case hudi.KindLong:
		return hudi.Long(v.Long())
	case hudi.KindFloat:
		return hudi.Float(float32(v.Long()))
	case hudi.KindDouble:
		if v.Kind() == hudi.KindFloat {
			return hudi.Double(float64(v.Float()))
		}
		return hudi.Double(float64(v.Long()))
	case hudi.KindString:
		return hudi.StringOf(v.Raw())
	case hudi.KindBytes:
		return hudi.Bytes(v.Raw())
	default:
		return v
	}
}
