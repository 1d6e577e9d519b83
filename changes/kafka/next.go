package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/changes"
)

const (
	defaultRows  = 10_000
	defaultBytes = 64 << 20
	defaultHold  = 5 * time.Second
)

// reading is a consumption that goes on from where the last batch ended.
type reading struct {
	client *kgo.Client
	// at is behind the last message that was delivered, given the text of it.
	at    position
	given changes.Position
	// rest are messages fetched and not delivered.
	rest []*kgo.Record
	// ends are behind the last messages known to be decided.
	ends map[int32]int64
	// answers counts the brokers' answers to fetches, quiet those since there was
	// a message.
	answers *answers
	quiet   int64
	// spoilt says that an error was put off, for rows in hand: it shows again
	// when reading begins anew.
	spoilt bool
}

// answers counts fetches that were answered.
type answers struct{ n atomic.Int64 }

// OnBrokerRead implements kgo.HookBrokerRead.
func (a *answers) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	const fetch = 1
	if key == fetch && err == nil {
		a.n.Add(1)
	}
}

// batch is a changes.Batch in the making.
type batch struct {
	changes.Batch
	limit  changes.Limit
	opened time.Time // when its first change came
}

func (b *batch) full() bool {
	return len(b.Changes) >= b.limit.Rows || b.Bytes >= b.limit.Bytes
}

// Next implements changes.Source. The offsets in after are compared with what
// the topic holds: what is gone is an ErrPosition, unless Options.AcceptGap says
// to go on. Each batch ends with a look at the topic's id, and begins with one
// for new partitions.
func (s *Source) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return changes.Batch{}, err
	}
	defer leave()
	if limit.Rows <= 0 {
		limit.Rows = defaultRows
	}
	if limit.Bytes <= 0 {
		limit.Bytes = defaultBytes
	}
	if limit.Wait <= 0 {
		limit.Wait = defaultHold
	}
	b := &batch{limit: limit}
	if err := s.try(ctx, b, after); err != nil {
		s.hangUp()
		return changes.Batch{}, err
	}
	return b.Batch, nil
}

// try makes attempts until one gives a batch, fails for good, or the time to
// wait for one is over.
func (s *Source) try(ctx context.Context, b *batch, after changes.Position) error {
	whole := ctx
	if b.limit.Idle > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b.limit.Idle, errIdle)
		defer cancel()
	}
	began := time.Now()
	err := persist(ctx, s.opts, func() error {
		err := s.attempt(whole, ctx, b, after, began)
		if err != nil {
			s.hangUp()
		}
		return err
	})
	if errors.Is(err, errIdle) && whole.Err() == nil {
		b.Last = after // not caught up: nobody answered
		return nil
	}
	return err
}

// errIdle ends the waiting for a broker that does not answer.
var errIdle = errors.New("the brokers did not answer in time")

// attempt reads one batch. reach is the context for asking what there is: it may
// end before ctx.
func (s *Source) attempt(ctx, reach context.Context, b *batch, after changes.Position, began time.Time) error {
	l, err := s.topic.list(reach)
	if err != nil {
		return err
	}
	if err := s.same(l.id); err != nil {
		return err
	}
	if s.reading == nil || s.reading.given != after || s.reading.spoilt {
		err = s.seek(ctx, after, &l)
	} else {
		err = s.grow(&l)
	}
	if err != nil {
		return err
	}
	if err := s.fill(ctx, b, began); err != nil {
		return err
	}
	r := s.reading
	b.Last, b.Seq = r.at.text(), r.at.seq()
	r.given = b.Last
	for part, at := range r.at.Offsets {
		b.Pending += max(0, r.ends[part]-at.Next)
	}
	if s.usual = len(b.Changes); s.usual == 0 {
		b.Changes = nil
		return nil
	}
	id, _, err := s.topic.describe(ctx)
	if err == nil {
		err = s.same(id)
	}
	if err != nil {
		b.Batch = changes.Batch{}
	}
	return err
}

// seek begins to read at a position.
func (s *Source) seek(ctx context.Context, after changes.Position, l *listing) error {
	s.hangUp()
	p, err := parsePosition(after)
	if err != nil {
		return err
	}
	if err := s.compare(l, &p, len(p.Offsets) == 0); err != nil {
		return err
	}
	if err := s.topic.cut(ctx, &p); err != nil {
		if !s.opts.AcceptGap || !errors.Is(err, changes.ErrPosition) {
			return err
		}
		s.opts.Events.gap(err)
	}
	from := map[int32]kgo.Offset{}
	for part, at := range p.Offsets {
		from[part] = kgo.NewOffset().At(at.Next).WithEpoch(at.Epoch)
	}
	r := &reading{at: p, given: after, ends: l.stable, answers: &answers{}}
	packed := int32(min(max(leastFetch, s.opts.Memory/fetchShare), mostFetch))
	r.client, err = s.opts.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.opts.Topic: from}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(packed), kgo.FetchMaxPartitionBytes(packed), kgo.MaxConcurrentFetches(2), kgo.FetchMaxWait(s.opts.Wait),
		kgo.MaxDecompressBatchBytes(s.opts.MaxBatch), kgo.WithHooks(r.answers))
	if err != nil {
		return err
	}
	s.reading = r
	return nil
}

// compare holds a position against what the topic has. An end before the position
// is believed at the third look: a broker that takes over may be behind for a
// moment.
func (s *Source) compare(l *listing, p *position, fresh bool) error {
	const looks = 3
	if l.shorter(p) {
		if s.doubts++; s.doubts < looks {
			return fmt.Errorf("topic %q: %w", s.opts.Topic, errShorter)
		}
	}
	s.doubts = 0
	err := l.compare(s.opts.Topic, p, fresh)
	if err != nil && s.opts.AcceptGap {
		s.opts.Events.gap(err)
		return nil
	}
	return err
}

var errShorter = errors.New("a partition ends before the table's offset")

// grow takes the topic's new partitions, and where its messages end now.
func (s *Source) grow(l *listing) error {
	r := s.reading
	before := len(r.at.Offsets)
	for part := range l.start {
		if _, known := r.at.Offsets[part]; known {
			continue
		}
		if err := s.compare(l, &r.at, false); err != nil {
			return err
		}
		break
	}
	for _, part := range r.at.partitions() {
		if _, known := r.ends[part]; !known {
			r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.opts.Topic: {part: kgo.NewOffset().At(r.at.Offsets[part].Next)}})
		}
		r.ends[part] = l.stable[part]
	}
	if n := len(r.at.Offsets); n > before {
		s.opts.Events.partitions(n)
	}
	return nil
}

// fill takes messages until the batch is full, its time is over, or there are no
// more. A failure is an error only while the batch is empty: rows in hand are
// delivered first, and what is wrong shows again at the next call.
func (s *Source) fill(ctx context.Context, b *batch, began time.Time) error {
	r := s.reading
	r.quiet = r.answers.n.Load()
	for {
		if err := s.take(b); err != nil {
			return r.putOff(b, err)
		}
		wait, over := b.patience(began)
		if b.full() || over && len(r.rest) == 0 || r.caughtUp() && b.limit.Idle <= 0 {
			b.CaughtUp = r.caughtUp() || over && r.exhausted(len(r.at.Offsets))
			return nil
		}
		if b.limit.Idle <= 0 && r.exhausted(len(r.at.Offsets)) {
			b.CaughtUp = true // what the ends promised was compacted away
			return nil
		}
		if b.limit.Idle <= 0 {
			wait = min(wait, s.opts.Wait)
		}
		if err := s.poll(ctx, b, wait); err != nil {
			return r.putOff(b, err)
		}
	}
}

func (r *reading) putOff(b *batch, err error) error {
	if len(b.Changes) > 0 && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) {
		r.spoilt = true
		return nil
	}
	return err
}

// patience is how long to wait for more; over says that it is at its end.
func (b *batch) patience(began time.Time) (wait time.Duration, over bool) {
	wait = time.Hour
	switch {
	case len(b.Changes) > 0:
		wait = b.limit.Wait - time.Since(b.opened)
	case b.limit.Idle > 0:
		wait = b.limit.Idle - time.Since(began)
	}
	return wait, wait <= 0
}

// caughtUp says that all that is known to be decided was delivered.
func (r *reading) caughtUp() bool {
	if len(r.rest) > 0 {
		return false
	}
	for part, end := range r.ends {
		if r.at.Offsets[part].Next < end {
			return false
		}
	}
	return true
}

// exhausted says that the brokers have answered often enough, with nothing, for
// there to be nothing.
func (r *reading) exhausted(partitions int) bool {
	const rounds = 3
	return len(r.rest) == 0 && r.answers.n.Load()-r.quiet >= int64(rounds*partitions)
}

// poll waits for messages.
func (s *Source) poll(ctx context.Context, b *batch, wait time.Duration) error {
	r := s.reading
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	fetched := r.client.PollRecords(short, min(max(b.limit.Rows-len(b.Changes), 1), defaultRows))
	if ctx.Err() != nil {
		return gone(ctx)
	}
	// Messages first: those that came with an error are not fetched again.
	fetched.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 {
			r.rest = append(r.rest, p.Records...)
			r.quiet = r.answers.n.Load()
		}
		if p.LastStableOffset > r.ends[p.Partition] {
			r.ends[p.Partition] = p.LastStableOffset
		}
	})
	for _, e := range fetched.Errors() {
		if errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, context.Canceled) {
			continue
		}
		if err := s.failed(e.Partition, e.Err); err != nil {
			return err
		}
	}
	return nil
}

// failed says what the error of a partition means.
func (s *Source) failed(part int32, err error) error {
	var cut *kgo.ErrDataLoss
	if errors.As(err, &cut) {
		err = cutError(s.opts.Topic, part, cut.ConsumedTo, cut.ConsumedToEpoch, cut.ResetTo)
		if !s.opts.AcceptGap {
			return err
		}
		s.opts.Events.gap(err)
		r := s.reading
		at := r.at.Offsets[part]
		at.Next, at.Epoch = min(at.Next, cut.ResetTo), cut.ResetToEpoch
		r.at.Offsets[part] = at
		return nil
	}
	// Of an offset that is out of range the next listing tells which way.
	return fmt.Errorf("read partition %d of topic %q: %w", part, s.opts.Topic, err)
}

// take moves messages into the batch until it is full.
func (s *Source) take(b *batch) error {
	r := s.reading
	if b.Changes == nil && len(r.rest) > 0 { // as many as the last time, so that it need not grow
		b.Changes = make([]changes.Change, 0, min(b.limit.Rows, max(len(r.rest), s.usual)))
	}
	for i, m := range r.rest {
		if b.full() {
			r.rest = r.rest[i:]
			return nil
		}
		if err := s.deliver(b, m); err != nil {
			r.rest = r.rest[i:]
			return err
		}
		at := r.at.Offsets[m.Partition]
		at.Next, at.Epoch = m.Offset+1, m.LeaderEpoch
		r.at.Offsets[m.Partition] = at
	}
	r.rest = nil
	return nil
}

// deliver takes one message into the batch.
func (s *Source) deliver(b *batch, m *kgo.Record) error {
	r := s.reading
	if m.Attrs.IsControl() || m.Offset < r.at.Offsets[m.Partition].Next {
		return nil
	}
	k, err := kindOf(m)
	var c changes.Change
	switch {
	case err != nil:
		c = changes.Change{Place: changes.Place{In: m.Topic, Part: m.Partition, At: m.Offset}, Raw: m.Value, Defect: err.Error()}
	case k.ours && r.at.foreign(k.from):
		return s.otherDatabase(m, k.from)
	case k.ours && k.kind == typeMarker:
		var mark marker
		if err := json.Unmarshal(m.Value, &mark); err == nil && mark.N > 0 {
			r.at.pass(m.Partition, mark)
		}
		return nil
	default:
		c = s.decode.change(m, k)
	}
	if s.opts.Leaves && c.Defect == "" && len(c.Leaves) == 0 && (!c.Absent || !k.ours) {
		return fmt.Errorf("%w: message %s, of document %q, lists none, and the table orders by them; "+
			"a table with table.ordering: generation takes such messages, if it takes no others", changes.ErrLeaves, c.Place, clip(c.ID))
	}
	if len(b.Changes) == 0 {
		b.opened = time.Now()
	}
	b.Changes = append(b.Changes, c)
	b.Bytes += int64(max(1, len(m.Key)+len(m.Value)))
	return nil
}

// foreign says whether a message is of another database than those before; it
// notes the first.
func (p *position) foreign(from origin) bool {
	if p.Database == nil {
		p.Database = &from
	}
	return *p.Database != from
}

func (s *Source) otherDatabase(m *kgo.Record, from origin) error {
	was := s.reading.at.Database
	return fmt.Errorf("%w: message %d of partition %d of topic %q is of database %q, created at %q; those before were of %q, created at %q; "+
		"a topic holds one database: produce the new one into a topic of its own", changes.ErrRecreated,
		m.Offset, m.Partition, s.opts.Topic, from.Name, from.Incarnation, was.Name, was.Incarnation)
}
