package normalize_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/couch2hudi/couch2hudi/normalize"
)

// half matches a \u escape of a surrogate; encoding/json takes one that stands
// alone, for us it is no text.
var half = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// FuzzDocument compares what a body is taken for with encoding/json: the same
// texts are documents, and every value comes out the same.
func FuzzDocument(f *testing.F) {
	for _, a := range atoms {
		f.Add([]byte(`{"a":` + a + `}`))
		f.Add([]byte(`{"a":[` + a + `,{"b" : ` + a + ` } ], "c":` + a + "}\n"))
	}
	for _, s := range []string{`{}`, `{ }`, `[]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`, `{"a":+1}`, `{"a":.5}`,
		`{"a":tru}`, `{"a":nul`, `{"a":"\x"}`, `{"a":"\u12"}`, "{\"a\":\"\n\"}", `{"a":"` + "\x7f" + `"}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":{"b":1,}}`, `{"a":[}`,
		`{"a":[1}}`, `{"a":"abcdefghijklmnop\"q"}`, `{"\u0061":1,"a":2}`, "\ufeff{}", `{"a":1} x`, `{"a" :1 , "b": [ ] }`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if bytes.Contains(doc, []byte(`"_`)) || bytes.Contains(doc, []byte(`\u005`)) || string(doc) == "null" {
			return // CouchDB's own members have their own tests
		}
		var want map[string]json.RawMessage
		valid := utf8.Valid(doc) && json.Unmarshal(doc, &want) == nil && want != nil
		before := bytes.Clone(doc)
		r := normalized(t, normalizer(t, normalize.Options{MaxColumns: 1 << 20}), bodies(t, string(doc)), nil)
		if !bytes.Equal(doc, before) {
			t.Fatal("the body was changed")
		}
		if accepted := len(r.Records) == 1; accepted != valid {
			if !accepted && half.Match(doc) {
				return
			}
			t.Fatalf("%q: accepted %t, valid %t", doc, accepted, valid)
		}
		if valid {
			sameValues(t, r, want)
		}
	})
}

// sameValues checks that each member of a document stands in its column or in
// _rescued.
func sameValues(t *testing.T, r normalize.Result, want map[string]json.RawMessage) {
	t.Helper()
	left := len(want)
	rescued := map[string]json.RawMessage{}
	if text, ok := at(r, 0, "_rescued").(string); ok {
		if err := json.Unmarshal([]byte(text), &rescued); err != nil {
			t.Fatalf("_rescued %q: %v", text, err)
		}
	}
	byField := map[string]any{}
	for i, c := range r.Schema.Columns()[9:] {
		name := c.Name
		var doc string
		if _, err := fmt.Sscanf(c.Doc, "field %q", &doc); err == nil || c.Doc != "" && c.Doc != "json" {
			d := json.NewDecoder(bytes.NewReader([]byte(c.Doc[len("field "):])))
			if err := d.Decode(&name); err != nil {
				t.Fatal(c.Doc)
			}
		}
		byField[name] = cell(r.Records[0].Row[9+i])
	}
	for name, raw := range want {
		if string(raw) == "null" {
			left--
			continue
		}
		kind := kindOf(string(raw))
		if kind == "unfit" || len(name) > 256 {
			if string(rescued[name]) != string(raw) {
				t.Fatalf("%q: rescued %q, want %q", name, rescued[name], raw)
			}
			left--
			continue
		}
		text, ok := held(kind, string(raw))
		if got := fmt.Sprintf("%T %v", byField[name], byField[name]); !ok || got != text {
			t.Fatalf("%q: %q, want %q", name, got, text)
		}
		left--
	}
	if left != 0 {
		t.Fatalf("%d members are missing", left)
	}
}
