package compaction

import (
	"context"
	"errors"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// ScheduleAll plans the compaction of every slice that has log files, in as many
// plans as the policy's MaxIO makes of it. It needs the table's lease.
func ScheduleAll(ctx context.Context, t *table.Table, p Policy) ([]hudi.Time, error) {
	p.MaxDeltaCommits, p.MinGap = 1, 1
	var all []hudi.Time
	for {
		v, err := t.View(ctx)
		if err != nil {
			return all, err
		}
		latest, err := latestOf(ctx, v)
		if err != nil {
			return all, err
		}
		busy, err := v.Clustering(ctx)
		if err != nil {
			return all, err
		}
		now, err := t.Now().Clock()
		if err != nil {
			return all, err
		}
		plan, ok := PlanCompact(latest, History{Busy: busy}, p, now)
		if !ok {
			return all, nil
		}
		plan.Extra = map[string]string{extraPlanner: "command"}
		at, err := t.Schedule(ctx, plan)
		if err != nil {
			return all, err
		}
		all = append(all, at)
	}
}

// RunAll runs all pending compactions, whoever planned them, and tells of each.
// It needs no lease. One that somebody completes meanwhile is passed over; one
// that somebody is at work on ends it with table.ErrBusy.
func RunAll(ctx context.Context, t *table.Table, o RunOptions, done func(Result)) error {
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	for _, i := range v.Compactions() {
		r, err := Run(ctx, t, i.Time, o)
		if errors.Is(err, table.ErrNotPending) {
			continue
		}
		if err != nil {
			return err
		}
		done(r)
	}
	return nil
}
