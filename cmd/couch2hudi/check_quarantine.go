package main

import (
	"context"

	"github.com/couch2hudi/couch2hudi/pipeline"
)

// quarantine counts what waits in it.
func (c *checker) quarantine(ctx context.Context, t *checkedTable) {
	n := 0
	var last pipeline.Pending
	for p, err := range pipeline.Quarantine(ctx, t.view) {
		if err != nil {
			c.fail("table.quarantine", err, "look at the file that it names")
			return
		}
		n++
		last.ID, last.Reason, last.Instant = p.ID, p.Reason, p.Instant
	}
	if n == 0 {
		c.ok("table.quarantine", "no change waits in quarantine")
		return
	}
	c.warn("table.quarantine", "mend the documents, or the config, then stop run and try them again: couch2hudi replay-quarantine",
		"%d changes wait in quarantine; the last one, at %s, of document %q: %s", n, last.Instant, last.ID, last.Reason)
}
