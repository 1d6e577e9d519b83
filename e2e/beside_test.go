//go:build oracle

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/table"
)

// lazy lets Spark roll back failed writes of others, at a clean, when their heartbeat is
// too old: what Hudi asks for where several write. Its releases name it differently.
func lazy() map[string]string {
	return map[string]string{"hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.clean.failed.writes.policy": "LAZY"}
}

// TestSparkCompactsBesideOurRun: our run ingests all the time and only plans
// compactions; Spark runs the plans beside it, round after round. Our run goes on as
// if nothing were, and all read the same in the end.
func TestSparkCompactsBesideOurRun(t *testing.T) {
	for _, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(t, start)
		t.Run(e.name, func(t *testing.T) {
			const rounds = 3
			b := startBeside(t, "--compaction", "schedule-only", "--compact-after", "2")
			for n := range rounds {
				b.wait("a plan", func() bool { return b.pending() > 0 })
				done := b.compacted()
				if _, err := e.ask(question{Op: "compact", Table: b.table, Only: "run", Options: lazy()}); err != nil {
					t.Fatalf("round %d: %v\n%s", n, err, &b.said)
				}
				if now := b.compacted(); now <= done {
					t.Errorf("round %d: %d compactions, before %d", n, now, done)
				}
			}
			b.stop()
			b.equal(e)
			couch2hudi(t, "compact", "--table", b.table)
			b.equal(mustEngine(t, spark015), mustEngine(t, spark12), mustEngine(t, hudiRs))
			said := couch2hudi(t, "check", "--config", b.config)
			if !strings.Contains(said, " 0 FAIL") {
				t.Errorf("check says\n%s", said)
			}
		})
	}
}

// TestSparkLeavesLiveCommitsAlone: a commit of ours is open while Spark compacts, and
// cleans with the policy that rolls back failed writes of others. It is still ours after
// that, however long ago it began; and Spark rolls it back when it is dead.
func TestSparkLeavesLiveCommitsAlone(t *testing.T) {
	for _, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(t, start)
		t.Run(e.name, func(t *testing.T) {
			w := newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102"})
			w.put("2024-01-01", inBase)
			w.step(10)
			w.put("2024-01-01", inBase)
			couch2hudi(t, w.args...)
			couch2hudi(t, "compact", "--table", w.table, "--schedule")
			driver, err := file.New(w.table, nil)
			if err != nil {
				t.Fatal(err)
			}
			tb, err := table.Open(t.Context(), storage.New(driver, nil), table.Options{})
			if err != nil {
				t.Fatal(err)
			}
			lease, err := tb.Lease(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lease.Close() }()
			x, err := tb.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			clean := func() {
				t.Helper()
				if _, err := e.ask(question{Op: "call", Table: w.table, Procedure: "run_clean", Arguments: map[string]string{"options": options(lazy())}}); err != nil {
					t.Fatal(err)
				}
			}
			inflight := filepath.Join(w.table, ".hoodie", string(x.Instant())+".deltacommit.inflight")
			if _, err := e.ask(question{Op: "compact", Table: w.table, Only: "run", Options: lazy()}); err != nil {
				t.Fatal(err)
			}
			clean()
			if _, err := os.Stat(inflight); err != nil {
				t.Errorf("Spark rolled back a living commit: %v", err)
			}
			if err := lease.Close(); err != nil { // dead, and for longer than heartbeats last
				t.Fatal(err)
			}
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(w.table, ".hoodie", ".heartbeat", string(x.Instant())), old, old); err != nil {
				t.Fatal(err)
			}
			clean()
			if _, err := os.Stat(inflight); err == nil {
				t.Error("Spark left a dead commit")
			}
			w.put("2024-01-01", inLog)
			couch2hudi(t, w.args...)
		})
	}
}

// options are Hudi's as a procedure takes them.
func options(m map[string]string) string {
	var all []string
	for k, v := range m {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// beside is a run of ours over a database that changes all the time.
type beside struct {
	*tableWriter
	config string
	cmd    *exec.Cmd
	said   lockedBuffer
	quiet  func() // ends the changes
	ended  chan struct{}
}

// lockedBuffer collects what a process says; it may be read meanwhile.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func startBeside(t *testing.T, args ...string) *beside {
	t.Helper()
	b := &beside{tableWriter: newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102"}), ended: make(chan struct{})}
	b.config = b.args[len(b.args)-1]
	b.plansOften()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	b.cmd = exec.Command(path, append([]string{"run", "--config", b.config, "--commit-interval", "500ms"}, args...)...)
	b.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(path), "cache"))
	b.cmd.Stdout, b.cmd.Stderr = &b.said, &b.said
	quit, done := make(chan struct{}), make(chan struct{})
	b.quiet = sync.OnceFunc(func() { close(quit); <-done })
	go b.change(quit, done)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = b.cmd.Wait()
		close(b.ended)
	}()
	t.Cleanup(func() {
		b.quiet()
		_ = b.cmd.Process.Kill()
		<-b.ended
	})
	return b
}

// plansOften has a plan made every two seconds.
func (b *beside) plansOften() {
	b.t.Helper()
	data, err := os.ReadFile(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]any{}
	if err := decodeNumbers(data, &all); err != nil {
		b.t.Fatal(err)
	}
	all["compaction"] = map[string]any{"max_age": "20s"}
	if err := os.WriteFile(b.config, []byte(asJSON(all)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// change writes, updates, moves and deletes documents until quit.
func (b *beside) change(quit, done chan struct{}) {
	defer close(done)
	for n := 0; ; n++ {
		select {
		case <-quit:
			return
		case <-time.After(100 * time.Millisecond):
		}
		const known = 40
		id := fmt.Sprintf("doc %02d", n%known)
		if d, ok := b.db.Doc(id); ok && !d.Deleted() && n%7 == 3 {
			if _, err := b.db.Delete(id); err != nil {
				b.t.Error(err)
			}
			continue
		}
		b.put(fmt.Sprintf("2024-01-%02d", 1+n%5%3), id)
	}
}

// wait polls until something is so, while the run lives.
func (b *beside) wait(what string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-b.ended:
			b.t.Fatalf("the run has ended: %v\n%s", b.cmd.ProcessState, &b.said)
		default:
		}
		if ok() {
			return
		}
	}
	b.t.Fatalf("%s never came\n%s", what, &b.said)
}

// count is how many files of the timeline end so.
func (b *beside) count(suffix string) int {
	names, err := filepath.Glob(filepath.Join(b.table, ".hoodie", "*."+suffix))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(names)
}

func (b *beside) compacted() int { return b.count("commit") }

func (b *beside) pending() int { return b.count("compaction.requested") - b.compacted() }

// stop ends the changes, waits until the table has them all, and ends the run, which
// must have gone well.
func (b *beside) stop() {
	b.t.Helper()
	b.quiet()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	<-b.ended
	if code := b.cmd.ProcessState.ExitCode(); code != 0 || strings.Contains(b.said.String(), "could not") {
		b.t.Fatalf("the run ended with %d\n%s", code, &b.said)
	}
	couch2hudi(b.t, append(slices.Clone(b.args), "--compaction", "off")...)
}

// equal compares what engines and we read with the database.
func (b *beside) equal(es ...*engine) {
	b.t.Helper()
	var want []row
	for d := range b.db.Docs() {
		want = append(want, row{"_id": d.ID, "_rev": d.Winner().Rev.String(), "_deleted": d.Deleted()})
	}
	only := func(rows []row) []row {
		var out []row
		for _, r := range rows {
			out = append(out, row{"_id": r["_id"], "_rev": r["_rev"], "_deleted": r["_deleted"]})
		}
		return out
	}
	keyed := func(rows []row) []row {
		for _, r := range rows {
			r[colKey] = r["_id"]
		}
		return rows
	}
	for _, e := range es {
		if d := diff(keyed(want), keyed(only(mustRows(b.t, e, question{Op: "snapshot", Table: b.table})))); d != "" {
			b.t.Errorf("%s: %s", e.name, d)
		}
	}
	ours := ourRows(b.t, b.model, "query", "--table", b.table, "--include-deleted", "--format", "jsonl")
	if d := diff(keyed(want), keyed(only(ours))); d != "" {
		b.t.Errorf("ours: %s", d)
	}
}
