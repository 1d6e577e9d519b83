package keycache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// touched is what instants wrote to a file group.
type touched struct {
	at hudi.Location
	// logs and bases are the names of the files, each with its instant.
	logs, bases map[string]hudi.Time
	// compacted are the bases that compactions wrote.
	compacted map[string]bool
}

// touches reads what instants wrote, by file group, in the order of groups.
func touches(ctx context.Context, v *table.View, fresh []timeline.Instant) ([]*touched, error) {
	all := map[hudi.Location]*touched{}
	of := func(at hudi.Location) *touched {
		if all[at] == nil {
			all[at] = &touched{at: at, logs: map[string]hudi.Time{}, bases: map[string]hudi.Time{}, compacted: map[string]bool{}}
		}
		return all[at]
	}
	for _, i := range fresh {
		body, err := v.Body(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("read commit %s: %w", i.Time, err)
		}
		for partition, stats := range body.Stats {
			for k := range stats {
				of(hudi.Location{Partition: partition, File: stats[k].File}).note(i, &body, &stats[k])
			}
		}
		for partition, ids := range body.Replaced {
			for _, id := range ids {
				of(hudi.Location{Partition: partition, File: id})
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *touched) int {
		return cmp.Or(cmp.Compare(a.at.Partition, b.at.Partition), cmp.Compare(a.at.File, b.at.File))
	}), nil
}

func (t *touched) note(i timeline.Instant, body *commitmeta.Body, s *commitmeta.WriteStat) {
	name := path.Base(s.Path)
	if n, err := hudi.ParseLogFileName(name); err == nil {
		if !n.CDC {
			t.logs[name] = i.Time
		}
		return
	}
	t.bases[name] = i.Time
	if body.Compacted {
		t.compacted[name] = true
	}
}

// catchUp reads what was committed since, and nothing else of the table.
func (c *Cache) catchUp(ctx context.Context, v *table.View, d difference) error {
	list, err := touches(ctx, v, d.fresh)
	if err != nil {
		return err
	}
	w, err := c.newWriting(ctx, v)
	if err != nil {
		return err
	}
	defer w.close()
	for _, t := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.follow(ctx, t); err != nil {
			return fmt.Errorf("read what was written to file group %q of partition %q: %w", t.at.File, t.at.Partition, err)
		}
	}
	if err := w.finish(ctx, d); err != nil {
		return err
	}
	if c.o.Events.Caught != nil && len(d.fresh) > 0 {
		c.o.Events.Caught(len(d.fresh), len(list))
	}
	return nil
}

// writing is one change of the cache, from a state to the next: entries first, in
// batches, then all that makes them count, at once.
type writing struct {
	c      *Cache
	view   *table.View
	narrow narrow
	batch  *pebble.Batch
	// wrote counts entries.
	wrote int
	// changed are the groups as they will be, new ones among them.
	changed []*group
	key     []byte
	value   []byte
}

func (c *Cache) newWriting(ctx context.Context, v *table.View) (*writing, error) {
	w := &writing{c: c, view: v, batch: c.store.db.NewBatch()}
	var err error
	if w.narrow, err = narrowOf(ctx, v); err != nil && !errors.Is(err, table.ErrNoSchema) {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *writing) close() { _ = w.batch.Close() }

// slice is the latest slice of a file group; false when there is none.
func (w *writing) slice(ctx context.Context, at hudi.Location) (hudi.Slice, bool, error) {
	list, err := w.view.Slices(ctx, at.Partition)
	if err != nil {
		return hudi.Slice{}, false, err
	}
	i, ok := slices.BinarySearchFunc(list, at.File, func(s hudi.Slice, id hudi.FileID) int { return cmp.Compare(s.File, id) })
	if !ok {
		return hudi.Slice{}, false, nil
	}
	return list[i], true, nil
}

// follow brings one file group to the view.
func (w *writing) follow(ctx context.Context, t *touched) error {
	s, there, err := w.slice(ctx, t.at)
	if err != nil {
		return err
	}
	had := w.c.state.groups.active[t.at]
	switch {
	case !there && had == nil:
		return nil
	case !there:
		w.retire(had)
		return nil
	case had == nil:
		return w.scan(ctx, s)
	}
	next := *had
	fresh, ok := t.readable(&next, s)
	if ok {
		ok, err = w.apply(ctx, &next, s, fresh, t)
	}
	if err != nil {
		return err
	}
	if !ok {
		w.retire(had)
		return w.scan(ctx, s)
	}
	w.changed = append(w.changed, &next)
	return nil
}

func (w *writing) retire(g *group) {
	next := *g
	next.Retired = true
	w.changed = append(w.changed, &next)
}

// readable says whether what was written to a group can be told by its new log
// files alone, and which of the slice's those are. A compaction that merged what
// is known already changes no key.
func (t *touched) readable(g *group, s hudi.Slice) (fresh []hudi.File, ok bool) {
	if s.Base.Name != g.Base {
		at := t.bases[s.Base.Name]
		if !t.compacted[s.Base.Name] || len(t.bases) != 1 || !at.After(g.Scanned) {
			return nil, false
		}
		g.Base, g.Merged = s.Base.Name, at
		if !slices.ContainsFunc(s.Logs, func(log hudi.File) bool { return log.Name == g.Log }) {
			g.Log = "" // it was merged, too
		}
	} else if len(t.bases) > 0 {
		return nil, false
	}
	known := g.Log == ""
	for _, log := range s.Logs {
		_, isFresh := t.logs[log.Name]
		switch {
		case isFresh && !known:
			return nil, false // it stands before what was read
		case isFresh:
			fresh = append(fresh, log)
		case log.Name == g.Log:
			known = true
		}
	}
	return fresh, known && len(fresh) == len(t.logs)
}

// apply merges what new log files say with the entries. It is false when the
// outcome depends on more than them.
func (w *writing) apply(ctx context.Context, g *group, s hudi.Slice, fresh []hudi.File, t *touched) (bool, error) {
	if len(fresh) == 0 {
		return true, nil
	}
	wrote := map[hudi.Time]bool{}
	last := hudi.Time("")
	for _, at := range t.logs {
		wrote[at] = true
		if at.After(last) {
			last = at
		}
	}
	if len(wrote) > 1 {
		g.Scanned = last
	}
	g.Log = fresh[len(fresh)-1].Name
	s.Base, s.Logs = hudi.File{}, fresh
	only := func(at hudi.Time) bool { return wrote[at] }
	for r, err := range reader.Versions(ctx, w.view, s, w.narrow.target, only, w.c.readerOptions()) {
		if err != nil {
			return false, err
		}
		if r.Natural {
			return false, nil // it beats what it met in the file alone
		}
		if ok, err := w.merge(ctx, g, r.Record, last); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// merge writes a version that comes after what is known of its key. It is false
// after a delete without an order, past which the base file is to be seen.
func (w *writing) merge(ctx context.Context, g *group, r *hudi.Record, at hudi.Time) (bool, error) {
	w.key = appendKey(w.key[:0], r.Key.Record, g.id)
	have, err := w.c.store.get(w.key)
	if err != nil {
		return false, err
	}
	e := w.narrow.entry(r)
	e.instant = at
	if have != nil {
		old, err := decodeEntry(have)
		if err != nil {
			return false, damaged(err)
		}
		// A hard delete that was merged is in no file any more.
		forgotten := old.hard && g.merged(&old)
		switch {
		case old.natural && !forgotten:
			return false, nil
		case (!forgotten || r.Delete) && !hudi.IncomingWins(&hudi.Record{Order: old.order}, r):
			return true, nil
		case r.Delete && r.Row == nil:
			e.rev = old.rev
		}
		e.inBase = g.inBase(&old)
	}
	g.loosen(&e)
	return true, w.put(ctx, r.Key.Record, g.id, &e)
}

// put adds an entry to the batch, and commits that when it is large: until the
// groups are written that say so, the entries of new groups do not count, and
// those of known ones can be written a second time.
func (w *writing) put(ctx context.Context, record string, id uint32, e *entry) error {
	if e.inBase && !e.hard {
		e.instant = "" // nobody asks
	}
	w.key = appendKey(w.key[:0], record, id)
	w.value = appendEntry(w.value[:0], e)
	w.c.state.filter.add(w.key[:len(w.key)-idBytes])
	w.wrote++
	if err := w.batch.Set(w.key, w.value, nil); err != nil {
		return damaged(err)
	}
	const large = 256 << 10
	if w.batch.Len() < large {
		return nil
	}
	if err := w.c.store.commit(ctx, w.batch); err != nil {
		return err
	}
	w.batch.Reset()
	return nil
}

// scan reads a whole slice as a new group.
func (w *writing) scan(ctx context.Context, s hudi.Slice) error {
	g, err := w.c.state.groups.add(w.c.store, s.Location)
	if err != nil {
		return err
	}
	g.of(s, w.view.Last())
	for r, err := range reader.Versions(ctx, w.view, s, w.narrow.target, nil, w.c.readerOptions()) {
		if err != nil {
			return err
		}
		e := w.narrow.entry(r.Record)
		e.inBase, e.instant = r.InBase, g.Scanned
		g.loosen(&e)
		if err := w.put(ctx, r.Key.Record, g.id, &e); err != nil {
			return err
		}
	}
	w.changed = append(w.changed, g)
	return nil
}

// of makes g the group of a slice that was read whole.
func (g *group) of(s hudi.Slice, last hudi.Time) {
	g.Base, g.Log, g.Scanned = s.Base.Name, "", last
	if n := len(s.Logs); n > 0 {
		g.Log = s.Logs[n-1].Name
	}
}

// finish makes the change count, whole: groups, instants and what is swept.
func (w *writing) finish(ctx context.Context, d difference) error {
	st := w.c.state
	for _, g := range w.changed {
		if err := g.save(w.batch); err != nil {
			return err
		}
	}
	accepted, err := st.accept(w.batch, d)
	if err != nil {
		return err
	}
	if err := w.c.store.commit(ctx, w.batch); err != nil {
		return err
	}
	accepted()
	for _, g := range w.changed {
		if had := st.groups.byID[g.id]; had != nil && g.Retired && st.groups.active[g.At] == had {
			delete(st.groups.active, g.At)
		}
		st.groups.put(g)
	}
	return w.c.tidy(ctx, w.wrote)
}

// narrow is what is read of a row: few columns, of which rev and deleted are
// places, -1 where the table has none.
type narrow struct {
	target       *hudi.Schema
	rev, deleted int
}

// narrowOf chooses the columns: of other writers' tables those that are there.
func narrowOf(ctx context.Context, v *table.View) (narrow, error) {
	n := narrow{rev: -1, deleted: -1}
	s, err := v.Schema(ctx)
	if err != nil {
		return n, err
	}
	var columns []hudi.Column
	for _, name := range []string{hudi.ColumnRev, hudi.ColumnDeleted, v.Table().OrderColumn()} {
		if i, ok := s.Lookup(name); ok {
			columns = append(columns, s.Columns()[i])
		}
	}
	if n.target, err = hudi.MakeSchema(s.Name, s.Namespace, columns...); err != nil {
		return n, err
	}
	return n.places(n.target), nil
}

func (n narrow) places(s *hudi.Schema) narrow {
	n.rev, n.deleted = -1, -1
	if i, ok := s.Lookup(hudi.ColumnRev); ok {
		n.rev = i
	}
	if i, ok := s.Lookup(hudi.ColumnDeleted); ok {
		n.deleted = i
	}
	return n
}

// entry is what is kept of a record. Its text is the record's.
func (n *narrow) entry(r *hudi.Record) entry {
	e := entry{order: r.Order, hard: r.Delete, natural: r.Delete && r.Natural}
	if n.rev >= 0 && n.rev < len(r.Row) {
		e.rev = r.Row[n.rev].Text()
	}
	if n.deleted >= 0 && n.deleted < len(r.Row) && !r.Delete {
		e.tombstone = r.Row[n.deleted].Boolean()
	}
	return e
}

func (c *Cache) readerOptions() reader.Options {
	const parts = 2
	return reader.Options{Memory: c.o.Memory / parts / int64(c.o.Parallel), TempDir: c.o.TempDir}
}
