//go:build oracle

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// TestEnginesReadNestedColumns follows documents with arrays and objects into lists
// and structs, lets the structs grow, and asks every reader for each value: from base
// files, from log files of a newer type above them and base files of the newer type
// beside, and from log files on what we and Spark compacted.
func TestEnginesReadNestedColumns(t *testing.T) {
	n := newNestedTable(t, "index: bloom")
	n.begin()
	n.ask("base")
	n.compare("hive, read-optimized", mustRows(t, mustEngine(t, hive), question{Op: "read-optimized", Table: n.table}))
	n.grow()
	n.ask("logs of a grown type")
	n.growAgain()
	couch2hudi(t, "compact", "--table", n.table)
	n.put("c", `{"addr":{"geo":{"alt":1}},"tags":["z"]}`, "")
	n.run()
	n.ask("logs on our base")
	n.compactedBy(spark015)
	n.put("a", `{"addr":{"geo":{"crs":"w"}},"tags":["z"],"late fee":{"a b":2}}`, "")
	n.run()
	n.ask("logs on Spark 0.15's base")
}

// TestEnginesReadNestedBuckets is the same with a bucket index and Spark 1.2, which
// also writes a row, and drops the notes inside the types with it.
func TestEnginesReadNestedBuckets(t *testing.T) {
	n := newNestedTable(t, "index: bucket, buckets: 2")
	n.begin()
	n.grow()
	n.growAgain()
	n.compactedBy(spark12)
	n.editedBy(spark12)
	n.put("c", `{"addr":{"geo":{"alt":1}},"tags":["z"],"late fee":{"a b":3,"c d":4}}`, "")
	n.run()
	n.ask("logs on Spark 1.2's base and its row", "hudi-rs")
	rs := mustEngine(t, hudiRs)
	if rows, err := rs.rows(question{Op: "snapshot", Table: n.table}); err == nil || !strings.Contains(err.Error(), "reconcile") {
		t.Errorf("hudi-rs reads log files of different types of a struct now: %d rows, %v; say so in docs/columns.md and check", len(rows), err)
	}
	couch2hudi(t, "compact", "--table", n.table)
	n.compare("hudi-rs, compacted", mustRows(t, rs, question{Op: "snapshot", Table: n.table}))
}

// TestFlinkReadsStructs: Flink 1.17 reads structs that grow, but for one whose members
// are all null, which is null to it. It fails on lists of structs and of lists, and
// takes an empty list for one of a null.
func TestFlinkReadsStructs(t *testing.T) {
	n := newNestedTable(t, "index: bucket, buckets: 1")
	ask := func(when string) {
		t.Helper()
		n.compare("flink, "+when, mustRows(t, mustEngine(t, flink), question{Op: "snapshot", Table: n.table}))
	}
	n.put("a", `{"addr":{"zip":"1","geo":{"lat":1.5}},"n":9007199254740993}`, "")
	n.put("b", `{"addr":{"zip":"2","geo":{}}}`, `{"addr":{"zip":"2"}}`)
	n.put("c", `{"addr":null}`, "")
	n.put("d", `{"addr":{}}`, `{}`)
	n.run()
	ask("base")
	n.put("c", `{"addr":{"geo":{"lon":2.5},"ok":true,"n":9007199254740993}}`, "")
	n.put("e", `{"more":{"deep":{"er":"x"}}}`, "")
	n.run()
	ask("logs of a grown type")
	couch2hudi(t, "compact", "--table", n.table)
	n.put("a", `{"addr":{"zip":"3","floor":2}}`, "")
	n.run()
	ask("logs on our base")

	lists := newNestedTable(t, "index: bucket, buckets: 1")
	lists.put("a", `{"tags":["x"]}`, "")
	lists.put("b", `{"tags":[]}`, `{"tags":[null]}`)
	lists.run()
	lists.compare("flink, lists", mustRows(t, mustEngine(t, flink), question{Op: "snapshot", Table: lists.table}))
	lists.put("c", `{"items":[{"n":1}]}`, "")
	lists.run()
	couch2hudi(t, "compact", "--table", lists.table)
	if rows, err := mustEngine(t, flink).rows(question{Op: "snapshot", Table: lists.table}); err == nil {
		t.Errorf("Flink reads lists of structs now: %v; say so in docs/columns.md and check", rows)
	}
}

// begin makes base files.
func (n *nestedTable) begin() {
	n.t.Helper()
	n.put("a", `{"addr":{"zip":"1","geo":{"lat":1.5}},"tags":["x","y"],"items":[{"sku":"s","n":9007199254740993,"ok":true}],"late fee":{"a b":1}}`, "")
	n.put("b", `{"addr":{"zip":"","geo":{}},"tags":[],"items":[],"area":[[]]}`, "")
	n.put("c", `{"plain":1}`, "")
	n.put("d", `{"addr":null,"tags":["é😀",""],"items":[{"sku":null},{}]}`, "")
	// Hive's real-time reader fails where a row with a list of lists is updated in a log
	// file ("Not a record"): this one never is, b's is when a compaction follows.
	n.put("e", `{"addr":{},"tags":null,"area":[[0,1.5],[2,3]]}`, "")
	n.run()
}

// grow makes log files of a grown type. Some of what it writes does not fit.
func (n *nestedTable) grow() {
	n.t.Helper()
	n.put("a", `{"addr":{"zip":"1","geo":{"lat":1.5,"lon":[2]},"country":"FR"},"tags":[],"items":[{"n":2,"tax":{"vat":0.5}},{"sku":"t"}]}`, "")
	n.put("d", `{"addr":{"country":null},"tags":[null]}`, `{"addr":{}}`)
	n.run()
}

// growAgain grows the types once more, with new documents.
func (n *nestedTable) growAgain() {
	n.t.Helper()
	n.put("f", `{"addr":{"zip":5,"geo":[1]},"tags":["x",1],"items":"none"}`, `{"addr":{}}`)
	n.put("g", `{"addr":{"country":"DE","geo":{"lon":[]}},"more":{"deep":[{"er":["x"]}]}}`, "")
	n.put("h", `{"items":[{"tax":{"vat":1,"city":"B"}}]}`, "")
	n.put("b", `{"addr":{"floor":3}}`, "")
	n.run()
}

// editedBy lets Spark's own writer change a row.
func (n *nestedTable) editedBy(start func() (*engine, error)) {
	n.t.Helper()
	n.edited = true
	e := mustEngine(n.t, start)
	for _, r := range mustRows(n.t, e, question{Op: "snapshot", Table: n.table}) {
		if r["_id"] != "a" {
			continue
		}
		for name := range r {
			if hudi.IsMetaColumn(name) {
				delete(r, name)
			}
		}
		r["_rev_order"] = r["_rev_order"].(int64) + 1000
		r["addr"].(map[string]any)["country"] = "ES"
		n.want["a"]["addr"].(map[string]any)["country"] = "ES"
		if _, err := e.ask(question{Op: "upsert", Operation: "upsert", Table: n.table, Rows: []row{r}, Options: bucketOptions(2)}); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *nestedTable) compactedBy(start func() (*engine, error)) {
	n.t.Helper()
	if _, err := mustEngine(n.t, start).ask(question{Op: "compact", Table: n.table}); err != nil {
		n.t.Fatal(err)
	}
}

type nestedTable struct {
	t             *testing.T
	db            *couchfake.Database
	config, table string
	// edited says that a row is no document's any more.
	edited bool
	// want are the documents' fields, by id, as the columns must show them.
	want map[string]map[string]any
}

func newNestedTable(t *testing.T, settings string) *nestedTable {
	t.Helper()
	server, err := couchfake.Start(couchfake.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	n := &nestedTable{t: t, config: filepath.Join(t.TempDir(), "c.yaml"), table: filepath.Join(t.TempDir(), "table"), want: map[string]map[string]any{}}
	if n.db, err = server.Create("docs"); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("source: {url: %q}\ntable: {url: %q, %s}\ncompaction: {mode: \"off\"}\ncolumns: {nested: struct}\n", server.URL()+"/docs", n.table, settings)
	if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// put writes a document. shown is what its columns must show when that is not the
// document itself.
func (n *nestedTable) put(id, doc, shown string) {
	n.t.Helper()
	if _, err := n.db.Put(id, []byte(doc)); err != nil {
		n.t.Fatal(err)
	}
	if shown == "" {
		shown = doc
	}
	var fields map[string]any
	if err := decodeNumbers([]byte(shown), &fields); err != nil {
		n.t.Fatal(err)
	}
	n.want[id] = fields
}

func (n *nestedTable) run() {
	n.t.Helper()
	couch2hudi(n.t, "run", "--once", "--config", n.config)
}

// ask compares what all readers find but for Flink (see TestFlinkReadsStructs) and those
// that are named.
func (n *nestedTable) ask(when string, without ...string) {
	n.t.Helper()
	var ours []row
	for line := range strings.Lines(couch2hudi(n.t, "query", "--table", n.table, "--format", "jsonl")) {
		r := row{}
		if err := decodeNumbers([]byte(line), &r); err != nil {
			n.t.Fatal(err)
		}
		ours = append(ours, r)
	}
	n.compare("ours, "+when, ours)
	if !n.edited {
		couch2hudi(n.t, "verify", "-c", n.config)
	}
	for _, start := range readersOfAll() {
		if e := mustEngine(n.t, start); e.name != "flink" && !slices.Contains(without, e.name) {
			n.compare(e.name+", "+when, mustRows(n.t, e, question{Op: "snapshot", Table: n.table}))
		}
	}
}

func (n *nestedTable) compare(who string, rows []row) {
	n.t.Helper()
	if len(rows) != len(n.want) {
		n.t.Errorf("%s: %d rows, want %d", who, len(rows), len(n.want))
	}
	names := map[string]string{"late fee": "late_fee", "a b": "a_b", "c d": "c_d"}
	for _, r := range rows {
		id, _ := r["_id"].(string)
		if n.want[id] == nil {
			n.t.Fatalf("%s: a row of %q", who, id)
		}
		shown, want := map[string]any{}, bare(n.want[id], names).(map[string]any)
		for name, v := range r {
			if name[0] != '_' {
				shown[name] = v
			}
		}
		if got := bare(shown, nil); !reflect.DeepEqual(got, any(want)) {
			n.t.Errorf("%s: %s is\n%s, want\n%s", who, id, asJSON(got), asJSON(want))
		}
	}
}

// bare is a value without the nulls in its objects, with numbers alike however they
// are written.
func bare(v any, names map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, of := range v {
			if of == nil {
				continue
			}
			if legal := names[name]; legal != "" {
				name = legal
			}
			out[name] = bare(of, names)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = bare(v[i], names)
		}
		return out
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return strconv.FormatInt(i, 10)
		}
		f, _ := v.Float64()
		return strconv.FormatFloat(f, 'g', -1, 64)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return v
}
