package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/config"
)

func newArchive(s streams) *cobra.Command {
	var file string
	var dryRun bool
	d := config.Default().Timeline
	c := &cobra.Command{
		Use:   "archive --table URL",
		Short: "Move old instants from the timeline to the archive",
		Long: `Move old instants from the active timeline to the archive, so that listing it
stays quick: when it holds more than --keep-max completed commits, the oldest go
until --keep-min are left. run does this by itself; this needs the table's lease,
so stop run before.

The archive is Hudi's own, which Spark reads. couch2hudi goes on from a checkpoint
in it, and query and timeline reach into it as far as files were not cleaned.
Incremental readers of other engines see the active timeline alone: keep as many
commits as they may lie behind. Pending instants, savepoints and replacecommits
whose old files are still there stay, with all that came after them.`,
		Example: `  couch2hudi archive --table ./shop-table --dry-run
  couch2hudi archive --table ./shop-table --keep-min 100 --keep-max 120`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadServed(c, file)
			if err != nil {
				return err
			}
			if err := cfg.Timeline.Validate(); err != nil {
				return err
			}
			if dryRun {
				return showArchive(c.Context(), s, cfg)
			}
			return archive(c.Context(), s, cfg)
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "config file (YAML), for the table and timeline.*; flags win over it")
	c.Flags().String("table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().Int("keep-min", d.KeepMin, "completed commits to leave")
	c.Flags().Int("keep-max", d.KeepMax, "completed commits above which there is something to do")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say which instants would go")
	return c
}

const nothingToArchive = "nothing to archive"

func archive(ctx context.Context, s streams, cfg config.Config) (err error) {
	t, release, err := openLeasedTable(ctx, cfg.Table.Address())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := t.Recover(ctx); err != nil {
		return err
	}
	done, err := compaction.Archive(ctx, t, archivePolicy(cfg))
	if err != nil {
		return err
	}
	if done.Instants == 0 {
		_, err = fmt.Fprintln(s.out, nothingToArchive)
		return err
	}
	_, err = fmt.Fprintf(s.out, "%d instants up to %s archived\n", done.Instants, done.Last)
	return err
}

// showArchive says which instants an archival would move.
func showArchive(ctx context.Context, s streams, cfg config.Config) error {
	t, closeTable, err := openForReading(ctx, cfg.Table.Address())
	if err != nil {
		return err
	}
	defer closeTable()
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	old, err := compaction.NextArchival(ctx, v, archivePolicy(cfg))
	if err != nil {
		return err
	}
	if len(old) == 0 {
		_, err = fmt.Fprintln(s.out, nothingToArchive)
		return err
	}
	for _, i := range old {
		if _, err := fmt.Fprintln(s.out, i); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(s.out, "%d instants would be archived\n", len(old))
	return err
}
