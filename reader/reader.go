// Package reader gives the rows of a table back: it merges the base file and
// the log files of each slice, for a snapshot, for the changes of a range of
// commits, or for one slice (docs/format/reading.md). Tables of other versions are
// a matter of package table.
//
// Every function here yields records that are valid until the next step of the
// iteration; Clone keeps one. A sequence ends after the first error.
package reader

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/table"
)

// defaultMemory is the memory for merging one slice.
const defaultMemory = 64 << 20

// Options are the choices of a reading; the zero value is the default.
type Options struct {
	// Memory is how many bytes of log rows of one slice are held before they
	// go to a temporary file; 64 MiB by default. Keys stay in memory beyond it.
	Memory int64
	// TempDir is the folder for temporary files; the system's by default. They
	// are gone when the reading ends, however it ends.
	TempDir string
	// TempFile opens a temporary file that is gone once it is closed; one in TempDir
	// by default. For tests.
	TempFile func() (TempFile, error)
	// Columns are the data columns to read; all by default.
	Columns []string
	// Schema, when set, takes the place of the table's at the time that is read:
	// for those who read many times in a row and want the same columns. Columns
	// and Where are of it; a column that the files lack is null.
	Schema *hudi.Schema
	// IncludeDeletes makes Snapshot and ReadOptimized yield tombstone rows too.
	// Incremental always does: they are how a deletion shows.
	IncludeDeletes bool
	// Where, when set, says which rows Snapshot, ReadOptimized and Incremental
	// yield. It may name columns that are not read otherwise, and the meta
	// columns of records. What it spares is not read (docs/adr/0025-push-down.md).
	Where *Where
	// Partitions, when set, are the partition paths that those three read; one
	// that is not there has no rows.
	Partitions []string
	// Keys, when set, are the record keys to merge and yield; the others cost
	// neither memory nor a step of the iteration.
	Keys *basefile.KeySet
	// HardDeletes makes Slice yield a Delete record for each base row that a
	// delete in the logs hides. Its row is the version that was there before. A
	// natural one has that version's order: what a later row must have to win.
	HardDeletes bool
	// push is what Where lets the merging of slices leave out.
	push *pushed
}

func (o Options) memory() int64 {
	if o.Memory <= 0 {
		return defaultMemory
	}
	return o.Memory
}

// Errors that callers tell apart.
var (
	// ErrCorrupt marks a file whose bytes cannot be what its writer wrote.
	ErrCorrupt = errors.New("damaged file")
	// ErrCleaned marks a range of commits of which files are gone already.
	ErrCleaned = errors.New("files of the range were cleaned")
	// ErrColumn marks a column that the table does not have.
	ErrColumn = errors.New("no such column")
)

// Target is the schema with which Snapshot, ReadOptimized and Incremental
// yield their rows: the table's at the view's time, or the asked columns of it.
func Target(ctx context.Context, v *table.View, o Options) (*hudi.Schema, error) {
	s, err := v.Schema(ctx)
	if err != nil {
		return nil, err
	}
	return project(s, o.Columns)
}

// project is the schema of some columns of s, in the order asked for.
func project(s *hudi.Schema, names []string) (*hudi.Schema, error) {
	if len(names) == 0 {
		return s, nil
	}
	columns := make([]hudi.Column, 0, len(names))
	for _, name := range names {
		i, ok := s.Lookup(name)
		if !ok {
			return nil, fmt.Errorf("%w: %q", ErrColumn, name)
		}
		columns = append(columns, s.Columns()[i])
	}
	return hudi.MakeSchema(s.Name, s.Namespace, columns...)
}

// widen is target with further columns of s at its end, those it lacks and s
// has. Rows read with it are cut back to target's length.
func widen(target, s *hudi.Schema, names ...string) (*hudi.Schema, error) {
	var more []hudi.Column
	for _, name := range names {
		if _, there := target.Lookup(name); there {
			continue
		}
		if i, ok := s.Lookup(name); ok {
			more = append(more, s.Columns()[i])
		}
	}
	if len(more) == 0 {
		return target, nil
	}
	return target.Extend(more...)
}

// tombstones is the place of the column that marks tombstones, and whether the
// table is one of ours: another writer's _deleted means whatever he likes.
func tombstones(s *hudi.Schema) (int, bool) {
	_, op := s.Lookup(hudi.ColumnOp)
	_, order := s.Lookup(hudi.ColumnRevOrder)
	i, deleted := s.Lookup(hudi.ColumnDeleted)
	return i, op && order && deleted
}

// file is an open file of a table.
type file interface {
	io.ReaderAt
	io.Closer
	Size() int64
	Ahead(offset, length int64)
}
