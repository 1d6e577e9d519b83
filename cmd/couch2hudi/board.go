package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/status"
)

// openBoard makes the board of a run and serves it where the config says. Runs that
// end by themselves serve none, unless an address is asked for; where nobody asked and
// another process has the usual one, a run goes on without.
func openBoard(ctx context.Context, cfg config.Config, f ingestFlags, log *slog.Logger) (*status.Board, func() error, error) {
	version, _ := buildVersion()
	board := status.New(status.Options{Version: version, Source: cfg.Source.URL.String()})
	none := func() error { return nil }
	usual := cfg.Listen == config.ListenDefault
	if cfg.Listen == config.ListenOff || usual && (f.once || f.replay || f.quiet) {
		return board, none, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	switch {
	case err != nil && usual && errors.Is(err, syscall.EADDRINUSE):
		log.Warn("no status page: another process has its address", keyAddress, cfg.Listen, keyNext, "--listen host:port, or --listen "+config.ListenOff)
		return board, none, nil
	case err != nil:
		return nil, nil, &config.FieldError{Field: "listen", Err: err}
	}
	const patience = 5 * time.Second
	s := &http.Server{Handler: board.Handler(), ReadHeaderTimeout: patience, ReadTimeout: patience, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	log.Info("status page", keyURL, fmt.Sprintf("http://%s/", l.Addr()))
	return board, func() error {
		err := s.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
