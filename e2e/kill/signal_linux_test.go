package kill

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// grace is how long a run may take to end after SIGTERM, as documented.
const grace = 10 * time.Second

// TestTerminate sends SIGTERM in each step: the run ends with 0 within its
// grace, leaves nothing unfinished, and nothing is lost.
func TestTerminate(t *testing.T) {
	rounds := 1
	if *full {
		rounds = 4
	}
	for n := range rounds {
		w := newWorld(t, uint64(100+n), layout{partitioned: true})
		w.withhold()
		w.burst(10)
		for _, s := range allSteps() {
			w.terminate(s)
		}
		w.heal()
		w.once()
		w.check("healed")
		w.finish("in the end")
	}
}

// terminate starts a run and ends it when a step comes.
func (w *world) terminate(s step) {
	w.t.Helper()
	w.burst(8)
	if s == recovery {
		w.leavePending()
	}
	var pid, struck atomic.Int64
	strike := func() {
		if n := pid.Load(); n > 0 && struck.CompareAndSwap(0, n) {
			_ = syscall.Kill(int(n), syscall.SIGTERM)
		}
	}
	match := trigger(s, w.rand)
	stop := watch(w.t, w.dir, func(e event) {
		if match(e) {
			strike()
		}
	})
	defer stop()
	if s == reading {
		w.atRead(strike)
		defer w.atRead(nil)
	}
	p := w.run()
	pid.Store(int64(p.pid()))
	calm, since := w.busy(), time.Now()
	waitFor(w.t, fmt.Sprintf("%q", s), func() bool {
		if time.Since(since) > time.Second { // no commit took this step: base files of small groups take updates in, too
			calm()
			calm, since = w.busy(), time.Now()
		}
		return struck.Load() > 0 || p.ended()
	})
	code := p.wait(grace)
	calm()
	if code != 0 || strings.Contains(p.out.String(), "ERROR") {
		w.t.Fatalf("SIGTERM in %q: exit %d\n%s", s, code, &p.out)
	}
	for _, i := range w.remains().pending() {
		// A commit that was not begun yet, and a recovery, are the next run's to end.
		if i.State == timeline.Inflight && s != recovery {
			w.t.Errorf("SIGTERM in %q left %s", s, i)
		}
	}
	w.once()
	w.check(fmt.Sprintf("after SIGTERM in %q", s))
}

// leavePending kills runs until one leaves an open commit behind.
func (w *world) leavePending() {
	w.t.Helper()
	c := campaign{t: w.t, hits: map[step]int{}, rand: rand.New(rand.NewPCG(w.rand.Uint64(), 2))}
	for len(w.remains().pending()) == 0 {
		c.kill(w, marker)
	}
}

// TestTerminateWhileTheServerHangs: the server takes requests and does not go on
// with its answers, to any kind of request.
func TestTerminateWhileTheServerHangs(t *testing.T) {
	w := newWorld(t, 5, layout{})
	w.burst(20)
	w.once()
	for name, m := range map[string]struct {
		match couchfake.Match
		rows  int
	}{
		"everything":         {},
		"changes":            {match: couchfake.Match{Endpoint: couchfake.Changes}},
		"in the middle":      {match: couchfake.Match{Endpoint: couchfake.Changes}, rows: 3},
		"the quiet feed":     {match: couchfake.Match{Endpoint: couchfake.Changes, Feed: "continuous"}},
		"withheld documents": {match: couchfake.Match{Endpoint: couchfake.Document}},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.burst(10)
			var orders []*couchfake.Order
			if m.match.Endpoint == couchfake.Document {
				orders = append(orders, w.server.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{NullDoc: docID(0)}, -1))
				w.must(w.db.Put(docID(0), w.body()))
				w.live(docID(0))
			}
			o := w.server.Control(m.match, couchfake.Spoil{Rows: m.rows, Stall: time.Hour}, -1)
			orders = append(orders, o)
			p := w.run()
			waitFor(t, "the request", func() bool { return o.Fired() > 0 || p.ended() })
			p.send(syscall.SIGTERM)
			if code := p.wait(grace); code != 0 {
				t.Fatalf("exit %d\n%s", code, &p.out)
			}
			for _, o := range orders {
				o.Cancel()
			}
			w.once()
			w.check("after the stall")
		})
	}
}

// stuck starts a run that cannot finish its commit, nor abandon it, because the
// storage hangs, and sends SIGTERM.
func (w *world) stuck() (p *process, release func()) {
	w.t.Helper()
	w.withhold()
	w.burst(10)
	w.once() // the quarantine's folder is there
	var begun atomic.Bool
	stop := watch(w.t, w.dir, func(e event) {
		if strings.HasSuffix(e.name, ".deltacommit.inflight") {
			begun.Store(true)
		}
	})
	defer stop()
	letAside := w.hold(".hoodie/couch2hudi/quarantine")
	w.burst(10)
	p = w.run()
	waitFor(w.t, "a commit", func() bool { return begun.Load() || p.ended() })
	letHoodie := w.hold(".hoodie")
	p.send(syscall.SIGTERM)
	return p, func() { letAside(); letHoodie() }
}

// TestTerminateWhileTheStorageHangs: the run cannot clean up, and ends all the
// same, in time. The next one mends what it left.
func TestTerminateWhileTheStorageHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6, layout{partitioned: true})
	p, release := w.stuck()
	if code := p.wait(grace); code != 0 {
		t.Fatalf("exit %d\n%s", code, &p.out)
	}
	if len(w.remains().pending()) != 1 {
		t.Fatalf("the storage did not hang: %s", w.remains().instants)
	}
	release()
	w.once()
	w.check("after the storage hung")
}

// TestSecondSignal: it ends a run that is busy cleaning up, at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(second.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 7, layout{partitioned: true})
			p, release := w.stuck()
			time.Sleep(300 * time.Millisecond) // for the first signal to arrive by itself
			if p.ended() {
				t.Fatalf("one signal ended it: %v\n%s", p.cmd.ProcessState, &p.out)
			}
			p.send(second)
			const atOnce = 5 * time.Second // on a loaded machine, and well before its grace is over
			if code := p.wait(atOnce); code != 1 {
				t.Fatalf("exit %d\n%s", code, &p.out)
			}
			release()
			w.once()
			w.check("after two signals")
		})
	}
}
