package normalize

import (
	"bytes"
	"math"
	"strconv"
)

// maxExactLong is the largest magnitude up to which every integer is a double.
const maxExactLong = 1 << 53

// exactDouble is the double that a number's text stands for. It is false when
// the double would say something else than the text: too large, too small, or
// more digits than a double tells apart. "0.1" is fine (no shorter text means
// the same double), "0.1000000000000000001" is not.
func exactDouble(text []byte) (float64, bool) {
	if f, ok := shortDouble(text); ok {
		return f, true
	}
	f, err := strconv.ParseFloat(shared(text), 64)
	if err != nil {
		return 0, false
	}
	var a, b [64]byte
	digits, exp := decimal(a[:0], text)
	if len(digits) == 0 || f == 0 {
		return f, len(digits) == 0
	}
	// Up to 15 digits, far from the edges of the range, two texts never share
	// a double.
	const safeDigits, safe = 15, 1e290
	if m := math.Abs(f); len(digits) <= safeDigits && m < safe && m > 1/safe {
		return f, true
	}
	shortest, exp2 := decimal(b[:0], strconv.AppendFloat(make([]byte, 0, 32), f, 'e', -1, 64))
	return f, exp == exp2 && bytes.Equal(digits, shortest)
}

// shortDouble is exactDouble for what most numbers are: up to 15 digits with a point
// among them, not all zeros. Their digits and the power of ten are doubles without
// loss, so that the one division rounds as it must.
func shortDouble(text []byte) (float64, bool) {
	const most = 15
	if len(text) > most+2 { // sign and point
		return 0, false
	}
	digits, scale := int64(0), -1
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			digits = digits*10 + int64(c-'0')
			if scale >= 0 {
				scale++
			}
		case c == '.' && scale < 0:
			scale = 0
		case c == '-' && i == 0:
		default:
			return 0, false
		}
	}
	if digits == 0 || digits >= 1e15 || scale < 0 {
		return 0, false
	}
	f := float64(digits) / powersOfTen[scale]
	if text[0] == '-' {
		f = -f
	}
	return f, true
}

var powersOfTen = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17}

// decimal takes a JSON number apart: it stands for 0.DIGITS * 10^exp, digits
// without zeros at either end, appended to dst. The sign is left out.
func decimal(dst, text []byte) (digits []byte, exp int) {
	fraction := false
	for i, c := range text {
		switch {
		case c == '-' || c == '+':
		case c == '.':
			fraction = true
		case c == 'e' || c == 'E':
			e, err := strconv.Atoi(string(text[i+1:]))
			if err != nil {
				return dst, 0 // far out of range: the double is zero or none
			}
			return bytes.TrimRight(dst, "0"), exp + e
		case c == '0' && len(dst) == 0:
			if fraction {
				exp--
			}
		default:
			dst = append(dst, c)
			if !fraction {
				exp++
			}
		}
	}
	return bytes.TrimRight(dst, "0"), exp
}
