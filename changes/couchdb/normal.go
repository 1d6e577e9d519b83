package couchdb

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

const feedNormal = "normal"

// query is what both feeds ask for.
func (s *Source) query(feed string, since changes.Position) url.Values {
	if since == "" {
		since = "0"
	}
	return url.Values{
		"feed":         {feed},
		"since":        {string(since)},
		"include_docs": {"true"},
		"style":        {"all_docs"},
	}
}

// fill reads normal responses into b until it is full or the server has no
// more. A failure is an error only while b is empty: rows in hand are
// delivered first, and what is wrong shows again at the next call.
func (s *Source) fill(ctx context.Context, b *batch) error {
	for s.room(b) {
		if ahead := s.ahead(); ahead > 0 {
			if err := s.opts.Sleep(ctx, ahead); err != nil {
				return err
			}
		}
		before := b.mark()
		read := s.response
		if s.opts.Parallel > 1 && !s.bulkless {
			read = s.parallel
		}
		n, err := read(ctx, b, s.ask(b))
		s.spent(n)
		if errors.Is(err, errSmaller) {
			continue
		}
		if err == nil || b.Last != before.last {
			if other := s.verify(ctx); other != nil {
				b.cutTo(before)
				err = other
			}
		}
		switch {
		case err == nil && n > 0:
		case err == nil:
			b.CaughtUp = true
			return nil
		case ctx.Err() != nil || len(b.Changes) == 0 && b.Last == before.last:
			return err
		default:
			return nil
		}
	}
	return nil
}

// room says that another response is worth its request.
func (s *Source) room(b *batch) bool {
	return !b.full() && (b.Bytes == 0 || b.limit.Bytes-b.Bytes >= s.rowBytes)
}

// ask is the number of rows to ask for: as many as fit into what is left of
// the batch, going by the size of the rows seen last.
func (s *Source) ask(b *batch) int {
	n := min(s.opts.BatchRows, b.limit.Rows-len(b.Changes))
	if s.rowBytes > 0 {
		n = int(min(int64(n), (b.limit.Bytes-b.Bytes)/s.rowBytes))
	}
	if s.pace != nil {
		n = min(n, s.pace.Burst())
	}
	return max(n, 1)
}

// ahead is how long to wait until as many rows may be read as were.
func (s *Source) ahead() time.Duration {
	if s.pace == nil || s.pace.Tokens() >= 0 {
		return 0
	}
	return time.Duration(-s.pace.Tokens() / float64(s.pace.Limit()) * float64(time.Second))
}

// spent counts rows that were read.
func (s *Source) spent(rows int) {
	for s.pace != nil && rows > 0 { // a server that knows no limit sends more than it was asked for
		n := min(rows, s.pace.Burst())
		s.pace.ReserveN(time.Now(), n)
		rows -= n
	}
}

// response reads one normal response of at most limit rows into b and returns
// how many there were. It stops early, at a row with a sequence, when b is
// full; without such a row it takes nothing and asks for fewer next time.
func (s *Source) response(ctx context.Context, b *batch, limit int) (n int, err error) {
	began := time.Now()
	q := s.query(feedNormal, b.Last)
	q.Set("limit", strconv.Itoa(limit))
	if s.opts.SeqInterval > 1 {
		q.Set("seq_interval", strconv.Itoa(s.opts.SeqInterval))
	}
	st, err := s.client.feed(ctx, q, s.opts.Timeout)
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = st.Close()
		s.opts.Events.ended(Ended{Feed: feedNormal, Rows: int64(n), Lasted: time.Since(began), Err: err})
	}()
	s.opts.Events.connected(Connected{Feed: feedNormal, Since: b.Last})
	r := &rows{lines: newLines(st, s.opts.MaxRowBytes)}
	return s.read(b, r, limit)
}

// read takes the rows of a response into b.
func (s *Source) read(b *batch, r *rows, limit int) (n int, err error) {
	safe, size := b.mark(), int64(0)
	for {
		raw, bad, err := r.next()
		if errors.Is(err, io.EOF) {
			b.Last, b.Pending = changes.Position(r.last), r.pending
			s.learn(size, n)
			return n, nil
		}
		if err != nil {
			b.cutTo(safe)
			return n, s.client.fail("read changes of", err)
		}
		n++
		size += int64(len(raw))
		c, skip := s.parser.change(&r.envelope, raw, bad)
		if !skip {
			b.add(c, int64(len(raw)))
		}
		if c.Seq != "" {
			b.Last = changes.Position(c.Seq)
			safe = b.mark()
			safe.moved = true
		}
		if n != limit && (b.Bytes >= b.limit.Bytes || c.Seq != "" && b.overdue()) {
			return s.stop(b, safe, size, n)
		}
	}
}

// stop ends a response that would make b too large.
func (s *Source) stop(b *batch, safe mark, size int64, n int) (int, error) {
	b.cutTo(safe)
	s.rowBytes = 2 * max(1, size/int64(n))
	if safe.moved || safe.rows > 0 {
		return n, nil
	}
	return n, errSmaller
}

// learn notes the size of a row, half of it as it was before.
func (s *Source) learn(size int64, n int) {
	if n > 0 {
		s.rowBytes = max(1, (s.rowBytes+size/int64(n))/2)
	}
}
