package basefile

import (
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"
)

// Cells are the rows of a Parquet file that is no base file, as the history of
// later timelines is kept: of each row the text or bytes in the columns asked
// for, nil for null and where the file has no such column. Nothing else is read.
//
// Cells are valid until the next step. What is held is a page of each column.
// After an error nothing follows; it wraps ErrFormat or what the reader said.
func Cells(r io.ReaderAt, size int64, columns ...string) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		f, cursors, err := openCells(r, size, columns)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() {
			for _, c := range cursors {
				if c != nil {
					c.close()
				}
			}
		}()
		row := make([][]byte, len(columns))
		for _, g := range f.RowGroups() {
			for at := range g.NumRows() {
				if err := nextCells(g, at, cursors, row); err != nil {
					yield(nil, err)
					return
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// openCells opens a file, with a cursor for each of its columns, nil for those
// that it does not have.
func openCells(r io.ReaderAt, size int64, columns []string) (f *parquet.File, cursors []*cursor, err error) {
	defer caught(&err)
	if size < smallestFile {
		return nil, nil, fmt.Errorf("%w: %d bytes", ErrFormat, size)
	}
	f, err = parquet.OpenFile(watcher{r}, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(readBuffer))
	if err != nil {
		return nil, nil, wrap(err)
	}
	cursors = make([]*cursor, len(columns))
	for i, name := range columns {
		c := f.Root().Column(name)
		if c == nil {
			continue
		}
		if !c.Leaf() || c.Repeated() || c.Type().Kind() != parquet.ByteArray {
			return nil, nil, fmt.Errorf("%w: column %s is not text or bytes", ErrFormat, name)
		}
		cursors[i] = &cursor{name: name, column: c.Index(), single: true}
	}
	return f, cursors, nil
}

// nextCells reads one row of a row group.
func nextCells(g parquet.RowGroup, at int64, cursors []*cursor, row [][]byte) (err error) {
	defer caught(&err)
	for i, c := range cursors {
		row[i] = nil
		if c == nil {
			continue
		}
		if at == 0 {
			c.close()
			c.open(g)
		}
		v, err := c.next()
		if err != nil {
			return wrap(err)
		}
		if !v.IsNull() {
			row[i] = v.ByteArray()
		}
	}
	return nil
}
