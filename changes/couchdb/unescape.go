package couchdb

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// errString: what stands between two quotes is not a JSON string. Half a
// surrogate pair is refused rather than replaced: two ids could become one.
var errString = errors.New("not a string that JSON allows")

// unescape appends to dst what a JSON string means, given what stands between
// its quotes.
func unescape(dst, s []byte) ([]byte, error) {
	if !utf8.Valid(s) {
		return dst, errString
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c < 0x20 || c == '"':
			return dst, errString
		case c != '\\':
			dst = append(dst, c)
			i++
		case i+1 < len(s) && s[i+1] == 'u':
			r, n := unicodeEscape(s[i:])
			if n == 0 {
				return dst, errString
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		case i+1 < len(s) && escaped(s[i+1]) != 0:
			dst = append(dst, escaped(s[i+1]))
			i += 2
		default:
			return dst, errString
		}
	}
	return dst, nil
}

// escaped is what a backslash and c mean; 0 when they mean nothing.
func escaped(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// unicodeEscape reads \uXXXX, or two of them that are a surrogate pair. It
// returns the bytes read, 0 when they are neither.
func unicodeEscape(s []byte) (rune, int) {
	r, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, ok := hex4(s[6:])
	if !ok {
		return 0, 0
	}
	pair := utf16.DecodeRune(r, low)
	if pair == utf8.RuneError {
		return 0, 0
	}
	return pair, 12
}

// hex4 reads \uXXXX at the beginning of s.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
