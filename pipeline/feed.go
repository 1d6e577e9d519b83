package pipeline

import (
	"context"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

// gathered is one batch for one commit. skipped says that the position moved
// without rows (the source left them out).
type gathered struct {
	batch   changes.Batch
	skipped bool
	// forced asks for a commit although there may be nothing to write.
	forced bool
	// retry is set of quarantined changes.
	retry *retry
	// parts are, by their names, the sources whose changes are in the batch, as they
	// stand after it; none for a batch of the one source.
	parts map[string]*follower
}

// feed gathers what a source gives into batches for commits. When started it
// reads one batch ahead, so that reading and writing overlap; memory is
// bounded by two batches.
type feed struct {
	o        Options
	budget   *budget
	position changes.Position
	followed bool // the source had nothing more once
	ahead    chan ahead
	done     chan struct{}
}

type ahead struct {
	gathered
	err error
}

// startFeed begins to read ahead; stop must be called after ctx was cancelled.
func startFeed(ctx context.Context, o Options, b *budget, position changes.Position) *feed {
	f := &feed{o: o, budget: b, position: position, ahead: make(chan ahead), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for {
			g, err := f.gather(ctx)
			select {
			case f.ahead <- ahead{g, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || (o.Once && g.batch.CaughtUp) {
				return
			}
		}
	}()
	return f
}

// stop waits for the reading goroutine, whose context must be done or whose
// source must be at its end.
func (f *feed) stop() {
	if f.done != nil {
		<-f.done
	}
}

// next is the next batch; false when tick came first, which may be nil.
func (f *feed) next(ctx context.Context, tick <-chan time.Time) (gathered, bool, error) {
	if f.ahead == nil {
		g, err := f.gather(ctx)
		return g, true, err
	}
	select {
	case a := <-f.ahead:
		return a.gathered, true, a.err
	case <-tick:
		return gathered{}, false, nil
	case <-ctx.Done():
		return gathered{}, false, ctx.Err()
	}
}

// gather reads until the batch is full, its time is over, or the source has
// nothing more the first time (or every time, with Once).
func (f *feed) gather(ctx context.Context) (gathered, error) {
	g := gathered{batch: changes.Batch{Last: f.position}}
	var deadline time.Time
	for {
		limit := f.limit(&g.batch, deadline)
		b, err := f.o.Source.Next(ctx, f.position, limit)
		if err != nil {
			return gathered{}, err
		}
		if len(b.Changes) > 0 && deadline.IsZero() {
			deadline = f.o.Clock().Add(f.o.Interval)
		}
		g.skipped = g.skipped || (len(b.Changes) == 0 && b.Last != f.position)
		f.position = b.Last
		merge(&g.batch, b)
		if f.o.Events.Read != nil && len(b.Changes) > 0 {
			f.o.Events.Read(Reading{Rows: int64(len(b.Changes)), Bytes: b.Bytes, Pending: b.Pending})
		}
		if f.full(&g.batch, deadline) {
			return g, nil
		}
		if b.CaughtUp && (f.o.Once || !f.followed || len(g.batch.Changes) == 0) {
			f.followed = true
			return g, nil
		}
	}
}

func (f *feed) limit(b *changes.Batch, deadline time.Time) changes.Limit {
	l := changes.Limit{Rows: max(1, f.budget.rows(f.o.MaxRows)-len(b.Changes)),
		Bytes: max(1, f.budget.bytes(f.o.MaxBytes)-b.Bytes), Wait: f.o.Interval}
	if !deadline.IsZero() {
		l.Wait = max(deadline.Sub(f.o.Clock()), time.Millisecond)
	}
	if !f.o.Once && f.followed {
		l.Idle = l.Wait
	}
	return l
}

func (f *feed) full(b *changes.Batch, deadline time.Time) bool {
	if len(b.Changes) >= f.budget.rows(f.o.MaxRows) || b.Bytes >= f.budget.bytes(f.o.MaxBytes) {
		return true
	}
	return !deadline.IsZero() && !f.o.Clock().Before(deadline)
}

// merge appends a batch to the one being gathered.
func merge(into *changes.Batch, b changes.Batch) {
	if into.Changes == nil {
		into.Changes = b.Changes
	} else {
		into.Changes = append(into.Changes, b.Changes...)
	}
	into.Last, into.Pending, into.CaughtUp = b.Last, b.Pending, b.CaughtUp
	into.Bytes += b.Bytes
	if b.Seq != "" {
		into.Seq = b.Seq
	}
}
