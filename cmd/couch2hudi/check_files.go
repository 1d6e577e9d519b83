package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

const (
	// manyLogs on one slice make every read of it slow.
	manyLogs = 20
	// someFiles of the table are opened, one a partition.
	someFiles = 16
	// farTime is how far a completed file's time may be from its instant.
	farTime = time.Hour
)

// census counts the files of a table.
type census struct {
	partitions, groups, bases, logs int
	baseBytes, logBytes             int64
	// most are the log files of the slice that has the most, worst is that
	// slice; bare are the groups without a base file.
	most, bare int
	worst      hudi.Location
	// hidden are partitions that Hadoop's readers do not see.
	hidden []string
	sample []sampled
}

// sampled is a base file to look into.
type sampled struct {
	partition string
	hudi.File
}

// files looks at the table's files.
func (c *checker) files(ctx context.Context, t *checkedTable) {
	n, err := count(ctx, t.view)
	if err != nil {
		c.fail("table.files", err, "")
		return
	}
	c.ok("table.files", "%d partitions, %d file groups: %d base files (%s), %d log files (%s)", n.partitions, n.groups,
		n.bases, size(n.baseBytes), n.logs, size(n.logBytes))
	if n.most > manyLogs {
		c.warn("table.logs", "couch2hudi compact, or let run compact by itself (compaction.mode)",
			"up to %d log files on one slice (%s in %q): each read of it opens them all", n.most, n.worst.File, n.worst.Partition)
	} else {
		c.ok("table.logs", "at most %d log files on one slice", n.most)
	}
	if n.bare > 0 {
		c.warn("table.bare", "couch2hudi compact", "%d file groups have no base file: hudi-rs fails and read-optimized queries miss them", n.bare)
	}
	if len(n.hidden) > 0 {
		c.warn("table.partitions", "name folders in Hive's way (pt=…), as tables of couch2hudi do",
			"Hive's incremental reader does not see folders that begin with an underscore: %s", few(n.hidden))
	}
	c.times(t.view)
	c.footers(ctx, t.view, n.sample)
}

func count(ctx context.Context, v *table.View) (census, error) {
	var n census
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return n, err
	}
	n.partitions = len(partitions)
	for _, p := range slices.Backward(partitions) {
		list, err := v.Slices(ctx, p)
		if err != nil {
			return n, err
		}
		if slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return strings.HasPrefix(s, "_") }) {
			n.hidden = append(n.hidden, p)
		}
		for i := range list {
			n.add(&list[i])
		}
		if i := slices.IndexFunc(list, func(s hudi.Slice) bool { return s.Base.Name != "" }); i >= 0 && len(n.sample) < someFiles {
			n.sample = append(n.sample, sampled{p, list[i].Base})
		}
	}
	return n, nil
}

func (n *census) add(s *hudi.Slice) {
	n.groups++
	if s.Base.Name == "" {
		n.bare++
	} else {
		n.bases++
		n.baseBytes += s.Base.Size
	}
	n.logs += len(s.Logs)
	for _, l := range s.Logs {
		n.logBytes += l.Size
	}
	if len(s.Logs) > n.most {
		n.most, n.worst = len(s.Logs), s.Location
	}
}

// few names the first of many.
func few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// size is a number of bytes for people.
func size(n int64) string {
	f, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f < 1024 {
			break
		}
		f, unit = f/1024, next
	}
	if unit == "B" {
		return config.Size(n).String()
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}

// times looks for completed files whose modification time is not that of their
// instant: Hudi 1.x places the log files of version 6 by it.
func (c *checker) times(v *table.View) {
	n, first, worst := 0, "", time.Duration(0)
	for _, i := range v.Writes() {
		at, err := i.Time.Clock()
		if err != nil {
			continue // of an engine that marks instants otherwise
		}
		if far := i.Modified.Sub(at).Abs(); far > farTime {
			n++
			if first == "" {
				first = string(i.Time)
			}
			worst = max(worst, far)
		}
	}
	if n == 0 {
		c.ok("table.times", "the timeline's files have the times of their instants")
		return
	}
	c.warn("table.times", "copy tables with their times (cp -a, rsync -a); after a copy without, compact the table before Hudi 1.x reads it",
		"%d completed instants have a file whose modification time is up to %s away, the first is %s: Hudi 1.x places log files by it",
		n, worst.Round(time.Minute), first)
}

// footers looks into some base files.
func (c *checker) footers(ctx context.Context, v *table.View, sample []sampled) {
	var zstd, bare []string
	for _, s := range sample {
		codec, bloom, err := footer(ctx, v, s)
		if errors.Is(err, storage.ErrNotExist) {
			continue // cleaned meanwhile
		}
		if err != nil {
			c.fail("table.base", fmt.Errorf("%s/%s: %w", s.partition, s.Name, err), "restore the file from a copy of the table")
			return
		}
		if codec == format.Zstd {
			zstd = append(zstd, s.Name)
		}
		if !bloom {
			bare = append(bare, s.Name)
		}
	}
	if len(zstd) > 0 {
		c.warn("table.codec", "write Snappy or gzip, or give the Flink cluster zstd-jni", "Zstd pages, which a Flink without zstd-jni cannot read: %s", few(zstd))
	}
	if len(bare) > 0 {
		c.warn("table.bloom", "let the engine that wrote them write bloom filters (hoodie.parquet.bloom.filter.enabled)",
			"base files without a key filter, at which Spark's bloom index fails: %s", few(bare))
	}
	if len(zstd)+len(bare) == 0 && len(sample) > 0 {
		c.ok("table.base", "%d base files looked into: compression that all readers have, with key filters", len(sample))
	}
}

func footer(ctx context.Context, v *table.View, s sampled) (codec format.CompressionCodec, bloom bool, err error) {
	r, err := v.Open(ctx, s.partition, s.File)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = r.Close() }()
	b, err := basefile.Open(r, r.Size())
	if err != nil {
		return 0, false, err
	}
	// What basefile opened the library opens again, for what it does not tell.
	p, err := parquet.OpenFile(r, r.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return 0, false, err
	}
	for _, group := range p.Metadata().RowGroups {
		for _, column := range group.Columns {
			if codec = column.MetaData.Codec; codec == format.Zstd {
				return codec, b.Footer().HasBloom, nil
			}
		}
	}
	return codec, b.Footer().HasBloom, nil
}
