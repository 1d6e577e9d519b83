package basefile

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// KeySet are record keys to look for. It does not change and may be shared.
type KeySet struct {
	sorted []string // by bytes, as the bounds of pages are
	known  map[string]struct{}
}

// NewKeySet makes a set of a copy of keys.
func NewKeySet(keys []string) *KeySet {
	s := &KeySet{sorted: slices.Clone(keys), known: make(map[string]struct{}, len(keys))}
	slices.Sort(s.sorted)
	s.sorted = slices.Compact(s.sorted)
	for _, k := range s.sorted {
		s.known[k] = struct{}{}
	}
	return s
}

// Has says whether a key is in the set.
func (s *KeySet) Has(key string) bool {
	_, has := s.known[key]
	return has
}

// Len is the number of keys.
func (s *KeySet) Len() int { return len(s.sorted) }

// Keys are a copy of the keys, sorted by bytes.
func (s *KeySet) Keys() []string { return slices.Clone(s.sorted) }

// reaches says whether a key of the set lies between two, both included.
func (s *KeySet) reaches(least, greatest string) bool {
	i, _ := slices.BinarySearch(s.sorted, least)
	return i < len(s.sorted) && s.sorted[i] <= greatest
}

// Find is Records for the rows of a set of keys. Where the file has an index of
// its pages, it reads those pages of the key column alone that may hold one of
// the keys, and of the other columns the pages with rows of the set.
func (f *File) Find(keys *KeySet, target *hudi.Schema, orderColumn string) iter.Seq2[*hudi.Record, error] {
	return f.find(keys, target, orderColumn, dense)
}

// dense is the share of wanted rows, one in so many, from which on reading all
// rows costs less than seeking each.
const dense = 16

func (f *File) find(keys *KeySet, target *hudi.Schema, orderColumn string, dense int64) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		p, err := f.plan(target, orderColumn, false)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, g := range f.file.RowGroups() {
			more, err := p.find(g, keys, int64(keys.Len())*dense > g.NumRows(), yield)
			if err != nil {
				yield(nil, fmt.Errorf("find keys in base file: %w", wrap(err)))
				return
			}
			if !more {
				return
			}
		}
	}
}

// find yields the rows of a set in one row group, looking at every row or not;
// more is false when the consumer left.
func (p *plan) find(g parquet.RowGroup, keys *KeySet, every bool, yield func(*hudi.Record, error) bool) (more bool, err error) {
	indexed, err := p.indexed(g)
	if err != nil {
		return false, err
	}
	if every || !indexed {
		return p.group(g, func(r *hudi.Record, err error) bool { return !keys.Has(r.Key.Record) || yield(r, err) })
	}
	defer func() {
		for _, c := range p.cursors {
			c.close()
		}
	}()
	key := p.flats[0].cursor // special put it there first
	scan := &cursor{name: key.name, column: key.column, single: true}
	defer scan.close()
	scan.open(g)
	stretches, err := stretches(g, scan.column, func(least, greatest parquet.Value) bool {
		return keys.reaches(string(least.ByteArray()), string(greatest.ByteArray()))
	})
	if err != nil || len(stretches) == 0 {
		return true, err
	}
	if err := p.open(g); err != nil {
		return false, err
	}
	for _, s := range stretches {
		if more, err := p.within(s, scan, keys, yield); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// indexed says whether the row group tells the places of the pages that are
// read, and the bounds of those of the keys. It reads them.
func (p *plan) indexed(g parquet.RowGroup) (has bool, err error) {
	defer caught(&err)
	chunks := g.ColumnChunks()
	_, err = chunks[p.flats[0].cursor.column].ColumnIndex()
	for i := 0; i < len(p.cursors) && err == nil; i++ {
		_, err = chunks[p.cursors[i].column].OffsetIndex()
	}
	if errors.Is(err, parquet.ErrMissingColumnIndex) || errors.Is(err, parquet.ErrMissingOffsetIndex) {
		return false, nil
	}
	return err == nil, err
}

// within yields the rows of a set in a stretch of rows.
func (p *plan) within(s stretch, scan *cursor, keys *KeySet, yield func(*hudi.Record, error) bool) (more bool, err error) {
	for row := s.from; row < s.to; row++ {
		there, err := p.at(scan, row, s.from == row, keys)
		if err != nil {
			return false, err
		}
		if there && !yield(&p.record, nil) {
			return false, nil
		}
	}
	return true, nil
}

// at makes p.record of a row if its key is in the set. The rows of a stretch
// are scanned one after the other, from is the first of them.
func (p *plan) at(scan *cursor, row int64, from bool, keys *KeySet) (there bool, err error) {
	defer caught(&err)
	if from {
		if err := scan.seek(row); err != nil {
			return false, err
		}
	}
	v, err := scan.next()
	if err != nil {
		return false, err
	}
	if v.IsNull() || v.Kind() != parquet.ByteArray && v.Kind() != parquet.FixedLenByteArray {
		return false, fmt.Errorf("%w: a row without a record key", ErrFormat)
	}
	if _, has := keys.known[string(v.ByteArray())]; !has {
		return false, nil
	}
	for _, c := range p.cursors {
		if err := c.seek(row); err != nil {
			return false, err
		}
	}
	return true, p.next()
}
