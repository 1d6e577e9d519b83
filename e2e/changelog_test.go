//go:build oracle

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestFlinkStreamsTheChangelog: of a table with a changelog Flink's stream brings
// each change with the rows that belong to it, whole: an insert's, the ones before
// and after an update, and the one that a hard delete removed. Without the column
// it could tell a delete's key alone.
func TestFlinkStreamsTheChangelog(t *testing.T) {
	w := newTableWriter(t, modelOptions{buckets: 3, hard: true, cdc: "data_before_after", changelog: true})
	w.args = append(w.args, "--compaction", "off")
	w.step(60)
	e := mustEngine(t, flink)
	q := flinkStream(w.table, changelogColumns...)
	q.Tables["t"].Options["changelog.enabled"] = "true"
	started, err := e.ask(q)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for range 4 {
		want := changelogOf(t, w)
		until(t, "Flink to bring the changes up to "+w.known[len(w.known)-1], func() bool {
			rows, err := e.rows(question{Op: "fetch", ID: started.ID})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				got[changelogLine(r["op"], r)]++
			}
			return maps.Equal(got, want)
		}, func() string { return diffCounts(got, want) })
		w.step(60)
	}
	kinds := map[string]int{}
	for line, n := range got {
		kinds[line[:2]] += n
	}
	for _, kind := range []string{"+I", "-U", "+U", "-D"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among the changes", kind)
		}
	}
	t.Logf("changes that came: %v", kinds)
	if _, err := e.ask(question{Op: "stop", ID: started.ID}); err != nil {
		t.Error(err)
	}
	compactChangelog(t, w)
}

// compactChangelog: Spark reads the rows of such a table, and compacts it; so do we.
// hudi-rs takes the row of a delete for one that is there, until it is compacted
// (docs/format/cdc.md), and is asked then.
func compactChangelog(t *testing.T, w *tableWriter) {
	old, young, rs := mustEngine(t, spark015), mustEngine(t, spark12), mustEngine(t, hudiRs)
	for _, e := range []*engine{old, young} {
		c := &compacting{tableWriter: w, spark: e}
		told(t, w, "logs", old, young)
		if out := couch2hudi(t, "compact", "--table", w.table, "--schedule"); !strings.Contains(out, "planned") {
			t.Errorf("nothing planned: %s", out)
		}
		c.ask("run")
		told(t, w, "compacted by "+e.name, old, young, rs)
		w.step(30)
	}
	couch2hudi(t, "compact", "--table", w.table)
	told(t, w, "compacted by us", old, young, rs)
}

// told compares the rows of engines and of our own reader with the model.
func told(t *testing.T, w *tableWriter, what string, es ...*engine) {
	t.Helper()
	want := w.model.snapshot()
	compared := func(name string, got []row) {
		for _, r := range got {
			delete(r, "_hoodie_operation") // a meta column to those who know it
		}
		if d := diff(inSchemaOf(got, want), got); d != "" {
			t.Errorf("%s: %s: %s", what, name, d)
		}
	}
	for _, e := range es {
		compared(e.name, mustRows(t, e, question{Op: "snapshot", Table: w.table}))
	}
	compared("ours", ourRows(t, w.model, "query", "--table", w.table, "--include-deleted", "--format", "jsonl"))
}

// changelogColumns are compared, the document whole. A delete's row has the order of
// the delete.
var changelogColumns = []string{"_id", "_rev", "_doc"}

// changelogOf are the changes of the table, as Flink names them.
func changelogOf(t *testing.T, w *tableWriter) map[string]int {
	t.Helper()
	want := map[string]int{}
	for _, c := range ourChanges(t, w.table) {
		before, after := "-U", "+U"
		switch c.op {
		case "i":
			after = "+I"
		case "d":
			before = "-D"
		}
		for op, image := range map[string]string{before: c.before, after: c.after} {
			if image == "" {
				continue
			}
			var r row
			if err := decodeNumbers([]byte(image), &r); err != nil {
				t.Fatal(err)
			}
			want[changelogLine(op, r)]++
		}
	}
	return want
}

func changelogLine(op any, r row) string {
	var b strings.Builder
	fmt.Fprint(&b, op)
	for _, c := range changelogColumns {
		fmt.Fprintf(&b, " %v", r[c])
	}
	return b.String()
}

// diffCounts tells the first lines that came too often or not often enough.
func diffCounts(got, want map[string]int) string {
	var b strings.Builder
	shown := 0
	for _, lines := range []map[string]int{want, got} {
		for line := range lines {
			if got[line] != want[line] && shown < toldDifferences {
				fmt.Fprintf(&b, "%d times, want %d: %.300s\n", got[line], want[line], line)
				shown++
			}
		}
	}
	return b.String()
}
