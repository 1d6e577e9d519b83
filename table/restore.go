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

// Restored is what a restore did, or would do.
type Restored struct {
	// Instant is the restore's own, "" when there was nothing to take back.
	Instant hudi.Time
	// To is the write that the table is brought back to.
	To hudi.Time
	// Undone are the writes that were taken back, the newest first.
	Undone []timeline.Instant
	// Files were deleted.
	Files int
}

// restore is a restore, planned or read.
type restore struct {
	at   hudi.Time
	plan commitmeta.RestorePlan
}

// restoreMark is put aside before a restore of ours begins, and says to Recover
// that it may end it.
func restoreMark(at hudi.Time) string { return asideFolder + "restore/" + string(at) + ".ours" }

// PlanRestore says what Restore would do, and does nothing. It needs no Lease:
// a write that is being made counts as one to take back.
func (t *Table) PlanRestore(ctx context.Context, to hudi.Time) (Restored, error) {
	v, err := t.View(ctx)
	if err != nil {
		return Restored{}, err
	}
	r, files, err := t.planRestore(ctx, v, to)
	if err != nil {
		return Restored{}, fmt.Errorf("restore to %s: %w", to, err)
	}
	done := Restored{To: to, Undone: r.targets()}
	for _, list := range files {
		done.Files += len(list)
	}
	return done, nil
}

// Restore brings the table back to a completed write: whatever was written after
// it is taken back, the newest first, plans of compactions and clusterings too, and
// the checkpoint is that write's again. It needs the Lease, and Recover first. The
// errors that matter: ErrNoInstant, ErrSaved when a later savepoint would be lost,
// ErrCleaned when files of that time are gone, ErrBusy while somebody compacts.
// It is refused before anything is done; when it dies later, Recover brings it to
// its end. Readers see the table as of an instant in between until then.
func (t *Table) Restore(ctx context.Context, to hudi.Time) (Restored, error) {
	done, err := t.restore(ctx, to)
	if err != nil {
		err = fmt.Errorf("restore to %s: %w", to, err)
	}
	return done, err
}

func (t *Table) restore(ctx context.Context, to hudi.Time) (done Restored, err error) {
	v, err := t.View(ctx)
	if err != nil {
		return done, err
	}
	if err := t.mayUndo(ctx, "restore", v.instants); err != nil {
		return done, err
	}
	lock, err := t.lockCompactions(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	r, files, err := t.planRestore(ctx, v, to)
	if err != nil {
		return done, err
	}
	if len(r.plan.Instants) == 0 {
		return Restored{To: to}, nil
	}
	if err := t.checkNoneLives(ctx, r.targets()); err != nil {
		return done, err
	}
	if err := t.beginRestore(ctx, v, r); err != nil {
		return done, err
	}
	return t.finishRestore(ctx, r, files)
}

// targets are the instants of the plan.
func (r *restore) targets() []timeline.Instant {
	list := make([]timeline.Instant, len(r.plan.Instants))
	for k, i := range r.plan.Instants {
		list[k] = timeline.Instant{Time: i.Time, Action: i.Action, State: timeline.Completed}
		if i.Action == commitmeta.ActionCompaction || i.Action == commitmeta.ActionLogCompaction {
			list[k].State = timeline.Requested
		}
	}
	return list
}

// planRestore finds what is to be taken back, and its files.
func (t *Table) planRestore(ctx context.Context, v *View, to hudi.Time) (*restore, map[hudi.Time][]found, error) {
	r := &restore{plan: commitmeta.RestorePlan{Savepoint: to}}
	if !v.done(to) {
		return nil, nil, v.noInstant(to)
	}
	for _, i := range slices.Backward(v.instants) {
		if i.Writes() && i.Time.After(to) {
			r.plan.Instants = append(r.plan.Instants, commitmeta.InstantInfo{Time: i.Time, Action: i.Action})
		}
	}
	if len(r.plan.Instants) == 0 {
		return r, nil, nil
	}
	if err := v.checkUnsaved(func(i timeline.Instant) bool { return i.Time.After(to) }); err != nil {
		return nil, nil, err
	}
	from, err := to.Next()
	if err != nil {
		return nil, nil, err
	}
	if err := v.checkKept(ctx, from); err != nil {
		return nil, nil, err
	}
	if err := v.checkUnarchived(ctx, to); err != nil {
		return nil, nil, err
	}
	files, err := t.filesToUndo(ctx, v.instants, r)
	return r, files, err
}

// filesToUndo are the files of the plan's instants, by the names of files and by
// the blocks in log files.
func (t *Table) filesToUndo(ctx context.Context, instants []timeline.Instant, r *restore) (map[hudi.Time][]found, error) {
	planned := map[hudi.Time]bool{}
	for _, i := range r.plan.Instants {
		planned[i.Time] = true
	}
	rest := slices.DeleteFunc(slices.Clone(instants), func(i timeline.Instant) bool { return planned[i.Time] })
	return t.filesOf(ctx, rest, r.targets())
}

// checkUnarchived refuses when writes after an instant are in the archive, where they
// cannot be taken back: a savepoint may have held the instant on the timeline, or an
// archiver died that was about to move it, too.
func (v *View) checkUnarchived(ctx context.Context, to hudi.Time) error {
	files, err := v.table.archiveFiles(ctx)
	if err != nil {
		return err
	}
	held := to.Before(v.firstDone)
	for k, f := range files {
		if (k > 0 && !held) || v.table.archiveBelow(f, to) {
			continue // a dead archiver's is the latest file
		}
		if held {
			if err := v.table.checkArchive(ctx, f); err != nil {
				return err
			}
		}
		err := v.table.scanArchive(ctx, f, true, func(a *timeline.Archived) (bool, error) {
			if a.Done() && a.Writes() && a.Time.After(to) {
				return false, hinted(ErrCleaned, "restore to a later instant", "%s came after it and is archived", a.Instant)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkNoneLives refuses while another engine runs a compaction that is to be taken
// back. Those of ours hold the lock.
func (t *Table) checkNoneLives(ctx context.Context, targets []timeline.Instant) error {
	instants, err := t.list(ctx)
	if err != nil {
		return err
	}
	for _, i := range targets {
		now, ok := pendingCompaction(instants, i.Time)
		if !ok || now.State != timeline.Inflight {
			continue
		}
		living, err := t.lives(ctx, now)
		if err != nil {
			return err
		}
		if living {
			return hinted(ErrBusy, fmt.Sprintf("let it finish, or wait %s after its end", heartbeatOver), "another engine runs compaction %s", i.Time)
		}
	}
	return nil
}

// beginRestore writes the plan.
func (t *Table) beginRestore(ctx context.Context, v *View, r *restore) error {
	data, err := commitmeta.EncodeRestorePlan(r.plan)
	if err != nil {
		return err
	}
	if r.at, err = t.nextTime(v.instants); err != nil {
		return err
	}
	if _, err := t.bucket.Put(ctx, restoreMark(r.at), nil); err != nil {
		return err
	}
	return t.putRestore(ctx, r.at, timeline.Requested, data)
}

// putRestore puts a state file of a restore. One that is there stays: an earlier
// run of the same restore, or one whose answer was lost, put it.
func (t *Table) putRestore(ctx context.Context, at hudi.Time, s timeline.State, data []byte) error {
	err := t.putInstant(ctx, timeline.Instant{Time: at, Action: commitmeta.ActionRestore, State: s}, data)
	if err != nil && !errors.Is(err, storage.ErrExist) {
		return err
	}
	return nil
}

// finishRestore does what the plan says. Every step may have been done before. The
// instants go one after the other, each from the table first and then its files, so
// that readers always see the table as of one of its instants.
func (t *Table) finishRestore(ctx context.Context, r *restore, files map[hudi.Time][]found) (Restored, error) {
	start := t.now()
	done := Restored{Instant: r.at, To: r.plan.Savepoint}
	if err := t.putRestore(ctx, r.at, timeline.Inflight, nil); err != nil {
		return done, err
	}
	result := commitmeta.RestoreResult{Start: r.at, Instants: r.plan.Instants, Rollbacks: map[hudi.Time][]commitmeta.RollbackResult{}}
	defer func() {
		for _, i := range r.targets() {
			t.disown(i.Time)
		}
	}()
	for _, i := range r.targets() {
		one := commitmeta.RollbackResult{Start: r.at, Target: commitmeta.InstantInfo{Time: i.Time, Action: i.Action}, Deleted: map[string][]string{}}
		began := t.now()
		if err := t.undo(ctx, i, files[i.Time]); err != nil {
			return done, fmt.Errorf("take back %s: %w", i, err)
		}
		for _, f := range files[i.Time] {
			one.Deleted[f.partition] = append(one.Deleted[f.partition], t.located(f.object()))
		}
		one.Millis = max(0, t.now().Sub(began).Milliseconds())
		result.Rollbacks[i.Time] = []commitmeta.RollbackResult{one}
		done.Undone = append(done.Undone, i)
		done.Files += len(files[i.Time])
	}
	result.Millis = max(0, t.now().Sub(start).Milliseconds())
	data, err := commitmeta.EncodeRestoreResult(result)
	if err != nil {
		return done, err
	}
	if err := t.putRestore(ctx, r.at, timeline.Completed, data); err != nil {
		return done, err
	}
	return done, t.bucket.DeleteIfExists(ctx, restoreMark(r.at))
}

// undo takes an instant and its files away, whatever state it is in.
func (t *Table) undo(ctx context.Context, i timeline.Instant, files []found) error {
	pending := i
	switch i.Action {
	case commitmeta.ActionCommit, commitmeta.ActionCompaction:
		i.Action, pending.Action = commitmeta.ActionCommit, commitmeta.ActionCompaction
	case commitmeta.ActionDeltaCommit, commitmeta.ActionLogCompaction:
		i.Action, pending.Action = commitmeta.ActionDeltaCommit, commitmeta.ActionLogCompaction
	default:
	}
	if err := t.uncommit(ctx, i); err != nil {
		return err
	}
	for _, f := range files {
		if err := t.bucket.DeleteIfExists(ctx, f.object()); err != nil {
			return err
		}
	}
	if err := t.removeAside(ctx, func(at hudi.Time) bool { return at == i.Time }); err != nil {
		return err
	}
	for _, folder := range []string{tempFolder + string(i.Time) + "/", heartbeatFolder + string(i.Time)} {
		if err := t.removeFolder(ctx, folder); err != nil {
			return err
		}
	}
	// Inflight first: a plan alone is still pending.
	for _, p := range []timeline.Instant{i, pending} {
		if err := t.removeInstant(ctx, p, timeline.Inflight, timeline.Requested); err != nil {
			return err
		}
	}
	return nil
}

// Restoring says whether a pending restore is one of ours, which Recover finishes.
func (t *Table) Restoring(ctx context.Context, at hudi.Time) (bool, error) {
	return t.bucket.Exists(ctx, restoreMark(at))
}

// finishRestores brings restores of ours to their end that died, and says what they
// took back.
func (t *Table) finishRestores(ctx context.Context, instants []timeline.Instant) (undone []timeline.Instant, err error) {
	for _, i := range instants {
		if i.Done() || i.Action != commitmeta.ActionRestore {
			continue
		}
		ours, err := t.Restoring(ctx, i.Time)
		if err != nil {
			return undone, err
		}
		if !ours {
			return undone, errRestore(i)
		}
		done, err := t.resumeRestore(ctx, i, instants)
		if err != nil {
			return undone, fmt.Errorf("finish %s: %w", i, err)
		}
		undone = append(undone, done.Undone...)
	}
	return undone, nil
}

func (t *Table) resumeRestore(ctx context.Context, i timeline.Instant, instants []timeline.Instant) (done Restored, err error) {
	lock, err := t.lockCompactions(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	data, name, err := t.content(ctx, timeline.Instant{Time: i.Time, Action: i.Action, State: timeline.Requested})
	if err != nil {
		return done, err
	}
	r := &restore{at: i.Time}
	if r.plan, err = commitmeta.DecodeRestorePlan(data); err != nil {
		return done, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", name, err)
	}
	files, err := t.filesToUndo(ctx, instants, r)
	if err != nil {
		return done, err
	}
	return t.finishRestore(ctx, r, files)
}

// Find is the completed write that a text of an operator means: the comment of one
// savepoint, else the newest write that is not after at, which is what the text
// says as an instant; "" when it says none. ErrNoInstant when there is none.
func (v *View) Find(ctx context.Context, text string, at hudi.Time) (hudi.Time, error) {
	saved, err := v.Savepoints(ctx)
	if err != nil {
		return "", err
	}
	var matching []hudi.Time
	for _, s := range saved {
		if s.Comment == text {
			matching = append(matching, s.Instant)
		}
	}
	switch {
	case len(matching) == 1:
		return matching[0], nil
	case len(matching) > 1:
		return "", hinted(ErrNoInstant, "name it by its instant", "savepoint %q is ambiguous: %s", text, strings.Join(texts(matching), ", "))
	case at == "":
		return "", hinted(ErrNoInstant, "list them with couch2hudi savepoint list and couch2hudi timeline", "%q is neither the comment of a savepoint nor an instant", text)
	}
	var found hudi.Time
	for _, i := range v.Writes() {
		if !i.Time.After(at) {
			found = i.Time
		}
	}
	if found == "" {
		return "", hinted(ErrNoInstant, "list them with couch2hudi timeline", "no commit is as old as %q", text)
	}
	return found, nil
}

func texts(list []hudi.Time) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}
