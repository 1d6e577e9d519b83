package couchdb

import (
	"context"
	"errors"
	"time"
)

const (
	retryBase = 100 * time.Millisecond
	retryCap  = 30 * time.Second
)

// retry is the exponential back-off with full jitter of one line of attempts.
type retry struct {
	failures int
	// owed is what is left of a pause that the caller's patience cut short.
	owed time.Duration
}

func (r *retry) reset() { *r = retry{} }

// next counts a failure and returns the pause after it: anything up to the
// base doubled with each failure, but at least what the server asked for.
func (r *retry) next(jitter func() float64, err error) time.Duration {
	bound := retryCap
	if r.failures < 16 { // beyond, the shift alone would exceed the cap
		bound = min(retryBase<<r.failures, retryCap)
	}
	r.failures++
	wait := time.Duration(jitter() * float64(bound))
	var e *Error
	if errors.As(err, &e) {
		wait = max(wait, min(e.RetryAfter, 10*retryCap))
	}
	return wait
}

// persist repeats a call until it succeeds, fails for good, or ctx is done.
func (c *client) persist(ctx context.Context, call func() error) error {
	var r retry
	var failed error
	for {
		err := call()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return gone(ctx, failed)
		case !retryable(ctx, err):
			return err
		}
		failed = err
		if err := c.opts.Sleep(ctx, c.pause(&r, err)); err != nil {
			return gone(ctx, failed)
		}
	}
}

// pause counts a failure, tells of it, and returns how long to wait.
func (c *client) pause(r *retry, failed error) time.Duration {
	wait := r.next(c.opts.Jitter, failed)
	var e *Error
	if !errors.As(failed, &e) || e.Status == 0 {
		// The network's fault: other connections that wait for use may be as
		// dead as this one, and would each cost a timeout.
		c.door.close()
	}
	c.opts.Events.retried(Retried{Err: failed, Attempt: r.failures, Wait: wait})
	return wait
}
