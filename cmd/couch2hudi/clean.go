package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/table"
)

func newClean(s streams) *cobra.Command {
	var file string
	var dryRun bool
	d := config.Default()
	c := &cobra.Command{
		Use:   "clean --table URL",
		Short: "Delete files that only readers of a past before --retain need",
		Long: `Delete the files that no reading of now, or of the last --retain, needs any more:
base and log files that were merged or written again, and replaced file groups.
run does this by itself, unless clean.policy is off; this needs the table's lease,
so stop run before.

Kept in any case is what pending compactions and clusterings, savepoints and
registered readers need. A clean that another process began is finished first, by
its own plan. Readings of an earlier past end with exit code 4 from then on, and
name the oldest instant that works.`,
		Example: `  couch2hudi clean --table ./shop-table --dry-run
  couch2hudi clean --table ./shop-table --retain 2h
  couch2hudi clean --table ./shop-table --policy commits --keep 10`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadServed(c, file)
			if err != nil {
				return err
			}
			if err := errors.Join(cfg.Clean.Validate(), cfg.ValidateRetain()); err != nil {
				return err
			}
			if dryRun {
				return showClean(c.Context(), s, cfg)
			}
			return clean(c.Context(), s, cfg)
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "config file (YAML), for the table, retain and clean.*; flags win over it")
	c.Flags().String("table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().Duration("retain", time.Duration(d.Retain), "how far back readers may begin")
	c.Flags().String("policy", d.Clean.Policy, "what is counted: hours (--retain), commits or versions (--keep)")
	c.Flags().Int("keep", d.Clean.Keep, "how many commits, or versions of a file group, to keep (0: 10 and 3)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say which files would go")
	return c
}

// loadServed is the config of a verb that needs a table and no source.
func loadServed(c *cobra.Command, file string) (config.Config, error) {
	cfg, err := loadOne(c, file)
	if err == nil && cfg.Table.URL == "" {
		err = &usageError{err: errors.New("--table is missing"), command: c.CommandPath()}
	}
	return cfg, err
}

func clean(ctx context.Context, s streams, cfg config.Config) (err error) {
	t, release, err := openLeasedTable(ctx, cfg.Table.Address())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := t.Recover(ctx); err != nil {
		return err
	}
	done, err := compaction.Clean(ctx, t, cleanPolicy(cfg))
	for _, c := range done {
		_, _ = fmt.Fprintf(s.out, "%s cleaned: %d files%s\n", c.Instant, c.Files, readable(c))
	}
	if err == nil && len(done) == 0 {
		_, err = fmt.Fprintln(s.out, nothingToClean)
	}
	return err
}

const nothingToClean = "nothing to clean"

func readable(c table.Cleaned) string {
	if c.Earliest == "" {
		return ""
	}
	return fmt.Sprintf("; the table can be read as of %s and later", c.Earliest)
}

// showClean says what a clean would delete.
func showClean(ctx context.Context, s streams, cfg config.Config) error {
	t, closeTable, err := openForReading(ctx, cfg.Table.Address())
	if err != nil {
		return err
	}
	defer closeTable()
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	for _, i := range v.Instants() {
		if i.Action == commitmeta.ActionClean && !i.Done() {
			_, _ = fmt.Fprintf(s.err, "%s is pending and would be finished first, by its own plan\n", i)
		}
	}
	next, ok, err := compaction.NextClean(ctx, v, cleanPolicy(cfg))
	if err != nil {
		return err
	}
	if !ok {
		_, err = fmt.Fprintln(s.out, nothingToClean)
		return err
	}
	return printPlan(s.out, next.Plan)
}

func printPlan(out io.Writer, p commitmeta.CleanPlan) error {
	n := 0
	for _, partition := range slices.Sorted(maps.Keys(p.Files)) {
		for _, f := range p.Files[partition] {
			if _, err := fmt.Fprintln(out, path.Join(partition, f.Path)); err != nil {
				return err
			}
			n++
		}
	}
	_, err := fmt.Fprintf(out, "%d files would be deleted%s\n", n, readable(table.Cleaned{Earliest: p.Earliest.Time}))
	return err
}
