package storage_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// contender wants the lease whenever it does not have it.
type contender struct {
	machine
	store  *unreliable
	halted bool
	quit   chan struct{}

	mu   sync.Mutex
	held storage.Lock
}

func (c *contender) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held != nil && c.held.Valid() == nil
}

func (c *contender) resume() {
	if c.halted {
		c.halted = false
		c.Continue()
	}
}

func (c *contender) compete() {
	for {
		l, err := c.Lock(context.Background(), "lock")
		pause := time.Second
		if err == nil {
			c.mu.Lock()
			c.held = l
			c.mu.Unlock()
			select {
			case <-l.Held().Done():
			case <-c.quit:
			}
			_ = l.Close()
		}
		if errors.Is(err, storagetest.ErrCrashed) {
			return
		}
		select {
		case <-time.After(pause):
		case <-c.quit:
			return
		}
	}
}

var errDown = errors.New("503 try again later")

// unreliable is a store whose operations are slow, fail before they take effect, or
// after.
type unreliable struct {
	storage.Driver
	down atomic.Bool
	mu   sync.Mutex
	r    *rand.Rand
}

func (u *unreliable) draw() (wait time.Duration, fate int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Duration(u.r.IntN(3000)) * time.Millisecond, u.r.IntN(20)
}

func (u *unreliable) Stat(ctx context.Context, name string) (storage.Object, error) {
	wait, fate := u.draw()
	time.Sleep(wait)
	if u.down.Load() || fate == 0 {
		return storage.Object{}, errDown
	}
	return u.Driver.Stat(ctx, name)
}

func (u *unreliable) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	wait, fate := u.draw()
	time.Sleep(wait)
	if u.down.Load() || fate == 0 {
		return storage.Object{}, errDown
	}
	o, err := u.Driver.Put(ctx, name, data, cond)
	time.Sleep(wait)
	if fate == 1 {
		return storage.Object{}, errors.Join(errDown, err)
	}
	return o, err
}
