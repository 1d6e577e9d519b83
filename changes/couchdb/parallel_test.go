package couchdb_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// fill makes a database of documents of every kind.
func fill(t *testing.T, db *couchfake.Database, n int, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	must := func(_ couchfake.Rev, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		id := fmt.Sprintf("doc %d/\"é+\u2028", i)
		body := fmt.Sprintf(`{"n":%d.0,"text":"\u00e9 \"ok\":{","list":[%s1],"pad":%q}`, i, strings.Repeat("[0],", r.IntN(9)), strings.Repeat("x", r.IntN(400)))
		switch r.IntN(12) {
		case 0:
			body = `{"deep":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`
		case 1:
			body = `{"_attachments":{"a.txt":{"content_type":"text/plain","data":"aGVsbG8="}}}`
		case 2:
			id = fmt.Sprintf("_design/d%d", i)
		}
		if i%250 == 100 { // more than one answer may have
			body = fmt.Sprintf(`{"large":%q}`, strings.Repeat("y", 400_000))
		}
		must(db.Put(id, []byte(body)))
		for range r.IntN(3) {
			must(db.Put(id, []byte(body)))
		}
		switch r.IntN(6) {
		case 0:
			must(db.Delete(id))
		case 1:
			for k := range 1 + r.IntN(3) {
				if err := db.Replicate(id, []couchfake.Rev{{Gen: 1 + r.IntN(4), Hash: fmt.Sprintf("%032x", k)}}, []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// everything reads a database to its end.
func everything(t *testing.T, src changes.Source, limit changes.Limit) []changes.Change {
	t.Helper()
	var all []changes.Change
	var at changes.Position
	for {
		b, err := src.Next(t.Context(), at, limit)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b.Changes...)
		if at = b.Last; b.CaughtUp {
			return all
		}
	}
}

// same says in what two readings differ, but for the order of rows, which is free
// between shards, and sequences, of which the feeds were asked for other ones.
func same(t *testing.T, got, want []changes.Change) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d changes, want %d", len(got), len(want))
	}
	for _, list := range [][]changes.Change{got, want} {
		slices.SortFunc(list, func(a, b changes.Change) int { return strings.Compare(a.ID, b.ID) })
	}
	for i := range want {
		g, w := &got[i], &want[i]
		if g.ID != w.ID || g.Rev != w.Rev || !slices.Equal(g.Leaves, w.Leaves) || g.Deleted != w.Deleted || g.Defect != w.Defect || !bytes.Equal(g.Body, w.Body) {
			t.Fatalf("%q: %s %v %t %q %.300q\nwant %s %v %t %q %.300q", g.ID, g.Rev, g.Leaves, g.Deleted, g.Defect, g.Body, w.Rev, w.Leaves, w.Deleted, w.Defect, w.Body)
		}
	}
}

// What is read side by side is what the feed has, byte for byte, whatever fits a batch
// and whatever the server does to an answer.
func TestParallel(t *testing.T) {
	bulk := couchfake.Match{Endpoint: couchfake.BulkGet}
	docs := 700
	if testing.Short() {
		docs = 450
	}
	w := newWorld(t, couchdb.Options{Sleep: options(newServer(t)).Sleep})
	fill(t, w.db, docs, 5)
	plain := w.Open(t)
	defer func() { _ = plain.Close() }()
	want := everything(t, plain, changes.Limit{})
	for _, c := range []struct {
		name  string
		opts  couchdb.Options
		limit changes.Limit
		spoil *couchfake.Spoil
		times int
	}{
		{name: "one batch"},
		{name: "small batches", limit: changes.Limit{Rows: 70}},
		{name: "batches of few bytes", limit: changes.Limit{Bytes: 20_000}},
		{name: "a sequence for every row", opts: couchdb.Options{SeqInterval: 1}, limit: changes.Limit{Bytes: 3_000}},
		{name: "answers too large", limit: changes.Limit{Bytes: 100_000}, opts: couchdb.Options{BatchRows: 400}},
		{name: "no _bulk_get", spoil: &couchfake.Spoil{Status: 404}, times: -1},
		{name: "a busy server", spoil: &couchfake.Spoil{Status: 503}, times: 3},
		{name: "answers that break off", spoil: &couchfake.Spoil{Bytes: 3_000, Cut: true}, times: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := w.server.Control(bulk, couchfake.Spoil{}, -1)
			if c.spoil != nil {
				asked.Cancel()
				asked = w.server.Control(bulk, *c.spoil, c.times)
			}
			defer asked.Cancel()
			c.opts.URL, c.opts.Sleep, c.opts.Heartbeat, c.opts.Parallel = w.opts.URL, w.opts.Sleep, w.opts.Heartbeat, 4
			side, err := couchdb.Open(t.Context(), c.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = side.Close() }()
			same(t, everything(t, side, c.limit), want)
			if asked.Taken() == 0 {
				t.Error("_bulk_get was not asked")
			}
		})
	}
}

// Documents change, come back, are purged and lose their old revisions between the
// listing of their rows and the asking for them: in the end the newest state of each
// was delivered, none of them older than one before.
func TestParallelWhileItChanges(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		w := newWorld(t, couchdb.Options{Sleep: options(newServer(t)).Sleep, Parallel: 3, BatchRows: 150})
		fill(t, w.db, 400, seed)
		r := rand.New(rand.NewPCG(seed, 4))
		var ids []string
		for d := range w.db.Docs() {
			ids = append(ids, d.ID)
		}
		w.server.Control(couchfake.Match{Endpoint: couchfake.BulkGet}, couchfake.Spoil{Call: func() {
			for range 20 {
				id := ids[r.IntN(len(ids))]
				var err error
				if d, ok := w.db.Doc(id); ok && !d.Deleted() && r.IntN(3) == 0 {
					_, err = w.db.Delete(id)
				} else {
					_, err = w.db.Put(id, []byte(`{"changed":true}`))
				}
				if err != nil {
					t.Error(err)
				}
			}
			w.db.Compact()
		}}, 8)
		src := w.Open(t)
		sums, last := map[string]int64{}, map[string]changes.Change{}
		for _, c := range everything(t, src, changes.Limit{}) {
			var sum int64
			for _, leaf := range c.Leaves {
				sum += leaf.Generation
			}
			if c.Defect != "" {
				continue // its next row has it
			}
			if before, known := sums[c.ID]; known && sum < before {
				t.Errorf("seed %d: %q came with %d generations after %d", seed, c.ID, sum, before)
			}
			sums[c.ID], last[c.ID] = sum, c
		}
		for d := range w.db.Docs() {
			if got := last[d.ID]; !strings.HasPrefix(d.ID, "_design/") && (got.Rev.String() != d.Winner().Rev.String() || got.Deleted != d.Deleted()) {
				t.Errorf("seed %d: %q is %s, want %s", seed, d.ID, got.Rev, d.Winner().Rev)
			}
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A reading that is held back pauses for as long as its rows take at that pace, less
// the first second, and asks for no more than a second's at a time.
func TestMaxRowsPerSecond(t *testing.T) {
	const rows, pace = 1000, 50
	var paused time.Duration
	w := newWorld(t, couchdb.Options{MaxRowsPerSecond: pace, Sleep: func(_ context.Context, d time.Duration) error {
		paused += d
		return nil
	}})
	for i := range rows {
		w.Put(t, strconv.Itoa(i), `{}`)
	}
	src := w.Open(t)
	defer func() { _ = src.Close() }()
	if got := everything(t, src, changes.Limit{Rows: 100}); len(got) != rows {
		t.Errorf("%d rows", len(got))
	}
	// Nobody sleeps here, so that what is owed adds up: 1 + 2 + … seconds, at most.
	if least := (rows/pace - 2) * time.Second; paused < least {
		t.Errorf("paused for %s, want %s or more", paused, least)
	}
}

// A copy that lags behind answers what is looked up: its older state is not taken for
// the row that was listed, and the document comes by its revision.
func TestParallelBesideStaleCopy(t *testing.T) {
	w := newWorld(t, couchdb.Options{Sleep: options(newServer(t)).Sleep, Parallel: 2})
	for i := range 30 {
		w.Put(t, strconv.Itoa(i), `{"v":1}`)
		if i%3 == 0 { // a second leaf, so that the row is looked up
			if err := w.db.Replicate(strconv.Itoa(i), []couchfake.Rev{{Gen: 1, Hash: "abc"}}, []byte(`{"v":0}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := w.db.Snapshot()
	for i := range 30 {
		w.Put(t, strconv.Itoa(i), `{"v":2}`)
	}
	w.server.Control(couchfake.Match{Endpoint: couchfake.BulkGet}, couchfake.Spoil{Call: func() { w.db.ServeStale(old) }}, 1)
	src := w.Open(t)
	defer func() { _ = src.Close() }()
	b, err := src.Next(t.Context(), "", changes.Limit{})
	if err != nil || len(b.Changes) != 30 {
		t.Fatalf("%d changes, %v", len(b.Changes), err)
	}
	for _, c := range b.Changes {
		if d, _ := w.db.Doc(c.ID); c.Defect != "" || c.Rev.String() != d.Winner().Rev.String() || !bytes.Contains(c.Body, []byte(`"v":2`)) {
			t.Errorf("%s is %s %s %s, want %s", c.ID, c.Rev, c.Body, c.Defect, d.Winner().Rev)
		}
	}
}
