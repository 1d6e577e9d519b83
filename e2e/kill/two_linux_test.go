package kill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const held = 5 // the exit code of a run that found the table held

// writers notes which processes write to a table: hidden files, of which all
// others are made, have the process in their names.
type writers struct {
	mu   sync.Mutex
	seen []string // in the order of writing, each once in a row
}

func (w *writers) tell(e event) {
	pid, _, ok := strings.Cut(strings.TrimPrefix(e.name, ".~c2h-"), "-")
	if !ok || !e.hidden() || e.gone {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) == 0 || w.seen[len(w.seen)-1] != pid {
		w.seen = append(w.seen, pid)
	}
}

func (w *writers) list() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen, " then ")
}

// commits is how many writes are completed.
func (w *world) commits() int {
	w.t.Helper()
	n := 0
	for _, i := range w.remains().instants {
		if i.Done() && i.Writes() {
			n++
		}
	}
	return n
}

// TestPausedWriterKeepsTheTable stops a run in the middle of a commit, as a
// debugger or a suspended machine would. Another is refused, or stands by with
// --wait, and does not write before the first has ended, however that ends.
func TestPausedWriterKeepsTheTable(t *testing.T) {
	for name, end := range map[string]syscall.Signal{"terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, layout{partitioned: true})
			w.burst(20)
			w.once()
			var wrote writers
			first := w.pausedInCommit(&wrote)
			if p := w.run("--once"); p.wait(patience) != held || !strings.Contains(p.out.String(), fmt.Sprintf("pid %d", first.pid())) {
				t.Fatalf("beside a paused writer: %v\n%s", p.cmd.ProcessState, &p.out)
			}
			second := w.run("--wait")
			waitFor(t, "the word that it waits", func() bool { return strings.Contains(second.out.String(), "waiting for the table") })
			before := strings.Join(w.files(), "\n")
			time.Sleep(time.Second) // several times as long as it leaves between two attempts
			if now := strings.Join(w.files(), "\n"); now != before {
				t.Fatalf("the table changed while its writer was paused:\n%s\nbefore:\n%s", now, before)
			}
			commits := w.commits()
			w.burst(10)
			if end == syscall.SIGTERM {
				first.send(syscall.SIGCONT)
				waitFor(t, "a commit of the first", func() bool { return w.commits() >= commits+2 })
			}
			first.send(end)
			if code := first.wait(patience); code != 0 && end == syscall.SIGTERM {
				t.Fatalf("the first ended with %d\n%s", code, &first.out)
			}
			commits = w.commits()
			w.burst(10)
			waitFor(t, "a commit of the second", func() bool { return w.commits() > commits || second.ended() })
			second.send(syscall.SIGTERM)
			if code := second.wait(patience); code != 0 {
				t.Fatalf("the second ended with %d\n%s", code, &second.out)
			}
			if got, want := wrote.list(), fmt.Sprintf("%d then %d", first.pid(), second.pid()); got != want {
				t.Errorf("processes wrote in this order: %s; want %s", got, want)
			}
			w.once()
			w.check("in the end")
			w.finish("in the end")
		})
	}
}

// pausedInCommit starts a run and stops it with signal 19 while a commit is open.
func (w *world) pausedInCommit(wrote *writers) *process {
	w.t.Helper()
	for {
		w.burst(10)
		ready, open := make(chan int, 1), make(chan struct{})
		var once sync.Once
		stop := watch(w.t, w.dir, func(e event) {
			wrote.tell(e)
			if strings.HasSuffix(e.name, ".deltacommit.inflight") {
				once.Do(func() {
					pid := <-ready
					_ = syscall.Kill(pid, syscall.SIGSTOP)
					close(open)
				})
			}
		})
		w.t.Cleanup(stop)
		p := w.run()
		ready <- p.pid()
		select {
		case <-open:
		case <-time.After(patience):
			w.t.Fatalf("no commit began:\n%s", &p.out)
		}
		waitFor(w.t, "the pause", func() bool { return w.paused(p) })
		if len(w.remains().pending()) > 0 {
			return p
		}
		// It was quicker than the signal: let it end, and begin anew.
		p.send(syscall.SIGCONT)
		p.send(syscall.SIGKILL)
		<-p.done
		wrote.mu.Lock()
		wrote.seen = nil
		wrote.mu.Unlock()
	}
}

// paused asks the kernel whether a process is stopped.
func (w *world) paused(p *process) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
	w.must(nil, err)
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.HasPrefix(rest, "T")
}

// TestManyStartAtOnce starts several runs on a table that is not there yet: one
// makes and fills it, the others are refused or, with --wait, come after it.
func TestManyStartAtOnce(t *testing.T) {
	w := newWorld(t, 4, layout{partitioned: true})
	w.burst(100)
	var runs []*process
	for i := range 6 {
		args := []string{"--once"}
		if i%2 == 0 {
			args = append(args, "--wait")
		}
		runs = append(runs, w.run(args...))
	}
	for i, p := range runs {
		if code := p.wait(patience); code != 0 && (code != held || i%2 == 0) {
			t.Errorf("run %d ended with %d\n%s", i, code, &p.out)
		}
	}
	w.check("in the end")
	w.finish("in the end")
}

// hold keeps others from renaming and deleting in a folder of the table until
// the release: a stand-in for storage that hangs.
func (w *world) hold(dir string) (release func()) {
	w.t.Helper()
	f, err := os.Open(filepath.Join(w.dir, dir))
	w.must(nil, err)
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			w.must(nil, err)
			break
		}
	}
	return func() { _ = f.Close() }
}
