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

// block is a part of an object. Its first user reads it, others wait.
type block struct {
	of          *blocks
	number      int64
	start, size int64
	place       *list.Element
	// users read it, or from it: it cannot go. Guarded by the Cache.
	users int
	// gone blocks are to be found no more, and go with their last user.
	gone bool

	read sync.Once
	data []byte
	err  error
}

// take is the block of that number with one user more; nil when all that is held is in
// use. A new block may have the memory of one that went.
func (c *Cache) take(b *blocks, number int64) *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := b.held[number]; one != nil {
		one.users++
		c.order.MoveToBack(one.place)
		return one
	}
	start, end := b.bounds(number)
	return c.add(b, number, start, end-start)
}

// reserve is a block of a file of which the size is not known yet: nil when there is
// no room.
func (c *Cache) reserve(b *blocks, size int64) *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.add(b, -1, 0, size)
}

func (c *Cache) add(b *blocks, number, start, size int64) *block {
	one := &block{of: b, number: number, start: start, size: size, users: 1}
	for e := c.order.Front(); e != nil && c.held+size > c.limit; {
		old := e.Value.(*block)
		e = e.Next()
		if old.users > 0 {
			continue
		}
		if int64(cap(old.data)) == size {
			one.data = old.data[:size]
		}
		c.drop(old)
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

// settle says what a reserved block is of, by now that its file's size is known, and
// gives back what it does not need. A block without data is none.
func (c *Cache) settle(one *block, number int64, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += int64(len(data)) - one.size
	one.size = int64(len(data))
	one.number, one.data = number, data
	one.start, _ = one.of.bounds(number)
	one.read.Do(func() {})
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
	for _, one := range b.held {
		c.lose(one)
	}
}
