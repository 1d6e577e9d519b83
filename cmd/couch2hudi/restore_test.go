package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// TestRestore goes through what docs/operations.md shows: a savepoint, an import that
// went wrong, back to the savepoint, and forward again.
func TestRestore(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 20)
	dir := filepath.Join(t.TempDir(), "table")
	run := func() { want(t, 0, nil, "run", "--once", "--source", url, "--table", dir) }
	put := func(id string) {
		if _, err := db.Put(id, []byte(`{"n":1,"wrong":true}`)); err != nil {
			t.Fatal(err)
		}
	}
	instants := func() (all []instantLine) {
		for line := range strings.Lines(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl")) {
			var l instantLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		return all
	}
	run()
	rows := rowsOf(t, "--table", dir)
	first := instants()[0]
	want(t, 0, []string{"savepoint " + first.Instant, "1 files are kept"}, "savepoint", "create", "--table", dir, "--comment", "before the import")
	want(t, exitFailed, []string{"there is a savepoint already"}, "savepoint", "create", "--table", dir)
	want(t, 0, []string{first.Instant, "before the import", "couch2hudi"}, "savepoint", "list", "--table", dir)
	want(t, 0, []string{"INSTANT", "before the import"}, "savepoint", "list", "--table", dir, "--format", "table")
	for i := range 3 {
		for k := range 10 {
			put(fmt.Sprintf("import %d-%d", i, k))
		}
		run()
	}
	all := instants()
	last := all[len(all)-1].Instant

	planned := want(t, 0, []string{last + " deltacommit would be taken back", "3 writes"}, "restore", "--table", dir, "--to", "before the import", "--dry-run")
	if n := strings.Count(planned, "would be taken back"); n != 3 || len(instants()) != len(all) {
		t.Errorf("%d planned, %d instants, had %d\n%s", n, len(instants()), len(all), planned)
	}
	want(t, 0, []string{last + " deltacommit taken back", "the next run goes on from last_seq " + first.LastSeq}, "restore", "--table", dir, "--to", "before the import")
	same(t, "restored", rowsOf(t, "--table", dir), rows)
	want(t, 0, []string{"as of " + first.Instant + " already"}, "restore", "--table", dir, "--to", first.Instant)
	want(t, 0, []string{"restore to " + first.Instant, `savepoint "before the import"`}, "timeline", "--table", dir, "--format", "table")
	if k := slices.IndexFunc(instants(), func(l instantLine) bool { return l.Action == "restore" }); k < 0 || instants()[k].Extra["to"] != first.Instant || !strings.Contains(instants()[k].Extra["undone"], last) {
		t.Errorf("timeline %+v", instants())
	}

	run()
	if out := want(t, 0, nil, "query", "--table", dir, "--count"); out != "50\n" {
		t.Errorf("count after the replay: %q", out)
	}
	want(t, 0, nil, "restore", "--table", dir, "--to", first.Instant)
	want(t, exitFailed, []string{"a savepoint would be lost"}, "rollback", first.Instant, "--table", dir)
}

func TestRollbackAndSavepointDelete(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 5)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", url, "--table", dir}
	want(t, 0, nil, run...)
	first := firstInstant(t, dir)
	want(t, 0, nil, "savepoint", "create", "--table", dir, "--at", first[:12], "--comment", "a")
	want(t, 0, []string{"is deleted"}, "savepoint", "delete", "a", "--table", dir)
	want(t, exitUsage, []string{"no such instant"}, "savepoint", "delete", "a", "--table", dir)
	want(t, 0, nil, "savepoint", "create", "--table", dir, "--comment", "a")
	want(t, 0, nil, "savepoint", "delete", first, "--table", dir)
	if _, err := db.Put("new", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run...)
	out := want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl")
	var last instantLine
	for line := range strings.Lines(out) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatal(err)
		}
	}
	want(t, exitFailed, []string{"not the newest", "restore"}, "rollback", first, "--table", dir)
	want(t, 0, []string{last.Instant + " deltacommit taken back", "as of " + first, "goes on from last_seq"}, "rollback", last.Instant, "--table", dir)
	if out := want(t, 0, nil, "query", "--table", dir, "--count"); out != "5\n" {
		t.Errorf("count: %q", out)
	}
	want(t, 0, []string{"is empty", "the next run begins at its --since"}, "rollback", first, "--table", dir)
	want(t, exitUsage, []string{"no such instant"}, "rollback", first, "--table", dir)
	want(t, 0, nil, run...)
	if out := want(t, 0, nil, "query", "--table", dir, "--count"); out != "6\n" {
		t.Errorf("count: %q", out)
	}
	// One that a writer left unfinished.
	if err := os.WriteFile(filepath.Join(dir, ".hoodie", "20990101000000000.deltacommit.requested"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{"20990101000000000 deltacommit rolled back"}, "rollback", "20990101000000000", "--table", dir)
}

func TestRestoreUsage(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 2)
	dir := filepath.Join(t.TempDir(), "table")
	want(t, exitFailed, []string{"no table"}, "restore", "--table", dir, "--to", "-1h")
	want(t, exitUsage, []string{"--table"}, "restore", "--to", "-1h")
	want(t, exitUsage, []string{"--to"}, "restore", "--table", dir)
	want(t, exitUsage, []string{"arg"}, "rollback", "--table", dir)
	want(t, exitUsage, []string{"arg"}, "savepoint", "delete", "--table", dir)
	want(t, exitUsage, []string{"unknown"}, "savepoint", "create", "more", "--table", dir)
	want(t, 0, nil, "run", "--once", "--source", url, "--table", dir)
	want(t, exitUsage, []string{"neither the comment of a savepoint nor an instant"}, "restore", "--table", dir, "--to", "the day before")
	want(t, exitUsage, []string{"no commit is as old"}, "restore", "--table", dir, "--to", "2020")
	want(t, exitUsage, nil, "rollback", "yesterday", "--table", dir)

	table, release, err := openLeasedTable(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	at := firstInstant(t, dir)
	for _, args := range [][]string{{"restore", "--to", at}, {"rollback", at}, {"savepoint", "create"}, {"savepoint", "delete", at}} {
		want(t, exitHeld, []string{"another writer holds the table"}, append(args, "--table", dir)...)
	}
	want(t, 0, []string{table.Name()}, "restore", "--table", dir, "--to", at, "--dry-run")
}
