//go:build oracle

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/catalog/hms"
)

// TestMetastore registers tables in a Hive metastore, and lets Spark and Trino find
// them by name.
func TestMetastore(t *testing.T) {
	old, young := startMetastore(t, metastore3), startMetastore(t, metastore4)
	trino, answers := startTrino(t, "old=thrift://"+old, "young=thrift://"+young)
	for name, address := range map[string]string{"suite of 3.1": old, "suite of 4.0": young} {
		t.Run(name, func(t *testing.T) { metastoreSuite(t, hms.Options{Addresses: []string{address}}) })
	}
	t.Run("spark", func(t *testing.T) { sparkReadsNames(t, old) })
	t.Run("trino", func(t *testing.T) {
		answers(t)
		trinoReadsNames(t, trino, old, young)
	})
}

func metastoreSuite(t *testing.T, o hms.Options) {
	const few = 8 // each takes the metastore's own database some milliseconds
	catalogtest.Run(t, "file://"+t.TempDir(), few, func(t *testing.T) catalog.Metastore {
		s, err := hms.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// sparkReadsNames lets Spark find a table by name: its rows are those that Spark reads
// by the table's path, also of new partitions and columns, and tombstones are not in
// the view.
func sparkReadsNames(t *testing.T, address string) {
	e, err := startEngine(engineKind{name: "spark-0.15-names", venv: "venv", args: []string{"spark", "--hudi-version", "0.15.0", "--metastore", "thrift://" + address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.in.Close() })
	w := newTableWriter(t, modelOptions{partition: "place"})
	w.step(60)
	// Once by HiveSyncTool's words alone, then over what is there.
	sync := func() string {
		return couch2hudi(t, "sync", "--table", w.table, "--to", "hms://"+address+"/lake.docs")
	}
	sync()
	namesAgree(t, e, w)
	if _, err := w.db.Put("grown", []byte(`{"place":"a/b=c%d","newColumn":{"x":1},"n":1.5}`)); err != nil {
		t.Fatal(err)
	}
	w.step(60)
	if said := sync(); !strings.Contains(said, "docs_rt altered") || !strings.Contains(said, "partitions added") {
		t.Errorf("%s", said)
	}
	for _, name := range []string{"docs", "docs_ro", "docs_rt"} { // a session keeps what it knows of a table
		rowsOf(t, e, question{Op: "sql", Query: "REFRESH TABLE lake." + name})
	}
	namesAgree(t, e, w)
	if said := sync(); strings.Count(said, "unchanged") != 4 {
		t.Errorf("%s", said)
	}
	one := rowsOf(t, e, question{Op: "sql", Query: "SELECT * FROM lake.docs_rt WHERE pt = 'a/b=c%d'"})
	if len(one) == 0 || slices.ContainsFunc(one, func(r row) bool { return r["pt"] != "a/b=c%d" }) {
		t.Errorf("of one partition: %v", one)
	}
}

func rowsOf(t *testing.T, e *engine, q question) []row {
	t.Helper()
	rows, err := e.rows(q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// namesAgree compares what Spark reads by name with what it reads by path.
func namesAgree(t *testing.T, e *engine, w *tableWriter) {
	t.Helper()
	all, base := rowsOf(t, e, question{Op: "snapshot", Table: w.table}), rowsOf(t, e, question{Op: "read-optimized", Table: w.table})
	live := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r["_deleted"] == true })
	if len(live) == len(all) || len(live) == 0 {
		t.Fatalf("%d rows, of which %d are live: the table shows nothing", len(all), len(live))
	}
	names := map[string]bool{}
	for n := range all[0] {
		names[strings.ToLower(n)] = true
	}
	for name, want := range map[string][]row{"docs_rt": all, "docs": all, "docs_ro": base, "docs_live": live} {
		got := rowsOf(t, e, question{Op: "sql", Query: "SELECT * FROM lake." + name})
		if name == "docs_live" { // Hive's names of columns are in lower case
			got, want = lowered(got, names), lowered(want, names)
		}
		if d := diff(inSchemaOf(got, want), got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func lowered(rows []row, names map[string]bool) []row {
	list := make([]row, len(rows))
	for i, r := range rows {
		list[i] = row{}
		for n, v := range r {
			if names[strings.ToLower(n)] {
				list[i][strings.ToLower(n)] = v
			}
		}
	}
	return list
}
