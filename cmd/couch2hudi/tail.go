package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// tailFlags is what a tail asks for.
type tailFlags struct {
	// query has the flags that both have.
	query            queryFlags
	checkpoint, exec string
	interval, lease  time.Duration
	retries          int
	once             bool
}

func newTail(s streams) *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use:   "tail --table URL",
		Short: "Follow a table's commits and print the rows, resumably",
		Long: `Follow a table's commits and print the rows that each of them wrote, tombstones
included, commit by commit and each commit whole. Without --since and without a
checkpoint it begins behind the newest commit.

--checkpoint FILE keeps the position: the last commit that was printed. The next
start goes on behind it. The file is replaced in one piece and is on disk before the
next commit is read.

--exec CMD runs a command of the shell for each commit that has rows, with the rows
on its standard input (jsonl unless --format says otherwise) and the commit's instant
in COUCH2HUDI_INSTANT. It gets them whole, from a temporary file. The position moves only when it exits with 0: a commit may come
twice, after a crash between the two, and is never lost. Who writes rows under the
instant as their key, or remembers the last one, is not hurt by that. A command that
fails is run again after 1, 2, 4, ... up to 30 seconds, --retry times; then tail ends
with exit code 1 and the position stays.

A commit that is still open holds back later ones. While it runs, tail keeps a read
lease on the table, so that cleaning leaves what it has not read; with a checkpoint
the lease stays for --lease after the end. A position that cleaning has passed all the
same ends with exit code 4; with --fallback snapshot the snapshot of the newest commit
comes as one batch, COUCH2HUDI_MODE=snapshot, and tail goes on behind it.

SIGTERM and SIGINT end it with 0.`,
		Example: `  couch2hudi tail --table ./demo-table
  couch2hudi tail --table ./demo-table --since earliest --once --columns _id,_rev,_op
  couch2hudi tail --table ./demo-table --checkpoint ./shop.position --since earliest --exec 'psql -f - ...'
  couch2hudi tail --table ./demo-table --checkpoint ./p --exec 'cat > "out/$COUCH2HUDI_INSTANT.jsonl"'
  couch2hudi tail --table ./demo-table --where "_op = 'd'" --interval 10s`,
		RunE: func(c *cobra.Command, _ []string) error {
			return runTail(c.Context(), s, f)
		},
	}
	q := &f.query
	c.Flags().StringVar(&q.table, "table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().StringVar(&f.checkpoint, "checkpoint", "", "keep the position in this file, and go on from there")
	c.Flags().StringVar(&q.since, "since", "", "where to begin when there is no checkpoint: behind this instant (as for query)")
	c.Flags().BoolVar(&q.sinceInclusive, "since-inclusive", false, "--since names the first commit to read, not the last one that was")
	c.Flags().StringVar(&f.exec, "exec", "", "run this for each commit, with its rows on standard input")
	c.Flags().IntVar(&f.retries, "retry", defaultRetries, "run --exec again this often when it fails (-1: for ever)")
	c.Flags().DurationVar(&f.interval, "interval", time.Second, "look for new commits this often")
	c.Flags().BoolVar(&f.once, "once", false, "stop when all commits are read")
	c.Flags().DurationVar(&f.lease, "lease", time.Hour, "cleaning keeps what tail needs for this long after it was last seen (0: no lease)")
	c.Flags().StringVar(&q.fallback, "fallback", "", "snapshot: read that when the position was cleaned")
	c.Flags().StringVar(&q.format, "format", "", "table, jsonl, csv or parquet (default: table on a terminal, else jsonl; parquet for --exec alone)")
	c.Flags().StringVar(&q.where, "where", "", "only rows that meet these conditions (as for query)")
	c.Flags().StringArrayVar(&q.partitions, "partition", nil, "only this partition: its folder, or its value (may come again)")
	c.Flags().StringSliceVar(&q.columns, "columns", nil, "only these columns, in this order")
	return c
}

const defaultRetries = 5

func (f *tailFlags) check(s streams) error {
	wrong := func(format string, a ...any) error { return &usageError{err: fmt.Errorf(format, a...)} }
	switch {
	case f.query.sinceInclusive && f.query.since == "":
		return wrong("--since-inclusive needs --since")
	case f.interval <= 0:
		return wrong("--interval is not positive")
	case f.lease < 0:
		return wrong("--lease is negative")
	case f.retries < -1:
		return wrong("--retry takes -1 (for ever) and more, not %d", f.retries)
	case f.query.format == formatParquet && f.exec == "":
		return wrong("--format parquet needs --exec: each commit is a file of its own")
	}
	if f.exec != "" && f.query.format == "" {
		f.query.format = formatJSONL
	}
	return f.query.checkReading(s)
}

func runTail(ctx context.Context, s streams, f tailFlags) error {
	if err := f.check(s); err != nil {
		return err
	}
	limitMemory(readMemory)
	t, closeTable, err := openForReading(ctx, f.query.table)
	if err != nil {
		return err
	}
	defer closeTable()
	r := &tailer{tailFlags: f, streams: s, table: t}
	if err := r.start(ctx); err != nil {
		return err
	}
	err = r.follow(ctx)
	if ctx.Err() != nil {
		err = nil // asked to end: what is not confirmed comes again
	}
	return errors.Join(err, r.release(context.WithoutCancel(ctx)))
}

// tailer follows a table.
type tailer struct {
	tailFlags
	streams
	table *table.Table
	// position is the last commit that was delivered, "" for none.
	position hudi.Time
	reader   readLease
}

// start finds the position: the checkpoint's, that of --since, or the newest
// commit's.
func (r *tailer) start(ctx context.Context) error {
	r.reader = newReadLease(r.table, r.checkpoint, r.lease)
	found, err := readCheckpoint(r.checkpoint, r.table.Name())
	if err != nil {
		return err
	}
	if found != "" {
		r.position = found
		return nil
	}
	if r.query.since != "" {
		r.position, err = r.query.begin(time.Now())
	} else {
		var v *table.View
		if v, err = r.table.View(ctx); err == nil {
			r.position, err = newestSettled(ctx, v)
		}
		if r.position == "" { // there is no commit yet: none is to be missed
			r.position, _ = parseInstant(earliest, padDown, time.Time{})
		}
	}
	if err != nil {
		return err
	}
	return r.keep()
}

// settled is where the completed writes of a view stand in ranges of changes,
// ascending, up to the first write that is still open. Where that goes by the time
// of completion nothing can come in between later.
func settled(ctx context.Context, v *table.View) ([]hudi.Time, error) {
	version, err := v.Table().Properties().Version()
	if err != nil {
		return nil, err
	}
	open := hudi.Time("")
	if !version.Completes() {
		if open, err = v.Unfinished(ctx); err != nil {
			return nil, err
		}
	}
	var list []hudi.Time
	for _, i := range v.Writes() {
		if open != "" && !i.Time.Before(open) {
			break
		}
		list = append(list, v.When(i))
	}
	slices.SortFunc(list, hudi.Time.Compare)
	return slices.Compact(list), nil
}

// newestSettled is the last of them, "" for none.
func newestSettled(ctx context.Context, v *table.View) (hudi.Time, error) {
	list, err := settled(ctx, v)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[len(list)-1], nil
}

// follow delivers commits until it is told to stop.
func (r *tailer) follow(ctx context.Context) error {
	for {
		v, err := r.table.View(ctx)
		if err == nil {
			err = r.catchUp(ctx, v)
		}
		if err != nil || r.once {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.interval):
		}
	}
}

// catchUp delivers the commits of a view behind the position.
func (r *tailer) catchUp(ctx context.Context, v *table.View) error {
	err := r.commits(ctx, v)
	if r.query.fallback != fallbackSnapshot || !isGone(err) {
		return err
	}
	last, lost := newestSettled(ctx, v)
	if lost != nil || last == "" {
		return errors.Join(err, lost)
	}
	_, _ = fmt.Fprintf(r.err, "couch2hudi: reading the snapshot as of %s instead of the changes after %s: %s; %s\n", last, r.position, oneLine(err.Error()), noHardDeletes)
	err = r.deliver(ctx, batch{view: v, instant: last, mode: modeSnapshot})
	if err != nil {
		return err
	}
	return r.reader.renew(ctx, r.position)
}

func (r *tailer) commits(ctx context.Context, v *table.View) error {
	if err := r.reader.due(ctx, r.position); err != nil {
		return r.hold(err)
	}
	v, err := v.Reaching(ctx, r.position)
	if err != nil {
		return err
	}
	list, err := settled(ctx, v)
	if err != nil {
		return err
	}
	for _, at := range list {
		if !at.After(r.position) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.deliver(ctx, batch{view: v, instant: at, mode: modeChanges}); err != nil {
			return err
		}
		if err := r.reader.due(ctx, r.position); err != nil {
			return r.hold(err)
		}
	}
	return nil
}

// hold decides on a lease that was not to be had: without a place to write it,
// reading goes on.
func (r *tailer) hold(err error) error {
	if isGone(err) {
		return err
	}
	_, _ = fmt.Fprintf(r.err, "couch2hudi: cleaning does not know of this reader: %s\n", oneLine(err.Error()))
	return nil
}

// The ways in which a batch was read, for the command.
const (
	modeChanges  = "changes"
	modeSnapshot = "snapshot"
)

// batch is what is delivered as one.
type batch struct {
	view    *table.View
	instant hudi.Time
	mode    string
}

// deliver hands a batch on, if it has rows, and moves the position.
func (r *tailer) deliver(ctx context.Context, b batch) error {
	schema, err := b.view.Schema(ctx)
	if err != nil {
		return err
	}
	if _, err := r.query.predicate.Bind(schema); err != nil {
		return &usageError{err: fmt.Errorf("--where: %w", err)}
	}
	l, columns, err := r.query.layout(schema)
	if err != nil {
		return err
	}
	o := reader.Options{Columns: columns, IncludeDeletes: true, Where: r.query.predicate, Partitions: r.query.candidates(r.table), Schema: schema}
	records := func() iter.Seq2[*hudi.Record, error] {
		if b.mode == modeSnapshot {
			return reader.Snapshot(ctx, b.view.Until(b.instant), o)
		}
		return reader.Incremental(ctx, b.view, r.position, b.instant, o)
	}
	some, err := anyOf(records())
	if err == nil && some {
		err = r.hand(ctx, b, l.source(records()))
	}
	if err != nil {
		return err
	}
	r.position = b.instant
	return r.keep()
}

// anyOf says whether there is a record.
func anyOf(records iter.Seq2[*hudi.Record, error]) (bool, error) {
	for _, err := range records {
		return err == nil, err
	}
	return false, nil
}

// keep makes the position durable.
func (r *tailer) keep() error {
	if r.checkpoint == "" {
		return nil
	}
	return writeCheckpoint(r.checkpoint, checkpoint{Table: r.table.Name(), Instant: r.position})
}

// hand prints a batch, or runs the command on it until it succeeds.
func (r *tailer) hand(ctx context.Context, b batch, rows rowSource) error {
	if r.exec == "" {
		return printRows(r.out, r.query.format, rows)
	}
	in, err := spool(func(out io.Writer) error { return printRows(out, r.query.format, rows) })
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it has no name
	pause := time.Second
	for attempt := 0; ; attempt++ {
		err := r.command(ctx, b, in)
		var status *commandError
		if err == nil || !errors.As(err, &status) || ctx.Err() != nil || attempt == r.retries {
			return err
		}
		_, _ = fmt.Fprintf(r.err, "couch2hudi: %s; trying again in %s\n", status, pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		const longest = 30 * time.Second
		pause = min(2*pause, longest)
	}
}

func (r *tailer) release(ctx context.Context) error {
	if r.checkpoint != "" {
		return nil // the next start goes on, and finds what it needs
	}
	return r.reader.release(ctx)
}

// candidates are the partition paths that --partition may mean, there or not.
func (f *queryFlags) candidates(t *table.Table) []string {
	var paths []string
	for _, name := range f.partitions {
		paths = append(paths, partitionPaths(t, name)...)
	}
	return slices.Compact(paths)
}
