package couchdb

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

const (
	// bulkRows is how many documents one request of a parallel reading asks for. Each
	// bulkRows-th row of its feed has a sequence, so that a batch can end there.
	bulkRows = 200
	// leastAnswer is the least bytes that one answer may have.
	leastAnswer = 256 << 10
	// lookUpRows is how many rows are looked up at a time, whose size nobody knows.
	lookUpRows = 10
)

// listed are rows that came without documents, which are being asked for.
type listed struct {
	rows []listedRow
	done chan struct{}
	err  error // valid once done is closed
}

// listedRow is a row of n bytes; skip says that it is not to be delivered, asked that
// its document was asked for, large that it was not to be had for its size.
type listedRow struct {
	change             changes.Change
	n                  int64
	skip, asked, large bool
}

// parallel reads one normal response of at most limit rows into b, as response does,
// but without documents, and asks for those side by side: for each row for the
// revision that it names, so that what is delivered is what the feed would have had.
func (s *Source) parallel(ctx context.Context, b *batch, limit int) (n int, err error) {
	began := time.Now()
	q := s.query(feedNormal, b.Last)
	q.Del("include_docs")
	q.Set("limit", strconv.Itoa(limit))
	if s.opts.SeqInterval > 1 {
		q.Set("seq_interval", strconv.Itoa(min(s.opts.SeqInterval, bulkRows)))
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
	ctx, stop := context.WithCancel(ctx)
	f := &fetching{s: s, most: max(leastAnswer, b.limit.Bytes/int64(s.opts.Parallel)), room: b.limit.Bytes - b.Bytes,
		slots: make(chan struct{}, s.opts.Parallel)}
	defer f.wait() // before what ends them: whoever waits for the others is not to be left behind
	defer stop()
	r := &rows{lines: newLines(st, s.opts.MaxRowBytes)}
	whole, failed := f.list(ctx, r)
	return s.gather(ctx, b, f, r, whole, failed)
}

// fetching asks for documents while their rows are listed.
type fetching struct {
	s     *Source
	most  int64 // bytes of one answer
	room  int64 // bytes that fit the batch
	got   atomic.Int64
	slots chan struct{}
	lists []*listed
	all   sync.WaitGroup
}

// list reads the feed's rows and lets their documents be asked for; whole says that
// it came to the feed's end, and not to that of the batch.
func (f *fetching) list(ctx context.Context, r *rows) (whole bool, err error) {
	now := &listed{done: make(chan struct{})}
	for {
		raw, bad, err := r.next()
		if errors.Is(err, io.EOF) {
			f.ask(ctx, now)
			return true, nil
		}
		if err != nil {
			f.ask(ctx, now)
			return false, f.s.client.fail("read changes of", err)
		}
		c, skip := f.s.parser.change(&r.envelope, raw, bad)
		now.rows = append(now.rows, listedRow{change: c, n: int64(len(raw)), skip: skip})
		if len(now.rows) == bulkRows {
			f.ask(ctx, now)
			if f.got.Load() >= f.room {
				return false, nil
			}
			now = &listed{done: make(chan struct{})}
		}
	}
}

// ask lets the documents of some rows be asked for, once there is a slot.
func (f *fetching) ask(ctx context.Context, l *listed) {
	f.lists = append(f.lists, l)
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		l.err = context.Cause(ctx)
		close(l.done)
		return
	}
	f.all.Go(func() {
		defer close(l.done)
		defer func() { <-f.slots }()
		l.err = f.fetch(ctx, l.rows)
	})
}

// fetch asks for the documents of some rows, in halves when that is too much at a
// time, until the batch has its bytes: rows behind that are not asked.
func (f *fetching) fetch(ctx context.Context, rows []listedRow) error {
	if len(rows) == 0 || f.got.Load() >= f.room {
		return nil
	}
	var wanted []*changes.Change
	for i := range rows {
		// The first of several leaves is the winner for some servers, and not for others.
		if row := &rows[i]; !row.skip && row.change.Defect == "" && len(row.change.Leaves) == 1 {
			wanted = append(wanted, &row.change)
		}
	}
	err := f.s.bulk(ctx, wanted, f.most)
	if errors.Is(err, errTooMuch) && len(rows) > 1 {
		half := len(rows) / 2
		if err := f.fetch(ctx, rows[:half]); err != nil {
			return err
		}
		return f.fetch(ctx, rows[half:])
	}
	large := errors.Is(err, errTooMuch)
	if err != nil && !large {
		return err
	}
	for i := range rows {
		row := &rows[i]
		row.asked, row.large = true, large
		row.n += int64(len(row.change.Body))
		f.got.Add(row.n)
	}
	return nil
}

func (f *fetching) wait() { f.all.Wait() }

// gather takes what was asked for into b, in the feed's order, up to where b is full.
func (s *Source) gather(ctx context.Context, b *batch, f *fetching, r *rows, whole bool, failed error) (n int, err error) {
	safe, size := b.mark(), int64(0)
	for k, l := range f.lists {
		<-l.done
		have := 0
		if l.err == nil {
			have, l.err = s.lookUpRest(ctx, l.rows, b.limit.Bytes-b.Bytes)
		}
		if l.err != nil {
			b.cutTo(safe)
			return n, s.bulkFailed(l.err)
		}
		for i := range l.rows[:have] {
			row := &l.rows[i]
			n++
			size += row.n
			if !row.skip {
				b.add(row.change, row.n)
			}
			if row.change.Seq != "" {
				b.Last = changes.Position(row.change.Seq)
				safe = b.mark()
				safe.moved = true
			}
		}
		last := whole && k == len(f.lists)-1
		if have < len(l.rows) || !last && b.Bytes >= b.limit.Bytes {
			return s.stop(b, safe, max(size, f.got.Load()), max(n, 1))
		}
	}
	switch {
	case failed != nil:
		b.cutTo(safe)
		return n, failed
	case !whole:
		return s.stop(b, safe, size, n)
	}
	b.Last, b.Pending = changes.Position(r.last), r.pending
	s.learn(size, n)
	return n, nil
}

// bulkFailed lets a server without _bulk_get be asked once more, the other way.
func (s *Source) bulkFailed(err error) error {
	if !errors.Is(err, errNoBulk) {
		return err
	}
	s.opts.Events.warned("the server has no _bulk_get: documents are read with the feed")
	s.bulkless = true
	return errSmaller
}

// lookUpRest reads the rows of those documents anew that were not to be had by their
// revision, because they are large, have several leaves or are another one by now,
// until they have so many bytes, and says how many of the rows are complete. What was
// looked up may be newer than what was listed, and then its row still comes. It is not
// taken when it is older, as a copy of a shard that lags behind may have it.
func (s *Source) lookUpRest(ctx context.Context, rows []listedRow, room int64) (have int, err error) {
	var some []*listedRow
	flush := func() error {
		if len(some) == 0 {
			return nil
		}
		err := s.lookUpRows(ctx, some)
		for _, row := range some {
			row.n += int64(len(row.change.Body))
			room -= row.n
		}
		some = some[:0]
		return err
	}
	for i := range rows {
		row := &rows[i]
		if !row.asked || room <= 0 {
			break
		}
		have = i + 1
		if row.skip || row.change.Defect != "" || row.change.Body != nil {
			room -= row.n
			continue
		}
		if row.large {
			if err := flush(); err != nil {
				return 0, err
			}
		}
		if some = append(some, row); row.large || len(some) == lookUpRows {
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
	return have, flush()
}

// lookUpRows reads some rows anew.
func (s *Source) lookUpRows(ctx context.Context, rows []*listedRow) error {
	waiting := make(map[string]*changes.Change, len(rows))
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.change.ID
		waiting[row.change.ID] = &row.change
	}
	got, err := s.lookUp(ctx, ids)
	if err != nil {
		return err
	}
	for i := range got {
		if c := waiting[got[i].ID]; c != nil && generations(got[i].Leaves) >= generations(c.Leaves) {
			got[i].Seq = c.Seq
			*c = got[i]
		}
	}
	return nil
}

func generations(leaves []changes.Rev) (sum int64) {
	for _, leaf := range leaves {
		sum += leaf.Generation
	}
	return sum
}
