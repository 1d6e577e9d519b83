package reader

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// sorter puts records into the order of groups and, in each, of keys as UTF-16
// units, those of one key in the order in which they were added. It holds no more than its budget,
// whatever comes: what is more goes to a temporary file in sorted runs.
type sorter struct {
	budget int64
	spill  spillFile
	// chunks hold the records of the run that is being gathered; run is that,
	// unsorted.
	chunks, free [][]byte
	run          []kept
	held         int64
	runs         []stretch
}

// kept is an encoded record in memory; key shares its bytes.
type kept struct {
	group uint64
	key   string
	bytes []byte
	// at is the place in the run: what came first.
	at int32
}

// stretch is a run in the file.
type stretch struct{ start, size int64 }

// sorted is one record as it comes out of a sorter.
type sorted struct {
	group            uint64
	key              string
	order            int64
	deleted, natural bool
	// row is what appendRow wrote, nil for a delete; bytes are the whole record.
	row, bytes []byte
}

const (
	flagDeleted = 1 << iota
	flagNatural
)

const (
	// keptBytes is what a record takes beside its bytes.
	keptBytes = 48
	// sortChunk is the piece in which memory is taken.
	sortChunk = 1 << 20
)

// add keeps a copy of the record.
func (s *sorter) add(group uint64, r *hudi.Record, scratch []byte) ([]byte, error) {
	b := encodeSorted(scratch[:0], group, r)
	if len(b) > maxRow {
		return b, fmt.Errorf("row of %d bytes is too large to merge", len(b))
	}
	in := s.take(len(b))
	copy(in, b)
	s.run = append(s.run, kept{group: group, key: decodeSorted(in).key, bytes: in, at: int32(len(s.run))})
	s.held += keptBytes
	if s.held >= s.budget || len(s.run) == maxRow {
		return b, s.flush()
	}
	return b, nil
}

// take is memory for n bytes.
func (s *sorter) take(n int) []byte {
	if k := len(s.chunks); k == 0 || cap(s.chunks[k-1])-len(s.chunks[k-1]) < n {
		s.chunks = append(s.chunks, s.chunk(n))
		s.held += int64(cap(s.chunks[k]))
	}
	last := &s.chunks[len(s.chunks)-1]
	at := len(*last)
	*last = (*last)[:at+n]
	return (*last)[at : at+n : at+n]
}

// chunk is an empty chunk with room for n bytes.
func (s *sorter) chunk(n int) []byte {
	const shares = 4 // no chunk takes more of a small budget
	size := max(1, int(min(sortChunk, s.budget/shares)))
	if k := len(s.free); k > 0 && n <= size {
		c := s.free[k-1]
		s.free = s.free[:k-1]
		return c
	}
	return make([]byte, 0, max(n, size))
}

// flush writes the run to the file. Its memory is for the next run.
func (s *sorter) flush() error {
	if len(s.run) == 0 {
		return nil
	}
	s.sortRun()
	start := s.spill.size
	w := bufio.NewWriterSize(&s.spill, sortChunk)
	var head [binary.MaxVarintLen64]byte
	for i := range s.run {
		n := binary.PutUvarint(head[:], uint64(len(s.run[i].bytes)))
		if _, err := w.Write(head[:n]); err != nil {
			return err
		}
		if _, err := w.Write(s.run[i].bytes); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s.runs = append(s.runs, stretch{start: start, size: s.spill.size - start})
	for _, c := range s.chunks {
		if cap(c) <= sortChunk {
			s.free = append(s.free, c[:0])
		}
	}
	clear(s.run)
	s.chunks, s.run, s.held = nil, s.run[:0], 0
	return nil
}

func (s *sorter) drop() { s.chunks, s.free, s.run, s.held = nil, nil, nil, 0 }

func (s *sorter) sortRun() {
	slices.SortFunc(s.run, func(a, b kept) int {
		return cmp.Or(cmp.Compare(a.group, b.group), hudi.CompareUTF16(a.key, b.key), cmp.Compare(a.at, b.at))
	})
}

// merge is all that was added, in order. Nothing is added after it.
func (s *sorter) merge() (*merge, error) {
	m := &merge{}
	if len(s.runs) == 0 {
		s.sortRun()
		m.sources = append(m.sources, &source{kept: s.run})
	} else {
		if err := s.flush(); err != nil {
			return nil, err
		}
		s.drop()
		const least, most = 16 << 10, 1 << 20
		size := min(max(s.budget/int64(len(s.runs)), least), most)
		for i, r := range s.runs {
			from := bufio.NewReaderSize(io.NewSectionReader(&s.spill, r.start, r.size), int(size))
			m.sources = append(m.sources, &source{from: from, run: i})
		}
	}
	for _, src := range m.sources {
		if err := src.next(); err != nil {
			return nil, err
		}
	}
	m.sources = slices.DeleteFunc(m.sources, func(s *source) bool { return s.done })
	for i := len(m.sources)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m, nil
}

// close gives the memory back and removes the file.
func (s *sorter) close() error {
	s.drop()
	return s.spill.close()
}

// source is one run, from memory or from the file.
type source struct {
	kept []kept
	from *bufio.Reader
	buf  []byte
	run  int
	// head is the record that comes next; its bytes are good until next.
	head sorted
	done bool
}

func (s *source) next() error {
	if s.from == nil {
		if s.done = len(s.kept) == 0; !s.done {
			s.head, s.kept = decodeSorted(s.kept[0].bytes), s.kept[1:]
		}
		return nil
	}
	n, err := binary.ReadUvarint(s.from)
	if errors.Is(err, io.EOF) {
		s.done = true
		return nil
	}
	if err == nil && n > maxRow {
		err = errRow
	}
	if err == nil {
		if uint64(cap(s.buf)) < n {
			s.buf = make([]byte, n)
		}
		s.buf = s.buf[:n]
		_, err = io.ReadFull(s.from, s.buf)
	}
	if err != nil {
		return fmt.Errorf("read sorted rows back from disk: %w", err)
	}
	s.head = decodeSorted(s.buf)
	return nil
}

// merge is a heap of runs: sources[0] has what comes next.
type merge struct{ sources []*source }

// head is the record that comes next, nil after the last. It is good until pop.
func (m *merge) head() *sorted {
	if len(m.sources) == 0 {
		return nil
	}
	return &m.sources[0].head
}

func (m *merge) pop() error {
	top := m.sources[0]
	if err := top.next(); err != nil {
		return err
	}
	if top.done {
		last := len(m.sources) - 1
		m.sources[0] = m.sources[last]
		m.sources = m.sources[:last]
	}
	m.down(0)
	return nil
}

func (m *merge) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.sources); child++ {
			if m.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.sources[i], m.sources[least] = m.sources[least], m.sources[i]
		i = least
	}
}

func (m *merge) before(i, j int) bool {
	a, b := m.sources[i], m.sources[j]
	return cmp.Or(cmp.Compare(a.head.group, b.head.group), hudi.CompareUTF16(a.head.key, b.head.key), cmp.Compare(a.run, b.run)) < 0
}

// encodeSorted appends a record as sorter keeps it.
func encodeSorted(dst []byte, group uint64, r *hudi.Record) []byte {
	var flags byte
	if r.Delete {
		flags |= flagDeleted
	}
	if r.Natural {
		flags |= flagNatural
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, group)
	dst = binary.AppendVarint(dst, r.Order)
	dst = appendText(dst, r.Key.Record)
	if r.Delete {
		return dst
	}
	return appendRow(dst, r)
}

// decodeSorted is what encodeSorted wrote; it shares b. Damage shows in the row.
func decodeSorted(b []byte) sorted {
	d := decoder{rest: b}
	flags := d.take(1)
	if d.bad {
		return sorted{}
	}
	s := sorted{bytes: b, deleted: flags[0]&flagDeleted != 0, natural: flags[0]&flagNatural != 0, group: d.uvarint(), order: d.varint(), key: d.text()}
	if !s.deleted {
		s.row = d.rest
	}
	return s
}
