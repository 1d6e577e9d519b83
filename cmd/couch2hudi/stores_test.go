package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// s3Bucket starts an S3 in this process, which does not mind the condition of a
// completion, and is the URL of a table in it. requests counts what it is asked.
func s3Bucket(t *testing.T) (table string, requests *atomic.Int64) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
	t.Setenv("AWS_CONFIG_FILE", "/nothing")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nothing")
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	store := gofakes3.New(backend).Server()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return "s3://bucket/lake/shop?endpoint=" + url.QueryEscape(server.URL), requests
}

// A table in a bucket, with each command that reads or writes one.
func TestTableInABucket(t *testing.T) {
	_, db, source := shop(t, couchfake.Options{}, 30)
	table, _ := s3Bucket(t)
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
