//go:build oracle

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// nastyDoc is a document of normalize/testdata/nasty.txt with what its columns
// must hold, as that file writes it.
type nastyDoc struct {
	id, doc string
	want    [][2]string
}

// TestEnginesReadColumns puts the nasty documents through the whole line, with
// timestamps, dates, decimals and parts of fields declared, and asks everybody for
// each value that is written down: from base files, from log files, and after a
// compaction.
func TestEnginesReadColumns(t *testing.T) {
	readers := map[string]func() (*engine, error){"ours": nil, "spark-0.15": spark015, "spark-1.2": spark12, "hudi-rs": hudiRs, "flink": flink, "hive": hive}
	for name, start := range readers {
		t.Run(name, func(t *testing.T) {
			for index, settings := range map[string]string{"bloom": "index: bloom", "bucket": "index: bucket, buckets: 2"} {
				if index == "bloom" && (name == "flink" || name == "hive") {
					continue // they do not care, and take their time
				}
				c := newColumnsTable(t, settings, name != "hive")
				if start != nil {
					c.engine = mustEngine(t, start)
				}
				c.run() // base files
				c.ask(index + ", base")
				for i := range c.docs {
					if i%2 == 0 {
						c.put(i)
					}
				}
				c.run() // log files
				c.ask(index + ", base and log")
				couch2hudi(t, "compact", "--table", c.table)
				c.ask(index + ", compacted")
			}
		})
	}
}

// TestHiveAndTimestamps: what Hive makes of them keeps them out of the test above.
func TestHiveAndTimestamps(t *testing.T) {
	c := newColumnsTable(t, "index: bucket, buckets: 1", true)
	c.run()
	e := mustEngine(t, hive)
	at := slices.IndexFunc(c.docs, func(d nastyDoc) bool { return d.id == "declared-time" })
	for _, op := range []string{"snapshot", "read-optimized"} {
		for _, r := range mustRows(t, e, question{Op: op, Table: c.table}) {
			if text, _ := r["d_at"].(string); r["_id"] == c.docs[at].id && !strings.HasSuffix(text, ":59:59.999") {
				t.Errorf("%s: %s, want milliseconds", op, text)
			}
		}
	}
	c.put(at)
	c.run()
	if _, err := e.rows(question{Op: "snapshot", Table: c.table}); err == nil || !strings.Contains(err.Error(), "NoSuchMethodError") {
		t.Errorf("log files with timestamps: %v", err)
	}
}

type columnsTable struct {
	t             *testing.T
	db            *couchfake.Database
	docs          []nastyDoc
	config, table string
	// engine is asked; nil for our own reader.
	engine *engine
}

// newColumnsTable declares columns of every type, timestamps only when asked for:
// Hive's real-time reader fails on them, and its other one cuts them to milliseconds.
func newColumnsTable(t *testing.T, settings string, timestamps bool) *columnsTable {
	t.Helper()
	server, err := couchfake.Start(couchfake.Options{Shards: 1}) // names are given in the order of writing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	c := &columnsTable{t: t, config: filepath.Join(t.TempDir(), "c.yaml"), table: filepath.Join(t.TempDir(), "table")}
	if c.db, err = server.Create("docs"); err != nil {
		t.Fatal(err)
	}
	declared := `columns:
  declare:
    - {name: d_long, type: long}
    - {name: d_at, type: timestamp}
    - {name: d_day, type: date}
    - {name: d_dec, type: "decimal(19,2)"}
    - {name: d_zip, path: addr.zip, type: string}
`
	if !timestamps {
		declared = strings.Replace(declared, "    - {name: d_at, type: timestamp}\n", "", 1)
	}
	text := fmt.Sprintf("source: {url: %q}\ntable: {url: %q, %s}\ncompaction: {mode: \"off\"}\n%s", server.URL()+"/docs", c.table, settings, declared)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range nastyDocs(t) {
		if !timestamps && strings.Contains(d.doc, "d_at") {
			continue
		}
		c.docs = append(c.docs, d)
		if !c.put(len(c.docs) - 1) {
			c.docs = c.docs[:len(c.docs)-1]
		}
	}
	const least = 60
	if len(c.docs) < least {
		t.Fatalf("%d documents that CouchDB takes and keeps; want %d", len(c.docs), least)
	}
	return c
}

// nastyDocs are all of the file's.
func nastyDocs(t *testing.T) (all []nastyDoc) {
	t.Helper()
	f, err := os.Open("../normalize/testdata/nasty.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, found := strings.Cut(lines.Text(), ": ")
		switch {
		case !found || strings.HasPrefix(name, "#"):
		case name == "id" && !strings.HasPrefix(value, "long "):
			all = append(all, nastyDoc{id: value})
		case name == "doc" && all[len(all)-1].doc == "":
			all[len(all)-1].doc = value
		default:
			all[len(all)-1].want = append(all[len(all)-1].want, [2]string{name, value})
		}
	}
	return all
}

// put writes a document. It is false for one that CouchDB refuses, or does not
// keep as it is: it spells some numbers otherwise, and leaves spaces out.
func (c *columnsTable) put(i int) bool {
	d := &c.docs[i]
	if _, err := c.db.Put(d.id, []byte(d.doc)); err != nil {
		return false
	}
	for kept := range c.db.Docs() {
		if kept.ID != d.id {
			continue
		}
		var was, is map[string]any
		if decodeNumbers([]byte(d.doc), &was) != nil || decodeNumbers(kept.Winner().Body, &is) != nil {
			return false
		}
		delete(is, "_id")
		delete(is, "_rev")
		nested := strings.ContainsAny(strings.TrimPrefix(d.doc, "{"), "[{")
		return reflect.DeepEqual(was, is) && (!nested || strings.Contains(string(kept.Winner().Body), strings.Trim(d.doc, "{}")))
	}
	return false
}

func (c *columnsTable) run() {
	c.t.Helper()
	couch2hudi(c.t, "run", "--once", "--config", c.config)
}

// ask compares what is read with what is written down.
func (c *columnsTable) ask(when string) {
	c.t.Helper()
	if c.engine != nil {
		c.compare(when, mustRows(c.t, c.engine, question{Op: "snapshot", Table: c.table}))
		return
	}
	var rows []row
	for line := range strings.Lines(couch2hudi(c.t, "query", "--table", c.table, "--format", "jsonl")) {
		r := row{}
		if err := decodeNumbers([]byte(line), &r); err != nil {
			c.t.Fatal(err)
		}
		rows = append(rows, r)
	}
	c.compare(when, rows)
	couch2hudi(c.t, "verify", "-c", c.config)
}

func (c *columnsTable) compare(when string, rows []row) {
	c.t.Helper()
	byID := map[string]row{}
	for _, r := range rows {
		id, _ := r["_id"].(string)
		byID[id] = r
	}
	for _, d := range c.docs {
		r, there := byID[d.id]
		if !there {
			c.t.Errorf("%s: no row of %s", when, d.id)
			continue
		}
		for _, w := range d.want {
			if _, known := r[w[0]]; !known && w[1] == "null" {
				continue
			}
			if got := writtenAs(w[1], r[w[0]]); got != again(w[1]) {
				c.t.Errorf("%s: %s: %s is %s, want %s", when, d.id, w[0], got, w[1])
			}
		}
	}
}

// again brings a string's quotes into the form that Go gives them.
func again(want string) string {
	if text, ok := strings.CutPrefix(want, "string "); ok {
		if plain, err := strconv.Unquote(text); err == nil {
			return "string " + strconv.Quote(plain)
		}
	}
	return want
}

// writtenAs is a value in the words of the file, given what is wanted of it:
// engines have their own forms of times and decimals.
func writtenAs(want string, v any) string {
	kind, _, _ := strings.Cut(want, " ")
	text, isText := v.(string)
	if n, ok := v.(json.Number); ok {
		switch kind {
		case "double":
			f, _ := n.Float64()
			v = f
		case "decimal":
			v = trimmed(n.String())
		default:
			v = n.String()
		}
	}
	switch {
	case v == nil:
		return "null"
	case isText && kind == "micros":
		for _, layout := range []string{"2006-01-02T15:04:05.999999", "2006-01-02T15:04", "2006-01-02 15:04:05.999999", time.RFC3339Nano} {
			if at, err := time.Parse(layout, text); err == nil {
				return fmt.Sprintf("micros %d", at.UnixMicro())
			}
		}
	case isText && kind == "days":
		if at, err := time.Parse(time.DateOnly, text); err == nil {
			const day = 86400
			return fmt.Sprintf("days %d", at.Unix()/day)
		}
	case isText && kind == "decimal":
		return "decimal " + trimmed(text)
	case isText:
		return "string " + strconv.Quote(text)
	case kind == "double":
		return fmt.Sprintf("double %v", v)
	}
	return fmt.Sprintf("%s %v", kind, v)
}

// trimmed is a decimal's text without zeros at its end.
func trimmed(text string) string {
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
