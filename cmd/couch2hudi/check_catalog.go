package main

import (
	"context"
	"errors"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/table"
)

// catalog asks each metastore what a sync would change there. Whatever it says, run
// goes on without it.
func (c *checker) catalog(ctx context.Context, cfg config.Config) {
	if len(cfg.Catalog.Targets) == 0 || cfg.Catalog.On == config.CatalogOff {
		return
	}
	const check = "catalog"
	targets, err := catalogTargets(cfg)
	if err != nil {
		c.fail(check, err, "correct catalog.targets")
		return
	}
	t, closeTable, err := openForReading(ctx, cfg.Table.URL)
	if err == nil {
		defer closeTable()
	}
	for i := range targets {
		to := &targets[i]
		to.DryRun = true
		r, err := c.ask(ctx, to, t)
		switch {
		case errors.Is(err, catalog.ErrForeign), errors.Is(err, catalog.ErrColumns):
			c.warn(check, "", "%s: %s", to.Name, err)
		case err != nil:
			c.warn(check, "run goes on, and tells it when it can: look at the address, and whether the metastore runs", "%s cannot be asked: %s", to.Name, message(err))
		case r.Instant == "":
			c.ok(check, "%s answers; it is told of the table after its first commit", to.Name)
		case r.Changed():
			c.ok(check, "%s answers; the next sync would change: %s", to.Name, syncSummary(r))
		default:
			c.ok(check, "%s knows the table's columns and partitions", to.Name)
		}
	}
}

// ask is a dry sync. Without a table, or a commit in it, the metastore has only to
// answer.
func (c *checker) ask(ctx context.Context, to *catalog.Target, t *table.Table) (catalog.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if t != nil {
		r, err := syncTarget(ctx, to, t)
		if !errors.Is(err, table.ErrNoSchema) {
			return r, err
		}
	}
	m, err := to.Open(ctx)
	if err != nil {
		return catalog.Result{}, err
	}
	_, err = m.HasDatabase(ctx, to.Database)
	_ = m.Close() // what matters was answered
	return catalog.Result{}, err
}
