package table

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

const (
	// bodyCacheBytes bounds the commit contents kept, by their encoded size.
	bodyCacheBytes = 16 << 20
	// instantLimit bounds one file of the timeline: a commit of a hundred
	// thousand files has room in it.
	instantLimit = 256 << 20
)

// bodyCache keeps the contents of completed instants, which never change, the
// latest used first.
type bodyCache struct {
	mu     sync.Mutex
	limit  int64
	held   int64
	order  *list.List
	byName map[string]*list.Element
}

type cachedBody struct {
	name  string
	body  commitmeta.Body
	bytes int64
}

func newBodyCache(limit int64) *bodyCache {
	return &bodyCache{limit: limit, order: list.New(), byName: map[string]*list.Element{}}
}

func (c *bodyCache) get(name string) (commitmeta.Body, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byName[name]
	if !ok {
		return commitmeta.Body{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cachedBody).body, true
}

func (c *bodyCache) put(name string, body commitmeta.Body, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byName[name]; ok || bytes > c.limit {
		return
	}
	c.byName[name] = c.order.PushFront(&cachedBody{name, body, bytes})
	for c.held += bytes; c.held > c.limit; {
		oldest := c.order.Remove(c.order.Back()).(*cachedBody)
		delete(c.byName, oldest.name)
		c.held -= oldest.bytes
	}
}

func (c *bodyCache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byName[name]; ok {
		c.held -= c.order.Remove(e).(*cachedBody).bytes
		delete(c.byName, name)
	}
}

// body reads what a completed write says.
func (t *Table) body(ctx context.Context, i timeline.Instant) (commitmeta.Body, error) {
	name, err := t.instantFile(i)
	if err != nil {
		return commitmeta.Body{}, err
	}
	if !i.Done() || !i.Writes() {
		return commitmeta.Body{}, fmt.Errorf("read %s: no completed write", i)
	}
	if b, ok := t.bodies.get(name); ok {
		return b, nil
	}
	data, err := t.bucket.ReadAll(ctx, name, instantLimit)
	if err != nil {
		return commitmeta.Body{}, err
	}
	b, err := commitmeta.Decode(t.version, data)
	if err != nil {
		return commitmeta.Body{}, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", name, err)
	}
	t.bodies.put(name, b, int64(len(data)))
	return b, nil
}

// plans is what a pending instant has planned.
type plans struct {
	// compacting are the groups of a pending compaction, with the slice that
	// it reads.
	compacting map[hudi.Location]hudi.Time
	// clustering says that the instant is a clustering, of the groups in
	// clustered.
	clustering bool
	clustered  []hudi.Location
}

// plan reads the plan of a pending compaction, log compaction or replacecommit.
func (t *Table) plan(ctx context.Context, i timeline.Instant) (*plans, error) {
	t.mu.Lock()
	p, ok := t.plans[i.Time]
	t.mu.Unlock()
	if ok {
		return p, nil
	}
	name, err := t.instantFile(timeline.Instant{Time: i.Time, Action: i.Action, State: timeline.Requested})
	if err != nil {
		return nil, err
	}
	data, err := t.bucket.ReadAll(ctx, name, instantLimit)
	if errors.Is(err, storage.ErrNotExist) && i.Action == commitmeta.ActionReplaceCommit {
		data, err = nil, nil // an inflight insert overwrite needs no requested file
	}
	if err != nil {
		return nil, err
	}
	if p, err = decodePlan(i.Action, data); err != nil {
		return nil, hinted(ErrCorrupt, "let the engine that planned it finish or remove it", "%s: %v", name, err)
	}
	t.mu.Lock()
	t.plans[i.Time] = p
	t.mu.Unlock()
	return p, nil
}

func decodePlan(a commitmeta.Action, data []byte) (*plans, error) {
	if a == commitmeta.ActionReplaceCommit || a == commitmeta.ActionClustering {
		r, err := commitmeta.DecodeReplacePlan(data)
		return &plans{clustering: r.Clustering != nil, clustered: r.Locations()}, err
	}
	c, err := commitmeta.DecodeCompactionPlan(data)
	if err != nil {
		return nil, err
	}
	p := &plans{compacting: make(map[hudi.Location]hudi.Time, len(c.Operations))}
	for _, o := range c.Operations {
		p.compacting[o.Location] = o.Instant
	}
	return p, nil
}
