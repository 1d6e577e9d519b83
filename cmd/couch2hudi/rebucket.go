package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/rebucket"
	"github.com/couch2hudi/couch2hudi/table"
)

func newRebucket(s streams) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "rebucket --table URL --buckets N",
		Short: "Give a table of the bucket index another number of buckets",
		Long: `Rewrite a table that was made with --index bucket to another number of buckets.

All rows are written again in one replacecommit, partition by partition, sorted in
bounded memory (what does not fit goes to temporary files). Rows keep their commit
times: readers of changes notice nothing, and the past can be read until the old
files are cleaned. The disk must hold the table twice until then.

Stop run before, or it ends with 5. Whatever dies, the table has the old number or
the new one; the same command again comes to the end. Start run with the new number
afterwards.`,
		Example: `  couch2hudi rebucket --table ./shop-table --buckets 128
  couch2hudi rebucket -c couch2hudi.yaml --buckets 128`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadOne(c, file)
			if err != nil {
				return err
			}
			switch {
			case cfg.Table.URL == "":
				return &usageError{err: errors.New("--table is missing"), command: c.CommandPath()}
			case !c.Flags().Changed("buckets"):
				return &usageError{err: errors.New("--buckets is missing"), command: c.CommandPath()}
			case cfg.Table.Buckets < 1 || cfg.Table.Buckets > config.MaxBuckets:
				return &usageError{err: fmt.Errorf("--buckets is %d, want 1 to %d", cfg.Table.Buckets, config.MaxBuckets), command: c.CommandPath()}
			}
			return runRebucket(c.Context(), s, cfg)
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "config file (YAML), for the table and the memory; flags win over it")
	c.Flags().String("table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().Int("buckets", 0, "the new number of file groups in each partition")
	return c
}

func runRebucket(ctx context.Context, s streams, cfg config.Config) (err error) {
	limitMemory(int64(cfg.Memory))
	t, release, err := openLeasedTable(ctx, cfg.Table.Address())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	show := func(r rebucket.Result) {
		_, _ = fmt.Fprintf(s.err, "%d partitions, %d rows, %d files\n", r.Partitions, r.Rows, r.Files)
	}
	if !terminal(s.err) {
		show = nil
	}
	done, err := pipeline.Rebucket(ctx, t, rebucket.Options{Buckets: cfg.Table.Buckets, Memory: int64(cfg.Memory), Partition: show})
	if err != nil {
		return err
	}
	return printRebucketed(s.out, t, cfg.Table.Buckets, done)
}

func printRebucketed(out io.Writer, t *table.Table, n int, done pipeline.Rebucketed) (err error) {
	switch {
	case done.From == n:
		_, err = fmt.Fprintf(out, "%s has %d buckets already\n", t.Name(), n)
	case done.Instant == "":
		_, err = fmt.Fprintf(out, "%s has %d buckets now instead of %d, and no rows yet; start run with --buckets %d\n", t.Name(), n, done.From, n)
	default:
		_, err = fmt.Fprintf(out, "%s has %d buckets now instead of %d: %d rows in %d files of %d partitions, commit %s; start run with --buckets %d\n",
			t.Name(), n, done.From, done.Rows, done.Files, done.Partitions, done.Instant, n)
	}
	if err == nil && done.Dropped > 0 {
		_, err = fmt.Fprintf(out, "%d older rows of documents that stood twice in a partition are gone: another writer had put them into a second bucket\n", done.Dropped)
	}
	return err
}
