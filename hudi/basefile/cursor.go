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
}

// window is how many values are taken from a page at once.
const window = 256

func (c *cursor) open(g parquet.RowGroup) {
	c.pages = g.ColumnChunks()[c.column].Pages()
	c.at, c.n, c.done = 0, 0, false
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
	return v, nil
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
