//go:build oracle

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestFlinkAndHiveReadOurTables asks Flink and Hive's input formats for every view
// that they have of tables of ours: base files with logs, right after a compaction,
// and when new logs stand on what it wrote.
func TestFlinkAndHiveReadOurTables(t *testing.T) {
	for name, o := range map[string]modelOptions{
		"by day":        {partition: "createdAt", layout: "20060102"},
		"bucket, hard":  {buckets: 3, hard: true},
		"by text, hard": {partition: "place", hard: true},
	} {
		w := newTableWriter(t, o)
		w.args = append(w.args, "--compaction", "off")
		for range 3 {
			w.stepWithLogs(60)
		}
		views := func(when string, optimized func() []row) {
			for _, start := range []func() (*engine, error){flink, hive} {
				e := mustEngine(t, start)
				t.Run(name+"/"+e.name+"/"+when, func(t *testing.T) { compareViews(t, e, w, optimized) })
			}
		}
		if o.buckets == 0 {
			views("base and logs", w.model.readOptimized)
		}
		if o.partition == "place" {
			continue
		}
		if out := couch2hudi(t, "compact", "--table", w.table); !strings.Contains(out, "compacted") {
			t.Errorf("%s: nothing compacted: %s", name, out)
		}
		if o.buckets > 0 {
			views("compacted", w.model.snapshot)
		}
		w.stepWithLogs(60)
		views("logs on a compacted base", nil)
	}
}

// compareViews asks one engine for all views that it has. What base files show
// alone is known at times only.
func compareViews(t *testing.T, e *engine, w *tableWriter, optimized func() []row) {
	m := w.model
	check := func(what string, want []row, q question) {
		q.Table = w.table
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
	if optimized != nil {
		check("read-optimized", optimized(), question{Op: "read-optimized"})
	}
	if e.name == "flink" {
		past := m.commits[len(m.commits)/2]
		check("as of "+past, m.asOf(past), question{Op: "time-travel", AsOf: past})
	} else if m.options.partition == "place" { // hive
		return // incremental reads escape the % of a folder's name once more, and find no file
	}
	spans := m.fewSpans()
	got, err := e.increments(w.table, spans)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range spans {
		if e.name == "hive" {
			got[i] = withoutDeleted(m, s, got[i])
		}
		want := m.incremental(s[0], s[1])
		if d := diff(inSchemaOf(got[i], want), got[i]); d != "" {
			t.Errorf("incremental (%s, %s]: %s", s[0], s[1], d)
		}
	}
}

// withoutDeleted leaves out what Hive's incremental reads show too much: rows that
// the span wrote and deleted, hard, afterwards, as they were before.
func withoutDeleted(m *tableModel, span [2]string, got []row) []row {
	stands := map[any]bool{}
	for _, r := range m.asOf(span[1]) {
		stands[r[colKey]] = true
	}
	return slices.DeleteFunc(got, func(r row) bool {
		at, _ := r[colCommitTime].(string)
		if stands[r[colKey]] || !m.options.hard || !slices.Contains(m.commits, at) {
			return false
		}
		return slices.ContainsFunc(m.asOf(at), func(old row) bool {
			return old[colKey] == r[colKey] && old[colCommitTime] == at && old["_rev"] == r["_rev"]
		})
	})
}
