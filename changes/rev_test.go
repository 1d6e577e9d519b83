package changes_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
)

func TestParseRev(t *testing.T) {
	for in, want := range map[string]changes.Rev{
		"1-a":                                {Generation: 1, Hash: "a"},
		"10-9-b":                             {Generation: 10, Hash: "9-b"},
		"2147483648-x":                       {Generation: 1 << 31, Hash: "x"},
		"3-917fa2381192822767f010b95b45325b": {Generation: 3, Hash: "917fa2381192822767f010b95b45325b"},
	} {
		got, err := changes.ParseRev(in)
		if err != nil || got != want || got.String() != in {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-", "a", "1", "1-", "-1-a", "+1-a", "0-a", "01-a", "1.5-a", "2147483649-x", "99999999999999999999-a", strings.Repeat("x", 1000)} {
		_, err := changes.ParseRev(in)
		if !errors.Is(err, changes.ErrRev) {
			t.Errorf("%q: got %v", in, err)
		}
		if err != nil && len(err.Error()) > 200 {
			t.Errorf("a message of %d bytes", len(err.Error()))
		}
	}
	if got := (changes.Rev{}).String(); got != "" {
		t.Errorf("the zero Rev is %q", got)
	}
}

// TestBefore: generations are numbers, hashes are bytes.
func TestBefore(t *testing.T) {
	order := []string{"1-zzz", "2-1abc", "2-9abc", "2-Fabc", "2-aabc", "9-zzz", "10-aaa"}
	var revs []changes.Rev
	for _, text := range order {
		rev, err := changes.ParseRev(text)
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, rev)
	}
	slices.Reverse(revs)
	slices.SortFunc(revs, func(a, b changes.Rev) int {
		switch {
		case a.Before(b):
			return -1
		case b.Before(a):
			return 1
		}
		return 0
	})
	for i, rev := range revs {
		if rev.String() != order[i] {
			t.Errorf("place %d is %s, want %s", i, rev, order[i])
		}
		if rev.Before(rev) {
			t.Errorf("%s is before itself", rev)
		}
	}
}
