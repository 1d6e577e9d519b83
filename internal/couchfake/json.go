package couchfake

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of what the server takes: an integer of more digits than a double has is refused, and nesting is bounded so that a hostile body cannot exhaust the stack.
const (
	maxIntegerDigits = 308
	maxNesting       = 500_000
)

// member is one name and value of an object, as spans of the normalised text. The key span includes its quotes.
type member struct{ keyStart, keyEnd, valStart, valEnd int }

// normalizer rewrites JSON the way the server stores and serves it: no blanks, escapes only where they must be, integers
// exact, floats as the shortest double, the last of two equal keys kept at the last position.
type normalizer struct {
	src     []byte
	pos     int
	out     []byte
	depth   int
	members []member // a stack: the members of all objects that are open
	top     []member // the members of the outermost object
}

// normalizeJSON returns the stored form of src. The members of the outermost object, if there is one, come as spans of the result.
func normalizeJSON(src []byte) ([]byte, []member, error) { return new(normalizer).normalize(src) }

// normalize appends to what the output holds. The members are valid until the next call.
func (n *normalizer) normalize(src []byte) ([]byte, []member, error) {
	n.src, n.pos, n.depth, n.members, n.top = src, 0, 0, n.members[:0], nil
	n.blanks()
	if err := n.value(); err != nil {
		return nil, nil, err
	}
	n.blanks()
	if n.pos != len(n.src) {
		return nil, nil, errInvalidJSON
	}
	return n.out, n.top, nil
}

func (n *normalizer) blanks() {
	for n.pos < len(n.src) {
		switch n.src[n.pos] {
		case ' ', '\t', '\n', '\r':
			n.pos++
		default:
			return
		}
	}
}

// peek is the next byte, or zero at the end: a raw zero byte is never legal between values.
func (n *normalizer) peek() byte {
	if n.pos < len(n.src) {
		return n.src[n.pos]
	}
	return 0
}

func (n *normalizer) value() error {
	switch c := n.peek(); c {
	case '{':
		return n.object()
	case '[':
		return n.array()
	case '"':
		return n.str()
	case 't':
		return n.word("true")
	case 'f':
		return n.word("false")
	case 'n':
		return n.word("null")
	default:
		return n.number()
	}
}

func (n *normalizer) word(w string) error {
	if len(n.src)-n.pos < len(w) || string(n.src[n.pos:n.pos+len(w)]) != w {
		return errInvalidJSON
	}
	n.out = append(n.out, w...)
	n.pos += len(w)
	return nil
}

func (n *normalizer) enter(c byte) error {
	if n.depth++; n.depth > maxNesting {
		return errInvalidJSON
	}
	n.pos++
	n.out = append(n.out, c)
	n.blanks()
	return nil
}

// next reads what follows an element: a comma, after which another one must come, or the end of the container.
func (n *normalizer) next(closing byte) (more bool, err error) {
	n.blanks()
	switch n.peek() {
	case ',':
		n.pos++
		n.out = append(n.out, ',')
		n.blanks()
		return true, nil
	case closing:
		n.close(closing)
		return false, nil
	}
	return false, errInvalidJSON
}

func (n *normalizer) close(c byte) {
	n.pos++
	n.depth--
	n.out = append(n.out, c)
}

func (n *normalizer) array() error {
	if err := n.enter('['); err != nil {
		return err
	}
	if n.peek() == ']' {
		n.close(']')
		return nil
	}
	for more := true; more; {
		if err := n.value(); err != nil {
			return err
		}
		var err error
		if more, err = n.next(']'); err != nil {
			return err
		}
	}
	return nil
}

func (n *normalizer) object() error {
	outermost := n.depth == 0
	base := len(n.members)
	if err := n.enter('{'); err != nil {
		return err
	}
	if n.peek() == '}' {
		n.close('}')
		return nil
	}
	var seen map[string]int
	for more := true; more; {
		var err error
		if seen, err = n.member(base, seen); err != nil {
			return err
		}
		if more, err = n.next('}'); err != nil {
			return err
		}
	}
	if outermost {
		n.top = n.members[base:] // nothing is pushed any more
	}
	n.members = n.members[:base]
	return nil
}

// wideObject is the number of members from which keys are looked up in a map.
const wideObject = 24

func (n *normalizer) member(base int, seen map[string]int) (map[string]int, error) {
	if n.peek() != '"' {
		return seen, errInvalidJSON
	}
	m := member{keyStart: len(n.out)}
	if err := n.str(); err != nil {
		return seen, err
	}
	m.keyEnd = len(n.out)
	n.blanks()
	if n.peek() != ':' {
		return seen, errInvalidJSON
	}
	n.pos++
	if seen == nil && len(n.members)-base >= wideObject {
		seen = n.keys(base)
	}
	if at := n.find(base, m, seen); at >= 0 {
		gone := n.drop(at)
		m.keyStart -= gone
		m.keyEnd -= gone
		if seen != nil {
			seen = n.keys(base)
		}
	}
	n.out = append(n.out, ':')
	n.blanks()
	m.valStart = len(n.out)
	if err := n.value(); err != nil {
		return seen, err
	}
	m.valEnd = len(n.out)
	n.members = append(n.members, m)
	if seen != nil {
		seen[string(n.out[m.keyStart:m.keyEnd])] = len(n.members) - 1
	}
	return seen, nil
}

// keys indexes the members of the object that begins at base.
func (n *normalizer) keys(base int) map[string]int {
	seen := make(map[string]int, 2*wideObject)
	for i := base; i < len(n.members); i++ {
		m := n.members[i]
		seen[string(n.out[m.keyStart:m.keyEnd])] = i
	}
	return seen
}

// find looks for an earlier member with the key of m.
func (n *normalizer) find(base int, m member, seen map[string]int) int {
	key := n.out[m.keyStart:m.keyEnd]
	if seen != nil {
		if at, ok := seen[string(key)]; ok {
			return at
		}
		return -1
	}
	for i := base; i < len(n.members); i++ {
		o := n.members[i]
		if o.keyEnd-o.keyStart == len(key) && string(n.out[o.keyStart:o.keyEnd]) == string(key) {
			return i
		}
	}
	return -1
}

// drop removes member at and the comma behind it from the output and says how many bytes went.
func (n *normalizer) drop(at int) int {
	start, end := n.members[at].keyStart, n.members[at].valEnd+1
	gone := end - start
	n.out = append(n.out[:start], n.out[end:]...)
	n.members = append(n.members[:at], n.members[at+1:]...)
	for i := at; i < len(n.members); i++ {
		m := &n.members[i]
		m.keyStart -= gone
		m.keyEnd -= gone
		m.valStart -= gone
		m.valEnd -= gone
	}
	return gone
}

func (n *normalizer) str() error {
	n.pos++
	n.out = append(n.out, '"')
	for {
		start := n.pos
		for n.pos < len(n.src) && plain[n.src[n.pos]] {
			n.pos++
		}
		n.out = append(n.out, n.src[start:n.pos]...)
		if n.pos >= len(n.src) {
			return errInvalidJSON
		}
		switch c := n.src[n.pos]; {
		case c == '"':
			n.pos++
			n.out = append(n.out, '"')
			return nil
		case c == '\\':
			if err := n.escape(); err != nil {
				return err
			}
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(n.src[n.pos:])
			if r == utf8.RuneError && size == 1 {
				return errInvalidJSON
			}
			n.out = append(n.out, n.src[n.pos:n.pos+size]...)
			n.pos += size
		default:
			return errInvalidJSON
		}
	}
}

// plain marks the bytes that stand for themselves within a string and need no look at their neighbours.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

func (n *normalizer) escape() error {
	if n.pos+1 >= len(n.src) {
		return errInvalidJSON
	}
	c := n.src[n.pos+1]
	n.pos += 2
	switch c {
	case '"', '\\', '/':
		n.out = appendQuoted(n.out, rune(c))
	case 'b':
		n.out = append(n.out, `\b`...)
	case 'f':
		n.out = append(n.out, `\f`...)
	case 'n':
		n.out = append(n.out, `\n`...)
	case 'r':
		n.out = append(n.out, `\r`...)
	case 't':
		n.out = append(n.out, `\t`...)
	case 'u':
		r, err := n.unicode()
		if err != nil {
			return err
		}
		n.out = appendQuoted(n.out, r)
	default:
		return errInvalidJSON
	}
	return nil
}

// unicode reads the digits behind \u, and a second escape when the first one is half of a pair.
func (n *normalizer) unicode() (rune, error) {
	r, err := n.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if n.pos+1 >= len(n.src) || n.src[n.pos] != '\\' || n.src[n.pos+1] != 'u' {
		return 0, errInvalidJSON
	}
	n.pos += 2
	low, err := n.hex4()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, errInvalidJSON
	}
	return r, nil
}

func (n *normalizer) hex4() (rune, error) {
	if n.pos+4 > len(n.src) {
		return 0, errInvalidJSON
	}
	v, err := strconv.ParseUint(string(n.src[n.pos:n.pos+4]), 16, 16)
	if err != nil {
		return 0, errInvalidJSON
	}
	n.pos += 4
	return rune(v), nil
}

// appendQuoted appends one character of a string as the server escapes it.
func appendQuoted(dst []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r >= 0x20:
		return utf8.AppendRune(dst, r)
	case r == '\b':
		return append(dst, `\b`...)
	case r == '\f':
		return append(dst, `\f`...)
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r == '\t':
		return append(dst, `\t`...)
	}
	const digits = "0123456789ABCDEF"
	return append(dst, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
}

// appendString appends s, which is valid UTF-8, as a JSON string.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		if c := s[i]; c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendQuoted(dst, rune(s[i]))
		start = i + 1
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// number checks the grammar, then keeps an integer and rewrites a float.
func (n *normalizer) number() error {
	start := n.pos
	if n.peek() == '-' {
		n.pos++
	}
	whole := n.digits()
	if whole == 0 || whole > 1 && n.src[n.pos-whole] == '0' {
		return errInvalidJSON
	}
	float := false
	if n.peek() == '.' {
		n.pos++
		float = true
		if n.digits() == 0 {
			return errInvalidJSON
		}
	}
	if c := n.peek(); c == 'e' || c == 'E' {
		n.pos++
		float = true
		if c := n.peek(); c == '+' || c == '-' {
			n.pos++
		}
		if n.digits() == 0 {
			return errInvalidJSON
		}
	}
	text := n.src[start:n.pos]
	if !float {
		return n.integer(text, whole)
	}
	return n.float(text)
}

func (n *normalizer) digits() int {
	start := n.pos
	for n.pos < len(n.src) && n.src[n.pos] >= '0' && n.src[n.pos] <= '9' {
		n.pos++
	}
	return n.pos - start
}

func (n *normalizer) integer(text []byte, digits int) error {
	if digits > maxIntegerDigits {
		return errBadArith
	}
	if string(text) == "-0" {
		text = text[1:]
	}
	n.out = append(n.out, text...)
	return nil
}

func (n *normalizer) float(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if math.IsInf(f, 0) {
		return errInvalidJSON
	}
	if err != nil || math.Abs(f) < smallestNormal {
		f = 0 // what is too small for a normal double comes back as zero
	}
	n.out = appendFloat(n.out, f)
	return nil
}

// smallestNormal is the least positive double that is not denormal.
const smallestNormal = 0x1p-1022

// appendFloat writes a double with the fewest digits that give it back, always with a point or an exponent.
func appendFloat(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, "0.0"...)
	}
	if a := math.Abs(f); a < 1e-6 || a >= 1e21 {
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		if l := len(dst); dst[l-2] == '0' && (dst[l-3] == '-' || dst[l-3] == '+') {
			dst[l-2] = dst[l-1] // e-07 is e-7 here
			dst = dst[:l-1]
		}
		return dst
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	for _, c := range dst[start:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}
