// Package keycache remembers on local disk where every key of a table lives, and
// what is needed of its stored version. It is an index.Index that reads no file
// of the table for a key that it was asked for, only what others have committed
// since.
//
// All of it is derived: it stands for a set of completed instants, is caught up
// from the timeline when the table has more, and built anew from the latest file
// slices when it is missing, damaged or of a time that the table does not know.
// Removing its folder costs time and nothing else.
package keycache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/table"
)

// ErrInUse means that another process has the folder.
var ErrInUse = errors.New("the key cache is in use")

// Options say where a cache lives and how large it may grow in memory. Dir is
// needed; the zero value of the others is their default.
type Options struct {
	// Dir is the folder, of this cache alone: what else is in it is removed.
	Dir string
	// Identity is the table's address, and Layout what it pins: a cache that was
	// made for another is not used.
	Identity, Layout string
	// Memory bounds what is held of keys, in bytes: a quarter for the filter, a
	// quarter for blocks read, the rest for what is being written. 64 MiB by
	// default. Beside it stand about 300 bytes for each file group.
	Memory int64
	// Remember is how long hard deletes are remembered that the table itself has
	// forgotten; 24 hours by default. The time is that of their instants.
	Remember time.Duration
	// Clock is the wall clock; default time.Now.
	Clock func() time.Time
	// Parallel is how many file groups are read at a time; GOMAXPROCS by default.
	Parallel int
	// TempDir is for temporary files of the readers; the system's by default.
	TempDir string
	// Fallback answers for views of the past, and when there is no room for the
	// cache; a Bloom that looks into logs, too, by default.
	Fallback index.Index
	// FS is where Dir is; the file system of the machine by default.
	FS vfs.FS
	// Events tells an observer what happens; nil functions are not called.
	Events Events
}

// Events is how the cache reports.
type Events struct {
	// Building is called while the cache is built anew: at its begin with the
	// reason, after each file group, and at its end.
	Building func(Building)
	// Caught is called when instants of others, or own ones that a crash took
	// from the cache, were read.
	Caught func(instants, groups int)
	// Failed is called when the cache could not be used and the fallback was.
	Failed func(error)
}

// Building says how far a building has come.
type Building struct {
	// Reason is why.
	Reason string
	// Groups is the number of file groups, Done how many were read, Keys how
	// many keys they had.
	Groups, Done int
	Keys         int64
	// Took is the time since the begin.
	Took time.Duration
}

const (
	defaultMemory   = 64 << 20
	defaultRemember = 24 * time.Hour
	noCache         = "there is none"
)

func (o Options) withDefaults() Options {
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	if o.Remember <= 0 {
		o.Remember = defaultRemember
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Fallback == nil {
		o.Fallback = index.NewBloom(index.BloomOptions{CacheBytes: o.Memory, Parallel: o.Parallel, Memory: o.Memory, TempDir: o.TempDir, ScanLogs: true})
	}
	return o
}

// Cache is a key cache. It may be used concurrently; one call works at a time.
type Cache struct {
	o Options

	mu sync.Mutex
	// state is nil when the cache is to be built; reason says why then.
	state  *state
	reason string
	// store is open while state is not nil, and nil after a failure.
	store *store
	table *table.Table
}

var _ index.Index = (*Cache)(nil)

// Open opens the cache in its folder, or makes it. It reads nothing of the table:
// what is missing is read when keys are first asked for. The error wraps ErrInUse
// when another process has the folder.
func Open(_ context.Context, o Options) (*Cache, error) {
	c := &Cache{o: o.withDefaults(), reason: noCache}
	err := c.open(false)
	if errors.Is(err, errStore) {
		c.reason = err.Error()
		err = c.open(true)
	}
	if err != nil {
		return nil, fmt.Errorf("open key cache in %q: %w", o.Dir, err)
	}
	return c, nil
}

// open opens the store and what it says. fresh throws away what is there.
func (c *Cache) open(fresh bool) error {
	if err := c.discard(); err != nil {
		return err
	}
	s, err := openStore(c.o.FS, c.o.Dir, c.o.Memory, fresh)
	if err != nil {
		return err
	}
	c.store = s
	if fresh {
		return nil
	}
	st, reason, err := c.load(s)
	if err != nil {
		return errors.Join(err, c.discard())
	}
	c.state, c.reason = st, reason
	return nil
}

// discard lets go of the store. What its closing says of a store that is thrown
// away is of no interest, but that the folder could not be let go of is.
func (c *Cache) discard() error {
	s := c.store
	c.store, c.state = nil, nil
	if s == nil {
		return nil
	}
	_ = s.closeDB()
	return s.lock.Close()
}

// Close writes out what is in memory and lets the folder go.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.store
	if s == nil {
		return nil
	}
	var err error
	if c.state != nil && s.alive() == nil {
		if err = s.saveFilter(c.state.filter); err == nil {
			err = s.flush(context.Background())
		}
	}
	c.store, c.state = nil, nil
	if err = errors.Join(err, s.close()); errors.Is(err, errStore) {
		return nil // the next opening finds out, and builds anew
	}
	return err
}

// Locate implements index.Index.
func (c *Cache) Locate(ctx context.Context, v *table.View, keys []hudi.Key, scope index.Scope) ([]hudi.Stored, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if v.At() != "" {
		return c.o.Fallback.Locate(ctx, v, keys, scope)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table = v.Table()
	var err error
	const attempts = 2
	for range attempts {
		var out []hudi.Stored
		if out, err = c.locate(ctx, v, keys, scope); err == nil {
			return out, nil
		}
		if !errors.Is(err, errStore) || ctx.Err() != nil {
			return nil, err
		}
		c.reason = err.Error()
		c.state = nil
		if reopened := c.open(true); reopened != nil {
			err = reopened
			break
		}
	}
	if c.o.Events.Failed != nil {
		c.o.Events.Failed(err)
	}
	return c.o.Fallback.Locate(ctx, v, keys, scope)
}

// locate brings the cache to the view and answers from it.
func (c *Cache) locate(ctx context.Context, v *table.View, keys []hudi.Key, scope index.Scope) ([]hudi.Stored, error) {
	if c.store == nil {
		if err := c.open(true); err != nil {
			return nil, damaged(err)
		}
	}
	if err := c.store.alive(); err != nil {
		return nil, err
	}
	if err := c.bring(ctx, v); err != nil {
		return nil, err
	}
	return c.state.answer(ctx, c, keys, scope)
}

// bring makes the cache stand for the view's completed instants.
func (c *Cache) bring(ctx context.Context, v *table.View) error {
	if c.state == nil {
		return c.build(ctx, v)
	}
	d, reason := c.state.compare(v, "")
	if c.state.head != c.want(v.Table()) {
		reason = "it was made for another table or layout"
	}
	if reason == "" && d.none() {
		return nil
	}
	if reason == "" {
		err := c.catchUp(ctx, v, d)
		if !errors.Is(err, errFollow) {
			return err
		}
		reason = err.Error()
	}
	c.state, c.reason = nil, reason
	return c.build(ctx, v)
}

// remembers is the instant from which on hard deletes are remembered.
func (c *Cache) remembers() hudi.Time {
	return hudi.FormatTime(c.o.Clock().Add(-c.o.Remember))
}
