package storage

import "context"

// BlockReader is a Driver to which each read is a request, whatever its size.
type BlockReader interface {
	// BlockBytes is how many bytes a Reader asks for where it is asked for less; it
	// holds such blocks as far as the Bucket's Cache has room. 0 asks for what is asked.
	BlockBytes() int64
}

// Opener is a BlockReader whose store says with what it reads which object that is of:
// nothing has to be asked before the first read.
type Opener interface {
	BlockReader
	// ReadFirst reads up to most bytes, at least one, from offset on, of the version that
	// is there now, and describes that version. Fewer come at the object's end alone,
	// none when offset is there or behind it. The time in the Object may be of whole
	// seconds. The caller may keep and write to what it gets, which has no more
	// capacity than most.
	ReadFirst(ctx context.Context, name string, offset, most int64) ([]byte, Object, error)
}

// blocks reads an object block by block, and has those that were used last held. It
// may be used concurrently.
type blocks struct {
	direct      func(p []byte, offset int64) (int, error)
	cache       *Cache
	size, block int64
	// skew is how much shorter the first block is than the others, so that the last one
	// ends where the object does.
	skew int64
	// held are the blocks by number. Guarded by the Cache.
	held  map[int64]*block
	ahead ahead
}

// fit makes the size known. With end, the last block is a whole one.
func (b *blocks) fit(size int64, end bool) {
	b.size, b.skew = size, 0
	if rest := size % b.block; end && rest > 0 {
		b.skew = b.block - rest
	}
}

// number is that of the block which has the byte at offset.
func (b *blocks) number(offset int64) int64 { return (offset + b.skew) / b.block }

// bounds are where a block begins and ends.
func (b *blocks) bounds(number int64) (start, end int64) {
	start = number*b.block - b.skew
	return max(start, 0), min(start+b.block, b.size)
}

// readAt reads within the object. What is large, and where there is no room for a block,
// it asks for what it was asked for.
func (b *blocks) readAt(p []byte, offset int64) (int, error) {
	if int64(len(p)) >= b.block && !b.cache.awaits(b, offset) {
		return b.direct(p, offset)
	}
	n := 0
	for n < len(p) {
		at := offset + int64(n)
		one, isNew := b.cache.take(b, b.number(at))
		if one == nil {
			more, err := b.direct(p[n:], at)
			return n + more, err
		}
		if isNew {
			one.fill(b.direct)
		}
		more, err := b.from(one, p[n:], at)
		b.cache.done(one)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// from copies out of a block, once that is read.
func (b *blocks) from(one *block, p []byte, offset int64) (int, error) {
	<-one.ready
	if one.err != nil {
		b.cache.forget(one)
		return 0, one.err
	}
	return copy(p, one.data[offset-one.start:]), nil
}

// fill reads a block.
func (one *block) fill(direct func(p []byte, offset int64) (int, error)) {
	if one.data == nil {
		one.data = make([]byte, one.size)
	}
	_, one.err = direct(one.data, one.start)
	close(one.ready)
}
