package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/couch2hudi/couch2hudi/storage"
)

// ErrCrashed is what a dead process would not even see.
var ErrCrashed = errors.New("the process died")

// Crash is when a Crasher dies.
type Crash struct {
	// At is the write-like operation to die at, counted from 1: Put, Create,
	// Write and Commit of an upload, Delete. 0 never dies, and counts.
	At int
	// After lets that operation take effect first; the caller is told of the
	// death all the same, and so cannot know.
	After bool
}

// Crasher is a driver whose process dies. From then on every operation, reads
// too, fails with ErrCrashed and does nothing; locks are let go, as the system
// does for a dead process; uploads stay as they are, neither committed nor
// aborted. Write-like operations happen one at a time, so that a death leaves
// none of them half done in another goroutine.
type Crasher struct {
	wrapper
	crash Crash

	mu    sync.Mutex // held during write-like operations
	ops   []Op
	state sync.RWMutex // guards dead and locks; taken after mu
	dead  bool
	locks []io.Closer
}

// NewCrasher is d, as a process of its own has it, until it dies.
func NewCrasher(d storage.Driver, crash Crash) *Crasher {
	c := &Crasher{crash: crash}
	c.wrapper = wrapper{driver: another(d), around: c.pass}
	return c
}

// Dead says whether it has died.
func (c *Crasher) Dead() bool {
	c.state.RLock()
	defer c.state.RUnlock()
	return c.dead
}

// Ops are the write-like operations so far, in their order; the last is the one
// it died at, when it is dead.
func (c *Crasher) Ops() []Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ops)
}

// Where says in words what it died at: "before operation 7, put x if absent".
func (c *Crasher) Where() string {
	ops := c.Ops()
	if !c.Dead() {
		return fmt.Sprintf("alive after %d operations", len(ops))
	}
	when := "before"
	if c.crash.After {
		when = "after"
	}
	return fmt.Sprintf("%s operation %d, %s", when, len(ops), ops[len(ops)-1])
}

// Lock implements storage.Driver.
func (c *Crasher) Lock(ctx context.Context, name string) (storage.Lock, error) {
	held, err := c.wrapper.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	c.state.Lock()
	defer c.state.Unlock()
	if c.dead { // died while we waited
		return nil, errors.Join(ErrCrashed, held.Close())
	}
	c.locks = append(c.locks, held)
	return held, nil
}

// pass is the wrapper's around.
func (c *Crasher) pass(op Op, do func() error) error {
	if op.Kind.writes() {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	if c.Dead() && op.Kind != Unlock { // a lock was let go by the death
		return ErrCrashed
	}
	if !op.Kind.writes() {
		err := do()
		if c.Dead() && op.Kind != Unlock && op.Kind != Lock {
			return ErrCrashed
		}
		return err
	}
	c.ops = append(c.ops, op)
	if len(c.ops) != c.crash.At {
		return do()
	}
	if c.crash.After {
		// An error of the operation itself is lost with the process.
		_ = do()
	}
	return errors.Join(ErrCrashed, c.die())
}

func (c *Crasher) die() error {
	c.state.Lock()
	c.dead = true
	locks := c.locks
	c.locks = nil
	c.state.Unlock()
	var errs []error
	for _, l := range locks {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
