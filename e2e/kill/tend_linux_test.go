package kill

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	tendShort = 8
	tendFull  = 60
	tendMost  = 250
)

// TestKillServices kills the binary while it ingests, compacts, cleans and archives,
// and the commands that compact a table or take it back, aimed at each step of
// what they do. Started again with --once, the table must equal the database and
// hold nothing that nobody will remove; in the end the services do all that is
// left to do.
func TestKillServices(t *testing.T) {
	c := campaign{t: t, hits: map[step]int{}, rand: rand.New(rand.NewPCG(20261130, 2)), target: tendShort}
	layouts := []layout{{partitioned: true, tended: true}, {tended: true}, {partitioned: true, hard: true, tended: true}}
	if *full {
		c.target = tendFull
	}
	for n := 0; !c.tended(); n++ {
		l := layouts[n%len(layouts)]
		t.Run(fmt.Sprintf("world=%d,partitioned=%t,hard=%t", n, l.partitioned, l.hard), func(t *testing.T) {
			c.tend(newWorld(t, 1000+uint64(n), l))
		})
		if t.Failed() {
			break
		}
	}
	for _, s := range tendSteps() {
		t.Logf("%4d kills in %s", c.hits[s], s)
		if *full && c.hits[s] < perStep {
			t.Errorf("only %d kills in %s", c.hits[s], s)
		}
	}
	t.Logf("%4d kills in all, after %d of them files were torn", c.kills, c.torn)
}

func (c *campaign) tended() bool {
	if c.kills < c.target {
		return false
	}
	return !*full || c.kills >= tendMost || !slices.ContainsFunc(tendSteps(), func(s step) bool { return c.hits[s] < perStep })
}

// tend kills in one world, until it is enough.
func (c *campaign) tend(w *world) {
	w.burst(200) // more commits than the timeline keeps
	w.once()
	for n := 0; n < perWorld && !c.tended(); {
		var what []string
		for chain := range 3 {
			aim := c.tendAim(chain > 0)
			hit, died := c.killTended(w, aim)
			if !died {
				break
			}
			n++
			c.kills++
			for s := range hit {
				c.hits[s]++
			}
			what = append(what, fmt.Sprintf("kill %d, aimed at %q, hit %q%s", c.kills, aim, slices.Sorted(maps.Keys(hit)), c.tear(w)))
			if c.rand.IntN(3) > 0 {
				break
			}
		}
		w.once()
		w.check("after " + strings.Join(what, "; "))
	}
	w.finish("in the end")
	w.settle()
}

// tendAim picks a step that was hit least, or none. While there is something to mend
// no command is killed: what it would leave would not be told from that.
func (c *campaign) tendAim(mending bool) step {
	if c.rand.IntN(8) == 0 {
		return anyTime
	}
	best := anyTime
	steps := tendSteps()
	for _, i := range c.rand.Perm(len(steps)) {
		if s := steps[i]; (!mending || s.command() == "run") && (best == anyTime || c.hits[s] < c.hits[best]) {
			best = s
		}
	}
	return best
}

// killTended kills the run, or the command, in which a step comes up.
func (c *campaign) killTended(w *world, aim step) (hit map[step]bool, died bool) {
	w.burst(4)
	command := aim.command()
	start := func() *process { return w.run() }
	switch command {
	case "restore":
		start = func() *process { return launch(w.t, "restore", "--table", w.dir, "--to", w.earlier(1+c.rand.IntN(4))) }
	case "rollback":
		start = func() *process { return launch(w.t, "rollback", "--table", w.dir, w.earlier(0)) }
	case "compact":
		w.leaveLogs()
		start = func() *process { return launch(w.t, "compact", "--table", w.dir) }
	}
	before := w.remains()
	limit := 3 * time.Second
	if aim == anyTime {
		limit = time.Duration(c.rand.IntN(1500)) * time.Millisecond
	}
	p, died := w.struck(blow{match: tendTrigger(aim, c.rand), delay: pause(c.rand), limit: limit}, start)
	if !died {
		const gone = 4 // what a restore would need is cleaned
		if code := p.cmd.ProcessState.ExitCode(); code != 0 && (command != "restore" && command != "rollback" || code != gone) {
			w.t.Fatalf("%s was not killed and ended with %d\n%s", command, code, &p.out)
		}
		return nil, false
	}
	hit = w.remains().tendAutopsy(before, command)
	maps.DeleteFunc(hit, func(_ step, is bool) bool { return !is })
	return hit, true
}

// earlier is the instant of a completed write, n writes before the newest one.
func (w *world) earlier(n int) string {
	w.t.Helper()
	for _, i := range slices.Backward(w.remains().instants) {
		if !i.Done() || !i.Writes() {
			continue
		}
		if n--; n < 0 {
			return string(i.Time)
		}
	}
	w.t.Fatal("there is no write")
	return ""
}

// leaveLogs makes commits of which the log files stay.
func (w *world) leaveLogs() {
	w.t.Helper()
	for range 2 {
		w.burst(4)
		w.must(nil, w.succeed("run", "-c", w.config, "--once", "--compaction", "off"))
	}
}

// settle lets every service do all that is left to do: then there are the files of
// the latest slices, and a short timeline.
func (w *world) settle() {
	w.t.Helper()
	w.must(nil, w.succeed("compact", "--table", w.dir))
	w.touch()
	w.must(nil, w.succeed("run", "-c", w.config, "--once", "--compaction", "off"))
	w.must(nil, w.succeed("clean", "--table", w.dir, "--policy", "commits", "--keep", "1"))
	w.must(nil, w.succeed("archive", "--table", w.dir, "--keep-min", "20", "--keep-max", "21"))
	w.check("settled")
	v := w.view()
	latest := map[string]bool{}
	partitions, err := v.Partitions(w.t.Context())
	w.must(nil, err)
	for _, partition := range partitions {
		list, err := v.Slices(w.t.Context(), partition)
		w.must(nil, err)
		for _, s := range list {
			for _, f := range append(s.Logs, s.Base) {
				latest[strings.TrimPrefix(partition+"/"+f.Name, "/")] = true
			}
		}
	}
	for _, n := range w.files() {
		if data := strings.HasSuffix(n, ".parquet") || strings.Contains(n, ".log."); data && !latest[n] {
			w.t.Errorf("settled: %s is in no latest slice", n)
		}
	}
	if n := len(v.Writes()); n > 21 {
		w.t.Errorf("settled: %d writes on the timeline", n)
	}
}

// succeed runs the binary to its end; it must have gone well.
func (w *world) succeed(args ...string) error {
	p := launch(w.t, args...)
	if code := p.wait(patience); code != 0 {
		return fmt.Errorf("couch2hudi %s: exit %d\n%s", args[0], code, &p.out)
	}
	return nil
}

// touch changes a document where it is, which takes a log file and no more.
func (w *world) touch() {
	w.t.Helper()
	for d := range w.db.Docs() {
		if d.Deleted() || d.ID == withheldID {
			continue
		}
		day, err := time.Parse("2006-01-02", dayOf(w.t, d))
		w.must(nil, err)
		w.must(w.db.Put(d.ID, w.bodyOf(day)))
		return
	}
	w.t.Fatal("no document is live")
}
