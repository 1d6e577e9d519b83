//go:build oracle

package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// policyReaders are all that read a table's columns; nil is our own reader.
func policyReaders() map[string]func() (*engine, error) {
	return map[string]func() (*engine, error){"ours": nil, "spark-0.15": spark015, "spark-1.2": spark12, "hudi-rs": hudiRs, "flink": flink, "hive": hive}
}

// The columns of the table: each of r, s, n and f is a long, with the policies
// rescue, string, new_column and fail; the others stand beside s and n.
var policyColumns = []string{"r", "s", "s_string", "n", "n_string", "n_double", "n_boolean", "n_json", "f", "_rescued"}

// policyStep writes documents, and says what all of the table's rows then are: for
// each document the cells that are not null.
type policyStep struct {
	name string
	docs map[string]string
	want map[string]map[string]string
}

// all gives r, s and n of a document the same value.
func all(value string) string { return `{"r":` + value + `,"s":` + value + `,"n":` + value + `,"f":1}` }

// misfit are the cells of a row whose r, s and n had a value that is no long.
func misfit(text, column, cell string) map[string]string {
	return map[string]string{"s_string": text, column: cell, "f": "1", "_rescued": `{"r":` + cell + `}`}
}

func policySteps() []policyStep {
	fits := map[string]string{"r": "7", "s": "7", "n": "7", "f": "1"}
	long := func(value string) map[string]string {
		return map[string]string{"r": value, "s": value, "n": value, "f": "1"}
	}
	const big = "12345678901234567890123"
	text := map[string]string{"s_string": "n/a", "n_string": "n/a", "f": "1", "_rescued": `{"r":"n/a"}`}
	first := map[string]map[string]string{"fits": fits, "becomes text": long("1"), "becomes an array": long("2"), "becomes true": long("3"),
		"text": text, "fraction": misfit("1.5", "n_double", "1.5"), "becomes long": text,
		"big": {"s_string": big, "f": "1", "_rescued": `{"r":` + big + `,"n":` + big + `}`}}
	then := maps.Clone(first)
	then["becomes text"] = text
	then["becomes an array"] = misfit("[1,2]", "n_json", "[1,2]")
	then["becomes true"] = misfit("true", "n_boolean", "true")
	then["becomes long"] = long("9")
	return []policyStep{
		{"base", map[string]string{"fits": all("7"), "becomes text": all("1"), "becomes an array": all("2"), "becomes true": all("3"),
			"text": all(`"n/a"`), "fraction": all("1.5"), "becomes long": all(`"n/a"`), "big": all(big)}, first},
		// n_json and n_boolean are in log files alone.
		{"base and log", map[string]string{"becomes text": all(`"n/a"`), "becomes an array": all("[1,2]"), "becomes true": all("true"),
			"becomes long": all("9")}, then},
		{"compacted", nil, then},
	}
}

// TestEnginesReadConflicts writes values that do not fit their columns, under each
// policy, and asks every reader what it finds: in base files, in log files with
// columns that the base files lack, and after a compaction. docs/columns.md tells
// what was found.
func TestEnginesReadConflicts(t *testing.T) {
	for name, settings := range map[string]string{"bloom": "index: bloom", "bucket": "index: bucket, buckets: 1"} {
		w := newPolicyTable(t, settings, policies)
		for i, step := range policySteps() {
			if step.docs == nil {
				couch2hudi(t, "compact", "--table", w.table)
			}
			w.put(step.docs)
			couch2hudi(t, w.run...)
			if i == 1 {
				w.refused()
			}
			for reader, start := range policyReaders() {
				t.Run(name+"/"+step.name+"/"+reader, func(t *testing.T) { w.compare(t, start, "snapshot", step.want) })
				if step.docs == nil && start != nil {
					t.Run(name+"/"+step.name+", base files alone/"+reader, func(t *testing.T) { w.compare(t, start, "read-optimized", step.want) })
				}
			}
		}
	}
}

type policyTable struct {
	t     *testing.T
	db    *couchfake.Database
	table string
	run   []string
}

const policies = `  declare:
    - {name: r, type: long, on_conflict: rescue}
    - {name: s, type: long, on_conflict: string}
    - {name: n, type: long, on_conflict: new_column}
    - {name: f, type: long, on_conflict: fail}
`

const masks = `  salt: pepper
  declare:
    - {name: email, mask: hash}
    - {name: card, path: card.number, mask: redact}
    - {path: secret, mask: drop}
    - {path: "contacts[*].email", mask: hash}
    - {path: "*.ssn", mask: drop}
`

func newPolicyTable(t *testing.T, settings, columns string) *policyTable {
	t.Helper()
	server, err := couchfake.Start(couchfake.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	w := &policyTable{t: t, table: filepath.Join(t.TempDir(), "table")}
	if w.db, err = server.Create("docs"); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "c.yaml")
	text := fmt.Sprintf(`source: {url: %q}
table: {url: %q, %s}
compaction: {mode: "off"}
columns:
%s`, server.URL()+"/docs", w.table, settings, columns)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run = []string{"run", "--once", "--config", config}
	return w
}

func (w *policyTable) put(docs map[string]string) {
	w.t.Helper()
	for _, id := range slices.Sorted(maps.Keys(docs)) {
		if _, err := w.db.Put(id, []byte(docs[id])); err != nil {
			w.t.Fatal(err)
		}
	}
}

// refused: with the policy fail a value that does not fit stops the run, and the
// table stays as it is until the document is changed.
func (w *policyTable) refused() {
	w.t.Helper()
	before := deltaCommits(w.t, w.table)
	w.put(map[string]string{"fits": `{"r":8,"s":8,"n":8,"f":"x"}`})
	if code := exitOf(w.t, w.run...); code != 1 {
		w.t.Errorf("a value that does not fit a column of policy fail: exit code %d", code)
	}
	if after := deltaCommits(w.t, w.table); !slices.Equal(before, after) {
		w.t.Errorf("commits %v, and after the refused run %v", before, after)
	}
	w.put(map[string]string{"fits": all("7")})
	couch2hudi(w.t, w.run...)
}

// rows are what one reader finds.
func (w *policyTable) rows(t *testing.T, start func() (*engine, error), op string) (rows []row) {
	t.Helper()
	if start != nil {
		return mustRows(t, mustEngine(t, start), question{Op: op, Table: w.table})
	}
	for line := range strings.Lines(couch2hudi(t, "query", "--table", w.table, "--format", "jsonl")) {
		r := row{}
		if err := decodeNumbers([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// compare asks one reader for all rows.
func (w *policyTable) compare(t *testing.T, start func() (*engine, error), op string, want map[string]map[string]string) {
	t.Helper()
	rows := w.rows(t, start, op)
	if len(rows) != len(want) {
		t.Errorf("%d rows, want %d", len(rows), len(want))
	}
	for _, r := range rows {
		id, _ := r["_id"].(string)
		for _, c := range policyColumns {
			cell, there := cellText(r[c])
			if wanted, should := want[id][c]; there != should || cell != wanted {
				t.Errorf("%s: %s is %q, want %q", id, c, cell, wanted)
			}
		}
	}
}

// cellText is a scalar as text, and false for a null.
func cellText(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case json.Number:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	default:
		return fmt.Sprint(v), true
	}
}

// TestEnginesShowNoSecret asks every reader for all cells of a table with masks.
func TestEnginesShowNoSecret(t *testing.T) {
	w := newPolicyTable(t, "index: bloom", masks)
	const secret = `{"open":"PUBLIC","email":"LEAK","card":{"number":"LEAK"},"secret":{"LEAK":"LEAK"},"contacts":[{"email":"LEAK"}],"person":{"ssn":"LEAK","n":1}}`
	w.put(map[string]string{"a": secret, "b": secret})
	couch2hudi(t, w.run...)
	w.put(map[string]string{"a": secret}) // one row is in a log file, the other in a base file
	couch2hudi(t, w.run...)
	mac := hmac.New(sha256.New, []byte("pepper"))
	mac.Write([]byte("LEAK"))
	hashed := hex.EncodeToString(mac.Sum(nil))
	for reader, start := range policyReaders() {
		t.Run(reader, func(t *testing.T) {
			rows := w.rows(t, start, "snapshot")
			if text := asJSON(rows); len(rows) != 2 || strings.Contains(text, "LEAK") {
				t.Errorf("%d rows: %s", len(rows), text)
			}
			for _, r := range rows {
				want := row{"open": "PUBLIC", "email": hashed, "card": "[redacted]", "person": `{"n":1}`, "contacts": `[{"email":"` + hashed + `"}]`}
				for c, v := range want {
					if r[c] != v {
						t.Errorf("%s is %v, want %v", c, r[c], v)
					}
				}
			}
		})
	}
}
