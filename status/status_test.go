package status_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/status"
)

// get is the status and the body of an answer.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func has(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, part := range all {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

// What the tables of a process tell is on the page and in the metrics, and nothing is
// markup that a name or a reason brings along.
func TestBoard(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := status.New(status.Options{Version: "v1", Source: "couchdb://db/shop", Clock: func() time.Time { return now }})
	s := httptest.NewServer(b.Handler())
	defer s.Close()
	if code, text := get(t, s.URL+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "waiting") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := get(t, s.URL+"/healthz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("%d %s", code, text)
	}
	if _, text := get(t, s.URL+"/"); !strings.Contains(text, "Waiting for the table") {
		t.Errorf("%s", text)
	}
	orders, people := b.Table("orders"), b.Table("people<b>")
	if code, _ := get(t, s.URL+"/readyz"); code != http.StatusOK {
		t.Errorf("%d", code)
	}
	b.Retried("connection refused")
	orders.Read(pipeline.Reading{Rows: 70, Bytes: 7000, Pending: 30})
	_, text := get(t, s.URL+"/")
	has(t, text, "orders", "behind", "waiting for rows", "connection refused", "couchdb://db/shop", "none yet", "people&lt;b&gt;")
	orders.Read(pipeline.Reading{Rows: 30, Bytes: 3000})
	orders.Committed(pipeline.Progress{Instant: "20260102030405000", LastSeq: "100-x", Files: 3, Bytes: 999, CaughtUp: true, Took: 20 * time.Millisecond,
		Stats: commitmeta.Stats{Rows: 100, Inserts: 90, Upserts: 95, Quarantined: 2}})
	orders.Compacted("20260102030400000", 1000, 2*time.Second)
	orders.Cleaned(7, now.Add(-time.Hour))
	orders.Archived(5)
	people.Failed("compact", "disk <full>")
	now = now.Add(90 * time.Second)
	_, text = get(t, s.URL+"/")
	has(t, text, "caught up", "20260102030405000, 1m30s ago", "100-x", "20260102030400000", "could not compact, trying again: disk &lt;full&gt;")
	_, text = get(t, s.URL+"/metrics")
	has(t, text, `couch2hudi_read_rows_total{table="orders"} 100`, `couch2hudi_read_bytes_total{table="orders"} 10000`, `couch2hudi_commits_total{table="orders"} 1`,
		`couch2hudi_rows_total{kind="inserts",table="orders"} 90`, `couch2hudi_rows_total{kind="quarantined",table="orders"} 2`,
		`couch2hudi_written_files_total{table="orders"} 3`, `couch2hudi_commit_seconds_bucket{table="orders",le="0.02"} 1`, `couch2hudi_pending_rows{table="orders"} 0`,
		`couch2hudi_caught_up{table="orders"} 1`, `couch2hudi_last_commit_timestamp_seconds{table="orders"} 1.767323045e+09`,
		`couch2hudi_oldest_readable_timestamp_seconds{table="orders"} 1.767319445e+09`, `couch2hudi_cleaned_files_total{table="orders"} 7`,
		`couch2hudi_archived_instants_total{table="orders"} 5`, `couch2hudi_service_seconds_total{service="compaction",table="orders"} 2`,
		`couch2hudi_service_failures_total{service="compact",table="people<b>"} 1`, `couch2hudi_source_retries_total 1`, `couch2hudi_build_info{version="v1"} 1`, "go_goroutines")
	people.Compacted("20260102030410000", 1, time.Second)
	if _, text = get(t, s.URL+"/"); strings.Contains(text, "could not compact") {
		t.Error("a failure is shown after the service works again")
	}
	if code, _ := get(t, s.URL+"/else"); code != http.StatusNotFound {
		t.Errorf("%d", code)
	}
}
