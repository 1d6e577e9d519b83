package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Lock is a lock that is held, for the life of the process unless the store can
// only lend it for a time (a lease). Close lets it go, and only its first call
// does anything.
type Lock interface {
	io.Closer
	// Valid says whether nobody else can have the lock for a good while to come;
	// else the error is an ErrLost. It asks no store.
	Valid() error
	// Confirm asks the store whether the lock still is one's own, and prolongs it:
	// for right before what must not happen twice. It finds out even when this
	// process was stopped and its clocks with it. The error is an ErrLost, or says
	// that the store did not answer.
	Confirm(ctx context.Context) error
	// Held is done, with an ErrLost as its cause, as soon as Valid says no, and
	// when the lock was let go.
	Held() context.Context
	// Doubt says that something which was sent under the lock may still take
	// effect. A lock that is only lent is then not let go by Close, but runs out.
	Doubt()
	// Lent says that another may get the lock while its holder lives, but is stopped:
	// what the holder was about to send may then arrive late.
	Lent() bool
}

// NoLock is a Lock that keeps nobody out and is always valid: for a store without
// conditional put, whose owner vouches that there is one writer.
type NoLock struct{}

// Valid implements Lock.
func (NoLock) Valid() error { return nil }

// Confirm implements Lock.
func (NoLock) Confirm(context.Context) error { return nil }

// Held implements Lock.
func (NoLock) Held() context.Context { return context.Background() }

// Doubt implements Lock.
func (NoLock) Doubt() {}

// Lent implements Lock.
func (NoLock) Lent() bool { return false }

// Close implements Lock.
func (NoLock) Close() error { return nil }

// LockedError is an ErrLocked that says more.
type LockedError struct {
	// Holder says who has the lock.
	Holder string
	// Again is when it is worth asking again; 0 where nobody knows.
	Again time.Duration
	// Stale says that the holder has not been heard of for longer than it should.
	// Who asks again and again then gets the lock after a while, unless the holder
	// is alive after all.
	Stale bool
}

// Error implements error.
func (e *LockedError) Error() string { return ErrLocked.Error() + ": " + e.Holder }

// Unwrap makes errors.Is see an ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// HolderTeller is a Driver that can say who holds a lock without taking it.
type HolderTeller interface {
	// Holder is who holds the lock of that name, nil when nobody does. Where locks are
	// lent, one that is over has a holder who is Stale, to be asked after no more.
	Holder(ctx context.Context, name string) (*LockedError, error)
}

// Holder says who holds the lock of that name, nil when nobody does, or when the
// store cannot tell.
func (b *Bucket) Holder(ctx context.Context, name string) (holder *LockedError, err error) {
	d, ok := b.driver.(HolderTeller)
	if !ok {
		return nil, nil
	}
	err = b.do(ctx, "holder", name, func() (_ int64, err error) {
		holder, err = d.Holder(ctx, name)
		return 0, err
	})
	return holder, err
}

// Under is the Bucket under a lock, beside those that it is under already: what it
// writes, and deletes, is begun only while the lock is valid, and given up when it
// no longer is; the error is then an ErrLost too. Reads need no lock. The lock stays
// its owner's to close.
func (b *Bucket) Under(lock Lock) *Bucket {
	return &Bucket{driver: b.driver, observe: b.observe, cache: b.cache, ahead: b.ahead, locks: append(slices.Clone(b.locks), lock)}
}

// Confirm asks the store whether the locks that the Bucket is under still are one's
// own: for right before what must not happen twice.
func (b *Bucket) Confirm(ctx context.Context) error {
	for _, l := range b.locks {
		if err := l.Confirm(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Lent says whether one of the Bucket's locks may be lost.
func (b *Bucket) Lent() bool {
	return slices.ContainsFunc(b.locks, func(l Lock) bool { return l.Held().Done() != nil })
}

// guarded runs what writes, under the Bucket's locks.
func (b *Bucket) guarded(ctx context.Context, f func(context.Context) error) error {
	if len(b.locks) == 0 {
		return f(ctx)
	}
	if err := b.valid(); err != nil {
		return err
	}
	ctx, done := b.under(ctx)
	defer done()
	err := f(ctx)
	if err == nil || isDefinite(err) {
		return err
	}
	for _, l := range b.locks {
		l.Doubt()
	}
	return errors.Join(b.valid(), err)
}

// valid says whether all of the Bucket's locks still are one's own.
func (b *Bucket) valid() error {
	for _, l := range b.locks {
		if err := l.Valid(); err != nil {
			return err
		}
	}
	return nil
}

// under is ctx that ends with the Bucket's locks, too.
func (b *Bucket) under(ctx context.Context) (context.Context, func()) {
	if len(b.locks) == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, 0, len(b.locks))
	for _, l := range b.locks {
		held := l.Held()
		stops = append(stops, context.AfterFunc(held, func() { cancel(context.Cause(held)) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// isDefinite says whether an error of a write says that the write did nothing.
func isDefinite(err error) bool {
	for _, e := range []error{ErrExist, ErrChanged, ErrNotExist, ErrName} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lost is an ErrLost with its reason.
func lost(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrLost, fmt.Sprintf(format, args...))
}
