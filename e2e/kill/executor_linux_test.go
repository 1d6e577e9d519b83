package kill

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// compactions are the instants of compactions in a state.
func (w *world) compactions(s timeline.State) []string {
	w.t.Helper()
	var list []string
	for _, i := range w.remains().instants {
		if i.State == s && (i.Action == commitmeta.ActionCompaction || s == timeline.Completed && i.Action == commitmeta.ActionCommit) {
			list = append(list, string(i.Time))
		}
	}
	return list
}

// tillPlanned changes the database until a run that is at work has planned a compaction.
func (w *world) tillPlanned() {
	w.t.Helper()
	waitFor(w.t, "a plan", func() bool {
		w.burst(4)
		time.Sleep(20 * time.Millisecond)
		return len(w.compactions(timeline.Requested)) > 0
	})
}

// TestAnotherProcessCompacts: a run ingests and only plans; other processes run the
// plans, two at a time, and one in three is killed. The run goes on all the while.
func TestAnotherProcessCompacts(t *testing.T) {
	w := newWorld(t, 20, layout{partitioned: true})
	w.burst(20)
	ingest := w.run("--compaction", "schedule-only")
	const rounds = 6
	for n := range rounds {
		w.tillPlanned()
		kill := 0
		if n%3 == 1 {
			kill = 1
		}
		both := []*process{launch(t, "compact", "--table", w.dir, "--execute"), launch(t, "compact", "--table", w.dir, "--execute")}
		for range kill {
			time.Sleep(time.Duration(w.rand.IntN(60)) * time.Millisecond)
			both[0].send(syscall.SIGKILL)
		}
		for k, p := range both {
			if code := p.wait(patience); code != 0 && code != held && (kill == 0 || k > 0) {
				t.Errorf("round %d: compact --execute: exit %d\n%s", n, code, &p.out)
			}
		}
	}
	if ingest.ended() {
		t.Fatalf("the run has ended: %v\n%s", ingest.cmd.ProcessState, &ingest.out)
	}
	ingest.send(syscall.SIGTERM)
	if code := ingest.wait(patience); code != 0 || strings.Contains(ingest.out.String(), "could not") {
		t.Fatalf("the run beside: exit %d\n%s", code, &ingest.out)
	}
	if len(w.compactions(timeline.Completed)) == 0 {
		t.Error("nothing was compacted")
	}
	w.once() // runs what is left of the plans, whoever made them
	w.check("in the end")
	w.finish("in the end")
}

// TestPausedExecutorKeepsItsCompaction stops a process in the middle of a compaction.
// Another that would run it is refused, a starting run leaves it alone and ingests, and
// what it wrote is there when it goes on. Killed, the next one runs the plan anew.
func TestPausedExecutorKeepsItsCompaction(t *testing.T) {
	for name, end := range map[string]syscall.Signal{"goes on": syscall.SIGCONT, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 21, layout{partitioned: true})
			p, at := w.pausedCompaction()
			if other := launch(t, "compact", "--table", w.dir, "--execute"); other.wait(patience) != held {
				t.Fatalf("compact beside a paused one: %v\n%s", other.cmd.ProcessState, &other.out)
			}
			w.burst(10)
			w.once()
			if got := w.compactions(timeline.Inflight); len(got) != 1 || got[0] != at {
				t.Fatalf("inflight %v, want %s", got, at)
			}
			p.send(end)
			if code := p.wait(patience); code != 0 && end == syscall.SIGCONT {
				t.Fatalf("the paused one ended with %d\n%s", code, &p.out)
			}
			if end == syscall.SIGKILL {
				w.must(nil, w.succeed("compact", "--table", w.dir, "--execute"))
			}
			if !w.remains().has(".hoodie/"+at+".commit", "") {
				t.Errorf("compaction %s is not completed", at)
			}
			w.once()
			w.check("in the end")
			w.finish("in the end")
		})
	}
}

// pausedCompaction starts an executor and stops it with signal 19 while it runs a
// compaction, and says which.
func (w *world) pausedCompaction() (p *process, at string) {
	w.t.Helper()
	for {
		w.leaveLogs()
		ready, open := make(chan int, 1), make(chan struct{})
		var once sync.Once
		stop := watch(w.t, w.dir, func(e event) {
			if strings.HasSuffix(e.name, ".compaction.inflight") && !e.gone {
				once.Do(func() {
					_ = syscall.Kill(<-ready, syscall.SIGSTOP)
					close(open)
				})
			}
		})
		w.t.Cleanup(stop)
		p := launch(w.t, "compact", "--table", w.dir)
		ready <- p.pid()
		select {
		case <-open:
			waitFor(w.t, "the pause", func() bool { return p.ended() || w.paused(p) })
		case <-p.done:
		case <-time.After(patience):
			w.t.Fatalf("no compaction began:\n%s", &p.out)
		}
		if inflight := w.compactions(timeline.Inflight); len(inflight) == 1 && !p.ended() {
			return p, inflight[0]
		}
		p.send(syscall.SIGCONT) // it was quicker than the signal
		<-p.done
	}
}

// TestAnotherEnginesHeartbeat: a compaction that another engine runs is left alone while
// its heartbeat is fresh, and rolled back and run anew when that has expired.
func TestAnotherEnginesHeartbeat(t *testing.T) {
	w := newWorld(t, 22, layout{partitioned: true})
	w.leaveLogs()
	w.must(nil, w.succeed("compact", "--table", w.dir, "--schedule"))
	planned := w.compactions(timeline.Requested)
	if len(planned) != 1 {
		t.Fatalf("planned %v", planned)
	}
	at := planned[0]
	heartbeat := filepath.Join(w.dir, ".hoodie", ".heartbeat", at)
	w.must(nil, os.MkdirAll(filepath.Dir(heartbeat), 0o755))
	w.must(nil, os.WriteFile(heartbeat, nil, 0o644))
	w.must(nil, os.WriteFile(filepath.Join(w.dir, ".hoodie", at+".compaction.inflight"), nil, 0o644))
	if p := launch(t, "compact", "--table", w.dir, "--execute"); p.wait(patience) != held {
		t.Fatalf("compact beside another engine: %v\n%s", p.cmd.ProcessState, &p.out)
	}
	w.burst(10)
	w.once()
	if got := w.compactions(timeline.Inflight); len(got) != 1 {
		t.Fatalf("a live compaction was rolled back: %v", w.remains().instants)
	}
	expired := time.Now().Add(-3 * time.Minute)
	w.must(nil, os.Chtimes(heartbeat, expired, expired))
	w.burst(10)
	w.once()
	if !w.remains().has(".hoodie/"+at+".commit", "") {
		t.Errorf("a dead compaction was not run anew: %v", w.remains().instants)
	}
	w.check("in the end")
	w.finish("in the end")
}
