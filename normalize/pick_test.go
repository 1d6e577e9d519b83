package normalize_test

import (
	"errors"
	"testing"

	"github.com/couch2hudi/couch2hudi/normalize"
)

func TestPick(t *testing.T) {
	for _, c := range []struct{ path, body, want string }{
		{"type", `{"_id":"a","type":"order"}`, "order"},
		{"type", `{"type":"ord\u00e9\n"}`, "ordé\n"},
		{"type", `{"t\u0079pe":"x"}`, "x"},
		{"type", `{"type":"a","n":{"type":"b"},"type":"c"}`, "c"},
		{"type", `{"n":{"type":"b"}}`, ""},
		{"type", `{"type":null}`, ""},
		{"type", `{"type":["a"]}`, ""},
		{"type", `{"type":{"a":1}}`, ""},
		{"type", `{"type":1.50}`, "1.50"},
		{"type", `{"type":true}`, "true"},
		{"type", `{"type":""}`, ""},
		{"type", `{}`, ""},
		{"meta.kind", `{"meta":{"a":[{"kind":1}],"kind" : "x" , "b":{}}}`, "x"},
		{"meta.kind", `{"meta": { "kind":"x","kind":"y"}}`, "y"},
		{"meta.kind", `{"meta":{}}`, ""},
		{"meta.kind", `{"meta":["kind"]}`, ""},
		{"meta.kind", `{"meta":"kind","kind":"x"}`, ""},
		{"meta.kind", `{"meta":{"kind":"x"},"meta":{}}`, ""},
		{`a["b.c"].d`, `{"z":1,"a":{"b.c":{"d":-7e2}}}`, "-7e2"},
	} {
		p, err := normalize.NewPick(c.path)
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		for range 2 { // it keeps nothing of the last one
			if got, err := p.Text([]byte(c.body)); err != nil || string(got) != c.want {
				t.Errorf("%s of %s: %q, %v", c.path, c.body, got, err)
			}
		}
		for _, bad := range []string{"", "[1]", `{"type":"a"`, `{"type":"a"}x`, `{"type":a}`} {
			if got, err := p.Text([]byte(bad)); err == nil {
				t.Errorf("%s of %s: %q", c.path, bad, got)
			}
		}
	}
	for _, bad := range []string{"", "tags[0]", "a..b", ".a", "["} {
		if _, err := normalize.NewPick(bad); !errors.Is(err, normalize.ErrOptions) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
