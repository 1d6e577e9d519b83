package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Pool follows many sources into one table. They take turns (Turns); what they read is
// gathered, and one commit takes the changes of all that had some, with the position
// of each. A crash leaves rows and positions as the last commit has them.
//
// Run and what it calls are of one goroutine, which alone touches the table; Turn is
// called by those of the turns, and never twice at a time for one source.
type Pool struct {
	p       *Ingest
	workers int
	hand    chan handed
	quiet   chan struct{}
	ended   chan struct{}
	// at is the commit whose checkpoint the pool began with, fresh says that the table
	// has no columns yet, followed that all sources were read to their ends once.
	at              hudi.Time
	fresh, followed bool
	// load is what is gathered for the next commit. waiting are the sources whose
	// positions it is to have, some of them from before.
	load    changes.Batch
	waiting map[string]*follower
	left    map[string]int64
	last    *follower
	due     *time.Timer

	mu      sync.Mutex // guards members; each is touched by its turn alone, or while that waits
	members map[string]*member
}

// member is one of the sources.
type member struct {
	follower
	// noted says that the position is in the checkpoint, or on its way there.
	noted bool
	// sweep says that rows of an earlier epoch are to be marked at the feed's end.
	sweep bool
}

// handed is what a turn gives to the table: changes, or something to do there.
type handed struct {
	batch changes.Batch
	of    *follower
	do    func(ctx context.Context) error
	done  chan error
}

// firstSample is how long a table without columns waits for documents at the least.
const firstSample = 30 * time.Second

// NewPool prepares a Pool: it rolls back what a dead writer left and reads the last
// checkpoint. The options are the table's and those of its commits; Source, Name and
// Since are of none of the sources. Workers is how many Turns are taken at a time: what
// they have read and the table has not is within the memory of a batch.
func NewPool(ctx context.Context, o Options, workers int) (*Pool, error) {
	in, err := begin(ctx, o, false)
	if err != nil {
		return nil, err
	}
	v, err := in.o.Table.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("view table: %w", err)
	}
	p := &Pool{p: in, workers: max(1, workers), hand: make(chan handed), quiet: make(chan struct{}, 1), ended: make(chan struct{}),
		waiting: map[string]*follower{}, left: map[string]int64{}, members: map[string]*member{}}
	if p.at, err = in.remember(ctx, v); err != nil {
		return nil, err
	}
	if _, err := v.Schema(ctx); errors.Is(err, table.ErrNoSchema) {
		p.fresh = true
	}
	for name, s := range in.checkpoint.Sources {
		f := follower{name: name, position: changes.Position(s.Position()), seq: s.Seq,
			identity: changes.Identity{Kind: s.Kind, Name: s.Name, Incarnation: s.Incarnation, PurgeSeq: s.PurgeSeq}}
		p.members[name] = &member{follower: f, noted: true, sweep: s.Sweep}
	}
	p.due = time.NewTimer(time.Hour)
	p.due.Stop()
	return p, nil
}

// Knows says whether the table has a position of the source.
func (p *Pool) Knows(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members[name] != nil
}

// Turn reads a source to its end. What it read is in the table by the next commit, and
// when the turn ends not yet. A source that the table does not know is read from since.
func (p *Pool) Turn(ctx context.Context, source changes.Source, since changes.Position) error {
	id, err := source.Identify(ctx)
	if err != nil {
		return fmt.Errorf("identify source: %w", err)
	}
	if err := p.p.orders(id); err != nil {
		return err
	}
	m := p.member(id, since)
	source = Of(source, m.name)
	if m.identity.Kind != id.Kind || other(m.identity.Incarnation, id.Incarnation) {
		if err := p.recreate(ctx, m, id, source); err != nil {
			return err
		}
	}
	m.identity.Kind, m.identity.Name, m.identity.Leaves = id.Kind, id.Name, id.Leaves
	m.identity.Incarnation = or(id.Incarnation, m.identity.Incarnation)
	if id.PurgeSeq != m.identity.PurgeSeq {
		if err := p.purge(ctx, m, source); err != nil {
			return err
		}
	}
	if err := p.read(ctx, m, source); err != nil {
		return fmt.Errorf("read %s %q: %w", id.Kind, id.Name, err)
	}
	if !m.sweep {
		return nil
	}
	return p.as(ctx, m, source, func(ctx context.Context) error {
		m.sweep = false
		return p.p.settle(ctx)
	})
}

func (p *Pool) member(id changes.Identity, since changes.Position) *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[id.Name]
	if m == nil {
		m = &member{follower: follower{name: id.Name, identity: id, position: since}}
		p.members[id.Name] = m
	}
	return m
}

// recreate begins a new epoch of a source that is another one than before.
func (p *Pool) recreate(ctx context.Context, m *member, id changes.Identity, source changes.Source) error {
	return p.as(ctx, m, source, func(context.Context) error {
		entry := p.p.checkpoint.Sources[m.name]
		entry.Kind, entry.Name = id.Kind, id.Name
		entry.Incarnation = or(entry.Incarnation, m.identity.Incarnation)
		p.p.identity = id
		m.sweep = true
		return p.p.recreated(entry, p.at)
	})
}

// purge looks at documents that were purged since.
func (p *Pool) purge(ctx context.Context, m *member, source changes.Source) error {
	purger, ok := source.(changes.Purger)
	if !ok {
		return nil
	}
	_, seq, err := purger.Purged(ctx, m.identity.PurgeSeq)
	if err != nil {
		return fmt.Errorf("read purges of %q: %w", m.name, err)
	}
	if seq == m.identity.PurgeSeq {
		return nil
	}
	return p.as(ctx, m, source, func(ctx context.Context) error {
		if err := p.p.purges(ctx); err != nil || !p.p.moved {
			return err
		}
		return p.p.applyStates(ctx, nil)
	})
}

// read hands what the source has to the table, part by part.
func (p *Pool) read(ctx context.Context, m *member, source changes.Source) error {
	for {
		rows, bytes := p.most()
		b, err := source.Next(ctx, m.position, changes.Limit{Rows: max(1, rows/p.workers), Bytes: max(1, bytes/int64(p.workers)), Wait: p.p.o.Interval})
		if err != nil {
			return err
		}
		if purger, ok := source.(changes.Purger); ok {
			if err := changes.Reread(ctx, purger.Read, &b, m.purged); err != nil {
				return err
			}
		}
		moved := len(b.Changes) > 0 || b.Last != m.position || !m.noted
		m.noted = true
		m.position, m.seq = b.Last, or(b.Seq, m.seq)
		if moved {
			of := m.follower
			if err := p.give(ctx, handed{batch: b, of: &of}); err != nil {
				return err
			}
		}
		if b.CaughtUp {
			return nil
		}
	}
}

// give hands something to Run, and waits for what is to be done.
func (p *Pool) give(ctx context.Context, h handed) error {
	select {
	case p.hand <- h:
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.do == nil {
		return nil
	}
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// as lets the table's half do something for one source alone, when all that was read
// is committed.
func (p *Pool) as(ctx context.Context, m *member, source changes.Source, do func(ctx context.Context) error) error {
	return p.give(ctx, handed{done: make(chan error, 1), do: func(ctx context.Context) error {
		if err := p.flush(ctx); err != nil {
			return err
		}
		p.p.o.Source, p.p.follower = source, m.follower
		err := do(ctx)
		m.follower, p.p.o.Source = p.p.follower, nil
		if p.waiting[m.name] != nil {
			of := m.follower
			p.waiting[m.name], p.last = &of, &of
		}
		return err
	}})
}

// Quiet tells the pool that nobody has or wants a turn.
func (p *Pool) Quiet() {
	select {
	case p.quiet <- struct{}{}:
	default:
	}
}

// End lets Run commit what is gathered and return. It is called once, when all turns
// have ended.
func (p *Pool) End() { close(p.ended) }

// most is how many rows and bytes a commit takes.
func (p *Pool) most() (rows int, bytes int64) {
	o := &p.p.o
	return p.p.budget.rows(o.MaxRows), p.p.budget.bytes(o.MaxBytes)
}

// Run commits what turns read until ctx is done, which is no error, or until End.
func (p *Pool) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.p.startServices()()
	defer p.due.Stop()
	for {
		if err := p.p.serve(ctx); err != nil {
			return stopped(ctx, err)
		}
		end, err := p.step(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		if end {
			return stopped(ctx, p.p.finishServices(ctx))
		}
	}
}

// step takes what comes next.
func (p *Pool) step(ctx context.Context) (end bool, err error) {
	select {
	case h := <-p.hand:
		if h.do == nil {
			return false, p.take(ctx, h)
		}
		h.done <- h.do(ctx) // an error ends the turn, and with it all
		return false, nil
	case <-p.due.C:
		return false, p.flush(ctx)
	case <-p.quiet:
		if p.followed && !p.fresh {
			return false, nil
		}
		p.followed = true
		return false, p.flush(ctx)
	case <-p.p.tick:
		return false, nil
	case <-p.ended:
		return true, p.flush(ctx)
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// take adds what a turn read to the load, which is committed when it is full or its
// time is over.
func (p *Pool) take(ctx context.Context, h handed) error {
	o := &p.p.o
	if len(p.load.Changes) == 0 && len(h.batch.Changes) > 0 || len(p.waiting) == 0 {
		wait := o.Interval
		if p.fresh {
			wait = max(wait, firstSample)
		}
		p.due.Reset(wait)
	}
	if n := len(h.batch.Changes); n > 0 && o.Events.Read != nil {
		o.Events.Read(Reading{Rows: int64(n), Bytes: h.batch.Bytes, Pending: h.batch.Pending})
	}
	p.waiting[h.of.name], p.last, p.left[h.of.name] = h.of, h.of, h.batch.Pending
	merge(&p.load, h.batch)
	rows, bytes := p.most()
	if p.fresh {
		rows = min(rows, o.Sample)
	}
	if len(p.load.Changes) < rows && p.load.Bytes < bytes {
		return nil
	}
	return p.commit(ctx, false) // more is likely to wait
}

// flush commits what is gathered.
func (p *Pool) flush(ctx context.Context) error { return p.commit(ctx, true) }

// commit commits what is gathered. Positions alone that are not worth a commit yet wait
// for the next one.
func (p *Pool) commit(ctx context.Context, caughtUp bool) error {
	if len(p.waiting) == 0 {
		return nil
	}
	began := p.p.o.Clock()
	g := gathered{batch: p.load, parts: maps.Clone(p.waiting), skipped: true}
	g.batch.Last, g.batch.Seq, g.batch.Pending, g.batch.CaughtUp = p.last.position, p.last.seq, 0, caughtUp
	for _, n := range p.left {
		g.batch.Pending += n
	}
	p.p.follower = *p.last
	p.load = changes.Batch{}
	if err := p.sample(g.batch); err != nil {
		return err
	}
	progress, err := p.p.apply(ctx, g)
	if err != nil {
		return err
	}
	p.due.Stop()
	if progress.Instant == "" {
		p.due.Reset(emptyCommitEvery)
		return nil
	}
	clear(p.waiting)
	p.fresh, p.at = false, progress.Instant
	progress.Took = p.p.o.Clock().Sub(began)
	progress.Pending, progress.CaughtUp = g.batch.Pending, g.batch.CaughtUp
	p.p.tell(progress)
	return nil
}

// sample makes the columns that a new table begins with from what is gathered.
func (p *Pool) sample(b changes.Batch) error {
	if !p.fresh {
		return nil
	}
	s, err := p.p.o.Normalizer.Survey()
	if err != nil {
		return fmt.Errorf("sample columns: %w", err)
	}
	if s.Add(b); s.Documents() == 0 {
		return nil
	}
	if p.p.sampled, err = s.Schema(); err != nil {
		return fmt.Errorf("sample columns: %w", err)
	}
	return nil
}
