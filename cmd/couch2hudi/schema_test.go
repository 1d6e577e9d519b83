package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// columnsOf decodes `schema --format jsonl`.
func columnsOf(t *testing.T, out string) map[string]columnLine {
	t.Helper()
	columns := map[string]columnLine{}
	for _, raw := range jsonLines(out) {
		var l columnLine
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		columns[l.Name] = l
	}
	return columns
}

func TestSchemaOfTable(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 3)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", url, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd"}
	want(t, 0, nil, run...)
	if _, err := db.Put("d001", []byte(`{"n":1,"at":"2024-01-01T00:00:00Z","late fee":1.5,"tags":["a"]}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run...)
	first := firstInstant(t, dir)
	got := columnsOf(t, want(t, 0, nil, "schema", "--table", dir))
	for _, w := range []columnLine{
		{Name: "n", Type: "long", Origin: "inferred", Since: first, Values: 3},
		{Name: "_id", Type: "string", Since: first, Doc: "the document's _id, the record key"},
		{Name: "pt", Type: "string", Since: first, Doc: "the partition's value"},
	} {
		if got[w.Name] != w {
			t.Errorf("%s: %+v, want %+v", w.Name, got[w.Name], w)
		}
	}
	late, tags := got["late_fee"], got["tags"]
	if late.Field != "late fee" || late.Type != "double" || late.Since <= first || late.Doc != "" {
		t.Errorf("a renamed field of the second commit: %+v", late)
	}
	if tags.Type != "string" || !strings.Contains(tags.Doc, "JSON") || tags.Since != late.Since || tags.Field != "" {
		t.Errorf("an array: %+v", tags)
	}
	want(t, 0, []string{"COLUMN", "late fee", "late_fee", first}, "schema", "--table", dir, "--format", "table")
	schema, err := hudi.ParseSchema(want(t, 0, nil, "schema", "--table", dir, "--format", "avro"))
	if err != nil || schema.Len() != len(got) {
		t.Fatalf("the Avro schema: %v, %d columns, want %d", err, schema.Len(), len(got))
	}
}

// A table that real Hudi wrote: composite types as they are, and no word of ours
// about columns that mean what their writer likes.
func TestSchemaOfGolden(t *testing.T) {
	dir, _ := goldenFolder(t, "w015-v6-bloom-nomdt")
	got := columnsOf(t, want(t, 0, nil, "schema", "--table", dir))
	if !strings.Contains(got["tags"].Type, `"array"`) || got["_id"].Doc != "" || got["qty"].Type == "" || got["qty"].Since == "" {
		t.Fatalf("columns: %+v", got)
	}
}

func TestSchemaOfSource(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 10)
	for id, body := range map[string]string{
		"e1": `{"a b":1,"mixed":1}`, "e2": `{"mixed":"x","list":[1]}`, "e3": `{"big":1.5,"pt":1}`,
	} {
		if _, err := db.Put(id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	got := columnsOf(t, want(t, 0, []string{`"rows":13`, `"whole":true`}, "schema", "--source", url,
		"--partition-field", "at", "--partition-format", "yyyyMMdd"))
	for name, kind := range map[string]string{"n": "long", "a_b": "long", "list": "string", "big": "double", "_id": "string", "pt": "string"} {
		if c := got[name]; c.Type != kind || c.Since != "" {
			t.Errorf("%s: %+v, want a %s", name, c, kind)
		}
	}
	if got["a_b"].Field != "a b" || got["pt"].Field != "" || !strings.Contains(got["mixed"].Doc, "JSON") {
		t.Errorf("fields: %+v", got)
	}
	// What is inferred is what run then makes, in the order of that feed.
	dir := filepath.Join(t.TempDir(), "table")
	shape := []string{"--source", url, "--partition-field", "at", "--keep-doc=false"}
	inferred := columnsOf(t, want(t, 0, nil, append([]string{"schema"}, shape...)...))
	want(t, 0, nil, append([]string{"run", "--once", "--table", dir}, shape...)...)
	made := columnsOf(t, want(t, 0, nil, "schema", "--table", dir))
	for name, c := range made {
		c.Since, c.Values = "", 0
		made[name] = c
	}
	if !reflect.DeepEqual(made, inferred) {
		t.Errorf("inferred %+v, made %+v", inferred, made)
	}
	small := columnsOf(t, want(t, 0, []string{`"rows":2`, `"whole":false`}, "schema", "--source", url, "--sample", "2"))
	if len(small) >= len(got) {
		t.Errorf("a sample of two: %+v", small)
	}
}

// What schema suggests is a config, and run makes those columns.
func TestSchemaSuggests(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 2)
	for id, body := range map[string]string{
		"e1": `{"created":"2024-01-05T10:00:00Z","day":"2024-01-05","mixed":1,"on":true,"a.b":[1],"late fee":2.5}`,
		"e2": `{"created":"2024-01-06T10:00:00.5Z","day":"2024-01-06","mixed":"x"}`,
	} {
		if _, err := db.Put(id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	text := want(t, 0, nil, "schema", "--source", url, "--format", "yaml")
	for _, line := range []string{"{name: created, type: timestamp} # all 2 texts", "{name: day, type: date} #", "{name: mixed, type: string, on_conflict: string}",
		`{name: "on", type: boolean}`, `{name: a_b, path: "[\"a.b\"]", type: json}`, `{name: late_fee, path: "late fee", type: double}`} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	dir := filepath.Join(t.TempDir(), "table")
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("source: {url: "+url+"}\ntable: {url: "+dir+"}\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, "run", "--once", "-c", file)
	got := columnsOf(t, want(t, 0, nil, "schema", "--table", dir))
	for name, typ := range map[string]string{"created": `timestamp-micros`, "day": `"date"`, "mixed": "string", "a_b": "string", "late_fee": "double"} {
		if c := got[name]; !strings.Contains(c.Type, typ) || c.Origin != "declared" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	want(t, 0, []string{"declared", "rfc3339", "late fee"}, "schema", "--table", dir, "--format", "table")
	// Another type for a column that is there is refused, by check and by run.
	changed := strings.Replace(text, "{name: day, type: date}", "{name: day, type: string}", 1)
	if err := os.WriteFile(file, []byte("source: {url: "+url+"}\ntable: {url: "+dir+"}\n"+changed), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitUsage, []string{`column "day"`, "of type date there", "another name"}, "run", "--once", "-c", file)
	want(t, exitUsage, []string{"table.columns", "of type date there"}, "check", "-c", file)
}

// The first columns come from the sample, whatever the size of a batch.
func TestSample(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 20)
	for i, body := range []string{`{"n":1.5}`, `{"n":"x","late":true}`} {
		if _, err := db.Put(fmt.Sprintf("z%d", i), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	for sample, kind := range map[int]string{1000: "string", 5: "long"} {
		for _, rows := range []int{3, 1000} {
			dir := filepath.Join(t.TempDir(), "table")
			file := filepath.Join(t.TempDir(), "c.yaml")
			text := fmt.Sprintf("source: {url: %s}\ntable: {url: %s}\ncolumns: {sample: %d}\ncommit: {max_rows: %d}\n", url, dir, sample, rows)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			want(t, 0, nil, "run", "--once", "-c", file)
			got := columnsOf(t, want(t, 0, nil, "schema", "--table", dir))
			first := firstInstant(t, dir)
			if got["n"].Type != kind || (got["late"].Since == first) != (kind == "string" || rows == 1000) {
				t.Errorf("sample %d, batches of %d: %+v, %+v", sample, rows, got["n"], got["late"])
			}
			if rows := want(t, 0, nil, "query", "--table", dir, "--format", "jsonl"); len(jsonLines(rows)) != 22 {
				t.Errorf("%d rows", len(jsonLines(rows)))
			}
		}
	}
}

func TestSchemaBadInput(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 1)
	dir := filepath.Join(t.TempDir(), "table")
	want(t, exitUsage, []string{"--table, --source or -c"}, "schema")
	want(t, exitUsage, []string{"exclude"}, "schema", "--table", dir, "--source", url)
	want(t, exitUsage, []string{"--format"}, "schema", "--table", dir, "--format", "xml")
	want(t, exitUsage, []string{"--sample"}, "schema", "--source", url, "--sample", "0")
	want(t, exitUsage, []string{"partition"}, "schema", "--source", url, "--partition-field", "at", "--partition-format", "yyyy/MM")
	want(t, exitUsage, []string{"--sample"}, "schema", "--table", dir, "--sample", "-1")
	want(t, exitUsage, []string{"--suggest"}, "schema", "--source", url, "--suggest")
	want(t, exitUsage, []string{"--suggest prints YAML"}, "schema", "--table", dir, "--suggest", "--format", "avro")
	want(t, exitFailed, []string{"no table"}, "schema", "--table", dir)
	want(t, exitFailed, []string{"nowhere"}, "schema", "--source", strings.TrimSuffix(url, "shop")+"nowhere")
}
