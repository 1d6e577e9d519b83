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

// found is a data file that an instant left.
type found struct{ partition, name string }

func (f found) object() string { return join(f.partition, f.name) }

// rollback is one rollback, planned or read.
type rollback struct {
	// at is the rollback's own instant, target what it rolls back.
	at     hudi.Time
	target timeline.Instant
	files  []found
}

// beginRollback writes the plan. From here on any engine can finish it.
func (t *Table) beginRollback(ctx context.Context, target timeline.Instant, files []found) (*rollback, error) {
	instants, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	r := &rollback{target: target, files: files}
	if r.at, err = t.nextTime(instants); err != nil {
		return nil, err
	}
	p := commitmeta.RollbackPlan{Target: commitmeta.InstantInfo{Time: target.Time, Action: target.Action}}
	for _, f := range files {
		p.Files = append(p.Files, commitmeta.RollbackFile{Partition: f.partition, Path: t.located(f.object())})
	}
	data, err := commitmeta.EncodeRollbackPlan(p)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.own.add(r.at)
	t.own.add(target.Time)
	t.mu.Unlock()
	return r, t.putRollback(ctx, r, timeline.Requested, data)
}

// finish does what a plan says, in an order that leaves the plan and the
// pending instant in place until the files are gone.
func (t *Table) finish(ctx context.Context, r *rollback) error {
	start := t.now()
	t.mu.Lock()
	t.own.add(r.at)
	t.own.add(r.target.Time)
	t.mu.Unlock()
	if err := t.putRollback(ctx, r, timeline.Inflight, nil); err != nil {
		return err
	}
	deleted := map[string][]string{}
	for _, f := range uniq(r.files) {
		if err := t.bucket.DeleteIfExists(ctx, f.object()); err != nil {
			return err
		}
		t.tell(r.target.Time, change{partition: f.partition, file: hudi.File{Name: f.name}, removed: true})
		deleted[f.partition] = append(deleted[f.partition], t.located(f.object()))
	}
	if err := t.removeAside(ctx, func(at hudi.Time) bool { return at == r.target.Time }); err != nil {
		return err
	}
	// Inflight first: what is left then is still pending.
	if err := t.removeInstant(ctx, r.target, timeline.Inflight, timeline.Requested); err != nil {
		return err
	}
	data, err := commitmeta.EncodeRollbackResult(commitmeta.RollbackResult{
		Start: r.at, Millis: max(0, t.now().Sub(start).Milliseconds()), Deleted: deleted,
		Target: commitmeta.InstantInfo{Time: r.target.Time, Action: r.target.Action}})
	if err != nil {
		return err
	}
	if err := t.putRollback(ctx, r, timeline.Completed, data); err != nil {
		return err
	}
	t.remember(r.target.Time, undone{by: r.at, files: r.files})
	return t.removeFolder(ctx, tempFolder+string(r.target.Time)+"/")
}

// putRollback puts a state file of a rollback. One that is there stays: an
// earlier run of the same rollback, or one whose answer was lost, put it.
func (t *Table) putRollback(ctx context.Context, r *rollback, s timeline.State, data []byte) error {
	err := t.putInstant(ctx, timeline.Instant{Time: r.at, Action: commitmeta.ActionRollback, State: s}, data)
	if err != nil && !errors.Is(err, storage.ErrExist) {
		return fmt.Errorf("roll back %s: %w", r.target, err)
	}
	return nil
}

// located is how other engines name an object of the table.
func (t *Table) located(object string) string {
	if t.options.Location == "" {
		return object
	}
	return strings.TrimSuffix(t.options.Location, "/") + "/" + object
}

func uniq(files []found) []found {
	slices.SortFunc(files, func(a, b found) int { return strings.Compare(a.object(), b.object()) })
	return slices.Compact(files)
}

// filesOf finds the data files that dead instants wrote, by their markers and
// by listing the whole table.
func (t *Table) filesOf(ctx context.Context, instants, dead []timeline.Instant) (map[hudi.Time][]found, error) {
	files := map[hudi.Time][]found{}
	isDead := map[hudi.Time]bool{}
	for _, i := range dead {
		isDead[i.Time] = true
		marked, err := t.marked(ctx, i.Time)
		if err != nil {
			return nil, err
		}
		for _, f := range marked {
			ok, err := t.mayDelete(ctx, f, i.Time)
			if err != nil {
				return nil, err
			}
			if ok {
				files[i.Time] = append(files[i.Time], f)
			}
		}
	}
	if len(dead) == 0 {
		return files, nil
	}
	explained, err := t.namedLogs(ctx, instants)
	if err != nil {
		return nil, err
	}
	logs, err := t.listDead(ctx, isDead, explained, files)
	if err != nil {
		return nil, err
	}
	// A log file's name says whose base it is on, not who wrote it.
	for _, f := range logs {
		writers, _, err := t.writers(ctx, f.object())
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(writers, func(w hudi.Time) bool { return isDead[w] })
		if i < 0 {
			continue
		}
		if j := slices.IndexFunc(writers, func(w hudi.Time) bool { return !isDead[w] }); j >= 0 {
			return nil, errShared(f.object(), writers[i], writers[j])
		}
		files[writers[i]] = append(files[writers[i]], f)
	}
	for i := range files {
		files[i] = uniq(files[i])
	}
	return files, nil
}

// mayDelete says whether a file that a marker of an instant names is that
// instant's alone, as all are except log files to which Hudi appended.
func (t *Table) mayDelete(ctx context.Context, f found, at hudi.Time) (bool, error) {
	if n, err := hudi.ParseBaseFileName(f.name); err == nil {
		return n.Instant == at, nil
	}
	if _, err := hudi.ParseLogFileName(f.name); err != nil {
		return false, nil //nolint:nilerr // a marker of something else is no reason to stop
	}
	return t.wroteAlone(ctx, f.object(), at)
}

// listDead lists the table: files whose name holds a dead instant go to files,
// log files whose writer is not known from any commit are returned.
func (t *Table) listDead(ctx context.Context, isDead map[hudi.Time]bool, explained map[string]bool, files map[hudi.Time][]found) ([]found, error) {
	var logs []found
	for o, err := range t.bucket.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(o.Name, hoodieFolder) || explained[o.Name] {
			continue
		}
		f := found{}
		f.partition, f.name = split(o.Name)
		if n, err := hudi.ParseBaseFileName(f.name); err == nil {
			if isDead[n.Instant] {
				files[n.Instant] = append(files[n.Instant], f)
			}
		} else if n, err := hudi.ParseLogFileName(f.name); err == nil {
			if isDead[n.Instant] {
				files[n.Instant] = append(files[n.Instant], f)
			} else {
				logs = append(logs, f)
			}
		}
	}
	return logs, nil
}

// namedLogs are the log files that completed writes on the active timeline
// name as theirs.
func (t *Table) namedLogs(ctx context.Context, instants []timeline.Instant) (map[string]bool, error) {
	named := map[string]bool{}
	for _, i := range instants {
		if !i.Done() || !i.Writes() {
			continue
		}
		b, err := t.body(ctx, i)
		if err != nil {
			return nil, err
		}
		for _, stats := range b.Stats {
			for _, s := range stats {
				if s.Log != nil {
					named[s.Path] = true
				}
				for name := range s.CDC {
					named[name] = true
				}
			}
		}
	}
	return named, nil
}

// writers are the instants with blocks in a log file; none when it is not
// there or holds no whole block. whole says that it holds nothing else.
func (t *Table) writers(ctx context.Context, object string) (instants []hudi.Time, whole bool, err error) {
	r, err := t.bucket.Open(ctx, object)
	if errors.Is(err, storage.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	instants, whole, err = timeline.LogInstants(r, r.Size())
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, false, fmt.Errorf("read %q: %w", object, err)
	}
	return instants, whole, nil
}

// wroteAlone says whether an instant is the only one with blocks in a log file
// that it is known to have written to, or was about to. A file that is not there,
// or that holds no whole block, is nobody else's; a whole one without a block of
// the instant is another's, who was quicker to take its name.
func (t *Table) wroteAlone(ctx context.Context, object string, at hudi.Time) (bool, error) {
	instants, whole, err := t.writers(ctx, object)
	if err != nil {
		return false, err
	}
	if whole && len(instants) > 0 && !slices.Contains(instants, at) {
		return false, nil
	}
	for _, i := range instants {
		if i != at {
			return false, errShared(object, at, i)
		}
	}
	return true, nil
}

// errShared: undoing blocks of a file that holds others' too needs a command
// block, which we do not write.
func errShared(object string, dead, other hudi.Time) error {
	return hinted(ErrForeign, "roll the instant back with the engine that wrote it", "%q holds blocks of %s beside those of %s", object, other, dead)
}
