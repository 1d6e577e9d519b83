//go:build oracle

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
)

// leaseKills is how often the writer of a table in S3 is killed.
func leaseKills() int {
	if os.Getenv("E2E_FULL") != "" {
		return 12
	}
	return 1
}

// Writers of a table in S3, which has no locks: one that is stopped past its lease and
// one that is killed are each replaced by the one that stands by. The first, when it
// goes on, ends with 5 and commits nothing. In the end the table equals the database.
func TestLeaseInS3(t *testing.T) {
	for _, s := range s3Stores() {
		t.Run(s.name, func(t *testing.T) { leaseInS3(t, s) })
	}
}

func leaseInS3(t *testing.T, s objectStore) {
	address := s.start(t)
	w := newTableWriter(t, modelOptions{})
	query := s.query(address)
	query.Set("lease", "10s")
	w.table = "s3://lake/leased?" + query.Encode()
	config := filepath.Join(t.TempDir(), "couch2hudi.yaml")
	text := fmt.Sprintf("source: {url: %q}\ntable: {url: %q, partition: {field: place}}\nretain: 1s\ntimeline: {keep_min: 20, keep_max: 21}\n"+
		"commit: {interval: 100ms, max_rows: 40}\ncompaction: {max_delta_commits: 2, max_age: 1s}\n", w.source, w.table)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	query.Del("lease")
	d, err := cloud.Open(t.Context(), s.scheme, "lake", "leased", query, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := storage.New(d, nil)
	defer func() { _ = b.Close() }()
	more := func(n int) {
		if err := w.data.next(n); err != nil {
			t.Fatal(err)
		}
	}
	more(60)
	writer := startRun(t, "run", "--wait", "--config", config)
	writer.until(t, "a commit", func() bool { return lastCommit(t, b) > "" })
	if code, said := howItEnded(t, "run", "--once", "--config", config); code != 5 || !strings.Contains(said, "held by pid") {
		t.Errorf("beside a writer run ended with %d, want 5\n%s", code, said)
	}
	replace := func(how syscall.Signal) *running {
		next := startRun(t, "run", "--wait", "--config", config)
		next.until(t, "the word that it waits", func() bool {
			said := next.said.String()
			return strings.Contains(said, "waiting for the table") || strings.Contains(said, "committed") // the other may have lost its lease
		})
		more(30)
		pauseFor(time.Duration(w.data.random.IntN(400)) * time.Millisecond)
		last := writer
		_ = last.cmd.Process.Signal(how)
		began := time.Now()
		seen := lastCommit(t, b)
		more(5)
		next.until(t, "a commit after "+seen, func() bool { return lastCommit(t, b) > seen })
		t.Logf("%v: the next one has committed after %v", how, time.Since(began).Round(time.Millisecond))
		writer = next
		return last
	}
	stopped := replace(syscall.SIGSTOP)
	more(10)
	stopped.end(syscall.SIGCONT)
	if code := stopped.cmd.ProcessState.ExitCode(); code != 5 || !strings.Contains(stopped.said.String(), "lease is lost") {
		t.Errorf("stopped past its lease it ended with %d, want 5\n%s", code, stopped.said.String())
	}
	for range leaseKills() {
		replace(syscall.SIGKILL)
	}
	writer.tends(t, b, more)
	writer.end(syscall.SIGTERM)
	couch2hudi(t, "run", "--wait", "--once", "--config", config)
	couch2hudi(t, "verify", "--config", config)
	couch2hudi(t, "check", "--config", config)
}
