package couchdb

import (
	"context"
	"errors"
	"io"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/couch2hudi/couch2hudi/changes"
)

// errSmaller: a response was too large for the batch and had no sequence to
// stop at; fewer rows are asked for at once.
var errSmaller = errors.New("the response does not fit the batch")

// Source follows one database. Its methods may be called from several
// goroutines; calls of Next wait for each other.
type Source struct {
	opts   Options
	client *client

	// mu is held for the whole of a Next. If taking both, take mu first.
	mu       sync.Mutex
	live     *live
	parser   parser
	retry    retry
	rowBytes int64 // the usual size of a row; 0 when none was seen
	bulkless bool  // the server has no _bulk_get
	pace     *rate.Limiter

	calls changes.Calls

	// state guards what other calls share with a Next that is running.
	state       sync.Mutex
	incarnation string
	askedPurges bool // whether the server lists them
}

var _ changes.Source = (*Source)(nil)

// Open prepares to follow a database. It checks the options and reads the
// credentials, but leaves talking to the server to the first call, which
// repeats what fails for a time.
func Open(ctx context.Context, o Options) (*Source, error) {
	where, err := parseAddress(o.URL)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.TLS, err = o.tlsConfig(where); err != nil {
		return nil, err
	}
	if o.TLSFiles.InsecureSkipVerify {
		o.Events.warned("the server's certificate is not verified (insecure_skip_verify): whoever answers gets the credentials")
	}
	s := &Source{opts: o, client: newClient(o, where), incarnation: o.Incarnation}
	s.parser.includeDesign = o.IncludeDesign
	if o.MaxRowsPerSecond > 0 {
		s.pace = rate.NewLimiter(rate.Limit(o.MaxRowsPerSecond), o.MaxRowsPerSecond)
	}
	if _, err := s.client.session(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// String is the database's URL, without credentials.
func (s *Source) String() string { return s.client.where.String() }

// GoString is String.
func (s *Source) GoString() string { return s.String() }

// Identify implements changes.Source. It retries until ctx is done.
func (s *Source) Identify(ctx context.Context) (changes.Identity, error) {
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return changes.Identity{}, err
	}
	defer leave()
	var found info
	err = s.client.persist(ctx, func() (err error) {
		found, err = s.client.info(ctx)
		return err
	})
	if err != nil {
		return changes.Identity{}, err
	}
	s.pin(found.Incarnation)
	return changes.Identity{
		Kind:        "couchdb",
		Name:        s.client.where.db,
		Incarnation: found.Incarnation,
		PurgeSeq:    string(seqText(found.PurgeSeq)),
		Leaves:      true,
	}, nil
}

// pin notes the database's incarnation unless one is known, and returns the
// one that is.
func (s *Source) pin(found string) string {
	s.state.Lock()
	defer s.state.Unlock()
	if s.incarnation == "" {
		s.incarnation = found
	}
	return s.incarnation
}

// Now implements changes.Source. It retries until ctx is done.
func (s *Source) Now(ctx context.Context) (changes.Position, error) {
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	var now changes.Position
	err = s.client.persist(ctx, func() (err error) {
		now, err = s.end(ctx)
		return err
	})
	return now, err
}

// end asks for the position at the feed's end.
func (s *Source) end(ctx context.Context) (changes.Position, error) {
	st, err := s.client.changes(ctx, url.Values{"since": {"now"}, "limit": {"0"}}, s.opts.Timeout)
	if err != nil {
		return "", err
	}
	defer func() { _ = st.Close() }()
	r := &rows{lines: newLines(st, s.opts.MaxRowBytes)}
	for {
		// A server that knows no limit=0 sends rows; only the end is wanted.
		if _, _, err := r.next(); errors.Is(err, io.EOF) {
			return changes.Position(r.last), nil
		} else if err != nil {
			return "", s.client.fail("read the end of", err)
		}
	}
}

// Next implements changes.Source. Limit.Idle of zero reads to the end that the
// server has now; otherwise a continuous feed is kept open between calls for
// as long as they go on from the position of the batch before.
//
// A server that cannot be reached for the whole of a Limit.Idle gives an empty
// batch that is not CaughtUp: the caller stays responsive, and the pauses
// between the attempts go on from call to call.
func (s *Source) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return changes.Batch{}, err
	}
	defer leave()
	b := newBatch(after, limit, s.opts)
	if s.live != nil && (limit.Idle <= 0 || after != s.live.from && after != s.live.at) {
		s.hangUp(nil)
	}
	if err := s.try(ctx, b); err != nil {
		s.hangUp(err)
		return changes.Batch{}, err
	}
	if s.live != nil {
		s.live.at = b.Last
		if len(b.Changes) > 0 {
			s.live.from = b.Last
		}
	}
	return b.Batch, nil
}

// try makes attempts until one gives a batch or fails for good.
func (s *Source) try(ctx context.Context, b *batch) error {
	began, start := time.Now(), b.mark()
	var failed error
	for {
		if wait := s.retry.owed; wait > 0 {
			patience := wait
			if b.limit.Idle > 0 {
				patience = min(wait, max(0, b.limit.Idle-time.Since(began)))
			}
			s.retry.owed -= patience
			if s.opts.Sleep(ctx, patience) != nil {
				return gone(ctx, failed)
			}
			if s.retry.owed > 0 {
				return nil // empty, and not caught up
			}
		}
		err := s.attempt(ctx, b, began)
		switch {
		case ctx.Err() != nil:
			return gone(ctx, failed)
		case err == nil:
			s.retry.reset()
			return nil
		case !retryable(ctx, err):
			return err
		}
		b.cutTo(start)
		b.CaughtUp = false
		s.hangUp(err)
		s.retry.owed = s.client.pause(&s.retry, err)
		failed = err
	}
}

// attempt reads what is there, and waits for what comes when that is nothing.
func (s *Source) attempt(ctx context.Context, b *batch, began time.Time) error {
	idle := b.limit.Idle
	if s.live == nil {
		from := b.Last
		if err := s.catchUp(ctx, b); err != nil {
			return err
		}
		if len(b.Changes) > 0 || idle <= 0 || !b.CaughtUp {
			return s.complete(ctx, b)
		}
		s.live = s.listen(ctx, from, b.Last)
	}
	if err := s.drain(ctx, b, time.Until(began.Add(idle))); err != nil {
		return err
	}
	return s.complete(ctx, b)
}

// catchUp reads normal batches.
func (s *Source) catchUp(ctx context.Context, b *batch) error {
	err := s.fill(ctx, b)
	if errors.Is(err, changes.ErrPosition) {
		// A recreated database may not know the position: say that then.
		if other := s.verify(ctx); errors.Is(other, changes.ErrRecreated) {
			return other
		}
	}
	return err
}

// verify compares the database with the one that the position came from. It
// is asked after a response began and before its rows are delivered: a
// database recreated at any moment before is noticed.
func (s *Source) verify(ctx context.Context) error {
	found, err := s.client.info(ctx)
	if err != nil {
		return err
	}
	return s.same(found)
}

// same says whether a database is the one that the position came from.
func (s *Source) same(found info) error {
	if want := s.pin(found.Incarnation); want != found.Incarnation {
		return recreated(s.client.where, want, found.Incarnation)
	}
	return nil
}

// Close ends the continuous feed, waits for its goroutine and drops the idle
// connections. A call that is running returns ErrClosed, and so does every
// later one. Closing twice is harmless.
func (s *Source) Close() error {
	s.calls.End(ErrClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangUp(ErrClosed)
	s.client.door.close()
	return nil
}
