package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// TestNestedThroughTheLine follows nested fields into a table, lets them grow, and
// reads them in every format: from base files of the old type under log files of
// the new one, and compacted.
func TestNestedThroughTheLine(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{Shards: 1}, 0)
	put := func(id, body string) {
		t.Helper()
		if _, err := db.Put(id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "table")
	config := filepath.Join(t.TempDir(), "c.yaml")
	text := "source: {url: \"" + url + "\"}\ntable: {url: \"" + dir + "\", index: bucket, buckets: 1, cdc: data_before_after}\ncolumns: {nested: struct}\ncompaction: {mode: \"off\"}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	put("a", `{"addr":{"zip":"1","geo":{"lat":1.5}},"tags":["x","y"],"items":[{"sku":"s","n":1}]}`)
	put("b", `{"tags":[],"items":[]}`)
	put("c", `{"n":1}`)
	run := func() { t.Helper(); want(t, 0, nil, "run", "--once", "--config", config) }
	run()
	put("b", `{"addr":{"zip":2,"country":"FR"},"tags":["z"],"items":[{"n":2,"tax":[0.5]},{}]}`)
	put("d", `{"addr":{"geo":{"lon":2.5}}}`)
	run()
	rows := []string{
		`"addr":{"zip":"1","geo":{"lat":1.5,"lon":null},"country":null},"tags":["x","y"],"items":[{"sku":"s","n":1,"tax":null}]`,
		`"_rescued":"{\"_paths\":{\"addr.zip\":2}}"`,
		`"addr":{"zip":null,"geo":null,"country":"FR"},"tags":["z"],"items":[{"sku":null,"n":2,"tax":[0.5]},{"sku":null,"n":null,"tax":null}]`,
		`"addr":null,"tags":null,"items":null,"n":1`,
		`"addr":{"zip":null,"geo":{"lat":null,"lon":2.5},"country":null}`,
	}
	want(t, 0, rows, "query", "--table", dir, "--format", "jsonl")
	want(t, 0, []string{`"{""zip"":null,""geo"":null,""country"":""FR""}"`}, "query", "--table", dir, "--format", "csv", "--columns", "_id,addr")
	want(t, 0, []string{`{"zip":null,"geo":null,"country":"FR"}`}, "query", "--table", dir, "--format", "table", "--columns", "_id,addr")
	want(t, 0, []string{`"before":{`, `"tags":[],"items":[]`, `"country":"FR"`}, "query", "--table", dir, "--changes", "--since", "earliest", "--format", "jsonl")
	for where, n := range map[string]string{"addr is null": "1", "addr is not null": "3", "items is null": "2"} {
		want(t, 0, []string{n + "\n"}, "query", "--table", dir, "--where", where, "--count")
	}
	want(t, exitUsage, nil, "query", "--table", dir, "--where", "addr = 1")
	want(t, 0, nil, "compact", "--table", dir)
	want(t, 0, []string{"1\n"}, "query", "--table", dir, "--where", "addr is null", "--count")
	want(t, 0, rows, "query", "--table", dir, "--format", "jsonl")
	out := filepath.Join(t.TempDir(), "rows.parquet")
	want(t, 0, nil, "query", "--table", dir, "--out", out)
	if b, err := os.ReadFile(out); err != nil || !strings.HasPrefix(string(b), "PAR1") {
		t.Errorf("%v", err)
	}
	got := columnsOf(t, want(t, 0, nil, "schema", "--table", dir))
	if addr := got["addr"]; addr.Doc != "struct<zip: string, geo: struct<lat: double, lon: double>, country: string>" || !strings.Contains(addr.Type, `"record"`) || addr.Origin != "inferred" {
		t.Errorf("%+v", addr)
	}
	want(t, 0, []string{"# addr: struct<zip: string", "type: long}"}, "schema", "--table", dir, "--format", "yaml")
	want(t, 0, []string{"array<struct<sku: string, n: long, tax: array<double>>>"}, "schema", "-c", config, "--format", "jsonl")
}
