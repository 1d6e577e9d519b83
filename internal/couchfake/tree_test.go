package couchfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

func rev(t *testing.T, s string) couchfake.Rev {
	t.Helper()
	r, err := couchfake.ParseRev(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCompareRevs(t *testing.T) {
	const digest = "61ffffffffffffffffffffffffffffff" // begins with the byte of an a
	for _, c := range []struct {
		high, low string
	}{
		{"10-aaa", "9-zzz"}, {"2-Fabc", "2-9abc"}, {"2-9abc", "2-1abc"}, {"3-cd", "3-bd"}, {"1-ab", "1-a"},
		{"2-b", "2-" + digest}, {"2-" + digest, "2-a"}, {"2-" + digest, "2-Z"},
	} {
		h, l := rev(t, c.high), rev(t, c.low)
		if same := rev(t, c.high); h.Compare(same) != 0 {
			t.Errorf("%s is not equal to itself", c.high)
		}
		if h.Compare(l) <= 0 || l.Compare(h) >= 0 {
			t.Errorf("%s does not beat %s", c.high, c.low)
		}
	}
}

func TestParseRev(t *testing.T) {
	for in, want := range map[string]string{
		"1-abc": "1-abc", "12-ABCDEF00ABCDEF00ABCDEF00ABCDEF00": "12-abcdef00abcdef00abcdef00abcdef00", "0-1": "0-1", "3-a-b": "3-a-b",
		"": "", "abc": "", "1-": "", "-abc": "", "x-abc": "",
	} {
		r, err := couchfake.ParseRev(in)
		if (err != nil) != (want == "") || err == nil && r.String() != want {
			t.Errorf("%q: %v, %v; want %q", in, r, err, want)
		}
	}
}

// TestWinners walks the vectors that a real server gave, leaf by leaf.
func TestWinners(t *testing.T) {
	_, db := filled(t, 0)
	winner := func(id, want string) {
		t.Helper()
		d, ok := db.Doc(id)
		if !ok || d.Winner().Rev.String() != want {
			t.Errorf("%s: winner %v, want %s", id, d.Winner().Rev, want)
		}
	}
	replicate(t, db, "g", `{"v":3}`, "3-aaa", "2-a2", "1-r")
	replicate(t, db, "g", `{"v":2}`, "2-bbb", "1-r")
	winner("g", "3-aaa")
	if _, err := db.Edit("g", rev(t, "3-aaa"), []byte(`{"_deleted":true}`)); err != nil {
		t.Fatal(err)
	}
	winner("g", "2-bbb")
	for _, h := range []string{"1abc", "9abc", "Fabc"} {
		replicate(t, db, "e", `{}`, "2-"+h, "1-r")
	}
	for _, h := range []string{"2-Fabc", "2-9abc", "2-1abc"} {
		winner("e", h)
		if _, err := db.Edit("e", rev(t, h), []byte(`{"_deleted":true}`)); err != nil {
			t.Fatal(err)
		}
	}
	winner("e", "3-cd1296c40d442d849f230a2e7a388cf5")
	if d, _ := db.Doc("e"); !d.Deleted() || d.GenerationSum() != 9 {
		t.Errorf("e: deleted %v, sum %d", d.Deleted(), d.GenerationSum())
	}
	replicate(t, db, "x", `{"_deleted":true}`, "7-dead", "6-6")
	replicate(t, db, "x", `{}`, "1-live")
	winner("x", "1-live")
	replicate(t, db, "t", `{}`, "9-zzz", "8-8")
	replicate(t, db, "t", `{}`, "10-aaa", "9-9")
	winner("t", "10-aaa")
}

func TestReplicatingTheSameRevisionKeepsTheFirstBody(t *testing.T) {
	_, db := filled(t, 0)
	replicate(t, db, "s", `{"v":"first"}`, "1-same")
	before := db.Seq()
	replicate(t, db, "s", `{"v":"second"}`, "1-same")
	d, _ := db.Doc("s")
	if want := `{"_id":"s","_rev":"1-same","v":"first"}`; string(d.Winner().Body) != want || db.Seq() != before {
		t.Errorf("%s, want %s; seq moved: %v", d.Winner().Body, want, db.Seq() != before)
	}
}

func TestAnOlderHistoryJoinsTheTree(t *testing.T) {
	s, db := filled(t, 0)
	replicate(t, db, "d", `{"v":3}`, "3-c") // its ancestors are not known here yet
	replicate(t, db, "d", `{"v":2}`, "2-b", "1-a")
	if d, _ := db.Doc("d"); len(d.Leaves) != 2 {
		t.Fatalf("%d leaves, want 2", len(d.Leaves))
	}
	replicate(t, db, "d", `{"v":3}`, "3-c", "2-b", "1-a")
	if d, _ := db.Doc("d"); len(d.Leaves) != 1 {
		t.Errorf("%d leaves, want 1", len(d.Leaves))
	}
	want := `{"_id":"d","_rev":"3-c","v":3,"_revisions":{"start":3,"ids":["c","b","a"]}}` + "\n"
	if got := read(t, s, "/db/d?revs=true"); got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

// forest does random edits and keeps, of its own, which leaves there are.
type forest struct {
	t      *testing.T
	rng    *rand.Rand
	db     *couchfake.Database
	paths  map[string][][]couchfake.Rev // of each document: the leaves with their ancestors
	sums   map[string]int64
	leaves map[string]map[couchfake.Rev]bool // and whether it is deleted
}

func (f *forest) step(i int) {
	id := fmt.Sprintf("d%d", f.rng.IntN(12))
	body := fmt.Appendf(nil, `{"n":%d}`, i)
	deleted := f.rng.IntN(4) == 0
	if deleted {
		body = fmt.Appendf(nil, `{"n":%d,"_deleted":true}`, i)
	}
	paths := f.paths[id]
	switch {
	case len(paths) == 0:
		f.keep(id, nil, f.must(f.db.Edit(id, couchfake.Rev{}, body)), deleted)
	case f.rng.IntN(3) > 0: // on a leaf, live or deleted
		p := paths[f.rng.IntN(len(paths))]
		f.keep(id, p, f.must(f.db.Edit(id, p[0], body)), deleted)
	default: // a branch from anywhere on a path, or from nothing
		p := paths[f.rng.IntN(len(paths))]
		p = p[f.rng.IntN(len(p)+1):]
		gen := 1
		if len(p) > 0 {
			gen = p[0].Gen + 1
		}
		r := couchfake.Rev{Gen: gen, Hash: strconv.FormatUint(f.rng.Uint64(), 16)}
		if err := f.db.Replicate(id, append([]couchfake.Rev{r}, p...), body); err != nil {
			f.t.Fatal(err)
		}
		f.keep(id, p, r, deleted)
	}
	f.check(id)
}

func (f *forest) must(r couchfake.Rev, err error) couchfake.Rev {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// keep notes the new leaf on top of path p.
func (f *forest) keep(id string, p []couchfake.Rev, r couchfake.Rev, deleted bool) {
	if f.leaves[id] == nil {
		f.leaves[id] = map[couchfake.Rev]bool{}
	}
	if len(p) > 0 {
		delete(f.leaves[id], p[0])
		f.paths[id] = slices.DeleteFunc(f.paths[id], func(o []couchfake.Rev) bool { return o[0] == p[0] })
	}
	f.paths[id] = append(f.paths[id], append([]couchfake.Rev{r}, p...))
	f.leaves[id][r] = deleted
}

func (f *forest) check(id string) {
	f.t.Helper()
	d, ok := f.db.Doc(id)
	if !ok || len(d.Leaves) != len(f.leaves[id]) {
		f.t.Fatalf("%s: leaves %v, want %v", id, d.Leaves, f.leaves[id])
	}
	best := d.Leaves[0]
	for _, l := range d.Leaves {
		deleted, known := f.leaves[id][l.Rev]
		if !known || deleted != l.Deleted {
			f.t.Fatalf("%s: leaf %v deleted %v: want %v", id, l.Rev, l.Deleted, f.leaves[id])
		}
		if best.Deleted && !l.Deleted || best.Deleted == l.Deleted && l.Rev.Compare(best.Rev) > 0 {
			f.t.Fatalf("%s: %v beats the winner %v", id, l.Rev, best.Rev)
		}
	}
	if sum := d.GenerationSum(); sum <= f.sums[id] {
		f.t.Fatalf("%s: the sum of generations went from %d to %d", id, f.sums[id], sum)
	}
	f.sums[id] = d.GenerationSum()
}

func TestGenerationSumGrowsWithEachChange(t *testing.T) {
	for seed := range uint64(5) {
		s, db := filled(t, 0)
		f := forest{
			t: t, db: db, rng: rand.New(rand.NewPCG(seed, 1)),
			paths: map[string][][]couchfake.Rev{}, sums: map[string]int64{}, leaves: map[string]map[couchfake.Rev]bool{},
		}
		for i := range 400 {
			f.step(i)
		}
		agree(t, s, db)
	}
}

// agree compares what the feed shows with what the trees say.
func agree(t *testing.T, s *couchfake.Server, db *couchfake.Database) {
	t.Helper()
	rows := map[string]row{}
	for _, r := range changes(t, s, "/"+db.Name()+"/_changes?style=all_docs&include_docs=true").Results {
		if _, twice := rows[r.ID]; twice {
			t.Errorf("%s has two rows", r.ID)
		}
		rows[r.ID] = r
	}
	n := 0
	for d := range db.Docs() {
		n++
		r := rows[d.ID]
		var shown, kept []string
		for _, c := range r.Changes {
			shown = append(shown, c.Rev)
		}
		for _, l := range d.Leaves {
			kept = append(kept, l.Rev.String())
		}
		if !slices.Equal(shown, kept) || r.Deleted != d.Deleted() || !bytes.Equal(r.Doc, d.Winner().Body) {
			t.Errorf("%s: the feed shows %v deleted %v %s, the tree has %v deleted %v %s",
				d.ID, shown, r.Deleted, r.Doc, kept, d.Deleted(), d.Winner().Body)
		}
	}
	if n != len(rows) || n != db.Len() {
		t.Errorf("%d rows, %d documents, Len %d", len(rows), n, db.Len())
	}
}

func TestPurge(t *testing.T) {
	s, db := filled(t, 3)
	replicate(t, db, "c", `{"v":"a"}`, "2-a", "1-r")
	replicate(t, db, "c", `{"v":"b"}`, "2-b", "1-r")
	before := db.Seq()
	if gone := db.Purge("d000"); len(gone) != 1 {
		t.Errorf("purged %v", gone)
	}
	if l := changes(t, s, "/db/_changes?since="+before); len(l.Results) != 0 {
		t.Errorf("a purge shows in the feed: %+v", l.Results)
	}
	if gone := db.Purge("c", rev(t, "2-b"), rev(t, "9-none")); len(gone) != 1 {
		t.Errorf("purged %v", gone)
	}
	l := changes(t, s, "/db/_changes?since="+before)
	if len(l.Results) != 1 || l.Results[0].Changes[0].Rev != "2-a" {
		t.Errorf("after the purge of a winner: %+v", l.Results)
	}
	if db.PurgeSeq() != 2 {
		t.Errorf("purge_seq %d", db.PurgeSeq())
	}
	want := `{"purged_infos":[{"id":"d000","revs":["1-083d7391ec71ec717a762c87db469932"]},{"id":"c","revs":["2-b","9-none"]}]}` + "\n"
	var a, b any
	if err := json.Unmarshal([]byte(read(t, s, "/db/_purged_infos")), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if x := read(t, s, "/db/_purged_infos"); len(x) != len(want) {
		t.Errorf("%s", x)
	}
	if r := put(t, db, "d000", `{"again":true}`); r.Gen != 1 {
		t.Errorf("born again as %v", r)
	}
	agree(t, s, db)
}

func TestLogSurvivesManyUpdates(t *testing.T) {
	s, db := filled(t, 0)
	n := 30000
	if testing.Short() {
		n = 12000
	}
	for i := range n { // far more updates than documents: the logs are rewritten on the way
		put(t, db, fmt.Sprint("d", i%100), fmt.Sprintf(`{"n":%d}`, i))
	}
	agree(t, s, db)
	if l := changes(t, s, "/db/_changes?limit=30"); len(l.Results) != 30 || l.Pending != 70 {
		t.Errorf("%d rows, pending %d", len(l.Results), l.Pending)
	}
	page(t, s, 100)
}

func TestHistoryIsStemmed(t *testing.T) {
	s, db := filled(t, 0)
	for i := range 1010 {
		put(t, db, "hot", fmt.Sprintf(`{"n":%d}`, i))
	}
	var d struct {
		Revisions struct {
			Start int
			IDs   []string
		} `json:"_revisions"`
	}
	if err := json.Unmarshal([]byte(read(t, s, "/db/hot?revs=true")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Revisions.Start != 1010 || len(d.Revisions.IDs) != 1000 {
		t.Errorf("start %d, %d ids", d.Revisions.Start, len(d.Revisions.IDs))
	}
}
