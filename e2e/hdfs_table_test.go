//go:build oracle

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// hdfsTable: a table that the binary writes in HDFS is read there by us and by
// Spark, which writes into it in turn.
func hdfsTable(t *testing.T, d *dfs) {
	remote{url: d.url + "/tables/docs", bucket: d.bucket(t, "/tables/docs"), engines: []*engine{mustEngine(t, spark015), mustEngine(t, spark12)}}.check(t)
}

// bucket is the store in a folder, as a reader has it.
func (d *dfs) bucket(t *testing.T, folder string) *storage.Bucket {
	t.Helper()
	b := storage.New(d.open(t, folder), nil)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// hdfsKills: the writer of a table is killed again and again, at any time, in commits,
// compactions, cleans and archivals; the one that stands by goes on. In the end the
// table equals the database, and nothing is left in hiding.
func hdfsKills(t *testing.T, d *dfs) {
	kills := 3
	if os.Getenv("E2E_FULL") != "" {
		kills = 12
	}
	w := newTableWriter(t, modelOptions{})
	w.table = d.url + "/tables/kills"
	settings := func(name, query string) string {
		path := filepath.Join(t.TempDir(), name)
		text := fmt.Sprintf("source: {url: %q}\ntable: {url: %q, partition: {field: place}}\nretain: 1s\ntimeline: {keep_min: 20, keep_max: 21}\n"+
			"commit: {interval: 100ms, max_rows: 40}\ncompaction: {max_delta_commits: 2, max_age: 1s}\n", w.source, w.table+query)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config, patient := settings("short.yaml", "?lease=3s"), settings("usual.yaml", "")
	b := d.bucket(t, "/tables/kills")
	more := func(n int) {
		if err := w.data.next(n); err != nil {
			t.Fatal(err)
		}
	}
	more(60)
	writer := startRun(t, "run", "--wait", "--config", config)
	waitForCommit := func(after string) {
		t.Helper()
		writer.until(t, "a commit after "+after, func() bool { return lastCommit(t, b) > after })
	}
	waitForCommit("")
	if code, said := howItEnded(t, "run", "--once", "--config", config); code != 5 || !strings.Contains(said, "pid") {
		t.Errorf("beside a writer run ended with %d, want 5\n%s", code, said)
	}
	for n := range kills {
		next := startRun(t, "run", "--wait", "--config", config)
		next.until(t, "the word that it waits", func() bool {
			said := next.said.String()
			return strings.Contains(said, "waiting for the table") || strings.Contains(said, "committed") // the other may have lost its lease
		})
		last := lastCommit(t, b)
		more(30)
		pauseFor(time.Duration(w.data.random.IntN(600)) * time.Millisecond)
		if n == kills/2 {
			writer.end(syscall.SIGTERM) // lets go, and the next need not wait
		} else {
			writer.end(syscall.SIGKILL)
		}
		if n == 0 {
			last = "" // it may have been quick
		}
		writer = next
		more(5)
		waitForCommit(last)
	}
	writer.tends(t, b, more)
	writer.end(syscall.SIGTERM)
	couch2hudi(t, "run", "--wait", "--once", "--config", patient)
	couch2hudi(t, "verify", "--config", patient)
	couch2hudi(t, "check", "--config", patient)
	files := 0
	for o, err := range d.bucket(t, "/tables/kills/.hoodie/couch2hudi").List(t.Context(), "hdfs/") {
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("left in hiding: %+v", o)
		files++
	}
	if files > 2 {
		t.Errorf("%d files are left in hiding", files)
	}
}

// running is a couch2hudi that will be ended.
type running struct {
	args  []string
	cmd   *exec.Cmd
	said  lockedBuffer
	ended chan struct{}
}

func startRun(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{args: args}
	r.start(t)
	t.Cleanup(func() { r.end(syscall.SIGKILL) })
	return r
}

func (r *running) start(t *testing.T) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd = exec.Command(path, r.args...)
	r.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(path), "cache"))
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, ended := r.cmd, make(chan struct{})
	r.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
}

func (r *running) end(how syscall.Signal) {
	_ = r.cmd.Process.Signal(how) // unless it has ended
	<-r.ended
}

// tends waits until a compaction and a clean are on the timeline; more makes changes.
func (r *running) tends(t *testing.T, b *storage.Bucket, more func(n int)) {
	t.Helper()
	for _, suffix := range []string{".commit", ".clean"} {
		last := ""
		r.until(t, "a "+suffix+" of the last writer", func() bool {
			if now := lastCommit(t, b); now != last {
				last = now
				more(5)
			}
			return len(timelineOf(t, b, suffix)) > 0
		})
	}
}

// until waits for something that it does. On a machine that is too busy to renew a
// short lease in time it ends as it should, and is started again.
func (r *running) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	restarts := 0
	until(t, what, func() bool {
		select {
		case <-r.ended:
			if restarts++; restarts > 5 || !strings.Contains(r.said.String(), "the lease is lost") {
				t.Fatalf("%s: it ended before: %v\n%s", what, r.cmd.ProcessState, r.said.String())
			}
			r.start(t)
		default:
		}
		return done()
	}, r.said.String)
}

// howItEnded is how a command ends, and what it says.
func howItEnded(t *testing.T, args ...string) (int, string) {
	t.Helper()
	r := startRun(t, args...)
	<-r.ended
	return r.cmd.ProcessState.ExitCode(), r.said.String()
}
