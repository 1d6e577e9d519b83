package reader

import (
	"fmt"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Sorter puts rows into the order of a number and, within one number, of keys as
// UTF-16 units, and leaves of each key the newest row. It holds no more than
// Options.Memory: what is more goes to a temporary file in sorted runs.
type Sorter struct {
	s       sorter
	scratch []byte
	// last is the newest row so far of the key that came last.
	last  []byte
	older int64
}

// NewSorter makes a sorter; of the options Memory, TempDir and TempFile matter. Close it.
func NewSorter(o Options) *Sorter {
	return &Sorter{s: sorter{budget: o.memory(), spill: o.spill()}}
}

// Add takes a row and copies it: it may be reused afterwards.
func (s *Sorter) Add(number int, r *hudi.Record) (err error) {
	s.scratch, err = s.s.add(uint64(number), r, s.scratch)
	return err
}

// Each yields the rows in order, once, and nothing is added after it. Their
// partition is the one given; a record is valid until the next. It ends with the
// error that yield gives.
func (s *Sorter) Each(partition string, yield func(number int, r *hudi.Record) error) error {
	m, err := s.s.merge()
	if err != nil {
		return err
	}
	r := &hudi.Record{}
	for h := m.head(); h != nil; h = m.head() {
		if s.last, err = s.newest(m); err != nil {
			return err
		}
		newest := decodeSorted(s.last)
		*r = hudi.Record{Key: hudi.Key{Record: newest.key, Partition: partition}, Order: newest.order, Row: r.Row}
		if err := readRow(newest.row, r); err != nil {
			return fmt.Errorf("read sorted rows back: %w", err)
		}
		if err := yield(int(newest.group), r); err != nil {
			return err
		}
	}
	return nil
}

// All is Each with every row of a key, those of one key in the order in which they
// were added. Their partition is not kept.
func (s *Sorter) All(yield func(number int, r *hudi.Record) error) error {
	m, err := s.s.merge()
	if err != nil {
		return err
	}
	r := &hudi.Record{}
	for h := m.head(); h != nil; h = m.head() {
		*r = hudi.Record{Key: hudi.Key{Record: h.key}, Order: h.order, Row: r.Row}
		if err := readRow(h.row, r); err != nil {
			return fmt.Errorf("read sorted rows back: %w", err)
		}
		if err := yield(int(h.group), r); err != nil {
			return err
		}
		if err := m.pop(); err != nil {
			return err
		}
	}
	return nil
}

// newest takes the rows of the next key off m: of equal ones the last that was
// added counts.
func (s *Sorter) newest(m *merge) ([]byte, error) {
	group, key := m.head().group, ""
	best := s.last[:0]
	for first := true; ; first = false {
		h := m.head()
		if h == nil || (!first && (h.group != group || h.key != key)) {
			return best, nil
		}
		if !first {
			s.older++
		}
		if first || h.order >= decodeSorted(best).order {
			best = append(best[:0], h.bytes...)
			key = decodeSorted(best).key
		}
		if err := m.pop(); err != nil {
			return best, err
		}
	}
}

// Older is how many rows were left out, so far, because their key has a newer one.
func (s *Sorter) Older() int64 { return s.older }

// Close gives the memory back and removes the temporary file.
func (s *Sorter) Close() error { return s.s.close() }
