// Package writer turns placed records into the files of one transaction: a log
// file for each known file group, base files for new keys, a new base file for
// each small group that takes some (docs/format).
package writer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/table"
)

const (
	defaultFileBytes  = 128 << 20
	defaultMaxRewrite = 16 << 20
	defaultMemory     = 64 << 20
)

// Options are the choices of a writing; the zero value is the default.
type Options struct {
	// FileBytes is the size, as stored, at which a base file is full; 128 MiB
	// by default. What new rows will take is estimated.
	FileBytes int64
	// MaxRewrite is the most bytes of small file groups, base files and logs
	// together, that one commit reads to write them again with new keys; 16 MiB
	// by default. It is less for a commit with few new keys (docs/adr/0016).
	// Below 0 nothing is written again.
	MaxRewrite int64
	// Backlog says that more records wait behind these: then time matters more
	// than the number of files, and a quarter is written again.
	Backlog bool
	// Buckets is the number of file groups in a partition of a table with the
	// bucket index; 0 for one without.
	Buckets int
	// HashField is the key field that a bucket is the hash of; Write takes the table's.
	HashField string
	// Memory bounds what all files being written hold at a time; 64 MiB by
	// default. Merging the keys of a rewritten group's logs comes on top.
	Memory int64
	// BlockBytes bounds a block of a log file, RowGroupBytes a row group of a
	// base file: what one file being written holds in memory. Zero is the
	// default of logfile and basefile, less where Memory is.
	BlockBytes    int
	RowGroupBytes int64
	// TempDir is the folder for temporary files; the system's by default.
	TempDir string
	// Codec compresses base files.
	Codec basefile.Codec
	// Parallel is how many files are written at a time; by default GOMAXPROCS, or
	// fewer where Memory is short.
	Parallel int
	// NewID names new file groups, without the counter at the end; random
	// UUIDs by default. It must never give the same name twice.
	NewID func() string
}

func (o Options) fileBytes() int64 { return or(o.FileBytes, defaultFileBytes) }

func (o Options) parallel() int {
	if o.Parallel > 0 {
		return o.Parallel
	}
	// More files at a time would have row groups too small to read well.
	const worthwhile = 16 << 20
	return int(max(1, min(int64(runtime.GOMAXPROCS(0)), or(o.Memory, defaultMemory)/worthwhile)))
}

// share is the memory of one of the files that are written at a time.
func (o Options) share() int64 { return max(1, or(o.Memory, defaultMemory)/int64(o.parallel())) }

func (o Options) rowGroupBytes() int64 {
	return min(or(o.RowGroupBytes, basefile.DefaultRowGroupBytes), o.share())
}

func (o Options) blockBytes() int {
	return int(min(or(int64(o.BlockBytes), logfile.DefaultBlockBytes), o.share()))
}

func (o Options) maxRewrite() int64 {
	switch {
	case o.MaxRewrite < 0:
		return 0
	case o.MaxRewrite == 0:
		return defaultMaxRewrite
	}
	return o.MaxRewrite
}

func or(n, otherwise int64) int64 {
	if n > 0 {
		return n
	}
	return otherwise
}

func (o Options) hashField() string {
	if o.HashField == "" {
		return hudi.ColumnID
	}
	return o.HashField
}

func (o Options) newID() string {
	if o.NewID == nil {
		return uuid.NewString()
	}
	return o.NewID()
}

// newFile is a new file group's name: a UUID and a counter, which is always 0
// because we roll over to another UUID.
func (o Options) newFile() hudi.FileID { return hudi.FileID(o.newID() + "-0") }

// Write writes the records into files of the transaction and says what it
// wrote, one stat a file, in the order of Assign. Files are written at the same
// time. Afterwards the File of each record's Location is the group that it went
// into. After an error the transaction must be aborted.
func Write(ctx context.Context, x *table.Txn, s *hudi.Schema, rs []hudi.Located, o Options) ([]commitmeta.WriteStat, error) {
	st, err := stateOf(ctx, x.View(), rs, o)
	if err != nil {
		return nil, err
	}
	o.HashField = x.View().Table().KeyColumn()
	plan, err := Assign(st, rs, o)
	if err != nil {
		return nil, err
	}
	files, err := x.View().Table().FileSchema(s)
	if err != nil {
		return nil, err
	}
	stats := make([]commitmeta.WriteStat, len(plan))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel())
	for i := range plan {
		g.Go(func() error {
			f := job{txn: x, schema: s, files: files, o: o, task: i, Assignment: plan[i]}
			var err error
			stats[i], err = f.write(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i := range plan {
		for _, r := range plan[i].Records {
			r.File = plan[i].Slice.File
		}
	}
	return stats, nil
}

// job writes one file.
type job struct {
	txn    *table.Txn
	schema *hudi.Schema
	// files is the schema of rows in files: another one with a changelog.
	files *hudi.Schema
	o     Options
	task  int
	Assignment
}

func (f *job) write(ctx context.Context) (commitmeta.WriteStat, error) {
	switch {
	case f.New:
		return f.writeBase(ctx)
	case f.Rewrite:
		return f.rewrite(ctx)
	}
	return f.writeLog(ctx)
}

// token is the write token: task, stage and attempt, as Spark has them. A
// transaction writes each file once.
func (f *job) token() string { return fmt.Sprintf("%d-0-0", f.task) }

func (f *job) stamp() hudi.Stamp { return hudi.Stamp{Instant: f.txn.Instant(), Task: f.task} }

func (f *job) baseWriter(to io.Writer, name string) (*basefile.Writer, error) {
	return basefile.NewWriter(to, f.files, basefile.WriterOptions{Stamp: f.stamp(), FileName: name,
		Codec: f.o.Codec, RowGroupBytes: f.o.rowGroupBytes()})
}

func (f *job) writeBase(ctx context.Context) (commitmeta.WriteStat, error) {
	at := f.Slice.Location
	name := hudi.BaseFileName{File: at.File, Token: f.token(), Instant: f.txn.Instant()}.String()
	size, err := f.store(ctx, name, table.MarkCreate, func(up io.Writer) error {
		w, err := f.baseWriter(up, name)
		if err != nil {
			return err
		}
		if err := f.append(ctx, w.Append, hudi.RowInsert); err != nil {
			return err
		}
		_, err = w.Close()
		return err
	})
	if err != nil {
		return commitmeta.WriteStat{}, fmt.Errorf("write base file %q: %w", name, err)
	}
	n := int64(len(f.Records))
	return commitmeta.WriteStat{File: at.File, Path: path.Join(at.Partition, name), Partition: at.Partition,
		Writes: n, Inserts: n, Bytes: size}, nil
}

func (f *job) writeLog(ctx context.Context) (commitmeta.WriteStat, error) {
	at := f.Slice.Location
	stat, name, err := logStat(f.Slice, f.token(), f.txn.View().Table().CDC() != hudi.CDCOff)
	if err != nil {
		return commitmeta.WriteStat{}, err
	}
	if f.changelog() {
		return f.writeChangelog(ctx, stat, name)
	}
	var wrote logfile.Stats
	size, err := f.store(ctx, name, table.MarkAppend, func(up io.Writer) error {
		w, err := logfile.NewWriter(up, f.schema, logfile.WriterOptions{Stamp: f.stamp(), File: at.File,
			BlockBytes: f.o.blockBytes()})
		if err != nil {
			return err
		}
		if err := f.append(ctx, w.Append, ""); err != nil {
			return err
		}
		wrote, err = w.Close()
		return err
	})
	if err != nil {
		return commitmeta.WriteStat{}, fmt.Errorf("write log file %q: %w", name, err)
	}
	stat.Writes, stat.Updates, stat.Deletes = wrote.Writes, wrote.Writes, wrote.Deletes
	stat.Bytes = size
	return stat, nil
}

// logStat names the next log file of a slice and says what its commit will say
// of it, less the counts. With whole it names all that the rows before the commit
// are merged from, which readers of changes need; Hudi's own writers name the
// files of a pending compaction's own slice alone.
func logStat(s hudi.Slice, token string, whole bool) (commitmeta.WriteStat, string, error) {
	base, baseName, logs := s.Instant, s.Base.Name, s.Logs
	if s.Compacting != "" {
		// The base and the older logs are the compaction's; what comes now is a
		// slice of its own, which begins with logs.
		base = s.Compacting
		if !whole {
			baseName = ""
		}
	}
	names, version := []string{}, 0
	for _, f := range logs {
		n, err := hudi.ParseLogFileName(f.Name)
		if err != nil {
			return commitmeta.WriteStat{}, "", err
		}
		switch {
		case n.Instant == base:
			version = max(version, n.Version)
		case !whole:
			continue
		}
		names = append(names, f.Name)
	}
	name := hudi.LogFileName{File: s.File, Instant: base, Version: version + 1, Token: token}.String()
	return commitmeta.WriteStat{File: s.File, Path: path.Join(s.Partition, name), Partition: s.Partition, PrevCommit: base,
		Log: &commitmeta.LogStat{Version: version + 1, BaseFile: baseName, LogFiles: append(names, name)}}, name, nil
}

// append hands the records on, until ctx is cancelled, in a table with a changelog
// with what was done.
func (f *job) append(ctx context.Context, to func(*hudi.Record) error, op string) error {
	const every = 1 << 10
	var tell telling
	for i, r := range f.Records {
		if i%every == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		record := &r.Record
		if f.changelog() {
			record = tell.row(record, op)
		}
		if err := to(record); err != nil {
			return fmt.Errorf("record %q: %w", r.Key.Record, err)
		}
	}
	return nil
}

// store uploads one file that fill writes, and says how large it is; nothing is
// left of it after an error.
func (f *job) store(ctx context.Context, name string, m table.Marker, fill func(io.Writer) error) (int64, error) {
	up, err := f.txn.Create(ctx, f.Slice.Partition, name, m)
	if err != nil {
		return 0, err
	}
	if err := fill(up); err != nil {
		return 0, errors.Join(err, up.Abort())
	}
	object, err := up.Commit()
	return object.Size, err
}
