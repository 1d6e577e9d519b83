package normalize_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// Every column of a batch leads back to the field that it was made from.
func TestDescribe(t *testing.T) {
	n, err := normalize.New(normalize.Options{Table: "docs"})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"_id":"a","_rev":"1-00000000000000000000000000000001","plain":1,"a \"b\"":"x","list":[1],"9":true,"_id2":{},"Plain":2.5}`
	rev, err := changes.ParseRev("1-00000000000000000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.Normalize(changes.Batch{Changes: []changes.Change{{ID: "a", Rev: rev, Leaves: []changes.Rev{rev}, Body: []byte(body)}}}, nil)
	if err != nil || len(got.Rejects) > 0 {
		t.Fatal(err, got.Rejects)
	}
	want := map[string]string{"plain": "", `a "b"`: "", "list": normalize.RuleJSON, "9": "", "Plain": ""}
	for i := range got.Schema.Columns() {
		c := &got.Schema.Columns()[i]
		o := normalize.Describe(c)
		field, rule := o.Field, o.Rule
		if expected, ok := want[field]; ok {
			if rule != expected {
				t.Errorf("%s: rule %q, want %q", c.Name, rule, expected)
			}
			delete(want, field)
		}
	}
	if len(want) > 0 {
		t.Errorf("no column leads back to %v in %s", want, got.Schema.Avro())
	}
	for _, c := range []hudi.Column{
		{Name: "x", Kind: hudi.KindString, Doc: "what somebody else wrote"},
		{Name: "x", Kind: hudi.KindNested, Type: `{"type":"array","items":"int"}`, Doc: "json"},
	} {
		if o := normalize.Describe(&c); o.Field != "x" || o.Rule != normalize.RuleText {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}
