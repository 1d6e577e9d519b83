package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
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

// leaseAskedEvery is how long a waiting writer leaves the lease alone at least.
const leaseAskedEvery = 250 * time.Millisecond

// standBy waits until a lease is worth asking for again, and gives the error back
// when it is not to be waited for: another has it, and lives, and wait is not set.
func standBy(ctx context.Context, err error, wait bool) error {
	var locked *storage.LockedError
	known := errors.As(err, &locked)
	if !errors.Is(err, table.ErrHeld) || !wait && (!known || !locked.Stale) {
		return err
	}
	pause := leaseAskedEvery
	if known {
		pause = max(pause, locked.Again)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for the table: %w", ctx.Err())
	case <-time.After(pause):
		return nil
	}
}

// outlive waits as long as one who may be dead holds the lock of compactions, and
// gives the table with what gives its lease and store back. A process that ends before
// it can tell would never compact, and neither would the next one.
func outlive(ctx context.Context, t *table.Table, lease io.Closer, b *storage.Bucket) (*table.Table, func() error, error) {
	release := func() error { return errors.Join(lease.Close(), b.Close()) }
	for {
		who, err := t.Executor(ctx)
		if err == nil && (who == nil || !who.Stale || who.Again <= 0) {
			return t, release, nil
		}
		if err == nil {
			select {
			case <-ctx.Done():
				err = fmt.Errorf("wait for a compaction whose process seems to be dead: %w", ctx.Err())
			case <-time.After(max(leaseAskedEvery, who.Again)):
				continue
			}
		}
		return nil, nil, errors.Join(err, release())
	}
}
