package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// tree is what a folder holds: the content of each file by its path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLaterTables reads tables of versions 8 and 9 with every command that reads.
func TestLaterTables(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 1)
	for _, name := range []string{"w120-v8-bucket", "w120-v9-bloom-nomdt", "w120-v9-compaction-pending", "w120-v9-cdc-cow"} {
		t.Run(name, func(t *testing.T) {
			dir, _ := goldenFolder(t, name)
			data, err := os.ReadFile(filepath.Join(dir, "..", "expected.json"))
			if err != nil {
				t.Fatal(err)
			}
			var expected struct {
				Snapshot    []any `json:"snapshot"`
				Incremental []struct {
					Begin, End string
					Rows       []any
				} `json:"incremental"`
				Timeline []struct{ Requested, Action, State string } `json:"timeline"`
			}
			if err := json.Unmarshal(data, &expected); err != nil {
				t.Fatal(err)
			}
			was := tree(t, dir)
			count := func(n int, args ...string) {
				t.Helper()
				if got := strings.TrimSpace(want(t, 0, nil, append([]string{"query", "--table", dir, "--count"}, args...)...)); got != strconv.Itoa(n) {
					t.Errorf("%v: %s rows, want %d", args, got, n)
				}
			}
			count(len(expected.Snapshot))
			for _, i := range expected.Incremental {
				if i.Begin == "000" {
					i.Begin = earliest
				}
				count(len(i.Rows), "--since", i.Begin, "--until", i.End)
			}
			lines := jsonLines(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl"))
			if len(lines) != len(expected.Timeline) {
				t.Fatalf("%d instants, want %d", len(lines), len(expected.Timeline))
			}
			for n, raw := range lines {
				var l instantLine
				if err := json.Unmarshal(raw, &l); err != nil {
					t.Fatal(err)
				}
				w := expected.Timeline[n]
				if l.Instant != w.Requested || l.Action != w.Action || l.State != w.State || (l.State == "COMPLETED") != (l.Completed != "") {
					t.Errorf("%+v, want %+v", l, w)
				}
				if l.Completed != "" && n == len(lines)-1 {
					count(0, "--since", l.Completed) // a commit stands where it completed
				}
			}
			want(t, 0, []string{"_seq_order"}, "schema", "--table", dir)
			want(t, 0, nil, "tail", "--table", dir, "--once", "--since", earliest, "--format", "jsonl", "--fallback", "snapshot")
			all := findings(t, exitFailed, "--source", url, "--table", dir)
			has(t, all, "FAIL table", "can be read and not written")
			has(t, all, "ok table", "version "+name[6:7])
			is := tree(t, dir)
			maps.DeleteFunc(is, func(path, _ string) bool { return strings.Contains(path, "couch2hudi/readers/") }) // where tail stands
			if !maps.Equal(is, was) {
				t.Error("reading has changed the table")
			}
		})
	}
}

// TestLaterTablesAreNotWritten: every command that writes refuses, says what to do,
// and leaves all as it was.
func TestLaterTablesAreNotWritten(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 1)
	for _, name := range []string{"w120-v8-bucket", "w120-v9-bloom-nomdt", "w120-v9-failed-inflight"} {
		dir, _ := goldenFolder(t, name)
		at := firstInstant(t, dir)
		was := tree(t, dir)
		for _, command := range [][]string{{"run", "--source", url, "--once"}, {"clean"}, {"compact"}, {"archive"}, {"rebucket", "--buckets", "8"},
			{"savepoint", "create", "--at", at}, {"restore", "--to", at}, {"rollback", at}} {
			want(t, exitFailed, []string{"version " + name[6:7] + " can be read and not written", "leave its writing to the engine that made it"},
				append(command, "--table", dir)...)
			if !maps.Equal(tree(t, dir), was) {
				t.Fatalf("%s has changed the table", command[0])
			}
		}
	}
}
