package normalize_test

import (
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/filter"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

func filtered(t testing.TB, text string) *filter.Filter {
	t.Helper()
	f, err := filter.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The filter sees documents as they are, before masks, and the one that wins in its
// batch decides; deletions are for whoever holds the document, and what cannot be read
// is broken, whatever the filter says.
func TestSift(t *testing.T) {
	o := normalize.Options{Filter: filtered(t, `ssn startsWith "12" and n > 1`), Declare: []normalize.Declared{{Path: "ssn", Mask: normalize.MaskRedact}}}
	b := batch(
		change(t, "in", `{"ssn":"123","n":2}`),
		change(t, "out", `{"ssn":"323","n":2,"other":1}`),
		change(t, "was in", `{"ssn":"123","n":2}`, "1-a"), change(t, "was in", `{"ssn":"123","n":1}`, "2-a"),
		change(t, "was out", `{"ssn":"123","n":1}`, "1-a"), change(t, "was out", `{"\u0073sn":"12","n":3}`, "2-a"),
		deletion(t, "gone", `{"_deleted":true,"ssn":"123","n":2}`),
		change(t, "broken", `{"ssn":"999","n":`),
		change(t, "no body", ``),
		changes.Change{ID: "defect", Defect: "cut"},
		changes.Change{ID: "purged", Deleted: true, Absent: true},
	)
	r := normalized(t, normalizer(t, o), b, nil)
	want := map[string]bool{"in": false, "out": true, "was in": true, "was out": false, "gone": true, "purged": true}
	for i := range r.Records {
		id := r.Records[i].Key.Record
		held, known := want[id]
		if !known || r.Records[i].OnlyHeld != held || at(r, i, hudi.ColumnDeleted) != held {
			t.Errorf("%s: for those who hold it %t, want %t", id, r.Records[i].OnlyHeld, held)
		}
		delete(want, id)
		if text, _ := at(r, i, "_doc").(string); strings.Contains(text, `12`) {
			t.Errorf("%s is not masked: %s", id, text)
		}
	}
	if len(want) > 0 || len(r.Rejects) != 3 || r.Stats.Elsewhere != 4 {
		t.Errorf("missing %v, %d rejects, %+v", want, len(r.Rejects), r.Stats)
	}
	if _, made := r.Schema.Lookup("other"); made {
		t.Error("a column of a document that is left out")
	}
	for i := range b.Changes {
		if b.Changes[i].Elsewhere {
			t.Error("the batch was written to")
		}
	}
	s, err := normalizer(t, o).Survey()
	if err != nil {
		t.Fatal(err)
	}
	if s.Add(b); s.Documents() != 3 {
		t.Errorf("a survey of %d documents", s.Documents())
	}
}
