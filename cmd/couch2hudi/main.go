// Command couch2hudi follows CouchDB's _changes and keeps an Apache Hudi
// Merge-On-Read table equal to it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	os.Exit(mainCode())
}

func mainCode() int {
	ctx, stop := signals(context.Background())
	defer stop()
	return execute(ctx, streams{out: os.Stdout, err: os.Stderr}, os.Args[1:])
}

// signals is done at the first SIGINT or SIGTERM; the second ends the process
// at once. Nothing is lost either way: what no commit names does not exist.
func signals(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-c:
			cancel()
		case <-ctx.Done():
			return
		}
		<-c
		os.Exit(exitFailed)
	}()
	return ctx, func() { signal.Stop(c); cancel() }
}

// grace is how long a stopped run may clean up: it promises to end within 10 s.
const grace = 8 * time.Second

// endInTime ends the process when ctx is done and what it is for is not over,
// as done would say, a grace later: because the storage hangs, say. That is no
// failure: the next start mends what is left.
func endInTime(ctx context.Context, errs io.Writer) (done func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-over:
			return
		}
		select {
		case <-time.After(grace):
			_, _ = fmt.Fprintf(errs, "couch2hudi: stopped without cleaning up, which took longer than %s; the next start does it\n", grace)
			os.Exit(exitDone)
		case <-over:
		}
	}()
	return func() { close(over) }
}
