package filter

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

type kind uint8

const (
	null kind = iota
	boolean
	integer
	double
	text
	object
	array
)

// value is one JSON value. A composite is its JSON text, read only where it is asked
// about.
type value struct {
	kind kind
	// long is an integer, or 1 for true.
	long   int64
	double float64
	// bytes are a text without its escapes, or the JSON text of a composite.
	bytes []byte
}

func (v value) truth() bool { return v.kind == boolean && v.long == 1 }

func (v value) number() bool { return v.kind == integer || v.kind == double }

func truthValue(is bool) value {
	v := value{kind: boolean}
	if is {
		v.long = 1
	}
	return v
}

// read is a value of its JSON text; what is not there is null.
func read(raw []byte) value {
	if len(raw) == 0 {
		return value{}
	}
	switch raw[0] {
	case 't':
		return truthValue(true)
	case 'f':
		return truthValue(false)
	case '"':
		return value{kind: text, bytes: plain(raw)}
	case '{':
		return value{kind: object, bytes: raw}
	case '[':
		return value{kind: array, bytes: raw}
	case 'n':
		return value{}
	}
	if !bytes.ContainsAny(raw, ".eE") { // an error of ParseInt would cost memory
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return value{kind: integer, long: n}
		}
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !math.IsInf(f, 0) {
		return value{}
	}
	return value{kind: double, double: f}
}

// plain is a JSON string's text.
func plain(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	inside := raw[1 : len(raw)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return inside
	}
	return []byte(s)
}

// sameName compares a member's name, in its quotes, with a field's.
func sameName(quoted []byte, name string) bool {
	if len(quoted) == len(name)+2 && string(quoted[1:len(quoted)-1]) == name {
		return true
	}
	return len(quoted) > len(name)+2 && bytes.IndexByte(quoted, '\\') >= 0 && string(plain(quoted)) == name
}

// equal compares two values: numbers by what they are worth, composites by their JSON
// text. Values of two kinds are not equal.
func equal(a, b value) bool {
	switch {
	case a.number() && b.number():
		return compareNumbers(a, b) == 0
	case a.kind != b.kind:
		return false
	case a.kind == null:
		return true
	case a.kind == boolean:
		return a.long == b.long
	}
	return bytes.Equal(a.bytes, b.bytes)
}

// compare orders two numbers or two texts (by their bytes); false for all else.
func compare(a, b value) (int, bool) {
	switch {
	case a.number() && b.number():
		return compareNumbers(a, b), true
	case a.kind == text && b.kind == text:
		return bytes.Compare(a.bytes, b.bytes), true
	}
	return 0, false
}

// compareNumbers rounds nothing: integers that no double holds stay apart.
func compareNumbers(a, b value) int {
	switch {
	case a.kind == integer && b.kind == integer:
		return sign(a.long, b.long)
	case a.kind == double && b.kind == double:
		return sign(a.double, b.double)
	case a.kind == double:
		return -compareNumbers(b, a)
	}
	const beyond = 1 << 63
	switch whole := math.Floor(b.double); {
	case whole >= beyond:
		return -1
	case whole < -beyond:
		return 1
	case int64(whole) != a.long:
		return sign(a.long, int64(whole))
	case whole < b.double:
		return -1
	}
	return 0
}

func sign[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// member is a member of an object, null of all else.
func (v value) member(name string) value {
	var found []byte
	if v.kind == object {
		eachMember(v.bytes, func(key, raw []byte) bool {
			if sameName(key, name) {
				found = raw
			}
			return true
		})
	}
	return read(found)
}

// at is an array's item, counted from its end by a negative number.
func (v value) at(i int) value {
	if v.kind != array {
		return value{}
	}
	if i < 0 {
		if i += int(v.length().long); i < 0 {
			return value{}
		}
	}
	var found []byte
	eachItem(v.bytes, func(raw []byte) bool {
		if i == 0 {
			found = raw
		}
		i--
		return i >= 0
	})
	return read(found)
}

// length is how many characters, items or members there are; null of all else.
func (v value) length() value {
	n := 0
	switch v.kind {
	case text:
		n = utf8.RuneCount(v.bytes)
	case array:
		eachItem(v.bytes, func([]byte) bool { n++; return true })
	case object:
		eachMember(v.bytes, func(_, _ []byte) bool { n++; return true })
	default:
		return value{}
	}
	return value{kind: integer, long: int64(n)}
}

// within says whether an array has an item, or an object a member of that name.
func (v value) within(in value) bool {
	found := false
	switch {
	case in.kind == array:
		eachItem(in.bytes, func(raw []byte) bool {
			found = equal(v, read(raw))
			return !found
		})
	case in.kind == object && v.kind == text:
		eachMember(in.bytes, func(key, _ []byte) bool {
			found = bytes.Equal(plain(key), v.bytes)
			return !found
		})
	}
	return found
}
