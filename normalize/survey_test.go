package normalize_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// However the documents come, a survey of them gives the columns that one batch
// of them all gives.
func TestSurvey(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		o := nastyOptions(r)
		o.DropDoc = seed%2 == 0
		var all changes.Batch
		for i := range 1 + r.IntN(20) {
			id := fmt.Sprintf("d%d", i)
			body := nastyDoc(r, id)
			switch r.IntN(9) {
			case 0:
				body = strings.TrimSuffix(body, "}") // broken
			case 1:
				all.Changes = append(all.Changes, deletion(t, id, body))
				continue
			}
			all.Changes = append(all.Changes, change(t, id, body))
		}
		n := normalizer(t, o)
		// A name over the budget, or beside another column, depends on more than what was seen.
		if o.MaxColumns < 40 || o.Conflict == normalize.NewColumn {
			o.MaxColumns, o.Conflict = 1000, normalize.Rescue
			n = normalizer(t, o)
		}
		want := normalized(t, n, all, nil)
		s, err := n.Survey()
		if err != nil {
			t.Fatal(err)
		}
		for rest := all.Changes; len(rest) > 0; {
			k := 1 + r.IntN(len(rest))
			s.Add(batch(rest[:k]...))
			rest = rest[k:]
		}
		got, err := s.Schema()
		if err != nil {
			t.Fatal(err)
		}
		wanted := want.Schema
		for i, c := range wanted.Columns() { // beside is made for values, not for what was seen
			if normalize.Describe(&c).Beside {
				if wanted.Len() > i {
					wanted = nil
				}
				break
			}
		}
		if wanted != nil && !got.Same(wanted) {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, columns(got), columns(wanted))
		}
		if s.Documents() != countLive(want) || s.Broken() != len(want.Rejects) {
			t.Fatalf("seed %d: %d documents, %d broken; want %d, %d", seed, s.Documents(), s.Broken(), countLive(want), len(want.Rejects))
		}
	}
}

func countLive(r normalize.Result) (n int) {
	for i := range r.Records {
		if at(r, i, "_deleted") == false {
			n++
		}
	}
	return n
}

// A field of each document is the budget's worth of memory, no more.
func TestSurveyBudget(t *testing.T) {
	n := normalizer(t, normalize.Options{MaxColumns: 5})
	s, err := n.Survey()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		s.Add(bodies(t, fmt.Sprintf(`{"f%d":1,"same":%d}`, i, i)))
	}
	got, err := s.Schema()
	if err != nil || fields(t, got) != "f0:long same:long f1:long f2:long f3:long" || len(s.Sights()) != 5 || s.Sights()[1].Values != 100 {
		t.Fatalf("%v: %s, %d seen", err, fields(t, got), len(s.Sights()))
	}
}

func TestSurveyLooksAtTexts(t *testing.T) {
	s, err := normalizer(t, normalize.Options{}).Survey()
	if err != nil {
		t.Fatal(err)
	}
	s.Add(bodies(t, `{"at":"2024-01-05T10:00:00Z","day":"2024-01-05","s":"2024","n":null}`,
		`{"at":"2024-01-05T10:00:00.5+01:00","day":"2024-02-29","s":"2024-01-05"}`, `{"at":"1800-01-05T10:00:00Z","day":"2023-02-29","day":"2023-02-28"}`))
	for i, want := range []string{"at 3 3 2 0", "day 3 3 0 3", "s 2 2 0 1"} {
		if f := s.Sights()[i]; fmt.Sprint(f.Field, " ", f.Values, f.Texts, f.Times, f.Days) != want {
			t.Errorf("%s %d %d %d %d, want %s", f.Field, f.Values, f.Texts, f.Times, f.Days, want)
		}
	}
}
