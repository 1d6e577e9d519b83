package keycache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/bits-and-blooms/bloom/v3"
)

// filter answers "never seen" without a look at the store. It grows by layers,
// each four times the one before, until its budget is used up; after that it
// answers "perhaps" more and more often. It is this cache's alone: its hash is
// not that of the filters in base files.
type filter struct {
	budget int64
	layers []layer
	bytes  int64
}

type layer struct {
	bits *bloom.BloomFilter
	// room is how many keys go into the layer, held how many have.
	room, held uint64
}

const (
	firstLayer    = 1 << 18
	layerGrowth   = 4
	falsePositive = 0.001
)

func newFilter(budget int64) *filter { return &filter{budget: budget} }

// add notes a store's key without its file group.
func (f *filter) add(key []byte) {
	if f.mayHold(key) {
		return
	}
	n := len(f.layers)
	if n == 0 || f.layers[n-1].held >= f.layers[n-1].room {
		f.grow()
		n = len(f.layers)
	}
	f.layers[n-1].bits.Add(key)
	f.layers[n-1].held++
}

func (f *filter) grow() {
	room := uint64(firstLayer)
	if n := len(f.layers); n > 0 {
		room = f.layers[n-1].room * layerGrowth
	}
	for {
		m, k := bloom.EstimateParameters(uint(room), falsePositive)
		size := int64(m / 8)
		if f.bytes+size <= f.budget {
			f.layers = append(f.layers, layer{bits: bloom.New(m, k), room: room})
			f.bytes += size
			return
		}
		if room /= 2; room < firstLayer/layerGrowth {
			break
		}
	}
	if len(f.layers) == 0 {
		const least = 64 << 10
		f.layers = append(f.layers, layer{bits: bloom.New(least, 1)})
	}
	// No more room: the last layer takes what comes.
	f.layers[len(f.layers)-1].room = ^uint64(0)
}

func (f *filter) mayHold(key []byte) bool {
	for i := range f.layers {
		if f.layers[i].bits.Test(key) {
			return true
		}
	}
	return false
}

var errFilter = errors.New("damaged filter of the key cache")

func (f *filter) writeTo(w io.Writer) error {
	if err := binary.Write(w, binary.BigEndian, uint32(len(f.layers))); err != nil {
		return err
	}
	for i := range f.layers {
		l := &f.layers[i]
		if err := binary.Write(w, binary.BigEndian, [4]uint64{l.room, l.held, uint64(l.bits.Cap()), uint64(l.bits.K())}); err != nil {
			return err
		}
		if err := binary.Write(w, binary.BigEndian, l.bits.BitSet().Words()); err != nil {
			return err
		}
	}
	return nil
}

// readFilter reads what writeTo wrote; who calls it has seen to it that the bytes
// are those.
func readFilter(r io.Reader, budget int64) (*filter, error) {
	f := newFilter(budget)
	var n uint32
	if err := binary.Read(r, binary.BigEndian, &n); err != nil {
		return nil, fmt.Errorf("%w: %w", errFilter, err)
	}
	for range n {
		var head [4]uint64
		if err := binary.Read(r, binary.BigEndian, &head); err != nil {
			return nil, fmt.Errorf("%w: %w", errFilter, err)
		}
		const word = 64
		words := make([]uint64, (head[2]+word-1)/word)
		if err := binary.Read(r, binary.BigEndian, words); err != nil {
			return nil, fmt.Errorf("%w: %w", errFilter, err)
		}
		f.layers = append(f.layers, layer{bits: bloom.FromWithM(words, uint(head[2]), uint(head[3])), room: head[0], held: head[1]})
		f.bytes += int64(head[2] / 8)
	}
	return f, nil
}
