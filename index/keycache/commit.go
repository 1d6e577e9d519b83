package keycache

import (
	"context"
	"errors"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Committed takes over what an own commit wrote: the records with the file
// groups that they went into. It writes one batch and syncs nothing. Where it
// cannot, because the cache does not stand right before the commit or the store
// fails, it does nothing: what is missing is read from the table later.
func (c *Cache) Committed(ctx context.Context, instant hudi.Time, placed []hudi.Located) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == nil || c.store == nil || c.table == nil || c.store.alive() != nil {
		return nil
	}
	v, err := c.table.Current(ctx)
	if err != nil {
		return err
	}
	d, reason := c.state.compare(v, instant)
	if reason != "" || len(d.fresh) != 1 || d.fresh[0].Time != instant || c.state.head != c.want(v.Table()) {
		return nil
	}
	err = c.take(ctx, v, d, placed)
	if errors.Is(err, errStore) || errors.Is(err, errFollow) {
		return nil
	}
	return err
}

func (c *Cache) take(ctx context.Context, v *table.View, d difference, placed []hudi.Located) error {
	list, err := touches(ctx, v, d.fresh)
	if err != nil {
		return err
	}
	schema, err := v.Schema(ctx)
	if errors.Is(err, table.ErrNoSchema) && len(placed) == 0 {
		err = nil
	}
	if err != nil {
		return err
	}
	w := &writing{c: c, view: v, batch: c.store.db.NewBatch()}
	defer w.close()
	if schema != nil {
		w.narrow = w.narrow.places(schema)
	}
	into := map[hudi.Location]*group{}
	for _, t := range list {
		if into[t.at], err = w.own(ctx, t, d.fresh[0].Time); err != nil {
			return err
		}
	}
	for i := range placed {
		g := into[placed[i].Location]
		if g == nil {
			return errFollow
		}
		if err := w.place(g, &placed[i], d.fresh[0].Time); err != nil {
			return err
		}
	}
	for _, g := range into {
		w.changed = append(w.changed, g)
	}
	return w.finish(ctx, d)
}

// own is the group after an own commit wrote to it.
func (w *writing) own(ctx context.Context, t *touched, at hudi.Time) (*group, error) {
	s, there, err := w.slice(ctx, t.at)
	if err != nil {
		return nil, err
	}
	if !there || len(t.bases) > 1 || len(t.bases)+len(t.logs) == 0 {
		return nil, errFollow
	}
	had := w.c.state.groups.active[t.at]
	_, rewritten := t.bases[s.Base.Name]
	if had == nil {
		if len(t.bases) == 1 && !rewritten {
			return nil, errFollow
		}
		g, err := w.c.state.groups.add(w.c.store, t.at)
		if err != nil {
			return nil, err
		}
		g.of(s, "")
		return g, nil
	}
	next := *had
	if len(t.bases) == 1 {
		if !rewritten || len(s.Logs) > 0 {
			return nil, errFollow
		}
		// The commit's own records went into the rewriting, too.
		next.Base, next.Log, next.Merged = s.Base.Name, "", at
		return &next, nil
	}
	if _, ok := t.readable(&next, s); !ok {
		return nil, errFollow
	}
	next.Log = s.Logs[len(s.Logs)-1].Name
	return &next, nil
}

// place writes one record where it was placed. Whether its key stands in the base
// file is known without a look: new rows and those that are found are there, but
// in a group to which somebody else has logged new keys.
func (w *writing) place(g *group, r *hudi.Located, at hudi.Time) error {
	e := w.narrow.entry(&r.Record)
	e.instant, e.inBase = at, g.Base != ""
	w.key = appendKey(w.key[:0], r.Key.Record, g.id)
	if g.Loose || e.hard {
		have, err := w.c.store.get(w.key)
		if err != nil {
			return err
		}
		var old entry
		if have != nil {
			if old, err = decodeEntry(have); err != nil {
				return damaged(err)
			}
		}
		e.inBase = g.inBase(&old)
		if e.hard {
			e.rev = old.rev
		}
	}
	if e.inBase && !e.hard {
		e.instant = ""
	}
	w.value = appendEntry(w.value[:0], &e)
	w.c.state.filter.add(w.key[:len(w.key)-idBytes])
	w.wrote++
	return damaged(w.batch.Set(w.key, w.value, nil))
}
