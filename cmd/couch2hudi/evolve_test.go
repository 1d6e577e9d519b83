package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// A table whose documents change their shape: each commit of each kind tells the whole
// schema, and changes are told across the commits that made it grow, with change files
// and without, before and after a compaction.
func TestSchemaGrows(t *testing.T) {
	for name, layout := range map[string]string{"bloom": "cdc: off", "change files": "cdc: data_before_after", "bucket": "index: bucket, buckets: 1"} {
		t.Run(name, func(t *testing.T) {
			_, db, url := shop(t, couchfake.Options{Shards: 1}, 0)
			dir := filepath.Join(t.TempDir(), "table")
			config := written(t, fmt.Sprintf("source: {url: %s}\ntable: {url: %s, %s}\ncompaction: {mode: \"off\"}\n", url, dir, layout))
			for i, bodies := range []map[string]string{
				{"x": `{"a":1,"b":"old"}`, "y": `{"a":2}`},
				{"x": `{"c":true,"a":1}`},
				{"x": `{"d":[1],"a":1.5,"c":false}`, "z": `{"e":2.5}`},
			} {
				for _, id := range []string{"x", "y", "z"} {
					if body := bodies[id]; body == "" {
						continue
					} else if _, err := db.Put(id, []byte(body)); err != nil {
						t.Fatal(err)
					}
				}
				want(t, 0, nil, "run", "--once", "-c", config)
				if i == 1 {
					changesOfX(t, dir, 2)
				}
			}
			changesOfX(t, dir, 3)
			if strings.Contains(layout, "bucket") {
				want(t, 0, nil, "rebucket", "--table", dir, "--buckets", "2")
				changesOfX(t, dir, 3)
			}
			if _, err := db.Put("y", []byte(`{"f":"new"}`)); err != nil {
				t.Fatal(err)
			}
			want(t, 0, nil, "run", "--once", "-c", rebucketed(t, config))
			want(t, 0, []string{"compacted"}, "compact", "--table", dir)
			changesOfX(t, dir, 3)
			kinds := schemasGrow(t, dir)
			if kinds["commit"] != 1 || kinds["deltacommit"] != 4 || kinds["replacecommit"] != map[bool]int{true: 1}[strings.Contains(layout, "bucket")] {
				t.Errorf("kinds of commits: %v", kinds)
			}
		})
	}
}

// rebucketed is the config with the number of buckets that the table has by now.
func rebucketed(t *testing.T, config string) string {
	t.Helper()
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, strings.Replace(string(text), "buckets: 1", "buckets: 2", 1))
}

// changesOfX compares the first n changes of document x.
func changesOfX(t *testing.T, dir string, n int) {
	t.Helper()
	type image map[string]any
	wanted := [][2]image{
		{nil, {"a": 1.0, "b": "old", "c": nil, "d": nil, "_rescued": nil}},
		{{"a": 1.0, "b": "old", "c": nil, "d": nil, "_rescued": nil}, {"a": 1.0, "b": nil, "c": true, "d": nil, "_rescued": nil}},
		{{"a": 1.0, "b": nil, "c": true, "d": nil, "_rescued": nil}, {"a": nil, "b": nil, "c": false, "d": "[1]", "_rescued": `{"a":1.5}`}},
	}[:n]
	found := 0
	for _, raw := range jsonLines(want(t, 0, nil, "query", "--table", dir, "--format", "jsonl", "--changes", "--since", "earliest")) {
		var c struct{ Before, After image }
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		if c.After["_id"] != "x" {
			continue
		}
		if found == n {
			t.Fatalf("more than %d changes: %s", n, raw)
		}
		for i, got := range []image{c.Before, c.After} {
			if w := wanted[found][i]; (got == nil) != (w == nil) {
				t.Errorf("change %d: image %v, want %v", found, got, w)
			} else {
				for column, v := range w {
					if got[column] != v {
						t.Errorf("change %d, image %d: %s is %v, want %v", found, i, column, got[column], v)
					}
				}
			}
		}
		found++
	}
	if found != n {
		t.Errorf("%d changes of x, want %d", found, n)
	}
}

// schemasGrow checks the schema in each completed commit, and counts those by kind.
func schemasGrow(t *testing.T, dir string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, ".hoodie", "*commit"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files) // by instant
	kinds := map[string]int{}
	var before []hudi.Column
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Extra map[string]string `json:"extraMetadata"`
		}
		if err := json.Unmarshal(data, &body); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s, err := hudi.ParseSchema(body.Extra["schema"])
		if err != nil {
			t.Fatalf("%s: schema: %v", file, err)
		}
		if now := s.Columns(); len(now) < len(before) || !slices.Equal(now[:len(before)], before) {
			t.Errorf("%s: columns %v, before it %v", file, now, before)
		}
		before = s.Columns()
		kinds[strings.TrimPrefix(filepath.Ext(file), ".")]++
	}
	return kinds
}
