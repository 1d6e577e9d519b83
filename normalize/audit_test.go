package normalize_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// audited are the rows of a result as an audit finds them: "field held/rescued kinds".
func audited(t *testing.T, r normalize.Result) (*normalize.Audit, map[string]string) {
	t.Helper()
	a, err := normalize.NewAudit(r.Schema, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Records {
		a.Add(r.Records[i].Row)
	}
	found := map[string]string{}
	for _, f := range a.Fields() {
		found[f.Path] = strings.TrimSuffix(fmt.Sprintf("%d/%d %s", f.Held, f.Rescued, f.Kinds.Words()), " ")
	}
	return a, found
}

func TestAudit(t *testing.T) {
	type d = normalize.Declared
	for _, dropDoc := range []bool{false, true} {
		o := normalize.Options{DropDoc: dropDoc, Declare: []d{{Name: "n", Type: "long"}, {Name: "x", Type: "double"}, {Name: "at", Type: "timestamp"},
			{Name: "zip", Path: "address.zip", Type: "long"}, {Name: "s", Type: "long", Conflict: "string"}, {Name: "two", Path: "n", Type: "json"}}}
		n := normalizer(t, o)
		r := normalized(t, n, batch(
			change(t, "a", `{"n":1,"x":1.50,"at":"2024-01-01T00:00:00+01:00","address":{"zip":"a"},"s":"text","_attachments":{}}`),
			change(t, "b", `{"n":"1","x":null,"at":1,"address":{"zip":null},"s":1}`),
			change(t, "c", `{"x":[1],"at":"x","address":{"zip":7}}`),
			deletion(t, "d", `{"n":"text","other":1}`),
		), nil)
		_, got := audited(t, r)
		// A spelling that _rescued keeps beside a column, a null and a tombstone are no rescued values, nor is what a second column holds.
		for path, want := range map[string]string{"n": "2/0", "x": "1/1 1 array or object", "at": "1/2 1 string, 1 integer",
			"address.zip": "1/1 1 string", "s": "2/0", "address": "3/0", "other": ""} {
			if got[path] != want {
				t.Errorf("dropDoc %v: %s is %q, want %q", dropDoc, path, got[path], want)
			}
		}
	}
}

// However many names documents have, so many are told apart, and the rest is counted.
func TestAuditIsBounded(t *testing.T) {
	const fields, most = 1500, 1000
	var members []string
	for i := range fields {
		members = append(members, fmt.Sprintf(`"f%d":%d`, i, i))
	}
	n := normalizer(t, normalize.Options{MaxColumns: 1})
	r := normalized(t, n, bodies(t, "{"+strings.Join(members, ",")+"}", `{"f1499":1,"f3":true,"`+strings.Repeat("long", 100)+`":1}`), nil)
	a, got := audited(t, r)
	if len(got) != most+1 || got["f0"] != "1/0" || got["f3"] != "0/2 1 integer, 1 boolean" || a.Rows() != 2 || a.More() != fields-1-most+2 {
		t.Errorf("%d fields, f0 %s, f3 %s, %d rows, %d more", len(got), got["f0"], got["f3"], a.Rows(), a.More())
	}
	row := slices.Clone(r.Records[1].Row)
	at, _ := r.Schema.Lookup("_rescued")
	row[at] = hudi.String(`{"f3":1,`)
	if a.Add(row); a.Broken() != 1 || a.Rows() != 3 {
		t.Errorf("%d of %d rows are broken", a.Broken(), a.Rows())
	}
	if all := a.Fields(); all[0].Path != "f0" || all[1].Path != "f3" {
		t.Errorf("columns come first, then what is most frequent: %v, %v", all[0], all[1])
	}
}
