// Package rebucket writes a table of the bucket index again with another number
// of buckets, in one replacecommit: all file groups are replaced by new ones,
// rows keep their commit times, and a reader sees the old ones or the new
// (docs/adr/0017).
package rebucket

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"

	"github.com/google/uuid"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// Options are the choices of a rewriting; Buckets is needed.
type Options struct {
	// Buckets is the new number.
	Buckets int
	// HashField are the key fields that are hashed; the table's own key field
	// by default.
	HashField string
	// Extra is what the commit carries beside the schema.
	Extra map[string]string
	// Memory is about how many bytes are held; 256 MiB by default. What does
	// not fit goes to files in TempDir, the system's by default.
	Memory  int64
	TempDir string
	// Codec compresses base files.
	Codec basefile.Codec
	// Partition is told after each partition, when set.
	Partition func(Result)
}

const defaultMemory = 256 << 20

// Shares of the memory: sorting, merging logs, and the base file being written.
const (
	sorterShare   = 3
	mergeShare    = 6
	rowGroupShare = 16
)

// Result is what was done, so far or in all.
type Result struct {
	// Instant is the replacecommit's.
	Instant hudi.Time
	// Partitions, Groups, Files, Rows and Bytes count partitions with rows, file
	// groups that were replaced, base files written, rows and stored bytes.
	Partitions, Groups, Files, Rows, Bytes int64
	// Dropped are older rows of keys that stood twice in a partition: another
	// writer had put them into a second bucket.
	Dropped int64
}

// Run rewrites the table. It needs the lease and a table without anything
// unfinished. After an error the table is as it was.
func Run(ctx context.Context, t *table.Table, o Options) (Result, error) {
	if o.Buckets < 1 {
		return Result{}, fmt.Errorf("%w: %d buckets", hudi.ErrBuckets, o.Buckets)
	}
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	if o.HashField == "" {
		o.HashField = t.KeyColumn()
	}
	x, err := t.BeginReplace(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("begin replacecommit: %w", err)
	}
	w := &rewriting{o: o, txn: x, result: Result{Instant: x.Instant()},
		body: commitmeta.Body{Operation: "CLUSTER", Stats: map[string][]commitmeta.WriteStat{}, Replaced: map[string][]hudi.FileID{}, Extra: o.Extra}}
	if err = w.run(ctx); err == nil {
		return w.result, nil
	}
	// The caller's ctx may be the reason; cleaning up must still work.
	if abort := x.Abort(context.WithoutCancel(ctx)); abort != nil {
		err = errors.Join(err, fmt.Errorf("abandon replacecommit %s: %w", x.Instant(), abort))
	}
	return Result{}, err
}

// rewriting is one run.
type rewriting struct {
	o   Options
	txn *table.Txn
	// schema is that of rows in files.
	schema *hudi.Schema
	body   commitmeta.Body
	result Result
}

func (w *rewriting) run(ctx context.Context) (err error) {
	v := w.txn.View()
	if w.schema, err = v.Schema(ctx); err != nil {
		return err
	}
	w.body.Extra = withSchema(w.body.Extra, w.schema)
	if w.schema, err = v.Table().FileSchema(w.schema); err != nil {
		return err
	}
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if err := w.partition(ctx, p); err != nil {
			return fmt.Errorf("rewrite partition %q: %w", p, err)
		}
	}
	if err := w.txn.Commit(ctx, w.body); err != nil {
		return fmt.Errorf("complete replacecommit %s: %w", w.txn.Instant(), err)
	}
	return nil
}

func withSchema(extra map[string]string, s *hudi.Schema) map[string]string {
	all := map[string]string{commitmeta.ExtraSchema: s.Avro()}
	maps.Copy(all, extra)
	return all
}

// partition sorts the rows of a partition into its new buckets.
func (w *rewriting) partition(ctx context.Context, partition string) error {
	slices, err := w.txn.View().Slices(ctx, partition)
	if err != nil || len(slices) == 0 {
		return err
	}
	rows := reader.NewSorter(reader.Options{Memory: w.o.Memory / sorterShare, TempDir: w.o.TempDir})
	for _, s := range slices {
		w.body.Replaced[partition] = append(w.body.Replaced[partition], s.File)
		if err := w.read(ctx, s, rows); err != nil {
			return errors.Join(fmt.Errorf("read file group %q: %w", s.File, err), rows.Close())
		}
	}
	f := &files{rewriting: w, partition: partition}
	err = f.write(ctx, rows)
	if err = errors.Join(err, rows.Close()); err != nil {
		return err
	}
	w.result.Groups += int64(len(slices))
	w.result.Partitions++
	w.result.Dropped += rows.Older()
	if w.o.Partition != nil {
		w.o.Partition(w.result)
	}
	return nil
}

func (w *rewriting) read(ctx context.Context, s hudi.Slice, rows *reader.Sorter) error {
	o := reader.Options{Memory: w.o.Memory / mergeShare, TempDir: w.o.TempDir}
	for r, err := range reader.Slice(ctx, w.txn.View(), s, w.schema, o) {
		if err == nil {
			err = rows.Add(hudi.BucketBy(r.Key.Record, w.o.HashField, w.o.Buckets), r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// files writes the sorted rows of a partition, a base file a bucket.
type files struct {
	*rewriting
	partition string
	open      *baseFile
	seen      int
}

func (f *files) write(ctx context.Context, rows *reader.Sorter) error {
	err := rows.Each(f.partition, func(bucket int, r *hudi.Record) error { return f.append(ctx, bucket, r) })
	if err == nil {
		err = f.closeFile()
	}
	if err != nil && f.open != nil {
		err = errors.Join(err, f.open.abort())
	}
	return err
}

func (f *files) append(ctx context.Context, bucket int, r *hudi.Record) error {
	const every = 1 << 10
	if f.seen++; f.seen%every == 0 && ctx.Err() != nil {
		return ctx.Err()
	}
	if f.open == nil || f.open.bucket != bucket {
		if err := f.closeFile(); err != nil {
			return err
		}
		if err := f.openFile(ctx, bucket); err != nil {
			return err
		}
	}
	f.open.rows++
	if err := f.open.out.Append(r); err != nil {
		return fmt.Errorf("write base file %q: %w", f.open.name, err)
	}
	return nil
}

// baseFile is the base file being written.
type baseFile struct {
	bucket int
	file   hudi.FileID
	name   string
	out    *basefile.Writer
	rows   int64
	// commit ends the upload and gives the file's size; abort ends it without.
	commit func() (int64, error)
	abort  func() error
}

func (f *files) openFile(ctx context.Context, bucket int) error {
	if f.result.Files > math.MaxInt32 {
		return fmt.Errorf("%w: more than %d files in a commit", hudi.ErrBuckets, math.MaxInt32)
	}
	task := int(f.result.Files)
	id := hudi.BucketFile(bucket, uuid.NewString())
	b := &baseFile{bucket: bucket, file: id, name: hudi.BaseFileName{File: id, Token: fmt.Sprintf("%d-0-0", task), Instant: f.txn.Instant()}.String()}
	up, err := f.txn.Create(ctx, f.partition, b.name, table.MarkCreate)
	if err != nil {
		return err
	}
	b.commit, b.abort = func() (int64, error) { o, err := up.Commit(); return o.Size, err }, up.Abort
	f.open = b
	b.out, err = basefile.NewWriter(up, f.schema, basefile.WriterOptions{Stamp: hudi.Stamp{Instant: f.txn.Instant(), Task: task},
		FileName: b.name, Codec: f.o.Codec, RowGroupBytes: min(f.o.Memory/rowGroupShare, basefile.DefaultRowGroupBytes)})
	if err != nil {
		return fmt.Errorf("write base file %q: %w", b.name, err)
	}
	return nil
}

// closeFile ends the open file, if there is one, and says what it is.
func (f *files) closeFile() error {
	b := f.open
	if b == nil {
		return nil
	}
	if _, err := b.out.Close(); err != nil {
		return fmt.Errorf("write base file %q: %w", b.name, err)
	}
	f.open = nil
	size, err := b.commit()
	if err != nil {
		return fmt.Errorf("write base file %q: %w", b.name, err)
	}
	f.body.Stats[f.partition] = append(f.body.Stats[f.partition], commitmeta.WriteStat{File: b.file, Path: path.Join(f.partition, b.name),
		Partition: f.partition, Writes: b.rows, Inserts: b.rows, Bytes: size})
	f.result.Files++
	f.result.Rows += b.rows
	f.result.Bytes += size
	return nil
}
