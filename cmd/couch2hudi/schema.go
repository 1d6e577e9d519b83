package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
)

// columnLine is one line of `schema --format jsonl`, a contract.
type columnLine struct {
	Name string `json:"name"`
	// Type is the Avro type: a name, or JSON for one that has parts.
	Type string `json:"type"`
	// Field is the documents' field, or the path of a part of one, where it is not
	// the column's name.
	Field string `json:"field,omitempty"`
	// Origin is "inferred" or "declared" for a column of documents.
	Origin string `json:"origin,omitempty"`
	// Mask is what was done to the values, if anything.
	Mask string `json:"mask,omitempty"`
	// Since is the first commit with the column; with OrBefore it is the first that
	// was looked at, and has the column already.
	Since    string `json:"since,omitempty"`
	OrBefore bool   `json:"since_or_before,omitempty"`
	Doc      string `json:"doc,omitempty"`
	// Values is how many values of the field the sampled rows have, Rescued those of
	// them that no column holds. They stand at the first column of the field. A
	// field without a column has a line without a name, and origin "rescued".
	Values  int `json:"values,omitempty"`
	Rescued int `json:"rescued,omitempty"`
}

// schemaFlags is what schema is asked for.
type schemaFlags struct {
	table, format, file string
	sample              int
	history, suggest    bool
}

func newSchema(s streams) *cobra.Command {
	var f schemaFlags
	c := &cobra.Command{
		Use:   "schema {--table URL | --source URL | -c FILE}",
		Short: "The columns of a table, or what would be inferred from a source",
		Long: `Print the columns of a table: name, type, the documents' field where it has
another name, the first commit that has the column, what it holds, and how many of
the field's values no column could hold, so that they are in _rescued alone. Those are
counted in --sample rows, taken from all over the table, or in all with --sample 0.
With --history the first commit is looked for in the archive too, all of which is
read; else "or before" is said of a column that the active timeline begins with. With
--suggest print declarations for a config that give the rescued values a column.

With --source, or with a config file and no --table, print instead the columns
that a new table would begin with: the first --sample documents of the source are
read, and nothing is written anywhere. Fields that come later, and values that
then do not fit, are seen to by run: new columns, and _rescued. With --format yaml
the columns are printed as declarations for a config, with better types where all
of the sample has them.`,
		Example: `  couch2hudi schema --table ./shop-table
  couch2hudi schema --table ./shop-table --sample 0 --suggest
  couch2hudi schema --table ./shop-table --format avro > shop.avsc
  couch2hudi schema --source couchdb://user:pass@localhost:5984/shop --sample 100000
  couch2hudi schema --source couchdb://user:pass@localhost:5984/shop --format yaml
  couch2hudi schema -c couch2hudi.yaml --format jsonl | jq -r .name`,
		RunE: func(c *cobra.Command, _ []string) error {
			return runSchema(c, s, f)
		},
	}
	const sample = 10_000
	shapeFlags(c, &f.file)
	c.Flags().StringVar(&f.table, "table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().StringVar(&f.format, "format", "", "table, jsonl, avro, or yaml (the columns as declarations for a config); default: table on a terminal, else jsonl")
	c.Flags().IntVar(&f.sample, "sample", sample, "look at this many documents of a source, or rows of a table (0: all rows)")
	c.Flags().BoolVar(&f.history, "history", false, "with a table: look for a column's first commit in the archive too")
	c.Flags().BoolVar(&f.suggest, "suggest", false, "with a table: print only declarations that give rescued values a column")
	return c
}

func runSchema(c *cobra.Command, s streams, f schemaFlags) error {
	if err := oneOfFormats(f.format, "", "table", "jsonl", "avro", "yaml"); err != nil {
		return err
	}
	source := c.Flags().Changed("source")
	if f.file != "" && f.table != "" {
		if done, err := schemaOfEntry(c, s, &f); done || err != nil {
			return err
		}
	}
	switch {
	case f.sample < 0 || f.sample == 0 && f.table == "":
		return &usageError{err: fmt.Errorf("--sample takes 1 or more, of a table's rows also 0, not %d", f.sample)}
	case f.table != "" && source:
		return &usageError{err: errors.New("--table and --source exclude each other")}
	case (f.history || f.suggest) && f.table == "":
		return &usageError{err: errors.New("--history and --suggest go with --table")}
	case f.suggest && f.format != "" && f.format != "yaml":
		return &usageError{err: fmt.Errorf("--suggest prints YAML, not %s", f.format)}
	case f.table != "":
		return runTableSchema(c.Context(), s, f)
	case !source && f.file == "":
		return &usageError{err: errors.New("--table, --source or -c is missing"), command: c.CommandPath()}
	}
	cfg, err := loadOne(c, f.file)
	if err != nil {
		return err
	}
	d, err := sourceSchema(c.Context(), s, cfg, f.sample)
	if err != nil {
		return err
	}
	return d.print(s.out, f.format)
}

// described is a schema with what it does not say itself.
type described struct {
	*hudi.Schema
	// partition is the partition column, "" for none; since is the first commit
	// with a column.
	partition string
	since     map[string]hudi.Time
	// before says that the commits before oldest were not looked at.
	oldest hudi.Time
	before bool
	// audit is what sampled rows showed, nil when there were none to look at; whole
	// says that it were all.
	audit *normalize.Audit
	whole bool
	// sights are what a sample showed of the fields; nil for a table.
	sights []normalize.Sight
}

// sourceSchema is what a new table would begin with. What was read goes to
// s.err.
func sourceSchema(ctx context.Context, s streams, cfg config.Config, sample int) (described, error) {
	if cfg.Table.URL == "" {
		cfg.Table.URL = "." // Validate wants one; it is not looked at
	}
	if err := cfg.Validate(); err != nil {
		return described{}, err
	}
	log := newLogger(s.err, cfg.Log.Format, cfg.Log.Level)
	name, err := nameOf(ctx, cfg, log)
	if err != nil {
		return described{}, err
	}
	n, err := newNormalizer(cfg, name)
	if err != nil {
		return described{}, err
	}
	seen, err := n.Survey()
	if err != nil {
		return described{}, err
	}
	look := sampleOne
	if _, shared := cfg.Shared(); shared {
		look = sampleAll
	}
	var counted countedSource
	if err := look(ctx, cfg, seen, &counted, sample, log); err != nil {
		return described{}, fmt.Errorf("read the first changes: %w", err)
	}
	log.Info("read a sample", keyRows, counted.rows, keyBytes, counted.bytes,
		keyQuarantined, seen.Broken(), "whole", counted.whole, keyPending, counted.pending)
	d := described{sights: seen.Sights()}
	if d.Schema, err = seen.Schema(); err != nil {
		return described{}, err
	}
	if cfg.Table.Partition.Field != "" {
		d.partition = cfg.Table.Partition.Name
	}
	return d, nil
}

// nameOf is what a table would be called.
func nameOf(ctx context.Context, cfg config.Config, log *slog.Logger) (_ string, err error) {
	if _, shared := cfg.Shared(); shared {
		return sharedName(cfg)
	}
	source, err := openSource(ctx, cfg, log, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	id, err := source.Identify(ctx)
	if err != nil {
		return "", fmt.Errorf("identify source: %w", err)
	}
	return or(cfg.Table.Name, id.Name), nil
}

// sampleOne shows a survey the first documents of a source, and counts them.
func sampleOne(ctx context.Context, cfg config.Config, seen *normalize.Survey, counted *countedSource, documents int, log *slog.Logger) (err error) {
	source, err := openSource(ctx, cfg, log, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	counted.Source = source
	limit := changes.Limit{Rows: cfg.Commit.MaxRows, Bytes: int64(cfg.Memory) / 16} //nolint:mnd // as run does
	return pipeline.SampleColumns(ctx, counted, seen, "", limit, documents)
}

// countedSource counts what is read from a source.
type countedSource struct {
	changes.Source
	rows           int
	bytes, pending int64
	whole          bool
}

// Next is the source's.
func (c *countedSource) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	b, err := c.Source.Next(ctx, after, limit)
	c.rows += len(b.Changes)
	c.bytes += b.Bytes
	c.pending, c.whole = b.Pending, b.CaughtUp
	return b, err
}

// print prints the columns in one of the three formats.
func (d described) print(out io.Writer, format string) error {
	switch {
	case format == "yaml":
		return d.suggest(out)
	case format == "avro":
		_, err := fmt.Fprintln(out, d.Avro())
		return err
	case format == "jsonl" || (format == "" && !terminal(out)):
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		for _, l := range d.lines() {
			if err := e.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "COLUMN\tTYPE\tFIELD\tORIGIN\tMASK\tSINCE\tRESCUED\tHOLDS")
	for _, l := range d.lines() {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", dash(l.Name), dash(shorten(l.Type)), dash(l.Field), dash(l.Origin), dash(l.Mask),
			dash(l.sinceWords()), dash(l.rescuedWords()), dash(l.Doc))
	}
	return w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return clip(s)
}

func (d described) lines() []columnLine {
	envelope := d.envelope()
	lines := make([]columnLine, 0, d.Len())
	for _, c := range d.Columns() {
		l := columnLine{Name: c.Name, Type: c.Type, Since: string(d.since[c.Name]), Doc: envelope[c.Name]}
		l.OrBefore = d.before && l.Since != "" && d.since[c.Name] == d.oldest
		if l.Type == "" {
			l.Type = c.Kind.String()
		}
		if l.Doc == "" {
			l.describe(&c, envelope != nil)
		}
		lines = append(lines, l)
	}
	return d.counted(lines)
}

// describe says where a column of documents comes from; of a table that is none
// of ours only what its writer noted.
func (l *columnLine) describe(c *hudi.Column, ours bool) {
	o := normalize.Describe(c)
	if !ours {
		l.Doc = c.Doc
		return
	}
	l.Origin, l.Mask = "inferred", o.Mask
	if o.Declared {
		l.Origin = "declared"
	}
	if o.Path != c.Name {
		l.Field = o.Path
	}
	switch o.Rule {
	case normalize.RuleJSON:
		l.Doc = "arrays and objects as JSON"
	case normalize.RuleAny:
		l.Doc = "all values as JSON"
	case normalize.RuleMixed:
		l.Doc = "strings, and all else as JSON"
	}
	switch {
	case c.Kind == hudi.KindNested:
		l.Doc = normalize.TypeOf(c)
	case o.Beside:
		l.Doc = "what does not fit the field's other column"
	case o.Format != "":
		l.Doc = "written as " + o.Format
	}
}

// envelope is what the columns hold that no document's field makes; nothing in
// a table that is none of ours.
func (d described) envelope() map[string]string {
	if _, ours := d.Lookup(hudi.ColumnRevOrder); !ours {
		return nil
	}
	id := "the document's _id, the record key"
	if _, shared := d.Lookup(hudi.ColumnKey); shared {
		id = "the document's _id"
	}
	return map[string]string{
		hudi.ColumnKey:         "the record key: the database, a slash and the _id",
		hudi.ColumnDB:          "the document's database",
		hudi.ColumnID:          id,
		hudi.ColumnRev:         "the winning revision",
		hudi.ColumnRevOrder:    "orders the states of a document",
		hudi.ColumnOp:          "u, or d for a tombstone",
		hudi.ColumnDeleted:     "true for a tombstone",
		hudi.ColumnLeaves:      "all leaf revisions as JSON, if several",
		hudi.ColumnAttachments: "attachment stubs as JSON",
		hudi.ColumnRescued:     "values that did not fit, as JSON",
		hudi.ColumnDoc:         "the document as received",
		normalize.ColumnSeq:    "the source's sequence of the row",
		d.partition:            "the partition's value",
	}
}
