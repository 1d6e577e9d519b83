// Package pipeline runs the straight line from a source to a table: it is the
// one room with both halves in it. A Step takes one batch of changes and makes
// one commit of it, rows and position together.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// Options says how a source is followed into a table. The zero value of every
// field is its default, but Source, Table and Normalizer are needed.
type Options struct {
	Source     changes.Source
	Table      *table.Table
	Normalizer *normalize.Normalizer
	// Index answers where keys live; default: a global bloom index.
	Index index.Index
	// Scope is where keys are looked for; default: in the whole table.
	Scope index.Scope
	// Stay leaves a row in its partition when its document moves to another.
	Stay bool
	// Name is the source's name in the checkpoint; default: its identity's.
	Name string
	// Since is where to begin when the table has no checkpoint; the zero
	// position is the beginning.
	Since changes.Position
	// Once stops Run when the source has nothing more.
	Once bool
	// Replay reads from Since to the end although the table has a checkpoint;
	// rows that are not newer are dropped. The follower's position stays as it
	// is, the backfill has one of its own. Once is implied.
	Replay bool
	// Rest says that a Replay is that of one of the table's sources, and that others
	// are to follow.
	Rest bool
	// Rewrite writes rows again although the table holds the same version.
	Rewrite bool
	// AcceptRecreated begins a new epoch when the database is another one than
	// the checkpoint's.
	AcceptRecreated bool
	// MaxShare is the share of the last 1,000 rows of which more may not be broken;
	// default 0.1, and 1 is no limit.
	MaxShare float64
	// Repairs is for Repair alone: whatever source the table is fed from, its
	// checkpoint and last_seq stay.
	Repairs bool
	// Interval closes a batch this long after its first row; default 60 s.
	Interval time.Duration
	// MaxRows and MaxBytes close a batch; defaults 100,000 and 128 MiB.
	MaxRows  int
	MaxBytes int64
	// Memory is the budget, in bytes, that bounds batches further: by the bytes
	// of their documents and by the number of their cells. Default 256 MiB.
	Memory int64
	// Ordering is the table's ordering rule; default "leaf-sum".
	Ordering string
	// Layout is what the table pins, as written into each commit.
	Layout Layout
	// Sample is how many documents are looked at before the first commit, for the
	// table's first columns; default 10,000. They are read again afterwards.
	Sample int
	// BareFolders, PlainFolders are how partition folders are named; the table
	// must name them so too.
	BareFolders, PlainFolders bool
	// CDC is what change files the table keeps, Changelog whether its files tell what
	// was done to each row. The table must pin the same.
	CDC       hudi.CDCMode
	Changelog bool
	// Writer is how files are cut.
	Writer writer.Options
	// Services look after the table between two commits and beside them; nil for
	// none. Run stops them.
	Services *compaction.Services
	// Clock is the wall clock; default time.Now.
	Clock func() time.Time
	// Events tells an observer what happens; nil functions are not called.
	Events Events
}

// Events is how the pipeline reports: it neither logs nor counts by itself.
type Events struct {
	// Committed is called after each commit.
	Committed func(Progress)
	// Read is called when a part of a batch has arrived.
	Read func(Reading)
	// Refiltered is called at the start when rows of the table came through another
	// filter than that of the run, which is the note's: a replay from the beginning
	// would apply it to all.
	Refiltered func(FilterNote)
}

// Reading says how far a batch is that is still open.
type Reading struct {
	Rows    int64
	Bytes   int64
	Pending int64
}

// Progress is what one Step did.
type Progress struct {
	// Instant is the commit's, empty when there was nothing to commit.
	Instant hudi.Time
	// LastSeq is the position that the commit holds.
	LastSeq string
	Stats   commitmeta.Stats
	// Files and Bytes are what the commit wrote.
	Files int
	Bytes int64
	// Pending is the source's estimate of rows still to come.
	Pending int64
	// CaughtUp says that the source had nothing more.
	CaughtUp bool
	// Sources is how many sources' changes or positions are in the commit.
	Sources int
	// Took is how long placing and writing took, without waiting for rows.
	Took time.Duration
}

const (
	defaultInterval = time.Minute
	defaultMaxRows  = 100_000
	defaultMaxShare = 0.1
	defaultMaxBytes = 128 << 20
	defaultSample   = 10_000
	// emptyCommitEvery bounds how often a checkpoint moves without rows.
	emptyCommitEvery = time.Minute
	// OrderingLeafSum orders by the sum of all leaves' generations.
	OrderingLeafSum = normalize.LeafSum
	// OrderingGeneration orders by the generation of the winning revision: for
	// tables of sources that list no leaf revisions. It never turns into the other.
	OrderingGeneration = normalize.Generation
)

func (o Options) withDefaults() Options {
	o.Once = o.Once || o.Replay
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.MaxShare <= 0 {
		o.MaxShare = defaultMaxShare
	}
	if o.MaxRows <= 0 {
		o.MaxRows = defaultMaxRows
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Sample <= 0 {
		o.Sample = defaultSample
	}
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	if o.Ordering == "" {
		o.Ordering = OrderingLeafSum
	}
	if o.Index == nil {
		const parts = 8
		o.Index = index.NewBloom(index.BloomOptions{CacheBytes: o.Memory / parts, Memory: o.Memory / parts})
	}
	if o.Writer.Memory <= 0 {
		o.Writer.Memory = o.Memory / writerShare
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o
}

// pins are those of the options that a table holds on to.
func (o *Options) pins() Pins {
	return Pins{Layout: o.Layout, Ordering: o.Ordering, BareFolders: o.BareFolders, PlainFolders: o.PlainFolders, CDC: o.CDC, Changelog: o.Changelog}
}

// Ingest follows one source into one table. It holds no progress of its own:
// the last completed commit is the only memory. It is not safe for concurrent
// use, and its owner holds the table's lease.
type Ingest struct {
	o Options
	follower
	// checkpoint is the one of the last commit, other sources' entries included.
	checkpoint commitmeta.Checkpoint
	filter     FilterNote
	// broken counts rejects among the last rows. dry says that nothing is written.
	broken     share
	dry        bool
	feed       *feed
	budget     *budget
	tick       <-chan time.Time // when the services are due on a quiet table
	lastCommit time.Time
	// uncommitted counts rows read since the last commit.
	uncommitted commitmeta.Stats
	// sampled is what a table begins with that has no schema yet.
	sampled *hudi.Schema
	// last is, with Options.Repairs, the source that the last commit's last_seq is of.
	last string
	// masked says that the table notes masks.
	masked bool
	// line is where the table stands among those of its group, nil without one; own
	// makes of changes that did not come with a batch what they are to the table.
	line *line
	// stood is where the last commit says that it stands.
	stood line
	own   func([]changes.Change) ([]changes.Change, error)
}

// New prepares an Ingest: it rolls back what a dead writer left, finds the
// last checkpoint and holds it against the source's identity.
func New(ctx context.Context, o Options) (*Ingest, error) { return open(ctx, o, false) }

// open is New; with dry it writes nothing.
func open(ctx context.Context, o Options, dry bool) (*Ingest, error) {
	p, err := begin(ctx, o, dry)
	if err != nil {
		return nil, err
	}
	o = p.o
	id, err := o.Source.Identify(ctx)
	if err != nil {
		return nil, fmt.Errorf("identify source: %w", err)
	}
	p.identity = id
	p.name = o.Name
	if p.name == "" {
		p.name = id.Name
	}
	if err := p.orders(id); err != nil {
		return nil, err
	}
	v, err := o.Table.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("view table: %w", err)
	}
	if err := p.restore(ctx, v); err != nil {
		return nil, err
	}
	return p, p.acknowledge(ctx)
}

// begin is an Ingest that knows of no source yet.
func begin(ctx context.Context, o Options, dry bool) (*Ingest, error) {
	o = o.withDefaults()
	p := &Ingest{o: o, lastCommit: o.Clock(), budget: &budget{memory: o.Memory}, dry: dry}
	if !dry {
		if _, err := o.Table.Recover(ctx); err != nil {
			return nil, fmt.Errorf("recover table: %w", err)
		}
	}
	return p, nil
}

// orders says whether the table can order by what a source tells.
func (p *Ingest) orders(id changes.Identity) error {
	if p.o.Ordering == OrderingLeafSum && !id.Leaves {
		return fmt.Errorf("%w: the table orders by the sum of leaf revisions, which this %s source does not list; "+
			"table.ordering: generation is for a table of such sources alone", ErrPinned, id.Kind)
	}
	return nil
}

// Position is where the next batch begins.
func (p *Ingest) Position() changes.Position { return p.position }

// Run steps until ctx is done, or until the source has nothing more when Once
// is set. Being stopped is no error: the open batch is abandoned.
func (p *Ingest) Run(ctx context.Context) error {
	ctx, cancel := p.o.Table.Leased(ctx)
	defer cancel()
	defer p.startServices()()
	if err := p.serve(ctx); err != nil {
		return stopped(ctx, err)
	}
	if err := p.purges(ctx); err != nil {
		return stopped(ctx, err)
	}
	if err := p.sample(ctx); err != nil {
		return stopped(ctx, err)
	}
	p.feed = startFeed(ctx, p.o, p.budget, p.position)
	defer p.feed.stop()
	defer cancel()
	for {
		progress, err := p.Step(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		if err := p.serve(ctx); err != nil {
			return stopped(ctx, err)
		}
		if p.o.Once && progress.CaughtUp {
			return stopped(ctx, p.finishServices(ctx))
		}
	}
}

// stopped says that being stopped is no error: the open batch is abandoned and
// the last commit stands. To lose the table's lease is one.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, table.ErrLost) {
		return cause
	}
	return nil
}

// Step waits for one batch and commits it. A batch without anything to write
// moves the checkpoint at most once a minute.
func (p *Ingest) Step(ctx context.Context) (Progress, error) {
	if p.feed == nil {
		if err := p.sample(ctx); err != nil {
			return Progress{}, err
		}
		p.feed = &feed{o: p.o, budget: p.budget, position: p.position}
	}
	g, err := p.wait(ctx)
	if err != nil {
		return Progress{}, fmt.Errorf("read %s %q: %w", p.identity.Kind, p.identity.Name, err)
	}
	return p.take(ctx, g)
}

// take makes a commit of a batch, and what is due behind it.
func (p *Ingest) take(ctx context.Context, g gathered) (Progress, error) {
	began := p.o.Clock()
	if err := p.reread(ctx, &g.batch); err != nil {
		return Progress{}, err
	}
	progress, err := p.apply(ctx, g)
	if err != nil {
		return Progress{}, err
	}
	progress.Took = p.o.Clock().Sub(began)
	progress.Pending, progress.CaughtUp = g.batch.Pending, g.batch.CaughtUp
	p.tell(progress)
	if err := p.purges(ctx); err != nil {
		return Progress{}, err
	}
	if g.batch.CaughtUp {
		return progress, p.settle(ctx)
	}
	return progress, nil
}

// settle does what can only be done when the source had nothing more: mark
// what a recreated database does not have, and commit what the checkpoint has
// to say beside the position.
func (p *Ingest) settle(ctx context.Context) error {
	for p.checkpoint.Sources[p.name].Sweep && !p.o.Replay {
		if err := p.sweep(ctx); err != nil {
			return err
		}
	}
	if !p.moved {
		return nil
	}
	return p.applyStates(ctx, nil)
}

func (p *Ingest) tell(progress Progress) {
	if progress.Instant != "" && p.o.Events.Committed != nil {
		p.o.Events.Committed(progress)
	}
}

// apply turns one gathered batch into a commit. It begins with what the last
// commit left; when others have written since, it begins again with what is there.
func (p *Ingest) apply(ctx context.Context, g gathered) (Progress, error) {
	const attempts = 8 // a background compaction comes between now and then, too
	uncommitted, broken := p.uncommitted, p.broken
	view := p.o.Table.Current
	for attempt := 1; ; attempt++ {
		v, err := view(ctx)
		if err != nil {
			return Progress{}, fmt.Errorf("view table: %w", err)
		}
		progress, err := p.applyTo(ctx, v, g)
		if !errors.Is(err, table.ErrStale) || attempt == attempts {
			return progress, err
		}
		view, p.uncommitted, p.broken = p.o.Table.View, uncommitted, broken
	}
}

// applyTo turns a batch into a commit on a view.
func (p *Ingest) applyTo(ctx context.Context, v *table.View, g gathered) (Progress, error) {
	schema, err := v.Schema(ctx)
	if errors.Is(err, table.ErrNoSchema) {
		schema, err = p.sampled, nil
	}
	if err != nil {
		return Progress{}, fmt.Errorf("read schema: %w", err)
	}
	shaped, err := p.o.Normalizer.Normalize(g.batch, schema)
	if err != nil {
		return Progress{}, fmt.Errorf("normalize: %w", err)
	}
	p.budget.columns.Store(int64(shaped.Schema.Len()))
	if g.retry == nil {
		if err := p.broken.tooMany(shaped.Stats.Rows, shaped.Rejects, p.o.MaxShare); err != nil {
			return Progress{}, err
		}
	}
	placed, err := index.Tag(ctx, p.o.Index, v, shaped.Schema, shaped.Records, index.TagOptions{
		Epoch: p.epoch(), Epochs: p.epochs(), Rewrite: p.o.Rewrite, Scope: p.o.Scope, Stay: p.o.Stay,
		OwnEra: g.retry != nil && !g.retry.asked})
	if err != nil {
		return Progress{}, fmt.Errorf("find keys: %w", err)
	}
	if g.retry != nil {
		g.forced = g.retry.judged(&shaped, &placed)
		if g.retry.dry {
			return Progress{}, nil
		}
		shaped.Rejects, p.uncommitted.Retried = nil, g.retry.count()
	}
	p.count(shaped, placed)
	if !p.due(g, len(placed.Records)+len(shaped.Rejects)) {
		p.position, p.seq = g.batch.Last, or(g.batch.Seq, p.seq)
		return Progress{LastSeq: p.lastSeq(g.batch)}, nil
	}
	return p.commit(ctx, v, g, shaped, placed)
}

// due says whether a batch is worth a commit of its own.
func (p *Ingest) due(g gathered, writes int) bool {
	if writes > 0 || g.forced || (p.o.Replay && g.batch.CaughtUp) {
		return true
	}
	moved := p.uncommitted.Rows > 0 || g.skipped
	if !moved || p.stands(g) {
		return false
	}
	return (p.o.Once && g.batch.CaughtUp) || p.o.Clock().Sub(p.lastCommit) >= emptyCommitEvery
}

func (p *Ingest) commit(ctx context.Context, v *table.View, g gathered, shaped normalize.Result, placed index.Tagged) (Progress, error) {
	x, err := p.o.Table.BeginAt(ctx, v)
	if err != nil {
		return Progress{}, fmt.Errorf("begin commit: %w", err)
	}
	progress, err := p.fill(ctx, x, g, shaped, placed)
	if err != nil {
		// The caller's ctx may be the reason; cleaning up must still work.
		if abort := x.Abort(context.WithoutCancel(ctx)); abort != nil {
			err = errors.Join(err, fmt.Errorf("abandon commit %s: %w", x.Instant(), abort))
		}
		return Progress{}, err
	}
	if err := p.acknowledge(ctx); err != nil {
		return Progress{}, err
	}
	if k, ok := p.o.Index.(keeper); ok {
		if err := k.Committed(ctx, x.Instant(), placed.Records); err != nil {
			return Progress{}, fmt.Errorf("keep the keys of commit %s: %w", x.Instant(), err)
		}
	}
	return progress, nil
}

// acknowledge tells the source what is in a completed commit.
func (p *Ingest) acknowledge(ctx context.Context) error {
	a, ok := p.o.Source.(changes.Acknowledged)
	at := p.committed()
	if !ok || p.o.Replay || at == "" {
		return nil
	}
	if err := a.Committed(ctx, at); err != nil {
		return fmt.Errorf("tell %s %q what is committed: %w", p.identity.Kind, p.identity.Name, err)
	}
	return nil
}

// keeper is an index that wants to be told what went where: it need not read
// that from the table then.
type keeper interface {
	Committed(ctx context.Context, instant hudi.Time, placed []hudi.Located) error
}

// fill writes the files of an open commit and completes it.
func (p *Ingest) fill(ctx context.Context, x *table.Txn, g gathered, shaped normalize.Result, placed index.Tagged) (Progress, error) {
	if len(shaped.Rejects) > 0 {
		data, err := p.quarantine(shaped.Rejects)
		if err != nil {
			return Progress{}, err
		}
		if err := x.PutAside(ctx, quarantineName(x.Instant()), data); err != nil {
			return Progress{}, fmt.Errorf("write quarantine: %w", err)
		}
	}
	if g.retry != nil {
		if err := g.retry.note(ctx, x); err != nil {
			return Progress{}, err
		}
	}
	o := p.o.Writer
	o.Backlog = !g.batch.CaughtUp
	stats, err := writer.Write(ctx, x, shaped.Schema, placed.Records, o)
	if err != nil {
		return Progress{}, fmt.Errorf("write files of %s: %w", x.Instant(), err)
	}
	next, err := p.next(g)
	if err != nil {
		return Progress{}, err
	}
	body := p.body(next, shaped.Schema, stats)
	if err := p.noteFilter(body.Extra, g); err != nil {
		return Progress{}, err
	}
	if p.o.Replay {
		next = p.checkpoint
		if err := p.replayBody(&body, g); err != nil {
			return Progress{}, err
		}
	}
	if err := x.Commit(ctx, body); err != nil {
		return Progress{}, fmt.Errorf("complete commit %s: %w", x.Instant(), err)
	}
	progress := Progress{Instant: x.Instant(), LastSeq: p.lastSeq(g.batch), Stats: p.uncommitted, Files: len(stats), Sources: max(1, len(g.parts))}
	for i := range stats {
		progress.Bytes += stats[i].Bytes
	}
	p.checkpoint, p.position, p.seq = next, g.batch.Last, or(g.batch.Seq, p.seq)
	if p.line != nil {
		p.stood = *p.line
		p.stood.At = p.committed()
	}
	p.uncommitted, p.lastCommit, p.moved = commitmeta.Stats{}, p.o.Clock(), false
	return progress, nil
}

// lastSeq is the database's sequence after a batch.
func (p *Ingest) lastSeq(b changes.Batch) string {
	if p.identity.Kind == commitmeta.KindCouchDB {
		return string(b.Last)
	}
	return or(b.Seq, p.seq)
}

// body is what the completed instant says.
func (p *Ingest) body(next commitmeta.Checkpoint, schema *hudi.Schema, stats []commitmeta.WriteStat) commitmeta.Body {
	b := commitmeta.Body{Stats: map[string][]commitmeta.WriteStat{}, Operation: "UPSERT", Extra: map[string]string{
		commitmeta.ExtraSchema:     schema.Avro(),
		commitmeta.ExtraLastSeq:    next.Sources[p.name].Seq,
		commitmeta.ExtraCheckpoint: next.Encode(),
		commitmeta.ExtraOrdering:   p.o.Ordering,
		commitmeta.ExtraLayout:     p.o.Layout.encode(),
		commitmeta.ExtraStats:      p.uncommitted.Encode(),
	}}
	p.noteMasks(b.Extra)
	p.noteSource(b.Extra)
	if p.o.Repairs {
		b.Extra[commitmeta.ExtraLastSeq] = p.seq
	}
	if p.line != nil {
		at, l := next.Sources[p.name], *p.line
		l.At = changes.Position(at.Position())
		b.Extra[commitmeta.ExtraLine] = l.encode()
	}
	for _, s := range stats {
		b.Stats[s.Partition] = append(b.Stats[s.Partition], s)
	}
	return b
}

func (p *Ingest) count(shaped normalize.Result, placed index.Tagged) {
	s := &p.uncommitted
	s.Rows += int64(shaped.Stats.Rows)
	s.Collapsed += int64(shaped.Stats.Collapsed)
	s.Rescued += int64(shaped.Stats.Rescued)
	s.Unplaced += int64(shaped.Stats.DefaultPartition)
	s.Quarantined += int64(len(shaped.Rejects))
	s.Replayed += placed.Replayed
	s.Elsewhere += placed.Elsewhere
	s.Left += placed.Left
	s.Moved += placed.Moved
	s.Collapsed += placed.Collapsed
	s.Inserts += placed.Inserts
	s.Upserts += placed.Updates
	s.Deletes += placed.Deletes
}
