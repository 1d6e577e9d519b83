package table

import (
	"context"
	"slices"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// known is a timeline as it was seen, or made, at a moment.
type known struct {
	instants []timeline.Instant
	// look tells earlier from later ones.
	look uint64
	// at is the moment, by the table's clock.
	at time.Time
	// carried says that it is an earlier listing, and a commit of ours on top.
	carried bool
}

// carriedFor is how long a timeline is believed that was not listed. A commit
// that follows another within that time lists once, right before it completes;
// later ones list twice, so that what others did meanwhile costs them no
// roll-back.
const carriedFor = 5 * time.Second

// Current is the table as this process last saw it, with the last own commit on
// top: it lists the timeline only when that is no good any more. It is for the
// holder of the Lease between two commits, and for Txns by BeginAt, which find out
// when it was not enough. Others want View.
func (t *Table) Current(ctx context.Context) (*View, error) {
	t.viewing.Lock()
	defer t.viewing.Unlock()
	t.mu.Lock()
	k, changed := t.known, t.changed
	age := t.now().Sub(k.at)
	good := t.leased && k.look > 0 && age >= 0 && age < carriedFor
	t.mu.Unlock()
	if !good {
		return t.look(ctx)
	}
	return t.viewOf(ctx, k, changed)
}

// current says whether a view is of what is known of the timeline now, and
// whether that was carried forward.
func (t *Table) current(v *View) (is, carried bool) {
	t.viewing.Lock()
	defer t.viewing.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return v == t.view && t.known.look > 0 && t.viewed.look == t.known.look, t.known.carried
}

// nextLook is later than all before.
func (t *Table) nextLook() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks++
	return t.looks
}

// keep takes a listing for what is known of the timeline, unless something later
// is known.
func (t *Table) keep(k known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.look > t.known.look && k.look > t.stale {
		t.known = k
	}
}

// carry takes a listing for what is known, with an instant on it that was
// completed since. Nothing is known afterwards when this process has changed the
// timeline since then in other ways.
func (t *Table) carry(k known, completed timeline.Instant) {
	n := slices.IndexFunc(k.instants, func(i timeline.Instant) bool { return i.Time == completed.Time && i.Action == completed.Action })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks++
	if n < 0 || t.stale > k.look {
		t.stale, t.known = t.looks, known{}
		return
	}
	next := slices.Clone(k.instants)
	next[n] = completed
	t.known = known{instants: next, look: t.looks, at: t.now(), carried: true}
}

// outdate says that the timeline is not as it is known any more: this process has
// changed it other than by a delta commit.
func (t *Table) outdate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks++
	t.stale, t.known = t.looks, known{}
}

// putInstant puts a file of the timeline; storage.ErrExist when it is there.
func (t *Table) putInstant(ctx context.Context, i timeline.Instant, data []byte) error {
	name, err := instantName(i)
	if err != nil {
		return err
	}
	defer t.outdate()
	if err := t.bucket.Confirm(ctx); err != nil {
		return err
	}
	_, err = t.bucket.PutIfAbsent(ctx, name, data)
	return err
}
