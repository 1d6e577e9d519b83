package storage

import (
	"context"
	"sync"
)

// farthest is how many blocks of a stretch are asked for before they are read, where the
// Cache has room.
const farthest = 8

// ahead is what a Reader asks for before it is read.
type ahead struct {
	// most is how many requests of that kind may be under way, of all Readers of the
	// Cache; 0 is none.
	most int
	// direct is as that of blocks, and ends when the Reader is closed.
	direct func(p []byte, offset int64) (int, error)
	cancel context.CancelFunc
	asking sync.WaitGroup
	// stretches are those that are being read. Guarded by the Cache, as is closed.
	stretches []stretch
	closed    bool
}

// stretch is a part of an object that is read from its beginning to its end: blocks, the
// one that is being read and the last.
type stretch struct{ at, last int64 }

// Ahead says that a stretch of the object will be read from beginning to end, in reads
// that are small and at the pace of whoever reads. Where requests take time, what comes
// next is asked for meanwhile: see Options.Ahead.
func (r *Reader) Ahead(offset, length int64) {
	b := r.blocks
	if b == nil || b.ahead.most == 0 || offset < 0 {
		return
	}
	if end := min(offset+length, b.size); offset < end {
		b.cache.expect(b, stretch{b.number(offset), b.number(end - 1)})
	}
}

// Ahead is how many requests at once are worth while for what is to be read next; 0 is
// none.
func (b *Bucket) Ahead() int { return b.ahead }

// expect asks for the first block of a stretch.
func (c *Cache) expect(b *blocks, s stretch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.ahead.closed {
		return
	}
	if s.at < s.last {
		b.ahead.stretches = append(b.ahead.stretches, s)
		c.stretches++
	}
	c.ask(b, s.at, s.at)
}

// reached notes that a block is read now, and asks for those behind it.
func (c *Cache) reached(b *blocks, number int64) {
	going := b.ahead.stretches[:0]
	for _, s := range b.ahead.stretches {
		if s.at <= number && number <= s.last {
			s.at = number
			c.ask(b, number+1, min(number+c.far(b), s.last))
		}
		if s.at < s.last {
			going = append(going, s)
		} else {
			c.stretches--
		}
	}
	b.ahead.stretches = going
}

// far is how many blocks of each stretch are asked for: all that are being read share
// half of the room.
func (c *Cache) far(b *blocks) int64 {
	const share = 2
	return max(1, min(farthest, c.limit/(share*b.block*max(1, int64(c.stretches)))))
}

// ask has blocks read that are not held, as far as there is room and leave.
func (c *Cache) ask(b *blocks, from, to int64) {
	for number := from; number <= to && c.asking < b.ahead.most && !b.ahead.closed; number++ {
		if b.held[number] != nil {
			continue
		}
		start, end := b.bounds(number)
		one := c.add(b, number, start, end-start, true)
		if one == nil {
			return
		}
		c.asking++
		b.ahead.asking.Go(func() {
			one.fill(b.ahead.direct)
			c.asked(b, one)
		})
	}
}

// asked is the end of a request ahead. It makes room for another.
func (c *Cache) asked(b *blocks, one *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking--
	if one.err != nil {
		c.lose(one) // whoever comes to it tries anew
	}
	c.release(one)
	for _, s := range b.ahead.stretches {
		c.ask(b, s.at+1, min(s.at+c.far(b), s.last))
	}
}

// awaits says whether what is at offset has been asked for, or would be soon.
func (c *Cache) awaits(b *blocks, offset int64) bool {
	if b.ahead.most == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return b.awaited(b.number(offset))
}

// awaited says whether a block will be read soon.
func (b *blocks) awaited(number int64) bool {
	for _, s := range b.ahead.stretches {
		if s.at <= number && number <= s.last {
			return true
		}
	}
	return false
}

// end stops the requests ahead and waits for them.
func (b *blocks) end() {
	if b.ahead.most > 0 {
		b.ahead.cancel()
		b.ahead.asking.Wait()
	}
}
