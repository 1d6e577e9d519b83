package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// commitsOf are the completed instants of a table, ascending.
func commitsOf(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	for _, line := range jsonLines(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl")) {
		var l instantLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		list = append(list, l.Instant)
	}
	return list
}

// followed is a table to tail and what changes it.
type followed struct {
	t   *testing.T
	dir string
	db  *couchfake.Database
	run []string
}

func newFollowed(t *testing.T, commits int) *followed {
	t.Helper()
	_, db, url := shop(t, couchfake.Options{}, 5)
	f := &followed{t: t, dir: filepath.Join(t.TempDir(), "table"), db: db}
	f.run = []string{"run", "--once", "--source", url, "--table", f.dir, "--compaction", "off"}
	want(t, 0, nil, f.run...)
	for n := range commits - 1 {
		f.change(n)
	}
	return f
}

// change makes a commit of two rows.
func (f *followed) change(n int) {
	f.t.Helper()
	for _, id := range []string{"d001", fmt.Sprintf("new%d", n)} {
		if _, err := f.db.Put(id, fmt.Appendf(nil, `{"n":%d}`, 100+n)); err != nil {
			f.t.Fatal(err)
		}
	}
	want(f.t, 0, nil, f.run...)
}

func (f *followed) tail(code int, words []string, more ...string) string {
	f.t.Helper()
	return want(f.t, code, words, append([]string{"tail", "--table", f.dir, "--once"}, more...)...)
}

// TestTail: each commit comes once, whole and in order; the position is that of
// the file.
func TestTail(t *testing.T) {
	f := newFollowed(t, 3)
	commits := commitsOf(t, f.dir)
	if out := f.tail(0, nil); out != "" {
		t.Fatalf("from the newest commit on: %s", out)
	}
	all := f.tail(0, nil, "--since", "earliest")
	var times []string
	for _, line := range jsonLines(all) {
		var row struct {
			At string `json:"_hoodie_commit_time"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		times = append(times, row.At)
	}
	if len(times) != 5+2+2 || !slices.IsSorted(times) || !slices.Equal(slices.Compact(slices.Clone(times)), commits) {
		t.Fatalf("%q of %q", times, commits)
	}
	if out := f.tail(0, nil, "--since", commits[1], "--since-inclusive"); strings.Count(out, "\n") != 4 {
		t.Fatal(out)
	}
	file := filepath.Join(t.TempDir(), "position")
	if out := f.tail(0, nil, "--since", commits[0], "--checkpoint", file, "--where", "n > 100", "--columns", "_id"); ids(t, out) != "d001 new1" {
		t.Fatal(out)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != fmt.Sprintf(`{"table":"shop","instant":"%s"}`+"\n", commits[2]) {
		t.Fatalf("%v: %s", err, data)
	}
	f.change(7)
	// The checkpoint wins over --since.
	if out := f.tail(0, nil, "--since", "earliest", "--checkpoint", file); ids(t, out) != "d001 new7" {
		t.Fatal(out)
	}
	if out := f.tail(0, nil, "--checkpoint", file, "--format", "csv"); out != "" {
		t.Fatal(out)
	}
}

// TestTailBegins: a checkpoint that was made before the first commit misses none.
func TestTailBegins(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 0)
	dir, file := filepath.Join(t.TempDir(), "table"), filepath.Join(t.TempDir(), "position")
	run := []string{"run", "--once", "--source", url, "--table", dir}
	want(t, 0, nil, run...)
	want(t, 0, nil, "tail", "--table", dir, "--once", "--checkpoint", file)
	if _, err := db.Put("x", []byte(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run...)
	if out := want(t, 0, nil, "tail", "--table", dir, "--once", "--checkpoint", file); ids(t, out) != "x" {
		t.Fatal(out)
	}
}

func TestTailRefuses(t *testing.T) {
	f := newFollowed(t, 1)
	file := filepath.Join(t.TempDir(), "position")
	for words, args := range map[string][]string{
		"--since-inclusive needs": {"--since-inclusive"},
		"--interval":              {"--interval", "0s"},
		"--lease":                 {"--lease", "-1h"},
		"--retry":                 {"--retry", "-2"},
		"needs --exec":            {"--format", "parquet"},
		"takes snapshot":          {"--fallback", "x"},
		"no such column":          {"--where", "zzz = 1", "--since", "earliest"},
		"no column":               {"--columns", "zzz", "--since", "earliest"},
	} {
		f.tail(exitUsage, []string{words}, args...)
	}
	for _, text := range []string{"", "{", `{"table":"shop"}`, `{"table":"other","instant":"20260101000000000"}`, `{"table":"shop","instant":"yesterday"}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.tail(exitUsage, []string{"checkpoint", file}, "--checkpoint", file)
	}
}

// TestTailExec: the command gets each commit by itself; one that fails is run
// again with the same rows, and the position stays until it succeeds.
func TestTailExec(t *testing.T) {
	f := newFollowed(t, 3)
	commits := commitsOf(t, f.dir)
	out := t.TempDir()
	file := filepath.Join(out, "position")
	args := []string{"--checkpoint", file, "--since", commits[0]}
	fails := `cat > ` + out + `/failed.$COUCH2HUDI_INSTANT; exit 3`
	f.tail(exitFailed, []string{"exit status 3", commits[1], "position stays at " + commits[0]}, append(args, "--retry", "0", "--exec", fails)...)
	flaky := `test -e ` + out + `/once || { touch ` + out + `/once; exit 1; }; cat > ` + out + `/rows.$COUCH2HUDI_INSTANT; test $COUCH2HUDI_MODE = changes`
	f.tail(0, []string{"trying again"}, append(args, "--exec", flaky)...)
	for i, rows := range []string{"", "d001 new0", "d001 new1"} {
		data, err := os.ReadFile(filepath.Join(out, "rows."+commits[i]))
		if (err == nil) != (i > 0) || ids(t, string(data)) != rows {
			t.Errorf("%d: %v %s", i, err, data)
		}
	}
	again, err := os.ReadFile(filepath.Join(out, "failed."+commits[1]))
	if err != nil || ids(t, string(again)) != "d001 new0" {
		t.Errorf("%v: %s", err, again)
	}
	// A command that does not read is no failure, and commits without rows run none.
	f.tail(0, nil, "--since", "earliest", "--exec", "true")
	f.tail(0, nil, "--since", "earliest", "--where", "n = -5", "--exec", "false")
	if got := f.tail(0, nil, "--since", commits[1], "--exec", "head -c 4", "--format", "parquet"); got != "PAR1" {
		t.Errorf("%q", got)
	}
}

// TestTailOpen: a commit that is still open holds later ones back, so that its rows
// are not passed over.
func TestTailOpen(t *testing.T) {
	f := newFollowed(t, 3)
	commits := commitsOf(t, f.dir)
	name := filepath.Join(f.dir, ".hoodie", commits[1]+".deltacommit")
	if err := os.Rename(name, name+".aside"); err != nil {
		t.Fatal(err)
	}
	if out := f.tail(0, nil, "--since", commits[0]); out != "" {
		t.Fatal(out)
	}
	if err := os.Rename(name+".aside", name); err != nil {
		t.Fatal(err)
	}
	if out := f.tail(0, nil, "--since", commits[0]); strings.Count(out, "\n") != 4 {
		t.Fatal(out)
	}
}

// TestTailCleaned: cleaning leaves what a tail has not read; what is gone all the
// same is exit code 4, or the snapshot.
func TestTailCleaned(t *testing.T) {
	f := newFollowed(t, 2)
	file := filepath.Join(t.TempDir(), "position")
	f.tail(0, nil, "--checkpoint", file)
	left := commitsOf(t, f.dir)[1]
	for n := range 6 {
		f.change(10 + n)
		want(t, 0, nil, "compact", "--table", f.dir)
	}
	clean := []string{"clean", "--table", f.dir, "--policy", "commits", "--keep", "1"}
	want(t, 0, nil, clean...)
	if out := f.tail(0, nil, "--checkpoint", file, "--columns", "_id,n"); strings.Count(out, "\n") != 12 {
		t.Fatalf("what the lease keeps: %s", out)
	}
	leases, err := filepath.Glob(filepath.Join(f.dir, ".hoodie", "couch2hudi", "readers", "tail-*.json"))
	if err != nil || len(leases) != 1 {
		t.Fatal(err, leases)
	}
	if err := os.Remove(leases[0]); err != nil {
		t.Fatal(err)
	}
	f.change(20)
	want(t, 0, nil, "compact", "--table", f.dir)
	want(t, 0, nil, clean...)
	f.tail(exitGone, []string{"begin at"}, "--since", left)
	f.tail(exitGone, []string{"begin at"}, "--since", left, "--lease", "0")
	rows := filepath.Join(t.TempDir(), "rows")
	f.tail(0, []string{"snapshot as of", "hard-deleted"}, "--since", left, "--fallback", "snapshot", "--exec", "test $COUCH2HUDI_MODE = snapshot && cat > "+rows)
	data, err := os.ReadFile(rows)
	if err != nil || ids(t, string(data)) != ids(t, want(t, 0, nil, "query", "--table", f.dir, "--include-deleted")) {
		t.Fatalf("%v %s", err, data)
	}
	if list, err := os.ReadDir(filepath.Dir(leases[0])); err != nil || len(list) != 0 {
		t.Fatalf("a lease without a checkpoint stays: %v %v", list, err)
	}
}

// program is this test binary as couch2hudi, in a process of its own.
func program(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	var errs bytes.Buffer
	c.Stderr = &errs
	return c, &errs
}

// TestTailKilled: whenever the process dies, the next one repeats at most the
// commit that was not confirmed, and loses none.
func TestTailKilled(t *testing.T) {
	f := newFollowed(t, 6)
	commits := commitsOf(t, f.dir)
	r := rand.New(rand.NewPCG(11, 12))
	for _, when := range []string{"after", "before", "at random"} {
		out := t.TempDir()
		file, log := filepath.Join(out, "position"), filepath.Join(out, "log")
		note := `echo $COUCH2HUDI_INSTANT $(cat | wc -l) >> ` + log
		died := `test -e ` + out + `/$COUCH2HUDI_INSTANT || { touch ` + out + `/$COUCH2HUDI_INSTANT; kill -9 $PPID; exit 1; }`
		command := map[string]string{"after": note + "; " + died, "before": died + "; " + note, "at random": note}[when]
		for lives := 0; ; lives++ {
			if lives > 200 {
				t.Fatal("it does not come to an end")
			}
			c, errs := program(t, "tail", "--table", f.dir, "--lease", "0", "--checkpoint", file, "--since", "earliest", "--once", "--exec", command)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if when == "at random" && lives < 12 {
				time.AfterFunc(time.Duration(r.IntN(120))*time.Millisecond, func() { _ = c.Process.Kill() })
			}
			err := c.Wait()
			if err == nil {
				break
			}
			if e := new(exec.ExitError); !errors.As(err, &e) || e.ExitCode() != -1 {
				t.Fatalf("%v: %s", err, errs)
			}
		}
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for line := range strings.Lines(string(data)) {
			instant, rows, _ := strings.Cut(strings.TrimSpace(line), " ")
			if wanted := map[bool]string{true: "5", false: "2"}[instant == commits[0]]; strings.TrimSpace(rows) != wanted {
				t.Errorf("%s: %q rows of %s", when, rows, instant)
			}
			seen = append(seen, instant)
		}
		if !slices.IsSorted(seen) || !slices.Equal(slices.Compact(slices.Clone(seen)), commits) {
			t.Errorf("%s: %q, want %q, some again", when, seen, commits)
		}
		if when == "after" && len(seen) != 2*len(commits) {
			t.Errorf("a commit whose command succeeded is repeated when the position was not kept: %q", seen)
		}
	}
}

// firstLine lets a test wait for the first line that a process prints.
type firstLine struct {
	mu   sync.Mutex
	all  bytes.Buffer
	seen chan struct{}
}

func (w *firstLine) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := bytes.IndexByte(w.all.Bytes(), '\n') >= 0
	w.all.Write(p)
	if !before && bytes.IndexByte(w.all.Bytes(), '\n') >= 0 {
		close(w.seen)
	}
	return len(p), nil
}

// TestTailSignal: SIGTERM ends it with 0, also while a command runs, which is told
// to end too; its commit comes again.
func TestTailSignal(t *testing.T) {
	f := newFollowed(t, 2)
	file := filepath.Join(t.TempDir(), "position")
	for name, args := range map[string][]string{
		"waiting": {"--since", "earliest", "--interval", "1h"},
		"running": {"--since", "earliest", "--checkpoint", file, "--exec", "echo begun; exec sleep 60"},
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		c, errs := program(t, append([]string{"tail", "--table", f.dir}, args...)...)
		out := &firstLine{seen: make(chan struct{})}
		c.Stdout = out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-out.seen:
		case <-ctx.Done():
			t.Fatalf("%s: nothing printed: %s", name, errs)
		}
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil || errs.Len() > 0 {
			t.Errorf("%s: %v: %s", name, err, errs)
		}
		stop()
	}
	if out := f.tail(0, nil, "--checkpoint", file); strings.Count(out, "\n") != 7 {
		t.Errorf("an unconfirmed commit: %s", out)
	}
}
