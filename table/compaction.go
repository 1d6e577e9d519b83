package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Compaction is the run of one planned compaction. It needs no Lease: commits go
// on meanwhile, in this process or another, and several processes run one
// compaction after the other. Create may be called concurrently, everything else
// by one goroutine. End it with Commit or Abort.
type Compaction struct {
	x       *Txn
	plan    commitmeta.CompactionPlan
	jobs    []hudi.Slice
	lock    storage.Lock
	beat    *heartbeat
	version string // of the inflight file
}

// compactionLock is held by the process of ours that runs a compaction.
const compactionLock = asideFolder + "compaction.lock"

// BeginCompaction begins to run the pending compaction at that instant. What a
// dead executor of it left is rolled back first. The errors that matter: ErrBusy
// when a living executor, of ours or another engine's, is at work, and
// ErrNotPending when the compaction is completed, or was never planned.
func (t *Table) BeginCompaction(ctx context.Context, at hudi.Time) (c *Compaction, err error) {
	if t.options.ReadOnly {
		return nil, fmt.Errorf("compact %s: %w: the table was opened to be read only", at, ErrUnsupported)
	}
	lock, err := t.lockCompactions(ctx)
	if err != nil {
		return nil, fmt.Errorf("compact %s: %w", at, err)
	}
	c = &Compaction{lock: lock}
	defer func() {
		if err != nil {
			t.outdate() // it may be that what is known of the compaction is wrong
			err = errors.Join(fmt.Errorf("compact %s: %w", at, err), lock.Close())
			c = nil
		}
	}()
	if c.plan, err = t.CompactionPlan(ctx, at); err != nil {
		return c, err
	}
	instants, err := t.list(ctx)
	if err != nil {
		return c, err
	}
	i, ok := pendingCompaction(instants, at)
	if !ok {
		return c, notPending(at)
	}
	if err := t.rollBackCompaction(ctx, i, c.plan, c.lock); err != nil {
		return c, err
	}
	return c, c.start(ctx, t, at)
}

func (t *Table) lockCompactions(ctx context.Context) (storage.Lock, error) {
	lock, err := t.bucket.Lock(ctx, compactionLock)
	if errors.Is(err, storage.ErrLocked) {
		return nil, &Error{Err: fmt.Errorf("%w: %w", ErrBusy, err), Hint: "another process runs a compaction: try again when it is done"}
	}
	return lock, err
}

func pendingCompaction(instants []timeline.Instant, at hudi.Time) (timeline.Instant, bool) {
	i := slices.IndexFunc(instants, func(i timeline.Instant) bool {
		return i.Time == at && i.Action == commitmeta.ActionCompaction && !i.Done()
	})
	if i < 0 {
		return timeline.Instant{}, false
	}
	return instants[i], true
}

func notPending(at hudi.Time) error {
	return hinted(ErrNotPending, "list the timeline: it may be completed", "%s", at)
}

// missing is notPending for a plan that is not there.
func missing(err error, at hudi.Time) error {
	if errors.Is(err, storage.ErrNotExist) {
		return notPending(at)
	}
	return err
}

// start tells everybody that the compaction is being run.
func (c *Compaction) start(ctx context.Context, t *Table, at hudi.Time) error {
	x := &Txn{table: t, bucket: t.bucket.Under(c.lock), instant: at, action: commitmeta.ActionCompaction, files: map[string]*upload{}}
	name, err := instantName(x.at(timeline.Inflight))
	if err != nil {
		return err
	}
	// Before the inflight file, so that nobody sees that one without a sign of
	// life.
	if c.beat, err = t.startHeartbeat(ctx, at); err != nil {
		return err
	}
	t.mu.Lock()
	t.open[at] = x
	t.own.add(at)
	t.mu.Unlock()
	c.x = x
	_, err = x.bucket.PutIfAbsent(ctx, name, nil)
	t.outdate()
	if err != nil {
		c.leave()
		if errors.Is(err, storage.ErrExist) {
			_ = t.bucket.DeleteIfExists(ctx, c.beat.name)
			return hinted(ErrBusy, "let it finish", "another engine has just begun it")
		}
		return err
	}
	// Looked up, since not every store says all of it after a put.
	o, err := x.bucket.Stat(ctx, name)
	if err != nil {
		return errors.Join(err, c.undo(context.WithoutCancel(ctx)))
	}
	c.version = versionOf(o)
	if err := c.look(ctx); err != nil {
		return errors.Join(err, c.undo(context.WithoutCancel(ctx)))
	}
	return nil
}

// look takes the view that the compaction merges with.
func (c *Compaction) look(ctx context.Context) error {
	v, err := c.x.table.View(ctx)
	if err != nil {
		return err
	}
	c.x.view = v
	for i := range c.plan.Operations {
		o := &c.plan.Operations[i]
		part, err := v.files.listed(ctx, o.Partition)
		if err != nil {
			return err
		}
		files := part.groups[o.File]
		s := hudi.Slice{Location: o.Location, Instant: o.Instant}
		if o.Base != "" {
			if s.Base, err = fileOf(files, o, o.Base); err != nil {
				return err
			}
		}
		for _, name := range o.Logs {
			f, err := fileOf(files, o, name)
			if err != nil {
				return err
			}
			s.Logs = append(s.Logs, f)
		}
		if o.Bootstrap != "" {
			return hinted(ErrUnsupported, "let the engine that planned the compaction run it", "file group %q is bootstrapped", o.File)
		}
		c.jobs = append(c.jobs, s)
	}
	return nil
}

// fileOf finds a file of a plan in a partition's list, which is sorted by name.
func fileOf(files groupFiles, o *commitmeta.CompactionOperation, name string) (hudi.File, error) {
	f, ok := files.file(name)
	if !ok {
		return hudi.File{}, hinted(ErrCorrupt, "restore the file from a copy of the table", "the plan names %q, which is not there", join(o.Partition, name))
	}
	return f, nil
}

// Instant is the compaction's time.
func (c *Compaction) Instant() hudi.Time { return c.x.instant }

// View is the table as the run found it: what its inputs are merged with.
func (c *Compaction) View() *View { return c.x.view }

// Plan is what was planned.
func (c *Compaction) Plan() commitmeta.CompactionPlan { return c.plan }

// Slices are the slices to merge, in the order of the plan's operations: of the
// log files only those of the plan.
func (c *Compaction) Slices() []hudi.Slice { return c.jobs }

// Create begins the base file that a slice becomes; see Txn.Create.
func (c *Compaction) Create(ctx context.Context, partition, name string, m Marker) (storage.Upload, error) {
	if m == MarkAppend {
		return nil, fmt.Errorf("%w: a compaction writes no log files", ErrUnsupported)
	}
	return c.x.Create(ctx, partition, name, m)
}

// Commit makes the new base files part of the table. The body must name one for
// each operation of the plan, and hold the schema. ErrConflict: another engine
// has completed the compaction, or rolled this run of it back; then, as after any
// other error, Abort.
func (c *Compaction) Commit(ctx context.Context, b commitmeta.Body) error {
	x := c.x
	if x.ended || x.decided {
		return fmt.Errorf("commit compaction %s: %w", x.instant, ErrFinished)
	}
	data, err := commitmeta.Encode(hudi.Version6, b)
	if err == nil {
		err = c.check(ctx, b)
	}
	if err == nil {
		_, err = x.complete(ctx, data)
		x.table.outdate()
	}
	if err != nil {
		return fmt.Errorf("commit compaction %s: %w", x.instant, err)
	}
	// The commit stands. What stays of the rest is Recover's to remove.
	if !c.lock.Lent() || x.table.removeStrays(ctx, x.instant, x.paths()) == nil {
		c.clean(ctx)
		_ = x.table.removeFolder(ctx, tempFolder+string(x.instant)+"/")
	}
	c.leave()
	return c.lock.Close()
}

// check holds the body against the plan, and looks whether this run is still the
// one that everybody sees.
func (c *Compaction) check(ctx context.Context, b commitmeta.Body) error {
	if err := c.x.checkBody(ctx, b); err != nil {
		return err
	}
	done := map[hudi.Location]bool{}
	for partition, stats := range b.Stats {
		for i := range stats {
			done[hudi.Location{Partition: partition, File: stats[i].File}] = true
		}
	}
	for i := range c.plan.Operations {
		if at := c.plan.Operations[i].Location; !done[at] {
			return fmt.Errorf("%w: file group %q of partition %q is in the plan and was not compacted", ErrBody, at.File, at.Partition)
		}
	}
	p, err := readProperties(ctx, c.x.table.bucket)
	if err != nil {
		return err
	}
	if err := checkNoMetadataTable(p.Properties); err != nil {
		return err
	}
	mine, err := c.mine(ctx)
	if err == nil && !mine {
		err = hinted(ErrConflict, "let one engine run a compaction", "another engine has completed it or rolled this run back")
	}
	return err
}

// mine says whether the inflight file is still this run's.
func (c *Compaction) mine(ctx context.Context) (bool, error) {
	instants, err := c.x.table.list(ctx)
	if err != nil {
		return false, err
	}
	if i, ok := pendingCompaction(instants, c.x.instant); !ok || i.State != timeline.Inflight {
		return false, nil
	}
	name, err := instantName(c.x.at(timeline.Inflight))
	if err != nil {
		return false, err
	}
	o, err := c.x.table.bucket.Stat(ctx, name)
	if errors.Is(err, storage.ErrNotExist) {
		return false, nil
	}
	return err == nil && versionOf(o) == c.version, err
}

// versionOf tells two files of the same name apart, also where an ETag is a sum of
// the content.
func versionOf(o storage.Object) string { return fmt.Sprint(o.ETag, " ", o.Modified.UnixNano()) }

// Abort takes the run back: its files go, the plan stays and can be run again.
// Uploads must have been ended. ErrCommitted when the compaction took effect
// after all.
func (c *Compaction) Abort(ctx context.Context) error {
	if c.x.ended {
		return fmt.Errorf("abort compaction %s: %w", c.x.instant, ErrFinished)
	}
	err := c.undo(ctx)
	return errors.Join(err, c.lock.Close())
}

// undo is Abort but for the lock. When it fails the rest is for the next run, or
// for Recover.
func (c *Compaction) undo(ctx context.Context) error {
	t := c.x.table
	defer c.leave()
	committed, err := c.committed(ctx)
	if err != nil {
		return err
	}
	if committed {
		c.clean(ctx)
		return fmt.Errorf("abort compaction %s: %w", c.x.instant, ErrCommitted)
	}
	// Another run of it would not be known to this Table by its files.
	defer t.disown(c.x.instant)
	for _, name := range c.x.paths() {
		if err := c.x.bucket.DeleteIfExists(ctx, name); err != nil {
			return err
		}
	}
	mine, err := c.mine(ctx)
	if err != nil {
		return err
	}
	if mine {
		if err := t.removeInstant(ctx, c.x.at(timeline.Inflight), timeline.Inflight); err != nil {
			return err
		}
	}
	c.clean(ctx)
	return nil
}

// committed says whether the completed file is there and is this run's.
func (c *Compaction) committed(ctx context.Context) (bool, error) {
	instants, err := c.x.table.list(ctx)
	if err != nil {
		return false, err
	}
	i, ok := find(instants, c.x.instant)
	if !ok || !i.Done() {
		return false, nil
	}
	b, err := c.x.table.body(ctx, i)
	if err != nil {
		return false, err
	}
	mine := map[string]bool{}
	for _, name := range c.x.paths() {
		mine[name] = true
	}
	for _, stats := range b.Stats {
		for k := range stats {
			if mine[stats[k].Path] {
				return true, nil
			}
		}
	}
	return false, nil
}

// clean removes the markers and the heartbeat. They matter no more.
func (c *Compaction) clean(ctx context.Context) {
	c.beat.stop()
	_ = c.x.table.bucket.DeleteIfExists(ctx, c.beat.name)
	for _, marker := range c.x.markers {
		_ = c.x.table.bucket.DeleteIfExists(ctx, marker)
	}
}

// leave ends the run as far as this process goes.
func (c *Compaction) leave() {
	c.beat.stop()
	c.x.end()
}

// disown forgets that an instant was this Table's, and what files it saw: the
// next view lists them.
func (t *Table) disown(at hudi.Time) {
	t.viewing.Lock()
	defer t.viewing.Unlock()
	t.disownHere(at)
}

// disownHere is disown for who holds t.viewing.
func (t *Table) disownHere(at hudi.Time) {
	t.view = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.own, at)
}
