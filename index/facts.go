package index

import (
	"container/list"
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/internal/bloom"
	"github.com/couch2hudi/couch2hudi/table"
)

// facts are what a base file's footer says of its keys.
type facts struct {
	rows     int64
	min, max string
	filter   *bloom.Filter
}

// bytes is about how much memory they take.
func (f *facts) bytes() int64 {
	const fixed = 256
	n := fixed + len(f.min) + len(f.max)
	if f.filter != nil {
		n += f.filter.MemoryBytes()
	}
	return int64(n)
}

// candidates are those of the keys, sorted by UTF-16 units, that may be in the
// file. A file that does not tell its range or has no filter may hold them all.
func (f *facts) candidates(sorted []bloom.Probe, byRange bool) []string {
	if f.rows == 0 {
		return nil
	}
	in := sorted
	if byRange && f.max != "" {
		from := sort.Search(len(sorted), func(i int) bool { return hudi.CompareUTF16(sorted[i].Key(), f.min) >= 0 })
		to := sort.Search(len(sorted), func(i int) bool { return hudi.CompareUTF16(sorted[i].Key(), f.max) > 0 })
		in = sorted[min(from, to):to]
	}
	var out []string
	for i := range in {
		if f.filter == nil || f.filter.MayContain(&in[i]) {
			out = append(out, in[i].Key())
		}
	}
	return out
}

// cache remembers facts by file: base files never change. The least recently
// used go first.
type cache struct {
	limit int64

	mu    sync.Mutex
	held  int64
	items map[string]*list.Element
	order *list.List // of *item, the most recently used in front
}

type item struct {
	name  string
	facts *facts
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, items: map[string]*list.Element{}, order: list.New()}
}

// get is the facts of a slice's base file.
func (c *cache) get(ctx context.Context, v *table.View, s hudi.Slice) (*facts, error) {
	name := s.Partition + "/" + s.Base.Name
	if f := c.lookup(name); f != nil {
		return f, nil
	}
	f, err := readFacts(ctx, v, s)
	if err != nil {
		return nil, err
	}
	c.store(name, f)
	return f, nil
}

func (c *cache) lookup(name string) *facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[name]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*item).facts
}

func (c *cache) store(name string, f *facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items[name] != nil {
		return // somebody else has read it meanwhile
	}
	c.items[name] = c.order.PushFront(&item{name: name, facts: f})
	for c.held += f.bytes(); c.held > c.limit; {
		last := c.order.Back()
		i := last.Value.(*item)
		c.order.Remove(last)
		delete(c.items, i.name)
		c.held -= i.facts.bytes()
	}
}

func readFacts(ctx context.Context, v *table.View, s hudi.Slice) (*facts, error) {
	r, err := v.Open(ctx, s.Partition, s.Base)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	file, err := basefile.Open(r, r.Size())
	if err != nil {
		return nil, fmt.Errorf("read footer of %q: %w", s.Base.Name, err)
	}
	filter, err := file.Bloom()
	if err != nil {
		return nil, fmt.Errorf("read bloom filter of %q: %w", s.Base.Name, err)
	}
	f := file.Footer()
	return &facts{rows: f.Rows, min: strings.Clone(f.MinKey), max: strings.Clone(f.MaxKey), filter: filter}, nil
}
