package table

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

// LeaseName is the name of the lock that the table's writer holds.
const LeaseName = hoodieFolder + "couch2hudi/lock"

// Lease makes this process the table's only writer of ours until it is closed;
// ErrHeld, with what is known of the holder, when another has it. Begin and Recover
// need it. Where the store only lends it, it may be lost: whatever the table then is
// to write is refused with an ErrLost, and Leased says so at once. It does not keep
// other engines out: nobody may let them write at the same time
// (docs/format/timeline.md).
func (t *Table) Lease(ctx context.Context) (*Lease, error) {
	if t.version != hudi.Version6 {
		return nil, checkWritable(t.properties)
	}
	held, err := t.bucket.Lock(ctx, LeaseName)
	if errors.Is(err, storage.ErrLocked) {
		// Who waits for one dead process's lease need not wait for its other one then.
		_, _ = t.Executor(ctx)
		return nil, &Error{Err: fmt.Errorf("%w: %w", ErrHeld, err), Hint: "stop the other writer of this table, or wait for it"}
	}
	if err != nil {
		return nil, err
	}
	t.gate.set(held)
	t.mu.Lock()
	t.leased = true
	t.mu.Unlock()
	return &Lease{table: t, lock: held}, nil
}

// Lease is the right to write to a table.
type Lease struct {
	table *Table
	lock  storage.Lock
}

// Close lets the lease go.
func (l *Lease) Close() error {
	l.table.mu.Lock()
	l.table.leased = false
	l.table.mu.Unlock()
	return l.lock.Close()
}

// Holder says who writes to the table, nil when nobody does or the store cannot tell.
func (t *Table) Holder(ctx context.Context) (*storage.LockedError, error) {
	return t.bucket.Holder(ctx, LeaseName)
}

// Executor says who runs compactions of the table, nil when nobody does or the store
// cannot tell. One that is Stale may be dead; it is when Executor said so for as long
// as Again was above 0. Until then Recover and BeginCompaction take it for alive.
func (t *Table) Executor(ctx context.Context) (*storage.LockedError, error) {
	return t.bucket.Holder(ctx, compactionLock)
}

// Leased is ctx that ends with the table's lease too, with an ErrLost as its cause.
func (t *Table) Leased(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	held := t.gate.Held()
	stop := context.AfterFunc(held, func() { cancel(errLost(context.Cause(held))) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

func errLost(err error) error {
	return &Error{Err: err, Hint: "another writer may have the table; what was not committed is read again"}
}

func (t *Table) needLease(what string) error {
	t.mu.Lock()
	leased := t.leased
	t.mu.Unlock()
	if !leased {
		return fmt.Errorf("%s: %w", what, ErrNoLease)
	}
	if err := t.gate.Valid(); err != nil {
		return fmt.Errorf("%s: %w", what, errLost(err))
	}
	return nil
}

// gate is the lock under which a table's bucket writes: its lease, once it has one.
// Before that, what needs no lease is done without.
type gate struct {
	mu   sync.Mutex
	lock storage.Lock
}

var _ storage.Lock = (*gate)(nil)

func (g *gate) set(l storage.Lock) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lock = l
}

func (g *gate) get() storage.Lock {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lock == nil {
		return storage.NoLock{}
	}
	return g.lock
}

// Valid implements storage.Lock.
func (g *gate) Valid() error { return g.get().Valid() }

// Confirm implements storage.Lock.
func (g *gate) Confirm(ctx context.Context) error { return g.get().Confirm(ctx) }

// Held implements storage.Lock.
func (g *gate) Held() context.Context { return g.get().Held() }

// Doubt implements storage.Lock.
func (g *gate) Doubt() { g.get().Doubt() }

// Lent implements storage.Lock.
func (g *gate) Lent() bool { return g.get().Lent() }

// Close implements storage.Lock: the lease is its holder's to close.
func (g *gate) Close() error { return nil }
