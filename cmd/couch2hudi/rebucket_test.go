package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// TestRebucket: the rows stay, readers of changes notice nothing, and run wants
// the new number.
func TestRebucket(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 50)
	dir := filepath.Join(t.TempDir(), "table")
	run := func(n string) []string {
		return []string{"run", "--once", "--source", url, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd", "--index", "bucket", "--buckets", n}
	}
	rows := func() []string {
		lines := strings.Split(want(t, 0, nil, "query", "--table", dir), "\n")
		for i := range lines { // the file is another one
			if at := strings.Index(lines[i], `"_hoodie_file_name"`); at >= 0 {
				end := at + strings.Index(lines[i][at:], ",")
				lines[i] = lines[i][:at] + lines[i][end:]
			}
		}
		slices.Sort(lines)
		return lines
	}
	want(t, 0, nil, run("4")...)
	before := rows()
	want(t, 0, []string{"shop has 16 buckets now instead of 4", "50 rows", "3 partitions", "start run with --buckets 16"}, "rebucket", "--table", dir, "--buckets", "16")
	if after := rows(); !slices.Equal(before, after) {
		t.Fatalf("rows before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	want(t, 0, []string{"replacecommit", "last_seq"}, "timeline", "--table", dir, "--format", "jsonl")
	want(t, exitUsage, []string{"table.buckets is 16 in commit ", "says 4", "couch2hudi rebucket"}, run("4")...)
	want(t, 0, []string{"16 buckets already"}, "rebucket", "--table", dir, "--buckets", "16")
	for i := range 50 {
		if _, err := db.Put(fmt.Sprintf("d%03d", i), fmt.Appendf(nil, `{"n":%d,"at":"2024-01-0%dT00:00:00Z"}`, i+100, 1+i%4)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, 0, nil, run("16")...)
	if out := want(t, 0, nil, "query", "--table", dir, "--count"); out != "50\n" {
		t.Fatalf("count: %q", out)
	}
	has(t, findings(t, 0, run("16")[2:]...), "ok table.pinned", "")
}

func TestRebucketRefusals(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 2)
	dir := filepath.Join(t.TempDir(), "table")
	want(t, exitFailed, []string{"no table"}, "rebucket", "--table", dir, "--buckets", "4")
	want(t, 0, nil, "run", "--once", "--source", url, "--table", dir)
	want(t, exitUsage, []string{"table.index is bloom"}, "rebucket", "--table", dir, "--buckets", "4")
	want(t, exitUsage, []string{"--buckets"}, "rebucket", "--table", dir)
	want(t, exitUsage, []string{"--table"}, "rebucket", "--buckets", "4")
	for _, n := range []string{"0", "-1", "2049", "many"} {
		want(t, exitUsage, []string{"buckets"}, "rebucket", "--table", dir, "--buckets", n)
	}
	held, release, err := openLeasedTable(t.Context(), dir)
	if err != nil || held.Name() != "shop" {
		t.Fatal(err)
	}
	defer func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	}()
	want(t, exitHeld, []string{"another writer holds the table"}, "rebucket", "--table", dir, "--buckets", "4")
}
