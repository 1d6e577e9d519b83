package compaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// ErrKeys says that a merged base file has another number of keys than the slice. The
// compaction is taken back and the slice stays as it was.
var ErrKeys = errors.New("the merged file has another number of keys than the slice")

// RunOptions are the choices of a run; the zero value is the default.
type RunOptions struct {
	// Memory is about how many bytes a merge may hold, whatever the size of the
	// slice; 256 MiB by default.
	Memory int64
	// TempDir is the folder for what does not fit; the system's by default.
	TempDir string
	// Codec compresses base files.
	Codec basefile.Codec
	// Clock is the wall clock; default time.Now.
	Clock func() time.Time
	// Merged, when set, is called after each slice.
	Merged func(Merged)
}

const defaultMemory = 256 << 20

// Merged says what became of one slice.
type Merged struct {
	hudi.Location
	// Rows are those of the new base file, Bytes its size.
	Rows, Bytes int64
	// Done of Of slices of the plan are merged.
	Done, Of int
}

// Result is what a run did.
type Result struct {
	Instant     hudi.Time
	Slices      int
	Rows, Bytes int64
	LogFiles    int64
	ReadBytes   int64
	Took        time.Duration
}

// Run runs a pending compaction, whoever planned it: it merges each slice of the
// plan into a new base file and commits them together. After an error nothing of
// it is left but the plan, which can be run again. table.ErrBusy and
// table.ErrNotPending say that somebody else runs it, or has.
func Run(ctx context.Context, t *table.Table, at hudi.Time, o RunOptions) (Result, error) {
	o.Memory = cmp.Or(o.Memory, defaultMemory)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	c, err := t.BeginCompaction(ctx, at)
	if err != nil {
		return Result{}, err
	}
	began := o.Clock()
	r := &run{c: c, o: o, attempt: began, result: Result{Instant: at}}
	err = r.all(ctx)
	if err != nil {
		// The caller's ctx may be the reason; taking back must still work, and
		// soon.
		const patience = 5 * time.Second
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		abort := c.Abort(back)
		switch {
		case errors.Is(abort, table.ErrCommitted):
			// Only the answer was lost.
		case abort != nil:
			return Result{}, errors.Join(err, fmt.Errorf("take compaction %s back: %w", at, abort))
		default:
			return Result{}, err
		}
	}
	r.result.Took = o.Clock().Sub(began)
	return r.result, nil
}

// run is one run of a plan.
type run struct {
	c       *table.Compaction
	o       RunOptions
	attempt time.Time
	// files is the schema of rows in files.
	files  *hudi.Schema
	result Result
}

func (r *run) all(ctx context.Context) error {
	schema, err := r.c.View().Schema(ctx)
	if err != nil {
		return fmt.Errorf("read the table's schema: %w", err)
	}
	if r.files, err = r.c.View().Table().FileSchema(schema); err != nil {
		return err
	}
	b := commitmeta.Body{Compacted: true, Operation: "COMPACT", Extra: map[string]string{}, Stats: map[string][]commitmeta.WriteStat{}}
	maps.Copy(b.Extra, r.c.Plan().Extra)
	b.Extra[commitmeta.ExtraSchema] = schema.Avro()
	all := r.c.Slices()
	for i, s := range all {
		stat, err := r.merge(ctx, i, s)
		if err != nil {
			return fmt.Errorf("compact file group %q of partition %q: %w", s.File, s.Partition, err)
		}
		b.Stats[s.Partition] = append(b.Stats[s.Partition], stat)
		r.result.Slices++
		r.result.Rows += stat.Writes
		r.result.Bytes += stat.Bytes
		r.result.LogFiles += int64(len(s.Logs))
		r.result.ReadBytes += bytesOf(&s)
		if r.o.Merged != nil {
			r.o.Merged(Merged{Location: s.Location, Rows: stat.Writes, Bytes: stat.Bytes, Done: i + 1, Of: len(all)})
		}
	}
	return r.c.Commit(ctx, b)
}

// token is the write token: task, stage and attempt. No two runs share one, so
// that a run never takes another's file for its own.
func (r *run) token(task int) string {
	day := r.attempt.UTC().Truncate(24 * time.Hour)
	return fmt.Sprintf("%d-0-%d", task, r.attempt.Sub(day).Milliseconds())
}

// merge writes the base file that a slice becomes. Rows keep their commit time
// and number; when none is left the file is empty, but there.
func (r *run) merge(ctx context.Context, task int, s hudi.Slice) (commitmeta.WriteStat, error) {
	name := hudi.BaseFileName{File: s.File, Token: r.token(task), Instant: r.c.Instant()}.String()
	marker := table.MarkMerge
	if s.Base.Name == "" {
		marker = table.MarkCreate
	}
	up, err := r.c.Create(ctx, s.Partition, name, marker)
	if err != nil {
		return commitmeta.WriteStat{}, err
	}
	var t reader.Tally
	rows, err := r.write(ctx, up, name, task, s, &t)
	if err != nil {
		return commitmeta.WriteStat{}, errors.Join(err, up.Abort())
	}
	o, err := up.Commit()
	if err != nil {
		return commitmeta.WriteStat{}, err
	}
	if err := r.count(ctx, s, hudi.File{Name: name, Size: o.Size}, rows, &t); err != nil {
		return commitmeta.WriteStat{}, err
	}
	var logBytes int64
	for _, f := range s.Logs {
		logBytes += f.Size
	}
	return commitmeta.WriteStat{File: s.File, Path: path.Join(s.Partition, name), Partition: s.Partition, PrevCommit: s.Instant,
		Writes: rows, Updates: t.Updated, Inserts: t.Inserted, Deletes: t.Hidden, Bytes: o.Size,
		Compaction: commitmeta.CompactionStat{LogRecords: t.LogRows, LogFiles: int64(len(s.Logs)), LogBytes: logBytes,
			Updated: t.LogKeys, LogBlocks: t.LogBlocks}}, nil
}

func (r *run) write(ctx context.Context, to io.Writer, name string, task int, s hudi.Slice, t *reader.Tally) (rows int64, err error) {
	// Half of the memory sorts, an eighth is a row group in the making; the rest
	// is for pages, and for the collector to work in.
	const sortShare, groupShare = 2, 8
	w, err := basefile.NewWriter(to, r.files, basefile.WriterOptions{Stamp: hudi.Stamp{Instant: r.c.Instant(), Task: task},
		FileName: name, Codec: r.o.Codec, RowGroupBytes: min(basefile.DefaultRowGroupBytes, max(1, r.o.Memory/groupShare))})
	if err != nil {
		return 0, err
	}
	o := reader.Options{Memory: max(1, r.o.Memory/sortShare), TempDir: r.o.TempDir}
	for row, err := range reader.Compacted(ctx, r.c.View(), s, r.files, o, t) {
		if err != nil {
			return 0, err
		}
		if err := w.Append(row); err != nil {
			return 0, err
		}
		rows++
	}
	_, err = w.Close()
	return rows, err
}

// count compares what the stored file says of itself with what the base file
// said and what the logs add and take away.
func (r *run) count(ctx context.Context, s hudi.Slice, merged hudi.File, rows int64, t *reader.Tally) (err error) {
	in, err := r.c.View().Open(ctx, s.Partition, merged)
	if err != nil {
		return fmt.Errorf("read the merged file: %w", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	f, err := basefile.Open(in, in.Size())
	if err != nil {
		return fmt.Errorf("read the merged file %q: %w", merged.Name, err)
	}
	return checkRows(merged.Name, f.Footer().Rows, rows, t)
}

// checkRows compares the rows in a file with those that were written and those
// that the inputs have.
func checkRows(name string, got, rows int64, t *reader.Tally) error {
	if got != rows || got != t.Rows() {
		return fmt.Errorf("%w: %q has %d rows, %d were written; the base file has %d, the logs add %d and delete %d; "+
			"keep the table as it is and report this", ErrKeys, name, got, rows, t.Base, t.Inserted, t.Hidden)
	}
	return nil
}
