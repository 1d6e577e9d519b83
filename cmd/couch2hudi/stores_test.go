package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/internal/s3fake"
)

// s3Bucket starts an S3 in this process, which does not mind the condition of a
// completion, and is the URL of a table in it.
func s3Bucket(t *testing.T) string {
	t.Helper()
	store, err := s3fake.Start(s3fake.Options{Deaf: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store.URL("lake/shop")
}

// A table in a bucket, with each command that reads or writes one.
func TestTableInABucket(t *testing.T) {
	_, db, source := shop(t, couchfake.Options{}, 30)
	table := s3Bucket(t)
	shape := []string{"--source", source, "--table", table, "--partition-field", "at", "--partition-format", "yyyyMMdd"}
	run := append([]string{"run", "--once", "--state-dir", t.TempDir(), "--compaction", "off"}, shape...)
	want(t, exitUsage, []string{"ignores the condition", "in parts", "--trust-single-writer"}, run...)
	want(t, exitUsage, []string{"FAIL", "table.store"}, "check", "--source", source, "--table", table)
	want(t, exitFailed, []string{"no table"}, "query", "--table", table)
	run = append(run, "--trust-single-writer")
	want(t, 0, []string{"committed"}, run...)
	if _, err := db.Delete("d003"); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run...)
	if out := want(t, 0, nil, "query", "--table", table, "--count"); out != "29\n" {
		t.Errorf("count: %q", out)
	}
	if out := want(t, 0, nil, "query", "--table", table, "--columns", "_id,n"); strings.Count(out, "\n") != 29 || !strings.Contains(out, `"_id":"d029","n":29`) {
		t.Errorf("rows: %s", out)
	}
	want(t, 0, []string{"no other couch2hudi writes", "as trust_single_writer says"}, append([]string{"check", "--trust-single-writer"}, shape...)...)
	trusting := table + "&trust_single_writer=true"
	want(t, exitUsage, []string{"ignores the condition"}, "compact", "--table", table)
	want(t, 0, []string{"compacted"}, "compact", "--table", trusting)
	want(t, 0, nil, "clean", "--table", trusting)
	want(t, 0, nil, "savepoint", "create", "--table", trusting)
	want(t, 0, nil, append([]string{"verify"}, shape...)...)
	if out := want(t, 0, nil, "query", "--table", table, "--count"); out != "29\n" {
		t.Errorf("count: %q", out)
	}
	want(t, exitUsage, []string{"what"}, "query", "--table", "s3://bucket/t?what=1&region=x", "--count")
}

// A store that fails is told of while it is tried again, and in the end with what to
// do.
func TestStoreFails(t *testing.T) {
	store, err := s3fake.Start(s3fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	refuse := func(status int, code string) {
		store.Wrap(func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s3fake.Refuse(w, status, code) })
		})
	}
	refuse(http.StatusServiceUnavailable, "SlowDown")
	table := store.URL("lake/shop") + "&patience=2s"
	want(t, exitFailed, []string{"store failed, trying again", "tried", "patience=TIME"}, "query", "--table", table, "--count")
	refuse(http.StatusForbidden, "AccessDenied")
	want(t, exitFailed, []string{"credentials", "Permissions"}, "query", "--table", table, "--count")
	_, _, source := shop(t, couchfake.Options{}, 1)
	want(t, exitFailed, []string{"FAIL", "Permissions"}, "check", "--source", source, "--table", table)
}

// Keys that may be in any partition are looked for in all of them, by requests: who does
// without the key cache is told.
func TestLookupsInABucket(t *testing.T) {
	_, _, source := shop(t, couchfake.Options{}, 3)
	const next = "index.scope: partition"
	flags := func(command string, more ...string) []string {
		return append([]string{command, "--source", source, "--table", s3Bucket(t), "--trust-single-writer", "--index", "bucket", "--buckets", "2"}, more...)
	}
	byDay := []string{"--partition-field", "at", "--partition-format", "yyyyMMdd", "--state-dir", "off"}
	want(t, 0, []string{"warn  table.lookups", next}, flags("check", byDay...)...)
	want(t, 0, []string{"look-ups cost more", next}, flags("run", append(byDay, "--once")...)...)
	for _, fine := range [][]string{{"--state-dir", "off"}, append(byDay[:4:4], "--state-dir", t.TempDir())} {
		if out := want(t, 0, nil, flags("check", fine...)...); strings.Contains(out, "table.lookups") {
			t.Errorf("%v: %s", fine, out)
		}
	}
}
