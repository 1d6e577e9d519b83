package hudi

import (
	"math"
	"unsafe"
)

// Kind is how a value is held. It is the Avro type of a column, with all
// composite types folded into KindNested.
type Kind uint8

// The kinds. KindNull is the zero Kind, so that the zero Value is null.
const (
	KindNull Kind = iota
	KindBoolean
	KindInt
	KindLong
	KindFloat
	KindDouble
	KindString
	// KindBytes holds bytes and fixed.
	KindBytes
	// KindNested holds an array, map or record as the Avro binary encoding of
	// the column's type: composite columns pass through untouched.
	KindNested
)

var kindNames = [...]string{"null", "boolean", "int", "long", "float", "double", "string", "bytes", "nested"}

// String is the Avro name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Value is one cell of a row: 32 bytes, no pointer but the string's. The zero
// Value is null. Strings may point into the document they were read from.
type Value struct {
	text string
	bits uint64
	kind Kind
}

// Row holds one Value for each column of a Schema, in the schema's order. Hudi's
// meta columns are not part of it: they are fields of Record.
type Row []Value

// Boolean makes a boolean value.
func Boolean(b bool) Value {
	v := Value{kind: KindBoolean}
	if b {
		v.bits = 1
	}
	return v
}

// Int makes a 32-bit integer value.
func Int(i int32) Value { return Value{kind: KindInt, bits: uint64(int64(i))} }

// Long makes a 64-bit integer value.
func Long(i int64) Value { return Value{kind: KindLong, bits: uint64(i)} }

// Float makes a 32-bit floating point value.
func Float(f float32) Value { return Value{kind: KindFloat, bits: uint64(math.Float32bits(f))} }

// Double makes a 64-bit floating point value.
func Double(f float64) Value { return Value{kind: KindDouble, bits: math.Float64bits(f)} }

// String makes a string value.
func String(s string) Value { return Value{kind: KindString, text: s} }

// StringOf makes a string value that shares b, which must not change while the
// value lives.
func StringOf(b []byte) Value { return Value{kind: KindString, text: share(b)} }

// Bytes makes a bytes value that shares b, which must not change while the
// value lives.
func Bytes(b []byte) Value { return Value{kind: KindBytes, text: share(b)} }

// Nested makes a composite value from its Avro binary encoding, which it shares.
func Nested(avro []byte) Value { return Value{kind: KindNested, text: share(avro)} }

// Kind says how the value is held.
func (v Value) Kind() Kind { return v.kind }

// IsNull says whether the value is null.
func (v Value) IsNull() bool { return v.kind == KindNull }

// Boolean is the value of KindBoolean.
func (v Value) Boolean() bool { return v.bits != 0 }

// Int is the value of KindInt.
func (v Value) Int() int32 { return int32(int64(v.bits)) }

// Long is the value of KindLong or KindInt.
func (v Value) Long() int64 { return int64(v.bits) }

// Float is the value of KindFloat.
func (v Value) Float() float32 { return math.Float32frombits(uint32(v.bits)) }

// Double is the value of KindDouble.
func (v Value) Double() float64 { return math.Float64frombits(v.bits) }

// Text is the value of KindString; for KindBytes and KindNested the raw bytes
// as a string.
func (v Value) Text() string { return v.text }

// Raw is the bytes of KindString, KindBytes or KindNested. They are shared and
// must not be written to.
func (v Value) Raw() []byte { return unsafe.Slice(unsafe.StringData(v.text), len(v.text)) } //nolint:gosec // read only, by the doc above

// Size is the bytes that the value holds, for memory budgets.
func (v Value) Size() int { return int(unsafe.Sizeof(v)) + len(v.text) }

func share(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) } //nolint:gosec // shared on purpose: StringOf, Bytes and Nested say so
