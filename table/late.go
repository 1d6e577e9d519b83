package table

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// A store that only lends its lock cannot hold back what a writer sends that was
// stopped, with its clocks, right before: it arrives when the lease is another's, and
// the write it belongs to was rolled back. So rollbacks are remembered. A completed
// file that comes to a write that was rolled back is taken away as soon as it is seen,
// a data file at the next start and before the archival that would bring it to life:
// a reader takes for completed what is older than the timeline.

// lateFor is how long what was rolled back stays on the timeline of a table whose lock
// is lent: what arrives within that time is found.
const lateFor = time.Hour

// lateAtOnce is how many files are looked for at a time.
const lateAtOnce = 8

// undone is a write that was rolled back.
type undone struct {
	// by is the rollback, done when the store has it for completed; zero when not known.
	by   hudi.Time
	done time.Time
	// files are those that it had, or was about to have.
	files []found
}

// remember notes a rollback that is completed.
func (t *Table) remember(target hudi.Time, u undone) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.undone == nil {
		t.undone = map[hudi.Time]undone{}
	}
	t.undone[target] = u
}

func (t *Table) remembered() map[hudi.Time]undone {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[hudi.Time]undone, len(t.undone))
	for target, u := range t.undone {
		all[target] = u
	}
	return all
}

// rememberAll reads what the completed rollbacks of a timeline took back.
func (t *Table) rememberAll(ctx context.Context, instants []timeline.Instant) error {
	known := map[hudi.Time]bool{}
	for _, u := range t.remembered() {
		known[u.by] = true
	}
	for _, r := range instants {
		if !r.Done() || r.Action != commitmeta.ActionRollback || known[r.Time] {
			continue
		}
		name, err := instantName(timeline.Instant{Time: r.Time, Action: r.Action, State: timeline.Requested})
		if err != nil {
			return err
		}
		data, err := t.bucket.ReadAll(ctx, name, instantLimit)
		if errors.Is(err, storage.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		p, err := commitmeta.DecodeRollbackPlan(data)
		if err != nil {
			continue // completed, and not of ours
		}
		if a := p.Target.Action; a != commitmeta.ActionDeltaCommit && a != commitmeta.ActionCommit {
			continue // Hudi runs compactions and clusterings again, under the same instant
		}
		u := undone{by: r.Time, done: r.Modified}
		for _, f := range p.Files {
			if _, name := split(f.Path); isData(name) {
				u.files = append(u.files, found{partition: f.Partition, name: name})
			}
		}
		t.remember(p.Target.Time, u)
	}
	return nil
}

// takeBackLate removes the completed files of writes that a completed rollback took
// back: they arrived after it. Their writer was stopped between asking for its lease
// and sending, for longer than the lease stood. Nothing of such a write is left but
// that file, which readers would look for the rest of.
func (t *Table) takeBackLate(ctx context.Context, instants []timeline.Instant) (late []timeline.Instant, err error) {
	for target, u := range t.remembered() {
		i, ok := find(instants, target)
		if !ok || !i.Done() || !i.Writes() || !i.Time.Before(u.by) || i.Modified.Before(u.done) {
			continue
		}
		if err := t.uncommit(ctx, i); err != nil {
			return late, err
		}
		late = append(late, i)
	}
	return late, nil
}

// recoverLate removes what came late, and says of which writes there were completed
// files. The timeline is as it is then.
func (t *Table) recoverLate(ctx context.Context) (instants, late []timeline.Instant, err error) {
	if instants, err = t.list(ctx); err != nil {
		return nil, nil, err
	}
	if err := t.rememberAll(ctx, instants); err != nil {
		return nil, nil, err
	}
	if err := t.removeAllLate(ctx); err != nil {
		return nil, nil, err
	}
	late, err = t.takeBackLate(ctx, instants)
	for _, i := range late {
		t.disown(i.Time)
	}
	if err == nil && len(late) > 0 {
		instants, err = t.list(ctx)
	}
	return instants, late, err
}

// settled is a listing of the timeline without what came late. Only the writer takes
// it away; to others it is there. disown is that of the Table, or one for the holder of
// t.viewing.
func (t *Table) settled(ctx context.Context, disown func(hudi.Time)) ([]timeline.Instant, error) {
	instants, err := t.list(ctx)
	t.mu.Lock()
	nothing := !t.leased || len(t.undone) == 0
	t.mu.Unlock()
	if err != nil || nothing {
		return instants, err
	}
	late, err := t.takeBackLate(ctx, instants)
	for _, i := range late {
		disown(i.Time)
	}
	if err != nil || len(late) == 0 {
		return instants, err
	}
	return t.list(ctx)
}

// removeLate removes the data files that came to a write after it was rolled back.
// Nothing is written meanwhile.
func (t *Table) removeLate(ctx context.Context, at hudi.Time, files []found) error {
	if !t.gate.Lent() {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lateAtOnce)
	for _, f := range files {
		g.Go(func() error {
			its, err := t.isOf(ctx, f, at)
			if err != nil || !its {
				return err
			}
			defer t.disown(at)
			return t.bucket.DeleteIfExists(ctx, f.object())
		})
	}
	return g.Wait()
}

// isOf says whether a file is there and was written by an instant alone. Another may
// have taken the name of a log file since.
func (t *Table) isOf(ctx context.Context, f found, at hudi.Time) (bool, error) {
	if n, err := hudi.ParseBaseFileName(f.name); err == nil {
		if n.Instant != at {
			return false, nil
		}
		return t.bucket.Exists(ctx, f.object())
	}
	instants, _, err := t.writers(ctx, f.object())
	return err == nil && len(instants) == 1 && instants[0] == at, err
}

// removeAllLate looks for what came to every write whose rollback is young enough.
func (t *Table) removeAllLate(ctx context.Context) error {
	for at, u := range t.remembered() {
		if !t.young(u) {
			continue
		}
		if err := t.removeLate(ctx, at, u.files); err != nil {
			return err
		}
	}
	return nil
}

// young says whether something may still arrive that was rolled back.
func (t *Table) young(u undone) bool {
	at, err := u.by.Clock()
	return err == nil && t.now().Sub(at) < lateFor
}

// Unsettled is the oldest write of this Table that was rolled back so lately that
// something of it may still arrive, "" when there is none. A completed write before it
// has to stay on the timeline, since readers take what is before that for completed.
func (t *Table) Unsettled() (oldest hudi.Time) {
	if !t.gate.Lent() {
		return ""
	}
	for at, u := range t.remembered() {
		if t.young(u) && (oldest == "" || at.Before(oldest)) {
			oldest = at
		}
	}
	return oldest
}

// dropUndone drops what rollbacks took back that leave the timeline, when nothing of it
// has come since.
func (t *Table) dropUndone(ctx context.Context, leaving []timeline.Instant) error {
	all := t.remembered()
	for _, i := range leaving {
		if i.Action != commitmeta.ActionRollback {
			continue
		}
		for at, u := range all {
			if u.by != i.Time {
				continue
			}
			if err := t.removeLate(ctx, at, u.files); err != nil {
				return err
			}
			t.mu.Lock()
			delete(t.undone, at)
			t.mu.Unlock()
		}
	}
	return nil
}
