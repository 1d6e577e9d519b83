package avro

import (
	"encoding/binary"
	"fmt"
	"math"
)

// maxDepth bounds the nesting of a datum whose type holds itself.
const maxDepth = 200

// maxEmptyItems bounds the items of an array whose items take no bytes: no
// other bound comes from the length of the data.
const maxEmptyItems = 1 << 20

// Skip takes one datum of type t off b.
func Skip(t *Type, b []byte) (rest []byte, err error) { return skip(t, b, 0) }

func skip(t *Type, b []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrData, maxDepth)
	}
	switch t.Kind {
	case Record:
		var err error
		for i := range t.Fields {
			if b, err = skip(t.Fields[i].Type, b, depth+1); err != nil {
				return nil, err
			}
		}
		return b, nil
	case Array, Map:
		return items(t, b, func(b []byte) ([]byte, error) { return skip(t.Item, b, depth+1) })
	case Union:
		i, b, err := ReadBranch(t, b)
		if err != nil {
			return nil, err
		}
		return skip(t.Branches[i], b, depth+1)
	default:
	}
	n, err := scalarSize(t, b)
	if err != nil {
		return nil, err
	}
	return b[n:], nil
}

// ReadBranch takes the branch index of a union off b.
func ReadBranch(t *Type, b []byte) (int, []byte, error) {
	i, n := ReadLong(b)
	if n == 0 || i < 0 || i >= int64(len(t.Branches)) {
		return 0, nil, fmt.Errorf("%w: branch %d of %d", ErrData, i, len(t.Branches))
	}
	return int(i), b[n:], nil
}

// scalarSize is the number of bytes of a datum that is no composite.
func scalarSize(t *Type, b []byte) (int, error) {
	n := 0
	switch t.Kind {
	case Null:
	case Boolean:
		n = 1
		if len(b) > 0 && b[0] > 1 {
			return 0, fmt.Errorf("%w: boolean %d", ErrData, b[0])
		}
	case Int, Enum:
		v, size := ReadLong(b)
		n = size
		if size == 0 || v < math.MinInt32 || v > math.MaxInt32 || (t.Kind == Enum && (v < 0 || v >= int64(len(t.Symbols)))) {
			return 0, fmt.Errorf("%w: integer", ErrData)
		}
	case Long:
		if _, n = ReadLong(b); n == 0 {
			return 0, fmt.Errorf("%w: integer", ErrData)
		}
	case Float:
		n = 4
	case Double:
		n = 8
	case Fixed:
		n = t.Size
	case String, Bytes:
		v, size := ReadLong(b)
		if size == 0 || v < 0 || v > int64(len(b)-size) {
			return 0, fmt.Errorf("%w: length %d, %d bytes left", ErrData, v, len(b)-size)
		}
		n = size + int(v)
	default:
		return 0, fmt.Errorf("%w: no scalar", ErrSchema)
	}
	if n > len(b) {
		return 0, fmt.Errorf("%w: cut short", ErrData)
	}
	return n, nil
}

// ReadText takes a string or bytes off b; text shares its memory.
func ReadText(b []byte) (text, rest []byte, err error) {
	v, size := ReadLong(b)
	if size == 0 || v < 0 || v > int64(len(b)-size) {
		return nil, nil, fmt.Errorf("%w: length %d, %d bytes left", ErrData, v, len(b)-size)
	}
	end := size + int(v)
	return b[size:end:end], b[end:], nil
}

// ReadBlock takes the head of a block of an array's or a map's items off b: their
// number, 0 at the end.
func ReadBlock(t *Type, b []byte) (int64, []byte, error) {
	count, n := ReadLong(b)
	if n == 0 {
		return 0, nil, fmt.Errorf("%w: count of items", ErrData)
	}
	b = b[n:]
	if count < 0 {
		// A negative count stands before the size of the block in bytes.
		count = -count
		size, n := ReadLong(b)
		if n == 0 || size < 0 || size > int64(len(b)-n) {
			return 0, nil, fmt.Errorf("%w: size of items", ErrData)
		}
		b = b[n:]
	}
	if count < 0 || (count > int64(len(b)) && (count > maxEmptyItems || t.Kind == Map || !mayBeEmpty(t.Item, 0))) {
		return 0, nil, fmt.Errorf("%w: %d items in %d bytes", ErrData, count, len(b))
	}
	return count, b, nil
}

// mayBeEmpty says whether a datum of t can take no bytes.
func mayBeEmpty(t *Type, depth int) bool {
	switch t.Kind {
	case Null:
		return true
	case Fixed:
		return t.Size == 0
	case Record:
		for i := range t.Fields {
			if depth > maxDepth || !mayBeEmpty(t.Fields[i].Type, depth+1) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// items calls item at each item of an array, or at each value of a map after
// skipping its key.
func items(t *Type, b []byte, item func([]byte) ([]byte, error)) ([]byte, error) {
	for {
		count, rest, err := ReadBlock(t, b)
		if err != nil {
			return nil, err
		}
		b = rest
		if count == 0 {
			return b, nil
		}
		for range count {
			if t.Kind == Map {
				if _, b, err = ReadText(b); err != nil {
					return nil, err
				}
			}
			if b, err = item(b); err != nil {
				return nil, err
			}
		}
	}
}

func float32At(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func float64At(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

// AppendFloat appends a float.
func AppendFloat(dst []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
}

// AppendDouble appends a double.
func AppendDouble(dst []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}

// ReadFloat is the float at the start of b, false when b is too short.
func ReadFloat(b []byte) (float32, bool) {
	if len(b) < 4 {
		return 0, false
	}
	return float32At(b), true
}

// ReadDouble is the double at the start of b, false when b is too short.
func ReadDouble(b []byte) (float64, bool) {
	if len(b) < 8 {
		return 0, false
	}
	return float64At(b), true
}
