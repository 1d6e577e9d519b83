package pipeline

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// TurnsOptions say how many sources take turns.
type TurnsOptions struct {
	// Take leads one source's table to the source's end. It is never called twice at
	// a time for one name. An error ends all.
	Take func(ctx context.Context, name string) error
	// Workers is how many turns are taken at a time; default 4.
	Workers int
	// Gap is how long after the beginning of one turn the next of the same name
	// begins at the earliest.
	Gap time.Duration
	// Once ends Run when nobody wants a turn.
	Once bool
	// Idle is told when nobody has or wants a turn; may be nil.
	Idle func()
}

// Turns lets many sources, of which few have something new at a time, take turns.
// Who wants a turn while it has one gets another. Want may be called at any time.
type Turns struct {
	o    TurnsOptions
	wake chan struct{}

	mu      sync.Mutex // guards what follows
	names   map[string]*turn
	queue   []string // those that want a turn and have none, in the order in which they came
	running int
}

type turn struct {
	wanted, running bool
	next            time.Time // when it may begin again
}

// NewTurns is turns that nobody wants yet.
func NewTurns(o TurnsOptions) *Turns {
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	return &Turns{o: o, wake: make(chan struct{}, 1), names: map[string]*turn{}}
}

// Want asks for a turn.
func (t *Turns) Want(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		n := t.names[name]
		if n == nil {
			n = &turn{}
			t.names[name] = n
		}
		if !n.wanted && !n.running {
			t.queue = append(t.queue, name)
		}
		n.wanted = true
	}
	t.stir()
}

// Run lets them take turns until ctx is done, which is no error, or with Once until
// nobody wants one.
func (t *Turns) Run(ctx context.Context) error {
	e, inner := errgroup.WithContext(ctx)
	for {
		wait, idle := t.begin(inner, e)
		if idle && t.o.Once {
			return stopped(ctx, e.Wait())
		}
		if idle && t.o.Idle != nil {
			t.o.Idle()
		}
		timer := time.NewTimer(wait)
		select {
		case <-t.wake:
		case <-timer.C:
		case <-inner.Done():
			timer.Stop()
			return stopped(ctx, e.Wait())
		}
		timer.Stop()
	}
}

// begin begins what may begin. It says when to look again at the latest, and whether
// nobody has or wants a turn.
func (t *Turns) begin(ctx context.Context, e *errgroup.Group) (wait time.Duration, idle bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait = time.Hour
	now := time.Now()
	var later []string
	for i, name := range t.queue {
		if t.running >= t.o.Workers {
			later = append(later, t.queue[i:]...)
			break
		}
		n := t.names[name]
		if left := n.next.Sub(now); left > 0 {
			wait, later = min(wait, left), append(later, name)
			continue
		}
		n.wanted, n.running, n.next = false, true, now.Add(t.o.Gap)
		t.running++
		e.Go(func() error {
			err := t.o.Take(ctx, name)
			t.ended(name)
			return err
		})
	}
	t.queue = later
	return wait, t.running == 0 && len(later) == 0
}

func (t *Turns) ended(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[name]
	n.running = false
	t.running--
	if n.wanted {
		t.queue = append(t.queue, name)
	}
	t.stir()
}

// stir lets Run look again. The caller holds the lock.
func (t *Turns) stir() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
