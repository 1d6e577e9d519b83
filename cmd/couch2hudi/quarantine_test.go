package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestReplayQuarantine: a row without its document is quarantined; when the document is
// to be had again, the command brings it, once.
func TestReplayQuarantine(t *testing.T) {
	server, db, url := shop(t, couchfake.Options{}, 5)
	dir := filepath.Join(t.TempDir(), "t")
	flags := []string{"--source", url, "--table", dir, "--state-dir", "off"}
	with := func(verb string, more ...string) []string { return append(append([]string{verb}, flags...), more...) }
	want(t, 0, nil, with("run", "--once")...)
	has(t, findings(t, 0, flags...), "ok table.quarantine", "no change")
	want(t, 0, []string{"nothing in quarantine"}, with("replay-quarantine")...)

	row := server.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{NullDoc: "d001"}, -1)
	doc := server.Control(couchfake.Match{Endpoint: couchfake.Document}, couchfake.Spoil{Status: 404}, -1)
	if _, err := db.Put("d001", []byte(`{"n":100}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{`"quarantined":1`}, with("run", "--once", "--log-format", "json")...)
	has(t, findings(t, 0, flags...), "warn table.quarantine", "d001")
	want(t, 0, []string{"1 quarantined changes", "1 broken still; 0 commits", "not to be had"}, with("replay-quarantine")...)
	row.Cancel()
	doc.Cancel()

	before := state(t, dir)
	want(t, 0, []string{"would be (nothing was written)", "1 applied"}, with("replay-quarantine", "--dry-run")...)
	if state(t, dir) != before {
		t.Error("a dry run wrote something")
	}
	out := want(t, 0, nil, with("replay-quarantine", "--format", "jsonl")...)
	if strings.TrimSpace(out) != `{"changes":1,"applied":1,"older":0,"elsewhere":0,"gone":0,"broken":0,"commits":1}` {
		t.Error(out)
	}
	want(t, 0, []string{`"n":100`}, "query", "--table", dir, "--format", "jsonl", "--where", "_id = 'd001'")
	want(t, 0, []string{"nothing in quarantine"}, with("replay-quarantine")...)
	has(t, findings(t, 0, flags...), "ok table.quarantine", "no change")

	want(t, 2, []string{"--format takes text or jsonl"}, with("replay-quarantine", "--format", "xml")...)
	want(t, 2, []string{"quarantine.max_share"}, "run", "-c", filterConfig(t, url, dir, "batch_rows: 5\nquarantine: {max_share: 2}"))
	d, err := file.New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	held, err := table.Open(t.Context(), storage.New(d, nil), table.Options{Location: dir})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := held.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Close() }()
	want(t, 5, nil, with("replay-quarantine")...)
	want(t, 0, []string{"nothing in quarantine"}, with("replay-quarantine", "--dry-run")...)
}

// With several tables the quarantine of each is tried.
func TestReplayQuarantines(t *testing.T) {
	_, file, _ := zoo(t)
	want(t, 0, nil, "run", "-c", file, "--once")
	out := want(t, 0, nil, "replay-quarantine", "-c", file)
	for _, name := range []string{"cats", "dogs", "insects"} {
		if !strings.Contains(out, name+": nothing in quarantine") {
			t.Errorf("no line for %s: %s", name, out)
		}
	}
	out = want(t, 0, nil, "replay-quarantine", "-c", file, "--dry-run", "--format", "jsonl")
	if lines := jsonLines(out); len(lines) != 3 || !strings.Contains(string(lines[1]), `"table":"dogs"`) {
		t.Error(out)
	}
}
