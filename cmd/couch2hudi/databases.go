package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/pipeline"
)

// many follows many databases of a server, each into a table of its own, or all into
// one. They take turns: nothing is held open of a database that has nothing new.
type many struct {
	cfg    config.Config
	f      ingestFlags
	server server
	turns  *pipeline.Turns
	with   shared
	show   *progress
	log    *slog.Logger

	mu sync.Mutex // guards what follows
	// first are the databases that were there at the start; later ones are read from
	// their beginning whatever source.since says. missing are told of as such.
	first   map[string]bool
	missing map[string]bool
}

// server says which databases there are and which of them changed.
type server interface {
	Databases(ctx context.Context) ([]string, error)
	Updates(ctx context.Context, since string, wait time.Duration) (names []string, next string, err error)
	Close() error
}

const (
	// updatesWait is how long one request for updates waits for some.
	updatesWait = 30 * time.Second
	// updatesPause is how long to wait after one that failed.
	updatesPause = 5 * time.Second
)

// followMany runs until stopped, or with --once until every database had its turn.
func followMany(ctx context.Context, cfg config.Config, with shared, f ingestFlags, show *progress, log *slog.Logger) (err error) {
	m := &many{cfg: cfg, f: f, with: with, show: show, log: log, first: map[string]bool{}, missing: map[string]bool{}}
	if m.server, err = openServer(ctx, cfg, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.server.Close()) }()
	once := f.once || f.replay
	// Asked before the list is read, so that nothing falls in between.
	since, told := "now", false
	if !once {
		if _, since, err = m.server.Updates(ctx, since, time.Millisecond); err != nil {
			log.Warn("the server does not tell which databases change: every one is asked at each interval", keyReason, message(err), keyWait, time.Duration(cfg.Commit.Interval))
		}
		told = err == nil
	}
	names, err := m.names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		m.first[name] = true
	}
	log.Info("following databases", keyDatabases, len(names), keySource, cfg.Source.URL.String())
	if _, shared := cfg.Shared(); shared {
		return m.intoOne(ctx, names, since, told)
	}
	m.takeTurns(m.take, nil)
	return m.run(ctx, names, since, told)
}

// takeTurns prepares the turns, each of which is taken so.
func (m *many) takeTurns(take func(ctx context.Context, name string) error, idle func()) {
	m.turns = pipeline.NewTurns(pipeline.TurnsOptions{Take: take, Workers: m.cfg.Source.MaxConnections,
		Gap: time.Duration(m.cfg.Commit.Interval), Once: m.f.once || m.f.replay, Idle: idle})
}

// run lets the databases take turns until stopped, or until each had its own.
func (m *many) run(ctx context.Context, names []string, since string, told bool) error {
	m.turns.Want(names...)
	if m.f.once || m.f.replay {
		return m.turns.Run(ctx)
	}
	e, inner := errgroup.WithContext(ctx)
	e.Go(func() error { return m.turns.Run(inner) })
	e.Go(func() error {
		if told {
			return m.listen(inner, since)
		}
		return m.poll(inner)
	})
	return e.Wait()
}

// names are the databases to follow that are there, and those that are named.
func (m *many) names(ctx context.Context) ([]string, error) {
	named := m.cfg.Source.Named()
	if len(named) == len(m.cfg.Source.Databases) {
		return named, nil // a user who may not list databases can follow those
	}
	all, err := m.server.Databases(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the databases that source.databases means: %w", err)
	}
	all = slices.DeleteFunc(append(all, named...), func(name string) bool { return !m.cfg.Source.Wants(name) })
	slices.Sort(all)
	return slices.Compact(all), nil
}

// listen gives turns to those databases of which the server says that they changed.
// When it fails to, every one may have, and gets a turn at each interval.
func (m *many) listen(ctx context.Context, since string) error {
	for ctx.Err() == nil {
		changed, next, err := m.changed(ctx, since)
		if since = next; err == nil {
			m.turns.Want(changed...)
			continue
		}
		if ctx.Err() != nil {
			break
		}
		since = ""
		wait := max(updatesPause, time.Duration(m.cfg.Commit.Interval))
		m.log.Warn("the server does not tell which databases change, trying again", keyReason, message(err), keyWait, wait)
		if names, err := m.names(ctx); err == nil {
			m.turns.Want(names...)
		}
		pause(ctx, wait)
	}
	return nil //nolint:nilerr // being stopped is no error
}

// changed waits for databases to change, and says where to go on. Without a place to
// go on from all may have changed.
func (m *many) changed(ctx context.Context, since string) (names []string, next string, err error) {
	if since == "" {
		if _, next, err = m.server.Updates(ctx, "now", time.Millisecond); err == nil {
			names, err = m.names(ctx)
		}
		return names, next, err
	}
	names, next, err = m.server.Updates(ctx, since, updatesWait)
	return slices.DeleteFunc(names, func(name string) bool { return !m.cfg.Source.Wants(name) }), next, err
}

// poll gives every database a turn at each interval.
func (m *many) poll(ctx context.Context) error {
	for pause(ctx, time.Duration(m.cfg.Commit.Interval)) {
		names, err := m.names(ctx)
		switch {
		case err == nil:
			m.turns.Want(names...)
		case ctx.Err() == nil:
			return err
		}
	}
	return nil
}

// pause waits, and says whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// take leads one database's table to the database's end.
func (m *many) take(ctx context.Context, name string) error {
	one := m.cfg.Database(name)
	one.Memory = max(m.cfg.Memory/config.Size(m.cfg.Source.MaxConnections), leastShare)
	f := m.f
	f.once = true
	// A database that was created again is one that was deleted.
	f.acceptRecreated = f.acceptRecreated || one.Source.Deleted == config.GoneDelete && !f.replay
	log := m.log.With(keyDatabase, name)
	m.mu.Lock()
	if !m.first[name] {
		one.Source.Since = "0"
	}
	m.mu.Unlock()
	source, err := openSource(ctx, one, log, m.with.board)
	if err != nil {
		return inDatabase(name, err)
	}
	defer func() { _ = source.Close() }() // what was read is committed
	_, err = source.Identify(ctx)
	if errors.Is(err, changes.ErrNotFound) {
		return inDatabase(name, m.gone(ctx, one, f, name, log))
	}
	if err == nil {
		m.mu.Lock()
		delete(m.missing, name)
		m.mu.Unlock()
		err = followOne(ctx, one, m.with, f, source, m.show, log)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return inDatabase(name, err)
}

// inDatabase says which of many databases an error is of.
func inDatabase(name string, err error) error {
	if err == nil {
		return nil
	}
	return &databaseError{name, err}
}

type databaseError struct {
	name string
	err  error
}

func (e *databaseError) Error() string { return "database " + e.name + ": " + e.err.Error() }
func (e *databaseError) Unwrap() error { return e.err }

// gone does with the table of a database that is not there what the config says.
func (m *many) gone(ctx context.Context, one config.Config, f ingestFlags, name string, log *slog.Logger) error {
	m.mu.Lock()
	known := m.missing[name]
	m.missing[name] = true
	delete(m.first, name)
	m.mu.Unlock()
	there, err := tableThere(ctx, one.Table.Address())
	switch {
	case err != nil:
		return err
	case !there:
		if !known {
			log.Warn("there is no such database: it is followed when it is created")
		}
		return nil
	case one.Source.Deleted == config.GoneKeep:
		if !known {
			log.Warn("the database was deleted: its table stays as it is (source.deleted: keep)", keyTable, one.Table.URL)
		}
		return nil
	}
	if !known {
		log.Warn("the database was deleted: so are the rows of its table (source.deleted: delete)", keyTable, one.Table.URL)
	}
	f.acceptRecreated, f.replay, f.rewrite = true, false, false
	return followOne(ctx, one, m.with, f, absentDatabase(name), m.show, log)
}

// absentDatabase is a database without documents in the place of one that was
// deleted: a new epoch, in which there is none of what the table has.
type absentDatabase string

// incarnationGone is the incarnation of what is not there.
const incarnationGone = "deleted"

// Identify implements changes.Source.
func (d absentDatabase) Identify(context.Context) (changes.Identity, error) {
	return changes.Identity{Kind: config.KindCouchDB, Name: string(d), Incarnation: incarnationGone, Leaves: true}, nil
}

// Next implements changes.Source.
func (d absentDatabase) Next(_ context.Context, after changes.Position, _ changes.Limit) (changes.Batch, error) {
	return changes.Batch{Last: after, CaughtUp: true}, nil
}

// Now implements changes.Source.
func (d absentDatabase) Now(context.Context) (changes.Position, error) { return "", nil }

// Close implements changes.Source.
func (d absentDatabase) Close() error { return nil }
