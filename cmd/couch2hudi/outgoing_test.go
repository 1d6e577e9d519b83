package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// TestOutgoingBesideStaleCopy: what leaves by a topic or by bundles while the feed goes
// back, is cut and shows the past, makes the same table as the database itself.
func TestOutgoingBesideStaleCopy(t *testing.T) {
	server, db, url := shop(t, couchfake.Options{}, 200)
	_, _, topic := topic(t, "other", 1)
	dir := t.TempDir()
	folder := "ndjson://" + filepath.Join(dir, "outbox")
	topic = strings.TrimSuffix(topic, "other") + "shop"
	ways := []struct{ out, in []string }{
		{[]string{"produce", "--once", "--source", url, "--to", topic, "--partitions", "3"}, []string{"run", "--once", "--source", topic, "--table", filepath.Join(dir, "topic")}},
		{[]string{"export", "--once", "--source", url, "--to", folder, "--bundle-bytes", "4KiB"}, []string{"run", "--once", "--source", folder, "--state-dir", "off", "--table", filepath.Join(dir, "bundles")}},
	}
	direct := filepath.Join(dir, "direct")
	carry := func(what string, same bool) {
		t.Helper()
		for _, way := range ways {
			want(t, exitDone, nil, way.out...)
			want(t, exitDone, nil, way.in...)
			if !same {
				continue
			}
			want(t, exitDone, nil, "run", "--once", "--source", url, "--table", direct, "--state-dir", "off")
			if got, want := statesOf(t, way.in[len(way.in)-1]), statesOf(t, direct); got != want {
				t.Errorf("%s, by %s:\n%s\nwant\n%s", what, way.out[0], got, want)
			}
		}
	}
	carry("at first", true)
	past := db.Snapshot()
	for i := range 100 {
		id := slices.Collect(db.Docs())[i].ID
		if _, err := db.Put(id, []byte(`{"n":-1}`)); err != nil {
			t.Fatal(err)
		}
	}
	carry("changed", true)
	before := statesOf(t, direct)
	db.ServeStale(past)
	db.FailOver()
	feed := couchfake.Match{Endpoint: couchfake.Changes}
	orders := []*couchfake.Order{server.Control(feed, couchfake.Spoil{Rows: 30, Call: db.FailOver, Cut: true}, 2),
		server.Control(feed, couchfake.Spoil{Bytes: 3000, Cut: true}, 2)}
	carry("beside a stale copy", false)
	for _, way := range ways {
		if got := statesOf(t, way.in[len(way.in)-1]); got != before {
			t.Errorf("beside a stale copy, by %s:\n%s\nwant\n%s", way.out[0], got, before)
		}
	}
	for i, o := range orders {
		if o.Fired() == 0 {
			t.Errorf("order %d was never met", i)
		}
	}
	db.Heal()
	if _, err := db.Put("last", []byte(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	carry("healed", true)
	// Each may be compared with the database itself, and repaired from it.
	if _, err := db.Put("gone", []byte(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	carry("once more", true)
	db.Purge("gone") // of which no table is told
	for _, name := range []string{"topic", "bundles", "direct"} {
		verify := []string{"verify", "--pause", "0", "--source", url, "--table", filepath.Join(dir, name)}
		want(t, exitDiffers, []string{"extra", "gone", "equal", "201"}, verify...)
		want(t, exitDone, []string{"repaired"}, append(verify, "--repair")...)
		want(t, exitDone, []string{"equal", "201"}, verify...)
	}
}

// TestOutgoingRecreated: another database in the place of the one that leaves, while
// its feed is open, ends it with 3.
func TestOutgoingRecreated(t *testing.T) {
	_, _, topic := topic(t, "other", 1)
	topic = strings.TrimSuffix(topic, "other") + "shop"
	for _, to := range []string{"produce " + topic, "export ndjson://" + filepath.Join(t.TempDir(), "outbox")} {
		verb, to, _ := strings.Cut(to, " ")
		server, db, url := shop(t, couchfake.Options{}, 20)
		order := server.Control(couchfake.Match{Endpoint: couchfake.Changes, Feed: "continuous"}, couchfake.Spoil{Rows: 1, Cut: true, Call: func() {
			if _, err := server.Recreate("shop"); err != nil {
				t.Error(err)
			}
		}}, 1)
		ended := make(chan int, 1)
		var errs string
		go func() {
			code, _, said := callCtx(t.Context(), verb, "--source", url, "--to", to)
			errs = said
			ended <- code
		}()
		waitFor(t, "the open feed", func() bool { return order.Taken() == 1 || len(ended) > 0 })
		if _, err := db.Put("d001", []byte(`{"n":-1}`)); err != nil {
			t.Fatal(err)
		}
		select {
		case code := <-ended:
			if code != exitRecreated || !strings.Contains(errs, "created") {
				t.Errorf("%s ends with %d: %s", verb, code, errs)
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("%s goes on", verb)
		}
	}
}
