package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Recover rolls back every commit and deltacommit that a dead writer, ours or
// another engine, left unfinished, and says which. It finishes rollbacks that
// were begun, and restores of ours. Pending compactions and clusterings stay; of a compaction whose
// executor died the plan stays, and what it had written goes. Files are found by
// markers and by listing, and deleted; no command blocks are written. Rollback
// instants are written as Hudi writes them. It may be interrupted anywhere and
// run again. It also removes what else dead writers leave: hidden parts of
// uploads, markers of instants that ended, files put aside by instants that
// did not complete, halves of savepoints, and a properties backup.
//
// It needs the Lease, and no other engine may be writing. One that keeps a heartbeat is
// left alone: ErrBusy. To a rollback another's instant looks like a dead one's.
func (t *Table) Recover(ctx context.Context) ([]timeline.Instant, error) {
	if err := t.needLease("recover"); err != nil {
		return nil, err
	}
	if t.options.ReadOnly {
		return nil, fmt.Errorf("recover: %w: the table was opened to be read only", ErrUnsupported)
	}
	if err := t.restoreProperties(ctx); err != nil {
		return nil, err
	}
	compacted, err := t.recoverServices(ctx)
	if err != nil {
		return compacted, err
	}
	instants, late, err := t.recoverLate(ctx)
	compacted = append(compacted, late...)
	if err != nil {
		return compacted, err
	}
	restored, err := t.finishRestores(ctx, instants)
	compacted = append(compacted, restored...)
	if err == nil && len(restored) > 0 {
		instants, err = t.list(ctx)
	}
	if err != nil {
		return compacted, err
	}
	rolled, err := t.recoverInstants(ctx, instants)
	rolled = append(compacted, rolled...)
	if err != nil {
		return rolled, err
	}
	if err := t.removeHalfSavepoints(ctx, instants); err != nil {
		return rolled, err
	}
	return rolled, t.removeOrphans(ctx)
}

// recoverServices does what must not be done beside a running compaction of
// another process of ours. Beside one it is left to the next Recover.
func (t *Table) recoverServices(ctx context.Context) (rolled []timeline.Instant, err error) {
	lock, err := t.lockCompactions(ctx)
	if errors.Is(err, ErrBusy) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := t.bucket.Sweep(ctx); err != nil {
		return nil, err
	}
	instants, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	return t.recoverCompactions(ctx, instants, lock)
}

// recoverInstants finishes rollbacks, then rolls back what is pending.
func (t *Table) recoverInstants(ctx context.Context, instants []timeline.Instant) ([]timeline.Instant, error) {
	begun, err := t.begunRollbacks(ctx, instants)
	if err != nil {
		return nil, err
	}
	dead, err := t.dead(ctx, instants)
	if err != nil {
		return nil, err
	}
	if len(dead) == 0 && len(begun) == 0 {
		return nil, nil
	}
	// Plans of Hudi may name a file group where they mean those of its log
	// files that the target wrote.
	search := slices.Clone(dead)
	for _, r := range begun {
		if _, ok := find(dead, r.target.Time); !ok {
			search = append(search, r.target)
		}
	}
	found, err := t.filesOf(ctx, instants, search)
	if err != nil {
		return nil, err
	}
	var rolled []timeline.Instant
	for _, r := range begun {
		r.files = append(r.files, found[r.target.Time]...)
		if err := t.finish(ctx, r); err != nil {
			return rolled, err
		}
		rolled = append(rolled, r.target)
		dead = slices.DeleteFunc(dead, func(i timeline.Instant) bool { return i.Time == r.target.Time })
	}
	// The latest first, as Hudi does.
	for _, i := range slices.Backward(dead) {
		r, err := t.beginRollback(ctx, i, found[i.Time])
		if err != nil {
			return rolled, err
		}
		if err := t.finish(ctx, r); err != nil {
			return rolled, err
		}
		rolled = append(rolled, i)
	}
	return rolled, nil
}

// dead are the pending instants to roll back, ascending.
func (t *Table) dead(ctx context.Context, instants []timeline.Instant) ([]timeline.Instant, error) {
	var dead []timeline.Instant
	for _, i := range instants {
		t.mu.Lock()
		_, open := t.open[i.Time]
		t.mu.Unlock()
		if i.Done() || open {
			continue
		}
		switch i.Action {
		case commitmeta.ActionCommit, commitmeta.ActionDeltaCommit:
			dead = append(dead, i)
		case commitmeta.ActionReplaceCommit:
			p, err := t.plan(ctx, i)
			if err != nil {
				return nil, err
			}
			if !p.clustering {
				dead = append(dead, i)
			}
		default: // stays
		}
	}
	for _, i := range dead {
		if living, err := t.Beats(ctx, i.Time); err != nil {
			return nil, err
		} else if living {
			return nil, hinted(ErrBusy, fmt.Sprintf("let it finish, or wait %s after its end", heartbeatOver), "another engine writes %s", i)
		}
	}
	return dead, nil
}

// begunRollbacks are the rollbacks whose plan is written and that are not
// completed. A plan that cannot be read is one whose writer died writing it:
// nothing was done by it, and it is removed.
func (t *Table) begunRollbacks(ctx context.Context, instants []timeline.Instant) ([]*rollback, error) {
	var begun []*rollback
	for _, i := range instants {
		if i.Done() || i.Action != commitmeta.ActionRollback {
			continue
		}
		r, err := t.readRollback(ctx, i, instants)
		if errors.Is(err, commitmeta.ErrDecode) || errors.Is(err, storage.ErrNotExist) {
			err = t.removeInstant(ctx, i, timeline.Inflight, timeline.Requested)
		} else if r != nil {
			begun = append(begun, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return begun, nil
}

func (t *Table) readRollback(ctx context.Context, i timeline.Instant, instants []timeline.Instant) (*rollback, error) {
	name, err := instantName(timeline.Instant{Time: i.Time, Action: i.Action, State: timeline.Requested})
	if err != nil {
		return nil, err
	}
	data, err := t.bucket.ReadAll(ctx, name, instantLimit)
	if err != nil {
		return nil, err
	}
	p, err := commitmeta.DecodeRollbackPlan(data)
	if err != nil {
		return nil, err
	}
	r := &rollback{at: i.Time, target: timeline.Instant{Time: p.Target.Time, Action: p.Target.Action}}
	for _, target := range instants {
		if target.Time != p.Target.Time || target.Action == commitmeta.ActionSavepoint {
			continue
		}
		r.target = target
		if target.Done() {
			return nil, hinted(ErrForeign, "let the engine that began the rollback finish it", "%s of the completed %s", i, target)
		}
		if target.Action != commitmeta.ActionCommit && target.Action != commitmeta.ActionDeltaCommit && target.Action != commitmeta.ActionReplaceCommit {
			return nil, hinted(ErrForeign, "let the engine that began the rollback finish it", "%s of %s", i, target)
		}
	}
	for _, f := range p.Files {
		_, base := split(f.Path)
		file := found{partition: f.Partition, name: base}
		if !isData(base) {
			continue // Hudi 0.15 puts the table's own path where a log file's belongs
		}
		if f.Log {
			// The plan wants blocks undone. Where the target alone wrote the
			// file, it goes.
			alone, err := t.wroteAlone(ctx, file.object(), r.target.Time)
			if err != nil {
				return nil, err
			}
			if !alone {
				continue
			}
		}
		r.files = append(r.files, file)
	}
	return r, nil
}

// restoreProperties puts hoodie.properties back in place when an update of it
// died, and removes the backup when it did not.
func (t *Table) restoreProperties(ctx context.Context) error {
	p, err := readProperties(ctx, t.bucket)
	if err != nil {
		return err
	}
	if p.fromBackup {
		if _, err := t.bucket.Put(ctx, propertiesName, p.Encode(t.now())); err != nil {
			return err
		}
	}
	return t.bucket.DeleteIfExists(ctx, propertiesBackup)
}

// removeOrphans removes marker folders of instants that are not pending, and
// files put aside by instants that are not part of the table.
func (t *Table) removeOrphans(ctx context.Context) error {
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	pending := func(at hudi.Time) bool {
		return slices.ContainsFunc(v.instants, func(i timeline.Instant) bool { return i.Time == at && !i.Done() })
	}
	var gone []hudi.Time
	for o, err := range t.bucket.ListFolders(ctx, tempFolder) {
		if err != nil {
			return err
		}
		at, err := hudi.ParseTime(strings.TrimSuffix(strings.TrimPrefix(o.Name, tempFolder), "/"))
		if err == nil && strings.HasSuffix(o.Name, "/") && !pending(at) {
			gone = append(gone, at)
		}
	}
	for _, at := range gone {
		if err := t.removeMarked(ctx, v, at); err != nil {
			return err
		}
		if err := t.removeFolder(ctx, tempFolder+string(at)+"/"); err != nil {
			return err
		}
	}
	if err := t.removeHeartbeats(ctx, pending); err != nil {
		return err
	}
	return t.removeAside(ctx, func(at hudi.Time) bool { return !v.Committed(at) && !pending(at) })
}

// removeMarked removes the files that markers name of an instant that was never
// completed and is off the timeline, whoever took it off. Left alone they
// would come alive when the timeline has moved past it. Of a completed compaction
// they are those of runs that did not complete it.
func (t *Table) removeMarked(ctx context.Context, v *View, at hudi.Time) error {
	if v.Committed(at) {
		i, ok := find(v.instants, at)
		if !ok || i.Action != commitmeta.ActionCommit || !t.gate.Lent() {
			return nil
		}
		stay, err := t.named(ctx, i)
		if err != nil {
			return err
		}
		return t.removeStrays(ctx, at, stay)
	}
	files, err := t.marked(ctx, at)
	if err != nil {
		return err
	}
	for _, f := range uniq(files) {
		ok, err := t.mayDelete(ctx, f, at)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := t.bucket.DeleteIfExists(ctx, f.object()); err != nil {
			return err
		}
		t.tell(at, change{partition: f.partition, file: hudi.File{Name: f.name}, removed: true})
	}
	return nil
}

// removeAside removes the files put aside by the instants that gone names.
func (t *Table) removeAside(ctx context.Context, gone func(hudi.Time) bool) error {
	return t.removeEach(ctx, asideFolder, func(name string) bool {
		_, last := split(name)
		stem, _, ok := strings.Cut(last, ".")
		at, err := hudi.ParseTime(stem)
		return ok && err == nil && gone(at)
	})
}

func (t *Table) removeFolder(ctx context.Context, folder string) error {
	if err := t.removeEach(ctx, folder, func(string) bool { return true }); err != nil {
		return err
	}
	return t.bucket.Prune(ctx, folder)
}

// removeEach deletes the objects under a prefix that gone picks. The names are
// gathered first: who deletes what he lists may miss some.
func (t *Table) removeEach(ctx context.Context, prefix string, gone func(name string) bool) error {
	var names []string
	for o, err := range t.bucket.List(ctx, prefix) {
		if err != nil {
			return err
		}
		if gone(o.Name) {
			names = append(names, o.Name)
		}
	}
	for _, name := range names {
		if err := t.bucket.DeleteIfExists(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// removeInstant deletes files of an instant in the given order of states.
func (t *Table) removeInstant(ctx context.Context, i timeline.Instant, states ...timeline.State) error {
	defer t.outdate()
	for _, s := range states {
		name, err := instantName(timeline.Instant{Time: i.Time, Action: i.Action, State: s})
		if err != nil {
			return err
		}
		if err := t.bucket.DeleteIfExists(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
