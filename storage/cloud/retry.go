package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Errors of the vendors' halves, which fault knows in all of them.
var (
	// errRefused: the condition does not hold, as the half itself could tell.
	errRefused = errors.New("the condition does not hold")
	// errFinal: the client has tried again itself, to the end of its patience.
	errFinal = errors.New("given up")
	// errDialect: the store answers what its protocol does not allow.
	errDialect = errors.New("the store does not keep to its protocol")
)

// networkFault is what an error without an answer means: whatever the network does
// passes, and nobody knows how far the request got.
func networkFault(err error) fault {
	var network net.Error
	switch {
	case errors.Is(err, errRefused):
		return refused
	case errors.Is(err, errFinal), errors.Is(err, errDialect):
		return other
	case errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return other
	case errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, context.DeadlineExceeded):
		return passing
	}
	return other
}

// retry is how a request is tried again.
type retry struct {
	// where is the store, for errors.
	where                             string
	timeout, patience, first, longest time.Duration
	sleep                             func(ctx context.Context, d time.Duration) error
	// told is told of each failure that is tried again, explain adds to the last one.
	told    func(err error, wait time.Duration)
	explain func(error) error
}

// slowest is how many bytes in a second a request may take its time for.
const slowest = 256 << 10

// once makes one request, of that many bytes, within its time.
func (r *retry) once(ctx context.Context, bytes int, f func(ctx context.Context) error) error {
	own, cancel := context.WithTimeout(ctx, r.timeout+time.Duration(bytes)*time.Second/slowest)
	defer cancel()
	err := f(own)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil && own.Err() != nil {
		// Whatever a client makes of its context's end, it is a time-out.
		return fmt.Errorf("no answer within %v: %w: %w", r.timeout, context.DeadlineExceeded, err)
	}
	return err
}

// tries calls f until it says that it is done, waiting longer and longer in between,
// and within the patience. f is told how often it was called before.
func (r *retry) tries(ctx context.Context, f func(before int) (done bool, err error)) error {
	start, wait, waited := time.Now(), r.first, time.Duration(0)
	for before := 0; ; before++ {
		done, err := f(before)
		if done || ctx.Err() != nil {
			return r.explain(err)
		}
		if max(waited, time.Since(start))+wait > r.patience {
			return r.explain(fmt.Errorf("%w (%s, tried %d times within %s)", err, r.where, before+1, max(waited, time.Since(start)).Round(time.Millisecond)))
		}
		if r.told != nil {
			r.told(err, wait)
		}
		// Half of it by chance: many that failed at once do not come back at once.
		if slept := r.sleep(ctx, wait/2+rand.N(wait/2+1)); slept != nil {
			return errors.Join(err, slept)
		}
		waited += wait
		wait = min(2*wait, r.longest)
	}
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// safely makes a request that may be made any number of times.
func (d *Driver) safely(ctx context.Context, bytes int, f func(ctx context.Context) error) error {
	return d.retry.tries(ctx, func(int) (bool, error) {
		err := d.retry.once(ctx, bytes, f)
		return err == nil || d.fault(err) != passing, err
	})
}

// fault is the store's, but for what every vendor's client wraps.
func (d *Driver) fault(err error) fault {
	if f := networkFault(err); f != other || errors.Is(err, errFinal) || errors.Is(err, errDialect) {
		// A time-out may come with an answer that says otherwise.
		return f
	}
	return d.store.fault(err)
}

// settle makes a put of that many bytes until it is known what became of it. Under a
// condition a second try may meet what the first one stored and whose answer was
// lost, and is refused for that: the token tells.
func (d *Driver) settle(ctx context.Context, key string, cond storage.Cond, token string, bytes int, put func(ctx context.Context) (info, error)) (info, error) {
	var o info
	doubt := false
	err := d.retry.tries(ctx, func(int) (bool, error) {
		err := d.retry.once(ctx, bytes, func(ctx context.Context) (err error) {
			o, err = put(ctx)
			return err
		})
		if err == nil {
			return true, nil
		}
		switch f := d.fault(err); {
		case f == passing:
			doubt = true
			return false, err
		case f == lost, doubt && (f == refused || f == missing):
			o, err = d.became(ctx, key, cond, token, f, err)
			return true, err
		case f == refused || f == missing && cond.ETag != "":
			return true, condErr(cond, err)
		}
		return true, err
	})
	if err != nil && doubt && ctx.Err() == nil && d.fault(err) == passing {
		if now, looked := d.head(ctx, key); looked == nil && now.token == token {
			return now, nil
		}
	}
	return o, err
}

// became says what became of a put that may have taken effect in an earlier try,
// after a later one met f.
func (d *Driver) became(ctx context.Context, key string, cond storage.Cond, token string, f fault, why error) (info, error) {
	now, err := d.head(ctx, key)
	switch {
	case err == nil && now.token == token:
		return now, nil
	case err != nil && d.fault(err) != missing:
		return info{}, errors.Join(why, err)
	case cond.Absent && err == nil:
		return info{}, condErr(cond, why)
	case cond.ETag != "" && (err != nil || now.version != cond.ETag):
		return info{}, condErr(cond, why)
	case f == lost:
		return info{}, fmt.Errorf("the upload is gone, as another one of the same name was completed, or the bucket's rules removed it: %w", why)
	}
	return info{}, why // there it was refused, and now there is nothing
}

// condErr is the error of a condition that does not hold.
func condErr(cond storage.Cond, why error) error {
	if cond.Absent {
		return fmt.Errorf("%w: %w", storage.ErrExist, why)
	}
	return fmt.Errorf("%w: %w", storage.ErrChanged, why)
}

// head describes an object, with its token.
func (d *Driver) head(ctx context.Context, key string) (o info, err error) {
	err = d.safely(ctx, 0, func(ctx context.Context) error {
		o, err = d.store.head(ctx, key)
		return err
	})
	return o, err
}
