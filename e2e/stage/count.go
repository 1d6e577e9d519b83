package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
)

// tally is what a stage counted.
type tally struct{ Passed, Failed, Skipped int }

// event is a line of `go test -json` (`go doc test2json`), or of the build's
// own events, which carry ImportPath instead of Package.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// counter follows the events of a run, one package's tests apart from another's.
type counter struct {
	tally
	out     io.Writer
	log     bool                        // show what passing tests log
	running map[string]*strings.Builder // output of tests that have not ended, by package and test
	noise   map[string]*strings.Builder // output of packages outside any test
	failed  map[string]int              // failed tests by package
}

// count reads events up to the end of the stream. Lines that are no events are
// passed on: `go test` prints some of its own errors so. With log, what passing
// tests said is too.
func count(in *bufio.Reader, out io.Writer, log bool) tally {
	c := &counter{out: out, log: log, running: map[string]*strings.Builder{}, noise: map[string]*strings.Builder{}, failed: map[string]int{}}
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				c.print(line)
			} else {
				c.see(e)
			}
		}
		if err != nil {
			c.unfinished()
			return c.tally
		}
	}
}

func (c *counter) see(e event) {
	switch {
	case e.Action == "build-output":
		c.print(e.Output)
	case e.Test != "":
		c.test(e)
	case e.Package != "":
		c.pkg(e)
	}
}

func (c *counter) test(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "run":
		c.running[key] = &strings.Builder{}
	case "output":
		if b := c.running[key]; b != nil {
			b.WriteString(e.Output)
		}
	case "pass":
		c.Passed++
		c.said(key)
		delete(c.running, key)
	case "skip":
		c.Skipped++
		delete(c.running, key)
	case "fail":
		c.fail(e.Package, key)
	}
}

// said shows what a passing test logged, without what `go test` says of it.
func (c *counter) said(key string) {
	b := c.running[key]
	if b == nil || !c.log {
		return
	}
	for line := range strings.Lines(b.String()) {
		if own := strings.TrimSpace(line); !strings.HasPrefix(own, "=== ") && !strings.HasPrefix(own, "--- ") {
			c.print(line)
		}
	}
}

// fail counts a failed test and shows what it said.
func (c *counter) fail(pkg, key string) {
	c.Failed++
	c.failed[pkg]++
	if b := c.running[key]; b != nil {
		c.print(b.String())
	}
	delete(c.running, key)
}

func (c *counter) pkg(e event) {
	switch e.Action {
	case "output":
		if c.noise[e.Package] == nil {
			c.noise[e.Package] = &strings.Builder{}
		}
		_, _ = c.noise[e.Package].WriteString(e.Output)
	case "pass":
		c.print(fmt.Sprintf("ok    %s  %.1fs\n", e.Package, e.Elapsed))
	case "fail":
		c.abandoned(e.Package)
		if c.failed[e.Package] == 0 { // it did not build, or died outside a test
			c.Failed++
		}
		if b := c.noise[e.Package]; b != nil {
			c.print(b.String())
		}
		c.print(fmt.Sprintf("FAIL  %s  %.1fs\n", e.Package, e.Elapsed))
	}
}

// abandoned counts the tests of a package that began and never ended: after a
// panic or a timeout, `go test` may not say that they failed.
func (c *counter) abandoned(pkg string) {
	var keys []string
	for key := range c.running {
		if strings.HasPrefix(key, pkg+" ") {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for _, key := range keys {
		c.fail(pkg, key)
	}
}

// unfinished counts what was still running when the stream ended.
func (c *counter) unfinished() {
	for key := range c.running {
		pkg, _, _ := strings.Cut(key, " ")
		c.abandoned(pkg)
	}
}

// print passes text on. Its error is dropped: what cannot be shown was still counted.
func (c *counter) print(s string) { _, _ = io.WriteString(c.out, s) }
