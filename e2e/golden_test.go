//go:build oracle

package e2e

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEnginesAgreeWithGolden asks each engine about tables that real Hudi wrote,
// and whose right answers are known. It proves the harness: whatever the engines
// then say of our own tables is theirs, not an error of the asking.
func TestEnginesAgreeWithGolden(t *testing.T) {
	for _, start := range engines() {
		e := mustEngine(t, start)
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range []string{"w015-v6-bloom-nomdt", "w015-v6-global-bloom-move"} {
				t.Run(name, func(t *testing.T) { checkGolden(t, e, name) })
			}
		})
	}
}

func checkGolden(t *testing.T, e *engine, name string) {
	dir := t.TempDir()
	unzip(t, "../testdata/golden/"+name+".zip", dir)
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Snapshot      []map[string]any
		ReadOptimized []map[string]any            `json:"read_optimized"`
		TimeTravel    map[string][]map[string]any `json:"time_travel"`
		Incremental   []struct {
			Begin, End string
			Rows       []map[string]any
		}
	}
	if err := decodeNumbers(data, &want); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(dir, "table")
	brief := []string{colCommitTime, colKey, colPartition, "_rev", "_seq_order", "qty"}

	checkRows(t, e, question{Op: "snapshot", Table: table}, want.Snapshot)
	checkRows(t, e, question{Op: "read-optimized", Table: table}, want.ReadOptimized)
	for asOf, rows := range want.TimeTravel {
		checkRows(t, e, question{Op: "time-travel", Table: table, AsOf: asOf, Columns: brief}, rows)
	}
	spans := make([][2]string, 0, len(want.Incremental))
	for _, s := range want.Incremental {
		spans = append(spans, [2]string{s.Begin, s.End})
	}
	got, err := e.increments(table, spans, brief...)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range want.Incremental {
		if d := diff(goldenRows(t, s.Rows), got[i]); d != "" {
			t.Errorf("incremental (%s, %s]: %s", s.Begin, s.End, d)
		}
	}
	a, err := e.ask(question{Op: "count", Table: table})
	if err != nil || a.Count != len(want.Snapshot) {
		t.Errorf("count = %d, %v; want %d", a.Count, err, len(want.Snapshot))
	}
}

func checkRows(t *testing.T, e *engine, q question, want []map[string]any) {
	t.Helper()
	got, err := e.rows(q)
	if err != nil {
		t.Error(err)
		return
	}
	if d := diff(goldenRows(t, want), got); d != "" {
		t.Errorf("%s %s: %s", q.Op, q.AsOf, d)
	}
}

// goldenRows gives the recorded rows the types of the golden tables' columns.
func goldenRows(t *testing.T, rows []map[string]any) []row {
	t.Helper()
	kinds := map[string]string{"_seq_order": "long", "qty": "long", "price": "double"}
	out := make([]row, 0, len(rows))
	for _, r := range rows {
		typedRow := make(row, len(r))
		for c, v := range r {
			value, err := typed(v, kinds[c])
			if err != nil {
				t.Fatalf("column %s: %v", c, err)
			}
			typedRow[c] = value
		}
		out = append(out, typedRow)
	}
	return out
}

// TestEngineRefuses checks that an engine's failure arrives as an error, and that
// the engine goes on answering after it.
func TestEngineRefuses(t *testing.T) {
	for _, start := range engines() {
		e := mustEngine(t, start)
		if _, err := e.ask(question{Op: "snapshot", Table: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "not a Hudi table") {
			t.Errorf("%s: snapshot of nothing: %v", e.name, err)
		}
		if _, err := e.ask(question{Op: "dance", Table: "."}); err == nil {
			t.Errorf("%s dances", e.name)
		}
	}
}

// TestSparkWritesAndTends checks the ways by which later tests let Spark work on
// our tables: values go in and come out exactly, compaction makes the base files
// equal to the whole, and the check finds nothing.
func TestSparkWritesAndTends(t *testing.T) {
	e := mustEngine(t, spark015)
	dir := t.TempDir()
	unzip(t, "../testdata/golden/w015-v6-bloom-nomdt.zip", dir)
	table := filepath.Join(dir, "table")
	odd := row{"_id": "doc-0000", "_rev": "9-\x00😀", "_seq_order": 1 << 62, "dt": "20240101", "price": 1e-300, "_hoodie_is_deleted": false}
	if _, err := e.ask(question{Op: "upsert", Table: table, Rows: []row{odd}}); err != nil {
		t.Fatal(err)
	}
	whole := mustRows(t, e, question{Op: "snapshot", Table: table})
	got := byKey(whole)["20240101|doc-0000"]
	if len(got) != 1 {
		t.Fatalf("%d rows of doc-0000; want 1", len(got))
	}
	for column, want := range map[string]any{"_rev": "9-\x00😀", "_seq_order": int64(1 << 62), "price": 1e-300, "name": nil} {
		if !same(got[0][column], want) {
			t.Errorf("%s = %s; want %s", column, show(got[0][column]), show(want))
		}
	}
	if _, err := e.ask(question{Op: "compact", Table: table}); err != nil {
		t.Fatal(err)
	}
	if d := diff(whole, mustRows(t, e, question{Op: "read-optimized", Table: table})); d != "" {
		t.Errorf("base files after the compaction: %s", d)
	}
	checked, err := e.ask(question{Op: "validate", Table: table})
	if err != nil || len(checked.Findings) == 0 {
		t.Fatalf("validate = %v, %v", checked.Findings, err)
	}
	for _, f := range checked.Findings {
		if !f.OK {
			t.Errorf("validate: %s", f.Check)
		}
	}
}

// mustRows asks for rows and fails the test when the engine does not answer.
func mustRows(t *testing.T, e *engine, q question) []row {
	t.Helper()
	rows, err := e.rows(q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// unzip unpacks an archive of ours into dir; files get the time of now.
func unzip(t *testing.T, archive, dir string) {
	t.Helper()
	z, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if err := unzipOne(f, dir); err != nil {
			t.Fatalf("unpack %s of %s: %v", f.Name, archive, err)
		}
	}
}

func unzipOne(f *zip.File, dir string) error {
	if !filepath.IsLocal(f.Name) {
		return errors.New("name leads out of the folder")
	}
	target := filepath.Join(dir, filepath.FromSlash(f.Name))
	if strings.HasSuffix(f.Name, "/") {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return os.WriteFile(target, data, 0o644)
}
