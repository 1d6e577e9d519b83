// Package basefile reads and writes Hudi's base files: Parquet with the meta
// columns in front and a filter of the record keys in the footer
// (docs/format/basefile.md). It knows readers and writers, no files.
package basefile

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
	"github.com/couch2hudi/couch2hudi/internal/bloom"
)

// File is an open base file. It is safe for concurrent use.
type File struct {
	file   *parquet.File
	footer Footer
	ahead  Ahead // nil when the reader below does not ask
}

// Open reads the footer of a base file of size bytes, nothing else. The error
// wraps ErrFormat, or what r said.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer caught(&err)
	if size < smallestFile {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, size)
	}
	p, err := parquet.OpenFile(watcher{r}, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(readBuffer))
	if err != nil {
		return nil, fmt.Errorf("open base file: %w", wrap(err))
	}
	f = &File{file: p, footer: Footer{Rows: p.NumRows(), Bytes: size}}
	f.ahead, _ = r.(Ahead)
	f.footer.MinKey, _ = p.Lookup(keyMin)
	f.footer.MaxKey, _ = p.Lookup(keyMax)
	f.footer.Schema, _ = p.Lookup(keySchema)
	_, f.footer.HasBloom = f.bloomText()
	if p.Root().Column(hudi.MetaRecordKey) == nil {
		return nil, fmt.Errorf("%w: no column %s", ErrFormat, hudi.MetaRecordKey)
	}
	return f, nil
}

const (
	readBuffer = 64 << 10
	// smallestFile has both magics and the length of its footer.
	smallestFile = int64(2*len(parquetMagic) + 4)
)

// watcher marks the errors of the reader below, to tell a broken file from a
// broken connection.
type watcher struct{ r io.ReaderAt }

// ReadAt passes the call on.
func (w watcher) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("%w: it points before its beginning", ErrFormat)
	}
	n, err := w.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, &readError{err}
	}
	return n, err
}

// readError marks an error that is not the file's fault.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// caught turns a panic of the Parquet library, which some broken files cause,
// into an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", ErrFormat, p)
	}
}

// wrap says what went wrong while pages were read.
func wrap(err error) error {
	var own *readError
	if err == nil || errors.Is(err, ErrFormat) || errors.Is(err, ErrUnsupported) || errors.Is(err, avro.ErrSchema) || errors.As(err, &own) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// Footer is what the file says of itself.
func (f *File) Footer() Footer { return f.footer }

func (f *File) bloomText() (string, bool) {
	if text, ok := f.file.Lookup(keyBloom); ok {
		return text, true
	}
	return f.file.Lookup(keyBloomOld)
}

// Bloom is the filter of the file's record keys, nil when it has none. The
// error wraps bloom.ErrFormat.
func (f *File) Bloom() (*bloom.Filter, error) {
	text, ok := f.bloomText()
	if !ok {
		return nil, nil
	}
	code, _ := f.file.Lookup(keyBloomCode)
	return bloom.Decode(text, code)
}

// Keys are the record keys in file order, read from the key column alone. A
// key is valid until the next step. After an error nothing follows.
func (f *File) Keys() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		target, err := hudi.MakeSchema("keys", "")
		if err != nil {
			yield("", err)
			return
		}
		for r, err := range f.read(target, "", true) {
			if err != nil {
				yield("", err)
				return
			}
			if !yield(r.Key.Record, nil) {
				return
			}
		}
	}
}

// Records are the file's rows in file order, with the columns of target: they
// are found by name, null where the file has none, widened (int, long, float,
// double) where the types differ. Only these columns and the meta columns are
// read. Order is the value of orderColumn, an int or a long, 0 where the row
// has none. A row with _hoodie_is_deleted or with _hoodie_operation D or -U is
// a delete.
//
// A record is valid until the next step. What is held is a page of each column
// that is read. After an error nothing follows; it wraps ErrFormat,
// ErrUnsupported, avro.ErrSchema or what the reader below said.
func (f *File) Records(target *hudi.Schema, orderColumn string) iter.Seq2[*hudi.Record, error] {
	return f.read(target, orderColumn, false)
}

func (f *File) read(target *hudi.Schema, orderColumn string, keysOnly bool) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		p, err := f.plan(target, orderColumn, keysOnly)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, g := range f.file.RowGroups() {
			more, err := p.group(g, yield)
			if err != nil {
				yield(nil, fmt.Errorf("read base file: %w", wrap(err)))
				return
			}
			if !more {
				return
			}
		}
	}
}
