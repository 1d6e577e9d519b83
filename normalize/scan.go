package normalize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// errJSON marks a body that is not a JSON object as RFC 8259 has it.
var errJSON = errors.New("document is not valid JSON")

// tokenKind says what a JSON value is, as far as a column cares.
type tokenKind uint8

const (
	tokenNull tokenKind = iota
	tokenFalse
	tokenTrue
	// tokenLong is a number without fraction and exponent that fits 64 bits.
	tokenLong
	// tokenBig is a number without fraction and exponent that does not.
	tokenBig
	// tokenFloat is a number with fraction or exponent, and "-0", which no
	// integer can hold.
	tokenFloat
	// tokenString is a string without escapes: its bytes are its text.
	tokenString
	// tokenEscaped is a string with escapes.
	tokenEscaped
	// tokenComposite is an array or an object.
	tokenComposite
)

// token is one value of a document: start and end bound its JSON text, quotes
// and brackets included. long is the value of a tokenLong.
type token struct {
	start, end int
	long       int64
	kind       tokenKind
}

// text is the inside of a string token.
func (t *token) text(body []byte) []byte { return body[t.start+1 : t.end-1] }

// scanner walks over one document. It checks the whole grammar while it skips,
// so that what it lets pass is JSON to its last byte. It never recurses: depth
// costs a byte of stack each.
type scanner struct {
	data []byte
	// high collects the bytes of strings: a bit 7 in it means that the text is
	// more than ASCII and has to be checked as UTF-8.
	high  uint64
	stack []byte
	// member is given the members of an object, or nil.
	member func(name, value *token)
	// expected is the next member's name as it is likely to be written, quotes and
	// colon included, empty for no idea: a comparison takes the place of a scan. It
	// is member's to say, and is met when it was right.
	expected string
	met      bool
	// name and given are the tokens that member is given.
	name, given token
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
	quotes   = lowBits * '"'
	slashes  = lowBits * '\\'
	blanks   = lowBits * ' '
)

// stop has bit 7 set in every byte of w that ends a run of plain string text:
// a quote, a backslash, a control character. Bytes above the lowest one set
// may be set wrongly.
func stop(w uint64) uint64 {
	q, s := w^quotes, w^slashes
	return ((q-lowBits)&^q | (s-lowBits)&^s | (w-blanks)&^w) & highBits
}

// skipString takes the place after an opening quote and returns that after the
// closing one, or -1.
func (s *scanner) skipString(i int) (end int, escaped bool) {
	d := s.data
	high := uint64(0)
	for {
		i, high = plainText(d, i, high)
		if i >= len(d) {
			return -1, escaped
		}
		switch d[i] {
		case '"':
			s.high |= high
			return i + 1, escaped
		case '\\':
			escaped = true
			if i = s.skipEscape(i + 1); i < 0 {
				return -1, escaped
			}
		default:
			return -1, escaped
		}
	}
}

// plainText returns the place of the first byte from i on that ends a run of
// plain string text, and high with the bytes before it.
func plainText(d []byte, i int, high uint64) (int, uint64) {
	for i+8 <= len(d) {
		w := binary.LittleEndian.Uint64(d[i:])
		high |= w
		if m := stop(w); m != 0 {
			return i + bits.TrailingZeros64(m)>>3, high
		}
		i += 8
	}
	for i < len(d) && d[i] != '"' && d[i] != '\\' && d[i] >= ' ' {
		high |= uint64(d[i])
		i++
	}
	return i, high
}

// skipEscape takes the place after a backslash. A surrogate without its other
// half is no character, so it is refused as CouchDB refuses it.
func (s *scanner) skipEscape(i int) int {
	if i >= len(s.data) {
		return -1
	}
	switch s.data[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
	default:
		return -1
	}
	_, n := escapedRune(s.data[i-1:])
	if n == 0 {
		return -1
	}
	return i - 1 + n
}

// space returns the place of the next byte from i on that is not white space.
func (s *scanner) space(i int) int {
	if i < len(s.data) && s.data[i] > ' ' {
		return i // nearly always
	}
	return s.skipSpace(i)
}

func (s *scanner) skipSpace(i int) int {
	for i < len(s.data) {
		switch s.data[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// at is the byte at i, or 0, which is no part of JSON, past the end.
func (s *scanner) at(i int) byte {
	if i < len(s.data) {
		return s.data[i]
	}
	return 0
}

// value reads the value that begins at i into t; an end of -1 means that there
// is none.
func (s *scanner) value(i int, t *token) {
	t.start = i
	switch s.at(i) {
	case '"':
		end, escaped := s.skipString(i + 1)
		t.end, t.kind = end, tokenString
		if escaped {
			t.kind = tokenEscaped
		}
	case '{', '[':
		t.end, t.kind = s.skipComposite(i), tokenComposite
	case 't':
		t.end, t.kind = s.literal(i, "true"), tokenTrue
	case 'f':
		t.end, t.kind = s.literal(i, "false"), tokenFalse
	case 'n':
		t.end, t.kind = s.literal(i, "null"), tokenNull
	default:
		s.number(t)
	}
}

func (s *scanner) literal(i int, word string) int {
	if len(s.data)-i < len(word) || string(s.data[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// number reads a number at t.start into t.
func (s *scanner) number(t *token) {
	i := t.start
	t.end = -1
	negative := s.at(i) == '-'
	if negative {
		i++
	}
	first := i
	var n uint64
	for c := s.at(i); c >= '0' && c <= '9'; c = s.at(i) {
		n = n*10 + uint64(c-'0') // wraps only beyond 19 digits, which are big
		i++
	}
	digits := i - first
	if digits == 0 || (digits > 1 && s.data[first] == '0') {
		return
	}
	t.kind = tokenLong
	t.long = int64(n)
	limit := uint64(1) << 63
	switch {
	case negative && n == 0:
		t.kind = tokenFloat
	case negative:
		t.long = -t.long
		limit++
	}
	if digits > 19 || n >= limit {
		t.kind = tokenBig
	}
	t.end = s.fraction(i, t)
}

// fraction reads what may follow the integer part of a number.
func (s *scanner) fraction(i int, t *token) int {
	if s.at(i) == '.' {
		t.kind = tokenFloat
		if i = s.skipDigits(i + 1); i < 0 {
			return -1
		}
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		t.kind = tokenFloat
		i++
		if c := s.at(i); c == '+' || c == '-' {
			i++
		}
		return s.skipDigits(i)
	}
	return i
}

// skipDigits returns the place after one or more digits, or -1.
func (s *scanner) skipDigits(i int) int {
	first := i
	for c := s.at(i); c >= '0' && c <= '9'; c = s.at(i) {
		i++
	}
	if i == first {
		return -1
	}
	return i
}

// skipComposite takes the place of an opening bracket and returns that after
// the closing one, or -1. The brackets that are open stand on a stack.
func (s *scanner) skipComposite(i int) int {
	s.stack = s.stack[:0]
	var t token
	for {
		// Here a value begins at i.
		switch c := s.at(i); c {
		case '"':
			i, _ = s.skipString(i + 1)
		case '{', '[':
			s.stack = append(s.stack, c)
			i = s.space(i + 1)
			if s.at(i) != c+2 { // both closing brackets stand two after the opening
				if c == '{' {
					i = s.skipName(i)
				}
				if i < 0 {
					return -1
				}
				continue
			}
		default:
			s.value(i, &t)
			i = t.end
		}
		if i < 0 {
			return -1
		}
		if i = s.closeOrNext(i); i < 0 || len(s.stack) == 0 {
			return i
		}
	}
}

// closeOrNext stands after a value or before a closing bracket: it closes what
// closes here and returns the place of the next value, or that after the last
// bracket.
func (s *scanner) closeOrNext(i int) int {
	for top := len(s.stack) - 1; ; top-- {
		i = s.space(i)
		switch s.at(i) {
		case s.stack[top] + 2:
			i++
			if top == 0 {
				s.stack = s.stack[:0]
				return i
			}
		case ',':
			s.stack = s.stack[:top+1]
			i = s.space(i + 1)
			if s.stack[top] == '{' {
				return s.skipName(i)
			}
			return i
		default:
			return -1
		}
	}
}

// skipName skips a member's name and colon.
func (s *scanner) skipName(i int) int {
	if s.at(i) != '"' {
		return -1
	}
	if i, _ = s.skipString(i + 1); i < 0 {
		return -1
	}
	return s.colon(i)
}

// colon skips a colon with the space around it.
func (s *scanner) colon(i int) int {
	if s.at(i) != ':' {
		if i = s.skipSpace(i); s.at(i) != ':' {
			return -1
		}
	}
	return s.space(i + 1)
}

// check says whether the document is a JSON object.
func (s *scanner) check(data []byte) error {
	s.data, s.high = data, 0
	i := s.skipSpace(0)
	if s.at(i) != '{' {
		return s.fault(i, "an object is expected")
	}
	end := s.skipComposite(i)
	if end < 0 {
		return fmt.Errorf("%w (a deleted document's)", errJSON)
	}
	return s.finish(end)
}

// object walks over the members of the document and hands each to member: the
// name's token (a string) and the value's. It is one pass: the members before
// a fault have been handed over when it is found.
func (s *scanner) object(data []byte) error {
	s.data, s.high = data, 0
	name, value := &s.name, &s.given // not on the stack: member may keep no token, but the compiler cannot know
	i := s.space(0)
	if s.at(i) != '{' {
		return s.fault(i, "an object is expected")
	}
	i = s.space(i + 1)
	if s.at(i) == '}' {
		return s.finish(i + 1)
	}
	for {
		start, fault := s.memberName(i, name)
		if fault != nil {
			return fault
		}
		if s.value(start, value); value.end < 0 {
			return s.fault(start, "no value")
		}
		s.member(name, value)
		switch i = s.space(value.end); s.at(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			return s.finish(i + 1)
		default:
			return s.fault(i, "neither comma nor closing brace")
		}
	}
}

// memberName reads a member's name at i, and the colon, and returns the place of the value.
func (s *scanner) memberName(i int, name *token) (int, error) {
	*name = token{start: i, end: -1, kind: tokenString}
	n := len(s.expected)
	if s.met = n > 0 && len(s.data)-i > n && string(s.data[i:i+n]) == s.expected; s.met {
		name.end = i + n - 1
		return s.space(i + n), nil
	}
	if s.at(i) == '"' {
		end, escaped := s.skipString(i + 1)
		if name.end = end; escaped {
			name.kind = tokenEscaped
		}
	}
	if name.end < 0 {
		return 0, s.fault(i, "no member name")
	}
	start := s.colon(name.end)
	if start < 0 {
		return 0, s.fault(name.end, "no colon")
	}
	return start, nil
}

// finish checks what can only be known at the end: nothing follows the
// document, and its text is UTF-8.
func (s *scanner) finish(i int) error {
	if i = s.space(i); i < len(s.data) {
		return s.fault(i, "text after the document")
	}
	if s.high&highBits != 0 && !utf8.Valid(s.data) {
		return fmt.Errorf("%w: its text is not UTF-8", errJSON)
	}
	return nil
}

func (s *scanner) fault(i int, what string) error {
	if i >= len(s.data) {
		what = "it ends too early"
	}
	return fmt.Errorf("%w: at byte %d: %s", errJSON, min(i, len(s.data)), what)
}
