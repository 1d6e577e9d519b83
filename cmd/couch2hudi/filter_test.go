package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// filterConfig writes a config file with a filter.
func filterConfig(t *testing.T, source, table, rest string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := fmt.Sprintf("source:\n  url: %s\n  %s\ntable:\n  url: %s\nstate_dir: off\nlog: {format: json}\n", source, rest, table)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFilterOfRun: a filter makes the table, a changed one is warned of until a replay
// has applied it, and one that cannot be read names the place.
func TestFilterOfRun(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 6)
	dir := filepath.Join(t.TempDir(), "t")
	ids := func() string {
		var all []string
		for _, line := range jsonLines(want(t, 0, nil, "query", "--table", dir, "--columns", "_id", "--format", "jsonl")) {
			var row struct {
				ID string `json:"_id"`
			}
			if err := json.Unmarshal(line, &row); err != nil {
				t.Fatal(err)
			}
			all = append(all, row.ID)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	first := filterConfig(t, url, dir, `filter: n >= 2`)
	_, _, log := call(t, "run", "-c", first, "--once")
	if strings.Contains(log, "another filter") || ids() != "d002 d003 d004 d005" {
		t.Fatalf("a new table has %s: %s", ids(), log)
	}
	has(t, findings(t, 0, "-c", first), "ok table.filter", "n >= 2")

	second := filterConfig(t, url, dir, `filter: n < 3`)
	has(t, findings(t, 0, "-c", second), "warn table.filter", "run --replay")
	want(t, 0, []string{"came through another filter", "run --replay"}, "run", "-c", second, "--once")
	if ids() != "d002 d003 d004 d005" {
		t.Error("rows without a change:", ids())
	}
	want(t, 0, nil, "run", "-c", second, "--replay")
	if ids() != "d000 d001 d002" {
		t.Error("the replay left", ids())
	}
	has(t, findings(t, 0, "-c", second), "ok table.filter", "n < 3")

	broken := filterConfig(t, url, dir, `filter: n <`)
	for _, verb := range []string{"run", "check"} {
		want(t, 2, []string{"source.filter", "line 1, column"}, verb, "-c", broken)
	}
	want(t, 2, []string{"source.selector"}, "run", "-c", filterConfig(t, url, dir, `selector: "[1]"`))
	selected := filterConfig(t, url, dir, `selector: '{"n":1}'`)
	has(t, findings(t, 1, "--timeout", "200ms", "-c", selected), "warn source.selector", "deletions")
}
