package avro

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// ToJSON shows a datum as compact JSON. Unions are shown by their value alone,
// longs and decimals exactly, bytes as Base64, dates and times as AppendNumber
// has them, NaN and infinities as strings.
func ToJSON(s *Schema, datum []byte) ([]byte, error) {
	dst, rest, err := AppendJSON(nil, s.root, datum)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes too many", ErrData, len(rest))
	}
	return dst, err
}

// AppendJSON is ToJSON of the datum at the start of b.
func AppendJSON(dst []byte, t *Type, b []byte) (out, rest []byte, err error) {
	w := jsonWriter{dst: dst}
	rest, err = w.value(t, b, 0)
	return w.dst, rest, err
}

type jsonWriter struct{ dst []byte }

func (w *jsonWriter) value(t *Type, b []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrData, maxDepth)
	}
	switch t.Kind {
	case Record:
		return w.record(t, b, depth)
	case Array:
		return w.array(t, b, depth)
	case Map:
		return w.object(t, b, depth)
	case Union:
		i, b, err := ReadBranch(t, b)
		if err != nil {
			return nil, err
		}
		return w.value(t.Branches[i], b, depth+1)
	default:
	}
	n, err := scalarSize(t, b)
	if err != nil {
		return nil, err
	}
	return b[n:], w.scalar(t, b[:n])
}

func (w *jsonWriter) record(t *Type, b []byte, depth int) (rest []byte, err error) {
	for i := range t.Fields {
		w.dst = append(w.dst, sep(i, '{'))
		if err := w.text(t.Fields[i].Name); err != nil {
			return nil, err
		}
		w.dst = append(w.dst, ':')
		if b, err = w.value(t.Fields[i].Type, b, depth+1); err != nil {
			return nil, err
		}
	}
	w.close(len(t.Fields), '{', '}')
	return b, nil
}

func (w *jsonWriter) array(t *Type, b []byte, depth int) ([]byte, error) {
	n := 0
	rest, err := items(t, b, func(b []byte) ([]byte, error) {
		w.dst = append(w.dst, sep(n, '['))
		n++
		return w.value(t.Item, b, depth+1)
	})
	w.close(n, '[', ']')
	return rest, err
}

func (w *jsonWriter) object(t *Type, b []byte, depth int) ([]byte, error) {
	n := 0
	for {
		count, rest, err := ReadBlock(t, b)
		if err != nil {
			return nil, err
		}
		b = rest
		if count == 0 {
			w.close(n, '{', '}')
			return b, nil
		}
		for range count {
			key, rest, err := ReadText(b)
			if err != nil {
				return nil, err
			}
			w.dst = append(w.dst, sep(n, '{'))
			n++
			if err := w.text(string(key)); err != nil {
				return nil, err
			}
			w.dst = append(w.dst, ':')
			if b, err = w.value(t.Item, rest, depth+1); err != nil {
				return nil, err
			}
		}
	}
}

func sep(i int, first byte) byte {
	if i == 0 {
		return first
	}
	return ','
}

func (w *jsonWriter) close(n int, first, last byte) {
	if n == 0 {
		w.dst = append(w.dst, first)
	}
	w.dst = append(w.dst, last)
}

func (w *jsonWriter) text(s string) (err error) {
	if w.dst, err = jsontext.AppendQuote(w.dst, s); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	return nil
}

// scalar writes the datum that b is, checked by scalarSize.
func (w *jsonWriter) scalar(t *Type, b []byte) error {
	switch t.Kind {
	case Null:
		w.dst = append(w.dst, "null"...)
	case Boolean:
		w.dst = strconv.AppendBool(w.dst, b[0] == 1)
	case Int, Long:
		v, _ := ReadLong(b)
		w.integer(t, v)
	case Float:
		w.number(float64(float32At(b)), 32)
	case Double:
		w.number(float64At(b), 64)
	case Enum:
		v, _ := ReadLong(b)
		return w.text(t.Symbols[v])
	case String:
		text, _, err := ReadText(b)
		if err != nil {
			return err
		}
		return w.text(string(text))
	case Bytes:
		text, _, err := ReadText(b)
		if err != nil {
			return err
		}
		w.bytes(t, text)
	case Fixed:
		w.bytes(t, b)
	default:
		return fmt.Errorf("%w: no scalar", ErrSchema)
	}
	return nil
}

func (w *jsonWriter) integer(t *Type, n int64) {
	start := len(w.dst)
	w.dst = append(w.dst, '"')
	var moment bool
	if w.dst, moment = AppendNumber(w.dst, t, n); moment {
		w.dst = append(w.dst, '"')
		return
	}
	w.dst = append(w.dst[:start], w.dst[start+1:]...)
}

func (w *jsonWriter) number(f float64, bits int) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.dst = strconv.AppendQuote(w.dst, specialName(f))
		return
	}
	w.dst = strconv.AppendFloat(w.dst, f, 'g', -1, bits)
}

func specialName(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return "NaN"
}

func (w *jsonWriter) bytes(t *Type, b []byte) {
	if t.Logical == logicalDecimal {
		w.dst = AppendDecimal(w.dst, b, t.Scale)
		return
	}
	w.dst = append(w.dst, '"')
	w.dst = base64.StdEncoding.AppendEncode(w.dst, b)
	w.dst = append(w.dst, '"')
}

// AppendDecimal appends the text of a decimal: unscaled is a big-endian two's
// complement integer.
func AppendDecimal(dst, unscaled []byte, scale int) []byte {
	v := new(big.Int).SetBytes(unscaled)
	if len(unscaled) > 0 && unscaled[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(unscaled))))
	}
	if v.Sign() < 0 {
		dst = append(dst, '-')
		v.Neg(v)
	}
	digits := v.String()
	for len(digits) <= scale {
		digits = "0" + digits
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	if scale > 0 {
		dst = append(dst, '.')
		dst = append(dst, digits[len(digits)-scale:]...)
	}
	return dst
}
