package logfile_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

func TestTextOfNested(t *testing.T) {
	s := func(items string) *hudi.Schema {
		s, err := hudi.NewSchema("t", hudi.Column{Name: "n", Kind: hudi.KindLong},
			hudi.Column{Name: "tags", Kind: hudi.KindNested, Type: `{"type":"array","items":` + items + `}`})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// A block of two items, "a" and null, and the end of the array.
	datum := []byte{4, 2, 2, 'a', 0, 0}
	texts, err := logfile.NewTexts(s(`["null","string"]`))
	if err != nil || texts[0] != nil {
		t.Fatal(texts, err)
	}
	if got, quoted, err := texts[1].Append([]byte("x"), hudi.Nested(datum)); err != nil || quoted || string(got) != `x["a",null]` {
		t.Fatalf("%s %v", got, err)
	}
	for _, bad := range [][]byte{nil, {4, 2}, append(datum, 7)} {
		if got, _, err := texts[1].Append([]byte("x"), hudi.Nested(bad)); err == nil || string(got) != "x" {
			t.Fatalf("%v was shown as %s", bad, got)
		}
	}
	if _, err := logfile.NewTexts(s(`"nothing"`)); err == nil {
		t.Fatal("a column without a type was shown")
	}
}
