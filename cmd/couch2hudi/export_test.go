package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// statesOf are a table's rows of a snapshot, without Hudi's meta columns.
func statesOf(t *testing.T, table string) string {
	t.Helper()
	return want(t, 0, nil, "query", "--table", table, "--include-deleted", "--columns", "_id,_rev,_rev_order,_deleted,_leaves,n,_doc", "--format", "csv")
}

// carried copies the files of one folder to another, as rsync would.
func carried(t *testing.T, from, to string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(from, "bundle-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		data, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(n)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A database comes across the gap as if it had been followed itself.
func TestExportAndRun(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 40)
	dir := t.TempDir()
	direct, across, inbox, outbox := filepath.Join(dir, "direct"), filepath.Join(dir, "across"), filepath.Join(dir, "inbox"), filepath.Join(dir, "outbox")
	if err := os.Mkdir(inbox, 0o700); err != nil {
		t.Fatal(err)
	}
	export := []string{"export", "--once", "--source", url, "--to", "ndjson://" + outbox, "--bundle-bytes", "1KiB"}
	run := []string{"run", "--once", "--source", "ndjson://" + inbox + "?consumed=delete", "--table", across, "--state-dir", "off"}
	want(t, 0, []string{"committed"}, "run", "--once", "--source", url, "--table", direct, "--state-dir", "off")
	want(t, 0, []string{"has not come"}, run...)
	want(t, 0, []string{"exported", "last_seq"}, export...)
	carried(t, outbox, inbox)
	want(t, 0, []string{"committed"}, run...)
	check := func() {
		t.Helper()
		want(t, 0, nil, "run", "--once", "--source", url, "--table", direct, "--state-dir", "off")
		if got, want := statesOf(t, across), statesOf(t, direct); got != want {
			t.Errorf("across\n%s\ndirect\n%s", got, want)
		}
	}
	check()
	if _, err := db.Delete("d003"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Put("d004", []byte(`{"n":400,"at":"2024-01-09T00:00:00Z"}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, export...)
	if left, _ := filepath.Glob(filepath.Join(inbox, "bundle-*")); len(left) > 0 {
		t.Errorf("consumed bundles stay: %v", left)
	}
	carried(t, outbox, inbox) // those of the first time again, too
	want(t, 0, nil, run...)
	check()
	out := want(t, 0, nil, "timeline", "--table", across, "--format", "jsonl")
	if !strings.Contains(out, `"last_seq":"42-`) || !strings.Contains(out, `kind\":\"ndjson\"`) || !strings.Contains(out, `folder\":\"inbox\"`) {
		t.Errorf("the timeline has no last_seq 42-…: %s", out)
	}
	want(t, 0, []string{"ndjson", "goes on from commit"}, "check", "--source", "ndjson://"+inbox, "--table", across)
	brokenChain(t, run, db, export, outbox, inbox)
}

// brokenChain: what is not the chain that was begun ends with 4 and its name.
func brokenChain(t *testing.T, run []string, db *couchfake.Database, export []string, outbox, inbox string) {
	t.Helper()
	for i := range 40 {
		if _, err := db.Put(fmt.Sprintf("new%03d", i), []byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := filepath.Glob(filepath.Join(outbox, "bundle-*.manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, export...)
	carried(t, outbox, inbox)
	missing := fmt.Sprintf("bundle-%010d.manifest.json", len(out)+1)
	if err := os.Remove(filepath.Join(inbox, missing)); err != nil {
		t.Fatal(err)
	}
	want(t, exitGone, []string{missing, "is missing", "broken"}, run...)
	want(t, 0, []string{"source.gap", missing}, "check", "--source", "ndjson://"+inbox, "--table", run[5])
	carried(t, outbox, inbox)
	want(t, 0, nil, run...)
	other := t.TempDir()
	want(t, exitUsage, []string{"ndjson:///folder"}, "export", "--once", "--source", export[3], "--to", "file://"+other)
	want(t, exitUsage, []string{"only CouchDB"}, "export", "--once", "--source", "ndjson://"+inbox, "--to", "ndjson://"+other)
	want(t, exitUsage, []string{"--to"}, "export", "--once", "--source", export[3])
	want(t, exitUsage, []string{"consumed=drop"}, "run", "--once", "--source", "ndjson://"+inbox+"?consumed=drop", "--table", other+"/t")
	want(t, exitFailed, []string{"no-such-folder"}, "run", "--once", "--source", "ndjson://"+other+"/no-such-folder", "--table", other+"/t")
}

// A database that was created again does not go on in the chain of the old one: it
// comes in a folder of its own, and into the same table when that is asked for.
func TestExportRecreated(t *testing.T) {
	server, _, url := shop(t, couchfake.Options{}, 10)
	dir := t.TempDir()
	table, file := filepath.Join(dir, "table"), filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("source: {name: shop}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	export := func(code int, to string) {
		t.Helper()
		want(t, code, nil, "export", "--once", "--source", url, "--to", "ndjson://"+filepath.Join(dir, to))
	}
	run := func(code int, words, from string, args ...string) {
		t.Helper()
		want(t, code, []string{words}, append([]string{"run", "--once", "-c", file, "--source", "ndjson://" + filepath.Join(dir, from), "--table", table, "--state-dir", "off"}, args...)...)
	}
	export(0, "first")
	run(0, "committed", "first")
	db, err := server.Recreate("shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"d001", "other"} {
		if _, err := db.Put(id, []byte(`{"n":-1}`)); err != nil {
			t.Fatal(err)
		}
	}
	export(exitRecreated, "first")
	export(0, "second")
	run(exitRecreated, "--accept-recreated", "second")
	run(0, "committed", "second", "--accept-recreated")
	// The database itself is reached here, and may be compared with and repaired from.
	verify := []string{"verify", "--source", url, "--table", table}
	want(t, 0, nil, verify...)
	want(t, 0, nil, append(verify, "-c", file)...)
	if _, err := db.Put("late", []byte(`{"n":-1}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{"moving"}, verify...)
	if _, err := db.Delete("late"); err != nil {
		t.Fatal(err)
	}
	before := want(t, 0, nil, "timeline", "--table", table, "--format", "jsonl")
	db.Purge("other", revOf(t, db, "other"))
	want(t, exitDiffers, []string{"extra", `"other"`}, verify...)
	want(t, 0, []string{"repaired"}, append(verify, "--repair")...)
	after := want(t, 0, nil, "timeline", "--table", table, "--format", "jsonl")
	if b, a := positions(t, before), positions(t, after); len(a) != len(b)+1 || a[len(a)-1] != b[len(b)-1] {
		t.Errorf("the repair's position is\n%s\nafter\n%s", a[len(a)-1], b[len(b)-1])
	}
	run(0, "", "second")
	if _, err := db.Put("other", []byte(`{"n":-1}`)); err != nil {
		t.Fatal(err)
	}
	export(0, "second")
	run(0, "committed", "second")
	if out := want(t, 0, nil, "query", "--table", table, "--columns", "_id,n", "--format", "csv"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "d001,-1") || !strings.Contains(out, "other,-1") {
		t.Errorf("the table is\n%s", out)
	}
}

// positions are where the commits of a timeline say that they are.
func positions(t *testing.T, timeline string) (all []string) {
	t.Helper()
	for line := range strings.Lines(timeline) {
		var i instantLine
		if err := json.Unmarshal([]byte(line), &i); err != nil {
			t.Fatal(err)
		}
		all = append(all, i.LastSeq+" "+i.Extra["couch2hudi.checkpoint"])
	}
	return all
}

func revOf(t *testing.T, db *couchfake.Database, id string) couchfake.Rev {
	t.Helper()
	d, ok := db.Doc(id)
	if !ok {
		t.Fatalf("no document %s", id)
	}
	return d.Winner().Rev
}

// Plain files need a table that orders by generation, and that table no other.
func TestRunPlainFiles(t *testing.T) {
	dir := t.TempDir()
	inbox, table, file := filepath.Join(dir, "inbox"), filepath.Join(dir, "table"), filepath.Join(dir, "c.yaml")
	if err := os.Mkdir(inbox, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(inbox, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	write("1.ndjson", `{"_id":"a","_rev":"1-a","n":1}`+"\n"+`{"_id":"b","_rev":"1-b","n":2}`+"\n")
	if err := os.WriteFile(file, []byte("table:\n  ordering: generation\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := "ndjson://" + inbox + "?format=plain"
	want(t, exitUsage, []string{"table.ordering: generation"}, "run", "--once", "--source", source, "--table", table)
	if err := os.RemoveAll(table); err != nil {
		t.Fatal(err)
	}
	run := []string{"run", "--once", "-c", file, "--source", source, "--table", table, "--state-dir", "off"}
	want(t, 0, []string{"committed"}, run...)
	write("2.ndjson", `{"_id":"a","_rev":"2-a","_deleted":true}`+"\n"+`{"id":"b","seq":"9-x","changes":[{"rev":"10-b"}],"doc":{"_id":"b","n":3}}`+"\n")
	want(t, 0, []string{"committed"}, run...)
	out := want(t, 0, nil, "query", "--table", table, "--include-deleted", "--columns", "_id,_rev_order,_deleted,n", "--format", "csv")
	if !strings.Contains(out, "a,2,true,") || !strings.Contains(out, "b,10,false,3") {
		t.Errorf("the table is\n%s", out)
	}
	_, _, url := shop(t, couchfake.Options{}, 1)
	want(t, exitUsage, []string{"table.ordering is generation"}, "run", "--once", "--source", url, "--table", table, "--state-dir", "off")
}

// An export that is told to stop puts what it has read into a bundle.
func TestExportFollows(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 3)
	outbox := filepath.Join(t.TempDir(), "outbox")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		code, _, errs := callCtx(ctx, "export", "--source", url, "--to", "ndjson://"+outbox, "--bundle-interval", "20ms")
		ended <- fmt.Sprint(code, errs)
	}()
	bundles := func(n int) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if found, _ := filepath.Glob(filepath.Join(outbox, "*.manifest.json")); len(found) >= n {
				return
			}
		}
		t.Fatalf("bundle %d never came", n)
	}
	bundles(1)
	if _, err := db.Put("late", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	bundles(2)
	cancel()
	if got := <-ended; !strings.HasPrefix(got, "0") {
		t.Error(got)
	}
}

// What was purged in the database is gone on the other side too, whole documents and
// winners; a document that was made again after its purge is what it is now.
func TestExportPurges(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 10)
	dir := t.TempDir()
	folder, table, file := filepath.Join(dir, "outbox"), filepath.Join(dir, "table"), filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("source: {name: shop}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cross := func() {
		t.Helper()
		want(t, 0, nil, "export", "--once", "--source", url, "--to", "ndjson://"+folder)
		want(t, 0, nil, "run", "--once", "-c", file, "--source", "ndjson://"+folder, "--table", table, "--state-dir", "off")
	}
	edit := func(id, body string) {
		t.Helper()
		if _, err := db.Put(id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"d001", "d002", "d003"} {
		edit(id, `{"n":-1}`)
	}
	cross()
	// The table is compared with the database itself, which this test can reach.
	verify := []string{"verify", "--source", url, "--table", table, "-c", file}
	want(t, 0, nil, verify...)
	for _, id := range []string{"d001", "d002", "d003"} {
		db.Purge(id, revOf(t, db, id))
	}
	edit("d002", `{"n":-2}`)
	want(t, exitDiffers, []string{`"d001"`}, verify...)
	cross()
	want(t, 0, nil, verify...)
	if out := want(t, 0, nil, "query", "--table", table, "--columns", "_id,n", "--format", "csv"); strings.Contains(out, "d001") || !strings.Contains(out, "d002,-2") {
		t.Errorf("the table is\n%s", out)
	}
	edit("d001", `{"n":-3}`)
	cross()
	want(t, 0, nil, verify...)
}
