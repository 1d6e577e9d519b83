package main

import (
	"context"
	"log/slog"

	"github.com/couch2hudi/couch2hudi/config"
)

// mostChecked is how many databases are looked at.
const mostChecked = 100

// databases looks at each of many databases and its table.
func (c *checker) databases(ctx context.Context, cfg config.Config) {
	names, ok := c.listed(ctx, cfg)
	if !ok {
		return
	}
	if len(names) > mostChecked {
		c.warn("source.databases", "name them in source.databases of another config to look at the others", "%d databases, of which the first %d are looked at", len(names), mostChecked)
		names = names[:mostChecked]
	}
	if _, shared := cfg.Shared(); shared {
		c.shared(ctx, cfg, names)
		return
	}
	for _, name := range names {
		c.of = name
		one := cfg.Database(name)
		t := c.table(ctx, one)
		src := c.source(ctx, one)
		c.into(ctx, one, t, src)
		src.close()
	}
}

// shared looks at each of many databases, and at the one table of them.
func (c *checker) shared(ctx context.Context, cfg config.Config, names []string) {
	t := c.table(ctx, cfg)
	defer t.close()
	c.settings(ctx, cfg, t)
	var ids []string
	for _, name := range names {
		c.of = name
		one := cfg.Database(name)
		src := c.source(ctx, one)
		ids = append(ids, c.resume(ctx, one, t, src)...)
		src.close()
	}
	c.of = ""
	c.tableOnly(ctx, cfg, t, ids)
}

// listed are the databases to follow, as the server lists them.
func (c *checker) listed(ctx context.Context, cfg config.Config) ([]string, bool) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	s, err := openServer(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		c.fail("source", err, "")
		return nil, false
	}
	defer func() { _ = s.Close() }()
	m := many{cfg: cfg, server: s}
	names, err := m.names(ctx)
	if err != nil {
		c.fail("source.databases", err, unreachable(err))
		return nil, false
	}
	c.ok("source.databases", "%d databases", len(names))
	if _, _, err := s.Updates(ctx, "now", 1); err != nil {
		c.warn("source.updates", "let the user be an administrator of the server, and see that the database _global_changes is there",
			"the server does not tell which databases change, so each is asked at every commit.interval: %s", message(err))
	}
	return names, true
}
