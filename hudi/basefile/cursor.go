package basefile

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// cursor reads the values of one leaf column of a row group, one after
// another. The memory of a value that next returned is good until the next row.
type cursor struct {
	name   string
	column int
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buf    []parquet.Value
	at, n  int
	done   bool
	// row is that of the next value, of a column with a single value in each row.
	row    int64
	single bool
}

// window is how many values are taken from a page at once.
const window = 256

func (c *cursor) open(g parquet.RowGroup) {
	c.pages = g.ColumnChunks()[c.column].Pages()
	c.at, c.n, c.done, c.row = 0, 0, false, 0
	if c.buf == nil {
		c.buf = make([]parquet.Value, window)
	}
}

func (c *cursor) close() {
	c.release()
	if c.pages != nil {
		_ = c.pages.Close() // reading is over, nothing is written
		c.pages = nil
	}
}

func (c *cursor) release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page, c.values = nil, nil
	}
}

// peek is the next value, io.EOF after the last of the row group.
func (c *cursor) peek() (*parquet.Value, error) {
	if c.at >= c.n {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	return &c.buf[c.at], nil
}

// next is peek and moves on.
func (c *cursor) next() (*parquet.Value, error) {
	v, err := c.peek()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: column %s has too few values", ErrFormat, c.name)
		}
		return nil, err
	}
	c.at++
	c.row++
	return v, nil
}

// seek goes to the first value of a row.
func (c *cursor) seek(row int64) error {
	if ahead := row - c.row; c.single && ahead >= 0 && ahead < int64(c.n-c.at) {
		c.at, c.row = c.at+int(ahead), row
		return nil
	}
	if err := c.pages.SeekToRow(row); err != nil {
		return fmt.Errorf("column %s, row %d: %w", c.name, row, err)
	}
	c.at, c.n, c.done, c.values, c.row = 0, 0, false, nil, row
	return nil
}

func (c *cursor) fill() error {
	c.at, c.n = 0, 0
	for !c.done {
		if c.values == nil {
			if err := c.nextPage(); err != nil {
				return err
			}
			continue
		}
		n, err := c.values.ReadValues(c.buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil {
			// The page stays: values of it may still be in use.
			c.values = nil
		}
		if n > 0 {
			c.n = n
			return nil
		}
	}
	return io.EOF
}

func (c *cursor) nextPage() error {
	page, err := c.pages.ReadPage()
	if errors.Is(err, io.EOF) {
		c.done = true
		return nil
	}
	if err != nil {
		return err
	}
	c.release()
	c.page, c.values = page, page.Values()
	return nil
}
