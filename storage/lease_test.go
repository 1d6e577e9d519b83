package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

const stands = storage.DefaultValidity

// machine is a process with a bucket in a common store.
type machine struct {
	*storagetest.Process
	*storage.Bucket
}

func newMachine(d storage.Driver, o storagetest.ProcessOptions) machine {
	p := storagetest.NewProcess(d, o)
	return machine{p, storage.New(storagetest.Leased(p, storage.LeaseOptions{Clock: p.Clock, Holder: "one of us"}), nil)}
}

// take asks until it gets the lease, and says how long that took.
func (m machine) take(t *testing.T) (storage.Lock, time.Duration) {
	t.Helper()
	began := time.Now()
	for {
		l, err := m.Lock(t.Context(), "lock")
		if err == nil {
			return l, time.Since(began)
		}
		var held *storage.LockedError
		if !errors.As(err, &held) || held.Again <= 0 || time.Since(began) > time.Hour {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		time.Sleep(held.Again)
	}
}

func TestLeaseIsAsGoodAsALock(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Driver {
		return storagetest.Leased(mem.New(nil), storage.LeaseOptions{})
	})
}

// A holder that lives keeps the lease for ever; let go of, it is free at once.
func TestLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mem.New(nil)
		a, b := newMachine(d, storagetest.ProcessOptions{}), newMachine(d, storagetest.ProcessOptions{})
		held, _ := a.take(t)
		for range 1000 {
			_, err := b.Lock(t.Context(), "lock")
			var locked *storage.LockedError
			if !errors.As(err, &locked) || locked.Stale || !strings.Contains(err.Error(), "held by one of us since 2000-01-01T00:00:00Z") {
				t.Fatal(err)
			}
			if err := held.Valid(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if who, err := b.Holder(t.Context(), "lock"); err != nil || who == nil || who.Stale || !strings.Contains(who.Holder, "one of us") {
			t.Fatalf("%v, %v", who, err)
		}
		if err := held.Close(); err != nil || !errors.Is(held.Valid(), storage.ErrLost) || held.Held().Err() == nil {
			t.Fatal(err, held.Valid())
		}
		if who, err := b.Holder(t.Context(), "lock"); err != nil || who != nil {
			t.Fatalf("%v, %v", who, err)
		}
		next, took := b.take(t)
		if took != 0 {
			t.Errorf("took %s", took)
		}
		_ = next.Close()
	})
}

// Whatever the clocks say, and however fast they run, the next one has the lease
// only after a dead one's end, and after a bounded time.
func TestLeaseOfTheDead(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, rate := range []float64{1, 0.9, 1.1} {
			t.Run(fmt.Sprintf("%s %g", skew, rate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := mem.New(nil)
					a := newMachine(d, storagetest.ProcessOptions{Skew: skew, Rate: rate})
					b := newMachine(d, storagetest.ProcessOptions{Skew: -skew, Rate: 2 - rate})
					held, _ := a.take(t)
					time.Sleep(10 * stands)
					a.Kill()
					died := time.Now()
					ended := make(chan time.Duration, 1)
					go func() { <-held.Held().Done(); ended <- time.Since(died) }()
					next, took := b.take(t)
					end := <-ended
					if end > stands*3/4 || took < end+stands/6 || took > stands*3/2 {
						t.Errorf("the dead one went on for %s, the next one waited for %s", end, took)
					}
					if err := held.Valid(); !errors.Is(err, storage.ErrLost) || !errors.Is(context.Cause(held.Held()), storage.ErrLost) {
						t.Errorf("the dead one's: %v, %v", err, context.Cause(held.Held()))
					}
					if err := next.Valid(); err != nil {
						t.Error(err)
					}
					_, _ = held.Close(), next.Close()
				})
			})
		}
	}
}

// A process that was stopped, with its clocks or without, finds out before it does
// what must not happen twice; what it writes otherwise is refused too once its
// clocks say so.
func TestLeaseOfTheStopped(t *testing.T) {
	for _, freeze := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := mem.New(nil)
			a, b := newMachine(d, storagetest.ProcessOptions{Freeze: freeze}), newMachine(d, storagetest.ProcessOptions{})
			held, _ := a.take(t)
			writes := a.Under(held)
			if _, err := writes.Put(t.Context(), "x", nil); err != nil {
				t.Fatal(err)
			}
			a.Stop()
			next, _ := b.take(t)
			if freeze != (held.Valid() == nil) {
				t.Errorf("freeze %v: %v", freeze, held.Valid())
			}
			a.Continue()
			if err := held.Confirm(t.Context()); !errors.Is(err, storage.ErrLost) {
				t.Errorf("freeze %v: %v", freeze, err)
			}
			up, err := writes.Create(t.Context(), "u", storage.Cond{})
			if !errors.Is(err, storage.ErrLost) {
				t.Errorf("create: %v, %v", up, err)
			}
			if _, err := writes.Put(t.Context(), "y", nil); !errors.Is(err, storage.ErrLost) {
				t.Errorf("put: %v", err)
			}
			if err := writes.Delete(t.Context(), "x"); !errors.Is(err, storage.ErrLost) {
				t.Errorf("delete: %v", err)
			}
			if _, err := writes.Stat(t.Context(), "x"); err != nil {
				t.Errorf("a read: %v", err)
			}
			if err := next.Valid(); err != nil {
				t.Error(err)
			}
			_, _ = held.Close(), next.Close()
			if err := next.Confirm(t.Context()); !errors.Is(err, storage.ErrLost) {
				t.Errorf("confirmed after its end: %v", err)
			}
		})
	}
}

// An upload that was begun under a lease is not committed after it.
func TestUploadOfTheStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMachine(mem.New(nil), storagetest.ProcessOptions{})
		held, _ := a.take(t)
		up, err := a.Under(held).Create(t.Context(), "u", storage.Cond{})
		if err == nil {
			_, err = up.Write([]byte("x"))
		}
		if err != nil {
			t.Fatal(err)
		}
		a.Kill()
		time.Sleep(2 * stands)
		if _, err := up.Write([]byte("x")); !errors.Is(err, storage.ErrLost) {
			t.Errorf("write: %v", err)
		}
		if _, err := up.Commit(); !errors.Is(err, storage.ErrLost) {
			t.Errorf("commit: %v", err)
		}
		_ = held.Close()
	})
}

// Answers of the store that get lost cost nothing but a look.
func TestLeaseWithLostAnswers(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				d := mem.New(nil)
				f := storagetest.Faults(d, storagetest.Fault{Kind: storagetest.Put, N: n, After: after}, storagetest.Fault{Kind: storagetest.Put, N: n + 1, After: after},
					storagetest.Fault{Kind: storagetest.Read, N: n + 1})
				a := newMachine(f, storagetest.ProcessOptions{})
				held, err := a.Lock(t.Context(), "lock")
				if n == 1 { // nor can it look whether it has it
					if !errors.Is(err, storagetest.ErrFault) {
						t.Fatal(err)
					}
					return
				}
				if err != nil {
					t.Fatalf("put %d, after %v: %v", n, after, err)
				}
				time.Sleep(5 * stands)
				if err := held.Valid(); err != nil || f.Hit() < 2 {
					t.Errorf("put %d, after %v: %v, %d faults", n, after, err, f.Hit())
				}
				_ = held.Close()
				next, took := newMachine(d, storagetest.ProcessOptions{}).take(t)
				if took != 0 {
					t.Errorf("put %d, after %v: let go, and free after %s", n, after, took)
				}
				_ = next.Close()
			})
		}
	}
}

// Whoever removes or overwrites the object of a lease ends it.
func TestLeaseMeddledWith(t *testing.T) {
	for name, meddle := range map[string]func(ctx context.Context, b *storage.Bucket) error{
		"deleted": func(ctx context.Context, b *storage.Bucket) error { return b.Delete(ctx, "lock") },
		"overwritten": func(ctx context.Context, b *storage.Bucket) error {
			_, err := b.Put(ctx, "lock", []byte("mine"))
			return err
		},
		"blown up": func(ctx context.Context, b *storage.Bucket) error {
			_, err := b.Put(ctx, "lock", make([]byte, 1<<20))
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newMachine(mem.New(nil), storagetest.ProcessOptions{})
			held, _ := a.take(t)
			if err := meddle(t.Context(), a.Bucket); err != nil {
				t.Fatal(err)
			}
			<-held.Held().Done()
			if err := held.Valid(); !errors.Is(err, storage.ErrLost) {
				t.Errorf("%s: %v", name, err)
			}
			_ = held.Close()
			next, took := a.take(t)
			if took > 2*stands {
				t.Errorf("%s: another waited for %s", name, took)
			}
			_ = next.Close()
		})
	}
}

// A lease under which something may still arrive is not let go early.
func TestLeaseInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mem.New(nil)
		a := newMachine(storagetest.Faults(d, storagetest.Fault{Kind: storagetest.Put, N: 2}), storagetest.ProcessOptions{})
		b := newMachine(d, storagetest.ProcessOptions{})
		held, _ := a.take(t)
		if _, err := a.Under(held).Put(t.Context(), "x", nil); !errors.Is(err, storagetest.ErrFault) {
			t.Fatal(err)
		}
		_ = held.Close()
		next, took := b.take(t)
		if took < stands {
			t.Errorf("free after %s", took)
		}
		_ = next.Close()
	})
}

// Machines with wrong clocks that are stopped, go on, die and are replaced, in a
// store that loses answers and is down at times: no two ever hold the lease, and
// in the end somebody has it.
func TestLeaseOfMany(t *testing.T) {
	for seed := range uint64(15) {
		synctest.Test(t, func(t *testing.T) { leaseOfMany(t, seed) })
	}
}

func leaseOfMany(t *testing.T, seed uint64) {
	const machines, steps = 4, 400
	r := rand.New(rand.NewPCG(seed, 1))
	d := mem.New(nil)
	fresh := func() *contender {
		faulty := &unreliable{Driver: d, r: rand.New(rand.NewPCG(seed, r.Uint64()))}
		o := storagetest.ProcessOptions{Skew: time.Duration(r.IntN(7200)-3600) * time.Second, Rate: 0.95 + 0.1*r.Float64()}
		c := &contender{machine: newMachine(faulty, o), store: faulty, quit: make(chan struct{})}
		go c.compete()
		return c
	}
	all := make([]*contender, machines)
	for i := range all {
		all[i] = fresh()
	}
	held := 0
	for range steps {
		time.Sleep(time.Duration(1+r.IntN(10)) * time.Second)
		i := r.IntN(machines)
		switch c := all[i]; r.IntN(12) {
		case 0:
			c.Kill()
			c.resume()
			close(c.quit)
			all[i] = fresh()
		case 1, 2:
			if !c.halted {
				c.halted = true
				c.Stop()
			}
		case 3, 4, 5:
			c.resume()
		case 6:
			c.store.down.Store(!c.store.down.Load())
		default:
		}
		holders := 0
		for _, c := range all {
			if c.holds() {
				holders++
			}
		}
		if holders > 1 {
			t.Fatalf("seed %d: %d hold the lease", seed, holders)
		}
		held += holders
	}
	for _, c := range all {
		c.store.down.Store(false)
		c.resume()
	}
	time.Sleep(3 * stands)
	last := 0
	for _, c := range all {
		if c.holds() {
			last++
		}
		c.Kill()
		close(c.quit)
	}
	if last != 1 || held < steps/10 {
		t.Errorf("seed %d: in the end %d hold the lease; at %d of %d looks somebody did", seed, last, held, steps)
	}
	time.Sleep(3 * stands) // those that stand by see that they are dead
}
