// Command stage runs one stage of the checks, times it, and counts what passed.
//
//	stage -results FILE -name NAME [-json [-log]] -- COMMAND ARGS...
//	stage -results FILE -sum
//
// With -json the command is a `go test -json`: each test and subtest counts, the
// output of failing ones is shown, that of passing ones only with -log. Any other
// command counts as one. Each run adds a line to FILE; -sum prints them as a table, and a
// last line `N passed, N failed`.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run does what the arguments ask, and reports whether all of it passed.
func run(ctx context.Context, args []string, out io.Writer) (bool, error) {
	flags := flag.NewFlagSet("stage", flag.ContinueOnError)
	results := flags.String("results", "", "file that collects a line for each stage")
	name := flags.String("name", "", "name of the stage")
	asJSON := flags.Bool("json", false, "the command is a go test -json")
	log := flags.Bool("log", false, "show what passing tests log, such as what they measured")
	sum := flags.Bool("sum", false, "print the table of stages and their sum")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if *results == "" {
		return false, errors.New("read the flags: -results is missing")
	}
	if *sum {
		return summarize(*results, out)
	}
	if *name == "" || flags.NArg() == 0 {
		return false, errors.New("read the flags: -name and a command are needed")
	}

	began := time.Now()
	tally, err := execute(ctx, flags.Args(), out, options{json: *asJSON, log: *log})
	if err != nil {
		return false, fmt.Errorf("run stage %s: %w", *name, err)
	}
	s := stage{Name: *name, Seconds: time.Since(began).Seconds(), tally: tally}
	if _, err := fmt.Fprintln(out, s); err != nil {
		return false, fmt.Errorf("print stage %s: %w", *name, err)
	}
	return s.Failed == 0, record(*results, s)
}

// options say what kind of command it is.
type options struct{ json, log bool }

// execute runs the command to its end and counts.
func execute(ctx context.Context, command []string, out io.Writer, o options) (tally, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // running the given command is the purpose
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = out
	if !o.json {
		cmd.Stdout = out
		return verdict(tally{}, cmd.Run(), false)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return tally{}, err
	}
	if err := cmd.Start(); err != nil {
		return verdict(tally{}, err, true)
	}
	counted := count(bufio.NewReaderSize(pipe, 1<<20), out, o.log)
	return verdict(counted, cmd.Wait(), true)
}

// verdict folds the command's own end into what was counted: a command that
// failed while no test did (a build error, a crash) is a failure, and so is a
// test run in which nothing ran.
func verdict(t tally, err error, tests bool) (tally, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return t, err
	}
	switch {
	case err != nil && t.Failed == 0, tests && t.Passed+t.Failed == 0:
		t.Failed = 1
	case !tests && err == nil:
		t.Passed = 1
	}
	return t, nil
}
