package couchdb

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

const (
	feedContinuous = "continuous"
	chunkRows      = 512
	chunkBytes     = 1 << 20
)

// live is an open continuous feed. One goroutine reads it and hands over
// chunks of rows; with no buffer between them, a follower that does not take
// its chunk stops the reading, and so the server. Beside the chunk in hand
// there is at most one being read.
type live struct {
	// from and at are the positions from which a caller goes on with this
	// feed: the one that it came with, and the one that it was given last.
	from, at changes.Position
	began    time.Time
	rows     int64
	rest     []liveRow   // of the last chunk, when a batch was full
	open     atomic.Bool // the server answered, and is the right one
	chunks   chan chunk
	cancel   context.CancelCauseFunc
	done     chan struct{}
}

type liveRow struct {
	changes.Change
	skip bool
	size int64
}

// chunk is rows that arrived together, and the feed's end after them.
type chunk struct {
	rows []liveRow
	end  error
}

// listen opens a continuous feed after a position. The feed outlives ctx, as
// it stays open between two calls of Next.
func (s *Source) listen(ctx context.Context, from, at changes.Position) *live {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &live{
		from: from, at: at, began: time.Now(),
		chunks: make(chan chunk), cancel: cancel, done: make(chan struct{}),
	}
	go func() {
		defer close(l.done)
		end := s.client.fail("read changes of", s.follow(ctx, l, at))
		l.hand(ctx, chunk{end: end})
	}()
	return l
}

// follow reads the feed until it ends, for whatever reason.
func (s *Source) follow(ctx context.Context, l *live, since changes.Position) error {
	q := s.query(feedContinuous, since)
	q.Set("heartbeat", strconv.FormatInt(s.opts.Heartbeat.Milliseconds(), 10))
	const missed = 3
	s.client.doubt()
	st, err := s.client.feed(ctx, q, missed*s.opts.Heartbeat)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	s.opts.Events.connected(Connected{Feed: feedContinuous, Since: since})
	if err := s.verify(ctx); err != nil {
		return err
	}
	l.open.Store(true)
	r := &rows{lines: newLines(st, s.opts.MaxRowBytes), live: true}
	p := &parser{includeDesign: s.opts.IncludeDesign}
	var got chunk
	size := int64(0)
	for {
		raw, bad, err := r.next()
		if err != nil {
			l.hand(ctx, got)
			return err
		}
		c, skip := p.change(&r.envelope, raw, bad)
		got.rows = append(got.rows, liveRow{Change: c, skip: skip, size: int64(len(raw))})
		size += int64(len(raw))
		if len(got.rows) >= chunkRows || size >= chunkBytes || !r.ready() {
			if !l.hand(ctx, got) {
				return context.Cause(ctx)
			}
			got, size = chunk{}, 0
		}
	}
}

// hand gives a chunk over; false when nobody wants it any more.
func (l *live) hand(ctx context.Context, c chunk) bool {
	if len(c.rows) == 0 && c.end == nil {
		return true
	}
	select {
	case l.chunks <- c:
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends the feed and waits for its goroutine.
func (l *live) close() {
	l.cancel(nil)
	<-l.done
}

// drain takes rows from the feed into b until a limit is reached, the feed
// ends, nothing came for as long as idle, or ctx is done. A feed's end is an
// error only while b is empty.
func (s *Source) drain(ctx context.Context, b *batch, idle time.Duration) error {
	l := s.live
	timer := time.NewTimer(max(0, idle))
	defer timer.Stop()
	for {
		first := len(b.Changes) == 0
		l.rest = b.take(l.rest)
		if first && len(b.Changes) > 0 {
			timer.Reset(b.limit.Wait)
		}
		if len(b.Changes) > 0 && b.full() {
			b.CaughtUp = len(l.rest) == 0 && b.overdue()
			return nil
		}
		select {
		case c := <-l.chunks:
			l.rest = c.rows
			l.rows += int64(len(c.rows))
			if c.end != nil {
				return s.liveEnded(b, c.end)
			}
		case <-timer.C:
			// That nothing came means something only if the server was heard of.
			b.CaughtUp = b.CaughtUp || l.open.Load()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take moves rows into b until it is full and returns the others.
func (b *batch) take(rows []liveRow) []liveRow {
	for i, row := range rows {
		if len(b.Changes) >= b.limit.Rows || b.Bytes >= b.limit.Bytes {
			return rows[i:]
		}
		if !row.skip {
			b.add(row.Change, row.size)
		}
		if row.Seq != "" {
			b.Last = changes.Position(row.Seq)
		}
	}
	return nil
}

// liveEnded puts a feed that has ended away. One that had lived for a while,
// or brought rows, is no reason to wait longer than at its first end.
func (s *Source) liveEnded(b *batch, end error) error {
	l := s.live
	lasted := time.Since(l.began)
	if l.rows > 0 || lasted > s.opts.Heartbeat {
		s.retry.reset()
	}
	s.hangUp(end)
	b.CaughtUp = false
	if len(b.Changes) > 0 {
		return nil
	}
	return end
}

// hangUp closes the continuous feed, if one is open.
func (s *Source) hangUp(why error) {
	if s.live == nil {
		return
	}
	l := s.live
	s.live = nil
	l.close()
	s.opts.Events.ended(Ended{Feed: feedContinuous, Rows: l.rows, Lasted: time.Since(l.began), Err: why})
}
