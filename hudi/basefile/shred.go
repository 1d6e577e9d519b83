package basefile

import (
	"errors"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// columns are the values of all leaf columns of a batch of rows.
type columns [][]parquet.Value

// shredder takes a composite datum apart into leaf columns with repetition and
// definition levels. It is a tree of the same shape as the type.
type shredder struct {
	typ *avro.Type
	// null is the branch of null in a union of two, -1 for any other type.
	null int64
	sub  []*shredder
	// first and last+1 bound the leaf columns below.
	first, last int
	// rep and def are the levels of a repeated group, def that of an optional
	// or a leaf.
	rep, def int
	// size is that of a fixed-length leaf.
	size int
}

// newShredder numbers leaves from *next on.
func newShredder(t *avro.Type, rep, def int, next *int) *shredder {
	s := &shredder{typ: t, null: -1, first: *next, rep: rep, def: def}
	if inner, null, ok := t.Optional(); ok {
		s.null = int64(null)
		s.def = def + 1
		s.sub = []*shredder{newShredder(inner, rep, def+1, next)}
		s.last = *next
		return s
	}
	switch t.Kind {
	case avro.Record:
		for i := range t.Fields {
			s.sub = append(s.sub, newShredder(t.Fields[i].Type, rep, def, next))
		}
	case avro.Array, avro.Map:
		s.rep, s.def = rep+1, def+1
		if t.Kind == avro.Map {
			s.sub = append(s.sub, newShredder(&avro.Type{Kind: avro.String}, s.rep, s.def, next))
		}
		s.sub = append(s.sub, newShredder(t.Item, s.rep, s.def, next))
	default:
		*next++
		if t.Kind == avro.Fixed {
			s.size = t.Size
		} else if t.Logical == logicalDecimal {
			s.size = decimalBytes(t.Precision)
		}
	}
	s.last = *next
	return s
}

// absent puts a null of the given levels into all leaves below.
func (s *shredder) absent(c columns, rep, def int) {
	for i := s.first; i < s.last; i++ {
		c[i] = append(c[i], parquet.Value{}.Level(rep, def, i))
	}
}

// put takes the datum at the start of b apart; rep is the repetition level of
// its first value.
func (s *shredder) put(c columns, b []byte, rep int) (rest []byte, err error) {
	switch {
	case s.null >= 0:
		branch, b, err := avro.ReadBranch(s.typ, b)
		if err != nil {
			return nil, err
		}
		if int64(branch) == s.null {
			s.absent(c, rep, s.def-1)
			return b, nil
		}
		return s.sub[0].put(c, b, rep)
	case s.typ.Kind == avro.Record:
		for _, f := range s.sub {
			if b, err = f.put(c, b, rep); err != nil {
				return nil, err
			}
		}
		return b, nil
	case s.typ.Kind == avro.Array || s.typ.Kind == avro.Map:
		return s.items(c, b, rep)
	}
	return s.leaf(c, b, rep)
}

func (s *shredder) items(c columns, b []byte, rep int) ([]byte, error) {
	empty := true
	for {
		count, rest, err := avro.ReadBlock(s.typ, b)
		if err != nil {
			return nil, err
		}
		b = rest
		if count == 0 {
			break
		}
		for range count {
			for _, part := range s.sub {
				if b, err = part.put(c, b, rep); err != nil {
					return nil, err
				}
			}
			empty, rep = false, s.rep
		}
	}
	if empty {
		s.absent(c, rep, s.def-1)
	}
	return b, nil
}

var errLeaf = errors.New("value cut short or out of range")

func (s *shredder) leaf(c columns, b []byte, rep int) ([]byte, error) {
	var v parquet.Value
	switch s.typ.Kind {
	case avro.Boolean:
		if len(b) == 0 || b[0] > 1 {
			return nil, errLeaf
		}
		v, b = parquet.BooleanValue(b[0] == 1), b[1:]
	case avro.Int, avro.Enum, avro.Long:
		n, size := avro.ReadLong(b)
		if size == 0 {
			return nil, errLeaf
		}
		b = b[size:]
		switch {
		case s.typ.Kind == avro.Long:
			v = parquet.Int64Value(n)
		case s.typ.Kind == avro.Int && n >= math.MinInt32 && n <= math.MaxInt32:
			v = parquet.Int32Value(int32(n))
		case s.typ.Kind == avro.Enum && n >= 0 && n < int64(len(s.typ.Symbols)):
			v = parquet.ByteArrayValue([]byte(s.typ.Symbols[n]))
		default:
			return nil, errLeaf
		}
	case avro.Float:
		f, ok := avro.ReadFloat(b)
		if !ok {
			return nil, errLeaf
		}
		v, b = parquet.FloatValue(f), b[4:]
	case avro.Double:
		f, ok := avro.ReadDouble(b)
		if !ok {
			return nil, errLeaf
		}
		v, b = parquet.DoubleValue(f), b[8:]
	case avro.Fixed:
		if len(b) < s.size {
			return nil, errLeaf
		}
		v, b = parquet.FixedLenByteArrayValue(b[:s.size]), b[s.size:]
	default:
		text, rest, err := avro.ReadText(b)
		if err != nil {
			return nil, err
		}
		if b = rest; s.size > 0 {
			if text, err = fitDecimal(text, s.size); err != nil {
				return nil, err
			}
			v = parquet.FixedLenByteArrayValue(text)
		} else {
			v = parquet.ByteArrayValue(text)
		}
	}
	c[s.first] = append(c[s.first], v.Level(rep, s.def, s.first))
	return b, nil
}

// fitDecimal extends or shortens a big-endian two's complement integer to size
// bytes; its value must stay.
func fitDecimal(b []byte, size int) ([]byte, error) {
	var sign byte
	if len(b) > 0 && b[0]&0x80 != 0 {
		sign = 0xff
	}
	if len(b) == size {
		return b, nil
	}
	out := make([]byte, size)
	for i := range out {
		out[i] = sign
	}
	drop := max(len(b)-size, 0)
	for _, c := range b[:drop] {
		if c != sign {
			return nil, fmt.Errorf("decimal of %d bytes where %d hold it", len(b), size)
		}
	}
	copy(out[size-len(b)+drop:], b[drop:])
	if (out[0]^sign)&0x80 != 0 {
		return nil, fmt.Errorf("decimal of %d bytes where %d hold it", len(b), size)
	}
	return out, nil
}
