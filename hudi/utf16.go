package hudi

import "cmp"

// CompareUTF16 orders two UTF-8 strings as Java orders its own: by UTF-16 code
// units. That differs from byte order only where a supplementary character
// (surrogates, 0xD800 and up, in UTF-16) meets one of U+E000 to U+FFFF. The
// least and greatest keys in base files are in this order, and readers prune
// by it.
func CompareUTF16(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return cmp.Compare(unitRank(a[i]), unitRank(b[i]))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// unitRank puts the lead bytes of supplementary characters (0xF0 and up) below
// those of U+E000 to U+FFFF (0xEE, 0xEF). Where two strings of valid UTF-8
// first differ in one of these bytes they are lead bytes; for invalid text it
// is still a total order, because it permutes byte values.
func unitRank(c byte) byte {
	const supplementary, private = 0xF0, 0xEE
	switch {
	case c >= supplementary:
		return c - supplementary + private
	case c >= private:
		return c + (0xFF - supplementary + 1)
	}
	return c
}
