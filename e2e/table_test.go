//go:build oracle

package e2e

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// TestEnginesReadOurTables writes tables with the binary, commit by commit, and
// asks the engines for every view of them: the whole, base files alone, as of
// each commit, and the changes between any two commits. The model of the
// documents says what is right.
func TestEnginesReadOurTables(t *testing.T) {
	for name, o := range map[string]modelOptions{
		"one partition": {},
		"by day":        {partition: "createdAt", layout: "20060102"},
	} {
		table, model := writeTable(t, o)
		for _, start := range engines() {
			e := mustEngine(t, start)
			t.Run(name+"/"+e.name, func(t *testing.T) {
				t.Parallel()
				compare(t, e, table, model)
			})
		}
	}
}

// writeTable follows a seeded stream of documents into a table, one commit a step.
func writeTable(t *testing.T, o modelOptions) (string, *tableModel) {
	t.Helper()
	steps, perStep := 9, 250
	if os.Getenv("E2E_FULL") != "" {
		perStep = 2000
	}
	server, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	db, err := server.Create("docs")
	if err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(t.TempDir(), "table")
	args := []string{"run", "--once", "--source", server.URL() + "/docs", "--table", table}
	if o.partition != "" {
		args = append(args, "--partition-field", o.partition, "--partition-format", "yyyyMMdd")
	}
	s, model := newStream(db, 20261130), newModel(o)
	var known []string
	for range steps {
		if err := s.next(perStep); err != nil {
			t.Fatal(err)
		}
		couch2hudi(t, args...)
		now := deltaCommits(t, table)
		if len(now) != len(known)+1 {
			t.Fatalf("a step made the commits %v; want one more than %v", now, known)
		}
		known = now
		if err := model.apply(known[len(known)-1], documentsOf(db)); err != nil {
			t.Fatal(err)
		}
	}
	return table, model
}

// compare asks one engine for all views.
func compare(t *testing.T, e *engine, table string, m *tableModel) {
	check := func(what string, want []row, q question) {
		q.Table = table
		got, err := e.rows(q)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if d := diff(inSchemaOf(got, want), got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	check("snapshot", m.snapshot(), question{Op: "snapshot"})
	check("read-optimized", m.readOptimized(), question{Op: "read-optimized"})
	for _, i := range []int{0, len(m.commits) / 2, len(m.commits) - 1} {
		check("as of "+m.commits[i], m.asOf(m.commits[i]), question{Op: "time-travel", AsOf: m.commits[i]})
	}
	spans := m.spans()
	got, err := e.increments(table, spans)
	if err != nil {
		t.Fatal(err)
	}
	for i, span := range spans {
		if d := diff(inSchemaOf(got[i], m.incremental(span[0], span[1])), got[i]); d != "" {
			t.Errorf("incremental (%s, %s]: %s", span[0], span[1], d)
		}
	}
}

// inSchemaOf leaves out of the wanted rows the columns that are null in all of
// them and that the engine does not know: some show the past in the schema of the
// past, others in today's.
func inSchemaOf(got, want []row) []row {
	if len(got) == 0 {
		return want
	}
	used := map[string]bool{}
	for _, r := range want {
		for c, v := range r {
			_, known := got[0][c]
			used[c] = used[c] || known || v != nil
		}
	}
	out := make([]row, 0, len(want))
	for _, r := range want {
		cut := maps.Clone(r)
		maps.DeleteFunc(cut, func(c string, _ any) bool { return !used[c] })
		out = append(out, cut)
	}
	return out
}

// TestSparkAndWeWriteInTurn lets Spark write into a table of ours through its own
// index, and goes on after it: no key may ever be there twice, and both must
// read what the other wrote.
func TestSparkAndWeWriteInTurn(t *testing.T) {
	for _, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(t, start)
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			table, model := writeTable(t, modelOptions{partition: "createdAt", layout: "20060102"})
			sent := sparkEdits(mustRows(t, e, question{Op: "snapshot", Table: table}))
			a, err := e.ask(question{Op: "upsert", Table: table, Rows: sent, Options: map[string]string{"hoodie.index.type": "BLOOM"}})
			if err != nil {
				t.Fatal(err)
			}
			instant := a.Timeline[len(a.Timeline)-1].Requested
			want := model.snapshot()
			edited := byKeyAlone(sent)
			for i, r := range want {
				if edit, ok := edited[r[colKey].(string)]; ok {
					edit[colKey], edit[colPartition], edit[colCommitTime] = r[colKey], r[colPartition], instant
					want[i] = edit
				}
			}
			for _, reader := range engines() {
				r := mustEngine(t, reader)
				if d := diff(want, mustRows(t, r, question{Op: "snapshot", Table: table})); d != "" {
					t.Errorf("%s reads after Spark: %s", r.name, d)
				}
			}
		})
	}
}

// sparkEdits are newer states of every ninth live row.
func sparkEdits(rows []row) []row {
	rows = slices.DeleteFunc(rows, func(r row) bool { return r["_deleted"] == true })
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.rowKey(), b.rowKey()) })
	var out []row
	for i := 0; i < len(rows); i += 9 {
		edit := row{}
		for c, v := range rows[i] {
			if c != colCommitTime && c != colPartition {
				edit[c] = v
			}
		}
		edit["_rev"], edit["_rev_order"], edit["name"] = "999-spark", rows[i]["_rev_order"].(int64)+1000, "by Spark"
		out = append(out, edit)
	}
	return out
}

// binary builds couch2hudi once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "couch2hudi-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "couch2hudi")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/couch2hudi").CombinedOutput()
	os.Stderr.Write(out)
	return path, err
})

// couch2hudi runs the binary and fails the test when it fails.
func couch2hudi(t *testing.T, args ...string) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatalf("build couch2hudi: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("couch2hudi %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// deltaCommits are the completed instants of a table, ascending.
func deltaCommits(t *testing.T, table string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(table, ".hoodie", "*.deltacommit"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		out = append(out, strings.TrimSuffix(filepath.Base(n), ".deltacommit"))
	}
	slices.Sort(out)
	return out
}
