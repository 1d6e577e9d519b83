package compaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// CleanBy says by what a clean counts what it keeps.
type CleanBy string

// What cleans count by.
const (
	// ByHours keeps what the table was in the last Retain.
	ByHours CleanBy = "hours"
	// ByCommits keeps what it was at each of the last Keep commits.
	ByCommits CleanBy = "commits"
	// ByVersions keeps the last Keep slices of each file group.
	ByVersions CleanBy = "versions"
	// CleanOff keeps everything.
	CleanOff CleanBy = "off"
)

// CleanPolicy says what a clean keeps; the zero value of each field is its
// default. Beside it a clean always keeps the newest state, and what pending
// plans, savepoints and read leases need.
type CleanPolicy struct {
	// By is what is counted; ByHours by default.
	By CleanBy
	// Retain is how far back ByHours keeps; 24 hours by default.
	Retain time.Duration
	// Keep is the number of commits, 10 by default, or of slices, 3 by default.
	Keep int
	// Every is the time between two cleans beside an ingest; a 24th of Retain by
	// default, and ten minutes when hours are not counted.
	Every time.Duration
}

const (
	defaultRetain       = 24 * time.Hour
	defaultKeepCommits  = 10
	defaultKeepVersions = 3
	defaultCleanEvery   = 10 * time.Minute
	// everyShare is the part of Retain that Every is.
	everyShare = 24
)

func (p CleanPolicy) withDefaults() CleanPolicy {
	p.By = cmp.Or(p.By, ByHours)
	p.Retain = cmp.Or(p.Retain, defaultRetain)
	switch p.By {
	case ByHours:
		p.Every = cmp.Or(p.Every, p.Retain/everyShare)
	case ByVersions:
		p.Keep = cmp.Or(p.Keep, defaultKeepVersions)
	case ByCommits, CleanOff:
		p.Keep = cmp.Or(p.Keep, defaultKeepCommits)
	}
	p.Every = cmp.Or(p.Every, defaultCleanEvery)
	return p
}

func (p CleanPolicy) name() commitmeta.CleanPolicy {
	switch p.By {
	case ByCommits:
		return commitmeta.KeepLatestCommits
	case ByVersions:
		return commitmeta.KeepLatestFileVersions
	case ByHours, CleanOff:
	}
	return commitmeta.KeepLatestByHours
}

// CleanState is what a plan of cleaning depends on beside the file groups. Its
// times are instant times of the table.
type CleanState struct {
	// Writes are the completed writes, ascending, those in the archive too as far
	// as the policy reaches.
	Writes []Write
	// Pending are the writes that have not completed, ascending.
	Pending []hudi.Time
	// Leases are where running readers stand.
	Leases []hudi.Time
	// Saved are the files that savepoints hold, by partition.
	Saved map[string]map[string]bool
	// Busy are the groups that pending clusterings read.
	Busy map[hudi.Location]bool
}

// Write is a completed write.
type Write struct {
	At     hudi.Time
	Action commitmeta.Action
	// Done is when it completed; a compaction's may be long after At.
	Done hudi.Time
}

// PlanClean chooses the files to delete, of the groups of all partitions; false
// when there are none. The plan holds their names.
//
// A slice goes when a newer one of its group has been there since before the
// earliest instant that is kept: no reading as of that instant or a later one
// sees it. So do the slices of a group that was replaced before it.
func PlanClean(groups []table.Group, s CleanState, p CleanPolicy, now time.Time) (commitmeta.CleanPlan, bool) {
	p = p.withDefaults()
	if len(s.Writes) == 0 || p.By == CleanOff {
		return commitmeta.CleanPlan{}, false
	}
	plan := commitmeta.CleanPlan{Policy: p.name(), LastCompleted: s.Writes[len(s.Writes)-1].At, Files: map[string][]commitmeta.CleanFile{}}
	earliest, ok := s.earliest(p, now)
	if !ok {
		return commitmeta.CleanPlan{}, false
	}
	if p.By != ByVersions {
		plan.Earliest = commitmeta.InstantInfo{Time: earliest.At, Action: earliest.Action}
	}
	keep := 1
	if p.By == ByVersions {
		keep = p.Keep
	}
	for i := range groups {
		g := &groups[i]
		if s.Busy[g.Location] {
			continue
		}
		for _, slice := range unseen(g, earliest.At, keep) {
			if s.saved(g.Partition, slice.Files) {
				continue
			}
			for _, f := range slice.Files {
				plan.Files[g.Partition] = append(plan.Files[g.Partition], commitmeta.CleanFile{Path: f.Name})
			}
		}
	}
	return plan, len(plan.Files) > 0
}

// unseen are the slices of a group that no reading from an instant on sees, less
// the newest ones to keep.
func unseen(g *table.Group, earliest hudi.Time, keep int) []table.GroupSlice {
	var committed []table.GroupSlice
	for _, s := range g.Slices {
		if s.Committed {
			committed = append(committed, s)
		}
	}
	if g.Replaced != "" && g.Replaced.Before(earliest) {
		return committed
	}
	n := 0
	for n+1 < len(committed) && committed[n+1].Instant.Before(earliest) {
		n++
	}
	return committed[:min(n, max(0, len(committed)-keep))]
}

// earliest is the oldest write as of which the table must stay readable; false
// when that is before all that is known.
func (s *CleanState) earliest(p CleanPolicy, now time.Time) (Write, bool) {
	last := len(s.Writes) - 1
	at := last
	switch p.By {
	case ByHours:
		cutoff := hudi.FormatTime(now.Add(-p.Retain))
		// One that completed since was not yet there for who read before it did.
		at = slices.IndexFunc(s.Writes, func(w Write) bool { return !w.At.Before(cutoff) || !w.Done.Before(cutoff) })
		if at < 0 {
			at = last
		}
	case ByCommits:
		at = len(s.Writes) - p.Keep
	case ByVersions, CleanOff:
	}
	if at < 0 {
		return Write{}, false
	}
	back := func(to hudi.Time, and bool) {
		for at >= 0 && (s.Writes[at].At.After(to) || (and && s.Writes[at].At == to)) {
			at--
		}
	}
	if len(s.Pending) > 0 {
		back(s.Pending[0], true)
	}
	for _, l := range s.Leases {
		back(l, false)
	}
	if at < 0 {
		return Write{}, false
	}
	return s.Writes[at], true
}

func (s *CleanState) saved(partition string, files []hudi.File) bool {
	held := s.Saved[partition]
	return len(held) > 0 && slices.ContainsFunc(files, func(f hudi.File) bool { return held[f.Name] })
}

// Cleaning is what a clean would do.
type Cleaning struct {
	Plan   commitmeta.CleanPlan
	Leases []table.ReadLease
}

// NextClean plans a clean of a table as it is; false when there is nothing to
// delete.
func NextClean(ctx context.Context, v *table.View, p CleanPolicy) (Cleaning, bool, error) {
	p = p.withDefaults()
	t := v.Table()
	now, err := t.Now().Clock()
	if err != nil {
		return Cleaning{}, false, err
	}
	leases, err := t.ReadLeases(ctx)
	if err != nil {
		return Cleaning{}, false, err
	}
	s, err := cleanState(ctx, v, p, leases, now)
	if err != nil {
		return Cleaning{}, false, err
	}
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return Cleaning{}, false, err
	}
	var groups []table.Group
	for _, partition := range partitions {
		list, err := v.Groups(ctx, partition)
		if err != nil {
			return Cleaning{}, false, err
		}
		// Most groups have one slice, and keep it.
		groups = append(groups, slices.DeleteFunc(list, func(g table.Group) bool { return len(g.Slices) == 1 && g.Replaced == "" })...)
	}
	plan, ok := PlanClean(groups, s, p, now)
	return Cleaning{Plan: plan, Leases: leases}, ok, nil
}

func cleanState(ctx context.Context, v *table.View, p CleanPolicy, leases []table.ReadLease, now time.Time) (s CleanState, err error) {
	since := v.Last()
	if p.By == ByHours {
		since = hudi.FormatTime(now.Add(-p.Retain))
	}
	for _, l := range leases {
		s.Leases = append(s.Leases, l.Instant)
		if before := previous(l.Instant); before.Before(since) {
			since = before
		}
	}
	whole, err := v.Reaching(ctx, since)
	if err != nil {
		return s, err
	}
	if writes := whole.Writes(); p.By == ByCommits && len(writes) < p.Keep {
		if whole, err = v.Reaching(ctx, ""); err != nil {
			return s, err
		}
	}
	for _, i := range whole.Instants() {
		switch {
		case !i.Writes():
		case !i.Done():
			s.Pending = append(s.Pending, i.Time)
		default:
			w := Write{At: i.Time, Action: i.Action, Done: i.Time}
			if !whole.Archived(i) {
				w.Done = v.Table().TimeOf(i.Modified)
			}
			s.Writes = append(s.Writes, w)
		}
	}
	if s.Saved, err = v.Saved(ctx); err != nil {
		return s, err
	}
	s.Busy, err = v.Clustering(ctx)
	return s, err
}

// previous is a time before at, so that what lies at it is later.
func previous(at hudi.Time) hudi.Time {
	clock, err := at.Clock()
	if err != nil {
		return ""
	}
	return hudi.FormatTime(clock.Add(-time.Millisecond))
}

// Clean finishes cleans that died, and then cleans what the policy lets go. It
// needs the table's lease, and that no commit of this process is open.
func Clean(ctx context.Context, t *table.Table, p CleanPolicy) ([]table.Cleaned, error) {
	done, err := t.FinishCleans(ctx)
	if err != nil {
		return done, fmt.Errorf("finish a clean: %w", err)
	}
	v, err := t.View(ctx)
	if err != nil {
		return done, err
	}
	next, ok, err := NextClean(ctx, v, p)
	if err != nil || !ok {
		return done, err
	}
	c, err := t.Clean(ctx, next.Plan, next.Leases)
	if err != nil {
		return done, err
	}
	return append(done, c), nil
}

// clean cleans when the time has come since the last one.
func (s *Services) clean(ctx context.Context) error {
	now := s.o.Clock()
	if s.o.Clean.By == CleanOff || (!s.cleaned.IsZero() && now.Sub(s.cleaned) < s.o.Clean.Every) {
		return nil
	}
	done, err := Clean(ctx, s.o.Table, s.o.Clean)
	if s.o.Events.Cleaned != nil {
		for _, c := range done {
			s.tell(func() { s.o.Events.Cleaned(c) })
		}
	}
	if errors.Is(err, table.ErrConflict) {
		return nil // a reader registered meanwhile: at the next look
	}
	if err == nil {
		s.cleaned = now
	}
	return err
}
