package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// goldenFolder unpacks a table that real Hudi wrote and returns its folder and
// what Hudi read back as of each instant, still encoded.
func goldenFolder(t *testing.T, name string) (dir string, timeTravel map[string]json.RawMessage) {
	t.Helper()
	z, err := zip.OpenReader(filepath.Join("..", "..", "testdata", "golden", name+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	dir = t.TempDir()
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if f.Name == "expected.json" {
			var want struct {
				TimeTravel map[string]json.RawMessage `json:"time_travel"`
			}
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			timeTravel = want.TimeTravel
		}
	}
	if len(timeTravel) == 0 {
		t.Fatalf("%s: no time travel expected", name)
	}
	return filepath.Join(dir, "table"), timeTravel
}

// decodeRows are rows sorted by key.
func decodeRows(t *testing.T, lines []json.RawMessage) []map[string]any {
	t.Helper()
	rows := make([]map[string]any, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal(line, &rows[i]); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	key := func(r map[string]any) string { s, _ := r["_hoodie_record_key"].(string); return s }
	slices.SortFunc(rows, func(a, b map[string]any) int { return cmp.Compare(key(a), key(b)) })
	return rows
}

func jsonLines(out string) (lines []json.RawMessage) {
	for l := range strings.Lines(out) {
		lines = append(lines, json.RawMessage(strings.TrimSpace(l)))
	}
	return lines
}

// The rows as of each instant are those that Hudi gave.
func TestAsOfGolden(t *testing.T) {
	for _, name := range []string{"bloom-nomdt", "bloom", "nonpartitioned", "hive-style", "compaction-pending", "global-bloom-move", "compaction-clean"} {
		t.Run(name, func(t *testing.T) {
			dir, timeTravel := goldenFolder(t, "w015-v6-"+name)
			for at, raw := range timeTravel {
				if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
					continue // Hudi refused
				}
				var lines []json.RawMessage
				if err := json.Unmarshal(raw, &lines); err != nil {
					t.Fatal(err)
				}
				expected := decodeRows(t, lines)
				got := decodeRows(t, jsonLines(want(t, 0, nil, "query", "--table", dir, "--as-of", at, "--format", "jsonl")))
				if len(got) != len(expected) {
					t.Fatalf("as of %s: %d rows, want %d", at, len(got), len(expected))
				}
				for i := range expected {
					for column, value := range expected[i] {
						if !reflect.DeepEqual(got[i][column], value) {
							t.Fatalf("as of %s, row %d: %s is %v, want %v", at, i, column, got[i][column], value)
						}
					}
				}
			}
		})
	}
}

// What a cleaner took away is said to be gone, with where to begin instead.
func TestAsOfCleaned(t *testing.T) {
	dir, _ := goldenFolder(t, "w015-v6-compaction-clean")
	want(t, exitGone, []string{"cleaned", "begin at"}, "query", "--table", dir, "--as-of", firstInstant(t, dir))
}

func firstInstant(t *testing.T, dir string) string {
	t.Helper()
	var first instantLine
	line, _, _ := strings.Cut(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl"), "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		t.Fatal(err)
	}
	return first.Instant
}

// A table that we write: each commit's state comes back, and before the first
// one there is nothing, with the columns of today.
func TestAsOfOwn(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 4)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", url, "--table", dir}
	want(t, 0, nil, run...)
	if _, err := db.Put("d001", []byte(`{"n":100,"late":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Delete("d002"); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run...)
	first := firstInstant(t, dir)
	query := func(more ...string) string {
		return want(t, 0, nil, append([]string{"query", "--table", dir}, more...)...)
	}
	old := query("--as-of", first)
	if strings.Count(old, "\n") != 4 || strings.Contains(old, `"late"`) || !strings.Contains(old, `"n":1,`) {
		t.Fatalf("as of the first commit:\n%s", old)
	}
	if day := query("--as-of", first[:8], "--count"); day != "3\n" {
		t.Fatalf("as of the end of the day: %s", day)
	}
	if n := query("--as-of", "2001", "--count"); n != "0\n" {
		t.Fatalf("before the first commit: %s", n)
	}
	if out := query("--as-of", "2001", "--format", "table"); !strings.Contains(out, "(0 rows)") {
		t.Fatalf("before the first commit:\n%s", out)
	}
	if out := query("--as-of", "2001", "--columns", "late"); out != "" {
		t.Fatalf("a column of today before the first commit:\n%s", out)
	}
	want(t, exitUsage, []string{"no column"}, "query", "--table", dir, "--as-of", "2001", "--columns", "nonsense")
	want(t, exitUsage, []string{"--as-of"}, "query", "--table", dir, "--as-of", "2001", "--since", "2000")
	want(t, exitUsage, []string{"--as-of"}, "query", "--table", dir, "--as-of", "yesterday")
	// With an archive nobody knows what there was.
	archive := filepath.Join(dir, ".hoodie", "archived")
	if err := os.MkdirAll(archive, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(archive, ".commits_.archive.1_1-0-1"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitGone, []string{"archived"}, "query", "--table", dir, "--as-of", "2001")
}
