package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestQueryChanges: a line a change in the order of commits, with both rows; spans,
// columns, folders and limits; the file of --out; and what does not go together.
func TestQueryChanges(t *testing.T) {
	dir, first, second := shopTable(t)
	query := func(args ...string) string {
		return want(t, 0, nil, append([]string{"query", "--table", dir, "--changes"}, args...)...)
	}
	type line struct {
		Instant, Op, Key, Partition string
		Before, After               map[string]any
	}
	read := func(out string) (lines []line) {
		for _, text := range jsonLines(out) {
			var l line
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			lines = append(lines, l)
		}
		return lines
	}
	all := read(query())
	if len(all) != 14 || all[0].Op != "i" || all[0].Instant != first.Instant || all[0].Before != nil || all[0].After == nil {
		t.Fatalf("%d changes, %+v", len(all), all[0])
	}
	late := read(query("--since", first.Instant, "--columns", "_rev,n,_deleted"))
	if len(late) != 2 {
		t.Fatalf("%+v", late)
	}
	for _, l := range late {
		if l.Op != "u" || l.Instant != second.Instant || l.Before["_rev"] == l.After["_rev"] || len(l.Before) != 3 {
			t.Errorf("%+v", l)
		}
		if deleted := l.Key == "d003"; l.Before["_deleted"] != false || l.After["_deleted"] != deleted {
			t.Errorf("%+v", l)
		}
	}
	for _, c := range []struct {
		args []string
		n    int
	}{
		{[]string{"--since", second.Instant}, 0}, {[]string{"--since", second.Instant, "--since-inclusive"}, 2},
		{[]string{"--since", "earliest", "--until", first.Instant}, 12}, {[]string{"--limit", "3"}, 3},
		{[]string{"--partition", "20240102", "--since", first.Instant}, 1},
	} {
		if got := read(query(c.args...)); len(got) != c.n {
			t.Errorf("%v: %d changes, want %d", c.args, len(got), c.n)
		}
		if got := strings.TrimSpace(query(append(c.args, "--count")...)); got != strconv.Itoa(c.n) {
			t.Errorf("%v: count %s", c.args, got)
		}
	}
	people := query("--since", first.Instant, "--format", "table")
	if !strings.Contains(people, "n 4 → 400") || !strings.Contains(people, "(2 changes)") {
		t.Errorf("%s", people)
	}
	file := filepath.Join(t.TempDir(), "changes.jsonl")
	if out := query("--out", file); out != "" {
		t.Errorf("printed %s", out)
	}
	if data, err := os.ReadFile(file); err != nil || len(read(string(data))) != 14 {
		t.Errorf("%v: %s", err, data)
	}
	for _, args := range [][]string{{"--as-of", first.Instant}, {"--read-optimized"}, {"--where", "n = 1"}, {"--format", "csv"}, {"--columns", "nosuch"}, {"--since-inclusive"}, {"--limit", "-1"}} {
		want(t, 2, nil, append([]string{"query", "--table", dir, "--changes"}, args...)...)
	}
}
