package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/config"
)

func newCompact(s streams) *cobra.Command {
	var file string
	var schedule, execute bool
	c := &cobra.Command{
		Use:   "compact --table URL",
		Short: "Merge log files into new base files",
		Long: `Merge the log files of a table into new base files, so that reads are quick and
read-optimized views are of now. run does this by itself, in the background,
unless --compaction says otherwise.

--schedule only writes the plan, for another process or engine to run; it needs
the table's lease, so stop run before. --execute only runs what is planned, by
whomever; it works beside a run. Without either the command does both, every
file group that has log files.

Nothing is lost or shown twice whatever dies: the plan stays and is run again.`,
		Example: `  couch2hudi compact --table ./shop-table
  couch2hudi run --source URL --table ./shop-table --compaction schedule-only
  couch2hudi compact --table ./shop-table --execute`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadOne(c, file)
			if err != nil {
				return err
			}
			switch {
			case cfg.Table.URL == "":
				return &usageError{err: errors.New("--table is missing"), command: c.CommandPath()}
			case schedule && execute:
				return &usageError{err: errors.New("--schedule and --execute exclude each other: without them it does both"), command: c.CommandPath()}
			}
			return compact(c.Context(), s, cfg, !execute, !schedule)
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "config file (YAML), for the table and compaction.memory; flags win over it")
	c.Flags().String("table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().BoolVar(&schedule, "schedule", false, "only plan")
	c.Flags().BoolVar(&execute, "execute", false, "only run what is planned")
	return c
}

func compact(ctx context.Context, s streams, cfg config.Config, schedule, execute bool) error {
	limitMemory(int64(cfg.Compaction.Memory))
	if schedule {
		if err := scheduleAll(ctx, s.out, cfg); err != nil {
			return err
		}
	}
	if !execute {
		return nil
	}
	t, closeTable, err := openWithoutLease(ctx, cfg.Table.Address())
	if err != nil {
		return err
	}
	defer closeTable()
	o := compaction.RunOptions{Memory: int64(cfg.Compaction.Memory)}
	if terminal(s.err) {
		o.Merged = func(m compaction.Merged) {
			_, _ = fmt.Fprintf(s.err, "\r\x1b[K%d of %d file groups", m.Done, m.Of)
			if m.Done == m.Of {
				_, _ = fmt.Fprintln(s.err)
			}
		}
	}
	n := 0
	err = compaction.RunAll(ctx, t, o, func(r compaction.Result) {
		n++
		_, _ = fmt.Fprintf(s.out, "%s compacted: %d log files of %d file groups into %d rows, %d bytes, in %s\n",
			r.Instant, r.LogFiles, r.Slices, r.Rows, r.Bytes, r.Took)
	})
	if err == nil && n == 0 {
		_, err = fmt.Fprintln(s.out, "nothing to compact")
	}
	return err
}

// scheduleAll plans under the lease, and lets it go for the run.
func scheduleAll(ctx context.Context, out io.Writer, cfg config.Config) (err error) {
	t, release, err := openLeasedTable(ctx, cfg.Table.Address())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := t.Recover(ctx); err != nil {
		return err
	}
	planned, err := compaction.ScheduleAll(ctx, t, compaction.Policy{})
	for _, at := range planned {
		_, _ = fmt.Fprintf(out, "%s planned\n", at)
	}
	return err
}
