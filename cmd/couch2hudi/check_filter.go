package main

import (
	"context"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/pipeline"
)

// selector warns of what a server does not tell through a selector.
func (c *checker) selector(cfg config.Config) {
	if cfg.Source.Selector != "" {
		c.warn("source.selector", "use source.filter, which sees every change, or keep the warning in mind", selectorWarning)
	}
}

// filter says whether the rows of the table came through the config's filter.
func (c *checker) filter(ctx context.Context, cfg config.Config, t *checkedTable) {
	had, err := pipeline.ReadFilter(ctx, t.view)
	if err != nil {
		c.fail("table.filter", err, "restore the table to an instant whose commit can be read")
		return
	}
	switch now := had.Next(cfg.Source.Filter, t.view.Last() != ""); {
	case now.Mixed:
		c.warn("table.filter", refilterHint(cfg), "rows of the table came through another filter: %s; now it is %s",
			or(now.Before, "none"), or(now.Filter, "none"))
	case now.Filter != "":
		c.ok("table.filter", "all rows of the table came through %s", now.Filter)
	}
}
