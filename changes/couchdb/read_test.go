package couchdb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	got, err := src.Read(t.Context(), append([]string{"never there", "never there"}, all...))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]changes.Change{}
	absent := 0
	for _, c := range got {
		if c.Absent {
			if absent++; !c.Deleted || c.Body != nil || c.ID != "never there" && c.ID != all[2] {
				t.Errorf("absent: %+v", c)
			}
			continue
		}
		if c.Defect != "" || c.Body == nil {
			t.Errorf("%q: %s", c.ID, c.Defect)
		}
		found[c.ID] = c
	}
	if len(got) != 251 || len(found) != 249 || absent != 2 {
		t.Errorf("%d changes of %d documents, %d absent", len(got), len(found), absent)
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
	if none, err := src.Read(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("of no documents: %v, %v", none, err)
	}
	// The feed is where it was.
	if b := next(t, src, "", changes.Limit{}); len(b.Changes) != 249 || !slices.ContainsFunc(b.Changes, func(c changes.Change) bool { return c.ID == all[249] }) {
		t.Errorf("then the feed has %d changes", len(b.Changes))
	}
}

// A feed of a copy that missed writes shows documents as they were: what is read again
// is of all copies.
func TestReadBesideStaleFeed(t *testing.T) {
	w := newWorld(t, couchdb.Options{Sleep: options(newServer(t)).Sleep})
	ids := []string{"changed", "conflict", "deleted", "purged", "same", "new", "_design/d", "a/b +ü"}
	for _, id := range ids {
		if id != "new" {
			w.Put(t, id, `{"n":1}`)
		}
	}
	past := w.db.Snapshot()
	for _, id := range []string{"changed", "new", "_design/d", "a/b +ü"} {
		w.Put(t, id, `{"n":2,"deep":{"_rev":"9-x","_deleted":true}}`)
	}
	if err := w.db.Replicate("conflict", []couchfake.Rev{{Gen: 1, Hash: "0"}}, []byte(`{"n":3}`)); err != nil {
		t.Fatal(err)
	}
	w.Delete(t, "deleted")
	w.db.Purge("purged")
	read := func() map[string]changes.Change {
		t.Helper()
		src, ok := w.Open(t).(*couchdb.Source)
		if !ok {
			t.Fatal("not a couchdb.Source")
		}
		defer func() { _ = src.Close() }()
		cs, err := src.Read(t.Context(), ids)
		if err != nil || len(cs) != len(ids) {
			t.Fatalf("%v, %v", cs, err)
		}
		got := map[string]changes.Change{}
		for _, c := range cs {
			got[c.ID] = c
		}
		return got
	}
	truth := read()
	w.db.ServeStale(past)
	for name, order := range map[string]couchfake.Spoil{"healthy": {}, "fails": {Status: 503}, "cut": {Bytes: 10, Cut: true}} {
		if name != "healthy" {
			w.server.Control(couchfake.Match{Endpoint: couchfake.Document}, order, 3)
		}
		got := read()
		for _, id := range ids {
			g, want := got[id], truth[id]
			if id == "purged" { // its copy may be the one that is ahead
				if g.Absent || g.Seq == "" {
					t.Errorf("%s: %+v", name, g)
				}
				continue
			}
			stale := id != "same"
			if (g.Seq == "") != stale {
				t.Errorf("%s: %q has the sequence %q", name, id, g.Seq)
			}
			g.Seq, want.Seq = "", ""
			slices.SortFunc(g.Leaves, func(a, b changes.Rev) int { return strings.Compare(a.Hash, b.Hash) })
			slices.SortFunc(want.Leaves, func(a, b changes.Rev) int { return strings.Compare(a.Hash, b.Hash) })
			if fmt.Sprint(g) != fmt.Sprint(want) {
				t.Errorf("%s: %q is\n%+v\nwant\n%+v", name, id, g, want)
			}
		}
	}
	// A server that never answers the question, or not with leaves: what the feed shows.
	w.server.Control(couchfake.Match{Endpoint: couchfake.Document}, couchfake.Spoil{Status: 500}, -1)
	if got := read(); got["changed"].Rev.Generation != 1 || !got["new"].Absent {
		t.Errorf("%+v", got)
	}
}

func TestPurged(t *testing.T) {
	w := newWorld(t, couchdb.Options{Sleep: options(newServer(t)).Sleep})
	src, ok := w.Open(t).(changes.Purger)
	if !ok {
		t.Fatal("not a changes.Purger")
	}
	defer func() { _ = src.Close() }()
	ids, first, err := src.Purged(t.Context(), "")
	if err != nil || len(ids) != 0 || first == "" {
		t.Fatalf("got %q, %q, %v", ids, first, err)
	}
	for _, id := range []string{"a", "b/\"", "c"} {
		w.Put(t, id, `{}`)
	}
	for _, id := range []string{"a", "b/\"", "a"} {
		w.db.Purge(id, couchfake.Rev{Gen: 1, Hash: "x"})
	}
	w.server.Control(couchfake.Match{Endpoint: couchfake.PurgedInfos}, couchfake.Spoil{Status: 503}, 1)
	ids, second, err := src.Purged(t.Context(), first)
	if err != nil || !slices.Equal(ids, []string{"a", "b/\""}) || second == first {
		t.Errorf("got %q, %q, %v", ids, second, err)
	}
	if ids, third, err := src.Purged(t.Context(), second); err != nil || len(ids) != 0 || third != second {
		t.Errorf("nothing new: got %q, %q, %v", ids, third, err)
	}
	if id, err := src.Identify(t.Context()); err != nil || id.PurgeSeq != second {
		t.Errorf("identify: %q, %v", id.PurgeSeq, err)
	}
}

// TestPurgedWithoutList: a server that has no such list, and a database that
// is gone, are not the same.
func TestPurgedWithoutList(t *testing.T) {
	s := newServer(t)
	o := options(s)
	var missed []int64
	var warned []string
	o.Events.PurgesMissed = func(n int64) { missed = append(missed, n) }
	o.Events.Warned = func(reason string) { warned = append(warned, reason) }
	src := open(t, o)
	if ids, seq, err := src.Purged(t.Context(), "1-x"); err != nil || ids != nil || seq != "3-p" {
		t.Errorf("got %q, %q, %v", ids, seq, err)
	}
	s.set(func() {
		s.docs["_purged_infos"] = text(`{"purged_infos":[{"id":"a","revs":["1-a"]},{"id":"b","revs":[]}]}`)
	})
	if ids, _, err := src.Purged(t.Context(), ""); err != nil || !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("got %q, %v", ids, err)
	}
	if ids, _, err := src.Purged(t.Context(), "2-x"); err != nil || len(ids) != 2 {
		t.Errorf("got %q, %v", ids, err)
	}
	if !slices.Equal(missed, []int64{2, 1}) {
		t.Errorf("missed %v", missed)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "_purged_infos") {
		t.Errorf("warned %q", warned)
	}
	if lists, err := src.ListsPurges(t.Context()); err != nil || !lists {
		t.Errorf("%t %v", lists, err)
	}
	s.set(func() { s.docs["_purged_infos"] = fail(404, "not_found", "Database does not exist.") })
	if _, _, err := src.Purged(t.Context(), "1-x"); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
