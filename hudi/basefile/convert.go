package basefile

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// op is how a stored value becomes one of the target's.
type op uint8

const (
	opBoolean op = iota + 1
	opInt
	opLong
	opLongFromInt
	opFloat
	opFloatFromInt
	opFloatFromLong
	opDouble
	opDoubleFromInt
	opDoubleFromLong
	opDoubleFromFloat
	opString
	opBytes
	// The decimals are held as bytes: of the target's size, or as short as they can be.
	opDecimalFromInt
	opDecimalFromBytes
)

// conversion is an op with what it needs.
type conversion struct {
	op op
	// size is that of a target of fixed length, 0 for any length.
	size    int
	symbols []string
}

// convert finds out how a leaf of the file becomes a value of t.
func convert(leaf *parquet.Column, t *avro.Type) (conversion, error) {
	c := conversion{size: t.Size, symbols: t.Symbols}
	have := leafType(leaf)
	if have == nil {
		return c, fmt.Errorf("%w: stored as %s", ErrUnsupported, leaf.Type())
	}
	if have.Logical == logicalDecimal || t.Logical == logicalDecimal {
		return c.decimal(have, leaf, t)
	}
	target := t
	if t.Kind == avro.Enum {
		target = &avro.Type{Kind: avro.String}
	}
	if !avro.Fits(have, target) {
		return c, fmt.Errorf("%w: %s in the file cannot be read as %s", avro.ErrSchema, have, t)
	}
	switch t.Kind {
	case avro.Boolean:
		c.op = opBoolean
	case avro.Int:
		c.op = opInt
	case avro.Long:
		c.op = map[avro.Kind]op{avro.Int: opLongFromInt, avro.Long: opLong}[have.Kind]
	case avro.Float:
		c.op = map[avro.Kind]op{avro.Int: opFloatFromInt, avro.Long: opFloatFromLong, avro.Float: opFloat}[have.Kind]
	case avro.Double:
		c.op = map[avro.Kind]op{avro.Int: opDoubleFromInt, avro.Long: opDoubleFromLong, avro.Float: opDoubleFromFloat, avro.Double: opDouble}[have.Kind]
	case avro.String, avro.Enum:
		c.op = opString
	default:
		c.op = opBytes
	}
	return c, nil
}

func (c conversion) decimal(have *avro.Type, leaf *parquet.Column, t *avro.Type) (conversion, error) {
	if have.Logical != t.Logical || have.Scale != t.Scale {
		return c, fmt.Errorf("%w: %s in the file cannot be read as %s", avro.ErrSchema, have, t)
	}
	c.op = opDecimalFromBytes
	if k := leaf.Type().Kind(); k == parquet.Int32 || k == parquet.Int64 {
		c.op = opDecimalFromInt
	}
	return c, nil
}

// leafType is the Avro type that a leaf's values have, nil when there is none.
func leafType(leaf *parquet.Column) *avro.Type {
	t := &avro.Type{}
	switch leaf.Type().Kind() {
	case parquet.Boolean:
		t.Kind = avro.Boolean
	case parquet.Int32:
		t.Kind = avro.Int
	case parquet.Int64:
		t.Kind = avro.Long
	case parquet.Float:
		t.Kind = avro.Float
	case parquet.Double:
		t.Kind = avro.Double
	case parquet.ByteArray:
		t.Kind = avro.Bytes
	case parquet.FixedLenByteArray:
		t.Kind, t.Size = avro.Fixed, leaf.Type().Length()
	default:
		return nil
	}
	if l := leaf.Type().LogicalType(); l != nil {
		return withLogical(t, l)
	}
	return t
}

func withLogical(t *avro.Type, l *format.LogicalType) *avro.Type {
	switch v := l.Value.(type) {
	case *format.DecimalType:
		t.Logical, t.Precision, t.Scale = logicalDecimal, int(v.Precision), int(v.Scale)
	case *format.DateType:
		t.Logical = logicalDate
	case *format.TimestampType:
		t.Logical = timeName(v.Unit, "timestamp")
		if !v.IsAdjustedToUTC {
			t.Logical = "local-" + t.Logical
		}
	case *format.TimeType:
		t.Logical = timeName(v.Unit, "time")
	case *format.IntType:
		if !v.IsSigned {
			return nil
		}
	}
	return t
}

func timeName(u format.TimeUnit, kind string) string {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return kind + "-millis"
	case *format.MicroSeconds:
		return kind + "-micros"
	}
	return kind + "-nanos"
}

// value converts a value that is not null. It shares the value's memory.
func (c *conversion) value(v *parquet.Value) (hudi.Value, error) {
	switch c.op {
	case opBoolean:
		return hudi.Boolean(v.Boolean()), nil
	case opInt:
		return hudi.Int(v.Int32()), nil
	case opLong:
		return hudi.Long(v.Int64()), nil
	case opLongFromInt:
		return hudi.Long(int64(v.Int32())), nil
	case opFloat:
		return hudi.Float(v.Float()), nil
	case opFloatFromInt:
		return hudi.Float(float32(v.Int32())), nil
	case opFloatFromLong:
		return hudi.Float(float32(v.Int64())), nil
	case opDouble:
		return hudi.Double(v.Double()), nil
	case opDoubleFromInt:
		return hudi.Double(float64(v.Int32())), nil
	case opDoubleFromLong:
		return hudi.Double(float64(v.Int64())), nil
	case opDoubleFromFloat:
		return hudi.Double(float64(v.Float())), nil
	case opString:
		return hudi.StringOf(v.ByteArray()), nil
	case opBytes:
		return hudi.Bytes(v.ByteArray()), nil
	case opDecimalFromInt:
		n := v.Int64()
		if v.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		b := bigEndian(n)
		if c.size == 0 {
			return hudi.Bytes(b), nil
		}
		b, err := fitDecimal(b, c.size)
		return hudi.Bytes(b), wrapDecimal(err)
	case opDecimalFromBytes:
		b := v.ByteArray()
		if c.size > 0 {
			var err error
			if b, err = fitDecimal(b, c.size); err != nil {
				return hudi.Value{}, wrapDecimal(err)
			}
		}
		return hudi.Bytes(b), nil
	}
	return hudi.Value{}, fmt.Errorf("%w: conversion %s", ErrUnsupported, strconv.Itoa(int(c.op)))
}

func wrapDecimal(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", avro.ErrSchema, err)
}

// bigEndian is the shortest two's complement form of n.
func bigEndian(n int64) []byte {
	const word = 64
	size := (word-bits.LeadingZeros64(uint64(n^(n>>(word-1)))))/8 + 1
	b := make([]byte, size)
	for i := range b {
		b[size-1-i] = byte(n >> (8 * i))
	}
	return b
}

// appendValue appends a value as Avro has it.
func (c *conversion) appendValue(dst []byte, v *parquet.Value) ([]byte, error) {
	cell, err := c.value(v)
	if err != nil {
		return dst, err
	}
	switch cell.Kind() {
	case hudi.KindBoolean:
		if cell.Boolean() {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case hudi.KindInt, hudi.KindLong:
		return avro.AppendLong(dst, cell.Long()), nil
	case hudi.KindFloat:
		return avro.AppendFloat(dst, cell.Float()), nil
	case hudi.KindDouble:
		return avro.AppendDouble(dst, cell.Double()), nil
	case hudi.KindBytes:
		if c.size > 0 {
			if len(cell.Text()) != c.size {
				return dst, fmt.Errorf("%w: %d bytes in a fixed of %d", ErrFormat, len(cell.Text()), c.size)
			}
			return append(dst, cell.Text()...), nil
		}
	case hudi.KindString:
		for i, s := range c.symbols {
			if s == cell.Text() {
				return avro.AppendLong(dst, int64(i)), nil
			}
		}
		if c.symbols != nil {
			return dst, fmt.Errorf("%w: %q is no symbol of the enum", avro.ErrSchema, cell.Text())
		}
	default:
	}
	return append(avro.AppendLong(dst, int64(len(cell.Text()))), cell.Text()...), nil
}
