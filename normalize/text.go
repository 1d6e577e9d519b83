package normalize

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// escapedRune decodes \uXXXX, or a pair of them, at the beginning of b, and
// returns its length in b: 0 when b is no such escape or half a character.
func escapedRune(b []byte) (rune, int) {
	const one, two = 6, 12
	r := hexRune(b)
	if r < 0 || !utf16.IsSurrogate(r) {
		if r < 0 {
			return 0, 0
		}
		return r, one
	}
	if len(b) < two {
		return 0, 0
	}
	low := hexRune(b[one:])
	if low < 0 {
		return 0, 0
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, 0
	}
	return r, two
}

// hexRune is the value of \uXXXX at the beginning of b, or -1.
func hexRune(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendUnescaped appends the text that the inside of a JSON string stands
// for. The scanner has checked it.
func appendUnescaped(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		c := text[i+1]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, n := escapedRune(text[i:])
			dst = utf8.AppendRune(dst, r)
			text = text[i+n:]
			continue
		}
		dst = append(dst, c)
		text = text[i+2:]
	}
}

// appendQuoted appends s as a JSON string, escaping no more than JSON demands.
func appendQuoted(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// arena holds the texts that stand in no document: decoded strings, revisions,
// lists of leaves. It grows by chunks, so that a row costs no allocation of
// its own. A chunk lives as long as any text in it.
type arena struct{ free []byte }

const (
	arenaChunk = 64 << 10
	// arenaLarge is the length from which a text gets memory of its own.
	arenaLarge = arenaChunk / 8
)

// copy is a copy of b that nothing will write to.
func (a *arena) copy(b []byte) []byte {
	if len(b) >= arenaLarge {
		return append(make([]byte, 0, len(b)), b...)
	}
	if len(a.free) < len(b) {
		a.free = make([]byte, arenaChunk)
	}
	n := copy(a.free, b)
	c := a.free[:n:n]
	a.free = a.free[n:]
	return c
}

// unescaped is what the inside of a JSON string stands for, which is never longer.
func (a *arena) unescaped(text []byte) []byte {
	if len(text) >= arenaLarge {
		return appendUnescaped(nil, text)
	}
	if len(a.free) < len(text) {
		a.free = make([]byte, arenaChunk)
	}
	c := appendUnescaped(a.free[:0], text)
	a.free = a.free[len(c):]
	return c[:len(c):len(c)]
}

// shared is b as a string without a copy: b must not change any more while the
// string lives.
func shared(b []byte) string { return hudi.StringOf(b).Text() }
