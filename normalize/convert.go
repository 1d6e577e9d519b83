package normalize

import (
	"bytes"
	"math"
	"math/big"
	"strconv"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// target is a column that values of one place in documents go into.
type target struct {
	column int
	fit    fit
	// steps is the place, path its text; whole says that it is a field.
	path  string
	whole bool
	// moments reads a timestamp or date, shown writes one; precision, scale and
	// size are a decimal's.
	moments, shown         *moments
	precision, scale, size int
	// conflict is the policy for values that do not fit, beside the columns that
	// take those.
	conflict string
	beside   *beside
	// shape is a nested column's type; pending are its values in the batch.
	shape   *shape
	pending []nestedCell
	// required stops the run when a live document has no value.
	required bool
}

// beside are the columns beside another one, by the fit of what they take.
type beside struct {
	// column is the place of a column that the table has, waiting that of a field
	// which will get one at the end of the batch; -1 for none.
	column, waiting [fits]int
}

func newBeside() *beside {
	b := &beside{}
	for i := range b.column {
		b.column[i], b.waiting[i] = -1, -1
	}
	return b
}

// fitted is a value as its column holds it; false when the column cannot hold
// exactly what the document says.
func (n *Normalizer) fitted(g *target, body []byte, t *token) (hudi.Value, bool) {
	switch g.fit {
	case fitBoolean:
		return hudi.Boolean(t.kind == tokenTrue), t.kind == tokenTrue || t.kind == tokenFalse
	case fitLong:
		return hudi.Long(t.long), t.kind == tokenLong
	case fitInt:
		return hudi.Int(int32(t.long)), t.kind == tokenLong && t.long >= math.MinInt32 && t.long <= math.MaxInt32
	case fitDouble:
		return double(body, t)
	case fitText:
		if t.kind == tokenString || t.kind == tokenEscaped {
			return n.str(body, t), true
		}
	case fitJSON:
		if t.kind == tokenComposite {
			return hudi.StringOf(body[t.start:t.end]), true
		}
	case fitAny:
		return hudi.StringOf(body[t.start:t.end]), true
	case fitMixed:
		return n.str(body, t), true
	case fitTimestamp:
		us, ok := g.moments.micros(n, body, t)
		return hudi.Long(us), ok
	case fitDate:
		day, ok := g.moments.day(n, t)
		return hudi.Int(day), ok
	case fitDecimal:
		return n.fixed(g, body, t)
	default:
	}
	return hudi.Value{}, false
}

// fixed is a number, or a string that is one, as a decimal's big-endian two's
// complement of fixed size.
func (n *Normalizer) fixed(g *target, body []byte, t *token) (hudi.Value, bool) {
	text := body[t.start:t.end]
	switch t.kind {
	case tokenLong, tokenBig, tokenFloat:
	case tokenString:
		if text = t.text(body); !isNumber(text) {
			return hudi.Value{}, false
		}
	default:
		return hudi.Value{}, false
	}
	var buf [64]byte
	digits, exp := decimal(buf[:0], text)
	if len(digits) == 0 {
		return hudi.Bytes(make([]byte, g.size)), true
	}
	zeros := exp - len(digits) + g.scale
	if zeros < 0 || exp+g.scale > g.precision {
		return hudi.Value{}, false
	}
	v, ok := new(big.Int).SetString(shared(append(digits, bytes.Repeat([]byte{'0'}, zeros)...)), 10)
	if !ok {
		return hudi.Value{}, false
	}
	if text[0] == '-' {
		// Two's complement of g.size bytes.
		v.Sub(new(big.Int).Lsh(big.NewInt(1), uint(g.size)*8), v)
	}
	return hudi.Bytes(v.FillBytes(make([]byte, g.size))), true
}

// isNumber says whether a text is a JSON number.
func isNumber(text []byte) bool {
	s := scanner{data: text}
	var t token
	s.number(&t)
	return t.end == len(text) && t.end > 0
}

func double(body []byte, t *token) (hudi.Value, bool) {
	switch t.kind {
	case tokenLong:
		return hudi.Double(float64(t.long)), t.long >= -maxExactLong && t.long <= maxExactLong
	case tokenFloat:
		d, ok := exactDouble(body[t.start:t.end])
		return hudi.Double(d), ok
	default:
		return hudi.Value{}, false
	}
}

// str is a string's text, without a copy when there is nothing to decode, or
// another value's JSON text.
func (n *Normalizer) str(body []byte, t *token) hudi.Value {
	switch t.kind {
	case tokenString:
		return hudi.StringOf(t.text(body))
	case tokenEscaped:
		return hudi.StringOf(n.arena.unescaped(t.text(body)))
	default:
		return hudi.StringOf(body[t.start:t.end])
	}
}

// appendCell writes a cell as the JSON text that it stands for when nothing else
// is known: what Rebuild gives.
func appendCell(dst []byte, g *target, v hudi.Value) []byte {
	switch g.fit {
	case fitList, fitStruct:
		dst, _ = appendNested(dst, g.shape, v.Raw())
		return dst
	case fitBoolean:
		return strconv.AppendBool(dst, v.Boolean())
	case fitLong, fitInt:
		return strconv.AppendInt(dst, v.Long(), 10)
	case fitDouble:
		return appendNumber(dst, v.Double())
	case fitJSON, fitAny:
		return append(dst, v.Text()...)
	case fitMixed:
		if isValue(v.Raw()) {
			return append(dst, v.Text()...)
		}
		return appendQuoted(dst, v.Text())
	case fitTimestamp, fitDate:
		us := v.Long()
		if g.fit == fitDate {
			us *= daySeconds * 1_000_000
		}
		text := g.shown.append(nil, us)
		if f := g.shown.format; f == FormatSeconds || f == FormatMillis {
			return append(dst, text...)
		}
		return appendQuoted(dst, string(text))
	case fitDecimal:
		return appendDecimal(dst, v.Raw(), g.scale)
	default:
		return appendQuoted(dst, v.Text())
	}
}

// isValue says whether a text is a JSON value other than a string.
func isValue(text []byte) bool {
	s := scanner{data: text}
	var t token
	s.value(0, &t)
	return t.end == len(text) && t.end > 0 && t.kind != tokenString && t.kind != tokenEscaped
}

// appendNumber writes a double as CouchDB does, but an integral one as an
// integer as long as that says as much: so do programs that know one kind of
// numbers alone.
func appendNumber(dst []byte, f float64) []byte {
	const small, large = 1e-6, 1e21
	a := math.Abs(f)
	switch {
	case f == 0 && math.Signbit(f):
		return append(dst, "-0.0"...)
	case f == math.Trunc(f) && a <= maxExactLong:
		return strconv.AppendInt(dst, int64(f), 10)
	case a < small || a >= large:
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		if l := len(dst); dst[l-2] == '0' && (dst[l-3] == '-' || dst[l-3] == '+') {
			dst[l-2] = dst[l-1] // e-7, not e-07
			dst = dst[:l-1]
		}
		return dst
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendDecimal writes an unscaled big-endian two's complement integer with the
// point put in, and no zeros behind it.
func appendDecimal(dst, unscaled []byte, scale int) []byte {
	v := new(big.Int).SetBytes(unscaled)
	if len(unscaled) > 0 && unscaled[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(len(unscaled))*8))
		dst = append(dst, '-')
		v.Neg(v)
	}
	text := v.Append(nil, 10)
	for len(text) <= scale {
		text = append([]byte{'0'}, text...)
	}
	point := len(text) - scale
	dst = append(dst, text[:point]...)
	if fraction := bytes.TrimRight(text[point:], "0"); len(fraction) > 0 {
		dst = append(append(dst, '.'), fraction...)
	}
	return dst
}
