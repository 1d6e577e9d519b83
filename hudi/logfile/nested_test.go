package logfile_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

func TestAppendNestedJSON(t *testing.T) {
	c := &hudi.Column{Name: "tags", Kind: hudi.KindNested, Type: `{"type":"array","items":["null","string"]}`}
	// A block of two items, "a" and null, and the end of the array.
	datum := []byte{4, 2, 2, 'a', 0, 0}
	if got, err := logfile.AppendNestedJSON([]byte("x"), c, hudi.Nested(datum)); err != nil || string(got) != `x["a",null]` {
		t.Fatalf("%s %v", got, err)
	}
	for _, bad := range [][]byte{nil, {4, 2}, append(datum, 7)} {
		if got, err := logfile.AppendNestedJSON([]byte("x"), c, hudi.Nested(bad)); err == nil || string(got) != "x" {
			t.Fatalf("%v was shown as %s", bad, got)
		}
	}
	c.Type = `{"type":"array"}`
	if _, err := logfile.AppendNestedJSON(nil, c, hudi.Nested(datum)); err == nil {
		t.Fatal("a column without a type was shown")
	}
}
