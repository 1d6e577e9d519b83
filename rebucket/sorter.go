package rebucket

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// row is an encoded row in its place: what is sorted.
type row struct {
	bucket int
	order  int64
	key    string
	// data is what reader.AppendRow made.
	data []byte
}

// compare is the order of rows: by bucket, within one by key. Rows of one key
// are equal and stay as they came.
func (r *row) compare(o *row) int {
	if c := cmp.Compare(r.bucket, o.bucket); c != 0 {
		return c
	}
	return hudi.CompareUTF16(r.key, o.key)
}

// sorter sorts rows by bucket and key in the memory it is given: what does not
// fit goes to a temporary file in sorted runs, which are merged. Its open files
// are one, or two while runs are merged into one, however many buckets there are.
type sorter struct {
	dir    string
	budget int64

	rows    []row
	held    int64
	file    *spill
	scratch []byte
}

const (
	// rowBytes is about what a row takes in memory beside its key and data.
	rowBytes = 80
	// maxRuns bounds how many runs are read at a time: then they become one.
	maxRuns = 128
)

func newSorter(dir string, budget int64) *sorter { return &sorter{dir: dir, budget: budget} }

// add takes a record, which may be reused afterwards.
func (s *sorter) add(bucket int, r *hudi.Record) error {
	s.scratch = reader.AppendRow(s.scratch[:0], r)
	key := strings.Clone(r.Key.Record)
	s.rows = append(s.rows, row{bucket, r.Order, key, bytes.Clone(s.scratch)})
	s.held += rowBytes + int64(len(key)+len(s.scratch))
	if s.held < s.budget {
		return nil
	}
	return s.spill()
}

// spill writes what is in memory as a run.
func (s *sorter) spill() error {
	if s.file == nil {
		f, err := newSpill(s.dir)
		if err != nil {
			return err
		}
		s.file = f
	}
	if len(s.file.runs) == maxRuns {
		if err := s.join(); err != nil {
			return err
		}
	}
	s.sort()
	for i := range s.rows {
		if err := s.file.write(&s.rows[i]); err != nil {
			return err
		}
	}
	clear(s.rows)
	s.rows, s.held = s.rows[:0], 0
	return s.file.endRun()
}

func (s *sorter) sort() {
	slices.SortStableFunc(s.rows, func(a, b row) int { return a.compare(&b) })
}

// join makes one run of all, in a file of its own.
func (s *sorter) join() error {
	to, err := newSpill(s.dir)
	if err != nil {
		return err
	}
	err = s.file.merge(s.budget, to.write)
	if err == nil {
		err = to.endRun()
	}
	if err != nil {
		return errors.Join(err, to.close())
	}
	old := s.file
	s.file = to
	return old.close()
}

// each yields all rows in order and forgets them. A row is valid until the next.
func (s *sorter) each(yield func(*row) error) error {
	if s.file == nil {
		s.sort()
		for i := range s.rows {
			if err := yield(&s.rows[i]); err != nil {
				return err
			}
		}
		clear(s.rows)
		s.rows, s.held = s.rows[:0], 0
		return nil
	}
	if len(s.rows) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.rows = nil // the runs' buffers take the memory now
	err := s.file.merge(s.budget, yield)
	return errors.Join(err, s.close())
}

// close removes the temporary file.
func (s *sorter) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.close()
}

// spill is a temporary file of sorted runs.
type spill struct {
	file *os.File
	out  *bufio.Writer
	size int64
	// runs are where each run ends.
	runs []int64
	head []byte
}

func newSpill(dir string) (*spill, error) {
	f, err := os.CreateTemp(dir, "couch2hudi-rebucket-*")
	if err != nil {
		return nil, fmt.Errorf("keep rows on disk: %w", err)
	}
	// Where the system allows it the file loses its name at once: then even a
	// killed process leaves nothing. Where not, close removes it.
	_ = os.Remove(f.Name())
	const buffer = 1 << 18
	return &spill{file: f, out: bufio.NewWriterSize(f, buffer)}, nil
}

func (f *spill) write(r *row) error {
	h := binary.AppendUvarint(f.head[:0], uint64(r.bucket))
	h = binary.AppendVarint(h, r.order)
	h = binary.AppendUvarint(h, uint64(len(r.key)))
	h = append(h, r.key...)
	h = binary.AppendUvarint(h, uint64(len(r.data)))
	f.head = h
	for _, part := range [][]byte{h, r.data} {
		n, err := f.out.Write(part)
		f.size += int64(n)
		if err != nil {
			return fmt.Errorf("keep rows on disk: %w", err)
		}
	}
	return nil
}

func (f *spill) endRun() error {
	if err := f.out.Flush(); err != nil {
		return fmt.Errorf("keep rows on disk: %w", err)
	}
	f.runs = append(f.runs, f.size)
	return nil
}

func (f *spill) close() error {
	name := f.file.Name()
	err := f.file.Close()
	if gone := os.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// merge yields the rows of all runs in order; of equal rows those of the
// earlier run first. The budget is for the buffers of the runs.
func (f *spill) merge(budget int64, yield func(*row) error) error {
	const least, most = 4 << 10, 1 << 20
	buffer := int(min(max(budget/int64(len(f.runs)), least), most))
	var h cursors
	start := int64(0)
	for i, end := range f.runs {
		c := &cursor{run: i, in: bufio.NewReaderSize(io.NewSectionReader(f.file, start, end-start), buffer)}
		start = end
		more, err := c.next()
		if err != nil {
			return err
		}
		if more {
			h = append(h, c)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		c := h[0]
		if err := yield(&c.row); err != nil {
			return err
		}
		more, err := c.next()
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return nil
}

// cursor reads one run.
type cursor struct {
	row
	run int
	in  *bufio.Reader
	// keys is memory for the key's bytes.
	keys []byte
}

// next reads the next row into the cursor's memory; false at the end of the run.
func (c *cursor) next() (bool, error) {
	bucket, err := binary.ReadUvarint(c.in)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	order, err2 := binary.ReadVarint(c.in)
	if err := errors.Join(err, err2); err != nil {
		return false, fmt.Errorf("read rows back from disk: %w", err)
	}
	c.bucket, c.order = int(bucket), order
	if c.keys, err = c.bytes(c.keys); err != nil {
		return false, err
	}
	c.key = string(c.keys)
	c.data, err = c.bytes(c.data)
	return err == nil, err
}

func (c *cursor) bytes(into []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(c.in)
	if err == nil && n > math.MaxInt32 {
		err = fmt.Errorf("%d bytes of one value", n)
	}
	if err != nil {
		return nil, fmt.Errorf("read rows back from disk: %w", err)
	}
	into = slices.Grow(into[:0], int(n))[:n]
	if _, err := io.ReadFull(c.in, into); err != nil {
		return nil, fmt.Errorf("read rows back from disk: %w", err)
	}
	return into, nil
}

// cursors are a heap by row, then by run.
type cursors []*cursor

func (h cursors) Len() int { return len(h) }
func (h cursors) Less(i, j int) bool {
	if c := h[i].compare(&h[j].row); c != 0 {
		return c < 0
	}
	return h[i].run < h[j].run
}
func (h cursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)   { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}
