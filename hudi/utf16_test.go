package hudi_test

import (
	"cmp"
	"slices"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/couch2hudi/couch2hudi/hudi"
)

func byUnits(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func TestCompareUTF16(t *testing.T) {
	words := []string{"", "a", "ab", "b", "é", "e\u0301", "\ud7ff", "\ue000", "\uf8ff", "\uffff", "\U00010000", "\U0001F600", "\U0010FFFF",
		"x\ufffd", "x\U0001F600", "x\U0001F600a", "x\ue000a", "\x00", "日本"}
	for _, a := range words {
		for _, b := range words {
			if got, want := cmp.Compare(hudi.CompareUTF16(a, b), 0), byUnits(a, b); got != want {
				t.Errorf("%q %q: got %d, want %d", a, b, got, want)
			}
		}
	}
}

func FuzzCompareUTF16(f *testing.F) {
	f.Add("a\U0001F600", "a\uffff", "b")
	f.Add("", "\x00", "\xff")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		ab, ba := hudi.CompareUTF16(a, b), hudi.CompareUTF16(b, a)
		if ab != -ba || (ab == 0) != (a == b) {
			t.Fatalf("%q %q: %d %d", a, b, ab, ba)
		}
		if ab <= 0 && hudi.CompareUTF16(b, c) <= 0 && hudi.CompareUTF16(a, c) > 0 {
			t.Fatalf("not transitive: %q %q %q", a, b, c)
		}
		if utf8.ValidString(a) && utf8.ValidString(b) && ab != byUnits(a, b) {
			t.Fatalf("%q %q: %d, by units %d", a, b, ab, byUnits(a, b))
		}
	})
}

func TestStampSeqno(t *testing.T) {
	s := hudi.Stamp{Instant: "20260101000000000", Task: 3}
	if got := string(s.AppendSeqno([]byte("x"), 12)); got != "x20260101000000000_3_12" {
		t.Fatal(got)
	}
}
