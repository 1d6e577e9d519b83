package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// zoo is a database of animals of several kinds, and a config that gives each kind a
// table.
func zoo(t *testing.T) (db *couchfake.Database, file, dir string) {
	t.Helper()
	_, db, url := shop(t, couchfake.Options{}, 0)
	for i := range 40 {
		kind := []string{"cat", "dog", "ant", "bee"}[i%4]
		if _, err := db.Put(fmt.Sprintf("d%03d", i), fmt.Appendf(nil, `{"kind":%q,"n":%d,"%s":true}`, kind, i, kind)); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	file = filepath.Join(dir, "c.yaml")
	text := "source: {url: \"" + url + "\"}\nroute: {field: kind, others: insects}\nstate_dir: " + filepath.Join(dir, "state") + "\n" +
		"table: {url: \"" + dir + "/{table}\"}\ntables:\n- {name: cats, values: [cat]}\n- {name: dogs, values: [dog], table: {index: bucket, buckets: 4, deletes: hard}}\n- {name: insects}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return db, file, dir
}

func TestRunSeveralTables(t *testing.T) {
	db, file, dir := zoo(t)
	out := want(t, 0, nil, "schema", "-c", file, "--table", "dogs", "--format", "jsonl")
	if !strings.Contains(out, `"dog"`) || strings.Contains(out, `"cat"`) {
		t.Errorf("columns of a table to be: %s", out)
	}
	want(t, exitUsage, []string{"cats, dogs, insects"}, "schema", "-c", file)
	want(t, 0, []string{"3 tables (cats, dogs, insects) by kind", "dogs: there is none"}, "check", "-c", file)
	_, _, errs := call(t, "run", "-c", file, "--once")
	for _, name := range []string{"cats", "dogs", "insects"} {
		if !strings.Contains(errs, `"table":"`+name+`"`) {
			t.Errorf("the log does not name %s:\n%s", name, errs)
		}
	}
	count := func(name, n string) {
		t.Helper()
		if out := want(t, 0, nil, "query", "--table", filepath.Join(dir, name), "--count"); out != n+"\n" {
			t.Errorf("%s has %s rows, want %s", name, out, n)
		}
	}
	count("cats", "10")
	count("dogs", "10")
	count("insects", "20")
	for id, body := range map[string]string{"d000": `{"kind":"dog"}`, "d001": `{"kind":"bee"}`} {
		if _, err := db.Put(id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Delete("d005"); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, "run", "-c", file, "--once")
	count("cats", "9")
	count("dogs", "9")
	count("insects", "21")
	out = want(t, 0, nil, "schema", "-c", file, "--table", "cats", "--format", "jsonl")
	if !strings.Contains(out, `"cat"`) || strings.Contains(out, `"dog"`) {
		t.Errorf("columns of a table: %s", out)
	}
	out = want(t, 0, nil, "check", "-c", file, "--format", "jsonl")
	named := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		if f.Check == "resume" {
			named[f.Table] = true
		}
	}
	if len(named) != 3 || named[""] {
		t.Errorf("check says where these go on: %v", named)
	}
	for _, name := range []string{"cats", "dogs", "insects"} {
		want(t, 0, nil, "verify", "-c", file, "--table", name)
	}
	want(t, 0, nil, "compact", "-c", file, "--table", "dogs")
	want(t, exitUsage, []string{"cats, dogs, insects"}, "compact", "-c", file)
	want(t, exitUsage, []string{"leave --table out"}, "run", "-c", file, "--once", "--table", "dogs")
}

// A table that does not fit its config says which it is.
func TestRunSeveralTablesPinned(t *testing.T) {
	_, file, _ := zoo(t)
	want(t, 0, nil, "run", "-c", file, "--once")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "buckets: 4", "buckets: 8", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitUsage, []string{"dogs", "buckets"}, "run", "-c", file, "--once")
	want(t, exitUsage, []string{"dogs: table.buckets"}, "check", "-c", file)
}
