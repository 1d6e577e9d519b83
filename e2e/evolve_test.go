//go:build oracle

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// readersOfAll are the engines that are asked wherever a table's schema has changed.
func readersOfAll() []func() (*engine, error) {
	return []func() (*engine, error){spark015, spark12, hudiRs, flink, hive}
}

// TestEnginesReadEvolvedTables takes a table through a life in which fields come and
// go, change places and outgrow their columns, and asks every reader for all rows, and
// for changes across each change of the schema: base files of an old schema under log
// files of a new one, beside newer base files, clustered together by Spark, with
// commits of Spark's in between, and compacted. Each commit tells the whole schema.
func TestEnginesReadEvolvedTables(t *testing.T) {
	v := newEvolving(t, modelOptions{fileBytes: 1 << 16})
	v.outgrow()
	v.readAll("logs of newer schemas on old base files, beside newer base files")
	v.increments("before services")

	v.sparkAddsColumn("old 2")
	v.doc("old 5", `{"a":5,"after":"Spark","by_spark":"ours"}`)
	v.commit()
	if _, err := mustEngine(t, spark015).ask(question{Op: "call", Table: v.table, Procedure: "run_clustering", Arguments: map[string]string{"order": "_id"}}); err != nil {
		t.Fatal(err)
	}
	if n := clusterings(t, v.table); n != 1 {
		t.Fatalf("Spark clustered %d times", n)
	}
	v.doc("old 6", `{"clustered":[1],"a":6}`)
	v.commit()
	v.readAll("a log of a newer schema on base files that Spark clustered")

	couch2hudi(t, "compact", "--table", v.table)
	v.doc("old 7", `{"compacted":1.5,"a":7}`)
	v.commit()
	v.readAll("a log of a newer schema on compacted base files")
	v.schemas(map[string]int{"deltacommit": 7, "commit": 1, "replacecommit": 1})
}

// TestEnginesReadEvolvedBuckets is the same with a bucket index and its service.
func TestEnginesReadEvolvedBuckets(t *testing.T) {
	v := newEvolving(t, modelOptions{buckets: 2})
	v.outgrow()
	couch2hudi(t, "rebucket", "--table", v.table, "--buckets", "3")
	v.use(3)
	v.doc("old 5", `{"a":5,"rebucketed":true}`)
	v.commit()
	v.readAll("a log of a newer schema on base files that were rebucketed")
	couch2hudi(t, "compact", "--table", v.table)
	v.readAll("compacted")
	v.optimized("compacted")
	v.increments("compacted")
	v.schemas(map[string]int{"deltacommit": 4, "commit": 1, "replacecommit": 1})
}

// evolving is a table whose documents change their shape.
type evolving struct{ turns }

// newEvolving is a table of documents of the first shape.
func newEvolving(t *testing.T, o modelOptions) *evolving {
	t.Helper()
	w := newTableWriter(t, o)
	w.args = append(w.args, "--compaction", "off")
	v := &evolving{turns{tableWriter: w, e: mustEngine(t, spark015), options: map[string]string{"hoodie.index.type": "BLOOM"}, edits: map[string]row{}}}
	random := rand.New(rand.NewPCG(7, 7))
	for i := range 30 {
		filler := make([]string, 200) // so that the first base file is full
		for k := range filler {
			filler[k] = strconv.FormatUint(random.Uint64(), 16)
		}
		v.doc(fmt.Sprintf("old %d", i), fmt.Sprintf(`{"a":%d,"b":"text %d","c":%d.5,"dropped":"here","filler":%q}`, i, i, i, strings.Join(filler, "")))
	}
	v.commit()
	return v
}

// outgrow makes two commits: fields come, go, change places, and values are wider than
// their columns; then new documents of the new shape.
func (v *evolving) outgrow() {
	v.doc("old 0", `{"a":100,"b":"with more","c":0.25,"added":true,"object":{"x":[1]},"dropped":"still"}`)
	v.doc("old 1", `{"added":false,"c":2.5,"a":101}`)
	v.doc("old 3", `{"a":2.5,"b":7,"c":9007199254740993,"added":"no boolean"}`)
	v.doc("old 4", `{"a":"text","c":"text","wide":9007199254740993}`)
	for i := range 3 {
		v.doc(fmt.Sprintf("new %d", i), fmt.Sprintf(`{"wide":%d,"added":true,"b":"new","a":%d}`, i, i))
	}
	v.commit()
	v.doc("old 1", `{"wide":0.5,"a":9223372036854775808,"second":"change"}`)
	v.doc("new 0", `{"second":"change","object":[],"a":null}`)
	v.commit()
}

func (v *evolving) doc(id, body string) {
	v.t.Helper()
	if _, err := v.db.Put(id, []byte(body)); err != nil {
		v.t.Fatal(err)
	}
}

// commit writes what changed in one commit.
func (v *evolving) commit() {
	v.t.Helper()
	v.step(0)
}

// sparkAddsColumn lets Spark write a newer state of a document, with a column that the
// table lacks. Rows that lack columns of the table are refused: nothing can take them
// out of the schema unnoticed.
func (v *evolving) sparkAddsColumn(id string) {
	v.t.Helper()
	rows := v.rowsOf(id)
	rows[0]["_rev"], rows[0]["_rev_order"], rows[0]["name"] = "999-spark", rows[0]["_rev_order"].(int64)+1000, "by Spark"
	lacking := maps.Clone(rows[0])
	delete(lacking, "c")
	q := question{Op: "upsert", Operation: "upsert", Table: v.table, Rows: []row{lacking}, Options: v.options, Without: []string{"c"}}
	if _, err := v.e.ask(q); err == nil || !strings.Contains(err.Error(), "missing field") {
		v.t.Errorf("Spark writes rows that lack a column: %v", err)
	}
	rows[0]["by_spark"] = "new"
	q.Rows, q.Without, q.Add = rows, nil, map[string]string{"by_spark": "string"}
	a, err := v.e.ask(q)
	if err != nil {
		v.t.Fatal(err)
	}
	v.known, v.model.told = deltaCommits(v.t, v.table), false
	v.model.columns["by_spark"] = modelColumn{name: "by_spark", kind: "string"}
	v.keep(rows[0], a.Timeline[len(a.Timeline)-1].Requested)
	rows[0][colPartition] = "" // there are none
}

// readAll compares all rows that every reader finds with the model.
func (v *evolving) readAll(when string) {
	v.t.Helper()
	want := v.want()
	for _, start := range readersOfAll() {
		e := mustEngine(v.t, start)
		got := mustRows(v.t, e, question{Op: "snapshot", Table: v.table})
		if d := diff(want, got); d != "" {
			v.t.Errorf("%s, %s: %s", e.name, when, d)
		}
	}
	ours := ourRows(v.t, v.model, "query", "--table", v.table, "--include-deleted", "--format", "jsonl")
	if d := diff(want, ours); d != "" {
		v.t.Errorf("couch2hudi, %s: %s", when, d)
	}
}

// optimized compares what every reader finds in base files alone, where all rows are.
func (v *evolving) optimized(when string) {
	v.t.Helper()
	want := v.want()
	for _, start := range readersOfAll() {
		e := mustEngine(v.t, start)
		if d := diff(want, mustRows(v.t, e, question{Op: "read-optimized", Table: v.table})); d != "" {
			v.t.Errorf("%s, base files alone, %s: %s", e.name, when, d)
		}
	}
}

// increments compares what every reader finds of ranges that begin with an older schema
// than they end with. A column that came after a range need not be shown in it.
func (v *evolving) increments(when string) {
	v.t.Helper()
	c := v.model.commits
	spans := [][2]string{{"000", c[len(c)-1]}, {"000", c[1]}, {c[0], c[2]}, {c[1], c[2]}}
	for _, start := range readersOfAll() {
		e := mustEngine(v.t, start)
		got, err := e.increments(v.table, spans)
		if err != nil {
			v.t.Errorf("%s, %s: %v", e.name, when, err)
			continue
		}
		for i, s := range spans {
			want := v.model.incremental(s[0], s[1])
			if d := diff(inSchemaOf(got[i], want), got[i]); d != "" {
				v.t.Errorf("%s, %s: (%s, %s]: %s", e.name, when, s[0], s[1], d)
			}
		}
	}
	for _, s := range spans {
		begin := strings.Replace(s[0], "000", "earliest", 1)
		if len(s[0]) > len("000") {
			begin = s[0]
		}
		want := v.model.incremental(s[0], s[1])
		got := ourRows(v.t, v.model, "query", "--table", v.table, "--include-deleted", "--format", "jsonl", "--since", begin, "--until", s[1])
		if d := diff(inSchemaOf(got, want), got); d != "" {
			v.t.Errorf("couch2hudi, %s: (%s, %s]: %s", when, s[0], s[1], d)
		}
	}
}

// use goes on with another number of buckets.
func (v *evolving) use(buckets int) {
	v.t.Helper()
	v.model.options.buckets, v.model.told = buckets, false
	v.args[3] = v.config()
}

// schemas: each completed commit, whoever made it, tells a schema with all columns that
// the ones before told, in the same order; ours tell where columns come from.
func (v *evolving) schemas(want map[string]int) {
	v.t.Helper()
	files, err := filepath.Glob(filepath.Join(v.table, ".hoodie", "*commit"))
	if err != nil {
		v.t.Fatal(err)
	}
	slices.Sort(files) // by instant
	found := map[string]int{}
	var before []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			v.t.Fatal(err)
		}
		var body struct {
			Extra map[string]string `json:"extraMetadata"`
		}
		if err := json.Unmarshal(data, &body); err != nil {
			v.t.Fatalf("%s: %v", file, err)
		}
		s, err := hudi.ParseSchema(body.Extra["schema"])
		if err != nil {
			v.t.Fatalf("%s: schema: %v", file, err)
		}
		var now []string
		for _, c := range s.Columns() {
			now = append(now, c.Name)
		}
		if len(now) < len(before) || !slices.Equal(now[:len(before)], before) {
			v.t.Errorf("%s: columns %v, before it %v", file, now, before)
		}
		i, there := s.Lookup("odd_name")
		if _, ours := body.Extra["couch2hudi.layout"]; ours && (!there || s.Columns()[i].Doc != `field "odd name"`) {
			v.t.Errorf("%s: a note is lost", file)
		}
		before = now
		found[strings.TrimPrefix(filepath.Ext(file), ".")]++
	}
	for action, n := range want {
		if found[action] != n {
			v.t.Errorf("%d completed instants of %s, want %d", found[action], action, n)
		}
	}
}
