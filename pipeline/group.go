package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/table"
)

// Routed is one of several tables that a source is followed into.
type Routed struct {
	// Name is the table's in errors and in the order of things; no two have one.
	Name string
	// Values are those of the field by which documents are routed here.
	Values []string
	// Options are as of a table alone. Those that say how the source is read are
	// taken from the GroupOptions instead.
	Options Options
}

// GroupOptions say how a source is followed into several tables.
type GroupOptions struct {
	// Feed says how the source is read and when a batch is closed: Source, Name,
	// Since, Once, Replay, Rewrite, AcceptRecreated, Interval, MaxRows, MaxBytes,
	// Sample, Clock and Events.Read. Memory is the budget of all tables' batches.
	Feed Options
	// Field is where in documents their type stands, like type or meta.kind.
	Field  string
	Tables []Routed
	Others Others
	// Workers is how many tables are written at a time; default 4.
	Workers int
	// Dropped is called after a batch with live documents that no table took.
	Dropped func(documents int64)
	// Aligned is called when a run does not simply go on: the tables stood at
	// different positions, or who gets what was changed.
	Aligned func(Alignment)
}

// Alignment says where the tables of a group begin.
type Alignment struct {
	// Behind is the table that was behind the others, where all begin; empty when
	// they begin where the source is first read.
	Behind string
	// Routes says that the routes are others than before: documents move.
	Routes bool
}

const defaultWorkers = 4

// Group follows one source into several tables: it is read once, and each
// batch of it becomes at most one commit of each table. Each table's commits have
// the position, and go their own way in a crash. It is not safe for concurrent use,
// and its owner holds the tables' leases.
type Group struct {
	o      GroupOptions
	tables []*Ingest
	routes *routes
	line   line
	feed   *feed
	budget *budget
	tick   <-chan time.Time
	purger *sharedPurger
	// cells bounds the bytes of cells of tables that are written at a time.
	cells *semaphore.Weighted
	// told is up to where the source was told that all tables have it.
	told changes.Position
}

// NewGroup prepares a Group: each table as New does, and then all of them to begin
// at one position. A table that is ahead of another one gets a commit that says so.
func NewGroup(ctx context.Context, o GroupOptions) (*Group, error) {
	o.Feed.Once = o.Feed.Once || o.Feed.Replay
	if len(o.Tables) == 0 {
		return nil, fmt.Errorf("%w: no tables", ErrRoutes)
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	o.Feed = o.Feed.withDefaults()
	r, err := o.routes()
	if err != nil {
		return nil, err
	}
	g := &Group{o: o, routes: r, budget: &budget{memory: o.Feed.Memory}, cells: semaphore.NewWeighted(o.Feed.Memory / cellShare)}
	var source changes.Source = sharedSource{o.Feed.Source}
	if p, ok := o.Feed.Source.(changes.Purger); ok {
		g.purger = &sharedPurger{Purger: p}
		source = g.purger
	}
	for i := range o.Tables {
		p, err := New(ctx, o.tableOptions(i, source))
		if err != nil {
			return nil, o.of(i, err)
		}
		own, err := o.routes() // it is asked by several goroutines
		if err != nil {
			return nil, err
		}
		own.first = false
		p.own = func(cs []changes.Change) ([]changes.Change, error) { return own.only(i, cs) }
		g.tables = append(g.tables, p)
	}
	return g, g.align(ctx)
}

func (o *GroupOptions) routes() (*routes, error) {
	return newRoutes(o.Field, o.Tables, o.Others, !o.Feed.Replay)
}

// tableOptions are those of one table.
func (o *GroupOptions) tableOptions(i int, source changes.Source) Options {
	t, f := o.Tables[i].Options, &o.Feed
	t.Source, t.Name, t.Since, t.Once, t.Replay, t.Rewrite = source, f.Name, f.Since, f.Once, f.Replay, f.Rewrite
	t.AcceptRecreated, t.Interval, t.MaxRows, t.MaxBytes, t.Clock = f.AcceptRecreated, f.Interval, f.MaxRows, f.MaxBytes, f.Clock
	return t
}

// of says which table an error is of.
func (o *GroupOptions) of(i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %q: %w", o.Tables[i].Name, err)
}

// align lets all tables begin where the one that is behind stands. What the others
// have of what comes then is not newer, and is dropped.
func (g *Group) align(ctx context.Context) error {
	all := make([]standing, len(g.tables))
	for i, p := range g.tables {
		var err error
		if all[i], err = p.standing(ctx); err != nil {
			return g.o.of(i, err)
		}
	}
	if g.o.Feed.Replay {
		g.alignReplay()
		return nil
	}
	at, first := start(g.routes.fingerprint(g.o.Tables), all, g.o.Feed.Since)
	g.line = at.line
	g.routes.first = !at.Whole
	g.tellAligned(all, at, first)
	// The one that stands there comes last: until then it says where that is.
	for i, p := range g.tables {
		if i == first {
			continue
		}
		if err := p.align(ctx, all[i], at); err != nil {
			return g.o.of(i, err)
		}
	}
	if first < 0 {
		return nil
	}
	return g.o.of(first, g.tables[first].align(ctx, all[first], at))
}

func (g *Group) tellAligned(all []standing, at standing, first int) {
	apart := slices.ContainsFunc(all, func(s standing) bool { return s.known && s.At != at.At })
	if !apart || g.o.Aligned == nil {
		return
	}
	a := Alignment{Routes: at.Step == 0 && at.Whole}
	if first >= 0 {
		a.Behind = g.o.Tables[first].Name
	}
	g.o.Aligned(a)
}

// alignReplay lets a backfill go on where it was stopped, if all tables stopped at
// the same place.
func (g *Group) alignReplay() {
	at := g.tables[0].position
	for _, p := range g.tables {
		if p.position != at {
			at = g.o.Feed.Since
		}
	}
	for _, p := range g.tables {
		p.position = at
	}
}

// Position is where the next batch begins.
func (g *Group) Position() changes.Position { return g.tables[0].position }

// Run steps as Ingest.Run does.
func (g *Group) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range g.tables {
		leased, done := p.o.Table.Leased(ctx)
		defer done()
		ctx = leased
	}
	defer g.startServices()()
	if err := g.serve(ctx); err != nil {
		return stopped(ctx, err)
	}
	if err := g.each(ctx, func(ctx context.Context, i int) error { return g.tables[i].purges(ctx) }); err != nil {
		return stopped(ctx, err)
	}
	if err := g.sample(ctx); err != nil {
		return stopped(ctx, err)
	}
	g.feed = startFeed(ctx, g.o.Feed, g.budget, g.Position())
	defer g.feed.stop()
	defer cancel()
	for {
		caughtUp, err := g.Step(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		if err := g.serve(ctx); err != nil {
			return stopped(ctx, err)
		}
		if g.o.Feed.Once && caughtUp {
			return stopped(ctx, g.each(ctx, func(ctx context.Context, i int) error { return g.tables[i].finishServices(ctx) }))
		}
	}
}

// Step waits for one batch and gives every table its part, which commits it. It
// says whether the source had nothing more.
func (g *Group) Step(ctx context.Context) (caughtUp bool, err error) {
	if g.feed == nil {
		if err := g.sample(ctx); err != nil {
			return false, err
		}
		g.feed = &feed{o: g.o.Feed, budget: g.budget, position: g.Position()}
	}
	all, err := g.wait(ctx)
	if err != nil {
		return false, fmt.Errorf("read %s %q: %w", g.tables[0].identity.Kind, g.tables[0].identity.Name, err)
	}
	p, err := g.routes.split(all.batch)
	if err != nil {
		return false, err
	}
	if p.dropped > 0 && g.o.Dropped != nil {
		g.o.Dropped(p.dropped)
	}
	if g.purger != nil {
		g.purger.forget()
	}
	g.line.Step++
	g.line.At = all.batch.Last
	err = g.each(ctx, func(ctx context.Context, i int) error {
		cells := g.cellBytes(i, len(p.tables[i].Changes))
		if err := g.cells.Acquire(ctx, cells); err != nil {
			return err
		}
		defer g.cells.Release(cells)
		l := g.line
		g.tables[i].line = &l
		part := gathered{batch: p.tables[i], forced: all.forced, skipped: all.skipped || len(all.batch.Changes) > 0}
		_, err := g.tables[i].take(ctx, part)
		return err
	})
	g.learn()
	if err == nil {
		err = g.acknowledge(ctx)
	}
	if all.batch.CaughtUp && err == nil {
		g.line.Whole, g.routes.first = false, !g.o.Feed.Replay
	}
	return all.batch.CaughtUp, err
}

// each does something for every table, some of them at a time, and waits.
func (g *Group) each(ctx context.Context, do func(ctx context.Context, i int) error) error {
	e, ctx := errgroup.WithContext(ctx)
	e.SetLimit(g.o.Workers)
	for i := range g.tables {
		e.Go(func() error { return g.o.of(i, do(ctx, i)) })
	}
	return e.Wait()
}

// learn tells the budget how wide rows are: those of the widest table, since tables
// whose cells do not fit beside each other are written one after the other.
func (g *Group) learn() {
	widest := int64(0)
	for _, p := range g.tables {
		widest = max(widest, p.budget.columns.Load())
	}
	g.budget.columns.Store(widest)
}

// cellBytes is about what a table's part of a batch takes as cells, at most what all
// may take at a time.
func (g *Group) cellBytes(table, rows int) int64 {
	columns := g.tables[table].budget.columns.Load()
	if columns == 0 {
		columns = likelyColumns
	}
	return min(int64(rows)*(rowBytes+cellBytes*columns), g.o.Feed.Memory/cellShare)
}

// sample looks at the first documents for the columns of those tables that have
// none, in one reading.
func (g *Group) sample(ctx context.Context) error {
	surveys := make([]*normalize.Survey, len(g.tables))
	left := 0
	for i, p := range g.tables {
		v, err := p.o.Table.Current(ctx)
		if err != nil {
			return g.o.of(i, fmt.Errorf("view table: %w", err))
		}
		if _, err := v.Schema(ctx); !errors.Is(err, table.ErrNoSchema) {
			continue
		}
		if surveys[i], err = p.o.Normalizer.Survey(); err != nil {
			return g.o.of(i, fmt.Errorf("sample columns: %w", err))
		}
		left++
	}
	if left == 0 {
		return nil
	}
	if err := g.survey(ctx, surveys, left); err != nil {
		return fmt.Errorf("read %s %q for its columns: %w", g.tables[0].identity.Kind, g.tables[0].identity.Name, err)
	}
	for i, s := range surveys {
		if s == nil || s.Documents() == 0 {
			continue
		}
		var err error
		if g.tables[i].sampled, err = s.Schema(); err != nil {
			return g.o.of(i, fmt.Errorf("sample columns: %w", err))
		}
	}
	return nil
}

// survey reads until each table has seen enough, or so many rows that those which
// have not are of rare documents.
func (g *Group) survey(ctx context.Context, surveys []*normalize.Survey, tables int) error {
	f := &g.o.Feed
	from, most := g.Position(), f.Sample*(tables+1)
	for rows := 0; rows < most; {
		limit := changes.Limit{Rows: min(g.budget.rows(f.MaxRows), most-rows), Bytes: g.budget.bytes(f.MaxBytes), Wait: f.Interval}
		b, err := f.Source.Next(ctx, from, limit)
		if err != nil {
			return err
		}
		p, err := g.routes.split(b)
		if err != nil {
			return err
		}
		enough := true
		for i, s := range surveys {
			if s == nil {
				continue
			}
			if s.Documents() < f.Sample {
				s.Add(p.tables[i])
			}
			enough = enough && s.Documents() >= f.Sample
		}
		rows += len(b.Changes)
		if from = b.Last; enough || b.CaughtUp {
			return nil
		}
	}
	return nil
}
