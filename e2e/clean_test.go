//go:build oracle

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCleanAndArchiveChangeNoRead cleans and archives a table of ours: Spark with
// both releases and hudi-rs read the same before and after, Spark's incremental
// reads too, Spark reads the archive and writes on, and so do we.
func TestCleanAndArchiveChangeNoRead(t *testing.T) {
	const commits, keep, keepMin = 27, 5, 20
	w := newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102"})
	s := &turns{tableWriter: w, edits: map[string]row{}}
	off := append(slices.Clone(w.args), "--compaction", "off")
	w.args = off
	for n := range commits {
		w.put("2024-01-0"+strconv.Itoa(1+n%2), inBase, fmt.Sprintf("doc %d", n%7))
		couch2hudi(t, off...)
		if n%8 == 7 {
			couch2hudi(t, "compact", "--table", w.table)
		}
	}
	instants := deltaCommits(t, w.table)
	young := instants[len(instants)-keep:]
	var spans [][2]string
	for i := range keep - 1 {
		spans = append(spans, [2]string{young[i], young[i+1]})
	}
	spans = append(spans, [2]string{young[0], young[keep-1]})

	before := readEverywhere(t, w.table, spans)
	if len(before["spark-0.15"]) == 0 {
		t.Fatal("nothing was read")
	}
	said := couch2hudi(t, "clean", "--table", w.table, "--policy", "commits", "--keep", strconv.Itoa(keep+1))
	if !strings.Contains(said, "cleaned") {
		t.Fatal(said)
	}
	compareReads(t, "after the clean", before, readEverywhere(t, w.table, spans))
	said = couch2hudi(t, "archive", "--table", w.table, "--keep-min", strconv.Itoa(keepMin), "--keep-max", strconv.Itoa(keepMin+1))
	if !strings.Contains(said, "archived") {
		t.Fatal(said)
	}
	compareReads(t, "after the archival", before, readEverywhere(t, w.table, spans))
	a, err := mustEngine(t, spark015).ask(question{Op: "archived", Table: w.table})
	if err != nil || len(a.Archived) < 3*(commits-keepMin) {
		t.Errorf("Spark reads %d states of the archive: %v", len(a.Archived), err)
	}

	for _, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(t, start)
		s.e = e
		rows := s.rowsOf("doc 1")
		rows[0]["_rev"], rows[0]["_rev_order"], rows[0]["name"] = "999-spark", rows[0]["_rev_order"].(int64)+1000, "by "+e.name
		if _, err := e.ask(question{Op: "upsert", Operation: "upsert", Table: w.table, Rows: rows, Options: map[string]string{"hoodie.index.type": "BLOOM"}}); err != nil {
			t.Fatal(err)
		}
		w.put("2024-01-01", inLog)
		couch2hudi(t, off...)
		after := readEverywhere(t, w.table, nil)
		for name, reads := range after {
			if d := diff(after["spark-0.15"][0], reads[0]); d != "" {
				t.Errorf("%s, after %s and we wrote: %s", name, e.name, d)
			}
			i := slices.IndexFunc(reads[0], func(r row) bool { return r["_id"] == "doc 1" })
			j := slices.IndexFunc(reads[0], func(r row) bool { return r["_id"] == inLog })
			if i < 0 || j < 0 || reads[0][i]["name"] != "by "+e.name {
				t.Errorf("%s, after %s and we wrote: %v", name, e.name, reads[0])
			}
		}
	}
	said = couch2hudi(t, append([]string{"check"}, w.args[2:len(w.args)-2]...)...)
	if !strings.Contains(said, " 0 FAIL") {
		t.Errorf("check says\n%s", said)
	}
}

// readEverywhere is the snapshot by each engine, and behind it Spark's incremental
// reads.
func readEverywhere(t *testing.T, table string, spans [][2]string) map[string][][]row {
	t.Helper()
	all := map[string][][]row{}
	for _, start := range engines() {
		e := mustEngine(t, start)
		all[e.name] = [][]row{mustRows(t, e, question{Op: "snapshot", Table: table})}
		if e.name == "hudi-rs" || len(spans) == 0 {
			continue
		}
		increments, err := e.increments(table, spans)
		if err != nil {
			t.Fatal(err)
		}
		all[e.name] = append(all[e.name], increments...)
	}
	return all
}

func compareReads(t *testing.T, when string, before, after map[string][][]row) {
	t.Helper()
	for name, reads := range before {
		for i, rows := range reads {
			if d := diff(rows, after[name][i]); d != "" {
				t.Errorf("%s, %s, reading %d: %s", name, when, i, d)
			}
		}
	}
}
