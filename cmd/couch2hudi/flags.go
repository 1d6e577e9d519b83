package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/filter"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// configFlags are the flags that stand for fields of the config, and the file
// itself: loadFlags reads them.
func configFlags(c *cobra.Command, file *string) {
	d := config.Default()
	shapeFlags(c, file)
	c.Flags().String("table", "", "a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().Bool("trust-single-writer", d.Table.TrustSingleWriter, "go on with a store that ignores the condition of a put: nothing else ever writes to the table")
	c.Flags().String("index", d.Table.Index, "how keys are found, for the table's life: bloom, or bucket (the id's hash names the file)")
	c.Flags().String("ordering", d.Table.Ordering, "what orders two states of a document, for the table's life: leaf-sum, or generation for sources without leaf revisions")
	c.Flags().Int("buckets", d.Table.Buckets, "with --index bucket: file groups in each partition, for the table's life (see rebucket)")
	c.Flags().String("since", d.Source.Since, "where to begin when the table has no checkpoint: 0, now, or a seq")
	c.Flags().Duration("commit-interval", time.Duration(d.Commit.Interval), "close a commit this long after its first row")
	c.Flags().String("compaction", d.Compaction.Mode, "who compacts: async (in the background), inline, schedule-only (another process or engine), off")
	c.Flags().Int("compact-after", d.Compaction.MaxDeltaCommits, "compact a file group with so many log files; each commit writes one to it")
	c.Flags().String("state-dir", "", "where the key cache lives (default: the user's caches), or off for none")
	c.Flags().String("listen", d.Listen, "where the status page, /metrics, /healthz and /readyz are, or off")
	c.Flags().Duration("retain", time.Duration(d.Retain), "how far back readers may begin: cleans keep what they need")
	c.Flags().String("log-format", "", "text or json (default: text on a terminal, else json)")
	c.Flags().String("log-level", d.Log.Level, "debug, info, warn or error")
}

// shapeFlags are those of them that say what the columns become of what source.
func shapeFlags(c *cobra.Command, file *string) {
	d := config.Default()
	c.Flags().StringVarP(file, "config", "c", "", "config file (YAML); flags win over it")
	c.Flags().String("source", "", "couchdb://user:pass@host:5984/db, couchdbs:// for TLS, http(s)://host/db, kafka://broker:9092,broker:9092/topic?group=NAME, or ndjson:///folder")
	c.Flags().String("table-name", "", "the table's name (default: the database's)")
	c.Flags().String("partition-field", "", "document field that partitions the table (default: none)")
	c.Flags().String("partition-format", "", "how its times become folders, such as yyyyMMdd")
	c.Flags().String("deletes", d.Table.Deletes, "tombstone (a row that says so) or hard (the row goes)")
	c.Flags().Bool("keep-doc", d.Columns.KeepDoc, "keep the whole document in the column _doc")
}

// newNormalizer is the config's, for a table of that name.
func newNormalizer(cfg config.Config, table string) (*normalize.Normalizer, error) {
	o := normalize.Options{Table: table, Ordering: cfg.Table.Ordering, Deletes: cfg.Table.Deletes,
		PartitionField: cfg.Table.Partition.Field, PartitionFormat: cfg.Table.Partition.Format,
		PartitionTimezone: cfg.Table.Partition.Timezone, PartitionName: cfg.Table.Partition.Name,
		BareFolders: !cfg.Table.Partition.HiveStyle, PlainFolders: !cfg.Table.Partition.URLEncode,
		DropDoc: !cfg.Columns.KeepDoc, Seq: cfg.Columns.Seq, MaxColumns: cfg.Columns.MaxColumns,
		Nested: cfg.Columns.Nested, NestedDepth: cfg.Columns.NestedDepth, NestedWidth: cfg.Columns.NestedWidth,
		Others: cfg.Columns.Others, Conflict: cfg.Columns.OnConflict, Salt: cfg.Columns.Salt.Reveal()}
	_, o.Databases = cfg.Shared()
	if cfg.Source.Filter != "" {
		f, err := filter.Compile(cfg.Source.Filter)
		if err != nil {
			return nil, &config.FieldError{Field: "source.filter", Err: err}
		}
		o.Filter = f
	}
	for _, d := range cfg.Columns.Declare {
		o.Declare = append(o.Declare, normalize.Declared{Name: d.Name, Path: d.Path, Type: d.Type, Format: d.Format,
			Required: d.Nullable != nil && !*d.Nullable, Conflict: d.OnConflict, Mask: d.Mask})
	}
	n, err := normalize.New(o)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("table %q: %w", table, err)}
	}
	return n, nil
}
