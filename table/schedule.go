package table

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// Schedule puts a compaction's plan on the timeline and says at which instant.
// From then on log files of the plan's groups carry that instant, and any engine
// may run the plan. It needs the Lease. It refuses with ErrBusy while a delta
// commit of this process is open, and with ErrRecover or ErrForeign while one of
// somebody else is: its log files would stay behind on the old slices. The plan
// must name the latest slices as they are now, else ErrConflict.
func (t *Table) Schedule(ctx context.Context, p commitmeta.CompactionPlan) (hudi.Time, error) {
	if err := t.needLease("schedule a compaction"); err != nil {
		return "", err
	}
	if t.options.ReadOnly {
		return "", fmt.Errorf("schedule a compaction: %w: the table was opened to be read only", ErrUnsupported)
	}
	t.starting.Lock()
	defer t.starting.Unlock()
	v, err := t.View(ctx)
	if err != nil {
		return "", err
	}
	if err := t.mayPlan(ctx, v, p); err != nil {
		return "", fmt.Errorf("schedule a compaction: %w", err)
	}
	data, err := commitmeta.EncodeCompactionPlan(p)
	if err != nil {
		return "", err
	}
	t.afterFiles(v.instants)
	at, err := t.nextTime(v.instants)
	if err != nil {
		return "", err
	}
	if err := t.putInstant(ctx, timeline.Instant{Time: at, Action: commitmeta.ActionCompaction, State: timeline.Requested}, data); err != nil {
		return "", fmt.Errorf("schedule compaction %s: %w", at, err)
	}
	return at, nil
}

// mayPlan refuses a plan that would lose rows.
func (t *Table) mayPlan(ctx context.Context, v *View, p commitmeta.CompactionPlan) error {
	if len(p.Operations) == 0 {
		return fmt.Errorf("%w: a plan without operations", ErrBody)
	}
	for at := range t.writing() {
		return hinted(ErrBusy, "try again between two commits", "delta commit %s is open", at)
	}
	if err := t.mayBegin(ctx, v.instants, true); err != nil {
		return err
	}
	clustering, err := v.Clustering(ctx)
	if err != nil {
		return err
	}
	seen := map[hudi.Location]bool{}
	for i := range p.Operations {
		o := &p.Operations[i]
		list, err := v.Slices(ctx, o.Partition)
		if err != nil {
			return err
		}
		j := slices.IndexFunc(list, func(s hudi.Slice) bool { return s.File == o.File })
		if j < 0 || !fits(o, list[j]) || clustering[o.Location] || seen[o.Location] {
			return hinted(ErrConflict, "make a new plan", "file group %q of partition %q is not as the plan has it", o.File, o.Partition)
		}
		seen[o.Location] = true
	}
	return nil
}

// fits says whether an operation is the compaction of a slice, whole.
func fits(o *commitmeta.CompactionOperation, s hudi.Slice) bool {
	return s.Compacting == "" && s.Instant == o.Instant && s.Base.Name == o.Base &&
		slices.EqualFunc(s.Logs, o.Logs, func(f hudi.File, name string) bool { return f.Name == name })
}

// writing are the delta commits that are open in this process.
func (t *Table) writing() map[hudi.Time]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := map[hudi.Time]bool{}
	for at, x := range t.open {
		if x.action != commitmeta.ActionCompaction {
			open[at] = true
		}
	}
	return open
}

// afterFiles makes the next instant time later than the completed files of the
// timeline too: Hudi 1.x takes their modification times for the times of
// completion, and puts into the new slice all log files of commits that it
// thinks were completed later (docs/format/compaction.md).
func (t *Table) afterFiles(instants []timeline.Instant) {
	var last time.Time
	for _, i := range instants {
		if i.Done() && i.Modified.After(last) {
			last = i.Modified
		}
	}
	if last.IsZero() {
		return
	}
	at := hudi.FormatTime(t.local(last))
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.After(t.last) {
		t.last = at
	}
}

// local is a time as the table's instant times show it: read as UTC, its digits
// are those of the table's zone.
func (t *Table) local(at time.Time) time.Time {
	if t.properties.Get(hudi.PropZone) == "UTC" || t.options.Zone == nil {
		return at
	}
	_, offset := at.In(t.options.Zone).Zone()
	return at.Add(time.Duration(offset) * time.Second)
}

// TimeOf is a time of the store's clock as the table's instant times show it.
func (t *Table) TimeOf(at time.Time) hudi.Time { return hudi.FormatTime(t.local(at)) }

// Now is the instant time that the table's clock shows: what the age of an
// instant is measured from.
func (t *Table) Now() hudi.Time { return hudi.FormatTime(t.local(t.now())) }

// Clustering are the file groups that pending clusterings rewrite.
func (v *View) Clustering(ctx context.Context) (map[hudi.Location]bool, error) {
	groups := map[hudi.Location]bool{}
	for _, i := range v.instants {
		if i.Done() || (i.Action != commitmeta.ActionReplaceCommit && i.Action != commitmeta.ActionClustering) {
			continue
		}
		p, err := v.table.plan(ctx, i)
		if err != nil {
			return nil, err
		}
		for _, l := range p.clustered {
			groups[l] = true
		}
	}
	return groups, nil
}

// Compactions are the pending compactions of the view, ascending.
func (v *View) Compactions() []timeline.Instant {
	var pending []timeline.Instant
	for _, i := range v.instants {
		if i.Action == commitmeta.ActionCompaction && !i.Done() {
			pending = append(pending, i)
		}
	}
	return pending
}

// CompactionPlan is the plan of a pending compaction; ErrNotPending when it is
// gone.
func (t *Table) CompactionPlan(ctx context.Context, at hudi.Time) (commitmeta.CompactionPlan, error) {
	name, err := instantName(timeline.Instant{Time: at, Action: commitmeta.ActionCompaction, State: timeline.Requested})
	if err != nil {
		return commitmeta.CompactionPlan{}, err
	}
	data, err := t.bucket.ReadAll(ctx, name, instantLimit)
	if err != nil {
		return commitmeta.CompactionPlan{}, missing(err, at)
	}
	p, err := commitmeta.DecodeCompactionPlan(data)
	if err != nil {
		return p, hinted(ErrCorrupt, "let the engine that planned it remove it", "%s: %v", name, err)
	}
	return p, nil
}
