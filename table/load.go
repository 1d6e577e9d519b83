package table

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// View is the table as it is now. It lists the timeline; of the table's files
// it lists nothing again unless somebody else has written: what our own
// transactions added is known.
func (t *Table) View(ctx context.Context) (*View, error) {
	t.viewing.Lock()
	defer t.viewing.Unlock()
	return t.look(ctx)
}

// look makes the view of a new listing; t.viewing is held.
func (t *Table) look(ctx context.Context) (*View, error) {
	k := known{look: t.nextLook(), at: t.now()}
	var err error
	if k.instants, err = t.settled(ctx, t.disownHere); err != nil {
		return nil, err
	}
	t.keep(k)
	// Taken after the timeline was read: a commit of ours that is on it has
	// told its files before. Files of a later one do no harm.
	t.mu.Lock()
	changed := t.changed
	t.mu.Unlock()
	return t.viewOf(ctx, k, changed)
}

// viewOf is the view at a listing of the timeline; t.viewing is held.
func (t *Table) viewOf(ctx context.Context, k known, changed []change) (*View, error) {
	was, instants := t.view, k.instants
	if was != nil && len(changed) == 0 && slices.EqualFunc(was.instants, instants, timeline.Instant.Same) {
		t.viewed = k
		return was, nil
	}
	v := &View{table: t, instants: instants, listed: instants, firstDone: firstDone(instants), slices: map[string][]hudi.Slice{}}
	if err := t.readPlans(ctx, v); err != nil {
		return nil, err
	}
	if err := t.readReplaced(ctx, v); err != nil {
		return nil, err
	}
	if was != nil && t.onlyOwn(was.instants, instants) {
		v.files = was.files.with(changed)
		v.keepSlices(was, changed)
	} else {
		v.files = newFiles(t.bucket)
	}
	t.view, t.viewed = v, k
	t.mu.Lock()
	t.changed = slices.Clone(t.changed[len(changed):])
	t.forget(instants)
	t.mu.Unlock()
	return v, nil
}

// firstDone is the first completed write that no savepoint kept from being
// archived.
func firstDone(instants []timeline.Instant) hudi.Time {
	var oldest hudi.Time
	for n, i := range instants {
		if !i.Writes() || !i.Done() {
			continue
		}
		if oldest == "" {
			oldest = i.Time
		}
		// The savepoint of a write has its time, and stands behind it.
		saved := false
		for _, s := range instants[n:] {
			if s.Time != i.Time {
				break
			}
			saved = saved || s.Action == commitmeta.ActionSavepoint
		}
		if !saved {
			return i.Time
		}
	}
	// All that is left are savepoints, as after a restore.
	return oldest
}

func (t *Table) readPlans(ctx context.Context, v *View) error {
	v.compacting = map[hudi.Location]hudi.Time{}
	for _, i := range v.instants {
		if i.Done() || i.Action != commitmeta.ActionCompaction {
			continue
		}
		p, err := t.plan(ctx, i)
		if err != nil {
			return err
		}
		for l := range p.compacting {
			v.compacting[l] = i.Time
		}
	}
	return nil
}

func (t *Table) readReplaced(ctx context.Context, v *View) error {
	v.replaced = map[hudi.Location]hudi.Time{}
	for _, i := range v.instants {
		if !i.Done() || i.Action != commitmeta.ActionReplaceCommit {
			continue
		}
		b, err := t.body(ctx, i)
		if err != nil {
			return err
		}
		for partition, ids := range b.Replaced {
			for _, id := range ids {
				v.replaced[hudi.Location{Partition: partition, File: id}] = i.Time
			}
		}
	}
	return nil
}

// onlyOwn says whether nobody else has changed the timeline between two
// listings.
func (t *Table) onlyOwn(was, is []timeline.Instant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range timeline.Differences(was, is) {
		if i.Action == commitmeta.ActionCompaction {
			continue // pending: none of its files is seen
		}
		if t.own[i.Time] == nil {
			return false
		}
	}
	return true
}

// keepSlices takes over the slices of an earlier view, and makes those of the
// file groups anew that something has happened to. It takes over nothing when
// more has changed than commits and compactions of ours.
func (v *View) keepSlices(was *View, changed []change) {
	diff := timeline.Differences(was.instants, v.instants)
	for _, i := range diff {
		switch i.Action {
		case commitmeta.ActionDeltaCommit, commitmeta.ActionCompaction, commitmeta.ActionCommit, commitmeta.ActionClean:
		default:
			return
		}
	}
	if was.firstDone != v.firstDone || v.table.version.Completes() {
		return
	}
	touched := ownInstant{}
	for _, c := range changed {
		touched.add(c, "")
	}
	for _, maps := range [][2]map[hudi.Location]hudi.Time{{was.compacting, v.compacting}, {v.compacting, was.compacting}, {was.replaced, v.replaced}, {v.replaced, was.replaced}} {
		for l, at := range maps[0] {
			if maps[1][l] != at {
				touched.touch(l, true)
			}
		}
	}
	// An earlier view may have taken the files in, and left them out of its
	// slices, while their instant was pending.
	v.table.mu.Lock()
	for _, i := range diff {
		for p, groups := range v.table.own[i.Time] {
			for id, more := range groups {
				touched.touch(hudi.Location{Partition: p, File: id}, more)
			}
		}
	}
	v.table.mu.Unlock()
	was.mu.Lock()
	v.slices = maps.Clone(was.slices)
	was.mu.Unlock()
	logs := map[string]map[hudi.FileID][]hudi.File{}
	for _, c := range changed {
		id, _, _ := sliceOf(c.file.Name)
		if logs[c.partition] == nil {
			logs[c.partition] = map[hudi.FileID][]hudi.File{}
		}
		logs[c.partition][id] = append(logs[c.partition][id], c.file)
	}
	for p, groups := range touched {
		list, ok := v.slices[p]
		if !ok {
			continue
		}
		list = withLogs(slices.Clone(list), groups, logs[p])
		delete(v.slices, p)
		if files, listed := v.files.latest(p, groups, v.rules()); listed {
			v.slices[p] = v.renewed(p, list, groups, files)
		}
	}
}

// withLogs gives slices the log files that go to their end, and takes those groups
// off that need no more. The list is written to.
func withLogs(list []hudi.Slice, groups map[hudi.FileID]bool, logs map[hudi.FileID][]hudi.File) []hudi.Slice {
	for id, more := range groups {
		n, there := slices.BinarySearchFunc(list, id, func(s hudi.Slice, id hudi.FileID) int { return cmp.Compare(s.File, id) })
		if more || !there || len(logs[id]) > 1 {
			continue
		}
		s := &list[n]
		if len(logs[id]) == 1 {
			log, err := hudi.ParseLogFileName(logs[id][0].Name)
			if err != nil || log.CDC || log.Instant != cmp.Or(s.Compacting, s.Instant) || !endsBefore(s.Logs, log) {
				continue
			}
			s.Logs = append(slices.Clip(s.Logs), logs[id][0])
		}
		delete(groups, id)
	}
	return list
}

// endsBefore says whether the last of some log files comes before another one.
func endsBefore(logs []hudi.File, log hudi.LogFileName) bool {
	if len(logs) == 0 {
		return true
	}
	last, err := hudi.ParseLogFileName(logs[len(logs)-1].Name)
	return err == nil && (last.Instant != log.Instant || last.Compare(log) < 0)
}

// renewed is a list of slices, with those of some groups made anew from their
// files.
func (v *View) renewed(partition string, list []hudi.Slice, groups map[hudi.FileID]bool, files []hudi.File) []hudi.Slice {
	fresh := slices6(partition, files, v.rules())
	n := make([]hudi.Slice, 0, len(list)+len(fresh))
	for i := range list {
		s := &list[i]
		for len(fresh) > 0 && fresh[0].File <= s.File {
			n, fresh = append(n, fresh[0]), fresh[1:]
		}
		if !groups[s.File] {
			n = append(n, *s)
		}
	}
	return append(n, fresh...)
}

// forget drops what is remembered of instants older than the timeline, and
// plans that are done; t.mu is held.
func (t *Table) forget(instants []timeline.Instant) {
	if len(instants) > 0 && instants[0].Time != t.begins {
		t.begins = instants[0].Time
		for i := range t.own {
			// Not what is merely missing: the listing may be older than it.
			if _, open := t.open[i]; !open && i.Before(t.begins) {
				delete(t.own, i)
			}
		}
	}
	for at := range t.plans {
		if !slices.ContainsFunc(instants, func(i timeline.Instant) bool { return i.Time == at }) {
			delete(t.plans, at)
		}
	}
}
