package storage

import "sync"

// BlockReader is a Driver to which each read is a request, whatever its size.
type BlockReader interface {
	// BlockBytes is how many bytes a Reader asks for where it is asked for less; it
	// holds up to heldBlocks such blocks. 0 asks for what is asked.
	BlockBytes() int64
}

// heldBlocks is how many blocks a Reader holds: the end of a file, where its index
// is, the place that is read, and those of one or two who read beside.
const heldBlocks = 4

// blocks reads an object block by block, and holds those that were used last. It may
// be used concurrently.
type blocks struct {
	direct      func(p []byte, offset int64) (int, error)
	size, block int64

	mu sync.Mutex
	// held are the blocks, the one that was used last at the end.
	held []*block
}

// block is a part of an object. Its first user reads it, others wait.
type block struct {
	number int64
	read   sync.Once
	data   []byte
	err    error
}

// readAt reads within the object.
func (b *blocks) readAt(p []byte, offset int64) (int, error) {
	if int64(len(p)) >= b.block {
		return b.direct(p, offset)
	}
	n := 0
	for n < len(p) {
		at := offset + int64(n)
		data, err := b.get(at / b.block)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], data[at%b.block:])
	}
	return n, nil
}

func (b *blocks) get(number int64) ([]byte, error) {
	one := b.find(number)
	one.read.Do(func() {
		start := number * b.block
		one.data = make([]byte, min(b.block, b.size-start))
		_, one.err = b.direct(one.data, start)
	})
	if one.err != nil {
		b.forget(one)
	}
	return one.data, one.err
}

// find gives the block of that number, new when it is not held.
func (b *blocks) find(number int64) *block {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range b.held {
		if one.number == number {
			b.held = append(append(b.held[:i:i], b.held[i+1:]...), one)
			return one
		}
	}
	one := &block{number: number}
	if len(b.held) == heldBlocks {
		b.held = b.held[1:]
	}
	b.held = append(b.held, one)
	return one
}

// forget lets a block go that could not be read: the next reader tries anew.
func (b *blocks) forget(gone *block) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range b.held {
		if one == gone {
			b.held = append(b.held[:i:i], b.held[i+1:]...)
			return
		}
	}
}
