package index

import (
	"context"
	"fmt"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// TagOptions are the choices of Tag; the zero value is the default.
type TagOptions struct {
	// Epoch is the least era that records get.
	Epoch int64
	// Epochs is that of each record key, in the place of Epoch, where a table has several
	// sources; it may be nil.
	Epochs func(key string) int64
	// Rewrite writes rows again that the table holds in the same version: for a
	// backfill after the mapping changed. Older ones are dropped all the same,
	// because some readers would let them win.
	Rewrite bool
	// Stay leaves a record whose partition changed where its key lives.
	Stay bool
	// OwnEra leaves records in the era of Epoch: they come from before a purge, perhaps,
	// and are older than what was written after it.
	OwnEra bool
	// Scope is the table's: where keys are looked for. A record that does not
	// know its partition is looked for everywhere in any case.
	Scope Scope
}

// Tagged is a batch with places.
type Tagged struct {
	// Records are in the order of the batch; a moved one comes right after the
	// delete in its old place.
	Records []hudi.Located
	// Collapsed records were older than another of the same key in the batch.
	// Replayed ones were not newer than what the table holds. Unknown are hard
	// deletes of keys that the table does not hold, Elsewhere records that are for
	// tables alone that hold a live row of the key. None of them is in Records.
	Collapsed, Replayed, Unknown, Elsewhere int64
	// Inserts are new keys, Updates rows of known keys (Moved ones among them),
	// Deletes hard deletes that the source asked for.
	Inserts, Updates, Deletes, Moved int64
	// Left are the records of such keys that the table did hold: they are among
	// Updates or Deletes.
	Left int64
	// Repaired are older versions, in places where the key should not be, that
	// are no more.
	Repaired int64
}

// Tag places records. Their ordering values come in as bare sums; they, and the
// cells of hudi.ColumnRevOrder, get the era: the larger of Epoch and the stored
// row's, and one more where a record's NewEra needs it. Tag owns rs and the rows in it from then on. The records belong to
// schema s.
func Tag(ctx context.Context, ix Index, v *table.View, s *hudi.Schema, rs []hudi.Record, o TagOptions) (Tagged, error) {
	parts, err := v.Table().Properties().Partitioning()
	if err != nil {
		return Tagged{}, err
	}
	t := newTagger(s, parts, o)
	rs = t.collapse(rs)
	stored, err := locate(ctx, ix, v, rs, o.Scope)
	if err != nil {
		return Tagged{}, err
	}
	t.Records = make([]hudi.Located, 0, len(rs))
	for i := range rs {
		if err := t.place(rs[i], stored[i]); err != nil {
			return Tagged{}, err
		}
	}
	return t.Tagged, nil
}

// locate asks the index where the records' keys live: in their partitions by a
// scope of Partition, but for those records that do not know theirs.
func locate(ctx context.Context, ix Index, v *table.View, rs []hudi.Record, scope Scope) ([]hudi.Stored, error) {
	out := make([]hudi.Stored, len(rs))
	ask := func(scope Scope, in func(*hudi.Record) bool) error {
		var keys []hudi.Key
		var places []int
		for i := range rs {
			if in(&rs[i]) {
				keys, places = append(keys, rs[i].Key), append(places, i)
			}
		}
		stored, err := ix.Locate(ctx, v, keys, scope)
		if err != nil {
			return fmt.Errorf("locate %d keys: %w", len(keys), err)
		}
		if len(stored) != len(keys) {
			return fmt.Errorf("locate %d keys: %d answers", len(keys), len(stored))
		}
		for i, place := range places {
			out[place] = stored[i]
		}
		return nil
	}
	anywhere := func(r *hudi.Record) bool { return scope == Global || r.AnyPartition }
	if err := ask(Global, anywhere); err != nil {
		return nil, err
	}
	if scope == Global {
		return out, nil
	}
	return out, ask(Partition, func(r *hudi.Record) bool { return !anywhere(r) })
}

// tagger decides on one record after the other. It is pure.
type tagger struct {
	Tagged
	o     TagOptions
	parts hudi.Partitioning
	// rev, order, partition, deleted are places of columns, -1 where there are none.
	rev, order, partition, deleted int
}

func newTagger(s *hudi.Schema, parts hudi.Partitioning, o TagOptions) *tagger {
	at := func(name string) int {
		if i, ok := s.Lookup(name); ok && name != "" {
			return i
		}
		return -1
	}
	return &tagger{o: o, parts: parts, rev: at(hudi.ColumnRev), order: at(hudi.ColumnRevOrder), partition: at(parts.Field), deleted: at(hudi.ColumnDeleted)}
}

// collapse keeps the newest record of each key, in the place of the last that
// won.
func (t *tagger) collapse(rs []hudi.Record) []hudi.Record {
	last := make(map[string]int, len(rs))
	for i := range rs {
		key := rs[i].Key.Record
		if j, twice := last[key]; !twice || hudi.IncomingWins(&rs[j], &rs[i]) {
			last[key] = i
		}
	}
	if len(last) == len(rs) {
		return rs
	}
	kept := make([]hudi.Record, 0, len(last))
	for i := range rs {
		if last[rs[i].Key.Record] == i {
			kept = append(kept, rs[i])
		}
	}
	t.Collapsed += int64(len(rs) - len(kept))
	return kept
}

// place decides what becomes of one record, given what the table holds.
func (t *tagger) place(r hudi.Record, stored hudi.Stored) error {
	// A hard delete that still hides the key, or is remembered, counts as a
	// version of it.
	known := stored.Found || stored.File != "" || stored.Order != 0
	era := t.o.Epoch
	if t.o.Epochs != nil {
		era = t.o.Epochs(r.Key.Record)
	}
	if known && !t.o.OwnEra {
		era = max(era, hudi.Era(stored.Order))
	}
	raised := r.NewEra && known && hudi.Order(era, r.Order) < stored.Order
	if raised {
		era++ // a purge took revisions away: the sum began again
	}
	// A delete that a purge makes newer than the one that hides the key: what comes
	// after it counts from the first revision on.
	anew := r.Delete && raised && !stored.Found && stored.File != ""
	if r.OnlyHeld && !anew && (!stored.Found || (stored.Deleted && !raised)) {
		t.Elsewhere++
		return nil
	}
	r.NewEra = false
	r.Order = hudi.Order(era, r.Order)
	if t.order >= 0 && t.order < len(r.Row) {
		r.Row[t.order] = hudi.Long(r.Order)
	}
	if known && t.old(&r, &stored) {
		t.Replayed++
		return nil
	}
	if r.OnlyHeld {
		t.Left++
	}
	switch {
	case stored.Found:
		return t.update(r, stored)
	case anew:
		t.Deletes++
		t.remove(&r, stored.Location)
		return nil
	case r.Delete:
		t.Unknown++
		return nil
	case stored.File != "" && (r.AnyPartition || r.Key.Partition == stored.Partition):
		// The key still stands in the base file: the row comes back there.
		t.Inserts++
		return t.stay(r, stored.Location)
	}
	t.Inserts++
	r.AnyPartition = false
	return t.stay(r, home(&stored, r.Key.Partition, r.Order))
}

// home is where a row of a key goes that does not live in the partition: to the
// file group whose base file still holds the key, so that no second one of the
// partition does; to a new place when there is none in which it would win.
func home(stored *hudi.Stored, partition string, order int64) hudi.Location {
	for _, h := range stored.Hidden {
		if h.Partition == partition && h.Order <= order {
			return h.Location
		}
	}
	return hudi.Location{Partition: partition}
}

// old says whether a record is not newer than the stored version. Of two
// versions with one order and different revisions the later arrival wins. The
// version that another writer deleted stays away. A revision that the table took
// for its own and that is not for it any more, or the other way round, is new:
// what is for the table was changed.
func (t *tagger) old(r *hudi.Record, stored *hudi.Stored) bool {
	if r.Order != stored.Order {
		return r.Order < stored.Order
	}
	if r.Delete || t.rev < 0 || t.rev >= len(r.Row) || t.o.Rewrite {
		return false
	}
	return r.Row[t.rev].Text() == stored.Rev && (!stored.Found || t.dead(r) == stored.Deleted)
}

// dead says whether a row is a tombstone.
func (t *tagger) dead(r *hudi.Record) bool {
	return t.deleted >= 0 && t.deleted < len(r.Row) && r.Row[t.deleted].Boolean()
}

// update places a record of a key that the table holds.
func (t *tagger) update(r hudi.Record, stored hudi.Stored) error {
	to := hudi.Location{Partition: r.Key.Partition}
	if r.Delete || r.AnyPartition || t.o.Stay || to.Partition == stored.Partition {
		to = stored.Location
	}
	for _, at := range stored.Others {
		t.Repaired++
		if to.File == "" && at.Partition == to.Partition {
			to = at // it stands where it is to go already
			continue
		}
		t.remove(&r, at)
	}
	if r.Delete {
		t.Deletes++
		t.remove(&r, to)
		return nil
	}
	t.Updates++
	if to.File == "" {
		to = home(&stored, to.Partition, r.Order)
	}
	if to.Partition != stored.Partition {
		t.Moved++
		t.remove(&r, stored.Location)
	}
	return t.stay(r, to)
}

// stay places a record where its key lives or goes, and makes its partition
// column say so.
func (t *tagger) stay(r hudi.Record, at hudi.Location) error {
	if r.Key.Partition != at.Partition || r.AnyPartition {
		value, null, err := t.parts.Value(at.Partition)
		if err != nil {
			return fmt.Errorf("place %q: %w", r.Key.Record, err)
		}
		if t.partition >= 0 && t.partition < len(r.Row) {
			r.Row[t.partition] = hudi.Value{}
			if !null {
				r.Row[t.partition] = hudi.String(value)
			}
		}
	}
	r.Key.Partition, r.AnyPartition = at.Partition, false
	t.add(r, at)
	return nil
}

// remove adds a hard delete of the record's key at a place, as new as the record.
func (t *tagger) remove(r *hudi.Record, at hudi.Location) {
	t.add(hudi.Record{Key: hudi.Key{Record: r.Key.Record, Partition: at.Partition}, Order: r.Order, Delete: true}, at)
}

func (t *tagger) add(r hudi.Record, at hudi.Location) {
	t.Records = append(t.Records, hudi.Located{Record: r, Location: at})
}
