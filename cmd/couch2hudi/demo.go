package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/hudi"
)

const (
	demoDatabase = "shop"
	// demoMark is a file in a table that the demo made and may replace.
	demoMark = ".hoodie/couch2hudi/demo"
)

func newDemo(s streams) *cobra.Command {
	dir, docs := "./demo-table", 5000
	c := &cobra.Command{
		Use:   "demo",
		Short: "Everything on one machine: a CouchDB stand-in, documents, ingest, incremental read",
		Long: `Start an embedded CouchDB stand-in, load varied documents (updates, conflicts,
deletions, six days of partitions), ingest them into a table, change some, ingest
again, and show the timeline and what the second commit changed.`,
		Example: `  couch2hudi demo
  couch2hudi demo --table /tmp/shop-table --docs 100000`,
		RunE: func(c *cobra.Command, _ []string) error {
			if docs < 100 {
				return &usageError{err: fmt.Errorf("--docs takes 100 or more, not %d", docs)}
			}
			return runDemo(c.Context(), s, dir, docs)
		},
	}
	c.Flags().StringVar(&dir, "table", dir, "where to put the table")
	c.Flags().IntVar(&docs, "docs", docs, "how many documents")
	return c
}

func runDemo(ctx context.Context, s streams, dir string, docs int) error {
	if err := clearDemo(dir); err != nil {
		return err
	}
	source, stop, err := startStandIn(ctx, demoDatabase)
	if err != nil {
		return err
	}
	defer stop()
	state, err := os.MkdirTemp("", "couch2hudi-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the key cache: %w", err)
	}
	defer os.RemoveAll(state) //nolint:errcheck // a temporary folder
	say := func(format string, a ...any) { _, _ = fmt.Fprintf(s.out, format, a...) }
	say("1. A CouchDB stand-in listens on %s\n", source)
	shop := newDemoShop(source)
	if err := shop.load(ctx, docs); err != nil {
		return err
	}
	say("2. %d orders written, every 5th updated, every 11th conflicted, every 50th deleted\n", docs)
	c := config.Default()
	c.Source.URL, c.Table.URL = config.Secret(source), dir
	c.StateDir = state
	c.Table.Partition.Field, c.Table.Partition.Format = "createdAt", "yyyyMMdd"
	first, err := demoIngest(ctx, s, c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, demoMark), nil, 0o644); err != nil {
		return fmt.Errorf("mark the demo's table: %w", err)
	}
	say("3. Ingested into %s, commit %s\n", dir, first)
	if err := shop.change(ctx, docs); err != nil {
		return err
	}
	second, err := demoIngest(ctx, s, c)
	if err != nil {
		return err
	}
	say("4. Some orders changed, two deleted, two new: ingested again, commit %s\n\n", second)
	return showDemo(ctx, s, dir, first)
}

// clearDemo removes a table that an earlier demo made, and nothing else.
func clearDemo(dir string) error {
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, demoMark)); err != nil {
		return fmt.Errorf("%s exists and was not made by the demo; give another folder with --table", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the last demo's table: %w", err)
	}
	return nil
}

// demoIngest runs the pipeline until it has caught up and returns the newest
// commit.
func demoIngest(ctx context.Context, s streams, c config.Config) (hudi.Time, error) {
	if err := ingest(ctx, s, c, ingestFlags{once: true, quiet: true}); err != nil {
		return "", err
	}
	t, closeTable, err := openForReading(ctx, c.Table.Address())
	if err != nil {
		return "", err
	}
	defer closeTable()
	v, err := t.View(ctx)
	if err != nil {
		return "", err
	}
	return v.Last(), nil
}

// showDemo prints what the table says now.
func showDemo(ctx context.Context, s streams, dir string, since hudi.Time) error {
	t, closeTable, err := openForReading(ctx, dir)
	if err != nil {
		return err
	}
	defer closeTable()
	say := func(format string, a ...any) { _, _ = fmt.Fprintf(s.out, format, a...) }
	say("The timeline:\n")
	if err := printTimeline(ctx, s, t, "table", false); err != nil {
		return err
	}
	say("\nDocuments in the table now: ")
	if err := runQuery(ctx, s, queryFlags{table: dir, count: true}); err != nil {
		return err
	}
	say("\nWhat changed since %s:\n", since)
	q := queryFlags{table: dir, since: string(since), format: "table",
		columns: []string{"_id", "_rev", "_rev_order", "_op", "pt", "status", "total"}}
	if err := runQuery(ctx, s, q); err != nil {
		return err
	}
	say("\norder-00000 had a conflict: its winner was deleted, so the losing branch, of a lower\n" +
		"generation, is the document now. _rev as text or as a number would have hidden that.\n")
	say("\nTry next:\n  couch2hudi query --table %s --limit 5 --format jsonl\n"+
		"  couch2hudi run --source couchdb://user:pass@localhost:5984/DB --table ./my-table\n", dir)
	return nil
}
