package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
)

// intoOne follows the databases into one table: what they have in their turns is
// gathered, and a commit takes the changes of all of them.
func (m *many) intoOne(ctx context.Context, names []string, since string, told bool) (err error) {
	cfg := m.cfg
	if cfg.Table.Name, err = sharedName(cfg); err != nil {
		return err
	}
	m.cfg.Table.Name = cfg.Table.Name
	if m.f.replay {
		return m.replayIntoOne(ctx, names)
	}
	cfg.Source.Since = "0" // it is asked for in the turns
	f := m.f
	f.acceptRecreated = f.acceptRecreated || cfg.Source.Deleted == config.GoneDelete
	o, release, err := prepare(ctx, cfg, m.with, f, absentDatabase(cfg.Table.Name), m.show, m.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	pool, err := pipeline.NewPool(ctx, o, cfg.Source.MaxConnections)
	if err != nil {
		return err
	}
	m.takeTurns(func(ctx context.Context, name string) error { return m.turn(ctx, pool, name, f) }, pool.Quiet)
	e, inner := errgroup.WithContext(ctx)
	e.Go(func() error { return pool.Run(inner) })
	e.Go(func() error {
		defer pool.End()
		return m.run(inner, names, since, told)
	})
	return e.Wait()
}

// sharedName is the name of the table of many databases.
func sharedName(cfg config.Config) (string, error) {
	if cfg.Table.Name != "" {
		return cfg.Table.Name, nil
	}
	u, err := config.ParseTableURL(cfg.Table.URL)
	if err != nil {
		return "", err
	}
	name := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, path.Base(u.Location()))
	return name, nil
}

// turn lets the pool read what one database has.
func (m *many) turn(ctx context.Context, pool *pipeline.Pool, name string, f ingestFlags) error {
	one := m.cfg.Database(name)
	log := m.log.With(keyDatabase, name)
	source, err := openDriver(ctx, one, log, m.with.board)
	if err != nil {
		return inDatabase(name, err)
	}
	defer func() { _ = source.Close() }()
	since, err := m.since(ctx, pool, source, name)
	if err == nil {
		err = pool.Turn(ctx, source, since)
	}
	switch {
	case err == nil:
		m.mu.Lock()
		delete(m.missing, name)
		m.mu.Unlock()
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, changes.ErrNotFound):
		return inDatabase(name, m.goneFromOne(ctx, pool, name, log))
	case errors.Is(err, changes.ErrRecreated) && f.acceptRecreated:
		m.turns.Want(name) // it was made again while it was read
		return nil
	}
	return inDatabase(name, err)
}

// since is where a database is read from that the table does not know: one that came
// later from its beginning.
func (m *many) since(ctx context.Context, pool *pipeline.Pool, source changes.Source, name string) (changes.Position, error) {
	m.mu.Lock()
	first := m.first[name]
	m.mu.Unlock()
	if !first || m.cfg.Source.Since != "now" || pool.Knows(name) {
		return "", nil
	}
	return source.Now(ctx)
}

// goneFromOne does with the rows of a database that is not there what the config says.
func (m *many) goneFromOne(ctx context.Context, pool *pipeline.Pool, name string, log *slog.Logger) error {
	m.mu.Lock()
	told := m.missing[name]
	m.missing[name] = true
	delete(m.first, name)
	m.mu.Unlock()
	switch keep := m.cfg.Source.Deleted == config.GoneKeep; {
	case !pool.Knows(name):
		if !told {
			log.Warn("there is no such database: it is followed when it is created")
		}
		return nil
	case keep:
		if !told {
			log.Warn("the database was deleted: its rows stay in the table (source.deleted: keep)", keyTable, m.cfg.Table.URL)
		}
		return nil
	}
	if !told {
		log.Warn("the database was deleted: so are its rows in the table (source.deleted: delete)", keyTable, m.cfg.Table.URL)
	}
	err := pool.Turn(ctx, absentDatabase(name), "")
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// replayIntoOne is a backfill of all databases, one after the other.
func (m *many) replayIntoOne(ctx context.Context, names []string) error {
	for i, name := range names {
		one := m.cfg.Database(name)
		log := m.log.With(keyDatabase, name)
		f := m.f
		f.rest = i < len(names)-1
		source, err := openSource(ctx, one, log, m.with.board)
		if err == nil {
			err = errors.Join(followOne(ctx, one, m.with, f, source, m.show, log), source.Close())
		}
		if err != nil {
			return inDatabase(name, err)
		}
	}
	return nil
}

// namesOf are the databases that the config means, as the server has them.
func namesOf(ctx context.Context, cfg config.Config, log *slog.Logger) (names []string, err error) {
	m := &many{cfg: cfg}
	if m.server, err = openServer(ctx, cfg, log); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.server.Close()) }()
	return m.names(ctx)
}

// verifyAll compares each of many databases with its rows in the one table, one after
// the other. Rows of databases that are no more are not looked at.
func verifyAll(ctx context.Context, cfg config.Config, f verifyFlags, log *slog.Logger) (report, error) {
	var all report
	names, err := namesOf(ctx, cfg, log)
	if err != nil {
		return all, err
	}
	all.Different, all.Samples = map[pipeline.Difference]int64{}, []pipeline.Sample{}
	for _, name := range names {
		r, err := verifyOne(ctx, cfg.Database(name), f, log)
		if errors.Is(err, changes.ErrNotFound) {
			log.Warn("there is no such database: its rows, if there are any, are not looked at", keyDatabase, name)
			continue
		}
		if err != nil {
			return all, inDatabase(name, err)
		}
		all.add(name, &r)
	}
	return all, nil
}

// add adds what was found of one database.
func (r *report) add(name string, one *report) {
	r.Databases++
	r.Instant = max(r.Instant, one.Instant)
	r.Documents, r.Rows, r.Equal, r.Moving = r.Documents+one.Documents, r.Rows+one.Rows, r.Equal+one.Equal, r.Moving+one.Moving
	r.Settled, r.Rejected, r.Repaired = r.Settled+one.Settled, r.Rejected+one.Rejected, r.Repaired+one.Repaired
	for _, d := range slices.Sorted(maps.Keys(one.Different)) {
		r.Different[d] += one.Different[d]
	}
	for _, s := range one.Samples {
		s.ID = normalize.Key(name, s.ID)
		r.Samples = append(r.Samples, s)
	}
}

// sampleAll is sampleOne for many databases, of each so many that all of them are seen.
func sampleAll(ctx context.Context, cfg config.Config, seen *normalize.Survey, counted *countedSource, documents int, log *slog.Logger) error {
	names, err := namesOf(ctx, cfg, log)
	if err != nil {
		return err
	}
	const least = 100
	for _, name := range names {
		most := min(documents, seen.Documents()+max(documents/len(names), least))
		if err := sampleOne(ctx, cfg.Database(name), seen, counted, most, log); err != nil {
			return inDatabase(name, err)
		}
	}
	return nil
}
