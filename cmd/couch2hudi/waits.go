package main

import (
	"context"
	"io"
	"time"
)

// waitsKey is the key of a context's function that tells of a store which does not
// answer: every command opens stores, and not every one has a log of its own.
type waitsKey struct{}

// toldAfter is the wait from which on a person wants to know what it is for.
const toldAfter = 800 * time.Millisecond

// withWaits is ctx in which stores that are opened say on w what they wait for.
func withWaits(ctx context.Context, w io.Writer) context.Context {
	log := newLogger(w, "", "")
	return context.WithValue(ctx, waitsKey{}, func(err error, wait time.Duration) {
		if wait >= toldAfter {
			log.Warn("store failed, trying again", keyReason, oneLine(err.Error()), keyWait, wait)
		}
	})
}

// waitsOf is what is told of waits in ctx, nil for nobody.
func waitsOf(ctx context.Context) func(error, time.Duration) {
	told, _ := ctx.Value(waitsKey{}).(func(error, time.Duration))
	return told
}
