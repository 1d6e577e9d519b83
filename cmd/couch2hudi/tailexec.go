package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// What a command is told in its environment.
const (
	envInstant = "COUCH2HUDI_INSTANT"
	envMode    = "COUCH2HUDI_MODE"
)

// commandError is a command of --exec that did not end with 0.
type commandError struct {
	instant, position hudi.Time
	err               error
}

// Error implements error.
func (e *commandError) Error() string {
	return fmt.Sprintf("the command for commit %s: %v", e.instant, e.err)
}

// Hint says what to do.
func (e *commandError) Hint() string {
	return fmt.Sprintf("the position stays at %s: mend the command and start again", e.position)
}

func (e *commandError) Unwrap() error { return e.err }

// killAfter is how long a command that is told to end may take.
const killAfter = 5 * time.Second

// spool keeps a batch in a temporary file without a name, so that the command
// gets it whole, whatever becomes of us, and again when it failed.
func spool(write func(io.Writer) error) (f *os.File, err error) {
	if f, err = os.CreateTemp("", "couch2hudi-tail-*"); err != nil {
		return nil, fmt.Errorf("keep the batch for --exec: %w", err)
	}
	if err = errors.Join(os.Remove(f.Name()), write(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// command runs --exec once with a batch on its standard input.
func (r *tailer) command(ctx context.Context, b batch, in *os.File) error {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("run --exec: %w", err)
	}
	c := exec.CommandContext(ctx, "sh", "-c", r.exec) //nolint:gosec // it is what the user asked for
	c.Env = append(os.Environ(), envInstant+"="+string(b.instant), envMode+"="+b.mode)
	c.Stdin, c.Stdout, c.Stderr = in, r.out, r.err
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = killAfter
	if err := c.Run(); err != nil {
		return &commandError{instant: b.instant, position: r.position, err: err}
	}
	return nil
}
