package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

const (
	// someIDs are looked at: of the source's next rows, and of each base file.
	someIDs = 200
	// someCommits say how many file groups a commit touches.
	someCommits = 10
)

// buckets says what a table of the bucket index will meet. ids are the next ones
// of the source.
func (c *checker) buckets(ctx context.Context, cfg config.Config, t *checkedTable, ids []string) {
	if cfg.Table.Index != config.IndexBucket {
		return
	}
	if what := costlyLookups(cfg); what != "" && cfg.StateDir == config.StateOff {
		c.warn("table.lookups", cheaperLookups, "%s", what)
	}
	load := mergeLoad{Groups: min(cfg.Table.Buckets, cfg.Commit.MaxRows), Interval: time.Duration(cfg.Commit.Interval)}
	if t.view != nil {
		stored, err := storedIDs(ctx, t.view)
		if err != nil {
			c.fail("table.ids", err, "restore the file from a copy of the table")
			return
		}
		ids = slices.Concat(stored, ids)
		groups, err := touched(ctx, t.view)
		if err != nil {
			c.fail("table.merges", err, "")
			return
		}
		if groups > 0 {
			load.Groups = groups
		}
	}
	c.ids(ids, pins(cfg).Key)
	c.merges(load, cfg.Table.Buckets)
}

// ids warns of those that other writers hash otherwise.
func (c *checker) ids(ids []string, field string) {
	var misplaced, endless []string
	for _, id := range ids {
		elsewhere, never := hudi.BucketTrouble(id, field)
		if elsewhere {
			misplaced = append(misplaced, id)
		}
		if never {
			endless = append(endless, id)
		}
	}
	if len(misplaced) > 0 {
		c.warn("table.ids", "let no writer of Hudi 0.15 at the table, or make it with --index bloom",
			"%d of %d ids looked at hold a colon: Hudi 0.15 puts such rows into other buckets, and writes them a second time: %s",
			len(misplaced), len(ids), few(misplaced))
	}
	if len(endless) > 0 {
		c.warn("table.ids", "let no writer of Hudi 1.x at the table, or make it with --index bloom",
			"%d of %d ids looked at hold a comma and colons such that the bucket index of Hudi 1.x never comes back from them: %s",
			len(endless), len(ids), few(endless))
	}
	if len(misplaced)+len(endless) == 0 {
		c.ok("table.ids", "%d ids looked at, which all releases of Hudi put into the same bucket", len(ids))
	}
}

// storedIDs are some keys of some base files, of the last partitions first.
func storedIDs(ctx context.Context, v *table.View) (ids []string, err error) {
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	files := 0
	for _, p := range slices.Backward(partitions) {
		list, err := v.Slices(ctx, p)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if list[i].Base.Name == "" || files == someFiles {
				continue
			}
			files++
			some, err := keysOf(ctx, v, sampled{p, list[i].Base})
			if err != nil && !errors.Is(err, storage.ErrNotExist) { // cleaned meanwhile
				return nil, fmt.Errorf("%s/%s: %w", p, list[i].Base.Name, err)
			}
			ids = append(ids, some...)
		}
		if files == someFiles {
			break
		}
	}
	return ids, nil
}

func keysOf(ctx context.Context, v *table.View, s sampled) ([]string, error) {
	r, err := v.Open(ctx, s.partition, s.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	f, err := basefile.Open(r, r.Size())
	if err != nil {
		return nil, err
	}
	none, err := hudi.MakeSchema("keys", "", hudi.Column{Name: hudi.ColumnID, Kind: hudi.KindString})
	if err != nil {
		return nil, err
	}
	var ids []string
	for row, err := range f.Records(none, "") {
		if err != nil {
			return nil, err
		}
		if ids = append(ids, strings.Clone(row.Key.Record)); len(ids) == someIDs {
			break
		}
	}
	return ids, nil
}

// touched is to how many file groups each of the last commits with rows wrote, on
// average; 0 when none is known.
func touched(ctx context.Context, v *table.View) (int, error) {
	commits, groups := 0, 0
	for _, i := range slices.Backward(v.Writes()) {
		if i.Action != commitmeta.ActionDeltaCommit || commits == someCommits {
			continue
		}
		b, err := v.Body(ctx, i)
		if err != nil {
			return 0, err
		}
		n := 0
		for _, stats := range b.Stats {
			n += len(stats)
		}
		if n > 0 {
			commits, groups = commits+1, groups+n
		}
	}
	if commits == 0 {
		return 0, nil
	}
	return (groups + commits - 1) / commits, nil
}

// mergeLoad is what commits ask of the engine that compacts.
type mergeLoad struct {
	// Groups are the file groups that one commit writes to: a log file each.
	Groups int
	// Interval is the time from commit to commit.
	Interval time.Duration
}

// mergeVerdict is what becomes of it.
type mergeVerdict struct {
	// LogsADay are the log files written in a day.
	LogsADay int64
	// Merge is how long a compaction of what mergeEvery commits touched takes,
	// Window how long those commits do.
	Merge, Window time.Duration
	Fits          bool
	// FitInterval and FitGroups are the least interval and the most groups that
	// fit, the other staying as it is.
	FitInterval time.Duration
	FitGroups   int
}

const (
	// mergeEvery is after how many commits a group is compacted.
	mergeEvery = 10
	// mergeGroup is how long one group takes: a base file and ten logs are
	// opened and one base file written, which a store answers in tens of
	// milliseconds each.
	mergeGroup = 100 * time.Millisecond
	// mergeShare of the time may go into compactions: the rest is for bursts,
	// cleaning, and whatever else runs there.
	mergeShare = 2
)

// judge says whether compactions keep up. A compaction takes as many groups as a
// commit touches, since those of ten commits are mostly the same.
func (l mergeLoad) judge() mergeVerdict {
	const day = 24 * time.Hour
	interval := max(l.Interval, time.Millisecond)
	v := mergeVerdict{LogsADay: int64(l.Groups) * int64(day/interval), Merge: time.Duration(l.Groups) * mergeGroup, Window: mergeEvery * interval}
	v.Fits = v.Merge*mergeShare <= v.Window
	v.FitInterval = (v.Merge*mergeShare/mergeEvery + time.Second - 1).Truncate(time.Second)
	v.FitGroups = int(v.Window / mergeShare / mergeGroup)
	return v
}

func (c *checker) merges(l mergeLoad, buckets int) {
	v := l.judge()
	what := fmt.Sprintf("a commit writes to about %d file groups, so that %d log files come a day with one every %s", l.Groups, v.LogsADay, l.Interval)
	if v.Fits {
		c.ok("table.merges", "%s; compacting them after %d commits takes about %s of %s", what, mergeEvery, v.Merge, v.Window)
		return
	}
	next := fmt.Sprintf("set commit.interval to %s or more", v.FitInterval)
	if v.FitGroups > 0 && v.FitGroups < buckets {
		next += fmt.Sprintf(", or have %d buckets or fewer", v.FitGroups)
	}
	c.warn("table.merges", next, "%s: more than compactions can merge, which after %d commits take about %s of %s", what, mergeEvery, v.Merge, v.Window)
}
