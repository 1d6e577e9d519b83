package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// checkedSource is a source as far as it answers. It is nil inside when it does
// not.
type checkedSource struct {
	source   changes.Source
	identity changes.Identity
	answers  bool
}

func (s *checkedSource) close() {
	if s.source != nil {
		_ = s.source.Close()
	}
}

// source asks the source who it is.
func (c *checker) source(ctx context.Context, cfg config.Config) *checkedSource {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	s := &checkedSource{}
	var err error
	open := openSource
	if _, shared := cfg.Shared(); shared {
		open = openDriver // as it is, to be asked for what it can
	}
	if s.source, err = open(ctx, cfg, slog.New(slog.DiscardHandler), nil); err != nil {
		c.fail("source", err, "")
		return s
	}
	if s.identity, err = s.source.Identify(ctx); err != nil {
		c.fail("source", fmt.Errorf("identify source: %w", err), unreachable(err))
		return s
	}
	s.answers = true
	c.identified(ctx, cfg, s.identity)
	c.purges(ctx, s.source)
	return s
}

// purges says whether documents that are purged will be noticed.
func (c *checker) purges(ctx context.Context, source changes.Source) {
	s, ok := source.(interface {
		ListsPurges(ctx context.Context) (bool, error)
	})
	if !ok {
		return
	}
	switch lists, err := s.ListsPurges(ctx); {
	case err != nil:
		c.warn("source.purges", "let the user read _purged_infos", "whether the server lists purges is not known: %v", err)
	case lists:
		c.ok("source.purges", "the server lists purges, the last 1,000 or as many as its purged_infos_limit")
	default:
		c.warn("source.purges", "run couch2hudi verify --repair after purges", "the server lists no purges: rows of purged documents stay")
	}
}

// identified says what the source is that answered.
func (c *checker) identified(ctx context.Context, cfg config.Config, id changes.Identity) {
	switch id.Kind {
	case config.KindKafka:
		c.ok("source", "topic %q, its id is %s", id.Name, or(id.Incarnation, "not known"))
	case config.KindCouchDB:
		c.ok("source", "%s %q, created at %s, purge sequence %s", id.Kind, id.Name, created(id.Incarnation), short(id.PurgeSeq))
	default:
		c.ok("source", "%s %q, of the database created at %s", id.Kind, id.Name, created(id.Incarnation))
	}
	if id.Kind == config.KindCouchDB && (id.Incarnation == "" || id.Incarnation == "0") {
		c.warn("source.incarnation", "use CouchDB 3 or newer, or look yourself before a database is created again",
			"the server does not say when the database was created: one deleted and created again would not be noticed")
	}
	switch {
	case id.Leaves:
		c.ok("source.leaves", "the source lists all leaf revisions")
	case cfg.Table.Ordering == config.OrderingGeneration:
		c.ok("source.leaves", "the source lists no leaf revisions, and the table orders by the generation of the winner")
	default:
		c.fail("source.leaves", fmt.Errorf("%w: this %s source does not list leaf revisions", pipeline.ErrPinned, id.Kind),
			"read from CouchDB itself, or give such sources a table of their own with table.ordering: generation")
	}
	if id.Kind == config.KindCouchDB {
		c.version(ctx, cfg)
	}
}

// unreachable is the next step when a server did not answer in time: run itself
// would go on trying.
func unreachable(err error) string {
	if !errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	return "see that the server is up and the host and port are right; run would go on trying"
}

// created is an incarnation for people: seconds since 1970 in CouchDB 3.
func created(incarnation string) string {
	n, err := strconv.ParseInt(incarnation, 10, 64)
	const year2000, year2100 = 946_684_800, 4_102_444_800
	if err != nil || n < year2000 || n > year2100 {
		return or(incarnation, "an unknown time")
	}
	return incarnation + " (" + time.Unix(n, 0).UTC().Format(time.RFC3339) + ")"
}

// short keeps an opaque sequence readable.
func short(seq string) string { return or(shorten(seq), "unknown") }

// version says what server it is; behind a proxy that may not be to be had.
func (c *checker) version(ctx context.Context, cfg config.Config) {
	version, err := serverVersion(ctx, cfg)
	switch {
	case err != nil:
		c.ok("source.version", "not known: %s", err)
	case strings.HasPrefix(version, "1.") || strings.HasPrefix(version, "0."):
		c.warn("source.version", "use CouchDB 3", "CouchDB %s tells another instance_start_time after each restart, at which run stops with 3", version)
	default:
		c.ok("source.version", "CouchDB %s", version)
	}
}

// serverVersion asks without credentials: most servers tell everyone.
func serverVersion(ctx context.Context, cfg config.Config) (string, error) {
	u, err := config.ParseSourceURL(cfg.Source.URL)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Server+"/", http.NoBody)
	if err != nil {
		return "", err
	}
	if who, err := credentials(cfg.Source)(ctx); err == nil && who.Password != "" {
		req.SetBasicAuth(who.User, who.Password)
	}
	req.Header.Set("Accept", "application/json")
	// A redirect would carry the password elsewhere.
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer stay.CloseIdleConnections()
	resp, err := stay.Do(req)
	if err != nil {
		return "", fmt.Errorf("GET %s/ failed", u.Server)
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 64 << 10
	var welcome struct{ Version string }
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil || json.Unmarshal(data, &welcome) != nil || welcome.Version == "" {
		return "", fmt.Errorf("GET %s/ answers %d and no version", u.Server, resp.StatusCode)
	}
	return welcome.Version, nil
}

// settings holds the table's settings against the config's.
func (c *checker) settings(ctx context.Context, cfg config.Config, t *checkedTable) {
	if t.view != nil {
		c.pins(ctx, cfg, t)
		c.filter(ctx, cfg, t)
		c.quarantine(ctx, t)
	} else if !t.there {
		c.declared(cfg)
	}
}

// resume checks where a run would go on, and reads a row from there, or some when
// ids matter: it returns them.
func (c *checker) resume(ctx context.Context, cfg config.Config, t *checkedTable, s *checkedSource) (ids []string) {
	since := changes.Position(cfg.Source.Since)
	if cfg.Source.Since == "0" {
		since = ""
	}
	position, begun := since, false
	if t.view != nil {
		position, begun = c.checkpoint(ctx, cfg, t, s, since)
	} else if !t.there {
		c.ok("resume", "no table yet: run begins at %s", cfg.Source.Since)
	}
	if !s.answers {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var err error
	if position == "now" && !begun {
		if position, err = s.source.Now(ctx); err != nil {
			c.fail("source.read", fmt.Errorf("find the newest position: %w", err), unreachable(err))
			return nil
		}
	}
	most := 1
	if cfg.Table.Index == config.IndexBucket {
		most = someIDs
	}
	b, err := s.source.Next(ctx, position, changes.Limit{Rows: most})
	switch {
	case errors.Is(err, changes.ErrPosition) && !begun:
		c.fail("source.read", &sinceError{err}, "")
	case err != nil:
		c.fail("source.read", fmt.Errorf("read %s %q: %w", s.identity.Kind, s.identity.Name, err), unreachable(err))
	case len(b.Changes) == 0 && b.CaughtUp:
		c.ok("source.read", "this user may read the changes; there is nothing new")
	default:
		c.ok("source.read", "this user may read the changes; about %d to read", int64(len(b.Changes))+b.Pending)
	}
	if g, ok := s.source.(changes.Gapped); ok && err == nil && g.Gap() != nil {
		c.warn("source.gap", "carry it there; run waits for it, and run --once ends with 4", "%s", g.Gap())
	}
	for i := range b.Changes {
		id := b.Changes[i].ID
		if database, shared := cfg.Shared(); shared {
			id = normalize.Key(database, id)
		}
		ids = append(ids, id)
	}
	return ids
}

// pins compares what the table was created with to the config.
func (c *checker) pins(ctx context.Context, cfg config.Config, t *checkedTable) {
	have, err := pipeline.ReadPins(ctx, t.view)
	if err == nil {
		err = errors.Join(have.Check(pins(cfg)), have.CheckFiles(ctx, t.view, pins(cfg)))
	}
	var differ *pipeline.PinsError
	switch {
	case errors.As(err, &differ):
		for _, e := range differ.All {
			c.fail("table.pinned", e, e.Hint())
		}
	case err != nil:
		c.fail("table.pinned", err, "")
	case have.Known:
		c.ok("table.pinned", "index, key and partitions are as the config has them, says %s", have.Where)
	}
	c.columns(ctx, cfg, t)
}

// declared says what the columns cost with which a new table begins.
func (c *checker) declared(cfg config.Config) {
	n, err := newNormalizer(cfg, "table")
	if err != nil {
		return // config has said so
	}
	made, err := n.Normalize(changes.Batch{}, nil)
	if err != nil {
		c.fail("table.columns", err, "")
		return
	}
	c.composites(made.Schema)
	if cfg.Columns.Nested == config.NestedStruct {
		c.warn("table.composites", "keep columns.nested at json where Flink matters", "columns.nested is struct: %s; %s; %s", costStruct, costList, costLists)
	}
}

// columns asks the normalizer whether it can write to the table's columns.
func (c *checker) columns(ctx context.Context, cfg config.Config, t *checkedTable) {
	schema, err := t.view.Schema(ctx)
	if errors.Is(err, table.ErrNoSchema) {
		return
	}
	if err != nil {
		c.fail("table.columns", err, "")
		return
	}
	c.composites(schema)
	n, err := newNormalizer(cfg, t.table.Name())
	if err == nil {
		err = n.Check(schema)
	}
	if err == nil {
		_, err = pipeline.CheckMasks(ctx, t.view, n)
	}
	switch {
	case errors.Is(err, normalize.ErrDeclared):
		c.fail("table.columns", err, "")
		return
	case err != nil:
		c.fail("table.columns", err, "follow the database into a table of its own")
		return
	}
	c.ok("table.columns", "%d columns; couch2hudi schema lists them", schema.Len())
}

// checkpoint is where the table's last commit left off, true when it says so.
func (c *checker) checkpoint(ctx context.Context, cfg config.Config, t *checkedTable, s *checkedSource, since changes.Position) (changes.Position, bool) {
	text, at, found, err := t.view.Extra(ctx, commitmeta.ExtraCheckpoint)
	if err != nil {
		c.fail("resume", fmt.Errorf("find the last checkpoint: %w", err), "")
		return since, false
	}
	var all commitmeta.Checkpoint
	if found {
		if all, err = commitmeta.DecodeCheckpoint(text); err != nil {
			c.fail("resume", fmt.Errorf("checkpoint of commit %s: %w", at.Time, err), "use the release of couch2hudi that wrote it, or a newer one")
			return since, false
		}
	}
	name := or(cfg.Source.Name, s.identity.Name)
	if name == "" {
		c.warn("resume", "check again when the source answers", "whether the checkpoint of commit %s is of the source is not known", or(string(at.Time), "none"))
		return since, false
	}
	last, known := all.Sources[name]
	if !known {
		c.warn("resume", "see that it is the right table: rows that it has already are found again, by their keys, and dropped",
			"the table has no checkpoint of %q: run begins at %s", name, cfg.Source.Since)
		return since, false
	}
	if id := s.identity; s.answers && (last.Kind != id.Kind || last.Incarnation != "" && id.Incarnation != "" && last.Incarnation != id.Incarnation) {
		c.fail("resume", fmt.Errorf("%w: %s %q was created at %s, the checkpoint of commit %s is of the one created at %s", changes.ErrRecreated,
			id.Kind, id.Name, created(id.Incarnation), at.Time, created(last.Incarnation)),
			"start once with --accept-recreated to take the new database into this table, or use another table")
		return changes.Position(last.Position()), true
	}
	c.ok("resume", "goes on from commit %s, last_seq %s", at.Time, short(last.Seq))
	return changes.Position(last.Position()), true
}
