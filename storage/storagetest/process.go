package storagetest

import (
	"context"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Process is a driver as one process has it, which can be stopped like a process
// that gets no time, go on, and be killed. Its clock may be wrong.
type Process struct {
	wrapper

	mu      sync.Mutex
	running chan struct{} // closed while it runs
	killed  bool
	stopAt  func(Op) bool
	stopped chan struct{} // closed when it stopped where StopAt says

	skew   time.Duration
	rate   float64
	began  time.Time
	frozen time.Time // what its clock says while it is stopped, if that stops too
	freeze bool
}

// ProcessOptions are the choices of a Process; the zero value is a right clock.
type ProcessOptions struct {
	// Skew is how far its clock is ahead, Rate how fast it runs; 0 is 1.
	Skew time.Duration
	Rate float64
	// Freeze has its clock stand still while it is stopped, and lag from then on, as
	// that of a machine which is paused from outside.
	Freeze bool
}

// Advance sets its clock forward.
func (p *Process) Advance(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen.IsZero() {
		p.skew += d
	}
}

// NewProcess is a running process with the store d, which it has opened for itself.
func NewProcess(d storage.Driver, o ProcessOptions) *Process {
	p := &Process{running: make(chan struct{}), stopped: make(chan struct{}), skew: o.Skew, rate: o.Rate, freeze: o.Freeze, began: time.Now()}
	if p.rate == 0 {
		p.rate = 1
	}
	close(p.running)
	p.wrapper = wrapper{driver: another(d), around: p.pass}
	return p
}

// Clock is the time as the process has it.
func (p *Process) Clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock()
}

func (p *Process) clock() time.Time {
	if !p.frozen.IsZero() {
		return p.frozen
	}
	now := time.Now()
	return now.Add(p.skew + time.Duration(float64(now.Sub(p.began))*(p.rate-1)))
}

// Stop has it get no time: its operations wait until Continue before they reach the
// store. Then their time is over, unless its clock stood still.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

func (p *Process) stop() {
	p.running = make(chan struct{})
	if p.freeze {
		p.frozen = p.clock()
	}
}

// StopAt stops it before the first operation that at picks. The channel is closed
// when that has happened.
func (p *Process) StopAt(at func(Op) bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopAt = at
	return p.stopped
}

// Continue lets it go on.
func (p *Process) Continue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.frozen.IsZero() {
		was := p.frozen
		p.frozen = time.Time{}
		p.skew -= p.clock().Sub(was)
	}
	close(p.running)
}

// Kill ends it: no operation reaches the store any more.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
}

// state is whether it lives, and what to wait for before going on.
func (p *Process) state(op Op, first bool) (killed bool, running chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first && p.stopAt != nil && p.stopAt(op) {
		p.stopAt = nil
		p.stop()
		close(p.stopped)
	}
	return p.killed, p.running
}

func (p *Process) pass(op Op, do func() error) error {
	killed, running := p.state(op, true)
	waits := false
	select {
	case <-running:
	default:
		waits = true
		<-running
	}
	if !killed {
		killed, _ = p.state(op, false)
	}
	if killed {
		return ErrCrashed
	}
	if waits && !p.freeze {
		return context.DeadlineExceeded
	}
	err := do()
	// Of what happened while it was stopped or killed it hears later, or never.
	killed, running = p.state(op, false)
	<-running
	if killed {
		return ErrCrashed
	}
	return err
}

// Leased is d with the locks of storage.Leases, as a store that has none of its
// own.
func Leased(d storage.Driver, o storage.LeaseOptions) storage.Driver {
	return &leased{Before: Before{d}, leases: storage.NewLeases(d, o)}
}

type leased struct {
	Before
	leases *storage.Leases
}

// Lock implements storage.Driver.
func (l *leased) Lock(ctx context.Context, name string) (storage.Lock, error) {
	return l.leases.Lock(ctx, name)
}

// Holder implements storage.HolderTeller.
func (l *leased) Holder(ctx context.Context, name string) (*storage.LockedError, error) {
	return l.leases.Holder(ctx, name)
}
