package couchdb_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

func TestRead(t *testing.T) {
	w := newWorld(t, couchdb.Options{Sleep: options(newServer(t)).Sleep})
	var all []string
	for i := range 250 {
		id := fmt.Sprintf("doc %d/\"é+", i)
		all = append(all, id)
		w.Put(t, id, fmt.Sprintf(`{"n":%d}`, i))
	}
	w.Put(t, all[0], `{"n":"second"}`)
	if err := w.db.Replicate(all[0], []couchfake.Rev{{Gen: 1, Hash: "abc"}}, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	w.Delete(t, all[1])
	w.db.Purge(all[2])
	w.server.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{Status: 503}, 1)
	w.server.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{NullDoc: all[3]}, 1)
	src, ok := w.Open(t).(*couchdb.Source)
	if !ok {
		t.Fatal("not a couchdb.Source")
	}
	defer func() { _ = src.Close() }()
	got, err := src.Read(t.Context(), append([]string{"never there"}, all...)...)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]changes.Change{}
	for _, c := range got {
		if c.Defect != "" || c.Body == nil {
			t.Errorf("%q: %s", c.ID, c.Defect)
		}
		found[c.ID] = c
	}
	if len(got) != 249 || len(found) != 249 {
		t.Errorf("%d changes of %d documents, want 249", len(got), len(found))
	}
	if c := found[all[0]]; c.Rev.Generation != 2 || len(c.Leaves) != 2 || c.Leaves[1].String() != "1-abc" {
		t.Errorf("got %+v", c)
	}
	if !found[all[1]].Deleted {
		t.Error("a deleted document is not deleted")
	}
	if _, ok := found[all[2]]; ok {
		t.Error("a purged document is there")
	}
	if none, err := src.Read(t.Context()); err != nil || len(none) != 0 {
		t.Errorf("of no documents: %v, %v", none, err)
	}
	// The feed is where it was.
	if b := next(t, src, "", changes.Limit{}); len(b.Changes) != 249 || !slices.ContainsFunc(b.Changes, func(c changes.Change) bool { return c.ID == all[249] }) {
		t.Errorf("then the feed has %d changes", len(b.Changes))
	}
}
