// Command couch2hudi follows CouchDB's _changes and keeps an Apache Hudi
// Merge-On-Read table equal to it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
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
