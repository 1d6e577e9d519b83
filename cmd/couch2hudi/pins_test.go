package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// A table keeps the index and the buckets that it was made with: other ones end
// run and check with 2, by name and with both values.
func TestRunPinsIndex(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 40)
	dir := filepath.Join(t.TempDir(), "table")
	flags := []string{"--source", url, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd"}
	bucket := slices.Concat(flags, []string{"--index", "bucket", "--buckets", "4"})
	run := func(flags ...string) []string { return append([]string{"run", "--once"}, flags...) }
	want(t, 0, nil, run(bucket...)...)
	if _, err := db.Delete("d003"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Put("d004", []byte(`{"n":400,"at":"2024-01-09T00:00:00Z"}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run(bucket...)...)
	if out := want(t, 0, nil, "query", "--table", dir, "--count"); out != "39\n" {
		t.Fatalf("count: %q", out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "pt=*", "0000000[0-3]-*.parquet"))
	others, err2 := filepath.Glob(filepath.Join(dir, "pt=*", "*.parquet"))
	if err != nil || err2 != nil || len(files) == 0 || len(files) != len(others) || len(files) > 4*4 {
		t.Fatalf("%d base files of buckets, %d in all", len(files), len(others))
	}
	for _, c := range []struct {
		flags []string
		words []string
	}{
		{append(flags, "--index", "bucket", "--buckets", "8"), []string{"table.buckets is 4 in commit ", "says 8", "rebucket"}},
		{flags, []string{"table.index is bucket in commit ", "says bloom"}},
		{append(bucket, "--partition-field", "n"), []string{"table.partition.field is at in commit ", "says n"}},
	} {
		want(t, exitUsage, c.words, run(c.flags...)...)
		found := findings(t, exitUsage, c.flags...)
		for _, word := range c.words {
			has(t, found, "FAIL table.pinned", word)
		}
	}
	has(t, findings(t, 0, bucket...), "ok table.pinned", "says commit")
	want(t, exitUsage, []string{"table.buckets"}, run(append(flags, "--index", "bucket", "--buckets", "0")...)...)
	want(t, exitUsage, []string{"table.index"}, run(append(flags, "--index", "hash")...)...)
}

// Created and never committed: the pins stand in hoodie.properties.
func TestRunPinsEmptyTable(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 1)
	dir := filepath.Join(t.TempDir(), "table")
	flags := []string{"run", "--once", "--source", url, "--table", dir, "--index", "bucket"}
	want(t, 0, nil, append(flags, "--buckets", "4")...)
	commits, err := filepath.Glob(filepath.Join(dir, ".hoodie", "*.deltacommit*"))
	if err != nil || len(commits) == 0 {
		t.Fatalf("%v %v", commits, err)
	}
	for _, name := range commits {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	props, err := os.ReadFile(filepath.Join(dir, ".hoodie", "hoodie.properties"))
	if err != nil || !strings.Contains(string(props), "hoodie.index.type=BUCKET\n") || !strings.Contains(string(props), "hoodie.bucket.index.num.buckets=4\n") {
		t.Fatalf("%v\n%s", err, props)
	}
	want(t, exitUsage, []string{"table.buckets is 4 in hoodie.properties", "says 5"}, append(flags, "--buckets", "5")...)
}
