// Command couchfaked serves the stand-in for CouchDB that the tests use as a
// process of its own, for containers and for trying things by hand. It keeps
// everything in memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:5984", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *listen)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "couchfaked:", err)
		os.Exit(1)
	}
}

// serve answers until ctx is done.
func serve(ctx context.Context, address string) error {
	s, err := couchfake.Start(couchfake.Options{Address: address})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	fmt.Println("listening on", s.URL())
	<-ctx.Done()
	return s.Close()
}
