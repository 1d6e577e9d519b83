package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Cleaned says what a clean did.
type Cleaned struct {
	Instant hudi.Time
	// Earliest is the oldest commit as of which the table can still be read, ""
	// when the clean did not go by commits.
	Earliest hudi.Time
	// Files were deleted, or were gone already.
	Files int
}

// Clean puts a plan of cleaning on the timeline and carries it out: any engine
// can finish it from then on, and Recover does not undo it. Names of files in the
// plan become addresses. It needs the Lease. leases are the read leases that the
// plan respects; with others since then it is an ErrConflict, and nothing was
// deleted. Clean no plan while another is pending: FinishCleans first.
func (t *Table) Clean(ctx context.Context, p commitmeta.CleanPlan, leases []ReadLease) (Cleaned, error) {
	if err := t.mayWrite("clean"); err != nil {
		return Cleaned{}, err
	}
	if len(p.Files)+len(p.Partitions) == 0 {
		return Cleaned{}, fmt.Errorf("clean: %w: a plan without files", ErrBody)
	}
	instants, err := t.list(ctx)
	if err != nil {
		return Cleaned{}, err
	}
	for _, i := range instants {
		if i.Action == commitmeta.ActionClean && !i.Done() {
			return Cleaned{}, hinted(ErrRecover, "finish it first", "%s", i)
		}
	}
	located := p
	located.Files = make(map[string][]commitmeta.CleanFile, len(p.Files))
	for partition, files := range p.Files {
		for _, f := range files {
			located.Files[partition] = append(located.Files[partition], commitmeta.CleanFile{Path: t.located(join(partition, f.Path))})
		}
	}
	data, err := commitmeta.EncodeCleanPlan(located)
	if err != nil {
		return Cleaned{}, err
	}
	at, err := t.nextTime(instants)
	if err != nil {
		return Cleaned{}, err
	}
	c := &clean{t: t, at: timeline.Instant{Time: at, Action: commitmeta.ActionClean}, plan: located, data: data}
	if err := c.put(ctx, timeline.Requested, data); err != nil {
		return Cleaned{}, err
	}
	now, expired, err := t.readLeases(ctx)
	if err != nil {
		return Cleaned{}, err
	}
	if l, ok := unforeseen(now, leases, p); ok {
		// Nothing was done by the plan, and the reader may not have seen it.
		err := hinted(ErrConflict, "clean again", "reader %q has registered at %s", l.ID, l.Instant)
		return Cleaned{}, errors.Join(err, t.removeInstant(ctx, c.at, timeline.Requested))
	}
	done, err := c.run(ctx)
	if err != nil {
		return done, err
	}
	for _, name := range expired {
		if err := t.bucket.DeleteIfExists(ctx, name); err != nil {
			return done, err
		}
	}
	return done, nil
}

// unforeseen is a lease that a plan did not reckon with and that needs what the
// plan deletes.
func unforeseen(now, foreseen []ReadLease, p commitmeta.CleanPlan) (ReadLease, bool) {
	for _, l := range now {
		known := slices.ContainsFunc(foreseen, func(f ReadLease) bool { return !f.Instant.After(l.Instant) })
		if !known && (p.Earliest.Time == "" || l.Instant.Before(p.Earliest.Time)) {
			return l, true
		}
	}
	return ReadLease{}, false
}

// mayWrite says whether this process may change the table.
func (t *Table) mayWrite(what string) error {
	if err := t.needLease(what); err != nil {
		return err
	}
	if t.options.ReadOnly {
		return fmt.Errorf("%s: %w: the table was opened to be read only", what, ErrUnsupported)
	}
	return nil
}

// FinishCleans carries out what cleans that died have planned, ours or another
// engine's, and says what. It needs the Lease.
func (t *Table) FinishCleans(ctx context.Context) ([]Cleaned, error) {
	if err := t.mayWrite("finish a clean"); err != nil {
		return nil, err
	}
	instants, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	var finished []Cleaned
	for _, i := range instants {
		if i.Action != commitmeta.ActionClean || i.Done() {
			continue
		}
		p, data, err := t.cleanPlan(ctx, i)
		switch {
		case errors.Is(err, commitmeta.ErrDecode) || errors.Is(err, storage.ErrNotExist):
			// Its writer died writing it, and nothing was done by it.
			if err := t.removeInstant(ctx, i, timeline.Inflight, timeline.Requested); err != nil {
				return finished, err
			}
			continue
		case err != nil:
			return finished, err
		}
		c := &clean{t: t, at: i, plan: p, data: data}
		done, err := c.run(ctx)
		if err != nil {
			return finished, err
		}
		finished = append(finished, done)
	}
	return finished, nil
}

// cleanPlan is the plan of a pending clean, also as it stands there.
func (t *Table) cleanPlan(ctx context.Context, i timeline.Instant) (commitmeta.CleanPlan, []byte, error) {
	data, _, err := t.content(ctx, timeline.Instant{Time: i.Time, Action: i.Action, State: timeline.Requested})
	if err != nil {
		return commitmeta.CleanPlan{}, nil, err
	}
	p, err := commitmeta.DecodeCleanPlan(data)
	return p, data, err
}

// clean is one clean whose plan is on the timeline.
type clean struct {
	t    *Table
	at   timeline.Instant
	plan commitmeta.CleanPlan
	data []byte // the plan as stored
}

// run deletes and completes. Every step may have been done before.
func (c *clean) run(ctx context.Context) (Cleaned, error) {
	start := c.t.now()
	c.t.mu.Lock()
	c.t.own.add(c.at.Time)
	c.t.mu.Unlock()
	if err := c.put(ctx, timeline.Inflight, c.data); err != nil {
		return Cleaned{}, err
	}
	r := commitmeta.CleanResult{Start: c.at.Time, Earliest: c.plan.Earliest.Time, LastCompleted: c.plan.LastCompleted,
		Partitions: map[string]commitmeta.CleanedPartition{}, Extra: c.plan.Extra}
	done := Cleaned{Instant: c.at.Time, Earliest: c.plan.Earliest.Time}
	for _, partition := range slices.Sorted(maps.Keys(c.plan.Files)) {
		p := commitmeta.CleanedPartition{Policy: c.plan.Policy}
		for _, f := range c.plan.Files[partition] {
			_, name := split(f.Path)
			if f.Bootstrap || !isData(name) {
				return done, hinted(ErrForeign, "let the engine that planned the clean finish it", "%s would delete %q", c.at, f.Path)
			}
			p.Planned = append(p.Planned, name)
			if err := c.delete(ctx, partition, name); err != nil {
				return done, err
			}
			p.Deleted = append(p.Deleted, name)
		}
		done.Files += len(p.Deleted)
		r.Partitions[partition] = p
	}
	for _, partition := range c.plan.Partitions {
		if err := c.remove(ctx, partition); err != nil {
			return done, err
		}
		p := r.Partitions[partition]
		p.Policy, p.Gone = c.plan.Policy, true
		r.Partitions[partition] = p
	}
	r.Millis = max(0, c.t.now().Sub(start).Milliseconds())
	data, err := commitmeta.EncodeCleanResult(r)
	if err != nil {
		return done, err
	}
	return done, c.put(ctx, timeline.Completed, data)
}

// delete deletes a data file; one that is gone already counts as deleted.
func (c *clean) delete(ctx context.Context, partition, name string) error {
	if err := c.t.bucket.DeleteIfExists(ctx, join(partition, name)); err != nil {
		return fmt.Errorf("clean %s: %w", c.at.Time, err)
	}
	c.t.tell(c.at.Time, change{partition: partition, file: hudi.File{Name: name}, removed: true})
	return nil
}

// remove deletes a partition of which nothing is left that counts: its mark, so
// that no reader looks there. Hudi plans that for partitions whose groups were all
// replaced, and lists their files too.
func (c *clean) remove(ctx context.Context, partition string) error {
	if partition == "" {
		return nil
	}
	var names []string
	for o, err := range c.t.bucket.ListFolders(ctx, partition+"/") {
		if err != nil {
			return err
		}
		if _, name := split(o.Name); isData(name) {
			// Somebody has written there since.
			return nil
		} else if isMetafile(name) {
			names = append(names, o.Name)
		}
	}
	for _, name := range names {
		if err := c.t.bucket.DeleteIfExists(ctx, name); err != nil {
			return err
		}
	}
	// Another commit of this process would have to mark it again, and views have
	// the partition in their lists.
	c.t.mu.Lock()
	delete(c.t.folders, partition)
	c.t.mu.Unlock()
	c.t.disown(c.at.Time)
	return nil
}

// put puts a state file of the clean. One that is there stays: an earlier run of
// the same clean, or one whose answer was lost, put it.
func (c *clean) put(ctx context.Context, s timeline.State, data []byte) error {
	err := c.t.putInstant(ctx, timeline.Instant{Time: c.at.Time, Action: c.at.Action, State: s}, data)
	if err != nil && !errors.Is(err, storage.ErrExist) {
		return fmt.Errorf("clean %s: %w", c.at.Time, err)
	}
	return nil
}

// Reach is how far back a table can be read.
type Reach struct {
	// Earliest is the oldest commit as of which all is still there, by what the
	// last clean says; "" when nothing was cleaned.
	Earliest hudi.Time
	// Unbounded says that the last clean went by file versions: it does not say
	// what can still be read.
	Unbounded bool
	// Pending says that the clean may still be under way.
	Pending bool
}

// Cleaned is how far back the table can be read, by the last clean, be it
// pending, and by restores since then: what a savepoint held is whole again.
func (v *View) Cleaned(ctx context.Context) (Reach, error) {
	t := v.table
	var restored hudi.Time
	for _, i := range slices.Backward(v.Uncut().instants) {
		if i.Action == commitmeta.ActionRestore {
			about, err := v.About(ctx, i)
			if err != nil {
				return Reach{}, err
			}
			if to := hudi.Time(about["to"]); restored == "" || to.Before(restored) {
				restored = to
			}
		}
		if i.Action != commitmeta.ActionClean {
			continue
		}
		var earliest hudi.Time
		if !i.Done() {
			p, _, err := t.cleanPlan(ctx, i)
			if errors.Is(err, commitmeta.ErrDecode) || errors.Is(err, storage.ErrNotExist) {
				continue
			}
			if err != nil {
				return Reach{}, err
			}
			earliest = p.Earliest.Time
		} else {
			data, name, err := t.content(ctx, i)
			if errors.Is(err, storage.ErrNotExist) {
				continue // archived since
			}
			if err != nil {
				return Reach{}, err
			}
			r, err := commitmeta.DecodeCleanResult(data)
			if err != nil {
				return Reach{}, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", name, err)
			}
			earliest = r.Earliest
		}
		unbounded := earliest == ""
		if restored != "" && restored.Before(earliest) {
			earliest = restored
		}
		return Reach{Earliest: earliest, Unbounded: unbounded, Pending: !i.Done()}, nil
	}
	return Reach{}, nil
}
