package basefile

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"reflect"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/encoding"

	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// group is a Parquet group whose fields stand in the order given: the library's
// own sorts them by name.
type group struct {
	parquet.Group
	fields []parquet.Field
}

func (g *group) Fields() []parquet.Field { return g.fields }

// field names a node of a group.
type field struct {
	parquet.Node
	name string
}

// Name is the column's name.
func (f *field) Name() string { return f.name }

// Value is of no use here: rows are never Go structs.
func (f *field) Value(reflect.Value) reflect.Value { return reflect.Value{} }

func newGroup(names []string, nodes []parquet.Node) parquet.Node {
	g := &group{Group: parquet.Group{}}
	for i, n := range nodes {
		g.Group[names[i]] = n
		g.fields = append(g.fields, &field{Node: n, name: names[i]})
	}
	return g
}

// logical types, as Avro names them.
const (
	logicalDecimal         = "decimal"
	logicalDate            = "date"
	logicalTimeMillis      = "time-millis"
	logicalTimeMicros      = "time-micros"
	logicalMillis          = "timestamp-millis"
	logicalMicros          = "timestamp-micros"
	logicalLocalMillis     = "local-timestamp-millis"
	logicalLocalMicros     = "local-timestamp-micros"
	listName, elementName  = "list", "element"
	mapName, mapKey, mapOf = "key_value", "key", "value"
)

// nodeOf is the Parquet node of an Avro type; enc is the encoding of its leaves.
func nodeOf(t *avro.Type, enc encoding.Encoding, depth int) (parquet.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrUnsupported, maxDepth)
	}
	if inner, _, ok := t.Optional(); ok {
		n, err := nodeOf(inner, enc, depth+1)
		if err != nil {
			return nil, err
		}
		return parquet.Optional(n), nil
	}
	switch t.Kind {
	case avro.Record:
		var names []string
		var nodes []parquet.Node
		for i := range t.Fields {
			n, err := nodeOf(t.Fields[i].Type, enc, depth+1)
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", t.Fields[i].Name, err)
			}
			names, nodes = append(names, t.Fields[i].Name), append(nodes, n)
		}
		if len(nodes) == 0 {
			return nil, fmt.Errorf("%w: a record without fields", ErrUnsupported)
		}
		return newGroup(names, nodes), nil
	case avro.Array:
		n, err := nodeOf(t.Item, enc, depth+1)
		if err != nil {
			return nil, err
		}
		return parquet.List(n), nil
	case avro.Map:
		n, err := nodeOf(t.Item, enc, depth+1)
		if err != nil {
			return nil, err
		}
		return parquet.Map(parquet.Encoded(parquet.String(), enc), n), nil
	default:
	}
	n, err := leafOf(t)
	if err != nil {
		return nil, err
	}
	if n.Type().Kind() != parquet.FixedLenByteArray {
		n = parquet.Leaf(unsized{n.Type()})
	}
	if e := enc; e != &parquet.Plain && (t.Kind != avro.String && t.Kind != avro.Enum) {
		enc = &parquet.Plain
	}
	return parquet.Encoded(n, enc), nil
}

// unsized is a type whose length is not written into the schema. Parquet has a
// length only for fixed byte arrays, but the library writes one for numbers and
// booleans too, and then Hive's reader refuses the column: "does not contain
// requested field".
type unsized struct{ parquet.Type }

// Length is that of types without one.
func (unsized) Length() int { return 0 }

// maxDepth bounds the nesting of types; Parquet has no recursion.
const maxDepth = 64

func leafOf(t *avro.Type) (parquet.Node, error) {
	switch t.Kind {
	case avro.Boolean:
		return parquet.Leaf(parquet.BooleanType), nil
	case avro.Int:
		switch t.Logical {
		case logicalDate:
			return parquet.Date(), nil
		case logicalTimeMillis:
			return parquet.Time(parquet.Millisecond), nil
		}
		return parquet.Leaf(parquet.Int32Type), nil
	case avro.Long:
		switch t.Logical {
		case logicalMicros:
			return parquet.Timestamp(parquet.Microsecond), nil
		case logicalMillis:
			return parquet.Timestamp(parquet.Millisecond), nil
		case logicalLocalMicros:
			return parquet.TimestampAdjusted(parquet.Microsecond, false), nil
		case logicalLocalMillis:
			return parquet.TimestampAdjusted(parquet.Millisecond, false), nil
		case logicalTimeMicros:
			return parquet.Time(parquet.Microsecond), nil
		}
		return parquet.Leaf(parquet.Int64Type), nil
	case avro.Float:
		return parquet.Leaf(parquet.FloatType), nil
	case avro.Double:
		return parquet.Leaf(parquet.DoubleType), nil
	case avro.String, avro.Enum:
		return parquet.String(), nil
	case avro.Bytes:
		if t.Logical == logicalDecimal {
			return parquet.Decimal(t.Scale, t.Precision, parquet.FixedLenByteArrayType(decimalBytes(t.Precision))), nil
		}
		return parquet.Leaf(parquet.ByteArrayType), nil
	case avro.Fixed:
		if t.Size == 0 {
			break
		}
		if t.Logical == logicalDecimal {
			return parquet.Decimal(t.Scale, t.Precision, parquet.FixedLenByteArrayType(t.Size)), nil
		}
		return parquet.Leaf(parquet.FixedLenByteArrayType(t.Size)), nil
	default:
	}
	return nil, fmt.Errorf("%w: no Parquet type for %s", ErrUnsupported, t)
}

// decimalBytes is the least number of bytes that hold every decimal of that
// many digits.
func decimalBytes(precision int) int {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	// One bit for the sign.
	return int(math.Ceil(float64(limit.BitLen()+1) / 8))
}

// leafPaths are the paths of the columns of scalars at and below a node.
func leafPaths(n parquet.Node, path []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		if n.Leaf() {
			yield(path)
			return
		}
		for _, f := range n.Fields() {
			for p := range leafPaths(f, append(slices.Clone(path), f.Name())) {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// compression is the library's codec.
func (c Codec) compression() (compress.Codec, error) {
	switch c {
	case Snappy:
		return &fastSnappy{parquet.Snappy}, nil
	case Zstd:
		return &parquet.Zstd, nil
	case Gzip:
		return &parquet.Gzip, nil
	case Uncompressed:
		return &parquet.Uncompressed, nil
	}
	return nil, fmt.Errorf("%w: compression %d", ErrUnsupported, c)
}

// fastSnappy is Snappy as other writers have it: the library asks for a better
// ratio, at three times the cost, which is a third of the time of a row.
type fastSnappy struct{ snappy.Codec }

// Encode compresses src into dst's memory.
func (*fastSnappy) Encode(dst, src []byte) ([]byte, error) {
	return s2.EncodeSnappy(dst[:cap(dst)], src), nil
}
