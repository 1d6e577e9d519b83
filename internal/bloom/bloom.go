// Package bloom has the Bloom filters that stand in the footers of Hudi's base
// files (docs/format/bloom.md). They are compatible with Hadoop's bit by bit:
// same hash, same positions, same serialisation.
package bloom

import (
	"errors"
	"math"
)

// ErrFormat marks text that is not a serialised filter.
var ErrFormat = errors.New("not a bloom filter")

// The type codes that stand beside a filter in a footer. A missing code means Simple.
const (
	Simple  = "SIMPLE"
	Dynamic = "DYNAMIC_V0"
)

// Rate is the false-positive rate that Hudi sizes filters for by default, and so do we.
const Rate = 1e-9

// Filter is a Bloom filter of record keys. Filters in use are safe for
// concurrent calls of Contains, but not of Add.
type Filter struct {
	bits   int32
	hashes int32
	mod    modulus
	rows   [][]byte
	// dynamic filters grow by rows of perRow keys up to limit keys.
	dynamic bool
	perRow  int32
	limit   int
	// count is the number of keys added to the current row. It goes on
	// rising when a full filter takes more keys.
	count int32
	// spill counts the keys that came after the filter was full.
	spill int
}

// Size is the number of bits and of hashes of a filter for n keys with a
// false-positive rate of p.
func Size(n int, p float64) (bits, hashes int) {
	b := math.Ceil(float64(n) * (-math.Log(p) / (math.Ln2 * math.Ln2)))
	return int(b), int(math.Ceil(math.Ln2 * b / float64(n)))
}

// NewSimple makes an empty filter of one row for n keys, at least one.
func NewSimple(n int, p float64) *Filter {
	bits, hashes := Size(max(n, 1), p)
	f := &Filter{bits: int32(bits), hashes: int32(hashes), mod: newModulus(int32(bits))}
	f.addRow()
	return f
}

// NewDynamic makes an empty filter that starts with a row for n keys and gets
// further rows until they are there for limit keys.
func NewDynamic(n int, p float64, limit int) *Filter {
	f := NewSimple(n, p)
	f.dynamic, f.perRow, f.limit = true, int32(max(n, 1)), limit
	return f
}

func (f *Filter) addRow() { f.rows = append(f.rows, make([]byte, (int(f.bits)+7)/8)) }

// Code is the type code that belongs beside the serialised filter.
func (f *Filter) Code() string {
	if f.dynamic {
		return Dynamic
	}
	return Simple
}

// MemoryBytes is about how much memory the filter takes.
func (f *Filter) MemoryBytes() int { return 128 + len(f.rows)*(24+len(f.rows[0])) }

// Add puts a key into the filter. The empty key is no key: it is left out.
func (f *Filter) Add(key string) {
	if key == "" {
		return
	}
	var few [stackWords]uint32
	c := load(few[:], key)
	row := f.rowForKey()
	h := uint32(0)
	for range f.hashes {
		h = c.next(h)
		set(row, f.mod.position(h))
	}
}

// stackWords is a size of key (256 bytes) up to which hashing allocates nothing.
const stackWords = 64

// rowForKey is the row that the next key goes to, by the rule that Hudi has
// for filters that grow.
func (f *Filter) rowForKey() []byte {
	if !f.dynamic {
		return f.rows[0]
	}
	if f.count < f.perRow {
		f.count++
		return f.rows[len(f.rows)-1]
	}
	if len(f.rows)*int(f.perRow) < f.limit {
		f.addRow()
		f.count = 1
		return f.rows[len(f.rows)-1]
	}
	// Full: the first key too many goes to row 0, those after it to rows 0, 1, 2 and so on.
	f.count++
	row := f.rows[max(f.spill-1, 0)%len(f.rows)]
	f.spill++
	return row
}

// Contains says whether the key may have been added: false is certain.
func (f *Filter) Contains(key string) bool {
	if key == "" {
		return false
	}
	var few [stackWords]uint32
	c := load(few[:], key)
	if len(f.rows) == 1 {
		return f.inRow(&c, f.rows[0])
	}
	for _, row := range f.rows {
		if f.inRow(&c, row) {
			return true
		}
	}
	return false
}

func (f *Filter) inRow(c *chain, row []byte) bool {
	h := uint32(0)
	for range f.hashes {
		h = c.next(h)
		p := f.mod.position(h)
		if row[p>>3]&(1<<(p&7)) == 0 {
			return false
		}
	}
	return true
}

func set(row []byte, p uint32) { row[p>>3] |= 1 << (p & 7) }
