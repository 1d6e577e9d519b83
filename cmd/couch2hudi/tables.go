package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// leastShare is the least memory that one of several tables gets for its index and
// its writer.
const leastShare = 16 << 20

// followSeveral runs the pipeline into all tables of the config.
func followSeveral(ctx context.Context, cfg config.Config, with shared, f ingestFlags, source changes.Source, show *progress, log *slog.Logger) (err error) {
	all, err := cfg.Several()
	if err != nil {
		return err
	}
	o := pipeline.GroupOptions{Field: cfg.Route.Field, Others: others(cfg)}
	for i := range all {
		one, name := all[i], cfg.Tables[i].Name
		one.Memory = max(cfg.Memory/config.Size(len(all)), leastShare)
		t, release, err := prepare(ctx, one, with, f, source, show, log.With(keyTable, name))
		if err != nil {
			return &entryError{name, err}
		}
		defer func() { err = errors.Join(err, release()) }()
		if i == 0 {
			o.Feed = t
		}
		o.Tables = append(o.Tables, pipeline.Routed{Name: name, Values: cfg.Tables[i].Values, Options: t})
	}
	o.Feed.Memory = int64(cfg.Memory)
	o.Dropped = func(n int64) { log.Info("no table takes some documents", keyRows, n) }
	o.Aligned = func(a pipeline.Alignment) { tellAligned(log, a) }
	g, err := pipeline.NewGroup(ctx, o)
	if err != nil {
		return err
	}
	log.Debug("following", keySource, cfg.Source.URL.String(), keyTables, strings.Join(entryNames(cfg), ","), keyLastSeq, string(g.Position()))
	return atSince(g.Run(ctx), cfg, g.Position())
}

// entryError says which of several tables an error is of.
type entryError struct {
	name string
	err  error
}

func (e *entryError) Error() string { return "table " + e.name + ": " + e.err.Error() }
func (e *entryError) Unwrap() error { return e.err }

func tellAligned(log *slog.Logger, a pipeline.Alignment) {
	switch {
	case a.Routes:
		log.Warn("which documents are for which table is decided anew: the source is read from its beginning, and documents move")
	case a.Behind == "":
		log.Warn("a table has no position that can be compared: all begin where the source was first read; what they have is dropped")
	default:
		log.Info("the tables stood at different positions: all go on from that of the one behind", keyTable, a.Behind)
	}
}

func others(cfg config.Config) pipeline.Others {
	switch cfg.Route.Others {
	case config.OthersDrop:
		return pipeline.Others{}
	case config.OthersFail:
		return pipeline.Others{Fail: true}
	}
	return pipeline.Others{Table: cfg.Route.Others}
}

func entryNames(cfg config.Config) []string {
	names := make([]string, len(cfg.Tables))
	for i := range cfg.Tables {
		names[i] = cfg.Tables[i].Name
	}
	return names
}

// loadOne is the config of a verb that works on one table: of a file with several,
// --table names one.
func loadOne(c *cobra.Command, path string) (config.Config, error) {
	cfg, err := loadFlags(c, path)
	name, _ := c.Flags().GetString("table")
	_, shared := cfg.Shared()
	if err == nil && len(cfg.Source.Databases) > 0 && !shared {
		if !cfg.Source.Wants(name) {
			return cfg, &usageError{err: errors.New("the config has a table a database; --table takes the name of a database"), command: c.CommandPath()}
		}
		return cfg.Database(name), nil
	}
	if err != nil || len(cfg.Tables) == 0 {
		if c.Flags().Changed("table") {
			cfg.Table.URL = name
		}
		return cfg, err
	}
	one, found, err := cfg.Entry(name)
	switch {
	case err != nil:
		return cfg, err
	case !found:
		return cfg, &usageError{err: errors.New("the config has several tables; --table takes the name of one: " + strings.Join(entryNames(cfg), ", ")), command: c.CommandPath()}
	}
	return one, nil
}

// loadConfig is the config of a verb that works on all tables.
func loadConfig(c *cobra.Command, path string) (config.Config, error) {
	cfg, err := loadFlags(c, path)
	if err != nil || !c.Flags().Changed("table") {
		return cfg, err
	}
	if _, shared := cfg.Shared(); len(cfg.Tables) > 0 || len(cfg.Source.Databases) > 0 && !shared {
		return cfg, &usageError{err: errors.New("the config has tables of its own; leave --table out"), command: c.CommandPath()}
	}
	cfg.Table.URL, _ = c.Flags().GetString("table")
	return cfg, nil
}

// schemaOfEntry turns the name of one of the config's tables into its URL. Of a table
// that is not there yet it shows what a sample of the documents for it gives: done.
func schemaOfEntry(c *cobra.Command, s streams, f *schemaFlags) (done bool, err error) {
	whole, err := loadFlags(c, f.file)
	_, shared := whole.Shared()
	if err != nil || shared || len(whole.Tables) == 0 && len(whole.Source.Databases) == 0 {
		return false, err
	}
	one, err := loadOne(c, f.file)
	if err != nil {
		return false, err
	}
	there, err := tableThere(c.Context(), one.Table.Address())
	if err != nil || there {
		f.table = one.Table.URL
		return false, err
	}
	d, err := sourceSchema(c.Context(), s, one, f.sample)
	if err != nil {
		return false, err
	}
	return true, d.print(s.out, f.format)
}

// asRouted is the source as a table sees it that is one of several.
func asRouted(cfg config.Config, source changes.Source) (changes.Source, error) {
	whole, name, ok := cfg.Among()
	if !ok {
		return source, nil
	}
	o := pipeline.GroupOptions{Feed: pipeline.Options{Source: source}, Field: whole.Route.Field, Others: others(*whole)}
	for i := range whole.Tables {
		o.Tables = append(o.Tables, pipeline.Routed{Name: whole.Tables[i].Name, Values: whole.Tables[i].Values})
	}
	return pipeline.Only(o, name)
}

func tableThere(ctx context.Context, url string) (there bool, err error) {
	b, _, err := openBucket(ctx, url, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return table.Exists(ctx, b)
}
