package kill

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
)

var full = flag.Bool("kill.full", os.Getenv("E2E_FULL") != "", "kill often enough that each step is hit three times")

const (
	killsShort = 20
	killsFull  = 120
	killsMost  = 400 // for steps that are hard to hit
	perStep    = 3
	perWorld   = 20
)

// TestKill kills the binary with signal 9 while the database changes: aimed at
// each step of a commit and of recovery, and at any time. Where it died is told
// by what it left. Some of that is torn further, as by a power cut. Started
// again with --once, the table must equal the database, and hold nothing that
// no commit names. A death may hit the run that was to mend another.
func TestKill(t *testing.T) {
	c := campaign{t: t, hits: map[step]int{}, rand: rand.New(rand.NewPCG(20261130, 1)), target: killsShort}
	layouts := []layout{{partitioned: true}, {}, {partitioned: true, hard: true}}
	if *full {
		c.target = killsFull
	}
	for n := 0; !c.over(); n++ {
		l := layouts[n%len(layouts)]
		t.Run(fmt.Sprintf("world=%d,partitioned=%t,hard=%t", n, l.partitioned, l.hard), func(t *testing.T) {
			c.fight(newWorld(t, uint64(n), l))
		})
		if t.Failed() {
			break
		}
	}
	for _, s := range allSteps() {
		t.Logf("%4d kills in %s", c.hits[s], s)
		if *full && c.hits[s] < perStep {
			t.Errorf("only %d kills in %s", c.hits[s], s)
		}
	}
	t.Logf("%4d kills in all, after %d of them files were torn", c.kills, c.torn)
}

// campaign counts kills over several worlds.
type campaign struct {
	t           *testing.T
	rand        *rand.Rand
	hits        map[step]int
	kills, torn int
	target      int
}

func (c *campaign) over() bool {
	if c.kills < c.target {
		return false
	}
	if !*full || c.kills >= killsMost {
		return true
	}
	for _, s := range allSteps() {
		if c.hits[s] < perStep {
			return false
		}
	}
	return true
}

// fight kills in one world, until it is enough.
func (c *campaign) fight(w *world) {
	w.withhold()
	w.burst(10)
	for n := 0; n < perWorld && !c.over(); {
		var what []string
		for chain := 0; ; chain++ {
			aim := c.aim(w)
			hit, died := c.kill(w, aim)
			if died {
				n++
				c.kills++
				c.hits[hit]++
				what = append(what, fmt.Sprintf("kill %d, aimed at %q, hit %q%s", c.kills, aim, hit, c.tear(w)))
			}
			// The mending is killed too, while that is what is missing.
			if chain == 3 || len(w.remains().pending()) == 0 || c.hits[recovery] >= c.kills/8+1 {
				break
			}
		}
		w.once()
		w.check("after " + strings.Join(what, "; "))
	}
	w.heal()
	w.once()
	w.check("healed")
	w.finish("in the end")
}

// aim picks the step that was hit least among those that may come up, or none.
func (c *campaign) aim(w *world) step {
	pending := len(w.remains().pending()) > 0
	if pending && c.rand.IntN(3) > 0 {
		return recovery
	}
	if c.rand.IntN(4) == 0 {
		return anyTime
	}
	best := step("")
	for _, i := range c.rand.Perm(len(allSteps())) {
		s := allSteps()[i]
		if s == recovery && !pending || s == metafile && !w.partitioned {
			continue
		}
		if best == "" || c.hits[s] < c.hits[best] {
			best = s
		}
	}
	return best
}

// kill runs the binary over a changing database, kills it when the step comes
// or soon after, and says where it died, if it did.
func (c *campaign) kill(w *world, aim step) (hit step, died bool) {
	w.burst(4)
	before := w.remains()
	args := []string{}
	if c.rand.IntN(3) == 0 {
		args = append(args, "--once")
	}
	limit := 3 * time.Second // the step did not come, or was missed
	if aim == anyTime {
		limit = time.Duration(c.rand.IntN(700)) * time.Millisecond
	}
	b := blow{match: trigger(aim, c.rand), reading: aim == reading, delay: pause(c.rand), limit: limit}
	if p, died := w.struck(b, func() *process { return w.run(args...) }); !died {
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			w.t.Fatalf("before it was killed, the run ended: exit %d\n%s", code, &p.out)
		}
		return "", false
	}
	return autopsy(before, w.remains()), true
}

// blow is when a process is killed: a delay after the first event that matches, or
// after the first reading of changes, or when the limit is over.
type blow struct {
	match        func(event) bool
	reading      bool
	delay, limit time.Duration
}

// struck starts a process over a changing database, and says whether it was
// killed: it may end before.
func (w *world) struck(b blow, start func() *process) (p *process, died bool) {
	w.t.Helper()
	var pid atomic.Int64
	var hits atomic.Bool
	strike := func() {
		if n := pid.Load(); n > 0 && hits.CompareAndSwap(false, true) {
			time.Sleep(b.delay)
			_ = syscall.Kill(int(n), syscall.SIGKILL)
		}
	}
	stop := watch(w.t, w.dir, func(e event) {
		if b.match(e) {
			strike()
		}
	})
	defer stop()
	if b.reading {
		w.atRead(strike)
		defer w.atRead(nil)
	}
	p = start()
	pid.Store(int64(p.pid()))
	calm := w.busy()
	select {
	case <-p.done:
	case <-time.After(b.limit):
		p.send(syscall.SIGKILL)
		<-p.done
	}
	calm()
	s, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return p, s.Signaled()
}

// tear damages, now and then, what a dead run left unfinished, as a power cut
// may: the files of its open instants, and hidden ones. It says what it did.
func (c *campaign) tear(w *world) string {
	if c.rand.IntN(2) == 0 {
		return ""
	}
	b := w.remains()
	var loose []string
	for _, i := range b.open() {
		temp := ".hoodie/.temp/" + string(i.Time) + "/"
		for _, n := range b.names {
			if name, ok := strings.CutPrefix(n, temp); ok && !isTemp(n) {
				loose = append(loose, strings.TrimSuffix(strings.TrimSuffix(name, filepath.Ext(name)), ".marker"))
			}
		}
	}
	for _, n := range b.names {
		if isTemp(filepath.Base(n)) {
			loose = append(loose, n)
		}
	}
	var said []string
	for _, n := range loose {
		path := filepath.Join(w.dir, n)
		fi, err := os.Stat(path)
		if err != nil || c.rand.IntN(2) == 0 {
			continue
		}
		// A hidden file that has its name too is on disk, and may be of a commit
		// that stands.
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Nlink > 1 {
			continue
		}
		size := c.rand.Int64N(fi.Size() + 1)
		w.must(nil, os.Truncate(path, size))
		said = append(said, fmt.Sprintf(", %s cut to %d of %d bytes", n, size, fi.Size()))
	}
	if c.rand.IntN(2) == 0 { // a file of the timeline, half written
		name := fmt.Sprintf(".~c2h-1-%026d-1.tmp", c.kills)
		w.must(nil, os.WriteFile(filepath.Join(w.dir, ".hoodie", name), []byte(`{"partitionToWriteStats":{"pt=`), 0o600))
		said = append(said, ", a half of a timeline file added")
	}
	if len(said) > 0 {
		c.torn++
	}
	return strings.Join(said, "")
}

// The names of the steps are told apart by this, so it must see what it is for.
func TestAutopsyKnowsTheTimeline(t *testing.T) {
	w := newWorld(t, 1, layout{partitioned: true})
	w.burst(5)
	before := w.remains()
	w.once()
	after := w.remains()
	if got := autopsy(before, after); got != reading {
		t.Errorf("after a whole run: %q", got)
	}
	v := w.view()
	at := v.Last()
	name := ".hoodie/" + string(at) + ".deltacommit"
	w.must(nil, os.Remove(filepath.Join(w.dir, name)))
	w.checkAutopsy(before, metafile, "") // there are no markers
	temp := ".hoodie/.temp/" + string(at)
	for _, n := range w.files() {
		if strings.HasSuffix(n, ".parquet") {
			w.checkAutopsy(before, "", temp+"/"+n+".marker.CREATE")
		}
	}
	w.checkAutopsy(before, baseFile, "")
	w.checkAutopsy(before, marker, temp+"/pt=20250101/x_0-0-0_"+string(at)+".parquet.marker.CREATE")
	w.checkAutopsy(before, baseFile, "pt=20250101/.~c2h-1-X-1.tmp")
	w.checkAutopsy(before, marker, temp+"/pt=20250101/.~c2h-1-X-1.tmp")
	w.checkAutopsy(before, completed, ".hoodie/.~c2h-1-X-1.tmp")
	w.checkAutopsy(before, recovery, ".hoodie/"+string(mustNext(t, at))+".rollback.requested")
}

// checkAutopsy adds a file and asks for the step.
func (w *world) checkAutopsy(before body, want step, name string) {
	w.t.Helper()
	if name != "" {
		path := filepath.Join(w.dir, name)
		w.must(nil, os.MkdirAll(filepath.Dir(path), 0o755))
		w.must(nil, os.WriteFile(path, nil, 0o600))
	}
	if got := autopsy(before, w.remains()); got != want && want != "" {
		w.t.Errorf("with %q: %q, want %q", name, got, want)
	}
}

func mustNext(t *testing.T, at hudi.Time) hudi.Time {
	t.Helper()
	next, err := at.Next()
	if err != nil {
		t.Fatal(err)
	}
	return next
}
