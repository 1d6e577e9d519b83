package storage

import (
	"container/list"
	"sync"
)

// Cache bounds what the Readers of a Bucket, or of several, hold of what they read.
// Any number of files may be open: the blocks that were used last stay, of whichever
// file they are.
type Cache struct {
	limit int64

	mu sync.Mutex
	// order are the blocks of all Readers, the one that was used last at the end.
	order      list.List
	held, most int64
	// stretches are how many are being read, asking how many requests are under way for
	// what is not yet read.
	stretches, asking int
}

// defaultCache is an eighth of the least memory that a process has by default.
const defaultCache = 32 << 20

// NewCache is an empty Cache of at most that many bytes; 0 is 32 MiB. A store whose
// blocks do not fit at all is read without them: by as many requests as its files'
// readers make reads.
func NewCache(bytes int64) *Cache {
	if bytes <= 0 {
		bytes = defaultCache
	}
	return &Cache{limit: bytes}
}

// Bytes says how many bytes are held now, and how many were at most.
func (c *Cache) Bytes() (now, most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held, c.most
}

// block is a part of an object. Whoever had it made reads it, others wait.
type block struct {
	of          *blocks
	number      int64
	start, size int64
	place       *list.Element
	// users read it, or from it: it cannot go. Guarded by the Cache.
	users int
	// gone blocks are to be found no more, and go with their last user.
	gone bool

	ready chan struct{}
	data  []byte
	err   error
}

// take is the block of that number with one user more, who has to read it when it is
// new; nil when all that is held is in use.
func (c *Cache) take(b *blocks, number int64) (one *block, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one = b.held[number]; one != nil {
		one.users++
		c.order.MoveToBack(one.place)
	} else {
		start, end := b.bounds(number)
		one, isNew = c.add(b, number, start, end-start, false), true
	}
	c.reached(b, number)
	return one, isNew
}

// reserve is a block of a file of which the size is not known yet: nil when there is
// no room.
func (c *Cache) reserve(b *blocks, size int64) *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.add(b, -1, 0, size, false)
}

// add makes room for a block, and with it its first user. Those that will be read soon
// make room last; politely, not at all. The block may have the memory of one that went.
func (c *Cache) add(b *blocks, number, start, size int64, politely bool) *block {
	one := &block{of: b, number: number, start: start, size: size, users: 1, ready: make(chan struct{})}
	c.evict(one, true)
	if !politely {
		c.evict(one, false)
	}
	if c.held+size > c.limit {
		return nil
	}
	if number >= 0 {
		b.held[number] = one
	}
	one.place = c.order.PushBack(one)
	c.held += size
	c.most = max(c.most, c.held)
	return one
}

// evict lets blocks go that nobody uses, those first that were used least recently,
// until there is room for another.
func (c *Cache) evict(room *block, politely bool) {
	for e := c.order.Front(); e != nil && c.held+room.size > c.limit; {
		old := e.Value.(*block)
		e = e.Next()
		if old.users > 0 || politely && old.of.awaited(old.number) {
			continue
		}
		if int64(cap(old.data)) == room.size {
			room.data = old.data[:room.size]
		}
		c.drop(old)
	}
}

// settle says what a reserved block is of, by now that its file's size is known, and
// gives back what it does not need. A block without data is none.
func (c *Cache) settle(one *block, number int64, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += int64(len(data)) - one.size
	one.size = int64(len(data))
	one.number, one.data = number, data
	one.start, _ = one.of.bounds(number)
	close(one.ready)
	if len(data) > 0 {
		one.of.held[number] = one
	} else {
		one.gone = true
	}
}

// done is what a user of a block says at his end.
func (c *Cache) done(one *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(one)
}

func (c *Cache) release(one *block) {
	one.users--
	if one.users == 0 && one.gone {
		c.drop(one)
	}
}

// forget lets a block go that could not be read: the next reader tries anew.
func (c *Cache) forget(one *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose(one)
}

// lose has a block go as soon as nobody uses it.
func (c *Cache) lose(one *block) {
	if one.of.held[one.number] == one {
		delete(one.of.held, one.number)
	}
	one.gone = true
	if one.users == 0 {
		c.drop(one)
	}
}

// drop takes a block without users out.
func (c *Cache) drop(one *block) {
	if one.of.held[one.number] == one {
		delete(one.of.held, one.number)
	}
	c.order.Remove(one.place)
	c.held -= one.size
	one.data = nil
}

// leave lets all blocks of a Reader go.
func (c *Cache) leave(b *blocks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stretches -= len(b.ahead.stretches)
	b.ahead.stretches, b.ahead.closed = nil, true
	for _, one := range b.held {
		c.lose(one)
	}
}
