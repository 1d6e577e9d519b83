package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"
)

// LeaseOptions are the choices of Leases; the zero value is the default.
type LeaseOptions struct {
	// Validity is how long a lease stands after it was renewed last; default
	// DefaultValidity. It is renewed each sixth of that, and its holder ends a third
	// of it before another can have it.
	Validity time.Duration
	// Holder says in a few words who this process is; its pid and host by default.
	Holder string
	// Clock is the clock of this machine; default time.Now.
	Clock func() time.Time
}

// DefaultValidity is how long a lease stands by default.
const DefaultValidity = time.Minute

const (
	renewals    = 6 // in the time that a lease stands
	marginShare = 3 // of that time is left when a holder stops
	// rateShare is by what share of the time longer another waits than the lease
	// stands: clocks do not run equally fast.
	rateShare = 10
	// lookShare is how often one who waits looks, in the time a lease stands.
	lookShare = 24
	// leaseLimit is more bytes than a lease has.
	leaseLimit = 4 << 10
)

// Leases are locks of stores that have none of their own: objects that their
// holder puts again and again. Everything goes by conditional puts of one object a
// lock, so that of any number of processes one holds it.
//
// No clock is compared with another machine's: a lease is another's to take when
// he has watched its object for as long as it stands, by his own clock, and it was
// not put again. All that has to hold is that clocks run equally fast within a
// third. The holder counts from before he sent the put, and stops well before.
//
// A driver keeps one Leases, which remembers what it watched. It may be used
// concurrently.
type Leases struct {
	driver Driver
	o      LeaseOptions

	mu   sync.Mutex
	seen map[string]sighting
}

// sighting is a version of a lease's object, and since when it has been there.
type sighting struct {
	version, etag string
	since         time.Time
	// moved says that there was another before it: its holder was alive then.
	moved bool
}

// NewLeases are leases in the store of d, of which only Stat, ReadAt and Put are
// used.
func NewLeases(d Driver, o LeaseOptions) *Leases {
	if o.Validity <= 0 {
		o.Validity = DefaultValidity
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "an unnamed host"
		}
		o.Holder = fmt.Sprintf("pid %d on %s", os.Getpid(), host)
	}
	return &Leases{driver: d, o: o, seen: map[string]sighting{}}
}

// leaseBody is the object of a lease. No two that were put are equal, so that
// stores whose ETags are sums of the content tell them apart.
type leaseBody struct {
	// Token is the holder's, made anew whenever a lease is taken.
	Token string `json:"token"`
	// Renewal counts the puts under the token.
	Renewal int `json:"renewal"`
	// Holder and Since are for people.
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
	// ValidMillis is how long the lease stands after this put.
	ValidMillis int64 `json:"validMillis"`
	// Until is when it ends by the holder's clock: a hint, never a proof.
	Until time.Time `json:"until"`
	// Released says that the holder let go.
	Released bool `json:"released,omitempty"`
}

func (b *leaseBody) version() string { return fmt.Sprintf("%s %d", b.Token, b.Renewal) }

func (b *leaseBody) describe() string {
	if b.Token == "" {
		return "held by one who has left no readable lease"
	}
	return fmt.Sprintf("held by %s since %s, lease until %s by its clock", b.Holder, b.Since.Format(time.RFC3339), b.Until.Format(time.RFC3339))
}

// Lock is Driver.Lock: it takes the lease of that name, or says at once who has
// it, as a LockedError.
func (l *Leases) Lock(ctx context.Context, name string) (Lock, error) {
	body, o, err := l.read(ctx, name)
	cond := Cond{ETag: o.ETag}
	switch {
	case errors.Is(err, ErrNotExist):
		cond = Cond{Absent: true}
	case err != nil:
		return nil, err
	case !body.Released:
		if held := l.watch(name, body, o); held != nil {
			return nil, held
		}
	}
	h := &Lease{leases: l, name: name}
	h.body = leaseBody{Token: rand.Text(), Holder: l.o.Holder, Since: l.o.Clock().UTC().Round(0)}
	h.sent = map[int]time.Time{}
	if err := h.put(ctx, cond); err != nil {
		body, _, look := l.read(context.WithoutCancel(ctx), name)
		switch {
		case look == nil && body.Token == h.body.Token: // only the answer was lost
		case errors.Is(err, ErrExist), errors.Is(err, ErrChanged):
			return nil, &LockedError{Holder: body.describe(), Again: l.o.Validity / lookShare}
		default:
			return nil, fmt.Errorf("take the lease: %w", err)
		}
	}
	h.start(ctx)
	return h, nil
}

// Holder implements HolderTeller. The lease is watched from then on, as by Lock.
func (l *Leases) Holder(ctx context.Context, name string) (*LockedError, error) {
	body, o, err := l.read(ctx, name)
	if errors.Is(err, ErrNotExist) || err == nil && body.Released {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	holder := l.watch(name, body, o)
	if holder == nil {
		holder = &LockedError{Holder: body.describe(), Stale: true}
	}
	return holder, nil
}

// watch is why a lease cannot be taken yet, or nil: it was not renewed for as long
// as it stands while this process watched.
func (l *Leases) watch(name string, body leaseBody, o Object) *LockedError {
	now := l.o.Clock()
	stands := max(time.Duration(body.ValidMillis)*time.Millisecond, l.o.Validity)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.seen[name]
	if s.since.IsZero() || s.version != body.version() || s.etag != o.ETag {
		s = sighting{version: body.version(), etag: o.ETag, since: now, moved: !s.since.IsZero()}
		l.seen[name] = s
	}
	watched := now.Sub(s.since)
	left := stands + stands/rateShare - watched
	if left <= 0 {
		return nil
	}
	return &LockedError{
		Holder: body.describe(),
		Again:  min(left, stands/lookShare),
		Stale:  watched > stands/2 || !s.moved && now.Round(0).After(body.Until),
	}
}

// read is the object of a lease. One that is not readable counts as held.
func (l *Leases) read(ctx context.Context, name string) (leaseBody, Object, error) {
	data, o, err := New(l.driver, nil).ReadVersion(ctx, name, leaseLimit)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return leaseBody{}, o, err
	}
	body := leaseBody{}
	if err != nil || json.Unmarshal(data, &body) != nil || body.Token == "" {
		body = leaseBody{}
		o, err = l.driver.Stat(ctx, name)
	}
	return body, o, err
}

// Lease is a Lock that Leases gave.
type Lease struct {
	leases *Leases
	name   string

	asking sync.Mutex // held while the store is asked; body, etag and sent are guarded by it
	body   leaseBody
	etag   string
	sent   map[int]time.Time // when renewals were sent, from the one known to stand on

	mu    sync.Mutex // guards what follows
	until time.Time  // by this process's clock
	cause error      // why it is lost
	doubt bool       // it is not to be let go before its end
	timer *time.Timer

	held   func() context.Context
	lose   context.CancelCauseFunc
	stop   context.CancelFunc
	done   sync.WaitGroup
	closed sync.Once
}

var _ Lock = (*Lease)(nil)

// put puts the next version of the object, and counts its time when it took
// effect. The caller holds asking, or is the only one.
func (h *Lease) put(ctx context.Context, cond Cond) error {
	stands := h.leases.o.Validity
	now := h.leases.o.Clock()
	h.body.Renewal++
	h.body.ValidMillis = (stands + time.Millisecond - 1).Milliseconds()
	h.body.Until = now.UTC().Round(0).Add(stands)
	h.sent[h.body.Renewal] = now
	data, err := json.Marshal(h.body)
	if err != nil {
		return err
	}
	o, err := h.leases.driver.Put(ctx, h.name, data, cond)
	if err != nil {
		return err
	}
	h.stands(h.body.Renewal, o.ETag)
	return nil
}

// stands notes that a renewal took effect.
func (h *Lease) stands(renewal int, etag string) {
	h.etag = etag
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = h.sent[renewal].Add(h.leases.o.Validity)
	for n := range h.sent {
		if n < renewal {
			delete(h.sent, n)
		}
	}
	if h.timer != nil && h.cause == nil {
		h.timer.Reset(h.left(h.leases.o.Clock()))
	}
}

// left is how long the holder may go on: till a good while before another can have
// the lease. Time that passed by either of the machine's clocks counts: the
// monotonic one stands still while a machine sleeps, the other may be set.
// The caller holds mu.
func (h *Lease) left(now time.Time) time.Duration {
	end := h.until.Add(-h.leases.o.Validity / marginShare)
	return min(end.Sub(now), end.Round(0).Sub(now.Round(0)))
}

// start begins to renew, whatever becomes of ctx.
func (h *Lease) start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	held, lose := context.WithCancelCause(ctx)
	h.held, h.lose = func() context.Context { return held }, lose
	if h.etag == "" { // the answer to the first put was lost: the first renewal looks
		h.until = h.sent[h.body.Renewal].Add(h.leases.o.Validity)
	}
	ctx, stop := context.WithCancel(ctx)
	h.stop = stop
	h.mu.Lock()
	h.timer = time.AfterFunc(h.left(h.leases.o.Clock()), h.expire)
	h.mu.Unlock()
	h.done.Add(1)
	go func() {
		defer h.done.Done()
		h.renew(ctx)
	}()
}

// expire ends the lease when its time is over.
func (h *Lease) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		return
	}
	if left := h.left(h.leases.o.Clock()); left > 0 {
		h.timer.Reset(left) // it was renewed
		return
	}
	h.end(lost("it could not be renewed in time"))
}

// end is for the holder of mu. A lease that is lost stays so.
func (h *Lease) end(cause error) {
	if h.cause == nil {
		h.cause = cause
		h.timer.Stop()
		h.lose(cause)
	}
}

func (h *Lease) endFor(cause error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(cause)
	return h.cause
}

// renew puts the object again and again until the lease is lost or ctx is done.
func (h *Lease) renew(ctx context.Context) {
	every := h.leases.o.Validity / renewals
	pause := every
	for {
		// Jitter, so that many tables of one process do not ask all at once.
		timer := time.NewTimer(pause - mathrand.N(pause/4+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-h.held().Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = every
		if h.Confirm(ctx) != nil {
			pause = every / 4
		}
	}
}

// Held implements Lock.
func (h *Lease) Held() context.Context { return h.held() }

// Valid implements Lock.
func (h *Lease) Valid() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil && h.left(h.leases.o.Clock()) <= 0 {
		return lost("it could not be renewed in time")
	}
	return h.cause
}

// Confirm implements Lock.
func (h *Lease) Confirm(ctx context.Context) error {
	h.asking.Lock()
	defer h.asking.Unlock()
	if err := h.gone(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.leases.o.Validity/renewals)
	defer cancel()
	var err error
	if h.etag != "" {
		if err = h.put(ctx, Cond{ETag: h.etag}); err == nil {
			return h.Valid()
		}
	}
	// It may be that this put took effect, or one before it whose answer was lost.
	body, o, look := h.leases.read(ctx, h.name)
	switch {
	case errors.Is(look, ErrNotExist):
		return h.endFor(lost("its object was deleted"))
	case look != nil:
		return fmt.Errorf("renew the lease: %w", cmp.Or(err, look))
	case body.Token != h.body.Token || body.Released:
		return h.endFor(lost("it is %s", body.describe()))
	}
	h.stands(body.Renewal, o.ETag)
	if body.Renewal == h.body.Renewal {
		return h.Valid()
	}
	if err := h.put(ctx, Cond{ETag: h.etag}); err != nil {
		return fmt.Errorf("renew the lease: %w", err) // the next one looks again
	}
	return h.Valid()
}

// gone is why the lease was lost, or nil while it can still be renewed.
func (h *Lease) gone() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// Doubt implements Lock.
func (h *Lease) Doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubt = true
}

// Lent implements Lock.
func (h *Lease) Lent() bool { return true }

func (h *Lease) doubted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubt
}

// Close lets the lease go, so that another need not wait for its end. When the
// store does not answer, or there is a Doubt, it ends by itself.
func (h *Lease) Close() error {
	h.closed.Do(func() {
		h.stop()
		h.done.Wait()
		h.asking.Lock()
		defer h.asking.Unlock()
		if h.Valid() == nil && h.etag != "" && !h.doubted() {
			// Longer than a renewal: who stands by would wait for longer still.
			ctx, cancel := context.WithTimeout(h.held(), h.leases.o.Validity/2)
			defer cancel()
			h.body.Released = true
			_ = h.put(ctx, Cond{ETag: h.etag})
		}
		_ = h.endFor(lost("it was let go"))
	})
	return nil
}
