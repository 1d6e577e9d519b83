//go:build oracle

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// lake are databases with documents of equal ids, and such that database, slash and id
// are one text, and the one table that they go into.
type lake struct {
	t             *testing.T
	dbs           map[string]*couchfake.Database
	table, config string
}

func newLake(t *testing.T, settings string) *lake {
	t.Helper()
	server, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	dir := t.TempDir()
	l := &lake{t: t, dbs: map[string]*couchfake.Database{}, table: filepath.Join(dir, "table"), config: filepath.Join(dir, "c.yaml")}
	for _, name := range []string{"eu", "eu/shop", "shop"} {
		if l.dbs[name], err = server.Create(name); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			l.put(name, fmt.Sprintf("d%02d", i), i)
		}
	}
	l.put("eu", "shop/d01", -1)
	l.put("shop", "x:y,_key:z", -2) // what a bucket index may take for a list of fields
	l.put("shop", "ä😀/1", -3)
	text := fmt.Sprintf("source: {url: %q, databases: [\"*\"], into: one}\nstate_dir: off\ntable: {url: %q, %s}\n", server.URL(), l.table, settings)
	if err := os.WriteFile(l.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lake) put(db, id string, n int) {
	l.t.Helper()
	if _, err := l.dbs[db].Put(id, fmt.Appendf(nil, `{"n":%d,"name":"of %s"}`, n, db)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lake) run() {
	l.t.Helper()
	couch2hudi(l.t, "run", "--once", "-c", l.config)
}

// rows are what all databases hold, by their keys.
func (l *lake) rows() map[string]row {
	all := map[string]row{}
	for name, db := range l.dbs {
		for d := range db.Docs() {
			w := d.Winner()
			r := row{"_key": strings.ReplaceAll(name, "/", "%2F") + "/" + d.ID, "_db": name, "_id": d.ID, "_rev": w.Rev.String(),
				"_deleted": d.Deleted(), "_rev_order": d.GenerationSum()}
			if !d.Deleted() {
				r["_doc"], r["name"] = string(w.Body), "of "+name
			}
			all[r["_key"].(string)] = r
		}
	}
	return all
}

// read compares what an engine reads with rows, live ones and tombstones.
func (l *lake) read(e *engine, what string, want map[string]row) []row {
	l.t.Helper()
	got := mustRows(l.t, e, question{Op: "snapshot", Table: l.table})
	seen := map[string]bool{}
	for _, r := range got {
		key, _ := r["_key"].(string)
		w := want[key]
		if w == nil || seen[key] || r[colKey] != key {
			l.t.Errorf("%s, %s: %q under the key %v should not be there", what, e.name, key, r[colKey])
			continue
		}
		seen[key] = true
		for column, value := range w {
			if r[column] != value {
				l.t.Errorf("%s, %s: %q has %s %v, want %v", what, e.name, key, column, r[column], value)
			}
		}
	}
	if len(seen) != len(want) {
		l.t.Errorf("%s, %s: %d rows, want %d", what, e.name, len(seen), len(want))
	}
	return got
}

// TestEnginesReadManyDatabases: one table of several databases is read row by row by
// Spark and hudi-rs, Spark's upserts find its keys by bloom filters and by buckets, and
// we go on after it.
func TestEnginesReadManyDatabases(t *testing.T) {
	for name, settings := range map[string]string{"bloom": "index: bloom", "bucket": "index: bucket, buckets: 3"} {
		t.Run(name, func(t *testing.T) {
			spark := mustEngine(t, spark015)
			l := newLake(t, settings)
			l.run()
			for _, db := range slices.Sorted(maps.Keys(l.dbs)) {
				l.put(db, "d03", 300)
			}
			if _, err := l.dbs["eu"].Delete("d04"); err != nil { // of one alone
				t.Fatal(err)
			}
			l.put("eu/shop", "late", 1)
			l.run()
			l.read(mustEngine(t, hudiRs), "ours", l.rows())
			all := l.read(spark, "ours", l.rows())

			// Spark 0.15 has other buckets for keys with a colon (docs/format/bucket.md).
			all = slices.DeleteFunc(all, func(r row) bool { return strings.Contains(r["_id"].(string), ":") })
			edits := sparkEdits(all)
			fresh := maps.Clone(edits[0])
			fresh["_key"], fresh["_db"], fresh["_id"], fresh["_rev_order"] = "shop/by spark", "shop", "by spark", int64(1)
			options := map[string]string{"hoodie.index.type": "BLOOM"}
			if name == "bucket" {
				options = map[string]string{"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "SIMPLE",
					"hoodie.bucket.index.num.buckets": "3", "hoodie.bucket.index.hash.field": "_key"}
			}
			if _, err := spark.ask(question{Op: "upsert", Operation: "upsert", Table: l.table, Rows: append(edits, fresh), Options: options}); err != nil {
				t.Fatal(err)
			}
			want := l.rows()
			for _, r := range append(edits, fresh) {
				w := maps.Clone(r)
				delete(w, "_leaves")
				want[r["_key"].(string)] = w
			}
			l.read(spark, "after Spark", want)
			// Ours goes on, with a document that Spark was the first to write.
			l.put("shop", "by spark", 1)
			l.put("shop", "by spark", 2)
			l.put("eu", "d05", 500)
			l.run()
			for key, r := range l.rows() {
				if r["_id"] == "by spark" || key == "eu/d05" && want[key]["_rev"] != "999-spark" {
					want[key] = r
				}
			}
			l.read(mustEngine(t, hudiRs), "gone on", want)
			l.read(spark, "gone on", want)
		})
	}
}
