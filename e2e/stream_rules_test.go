package e2e

import (
	"reflect"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// TestStreamHasEverything checks that the stream exercises what it says: a
// comparison over a tame stream would prove little.
func TestStreamHasEverything(t *testing.T) {
	server := couchfake.New(couchfake.Options{})
	db, err := server.Create("docs")
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(db, 7)
	m := newModel(modelOptions{partition: "createdAt", layout: "20060102"})
	seen := map[string]int{}
	for _, instant := range []string{"1", "2", "3", "4", "5"} {
		before := m.snapshot()
		if err := s.next(200); err != nil {
			t.Fatal(err)
		}
		if err := m.apply(instant, documentsOf(db)); err != nil {
			t.Fatal(err)
		}
		tally(seen, byKeyAlone(before), byKeyAlone(m.snapshot()))
	}
	for _, what := range []string{"deleted", "conflicted", "lower generation", "revived", "moved", "rescued", "default partition", "new column"} {
		if seen[what] < 5 {
			t.Errorf("%s: %d times; want 5 or more", what, seen[what])
		}
	}
	conflicted := 0
	for d := range db.Docs() {
		if len(d.Leaves) > 1 {
			conflicted++
		}
	}
	if share := float64(conflicted) / float64(db.Len()); share < 0.1 {
		t.Errorf("%.0f %% of the documents are conflicted; want 10 or more", 100*share)
	}
	t.Logf("seen: %v; columns: %v", seen, m.columns)
}

func byKeyAlone(rows []row) map[string]row {
	m := map[string]row{}
	for _, r := range rows {
		m[r[colKey].(string)] = r
	}
	return m
}

func tally(seen map[string]int, before, after map[string]row) {
	for id, r := range after {
		old := before[id]
		count := func(what string, is bool) {
			if is {
				seen[what]++
			}
		}
		if reflect.DeepEqual(old, r) {
			continue
		}
		count("deleted", r["_deleted"] == true)
		count("conflicted", r["_leaves"] != nil)
		count("rescued", r["_rescued"] != nil)
		count("default partition", r[colPartition] == "pt="+defaultPartition)
		count("new column", r["late_1"] != nil)
		if old == nil {
			continue
		}
		count("revived", old["_deleted"] == true && r["_deleted"] == false)
		count("moved", old[colPartition] != r[colPartition])
		count("lower generation", generations([]string{r["_rev"].(string)}) < generations([]string{old["_rev"].(string)}))
	}
}
