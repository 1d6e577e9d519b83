package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// ingestFlags are the flags of run that are no part of the config.
type ingestFlags struct {
	once bool
	// wait waits for the table's lease instead of giving up.
	wait bool
	// replay is a backfill; rewrite makes it write rows again.
	replay, rewrite bool
	acceptRecreated bool
	// quiet shows neither log lines nor a live line (the demo speaks itself).
	quiet bool
	// rest says that further databases are read into the same table after this one.
	rest bool
}

func newRun(s streams) *cobra.Command {
	var file string
	var f ingestFlags
	c := &cobra.Command{
		Use:   "run {--source URL --table URL | -c FILE}",
		Short: "Follow a CouchDB database into a table",
		Long: `Follow a CouchDB database into an Apache Hudi table until stopped, or with
--once until caught up. Instead of the database the source may be a folder into
which the bundles of export are carried: ndjson:///folder, with
?consumed=delete or ?consumed=move:/folder for what is in a commit, or
?format=plain for files of other tools.

The table's last commit holds the position: start it again and it goes on. Flags
win over the config file. Secrets belong in the file as ${ENV} or file:PATH, or
in the environment: COUCH2HUDI_USER and COUCH2HUDI_PASSWORD.`,
		Example: `  couch2hudi run --source couchdb://user:pass@localhost:5984/shop --table ./shop-table
  couch2hudi run -c couch2hudi.yaml --once
  couch2hudi run --source http://localhost:5984/shop --table ./shop-table \
      --partition-field createdAt --partition-format yyyyMMdd --commit-interval 10s
  couch2hudi run -c couch2hudi.yaml --index bucket --buckets 64
  couch2hudi run --source 'kafka://b1:9092,b2:9092/couchdb.binlog?group=tables' --table ./shop-table`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c, file)
			if err != nil {
				return err
			}
			defer endInTime(c.Context(), s.err)()
			err = ingest(c.Context(), s, cfg, f)
			if c.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // stopped before there was a batch to abandon
			}
			return err
		},
	}
	configFlags(c, &file)
	c.Flags().BoolVar(&f.once, "once", false, "stop with 0 when caught up")
	c.Flags().BoolVar(&f.replay, "replay", false, "backfill: read from --since to the end although the table has a checkpoint, which stays")
	c.Flags().BoolVar(&f.rewrite, "rewrite", false, "with --replay: write rows again that the table holds (after a change of columns)")
	c.Flags().BoolVar(&f.acceptRecreated, "accept-recreated", false, "the database was deleted and created again: begin a new epoch")
	c.Flags().Bool("accept-gap", false, "the source has lost changes that were not read (Kafka's retention): go on from what is there")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait while another writer holds the table, instead of exit 5")
	return c
}

// ingest opens source and table and runs the pipeline.
func ingest(ctx context.Context, s streams, cfg config.Config, f ingestFlags) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	limitMemory(int64(cfg.Memory))
	log := newLogger(s.err, cfg.Log.Format, cfg.Log.Level)
	live := io.Writer(nil)
	if f.quiet {
		log = newLogger(io.Discard, "json", cfg.Log.Level)
	} else if terminal(s.err) {
		live = s.err
	}
	show := newProgress(log, live)
	defer show.done()
	if cfg.Source.Selector != "" {
		log.Warn(selectorWarning, keySelector, cfg.Source.Selector)
	}
	board, closeBoard, err := openBoard(ctx, cfg, f, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBoard()) }()
	if len(cfg.Source.Databases) > 0 {
		return followMany(ctx, cfg, newShared(cfg, board), f, show, log)
	}
	source, err := openSource(ctx, cfg, log, board)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	run := followOne
	if len(cfg.Tables) > 0 {
		run = followSeveral
	}
	if err := run(ctx, cfg, newShared(cfg, board), f, source, show, log); err != nil {
		return err
	}
	return gap(source, f)
}

// followOne runs the pipeline into the one table.
func followOne(ctx context.Context, cfg config.Config, with shared, f ingestFlags, source changes.Source, show *progress, log *slog.Logger) (err error) {
	o, release, err := prepare(ctx, cfg, with, f, source, show, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	p, err := pipeline.New(ctx, o)
	if err != nil {
		return err
	}
	log.Debug("following", keySource, cfg.Source.URL.String(), keyTable, cfg.Table.URL, keyLastSeq, string(p.Position()))
	return atSince(p.Run(ctx), cfg, p.Position())
}

// prepare opens a table for writing, with all that the pipeline needs of it. release
// gives it back.
func prepare(ctx context.Context, cfg config.Config, with shared, f ingestFlags, source changes.Source, show *progress, log *slog.Logger) (o pipeline.Options, release func() error, err error) {
	var held func(error)
	if f.wait {
		held = func(err error) { log.Info("waiting for the table", keyTable, cfg.Table.URL, keyReason, err.Error()) }
	}
	t, closeTable, err := openForWriting(ctx, cfg, source, held)
	if err != nil {
		return o, nil, err
	}
	if o, err = options(ctx, cfg, f, source, t); err != nil {
		return o, nil, errors.Join(err, closeTable())
	}
	closeKeys, err := keepKeys(ctx, &o, cfg, t, show, log)
	if err != nil {
		return o, nil, errors.Join(err, closeTable())
	}
	o.Events = show.events(log, with.board.Table(t.Name()))
	o.Events.Refiltered = func(n pipeline.FilterNote) {
		log.Warn("rows of the table came through another filter", keyFilter, n.Filter, keyBefore, n.Before, keyNext, refilterHint(cfg))
	}
	o.Services = newServices(cfg, with, t, log)
	closeCatalog, err := followCatalog(ctx, cfg, with, t.Name(), &o.Events, log)
	if err != nil {
		return o, nil, errors.Join(err, closeKeys(), closeTable())
	}
	return o, func() error { return errors.Join(closeCatalog(), closeKeys(), closeTable()) }, nil
}

// gap is what a run that ended at the end of its source could not get past.
func gap(source changes.Source, f ingestFlags) error {
	g, ok := source.(changes.Gapped)
	if !ok || !f.once && !f.replay {
		return nil
	}
	if err := g.Gap(); err != nil {
		return fmt.Errorf("all before it is in the table: %w", err)
	}
	return nil
}

// selectorWarning is what whoever sets source.selector has to know.
const selectorWarning = "with source.selector the server tells nothing of deletions and of documents that stop matching: their rows stay in the table"

// refilterHint is how a changed filter gets to the rows that are there.
func refilterHint(cfg config.Config) string {
	next := "run --replay reads the database from the beginning: until then documents that do not change keep their rows, or are missing"
	if cfg.Table.Deletes == config.DeletesHard {
		next += "; with table.deletes: hard add --rewrite, or documents that an earlier filter took away stay away"
	}
	return next
}

// check refuses flags that mean nothing together.
func (f *ingestFlags) check() error {
	switch {
	case f.rewrite && !f.replay:
		return &usageError{err: errors.New("--rewrite goes with --replay"), command: "couch2hudi run"}
	case f.replay && f.acceptRecreated:
		return &usageError{err: errors.New("--replay and --accept-recreated exclude each other: follow the new database first"), command: "couch2hudi run"}
	}
	return nil
}

// readMemory is the budget of commands that print rows. What they hold does not
// follow what they read, but the collector's slack would.
const readMemory = 256 << 20

// collectAt is how much garbage there may be, in percent of what lives, before the
// collector runs. What lives is small beside the budget while commits are, and the
// limit, not this, is what bounds the heap.
const collectAt = 400

// ownPages is what the program itself takes of a budget: its file's pages, most of
// them of the stores' clients, of which the runtime's limit knows nothing.
const ownPages = 48 << 20

// limitMemory lets the collector keep the heap near the budget, unless the
// environment says otherwise, and does not trouble it long before.
func limitMemory(budget int64) {
	if budget <= 0 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(budget - min(ownPages, budget/4))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}

// atSince tells a --since that the source cannot read from a lost position.
func atSince(err error, cfg config.Config, at changes.Position) error {
	if errors.Is(err, changes.ErrPosition) && at == changes.Position(cfg.Source.Since) {
		return &sinceError{err}
	}
	return err
}

// options is the config in the pipeline's words.
func options(ctx context.Context, cfg config.Config, f ingestFlags, source changes.Source, t *table.Table) (pipeline.Options, error) {
	o := pipeline.Options{Source: source, Table: t, Name: cfg.Source.Name, Once: f.once,
		Interval: time.Duration(cfg.Commit.Interval), MaxRows: cfg.Commit.MaxRows, MaxBytes: int64(cfg.Commit.MaxBytes),
		Sample: cfg.Columns.Sample, Memory: int64(cfg.Memory), Replay: f.replay, Rewrite: f.rewrite, AcceptRecreated: f.acceptRecreated,
		MaxShare: cfg.Quarantine.MaxShare, Rest: f.rest, Stay: cfg.Table.Partition.Moves == config.MovesStay, Writer: writerOptions(cfg)}
	pinned := pins(cfg)
	o.Layout, o.Ordering, o.BareFolders, o.PlainFolders, o.CDC, o.Changelog = pinned.Layout, pinned.Ordering, pinned.BareFolders, pinned.PlainFolders, pinned.CDC, pinned.Changelog
	if cfg.Index.Scope == config.ScopePartition {
		o.Scope = index.Partition
	}
	o.Index = newIndex(cfg)
	n, err := newNormalizer(cfg, t.Name())
	if err != nil {
		return o, err
	}
	o.Normalizer = n
	switch cfg.Source.Since {
	case "", "0":
	case "now":
		if o.Since, err = source.Now(ctx); err != nil {
			return o, fmt.Errorf("find the newest position: %w", err)
		}
	default:
		o.Since = changes.Position(cfg.Source.Since)
	}
	return o, nil
}

// writerOptions says how files are cut. In the config 0 turns rewriting off.
func writerOptions(cfg config.Config) writer.Options {
	o := writer.Options{FileBytes: int64(cfg.Table.FileSize), MaxRewrite: int64(cfg.Writer.MaxRewrite)}
	if o.MaxRewrite == 0 {
		o.MaxRewrite = -1
	}
	if cfg.Table.Index == config.IndexBucket {
		o.Buckets = cfg.Table.Buckets
	}
	return o
}

// newIndex is the index that the config names.
func newIndex(cfg config.Config) index.Index {
	const shares = 8 // of the memory: footers remembered, and each group that is looked into
	share := int64(cfg.Memory) / shares
	if cfg.Table.Index == config.IndexBucket {
		return index.NewBucket(index.BucketOptions{Buckets: cfg.Table.Buckets, Memory: share})
	}
	return index.NewBloom(index.BloomOptions{CacheBytes: share, Memory: share, IgnoreRanges: !cfg.Index.PruneByRanges})
}

// pins are what the config asks of a table, for ever.
func pins(cfg config.Config) pipeline.Pins {
	_, shared := cfg.Shared()
	p := pipeline.Pins{Layout: pipeline.Layout{Index: cfg.Table.Index, Key: normalize.KeyColumn(shared)}, Ordering: cfg.Table.Ordering}
	if p.Index == config.IndexBucket {
		p.Buckets = cfg.Table.Buckets
	}
	if cfg.Index.Scope == config.ScopePartition {
		p.Scope = cfg.Index.Scope
	}
	p.Changelog = cfg.Table.Changelog
	p.CDC, _ = hudi.ParseCDCMode(cfg.Table.CDC) // Validate has read it
	part := cfg.Table.Partition
	if part.Field == "" {
		return p
	}
	p.PartitionField, p.PartitionFormat, p.Timezone, p.PartitionName = part.Field, part.Format, part.Timezone, part.Name
	p.BareFolders, p.PlainFolders = !part.HiveStyle, !part.URLEncode
	if part.Moves == config.MovesStay {
		p.Moves = part.Moves
	}
	return p
}
