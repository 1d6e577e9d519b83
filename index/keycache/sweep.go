package keycache

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// sweep is a walk over all entries, a few at a time, that removes those which are
// worth nothing: rows of groups that are gone, and hard deletes beyond the time
// for which they are remembered. A group of which none is left goes, too.
type sweep struct {
	// from is where the walk goes on, nil for its begin.
	from []byte
	// retired are the groups that were gone when the walk began and of which no
	// entry was kept since.
	retired map[uint32]bool
}

// sweepMost is how many entries one change of the cache looks at; a small change
// looks at sweepShare times as many as it writes, but at sweepLeast.
const sweepMost, sweepLeast, sweepShare = 2048, 256, 8

// flushEvery is how many changes may wait for a flush: instants that only a lost
// memtable knew must not have been archived when they are read again.
const flushEvery = 128

// tidy does a step of the sweep after a change of so many entries, and flushes now
// and then.
func (c *Cache) tidy(ctx context.Context, entries int) error {
	if err := c.step(ctx, min(max(sweepLeast, sweepShare*entries), sweepMost)); err != nil {
		return err
	}
	if c.state.sinceFlush++; c.state.sinceFlush < flushEvery {
		return nil
	}
	c.state.sinceFlush = 0
	return c.store.flush(ctx)
}

func (c *Cache) step(ctx context.Context, left int) error {
	st := c.state
	if st.sweep.from == nil {
		st.sweep = sweep{from: []byte{kindKey}, retired: map[uint32]bool{}}
		for id, g := range st.groups.byID {
			st.sweep.retired[id] = g.Retired
		}
	}
	b := c.store.db.NewBatch()
	defer b.Close() //nolint:errcheck // it was committed, or is not to be
	remembers := c.remembers()
	var next []byte
	err := c.store.each(kindKey, st.sweep.from, func(key, value []byte) (bool, error) {
		if left--; left < 0 {
			next = bytes.Clone(key)
			return false, nil
		}
		_, id, ok := groupOf(key)
		e, err := decodeEntry(value)
		if err != nil || !ok {
			return false, damaged(errors.Join(err, errEntry))
		}
		g := st.groups.byID[id]
		if g != nil && g.worth(&e) || e.hard && !e.instant.Before(remembers) {
			delete(st.sweep.retired, id)
			return true, nil
		}
		return true, b.Delete(key, nil)
	})
	if err != nil {
		return err
	}
	if st.sweep.from = next; next == nil {
		if err := st.forget(b); err != nil {
			return err
		}
	}
	if b.Empty() {
		return nil
	}
	return c.store.commit(ctx, b)
}

// worth says whether an entry tells of something that stands in a file.
func (g *group) worth(e *entry) bool {
	if g.Retired {
		return false
	}
	return !e.hard || !g.merged(e)
}

// forget removes the groups of which a whole walk kept no entry.
func (st *state) forget(b *pebble.Batch) error {
	for id, gone := range st.sweep.retired {
		if !gone {
			continue
		}
		delete(st.groups.byID, id)
		if err := b.Delete(groupKey(id), nil); err != nil {
			return damaged(err)
		}
	}
	return nil
}
