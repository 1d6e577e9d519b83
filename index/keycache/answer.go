package keycache

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
)

// question is one record key that the filter does not rule out, with the places
// in the batch where it is asked for.
type question struct {
	prefix []byte
	places []int
}

// answer looks the keys up, in the order of the store, some parts at a time.
func (st *state) answer(ctx context.Context, c *Cache, keys []hudi.Key, scope index.Scope) ([]hudi.Stored, error) {
	list := st.questions(keys)
	out := make([]hudi.Stored, len(keys))
	remembers := c.remembers()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.o.Parallel)
	const least = 256
	for part := range slices.Chunk(list, max(least, (len(list)+c.o.Parallel-1)/c.o.Parallel)) {
		g.Go(func() error {
			l := lookup{state: st, keys: keys, scope: scope, remembers: remembers, out: out}
			return l.run(ctx, c.store.db, part)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

func (st *state) questions(keys []hudi.Key) []question {
	var list []question
	at := make(map[string]int, len(keys))
	var scratch []byte
	for i, k := range keys {
		if j, twice := at[k.Record]; twice {
			list[j].places = append(list[j].places, i)
			continue
		}
		scratch = appendPrefix(scratch[:0], k.Record)
		if !st.filter.mayHold(scratch) {
			continue
		}
		at[k.Record] = len(list)
		list = append(list, question{prefix: bytes.Clone(scratch), places: []int{i}})
	}
	slices.SortFunc(list, func(a, b question) int { return bytes.Compare(a.prefix, b.prefix) })
	return list
}

// lookup is one walk over the store.
type lookup struct {
	state     *state
	keys      []hudi.Key
	scope     index.Scope
	remembers hudi.Time
	// out is written to at the places of the questions alone.
	out  []hudi.Stored
	rows []row
}

// row is an entry with its group.
type row struct {
	entry
	group *group
}

func (l *lookup) run(ctx context.Context, db *pebble.DB, part []question) (err error) {
	defer caught(&err)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindKey}, UpperBound: []byte{kindKey + 1}})
	if err != nil {
		return damaged(err)
	}
	for _, q := range part {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, it.Close())
		}
		if err := l.collect(it, q.prefix); err != nil {
			return damaged(errors.Join(err, it.Close()))
		}
		for _, i := range q.places {
			l.out[i] = l.stored(l.keys[i].Partition)
		}
	}
	return damaged(it.Close())
}

// collect reads the entries of one record key.
func (l *lookup) collect(it *pebble.Iterator, want []byte) error {
	l.rows = l.rows[:0]
	for ok := it.SeekGE(want); ok; ok = it.Next() {
		prefix, id, valid := groupOf(it.Key())
		if !valid || !bytes.Equal(prefix, want) {
			break
		}
		g := l.state.groups.byID[id]
		if g == nil {
			continue // of a change that was not finished
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		e, err := decodeEntry(value)
		if err != nil {
			return err
		}
		l.rows = append(l.rows, row{e, g})
	}
	return it.Error()
}

// stored is the answer for the collected entries.
func (l *lookup) stored(partition string) hudi.Stored {
	var found []hudi.Stored
	var forgotten *entry
	for i := range l.rows {
		r := &l.rows[i]
		if l.scope == index.Partition && r.group.At.Partition != partition {
			continue
		}
		switch {
		case r.group.hides(&r.entry):
			found = append(found, hudi.Stored{Location: r.group.At, Order: r.order, Rev: r.rev, Natural: r.natural})
		case r.hard:
			if !r.instant.Before(l.remembers) && (forgotten == nil || r.order > forgotten.order) {
				forgotten = &r.entry
			}
		case !r.group.Retired:
			found = append(found, hudi.Stored{Found: true, Location: r.group.At, Order: r.order, Rev: r.rev, Deleted: r.tombstone})
		}
	}
	s := index.Newest(found)
	if forgotten != nil && !s.Found && (s.File == "" || forgotten.order > s.Order) {
		// A delete that no file tells of any more still keeps older rows out.
		s.Order, s.Rev, s.Natural = forgotten.order, forgotten.rev, forgotten.natural
	}
	return s
}
