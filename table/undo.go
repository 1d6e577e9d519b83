package table

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// mayUndo refuses to take completed writes back beside anything unfinished.
func (t *Table) mayUndo(ctx context.Context, what string, instants []timeline.Instant) error {
	if err := t.mayWrite(what); err != nil {
		return err
	}
	for at := range t.writing() {
		return hinted(ErrBusy, "try again between two commits", "commit %s is open", at)
	}
	return t.mayBegin(ctx, instants, true)
}

// Rollback takes the newest completed write back, and says what it was. The table
// is then as of the write before, with that one's checkpoint. A compaction's plan
// stays and can be run again; file groups that a replacecommit replaced are back.
// It needs the Lease, and Recover first. The errors that matter: ErrNotNewest,
// ErrSaved when a savepoint stands there, ErrCleaned when files of the write
// before are gone. When it dies, Recover brings it to its end.
func (t *Table) Rollback(ctx context.Context, at hudi.Time) (timeline.Instant, error) {
	done, err := t.rollBack(ctx, at)
	if err != nil {
		err = fmt.Errorf("roll back %s: %w", at, err)
	}
	return done, err
}

func (t *Table) rollBack(ctx context.Context, at hudi.Time) (timeline.Instant, error) {
	v, err := t.View(ctx)
	if err != nil {
		return timeline.Instant{}, err
	}
	if err := t.mayUndo(ctx, "roll back", v.instants); err != nil {
		return timeline.Instant{}, err
	}
	target, err := v.newestWrite(at)
	if err != nil {
		return target, err
	}
	if err := v.checkKept(ctx, at); err != nil {
		return target, err
	}
	if err := v.checkUnsaved(func(i timeline.Instant) bool { return i.Time == at }); err != nil {
		return target, err
	}
	kind, err := t.kindOf(ctx, target)
	if err != nil {
		return target, err
	}
	defer t.disown(at)
	if kind == commitmeta.ActionCompaction {
		return target, t.uncompact(ctx, target)
	}
	others := slices.DeleteFunc(slices.Clone(v.instants), func(i timeline.Instant) bool { return i.Time == at && i.Writes() })
	files, err := t.filesOf(ctx, others, []timeline.Instant{target})
	if err != nil {
		return target, err
	}
	if err := t.reopen(ctx, target, target.Action); err != nil {
		return target, err
	}
	r, err := t.beginRollback(ctx, target, files[at])
	if err != nil {
		return target, err
	}
	return target, t.finish(ctx, r)
}

// newestWrite finds a completed write that nothing was written after.
func (v *View) newestWrite(at hudi.Time) (timeline.Instant, error) {
	var target timeline.Instant
	for _, i := range v.instants {
		if !i.Writes() {
			continue
		}
		if i.Time == at {
			target = i
		} else if target.Time != "" {
			return target, hinted(ErrNotNewest, "restore the table to an earlier instant: that takes back all after it", "%s came after it", i)
		}
	}
	switch {
	case target.Time == "":
		return target, v.noInstant(at)
	case !target.Done():
		return target, hinted(ErrNotPlain, "run it, or let the engine that planned it cancel it", "%s is only planned", target)
	}
	return target, nil
}

func (v *View) noInstant(at hudi.Time) error {
	if v.Last() == "" {
		return hinted(ErrNoInstant, "the table has none yet", "%s", at)
	}
	return hinted(ErrNoInstant, "list them with couch2hudi timeline", "%s", at)
}

// kindOf is what a completed write was while it was pending.
func (t *Table) kindOf(ctx context.Context, i timeline.Instant) (commitmeta.Action, error) {
	there := func(a commitmeta.Action) (bool, error) {
		name, err := instantName(timeline.Instant{Time: i.Time, Action: a, State: timeline.Requested})
		if err != nil {
			return false, err
		}
		return t.bucket.Exists(ctx, name)
	}
	switch i.Action {
	case commitmeta.ActionCommit:
		if ok, err := there(commitmeta.ActionCompaction); ok || err != nil {
			return commitmeta.ActionCompaction, err
		}
	case commitmeta.ActionDeltaCommit:
		if ok, err := there(commitmeta.ActionLogCompaction); ok || err != nil {
			return "", errors.Join(err, notPlain(i, "log compaction"))
		}
	case commitmeta.ActionReplaceCommit:
		p, err := t.plan(ctx, i)
		if err == nil && p.clustering {
			err = notPlain(i, "clustering")
		}
		return i.Action, err
	default:
	}
	return i.Action, nil
}

// notPlain: what is left of these while they are pending is nobody's to remove.
func notPlain(i timeline.Instant, what string) error {
	return hinted(ErrNotPlain, "restore the table to the instant before", "%s is a %s", i, what)
}

// reopen makes a completed instant inflight again: from then on no reader sees what
// it wrote, and it can be rolled back as a failed one.
func (t *Table) reopen(ctx context.Context, i timeline.Instant, kind commitmeta.Action) error {
	err := t.putInstant(ctx, timeline.Instant{Time: i.Time, Action: kind, State: timeline.Inflight}, nil)
	if err != nil && !errors.Is(err, storage.ErrExist) {
		return err
	}
	return t.uncommit(ctx, i)
}

// uncommit removes a completed file, also from what is remembered of it: a
// compaction may be completed a second time.
func (t *Table) uncommit(ctx context.Context, i timeline.Instant) error {
	name, err := instantName(timeline.Instant{Time: i.Time, Action: i.Action, State: timeline.Completed})
	if err != nil {
		return err
	}
	t.bodies.drop(name)
	defer t.outdate()
	if err := t.bucket.Confirm(ctx); err != nil {
		return err
	}
	return t.bucket.DeleteIfExists(ctx, name)
}

// uncompact makes a completed compaction a planned one.
func (t *Table) uncompact(ctx context.Context, i timeline.Instant) (err error) {
	lock, err := t.lockCompactions(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	p, err := t.CompactionPlan(ctx, i.Time)
	if err != nil {
		return err
	}
	// Else whoever finds it inflight would take it for another engine's run.
	if _, err := t.bucket.Put(ctx, heartbeatFolder+string(i.Time), []byte(heartbeatOurs)); err != nil {
		return err
	}
	if err := t.reopen(ctx, i, commitmeta.ActionCompaction); err != nil {
		return err
	}
	return t.removeRun(ctx, timeline.Instant{Time: i.Time, Action: commitmeta.ActionCompaction, State: timeline.Inflight}, p)
}

// checkUnsaved refuses when a savepoint stands on one of the instants that gone
// names.
func (v *View) checkUnsaved(gone func(timeline.Instant) bool) error {
	for _, i := range v.instants {
		if i.Action == commitmeta.ActionSavepoint && gone(i) {
			return hinted(ErrSaved, "delete the savepoint first, or go back to it and no further", "savepoint %s", i.Time)
		}
	}
	return nil
}

// checkKept refuses when files are gone that the table needs without what was
// written at an instant and later: when cleans since then deleted them, or are
// about to.
func (v *View) checkKept(ctx context.Context, from hudi.Time) error {
	for _, i := range v.instants {
		if i.Action != commitmeta.ActionClean || (i.Done() && i.Time.Before(from)) {
			continue
		}
		cleaned, err := v.table.cleanedFiles(ctx, i)
		if err != nil {
			return err
		}
		for partition, names := range cleaned {
			needed, err := v.needed(ctx, from, partition, names)
			if err != nil {
				return err
			}
			if needed == "" {
				continue
			}
			return hinted(ErrCleaned, "go back less far, or to a savepoint: cleans spare what those hold", "clean %s has deleted %q, or will", i.Time, join(partition, needed))
		}
	}
	return nil
}

// needed is one of the cleaned files that belongs to a slice that readers would
// see without what was written at an instant and later; "" for none.
func (v *View) needed(ctx context.Context, from hudi.Time, partition string, cleaned []string) (string, error) {
	there, err := v.files.partition(ctx, partition)
	if err != nil {
		return "", err
	}
	gone := map[string]bool{}
	files := slices.Clone(there)
	for _, name := range cleaned {
		if gone[name] || !isData(name) {
			continue
		}
		gone[name] = true
		if !slices.ContainsFunc(there, func(f hudi.File) bool { return f.Name == name }) {
			files = append(files, hudi.File{Name: name})
		}
	}
	list := slices6(partition, files, sliceRules{
		committed: func(at hudi.Time) bool { return at.Before(from) && v.Committed(at) },
		compacting: func(l hudi.Location) hudi.Time {
			if at := v.compacting[l]; at.Before(from) {
				return at
			}
			return ""
		},
		replaced: func(l hudi.Location) bool {
			at, ok := v.replaced[l]
			return ok && at.Before(from)
		},
	})
	for i := range list {
		for _, f := range append(list[i].Logs, list[i].Base) {
			if gone[f.Name] {
				return f.Name, nil
			}
		}
	}
	return "", nil
}

// cleanedFiles are the names of files that a clean has deleted or will delete, by
// partition.
func (t *Table) cleanedFiles(ctx context.Context, i timeline.Instant) (map[string][]string, error) {
	files := map[string][]string{}
	if !i.Done() {
		i.State = timeline.Requested
	}
	data, name, err := t.content(ctx, i)
	if err != nil {
		return nil, err
	}
	if !i.Done() {
		p, err := commitmeta.DecodeCleanPlan(data)
		if err != nil {
			return nil, hinted(ErrCorrupt, "let the engine that planned it remove it", "%s: %v", name, err)
		}
		for partition, list := range p.Files {
			for _, f := range list {
				files[partition] = append(files[partition], path.Base(f.Path))
			}
		}
		return files, nil
	}
	r, err := commitmeta.DecodeCleanResult(data)
	if err != nil {
		return nil, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", name, err)
	}
	for partition, p := range r.Partitions {
		for _, f := range slices.Concat(p.Deleted, p.Planned) {
			files[partition] = append(files[partition], path.Base(f))
		}
	}
	return files, nil
}
