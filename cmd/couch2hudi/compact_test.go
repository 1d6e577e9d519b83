package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// rowsOf are the lines of a query without the files' names, sorted.
func rowsOf(t *testing.T, args ...string) []string {
	t.Helper()
	lines := strings.Split(want(t, 0, nil, append([]string{"query", "--format", "jsonl"}, args...)...), "\n")
	for i := range lines { // the file is another one
		if at := strings.Index(lines[i], `"_hoodie_file_name"`); at >= 0 {
			end := at + strings.Index(lines[i][at:], ",")
			lines[i] = lines[i][:at] + lines[i][end:]
		}
	}
	slices.Sort(lines)
	return lines
}

// same fails with the first line that differs.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d lines, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got[i], want[i])
		}
	}
}

// TestCompact: the rows stay, read-optimized rows become those of now, beside a
// run as well as without one.
func TestCompact(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 50)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", url, "--table", dir, "--compaction", "off"}
	change := func(text string) {
		t.Helper()
		for _, id := range []string{"d001", "d002", "d003"} {
			if _, err := db.Put(id, []byte(`{"n":"`+text+`"}`)); err != nil {
				t.Fatal(err)
			}
		}
		want(t, 0, nil, run...)
	}
	want(t, 0, nil, run...)
	change("one")
	change("two")
	want(t, 0, []string{"planned"}, "compact", "--table", dir, "--schedule")
	change("three") // on top of what is planned
	before, since := rowsOf(t, "--table", dir), rowsOf(t, "--table", dir, "--since", "earliest")
	want(t, 0, []string{"compacted: 2 log files of 1 file groups"}, "compact", "--table", dir, "--execute")
	want(t, 0, []string{"nothing to compact"}, "compact", "--table", dir, "--execute")
	same(t, "snapshot", rowsOf(t, "--table", dir), before)
	want(t, 0, []string{"planned", "compacted: 1 log files"}, "compact", "--table", dir)
	same(t, "snapshot", rowsOf(t, "--table", dir), before)
	same(t, "read-optimized", rowsOf(t, "--table", dir, "--read-optimized"), before)
	same(t, "since", rowsOf(t, "--table", dir, "--since", "earliest"), since)
	change("four")
}

// TestRunCompacts: run does it by itself, and --once waits for its end.
func TestRunCompacts(t *testing.T) {
	for _, mode := range []string{"async", "inline"} {
		_, db, url := shop(t, couchfake.Options{}, 50)
		dir := filepath.Join(t.TempDir(), "table")
		for _, m := range []string{"off", mode} {
			if _, err := db.Put("d001", []byte(`{"n":"`+m+`"}`)); err != nil {
				t.Fatal(err)
			}
			want(t, 0, nil, "run", "--once", "--source", url, "--table", dir, "--compaction", m, "--compact-after", "1")
		}
		if n := strings.Count(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl"), `"action":"commit","state":"COMPLETED"`); n != 1 {
			t.Errorf("%s: %d compactions", mode, n)
		}
		same(t, mode, rowsOf(t, "--table", dir, "--read-optimized"), rowsOf(t, "--table", dir))
	}
}

func TestCompactUsage(t *testing.T) {
	want(t, 2, []string{"--table is missing"}, "compact")
	want(t, 2, []string{"exclude each other"}, "compact", "--table", "x", "--schedule", "--execute")
	want(t, 1, []string{"no table"}, "compact", "--table", t.TempDir())
	want(t, 2, []string{"compaction.mode"}, "run", "--source", "http://localhost/x", "--table", t.TempDir(), "--compaction", "now")
}
