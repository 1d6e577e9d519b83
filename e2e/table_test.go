//go:build oracle

package e2e

import (
	"encoding/json"
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
// commits, and the changes between commits. The model of the documents says what
// is right. The tables are of either index, with and without partitions, with
// tombstones and hard deletes; each setting of how rows are placed comes once.
func TestEnginesReadOurTables(t *testing.T) {
	const steps = 4
	for name, o := range tablesOfEveryKind() {
		table, model := writeTable(t, steps, o)
		if o.buckets == 0 && model.again < 2 {
			t.Errorf("%s: base files were written again %d times; want 2", name, model.again)
		}
		t.Run(name+"/ours", func(t *testing.T) { compareOurs(t, table, model) })
		for _, start := range engines() {
			e := mustEngine(t, start)
			t.Run(name+"/"+e.name, func(t *testing.T) {
				t.Parallel()
				compare(t, e, table, model)
			})
		}
	}
}

// tablesOfEveryKind is every combination of index, partitions and deletes, and one
// more of bloom. Half of them are written without a key cache.
func tablesOfEveryKind() map[string]modelOptions {
	const day, full = "20060102", 1 << 16
	return map[string]modelOptions{
		"bloom":                       {fileBytes: full},
		"bloom, hard":                 {fileBytes: full, hard: true, noCache: true},
		"bloom, by text":              {partition: "place", noCache: true},
		"bloom, bare folders, hard":   {partition: "place", bare: true, hard: true},
		"bloom, a row each day":       {partition: "createdAt", layout: day, scoped: true, fileBytes: full},
		"bucket":                      {buckets: 7, noCache: true},
		"bucket, hard":                {buckets: 1, hard: true},
		"bucket, by day":              {buckets: 2, partition: "createdAt", layout: day},
		"bucket, the first day, hard": {buckets: 2, partition: "createdAt", layout: day, stay: true, hard: true, noCache: true},
	}
}

// writeTable follows a seeded stream of documents into a table, one commit a step.
func writeTable(t *testing.T, steps int, o modelOptions) (string, *tableModel) {
	t.Helper()
	perStep := 100
	if os.Getenv("E2E_FULL") != "" {
		perStep = 2000
	}
	w := newTableWriter(t, o)
	for range steps {
		w.step(perStep)
	}
	return w.table, w.model
}

// tableWriter is a database, the table that follows it, and the model of both.
type tableWriter struct {
	t      *testing.T
	db     *couchfake.Database
	source string // the database's URL
	data   *stream
	args   []string
	table  string
	model  *tableModel
	known  []string // the table's commits so far
}

func newTableWriter(t *testing.T, o modelOptions) *tableWriter {
	t.Helper()
	server, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	db, err := server.Create("docs")
	if err != nil {
		t.Fatal(err)
	}
	const seed = 20261130
	w := &tableWriter{t: t, db: db, source: server.URL() + "/docs", data: newStream(db, seed), table: filepath.Join(t.TempDir(), "table"), model: newModel(o)}
	w.model.told = true
	w.args = []string{"run", "--once", "--config", w.config()}
	return w
}

// config writes the table's settings into a file.
func (w *tableWriter) config() string {
	w.t.Helper()
	o := w.model.options
	partition := map[string]any{"field": o.partition, "hive_style": !o.bare, "url_encode": !o.bare}
	table := map[string]any{"url": w.table, "partition": partition}
	all := map[string]any{"source": map[string]any{"url": w.source}, "table": table}
	if o.layout != "" {
		partition["format"] = "yyyyMMdd"
	}
	if o.stay {
		partition["moves"] = "stay"
	}
	if o.scoped {
		all["index"] = map[string]any{"scope": "partition"}
	}
	if o.hard {
		table["deletes"] = "hard"
	}
	if o.cdc != "" {
		table["cdc"] = o.cdc
	}
	if o.changelog {
		table["changelog"] = true
	}
	if o.buckets > 0 {
		table["index"], table["buckets"] = "bucket", o.buckets
	}
	if o.noCache {
		all["state_dir"] = "off"
	}
	if o.fileBytes > 0 {
		table["file_size"] = o.fileBytes
		all["writer"] = map[string]any{"max_rewrite": 4 * o.fileBytes}
	}
	path := filepath.Join(w.t.TempDir(), "couch2hudi.yaml")
	if err := os.WriteFile(path, []byte(asJSON(all)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// step writes n new documents and n changes, and makes one commit of them.
func (w *tableWriter) step(n int) {
	w.t.Helper()
	if err := w.data.next(n); err != nil {
		w.t.Fatal(err)
	}
	couch2hudi(w.t, w.args...)
	now := deltaCommits(w.t, w.table)
	if len(now) != len(w.known)+1 {
		w.t.Fatalf("a step made the commits %v; want one more than %v", now, w.known)
	}
	w.known = now
	files, err := baseFilesOf(w.table, now[len(now)-1])
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.model.apply(now[len(now)-1], documentsOf(w.db), files...); err != nil {
		w.t.Fatal(err)
	}
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
	for _, i := range []int{0, len(m.commits) / 2} {
		check("as of "+m.commits[i], m.asOf(m.commits[i]), question{Op: "time-travel", AsOf: m.commits[i]})
	}
	spans := m.spans()
	if strings.HasPrefix(e.name, "spark") {
		spans = m.fewSpans() // it takes a second for each
	}
	got, err := e.increments(table, spans)
	if err != nil {
		t.Fatal(err)
	}
	for i, span := range spans {
		want := m.incremental(span[0], span[1])
		if e.name == "spark-1.2" {
			want = withFolderNames(want)
		}
		if d := diff(inSchemaOf(got[i], want), got[i]); d != "" {
			t.Errorf("incremental (%s, %s]: %s", span[0], span[1], d)
		}
	}
}

// withFolderNames is what incremental reads of Hudi 1.2 make of the partition
// column: they take it from the folder's name and leave its escapes in. Nothing
// that a writer could do about; docs/format/reading.md warns of it.
func withFolderNames(rows []row) []row {
	out := make([]row, 0, len(rows))
	for _, r := range rows {
		if r["pt"] != nil && r[colPartition] != "" {
			r = maps.Clone(r)
			r["pt"] = strings.TrimPrefix(r[colPartition].(string), "pt=")
		}
		out = append(out, r)
	}
	return out
}

// compareOurs asks our own reader for the same views, through the command.
func compareOurs(t *testing.T, table string, m *tableModel) {
	check := func(what string, want []row, args ...string) {
		got := ourRows(t, m, append([]string{"query", "--table", table, "--include-deleted", "--format", "jsonl"}, args...)...)
		if d := diff(inSchemaOf(got, want), got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	check("snapshot", m.snapshot())
	check("read-optimized", m.readOptimized(), "--read-optimized")
	for _, i := range m.commits {
		check("as of "+i, m.asOf(i), "--as-of", i)
	}
	for _, span := range m.spans() {
		begin := span[0]
		if begin == "000" {
			begin = "earliest"
		}
		check("incremental ("+span[0]+", "+span[1]+"]", m.incremental(span[0], span[1]), "--since", begin, "--until", span[1])
	}
}

// ourRows are the rows that a query of ours prints, with values of the kinds
// that the model has.
func ourRows(t *testing.T, m *tableModel, args ...string) []row {
	t.Helper()
	doubles := map[string]bool{}
	for _, c := range m.columns {
		doubles[c.name] = c.kind == "double"
	}
	var out []row
	for line := range strings.Lines(couch2hudi(t, args...)) {
		r := row{}
		if err := decodeNumbers([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		delete(r, "_hoodie_commit_seqno")
		for c, v := range r {
			n, number := v.(json.Number)
			if !number {
				continue
			}
			kind := "long"
			if doubles[c] {
				kind = "double"
			}
			var err error
			if r[c], err = typed(n, kind); err != nil {
				t.Fatalf("column %s: %v", c, err)
			}
		}
		out = append(out, r)
	}
	return out
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
// index, goes on after it, and lets Spark compact what both wrote: no key may ever
// be there twice, and all must read what the others wrote.
func TestSparkAndWeWriteInTurn(t *testing.T) {
	for _, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(t, start)
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			w := newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102"})
			w.step(200)
			w.step(200)
			sent := sparkEdits(mustRows(t, e, question{Op: "snapshot", Table: w.table}))
			a, err := e.ask(question{Op: "upsert", Table: w.table, Rows: sent, Options: map[string]string{"hoodie.index.type": "BLOOM"}})
			if err != nil {
				t.Fatal(err)
			}
			edits := editedRows(w.model.snapshot(), sent, a.Timeline[len(a.Timeline)-1].Requested)
			readByAll(t, "after Spark's upsert", w, edits)

			// What base files hold now is not for the model to know.
			w.known, w.model.told = deltaCommits(t, w.table), false
			w.step(200)
			readByAll(t, "after our next commit", w, edits)

			if _, err := e.ask(question{Op: "compact", Table: w.table}); err != nil {
				t.Fatal(err)
			}
			readByAll(t, "after Spark's compaction", w, edits)
			w.step(200)
			readByAll(t, "after our commit on top of it", w, edits)
		})
	}
}

// editedRows are the rows as Spark wrote them. What it wrote is newer than any
// state the stream comes to, so these rows stay.
func editedRows(rows, sent []row, instant string) map[string]row {
	edited := map[string]row{}
	for _, edit := range sent {
		edited[edit["_id"].(string)] = edit
	}
	for _, r := range rows {
		if edit, ok := edited[r["_id"].(string)]; ok {
			edit[colKey], edit[colPartition], edit[colCommitTime] = r[colKey], r[colPartition], instant
		}
	}
	return edited
}

// readByAll compares what each engine reads with the model and the rows that
// Spark made of some of it.
func readByAll(t *testing.T, when string, w *tableWriter, edits map[string]row) {
	t.Helper()
	want := w.model.snapshot()
	for i, r := range want {
		if edit, ok := edits[r["_id"].(string)]; ok {
			want[i] = w.model.complete([]row{edit})[0]
		}
	}
	for _, start := range engines() {
		e := mustEngine(t, start)
		if d := diff(want, mustRows(t, e, question{Op: "snapshot", Table: w.table})); d != "" {
			t.Errorf("%s, %s: %s", e.name, when, d)
		}
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
			if !strings.HasPrefix(c, "_hoodie_") {
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
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(path), "cache")) // key caches
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
