package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Savepoint is a completed write whose files no clean deletes, and which a restore
// can go back to until the savepoint is deleted.
type Savepoint struct {
	// Instant is the write's.
	Instant hudi.Time
	// By and Comment say who made it and why.
	By, Comment string
	// Made is when, by the clock of who made it.
	Made time.Time
	// Files are kept.
	Files int
}

// Save makes a savepoint of a completed write of the active timeline, "" for the
// newest; ErrSavepoint when there is one. It needs the Lease. ErrCleaned when files
// of that time are gone.
func (t *Table) Save(ctx context.Context, at hudi.Time, by, comment string) (Savepoint, error) {
	s, err := t.save(ctx, at, by, comment)
	if err != nil {
		err = fmt.Errorf("savepoint %s: %w", at, err)
	}
	return s, err
}

func (t *Table) save(ctx context.Context, at hudi.Time, by, comment string) (Savepoint, error) {
	v, err := t.View(ctx)
	if err != nil {
		return Savepoint{}, err
	}
	if err := t.mayUndo(ctx, "savepoint", v.instants); err != nil {
		return Savepoint{}, err
	}
	if at == "" {
		at = v.Last()
	}
	if !v.done(at) {
		return Savepoint{}, v.noInstant(at)
	}
	from, err := at.Next()
	if err != nil {
		return Savepoint{}, err
	}
	if err := v.checkKept(ctx, from); err != nil {
		return Savepoint{}, err
	}
	m := commitmeta.Savepoint{By: by, Comment: comment, Millis: t.now().UnixMilli(), Files: map[string][]string{}}
	s := Savepoint{Instant: at, By: by, Comment: comment, Made: time.UnixMilli(m.Millis).UTC()}
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return s, err
	}
	for _, p := range partitions {
		list, err := v.AsOf(at).Slices(ctx, p)
		if err != nil {
			return s, err
		}
		if names := namesOf(list); len(names) > 0 {
			m.Files[p] = names
			s.Files += len(names)
		}
	}
	data, err := commitmeta.EncodeSavepoint(m)
	if err != nil {
		return s, err
	}
	return s, t.putSavepoint(ctx, at, data)
}

// namesOf are the base and log files of slices.
func namesOf(list []hudi.Slice) []string {
	var names []string
	for i := range list {
		if list[i].Base.Name != "" {
			names = append(names, list[i].Base.Name)
		}
		for _, f := range list[i].Logs {
			names = append(names, f.Name)
		}
	}
	return names
}

func (t *Table) putSavepoint(ctx context.Context, at hudi.Time, data []byte) error {
	for _, s := range []timeline.State{timeline.Inflight, timeline.Completed} {
		content := data
		if s == timeline.Inflight {
			content = nil
		}
		err := t.putInstant(ctx, timeline.Instant{Time: at, Action: commitmeta.ActionSavepoint, State: s}, content)
		switch {
		case errors.Is(err, storage.ErrExist) && s == timeline.Completed:
			return hinted(ErrSavepoint, "delete that one first", "%s", at)
		case err != nil && !errors.Is(err, storage.ErrExist):
			return err
		}
	}
	return nil
}

// DeleteSavepoint lets cleans have the files of a savepoint; ErrNoInstant when
// there is none at that instant. It needs the Lease. When it dies, Recover brings
// it to its end.
func (t *Table) DeleteSavepoint(ctx context.Context, at hudi.Time) error {
	if err := t.needLease("delete a savepoint"); err != nil {
		return err
	}
	instants, err := t.list(ctx)
	if err != nil {
		return err
	}
	s := timeline.Instant{Time: at, Action: commitmeta.ActionSavepoint}
	if !slices.ContainsFunc(instants, func(i timeline.Instant) bool { return i.Time == at && i.Action == s.Action }) {
		return hinted(ErrNoInstant, "list them with couch2hudi savepoint list", "savepoint %s", at)
	}
	// Completed first: what is left then is no savepoint.
	if err := t.removeInstant(ctx, s, timeline.Completed, timeline.Inflight); err != nil {
		return fmt.Errorf("delete savepoint %s: %w", at, err)
	}
	return nil
}

// Savepoints are the completed savepoints, ascending.
func (v *View) Savepoints(ctx context.Context) ([]Savepoint, error) {
	var all []Savepoint
	for _, i := range v.instants {
		if i.Action != commitmeta.ActionSavepoint || !i.Done() {
			continue
		}
		data, name, err := v.table.content(ctx, i)
		if errors.Is(err, storage.ErrNotExist) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		m, err := commitmeta.DecodeSavepoint(data)
		if err != nil {
			return nil, hinted(ErrCorrupt, "delete the savepoint and make it again", "%s: %v", name, err)
		}
		s := Savepoint{Instant: i.Time, By: m.By, Comment: m.Comment, Made: time.UnixMilli(m.Millis).UTC()}
		for _, names := range m.Files {
			s.Files += len(names)
		}
		all = append(all, s)
	}
	return all, nil
}

// About is what a completed savepoint, restore or rollback says of itself: comment
// and by; to, the instant that was restored; undone, what was taken back. It is
// empty for other instants.
func (v *View) About(ctx context.Context, i timeline.Instant) (map[string]string, error) {
	about := map[string]string{}
	switch i.Action {
	case commitmeta.ActionSavepoint, commitmeta.ActionRollback:
	case commitmeta.ActionRestore:
		i.State = timeline.Requested // the result does not say what was restored
	default:
		return about, nil
	}
	data, name, err := v.table.content(ctx, i)
	if errors.Is(err, storage.ErrNotExist) {
		return about, nil // archived or deleted since
	}
	if err != nil {
		return nil, err
	}
	switch i.Action {
	case commitmeta.ActionSavepoint:
		var s commitmeta.Savepoint
		s, err = commitmeta.DecodeSavepoint(data)
		about["comment"], about["by"] = s.Comment, s.By
	case commitmeta.ActionRestore:
		var r commitmeta.RestorePlan
		r, err = commitmeta.DecodeRestorePlan(data)
		var undone []hudi.Time
		for _, one := range r.Instants {
			undone = append(undone, one.Time)
		}
		about["to"], about["undone"] = string(r.Savepoint), strings.Join(texts(undone), " ")
	default:
		var r commitmeta.RollbackResult
		r, err = commitmeta.DecodeRollbackResult(data)
		about["undone"] = string(r.Target.Time)
	}
	if err != nil {
		return nil, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", name, err)
	}
	return about, nil
}

// removeHalfSavepoints removes savepoints that were begun and never made, or
// deleted by half.
func (t *Table) removeHalfSavepoints(ctx context.Context, instants []timeline.Instant) error {
	for _, i := range instants {
		if i.Action == commitmeta.ActionSavepoint && !i.Done() {
			if err := t.removeInstant(ctx, i, timeline.Inflight); err != nil {
				return err
			}
		}
	}
	return nil
}
