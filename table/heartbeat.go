package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

const (
	heartbeatFolder = hoodieFolder + ".heartbeat/"
	// heartbeatEvery is Hudi's interval, heartbeatOver when Hudi takes a writer
	// for dead: two beats missed.
	heartbeatEvery = time.Minute
	heartbeatOver  = 2 * heartbeatEvery
	// heartbeatOurs is what our heartbeats hold; Hudi's are empty and it reads
	// none. Of ours, the lock says whether they live.
	heartbeatOurs = "couch2hudi\n"
	// heartbeatLimit is more than any heartbeat holds.
	heartbeatLimit = 1 << 10
)

// heartbeat is a file that is written again as long as its writer lives.
type heartbeat struct {
	table  *Table
	name   string
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func (t *Table) startHeartbeat(ctx context.Context, at hudi.Time) (*heartbeat, error) {
	h := &heartbeat{table: t, name: heartbeatFolder + string(at)}
	if _, err := t.bucket.Put(ctx, h.name, []byte(heartbeatOurs)); err != nil {
		return nil, err
	}
	// Until stop: a run whose ctx ended is still at work taking itself back.
	ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.done.Add(1)
	go func() {
		defer h.done.Done()
		tick := time.NewTicker(heartbeatEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// A beat that failed is followed by another.
				_, _ = t.bucket.Put(ctx, h.name, []byte(heartbeatOurs))
			}
		}
	}()
	return h, nil
}

// stop ends the beats. The file stays: whoever removes the inflight file removes
// it then.
func (h *heartbeat) stop() {
	h.cancel()
	h.done.Wait()
}

// lives says whether an inflight compaction's executor is still at work. The
// caller holds the lock of our executors, so one of ours is dead. Others give a
// heartbeat, or none: then their latest sign of life is what they wrote last.
func (t *Table) lives(ctx context.Context, i timeline.Instant) (bool, error) {
	there, err := t.bucket.Exists(ctx, heartbeatFolder+string(i.Time))
	if err != nil {
		return false, err
	}
	if there {
		return t.Beats(ctx, i.Time)
	}
	last := i.Modified
	for m, err := range t.bucket.List(ctx, tempFolder+string(i.Time)+"/") {
		if err != nil {
			return false, err
		}
		if m.Modified.After(last) {
			last = m.Modified
		}
	}
	return t.now().Sub(last) < heartbeatOver, nil
}

// Beats says whether another engine keeps a heartbeat for a pending instant: it is at work
// then. Of ours, locks say whether they live.
func (t *Table) Beats(ctx context.Context, at hudi.Time) (bool, error) {
	name := heartbeatFolder + string(at)
	o, err := t.bucket.Stat(ctx, name)
	var data []byte
	if err == nil {
		data, err = t.bucket.ReadAll(ctx, name, heartbeatLimit)
	}
	if errors.Is(err, storage.ErrNotExist) {
		return false, nil
	}
	return err == nil && string(data) != heartbeatOurs && t.now().Sub(o.Modified) < heartbeatOver, err
}

// rollBackCompaction removes what a dead executor left of a compaction: its base
// files by their markers and by listing, then the inflight file. The plan stays
// valid. Where locks are lent the base files stay, with their markers, until the
// compaction is completed: the executor may be no more than stopped, right before it
// completes the compaction with them.
// The caller holds the lock; ErrBusy when another engine's executor lives.
func (t *Table) rollBackCompaction(ctx context.Context, i timeline.Instant, p commitmeta.CompactionPlan, lock storage.Lock) error {
	if i.State != timeline.Inflight {
		return nil
	}
	living, err := t.lives(ctx, i)
	if err != nil {
		return err
	}
	if living {
		return hinted(ErrBusy, fmt.Sprintf("let it finish, or wait %s after its end", heartbeatOver), "another engine runs compaction %s", i.Time)
	}
	if lock.Lent() {
		defer t.disown(i.Time)
		return t.endRun(ctx, i)
	}
	return t.removeRun(ctx, i, p)
}

// removeRun removes what a run of an inflight compaction has written: its base
// files by their markers and by listing, then the inflight file.
func (t *Table) removeRun(ctx context.Context, i timeline.Instant, p commitmeta.CompactionPlan) error {
	files, err := t.marked(ctx, i.Time)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for k := range p.Operations {
		if part := p.Operations[k].Partition; !listed[part] {
			listed[part] = true
			list, err := newFiles(t.bucket).partition(ctx, part)
			if err != nil {
				return err
			}
			for _, f := range list {
				files = append(files, found{partition: part, name: f.Name})
			}
		}
	}
	defer t.disown(i.Time)
	for _, f := range uniq(files) {
		// Log files of that instant are commits' that came after the plan.
		if n, err := hudi.ParseBaseFileName(f.name); err != nil || n.Instant != i.Time {
			continue
		}
		if err := t.bucket.DeleteIfExists(ctx, f.object()); err != nil {
			return err
		}
	}
	// Last, so that the rest is found again; the files are found without markers.
	if err := t.removeFolder(ctx, tempFolder+string(i.Time)+"/"); err != nil {
		return err
	}
	return t.endRun(ctx, i)
}

// endRun makes an inflight compaction a planned one.
func (t *Table) endRun(ctx context.Context, i timeline.Instant) error {
	if err := t.removeInstant(ctx, i, timeline.Inflight); err != nil {
		return err
	}
	return t.bucket.DeleteIfExists(ctx, heartbeatFolder+string(i.Time))
}

// removeStrays removes the base files of a completed compaction that runs wrote which
// did not complete it; stay are those that its commit names. They are found by markers
// and by listing, as in removeRun: a reader would take one that stays for the slice.
func (t *Table) removeStrays(ctx context.Context, at hudi.Time, stay []string) error {
	files, err := t.marked(ctx, at)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, object := range stay {
		part, _ := split(object)
		if listed[part] {
			continue
		}
		listed[part] = true
		list, err := newFiles(t.bucket).partition(ctx, part)
		if err != nil {
			return err
		}
		for _, f := range list {
			files = append(files, found{partition: part, name: f.Name})
		}
	}
	for _, f := range uniq(files) {
		if n, err := hudi.ParseBaseFileName(f.name); err != nil || n.Instant != at || slices.Contains(stay, f.object()) {
			continue
		}
		if err := t.bucket.DeleteIfExists(ctx, f.object()); err != nil {
			return err
		}
		t.tell(at, change{partition: f.partition, file: hudi.File{Name: f.name}, removed: true})
	}
	return nil
}

// named are the files that a completed write names.
func (t *Table) named(ctx context.Context, i timeline.Instant) ([]string, error) {
	b, err := t.body(ctx, i)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, stats := range b.Stats {
		for k := range stats {
			files = append(files, stats[k].Path)
		}
	}
	return files, nil
}

// recoverCompactions rolls back what dead executors left, and says which. One
// that lives, in another engine, stays.
func (t *Table) recoverCompactions(ctx context.Context, instants []timeline.Instant, lock storage.Lock) ([]timeline.Instant, error) {
	var rolled []timeline.Instant
	for _, i := range instants {
		if i.Action != commitmeta.ActionCompaction || i.Done() {
			continue
		}
		if i.State == timeline.Requested {
			if err := t.removeOurHeartbeat(ctx, i.Time); err != nil {
				return rolled, err
			}
			continue
		}
		p, err := t.CompactionPlan(ctx, i.Time)
		if err == nil {
			err = t.rollBackCompaction(ctx, i, p, lock)
		}
		if errors.Is(err, ErrBusy) || errors.Is(err, ErrNotPending) {
			continue
		}
		if err != nil {
			return rolled, err
		}
		rolled = append(rolled, i)
	}
	return rolled, nil
}

// removeOurHeartbeat removes what stays when an executor dies just before it is inflight,
// or when it has just taken itself back.
func (t *Table) removeOurHeartbeat(ctx context.Context, at hudi.Time) error {
	name := heartbeatFolder + string(at)
	data, err := t.bucket.ReadAll(ctx, name, heartbeatLimit)
	if errors.Is(err, storage.ErrNotExist) {
		return nil
	}
	if err != nil || string(data) != heartbeatOurs {
		return err
	}
	return t.bucket.DeleteIfExists(ctx, name)
}

// removeHeartbeats removes those of instants that are not pending.
func (t *Table) removeHeartbeats(ctx context.Context, pending func(hudi.Time) bool) error {
	return t.removeEach(ctx, heartbeatFolder, func(name string) bool {
		_, last := split(name)
		at, err := hudi.ParseTime(last)
		return err == nil && !pending(at)
	})
}
