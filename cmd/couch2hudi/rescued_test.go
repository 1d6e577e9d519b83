package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// rescuing is a table with rescued values of many fields, and the config that made it.
func rescuing(t *testing.T, more string) (db *couchfake.Database, dir, config string) {
	t.Helper()
	_, db, url := shop(t, couchfake.Options{Shards: 1}, 0)
	dir = filepath.Join(t.TempDir(), "table")
	config = fmt.Sprintf("source: {url: %s}\ntable: {url: %s}\n", url, dir)
	put := func(id, body string) {
		t.Helper()
		if _, err := db.Put(id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	run := func() {
		t.Helper()
		want(t, 0, nil, "run", "--once", "-c", written(t, config+more))
	}
	put("a", `{"n":1,"s":"text","many":1,"obj":{"a":1},"day":"2024-01-05","part":{"zip":5},"wide":1,"text":"x","all":1}`)
	run()
	for i, body := range []string{
		`{"n":1.5,"s":5,"many":"x","obj":7,"part":{"zip":"a"},"wide":12345678901234567890123,"text":98765432109876543210987,"late":1}`,
		`{"n":2,"many":true,"obj":"y","part":{"zip":6},"late":2,"all":null}`,
		`{"n":2.5,"s":true,"many":[1],"day":"2024-01-06","part":[],"late":3}`,
	} {
		put(fmt.Sprintf("b%d", i), body)
	}
	put("gone", `{"n":"text"}`)
	if _, err := db.Put("gone", []byte(`{"_deleted":true,"n":"text"}`)); err != nil {
		t.Fatal(err)
	}
	run()
	return db, dir, config
}

// written is a config in a file.
func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	declaredRescuing = "columns:\n  declare:\n    - {name: zip, path: part.zip, type: long}\n    - {name: day, type: date}\n"
	maxEight         = declaredRescuing + "  max_columns: 9\n"
)

// What is rescued is counted by field, and the declarations that schema suggests give
// each of those values a column.
func TestSchemaCountsRescued(t *testing.T) {
	for name, more := range map[string]string{"with _doc": maxEight, "without _doc": maxEight + "  keep_doc: false\n"} {
		t.Run(name, func(t *testing.T) {
			_, dir, config := rescuing(t, more)
			out := want(t, 0, []string{"looked at 4 live rows, all of them: values of 9 fields are rescued", "--suggest"}, "schema", "--table", dir)
			rescued := map[string][2]int{}
			for _, raw := range jsonLines(out) {
				var l columnLine
				if err := json.Unmarshal(raw, &l); err != nil {
					t.Fatal(err)
				}
				if l.Rescued > 0 {
					rescued[l.Name+"|"+l.Field] = [2]int{l.Rescued, l.Values}
				}
			}
			wanted := map[string][2]int{"n|": {2, 4}, "s|": {2, 3}, "many|": {3, 4}, "obj|": {2, 3}, "zip|part.zip": {1, 3}, "wide|": {1, 2}, "text|": {1, 2}, "|late": {3, 3}, "|all": {1, 1}}
			if fmt.Sprint(rescued) != fmt.Sprint(wanted) {
				t.Errorf("rescued of values:\n%v, want\n%v", rescued, wanted)
			}
			want(t, 0, []string{"RESCUED", "2 of 4, 50%", "3 of 3, 100%"}, "schema", "--table", dir, "--format", "table")

			text := want(t, 0, nil, "schema", "--table", dir, "--suggest")
			for _, line := range []string{
				`{name: "n", type: long, on_conflict: new_column} # 2 of 4, 50% rescued: 2 other numbers`,
				"{name: s, type: string, on_conflict: new_column} # 2 of 3, 66.7% rescued: 1 integer, 1 boolean",
				"{name: many, type: long, on_conflict: string} #",
				"{name: obj_all, path: obj, type: json} #",
				"{name: zip, path: part.zip, type: long, on_conflict: new_column} #",
				"{name: wide, type: long, on_conflict: string} #",
				"{name: text_all, path: text, type: json} #",
				"{name: late, type: long} # 3 of 3",
				"{name: all, type: long} # 1 of 1",
			} {
				if !strings.Contains(text, line) {
					t.Errorf("no %s in\n%s", line, text)
				}
			}
			text = strings.Replace(text, "max_columns: 9", "", 1) + "    - {name: day, type: date}\n"
			if strings.Contains(more, "keep_doc") {
				text += "  keep_doc: false\n"
			}
			want(t, 0, nil, "run", "--once", "--replay", "--rewrite", "-c", written(t, config+text))
			want(t, 0, []string{"4 live rows, all of them: values of 0 fields"}, "schema", "--table", dir)
			want(t, 0, []string{"no value is rescued"}, "schema", "--table", dir, "--suggest")
		})
	}
}

// Of lists and structs the parts that do not fit are told by their paths, those of all
// places of a list together, and a field by its name.
func TestSchemaCountsRescuedParts(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{Shards: 1}, 0)
	dir := filepath.Join(t.TempDir(), "table")
	config := fmt.Sprintf("source: {url: %s}\ntable: {url: %s}\n", url, dir)
	for i, body := range []string{`{"lines":[{"qty":1}],"a b":{"x":1}}`, `{"lines":[{"qty":1},{"qty":"two"},{"qty":"three"}],"a b":{"x":"y"}}`, `{"lines":"none","a b":{"x":2}}`} {
		if _, err := db.Put(fmt.Sprintf("d%d", i), []byte(body)); err != nil {
			t.Fatal(err)
		}
		want(t, 0, nil, "run", "--once", "-c", written(t, config+"columns: {nested: struct}\n"))
	}
	out := want(t, 0, []string{"values of 3 fields"}, "schema", "--table", dir)
	for _, line := range []string{`"field":"lines[*].qty","origin":"rescued","rescued":2}`, `"field":"a b.x","origin":"rescued","rescued":1}`, `"values":3,"rescued":1}`} {
		if !strings.Contains(out, line) {
			t.Errorf("no %s in\n%s", line, out)
		}
	}
	text := want(t, 0, nil, "schema", "--table", dir, "--suggest")
	for _, line := range []string{"{name: lines_all, path: lines, type: json} # 1 of 3",
		`{name: a_b_json, path: "a b", type: json} # 1 values of a b.x`} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	if strings.Contains(text, "lines_json") {
		t.Errorf("two columns for the same:\n%s", text)
	}
	want(t, 0, nil, "run", "--once", "--replay", "--rewrite", "-c", written(t, config+text+"  nested: struct\n"))
	if got := columnsOf(t, want(t, 0, nil, "schema", "--table", dir)); got["lines_all"].Type != "string" || got["a_b_json"].Type != "string" {
		t.Errorf("%+v", got)
	}
}

// A sample takes rows from all over the table, and no more than it is asked for.
func TestSchemaSamples(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 0)
	for i := range 400 {
		if _, err := db.Put(fmt.Sprintf("d%04d", i), fmt.Appendf(nil, `{"day":"2024-01-%02d","n":%d}`, 1+i%20, i)); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "table")
	want(t, 0, nil, "run", "--once", "--source", url, "--table", dir, "--partition-field", "day", "--partition-format", "yyyyMMdd")
	for sample, n := range map[string]string{"40": "looked at 40 live rows, a sample", "0": "looked at 400 live rows, all", "10000": "looked at 400 live rows, all"} {
		want(t, 0, []string{n}, "schema", "--table", dir, "--sample", sample)
	}
	if got := columnsOf(t, want(t, 0, nil, "schema", "--table", dir, "--sample", "40")); got["n"].Values != 40 {
		t.Errorf("%+v", got["n"])
	}
}

// Since when a column is there is not guessed when the beginning is in the archive.
func TestSchemaSinceInArchive(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 1)
	dir := filepath.Join(t.TempDir(), "table")
	var first string
	const commits = 26
	for i := range commits {
		body := fmt.Sprintf(`{"n":%d}`, i)
		if i >= 2 {
			body = fmt.Sprintf(`{"n":%d,"second":1}`, i)
		}
		if i == commits-1 {
			body = `{"n":1,"last":1}`
		}
		if _, err := db.Put("d000", []byte(body)); err != nil {
			t.Fatal(err)
		}
		want(t, 0, nil, "run", "--once", "--source", url, "--table", dir, "--compaction", "off", "--retain", "1s")
		if i == 0 {
			first = firstInstant(t, dir)
		}
	}
	want(t, 0, nil, "compact", "--table", dir)
	want(t, 0, nil, "clean", "--table", dir, "--policy", "commits", "--keep", "1")
	want(t, 0, []string{"archived"}, "archive", "--table", dir, "--keep-min", "20", "--keep-max", "21")
	files, err := filepath.Glob(filepath.Join(dir, ".hoodie", "*.deltacommit"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	active := strings.TrimSuffix(filepath.Base(slices.Min(files)), ".deltacommit")
	if active <= first {
		t.Fatalf("the active timeline begins at %s", active)
	}
	got := columnsOf(t, want(t, 0, nil, "schema", "--table", dir))
	if n, last := got["n"], got["last"]; n.Since != active || !n.OrBefore || last.Since <= active || last.OrBefore {
		t.Errorf("n %+v, last %+v", n, last)
	}
	want(t, 0, []string{active + " or before"}, "schema", "--table", dir, "--format", "table")
	all := columnsOf(t, want(t, 0, nil, "schema", "--table", dir, "--history"))
	if n, second := all["n"], all["second"]; n.Since != first || n.OrBefore || second.Since <= first || second.Since >= active || second.OrBefore {
		t.Errorf("n %+v, second %+v", n, second)
	}
}
