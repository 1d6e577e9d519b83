package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

const fallbackSnapshot = "snapshot"

// source picks the way of reading, and the columns. Rows of another kind than the
// table's come in here: what is printed is told by the source alone.
func (f *queryFlags) source(ctx context.Context, s streams, v *table.View, schema *hudi.Schema) (rowSource, error) {
	if _, err := f.predicate.Bind(schema); err != nil {
		return rowSource{}, &usageError{err: fmt.Errorf("--where: %w", err)}
	}
	l, columns, err := f.layout(schema)
	if err != nil {
		return rowSource{}, err
	}
	if f.count && len(columns) == 0 {
		columns = cheapest(schema)
	}
	o := reader.Options{Columns: columns, IncludeDeletes: f.deleted, Where: f.predicate}
	if o.Partitions, err = f.paths(ctx, v); err != nil {
		return rowSource{}, err
	}
	var records iter.Seq2[*hudi.Record, error]
	switch {
	case f.since != "":
		records, err = f.increment(ctx, s, v, o)
	case f.readOptimized:
		records = reader.ReadOptimized(ctx, v, o)
	default:
		records = reader.Snapshot(ctx, v, o)
	}
	if f.count {
		return rowSource{schema, func(yield func(hudi.Row, error) bool) {
			for r, err := range records {
				if err != nil || !yield(r.Row, nil) {
					if err != nil {
						yield(nil, err)
					}
					return
				}
			}
		}}, err
	}
	return l.source(records), err
}

// paths are the partition paths that --partition names: by themselves or by
// their values.
func (f *queryFlags) paths(ctx context.Context, v *table.View) ([]string, error) {
	var paths []string
	for _, name := range f.partitions {
		candidates := partitionPaths(v.Table(), name)
		found := false
		for _, path := range candidates {
			list, err := v.Slices(ctx, path)
			if err != nil {
				return nil, err
			}
			if found = len(list) > 0; found {
				paths = append(paths, path)
				break
			}
		}
		if found {
			continue
		}
		all, err := v.Partitions(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(candidates, func(path string) bool { return slices.Contains(all, path) })
		if i < 0 {
			return nil, &usageError{err: fmt.Errorf("--partition: the table has no partition %q; it has %s", name, some(all))}
		}
		paths = append(paths, candidates[i])
	}
	return paths, nil
}

// partitionPaths are the partition paths that a name may mean.
func partitionPaths(t *table.Table, name string) []string {
	name = strings.Trim(name, "/")
	p := t.Partitioning()
	if p.Field == "" {
		return []string{name}
	}
	return slices.Compact([]string{name, p.Path(name, name == hudi.DefaultPartition)})
}

// some is a list of names, the first of them when there are many.
func some(names []string) string {
	const many = 10
	if len(names) == 0 {
		return "none yet"
	}
	if len(names) > many {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:many], ", "), len(names)-many)
	}
	return strings.Join(names, ", ")
}

// begin is the exclusive begin that --since means.
func (f *queryFlags) begin(now time.Time) (hudi.Time, error) {
	begin, err := parseInstant(f.since, padDown, now)
	if err != nil {
		return "", &usageError{err: fmt.Errorf("--since: %w", err)}
	}
	if f.sinceInclusive {
		begin = before(begin)
	}
	return begin, nil
}

// before is the last instant before one.
func before(t hudi.Time) hudi.Time {
	if at, err := t.Clock(); err == nil {
		return hudi.FormatTime(at.Add(-time.Millisecond))
	}
	b := []byte(t) // Hudi has instants that are no time, such as 00000000000001
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] > '0' {
			b[i]--
			return hudi.Time(b)
		}
		b[i] = '9'
	}
	return t
}

// increment is the changes of a range, or the snapshot at its end where the flags
// want that. It says which on stderr when they could.
func (f *queryFlags) increment(ctx context.Context, s streams, v *table.View, o reader.Options) (iter.Seq2[*hudi.Record, error], error) {
	begin, err := f.begin(time.Now())
	if err != nil {
		return nil, err
	}
	o.IncludeDeletes = true
	say := func(format string, a ...any) { _, _ = fmt.Fprintf(s.err, "couch2hudi: "+format+"\n", a...) }
	snapshot := func(why string) iter.Seq2[*hudi.Record, error] {
		say("reading the snapshot as of %s instead of the changes after %s: %s; %s", v.Last(), begin, why, noHardDeletes)
		return reader.Snapshot(ctx, v, o)
	}
	gone := func(err error) bool { return f.fallback == fallbackSnapshot && isGone(err) }
	if f.maxIncrement > 0 {
		share, err := reader.Share(ctx, v, begin, v.Latest(), o)
		switch {
		case gone(err):
			return snapshot(oneLine(err.Error())), nil
		case err != nil:
			return nil, err
		case share > f.maxIncrement:
			return snapshot(fmt.Sprintf("the range touches %.0f%% of the table's bytes, more than --max-increment %v", share*percent, f.maxIncrement)), nil
		}
		say("reading the changes after %s: the range touches %.0f%% of the table's bytes, no more than --max-increment %v", begin, share*percent, f.maxIncrement)
	}
	changes := reader.Incremental(ctx, v, begin, v.Latest(), o)
	if f.fallback == "" {
		return changes, nil
	}
	return func(yield func(*hudi.Record, error) bool) {
		first := true
		for r, err := range changes {
			if first && err != nil && gone(err) {
				snapshot(oneLine(err.Error()))(yield)
				return
			}
			if first = false; !yield(r, err) {
				return
			}
		}
	}, nil
}

const percent = 100

// noHardDeletes is what a reader has to know who asked for changes and gets a
// snapshot.
const noHardDeletes = "all rows come, tombstones too, but rows that were hard-deleted meanwhile do not show: compare the keys"

// isGone says whether what was asked for is not there any more.
func isGone(err error) bool {
	return errors.Is(err, reader.ErrCleaned) || errors.Is(err, table.ErrArchived) || errors.Is(err, table.ErrCleaned)
}
