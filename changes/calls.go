package changes

import (
	"context"
	"sync"
)

// Calls are the running calls of a source's methods, which its Close ends. The zero
// value is ready for use.
type Calls struct {
	mu      sync.Mutex
	ended   error
	running map[*context.CancelCauseFunc]struct{}
}

// Enter begins a call: its context ends, with the cause that End was given, when that
// is called. After End it returns that cause. Leave must be called when the call is
// over.
func (c *Calls) Enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return nil, nil, c.ended
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if c.running == nil {
		c.running = map[*context.CancelCauseFunc]struct{}{}
	}
	c.running[&cancel] = struct{}{}
	return ctx, func() {
		c.mu.Lock()
		delete(c.running, &cancel)
		c.mu.Unlock()
		cancel(nil)
	}, nil
}

// End ends all calls, and refuses those that come, with a cause, which must not be
// nil.
func (c *Calls) End(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = cause
	for cancel := range c.running {
		(*cancel)(cause)
	}
}

// Ended says whether End was called.
func (c *Calls) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended != nil
}
