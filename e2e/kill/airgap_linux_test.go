package kill

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// gap is two folders between a database and its table, and what carries files from
// one to the other.
type gap struct {
	*world
	outbox, inbox string
	config        string // of the consumer
	mu            sync.Mutex
}

func newGap(t *testing.T, seed uint64) *gap {
	t.Helper()
	w := newWorld(t, seed, layout{partitioned: true})
	root := t.TempDir()
	g := &gap{world: w, outbox: filepath.Join(root, "outbox"), inbox: filepath.Join(root, "inbox"), config: filepath.Join(root, "inbox.yaml")}
	w.must(nil, os.Mkdir(g.inbox, 0o700))
	text, err := os.ReadFile(w.config)
	w.must(text, err)
	here := fmt.Sprintf("source: {url: %q}\n", "ndjson://"+g.inbox+"?consumed=delete")
	_, table, _ := strings.Cut(string(text), "\n")
	w.must(nil, os.WriteFile(g.config, []byte(here+table), 0o600))
	return g
}

func (g *gap) export(args ...string) *process {
	return launch(g.t, append([]string{"export", "-c", g.world.config, "--to", "ndjson://" + g.outbox, "--bundle-bytes", "1KiB", "--bundle-interval", "30ms"}, args...)...)
}

func (g *gap) consume(args ...string) *process {
	return launch(g.t, append([]string{"run", "-c", g.config}, args...)...)
}

// carry moves what is in the outbox, as a slow tool would that knows nothing of
// bundles: under the last name from the first byte on, in two pieces, in any order.
func (g *gap) carry(r *rand.Rand) {
	g.mu.Lock()
	defer g.mu.Unlock()
	names, err := filepath.Glob(filepath.Join(g.outbox, "bundle-*"))
	g.must(names, err)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, from := range names {
		data, err := os.ReadFile(from)
		if err != nil {
			continue // an exporter that starts takes unfinished ones away
		}
		to, err := os.Create(filepath.Join(g.inbox, filepath.Base(from)))
		g.must(to, err)
		for piece := range slices.Chunk(data, len(data)/2+1) {
			_, err := to.Write(piece)
			g.must(nil, err)
			time.Sleep(time.Millisecond)
		}
		g.must(nil, to.Close())
		_ = os.Remove(from)
	}
}

// carrying carries until stop is called.
func (g *gap) carrying(seed uint64) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r := rand.New(rand.NewPCG(seed, 7))
		for {
			select {
			case <-quit:
				return
			case <-time.After(10 * time.Millisecond):
				g.carry(r)
			}
		}
	}()
	return func() { close(quit); <-done }
}

// settle brings everything across that is not there yet.
func (g *gap) settle(what string) {
	g.t.Helper()
	if p := g.export("--once"); p.wait(patience) != 0 {
		g.t.Fatalf("%s: export --once: exit %d\n%s", what, p.wait(patience), &p.out)
	}
	g.carry(g.rand)
	if p := g.consume("--once"); p.wait(patience) != 0 {
		g.t.Fatalf("%s: run --once: exit %d\n%s", what, p.wait(patience), &p.out)
	}
	g.check(what)
}

// TestKillAcrossTheGap kills exporter and consumer with signal 9, at any time, while
// the database changes and files are on their way. Started again, the table must
// equal the database, and no consumed file may be left.
func TestKillAcrossTheGap(t *testing.T) {
	kills := 6
	if *full {
		kills = 20
	}
	g := newGap(t, 77)
	g.burst(10)
	for n := range kills {
		what := fmt.Sprintf("kill %d", n)
		stop := g.carrying(uint64(n))
		processes := []*process{g.export(), g.consume()}
		calm := g.busy()
		time.Sleep(time.Duration(g.rand.IntN(400)) * time.Millisecond)
		for _, i := range g.rand.Perm(2)[:1+g.rand.IntN(2)] {
			processes[i].send(syscall.SIGKILL)
			processes[i].wait(patience)
		}
		calm()
		for i, p := range processes {
			if p.ended() && p.cmd.ProcessState.ExitCode() > 0 {
				t.Fatalf("%s: process %d ended by itself: exit %d\n%s", what, i, p.cmd.ProcessState.ExitCode(), &p.out)
			}
			p.send(syscall.SIGKILL)
			p.wait(patience)
		}
		stop()
		g.settle(what)
	}
	if left, _ := filepath.Glob(filepath.Join(g.inbox, "bundle-*")); len(left) > 0 {
		t.Errorf("consumed files stay: %v", left)
	}
}
