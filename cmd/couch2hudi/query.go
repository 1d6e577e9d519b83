package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// queryFlags is what a query asks for.
type queryFlags struct {
	table, since, until, asOf, format, out string
	where, fallback                        string
	columns, partitions                    []string
	readOptimized, deleted                 bool
	sinceInclusive, count, changes         bool
	limit                                  int64
	maxIncrement                           float64
	// predicate is where, parsed.
	predicate *reader.Where
}

func newQuery(s streams) *cobra.Command {
	var f queryFlags
	c := &cobra.Command{
		Use:   "query --table URL",
		Short: "Read a table: snapshot, as of an instant, read-optimized or incremental",
		Long: `Read a table and print its rows.

Without --since the newest state of every document is printed (tombstones with
--include-deleted); with --as-of the state that it had at that instant, in the
columns of that time. With --since only the rows that commits after it wrote, as
those commits left them, tombstones included: the begin is exclusive (inclusive
with --since-inclusive), --until is inclusive. All three take an instant
(yyyyMMddHHmmssSSS), a prefix of one, RFC 3339, "earliest", or a duration ago such
as -15m. A prefix means its end for --as-of and --until (20260131 is the end of
that day), its beginning for --since. In tables of versions 8 and 9 commits stand
where they completed for --since and --until, as with Hudi itself.

--where takes conditions on columns with "and" between them: =, !=, <, <=, >, >=,
in (...), is null, is not null. Strings stand in quotes; a comparison with null is
never true. Partitions, files and pages that cannot hold such rows are not read:
"_id = 'x'" costs a few footers.

--columns prints these in this order; Hudi's meta columns may be among them. jsonl
has the meta columns in any case. csv is RFC 4180 with a header: a null is nothing
at all, an empty string a pair of quotes. parquet holds the columns in their types
and goes to a file or a pipe. --out replaces the file when all is written, and not
before; without --format its ending decides.

An incremental read of a range whose files were cleaned ends with exit code 4.
With --fallback snapshot the snapshot at its end is read instead, and with
--max-increment 0.3 also when the range touched more than 30% of the bytes of the
table's files: then a snapshot costs less. stderr says so; a snapshot shows all
rows, and does not show which ones were hard-deleted.

With --changes what each commit did to each row is printed, in the order of
commits: op (i, u or d), the row before and the row after. A tombstone is a row,
and so a u; a row that moves between partitions is a d and an i.`,
		Example: `  couch2hudi query --table ./demo-table --limit 5
  couch2hudi query --table ./demo-table --columns _id,_rev,total --format jsonl
  couch2hudi query --table ./demo-table --where "_id = 'order-00007'"
  couch2hudi query --table ./demo-table --where "status in ('paid', 'sent') and total >= 100" --out paid.csv
  couch2hudi query --table ./demo-table --partition 20260131 --out january.parquet
  couch2hudi query --table ./demo-table --as-of 20260131 --columns _id,_rev
  couch2hudi query --table ./demo-table --since -15m --fallback snapshot --max-increment 0.3
  couch2hudi query --table ./demo-table --since 20260131 --until 20260201 --count
  couch2hudi query --table ./demo-table --changes --since -15m`,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.changes {
				return runChanges(c.Context(), s, f)
			}
			return runQuery(c.Context(), s, f)
		},
	}
	f.register(c)
	return c
}

func (f *queryFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.table, "table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().StringVar(&f.since, "since", "", "incremental: only what commits after this instant wrote")
	c.Flags().BoolVar(&f.sinceInclusive, "since-inclusive", false, "--since names the first commit to read, not the last one that was")
	c.Flags().StringVar(&f.until, "until", "", "incremental: up to and with this instant")
	c.Flags().StringVar(&f.asOf, "as-of", "", "the snapshot as of this instant")
	c.Flags().StringVar(&f.where, "where", "", `only rows that meet these conditions, such as "total > 10 and status = 'paid'"`)
	c.Flags().StringArrayVar(&f.partitions, "partition", nil, "only this partition: its folder, or its value (may come again)")
	c.Flags().StringVar(&f.format, "format", "", "table, jsonl, csv or parquet (default: table on a terminal, else jsonl)")
	c.Flags().StringVar(&f.out, "out", "", "write to this file, in one piece")
	c.Flags().StringSliceVar(&f.columns, "columns", nil, "only these columns, in this order")
	c.Flags().BoolVar(&f.readOptimized, "read-optimized", false, "base files only, without what the logs hold")
	c.Flags().BoolVar(&f.deleted, "include-deleted", false, "with tombstones")
	c.Flags().BoolVar(&f.changes, "changes", false, "what commits did to rows: insert, update or delete, with the rows before and after")
	c.Flags().BoolVar(&f.count, "count", false, "print the number of rows instead")
	c.Flags().Int64Var(&f.limit, "limit", 0, "at most this many rows (0: all)")
	c.Flags().StringVar(&f.fallback, "fallback", "", "snapshot: read that when the range of --since was cleaned or is too large")
	c.Flags().Float64Var(&f.maxIncrement, "max-increment", 0, "read the snapshot when --since touches a larger share of the table's bytes (0: never)")
}

func runQuery(ctx context.Context, s streams, f queryFlags) error {
	if err := f.check(s); err != nil {
		return err
	}
	limitMemory(readMemory)
	t, closeTable, err := openForReading(ctx, f.table)
	if err != nil {
		return err
	}
	defer closeTable()
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	now := v
	if v, err = f.past(now); err != nil {
		return err
	}
	schema, err := v.Schema(ctx)
	if errors.Is(err, table.ErrNoSchema) && v != now {
		schema, err = now.Schema(ctx) // before the first commit there is no row, and no other schema
	}
	if errors.Is(err, table.ErrNoSchema) && f.count {
		_, err := fmt.Fprintln(s.out, 0)
		return err
	}
	if err != nil {
		return err
	}
	from, err := f.source(ctx, s, v, schema)
	if err != nil {
		return err
	}
	return f.deliver(s, limited(from, f.limit))
}

// deliver prints rows, or their number, to where the flags say.
func (f *queryFlags) deliver(s streams, from rowSource) error {
	to := func(out io.Writer) error { return printRows(out, f.format, from) }
	if f.count {
		to = func(out io.Writer) error { return countRows(out, from) }
	}
	if f.out == "" {
		return to(s.out)
	}
	return replaceFile(f.out, to)
}

// check looks at the flags by themselves, and fills in the format.
func (f *queryFlags) check(s streams) error {
	wrong := func(format string, a ...any) error { return &usageError{err: fmt.Errorf(format, a...)} }
	switch {
	case f.readOptimized && (f.since != "" || f.until != ""):
		return wrong("--read-optimized and --since exclude each other")
	case f.asOf != "" && (f.since != "" || f.until != ""):
		return wrong("--as-of and --since exclude each other: an incremental read ends at --until")
	case f.until != "" && f.since == "":
		return wrong("--until needs --since (\"--since earliest\" for all)")
	case f.since == "" && (f.sinceInclusive || f.fallback != "" || f.maxIncrement != 0):
		return wrong("--since-inclusive, --fallback and --max-increment need --since")
	case f.limit < 0:
		return wrong("--limit is negative")
	case f.maxIncrement < 0 || f.maxIncrement > 1:
		return wrong("--max-increment takes a share between 0 and 1, not %v", f.maxIncrement)
	}
	return f.checkReading(s)
}

// checkReading looks at the flags of all ways of reading.
func (f *queryFlags) checkReading(s streams) error {
	wrong := func(format string, a ...any) error { return &usageError{err: fmt.Errorf(format, a...)} }
	if f.fallback != "" && f.fallback != fallbackSnapshot {
		return wrong("--fallback takes snapshot, not %q", f.fallback)
	}
	if err := oneOfFormats(f.format, "", formatTable, formatJSONL, formatCSV, formatParquet); err != nil {
		return err
	}
	f.format = f.chosen(s)
	if f.format == formatParquet && f.out == "" && terminal(s.out) {
		return wrong("--format parquet writes no terminal: name a file with --out, or a pipe")
	}
	if f.where == "" {
		return nil
	}
	var err error
	if f.predicate, err = reader.ParseWhere(f.where); err != nil {
		return wrong("--where: %w", err)
	}
	return nil
}

// chosen is the format: as asked, by the ending of the file, or by what stdout is.
func (f *queryFlags) chosen(s streams) string {
	ending := strings.TrimPrefix(filepath.Ext(f.out), ".")
	switch {
	case f.format != "":
		return f.format
	case ending == formatCSV || ending == formatParquet:
		return ending
	case f.out == "" && terminal(s.out):
		return formatTable
	}
	return formatJSONL
}

// past is the view as of --as-of or --until, v without them: rows come in the
// schema of their time. An instant before the first commit is fine: there was
// nothing then.
func (f *queryFlags) past(v *table.View) (*table.View, error) {
	flag, text := "--as-of", f.asOf
	if f.until != "" {
		flag, text = "--until", f.until
	}
	if text == "" {
		return v, nil
	}
	at, err := parseInstant(text, padUp, time.Now())
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("%s: %w", flag, err)}
	}
	if f.until != "" {
		return v.Until(at), nil
	}
	return v.AsOf(at), nil
}

// layout is what is printed of the rows of a schema, and which of its columns are
// read for that.
func (f *queryFlags) layout(full *hudi.Schema) (*layout, []string, error) {
	if len(f.columns) == 0 {
		l, err := newLayout(full, nil)
		return l, nil, err
	}
	var data, names []string
	switch f.format {
	case formatJSONL:
		names = metaShown()
	case formatTable:
		names = []string{hudi.MetaCommitTime}
	}
	for _, name := range f.columns {
		if _, ok := full.Lookup(name); ok {
			data = append(data, name)
		} else if !slices.Contains(metaShown(), name) {
			return nil, nil, &usageError{err: fmt.Errorf("the table has no column %q; it has %s", name, columnNames(full))}
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(data)
	if data = slices.Compact(data); len(data) == 0 {
		data = cheapest(full)
	}
	read := make([]hudi.Column, 0, len(data))
	for _, name := range data {
		i, _ := full.Lookup(name)
		read = append(read, full.Columns()[i])
	}
	schema, err := hudi.MakeSchema(full.Name, full.Namespace, read...)
	if err != nil {
		return nil, nil, err
	}
	l, err := newLayout(schema, names)
	return l, data, err
}

// cheapest is a column to read where none is needed.
func cheapest(s *hudi.Schema) []string {
	best := 0
	for i, c := range s.Columns() {
		if c.Kind == hudi.KindBoolean {
			return []string{c.Name}
		}
		if c.Kind == hudi.KindLong && s.Columns()[best].Kind != hudi.KindLong {
			best = i
		}
	}
	return []string{s.Columns()[best].Name}
}

func columnNames(s *hudi.Schema) string {
	var names []string
	for _, c := range s.Columns() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

func countRows(out io.Writer, from rowSource) error {
	n := 0
	for _, err := range from.rows {
		if err != nil {
			return err
		}
		n++
	}
	_, err := fmt.Fprintln(out, n)
	return err
}

// oneOfFormats checks the value of --format.
func oneOfFormats(value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return &usageError{err: fmt.Errorf("--format takes %s, not %q", strings.Join(slices.DeleteFunc(slices.Clone(allowed),
		func(a string) bool { return a == "" }), " or "), value)}
}
