package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// A table of 26 commits is cleaned and archived: rows and the young past stay, the
// old past says where to begin, and a run goes on.
func TestCleanAndArchive(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 20)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", url, "--table", dir, "--compaction", "off"}
	want(t, 0, nil, run...)
	for n := range 24 {
		if _, err := db.Put("d001", fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
			t.Fatal(err)
		}
		want(t, 0, nil, run...)
		if n%8 == 7 {
			want(t, 0, []string{"compacted"}, "compact", "--table", dir)
		}
	}
	tail := func() []instantLine {
		t.Helper()
		var list []instantLine
		for line := range strings.Lines(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl")) {
			var l instantLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			list = append(list, l)
		}
		return list
	}
	all := tail()
	young := all[len(all)-4].Instant
	read := func() map[string][]string {
		t.Helper()
		return map[string][]string{"now": rowsOf(t, "--table", dir), "since": rowsOf(t, "--table", dir, "--since", young), "as of": rowsOf(t, "--table", dir, "--as-of", young)}
	}
	check := func(what string, before map[string][]string) {
		t.Helper()
		for how, rows := range read() {
			same(t, what+": "+how, rows, before[how])
		}
	}
	before := read()

	want(t, 0, []string{nothingToClean}, "clean", "--table", dir)
	want(t, 0, []string{"changes can be read from the beginning on"}, "timeline", "--table", dir)
	dry := want(t, 0, []string{"would be deleted", ".parquet", ".log."}, "clean", "--table", dir, "--policy", "commits", "--keep", "6", "--dry-run")
	want(t, 0, []string{"cleaned: " + strconv.Itoa(strings.Count(dry, "\n")-1) + " files", "as of "}, "clean", "--table", dir, "--policy", "commits", "--keep", "6")
	want(t, 0, []string{nothingToClean}, "clean", "--table", dir, "--policy", "commits", "--keep", "6", "--dry-run")
	check("cleaned", before)
	oldest := ""
	for _, l := range tail() {
		if l.Since && oldest == "" {
			oldest = l.Instant
		} else if !l.Since && oldest != "" && l.Action != "clean" {
			t.Errorf("changes can be read after %s, and not after %s", oldest, l.Instant)
		}
	}
	want(t, 0, []string{"changes can be read after " + oldest}, "timeline", "--table", dir, "--format", "table")
	want(t, 0, []string{"table.reach", "changes can be read after " + oldest}, "check", "--source", url, "--table", dir)
	want(t, 0, nil, "query", "--table", dir, "--since", oldest)

	want(t, 0, []string{nothingToArchive}, "archive", "--table", dir)
	want(t, 0, []string{"would be archived", all[0].Instant + " deltacommit completed"}, "archive", "--table", dir, "--keep-min", "20", "--keep-max", "21", "--dry-run")
	want(t, 0, []string{"8 instants up to " + all[7].Instant + " archived"}, "archive", "--table", dir, "--keep-min", "20", "--keep-max", "21")
	want(t, 0, []string{nothingToArchive}, "archive", "--table", dir, "--keep-min", "20", "--keep-max", "21")
	check("archived", before)
	if got := tail(); len(got) != 21 || slices.ContainsFunc(got, func(l instantLine) bool { return l.Archived }) {
		t.Errorf("%d instants: %+v", len(got), got[0])
	}
	whole := want(t, 0, []string{`"archived":true`, `"last_seq"`}, "timeline", "--table", dir, "--format", "jsonl", "--all")
	if n := strings.Count(whole, "\n"); n != len(all)+1 {
		t.Errorf("%d instants with the archive, want %d and the clean", n, len(all))
	}

	for _, args := range [][]string{{"--as-of", all[0].Instant}, {"--as-of", all[9].Instant}, {"--since", "earliest", "--until", all[3].Instant}} {
		code, _, errs := call(t, append([]string{"query", "--table", dir}, args...)...)
		named := regexp.MustCompile(`begin at (\d+) or later`).FindStringSubmatch(errs)
		if code != exitGone || named == nil {
			t.Fatalf("%q: exit %d: %s", args, code, errs)
		}
		args[1] = named[1]
		want(t, 0, nil, append([]string{"query", "--table", dir}, args...)...)
	}
	if _, err := db.Put("d001", []byte(`{"n":"after"}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{"committed", `"rows":1`}, run...)
	want(t, 0, []string{`after`}, "query", "--table", dir, "--format", "jsonl")
	for _, args := range [][]string{{"clean"}, {"clean", "--table", dir, "--policy", "all"}, {"clean", "--table", dir, "--retain", "-1s"},
		{"archive"}, {"archive", "--table", dir, "--keep-min", "3"}, {"archive", "--table", dir, "--keep-min", "30", "--keep-max", "30"}} {
		want(t, exitUsage, nil, args...)
	}
}
