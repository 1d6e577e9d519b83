package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	table, since, until, asOf, format string
	columns                           []string
	readOptimized, deleted            bool
	count                             bool
	limit                             int64
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
those commits left them, tombstones included: the begin is exclusive, --until is
inclusive. All three take an instant (yyyyMMddHHmmssSSS), a prefix of one, RFC
3339, "earliest", or a duration ago such as -15m. A prefix means its end for
--as-of and --until (20260131 is the end of that day), its beginning for --since.`,
		Example: `  couch2hudi query --table ./demo-table --limit 5
  couch2hudi query --table ./demo-table --columns _id,_rev,total --format jsonl
  couch2hudi query --table ./demo-table --as-of 20260131 --columns _id,_rev
  couch2hudi query --table ./demo-table --since -15m
  couch2hudi query --table ./demo-table --since 20260131 --until 20260201 --count`,
		RunE: func(c *cobra.Command, _ []string) error {
			return runQuery(c.Context(), s, f)
		},
	}
	c.Flags().StringVar(&f.table, "table", "", "the table: file:///path or a bare path")
	c.Flags().StringVar(&f.since, "since", "", "incremental: only what commits after this instant wrote")
	c.Flags().StringVar(&f.until, "until", "", "incremental: up to and with this instant")
	c.Flags().StringVar(&f.asOf, "as-of", "", "the snapshot as of this instant")
	c.Flags().StringVar(&f.format, "format", "", "table or jsonl (default: table on a terminal, else jsonl)")
	c.Flags().StringSliceVar(&f.columns, "columns", nil, "only these columns")
	c.Flags().BoolVar(&f.readOptimized, "read-optimized", false, "base files only, without what the logs hold")
	c.Flags().BoolVar(&f.deleted, "include-deleted", false, "with tombstones")
	c.Flags().BoolVar(&f.count, "count", false, "print the number of rows instead")
	c.Flags().Int64Var(&f.limit, "limit", 0, "at most this many rows (0: all)")
	return c
}

func runQuery(ctx context.Context, s streams, f queryFlags) error {
	if err := f.check(); err != nil {
		return err
	}
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
	schema, err := f.schema(ctx, v)
	if errors.Is(err, table.ErrNoSchema) && v != now {
		schema, err = f.schema(ctx, now) // before the first commit there is no row, and no other schema
	}
	if errors.Is(err, table.ErrNoSchema) && f.count {
		_, err := fmt.Fprintln(s.out, 0)
		return err
	}
	if err != nil {
		return err
	}
	rows, err := f.rows(ctx, v)
	if err != nil {
		return err
	}
	if f.count {
		return countRows(s, rows)
	}
	return printRows(s, schema, rows, f)
}

func (f *queryFlags) check() error {
	if f.readOptimized && (f.since != "" || f.until != "") {
		return &usageError{err: errors.New("--read-optimized and --since exclude each other")}
	}
	if f.asOf != "" && (f.since != "" || f.until != "") {
		return &usageError{err: errors.New("--as-of and --since exclude each other: an incremental read ends at --until")}
	}
	if f.until != "" && f.since == "" {
		return &usageError{err: errors.New("--until needs --since (\"--since earliest\" for all)")}
	}
	if f.limit < 0 {
		return &usageError{err: errors.New("--limit is negative")}
	}
	return oneOfFormats(f.format, "", "table", "jsonl")
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
	return v.AsOf(at), nil
}

// schema is the table's, cut to the columns asked for.
func (f *queryFlags) schema(ctx context.Context, v *table.View) (*hudi.Schema, error) {
	full, err := v.Schema(ctx)
	if err != nil || len(f.columns) == 0 {
		return full, err
	}
	var picked []hudi.Column
	for _, name := range f.columns {
		i, ok := full.Lookup(name)
		if !ok {
			return nil, &usageError{err: fmt.Errorf("the table has no column %q; it has %s", name, columnNames(full))}
		}
		picked = append(picked, full.Columns()[i])
	}
	return hudi.MakeSchema(full.Name, full.Namespace, picked...)
}

func columnNames(s *hudi.Schema) string {
	var names []string
	for _, c := range s.Columns() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// rows picks the way of reading.
func (f *queryFlags) rows(ctx context.Context, v *table.View) (iter.Seq2[*hudi.Record, error], error) {
	o := reader.Options{Columns: f.columns, IncludeDeletes: f.deleted}
	switch {
	case f.since != "":
		begin, err := parseInstant(f.since, padDown, time.Now())
		if err != nil {
			return nil, &usageError{err: fmt.Errorf("--since: %w", err)}
		}
		o.IncludeDeletes = true
		return reader.Incremental(ctx, v, begin, v.Last(), o), nil
	case f.readOptimized:
		return reader.ReadOptimized(ctx, v, o), nil
	}
	return reader.Snapshot(ctx, v, o), nil
}

func countRows(s streams, rows iter.Seq2[*hudi.Record, error]) error {
	n := 0
	for _, err := range rows {
		if err != nil {
			return err
		}
		n++
	}
	_, err := fmt.Fprintln(s.out, n)
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
