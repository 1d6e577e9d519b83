package table

import (
	"context"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// View is the table as it is now. It lists the timeline; of the table's files
// it lists nothing again unless somebody else has written: what our own
// transactions added is known.
func (t *Table) View(ctx context.Context) (*View, error) {
	t.viewing.Lock()
	defer t.viewing.Unlock()
	instants, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	// Taken after the timeline was read: a commit of ours that is on it has
	// told its files before. Files of a later one do no harm.
	t.mu.Lock()
	changed := t.changed
	t.mu.Unlock()
	return t.viewOf(ctx, instants, changed)
}

// viewOf is the view at a listing of the timeline; t.viewing is held.
func (t *Table) viewOf(ctx context.Context, instants []timeline.Instant, changed []change) (*View, error) {
	was := t.view
	if was != nil && len(changed) == 0 && slices.EqualFunc(was.instants, instants, timeline.Instant.Same) {
		return was, nil
	}
	v := &View{table: t, instants: instants, slices: map[string][]hudi.Slice{}}
	v.done, v.pending, v.firstDone = statesOf(instants)
	if err := t.readPlans(ctx, v); err != nil {
		return nil, err
	}
	if err := t.readReplaced(ctx, v); err != nil {
		return nil, err
	}
	if was != nil && t.onlyOwn(was.instants, instants) {
		v.files = was.files.with(changed)
		v.keepSlices(was, changed)
	} else {
		v.files = newFiles(t.bucket)
	}
	t.view = v
	t.mu.Lock()
	t.changed = slices.Clone(t.changed[len(changed):])
	t.forget(instants)
	t.mu.Unlock()
	return v, nil
}

// statesOf says which writes are completed and which are pending, and which
// completed one is the first that no savepoint kept from being archived.
func statesOf(instants []timeline.Instant) (done, pending map[hudi.Time]bool, firstDone hudi.Time) {
	done, pending = map[hudi.Time]bool{}, map[hudi.Time]bool{}
	saved, oldest := map[hudi.Time]bool{}, hudi.Time("")
	for _, i := range instants {
		if i.Action == commitmeta.ActionSavepoint {
			saved[i.Time] = true
		}
	}
	for _, i := range instants {
		switch {
		case !i.Writes():
		case !i.Done():
			pending[i.Time] = true
		default:
			done[i.Time] = true
			if oldest == "" {
				oldest = i.Time
			}
			if firstDone == "" && !saved[i.Time] {
				firstDone = i.Time
			}
		}
	}
	if firstDone == "" {
		// All that is left are savepoints, as after a restore.
		firstDone = oldest
	}
	return done, pending, firstDone
}

func (t *Table) readPlans(ctx context.Context, v *View) error {
	v.compacting = map[hudi.Location]hudi.Time{}
	for _, i := range v.instants {
		if i.Done() || i.Action != commitmeta.ActionCompaction {
			continue
		}
		p, err := t.plan(ctx, i)
		if err != nil {
			return err
		}
		for l := range p.compacting {
			v.compacting[l] = i.Time
		}
	}
	return nil
}

func (t *Table) readReplaced(ctx context.Context, v *View) error {
	v.replaced = map[hudi.Location]hudi.Time{}
	for _, i := range v.instants {
		if !i.Done() || i.Action != commitmeta.ActionReplaceCommit {
			continue
		}
		b, err := t.body(ctx, i)
		if err != nil {
			return err
		}
		for partition, ids := range b.Replaced {
			for _, id := range ids {
				v.replaced[hudi.Location{Partition: partition, File: id}] = i.Time
			}
		}
	}
	return nil
}

// onlyOwn says whether nobody else has changed the timeline between two
// listings.
func (t *Table) onlyOwn(was, is []timeline.Instant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range differences(was, is) {
		if i.Action == commitmeta.ActionCompaction {
			continue // pending: none of its files is seen
		}
		if t.own[i.Time] == nil {
			return false
		}
	}
	return true
}

// differences are the instants that only one of two listings has in their
// state.
func differences(a, b []timeline.Instant) []timeline.Instant {
	type key struct {
		time   hudi.Time
		action commitmeta.Action
		state  timeline.State
	}
	seen := make(map[key]timeline.Instant, len(a))
	for _, i := range a {
		seen[key{i.Time, i.Action, i.State}] = i
	}
	var diff []timeline.Instant
	for _, i := range b {
		k := key{i.Time, i.Action, i.State}
		if _, ok := seen[k]; ok {
			delete(seen, k)
			continue
		}
		diff = append(diff, i)
	}
	return slices.AppendSeq(diff, maps.Values(seen))
}

// keepSlices takes over the slices of partitions that no change touches, if
// nothing else that slices depend on has changed.
func (v *View) keepSlices(was *View, changed []change) {
	diff := differences(was.instants, v.instants)
	for _, i := range diff {
		// A delta commit of ours touches the partitions of its files only.
		if i.Writes() && i.Action != commitmeta.ActionDeltaCommit {
			return
		}
	}
	if was.firstDone != v.firstDone || !maps.Equal(was.compacting, v.compacting) || !maps.Equal(was.replaced, v.replaced) {
		return
	}
	was.mu.Lock()
	v.slices = maps.Clone(was.slices)
	was.mu.Unlock()
	for _, c := range changed {
		delete(v.slices, c.partition)
	}
	// An earlier view may have taken the files in, and left them out of its
	// slices, while their instant was pending.
	v.table.mu.Lock()
	defer v.table.mu.Unlock()
	for _, i := range diff {
		for p := range v.table.own[i.Time] {
			delete(v.slices, p)
		}
	}
}

// forget drops what is remembered of instants older than the timeline, and
// plans that are done; t.mu is held.
func (t *Table) forget(instants []timeline.Instant) {
	on := make(map[hudi.Time]bool, len(instants))
	for _, i := range instants {
		on[i.Time] = true
	}
	for i := range t.own {
		// Not what is merely missing: the listing may be older than it.
		if _, open := t.open[i]; !open && len(instants) > 0 && i.Before(instants[0].Time) {
			delete(t.own, i)
		}
	}
	for i := range t.plans {
		if !on[i] {
			delete(t.plans, i)
		}
	}
}
