package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// checkedTable is a table as far as it could be opened.
type checkedTable struct {
	bucket *storage.Bucket
	url    config.TableURL
	// there says that there is a table; view is nil when it cannot be read.
	there bool
	table *table.Table
	view  *table.View
	// held says that a writer has the lease.
	held bool
}

func (t *checkedTable) close() {
	if t.bucket != nil {
		_ = t.bucket.Close()
	}
}

// table opens the table and says in what state it is.
func (c *checker) table(ctx context.Context, cfg config.Config) *checkedTable {
	t := &checkedTable{}
	var err error
	if t.bucket, t.url, err = openBucket(ctx, cfg.Table.Address(), cfg.Memory); err == nil {
		t.there, err = table.Exists(ctx, t.bucket)
	}
	if err != nil {
		c.fail("table", err, "give the table a folder or prefix of its own that may be read and written; docs/stores.md says what stores need")
		return t
	}
	if t.url.Local() {
		c.mayWrite(t.url.Path)
	}
	c.conditions(ctx, t)
	if !t.there {
		c.ok("table", "there is none at %s yet: run creates it", cfg.Table.URL)
		return t
	}
	// Opening writes nothing. As a writer it also says what run would refuse.
	t.table, err = table.Open(ctx, t.bucket, table.Options{Location: t.url.Location()})
	if err != nil {
		c.fail("table", err, "")
		if t.table, err = table.Open(ctx, t.bucket, table.Options{ReadOnly: true, Location: t.url.Location()}); err != nil {
			return t
		}
	}
	if t.view, err = t.table.View(ctx); err != nil {
		c.fail("table.timeline", err, "")
		return t
	}
	p := t.table.Properties()
	c.ok("table", "%s, %s, version %s, keys %s, order %s, partitions %s", t.table.Name(), p.Get(hudi.PropType), p.Get(hudi.PropVersion),
		t.table.KeyColumn(), t.table.OrderColumn(), or(t.table.PartitionField(), "none"))
	if n := cfg.Table.Name; n != "" && n != t.table.Name() {
		c.warn("table.name", "leave table.name out: a table keeps its name", "the config says %s, the table is %s", n, t.table.Name())
	}
	if len(p.List(hudi.PropMetadata))+len(p.List(hudi.PropMetadataInflight)) == 0 {
		c.ok("table.metadata", "no metadata table: engines list the folders")
	}
	c.zone(p)
	c.lease(ctx, t)
	c.pending(ctx, t)
	c.reach(ctx, t)
	return t
}

// reach says how far back changes can be read.
func (c *checker) reach(ctx context.Context, t *checkedTable) {
	begin, err := reader.OldestBegin(ctx, t.view)
	switch {
	case err != nil:
		c.fail("table.reach", err, "")
	case t.view.Last() != "":
		c.ok("table.reach", "changes can be read %s", after(begin))
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (c *checker) zone(p hudi.Properties) {
	if zone := or(p.Get(hudi.PropZone), "LOCAL"); zone == "UTC" {
		c.ok("table.timezone", "UTC")
	} else {
		c.warn("table.timezone", "let every writer run in UTC, or create the table anew with couch2hudi",
			"instants are in the %s time of their writers: ours are UTC, and readers in other zones may place log files wrongly", strings.ToLower(zone))
	}
}

// mayWrite asks the system whether this user may write to a folder, or to the
// one in which it would be made.
func (c *checker) mayWrite(path string) {
	folder := existing(path)
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		c.fail("table.folder", fmt.Errorf("this user may not write to %s: %w", folder, err),
			"give the folder to the user that runs couch2hudi, or choose another with --table")
	}
}

// existing is the folder, or the nearest one above it that is there.
func existing(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for {
		if _, err := os.Stat(full); !errors.Is(err, os.ErrNotExist) || filepath.Dir(full) == full {
			return full
		}
		full = filepath.Dir(full)
	}
}

func (c *checker) lease(ctx context.Context, t *checkedTable) {
	holder, err := t.bucket.Holder(ctx, table.LeaseName)
	switch {
	case err != nil:
		c.fail("table.lease", fmt.Errorf("look at the lease: %w", err), "let the user that runs couch2hudi read and write "+table.LeaseName)
	case holder != nil && holder.Stale:
		c.warn("table.lease", "run takes over when it was not renewed for as long as it stands", "%s: over, so its holder may be dead", holder.Holder)
	case holder != nil:
		t.held = true
		c.fail("table.lease", fmt.Errorf("%w: %s", table.ErrHeld, holder.Holder), "stop that writer, or start with --wait")
	default:
		c.ok("table.lease", "no other couch2hudi writes to the table")
	}
}

// pending says what a dead writer left, and what others have to finish.
func (c *checker) pending(ctx context.Context, t *checkedTable) {
	var dead []string
	v, err := t.table.Properties().Version()
	later := err == nil && v.Completes() // read, and never written by us
	for _, i := range t.view.Instants() {
		if i.Done() {
			continue
		}
		if later {
			c.warn("table.pending", "let the engine that began it finish it", "%s", i)
			continue
		}
		if living, err := t.view.Table().Beats(ctx, i.Time); err == nil && living && i.Action != commitmeta.ActionCompaction {
			c.fail("table.pending", fmt.Errorf("%w: another engine writes %s", table.ErrBusy, i), "let it finish")
			continue
		}
		switch i.Action {
		case commitmeta.ActionRollback, commitmeta.ActionCommit, commitmeta.ActionDeltaCommit, commitmeta.ActionSavepoint:
			dead = append(dead, string(i.Time)+" "+string(i.Action))
		case commitmeta.ActionReplaceCommit:
			clustering, err := isClustering(ctx, t.bucket, i)
			switch {
			case err != nil:
				c.fail("table.pending", fmt.Errorf("read the plan of %s: %w", i, err), "let the engine that wrote it finish or remove it")
			case clustering:
				c.fail("table.pending", fmt.Errorf("%w: %s is a clustering", table.ErrForeign, i), "let the engine that planned it finish or cancel it")
			default:
				dead = append(dead, string(i.Time)+" "+string(i.Action))
			}
		case commitmeta.ActionRestore:
			if ours, err := t.view.Table().Restoring(ctx, i.Time); err == nil && ours {
				dead = append(dead, string(i.Time)+" "+string(i.Action))
			} else {
				c.fail("table.pending", fmt.Errorf("%w: %s", table.ErrForeign, i), "let the engine that began the restore finish it")
			}
		case commitmeta.ActionCompaction, commitmeta.ActionLogCompaction:
			c.warn("table.pending", "run it soon", "%s: until it is done hudi-rs misreads the table", i)
		default:
			c.warn("table.pending", "let the engine that began it finish it", "%s", i)
		}
	}
	switch {
	case len(dead) > 0 && t.held:
		c.ok("table.pending", "%s, of the writer that holds the table", strings.Join(dead, ", "))
	case len(dead) > 0:
		c.warn("table.pending", "start run: it does so first; make sure that no other engine is writing",
			"%d unfinished, which the next start rolls back or finishes: %s", len(dead), strings.Join(dead, ", "))
	default:
		c.ok("table.timeline", "%d instants, the last commit is %s, nothing left by a dead writer", len(t.view.Instants()), or(string(t.view.Last()), "none yet"))
	}
}

func isClustering(ctx context.Context, b *storage.Bucket, i timeline.Instant) (bool, error) {
	folder, err := timeline.Folder(hudi.Version6)
	if err != nil {
		return false, err
	}
	name, err := timeline.FileName(hudi.Version6, timeline.Instant{Time: i.Time, Action: i.Action, State: timeline.Requested})
	if err != nil {
		return false, err
	}
	const most = 256 << 20
	data, err := b.ReadAll(ctx, folder+name, most)
	if errors.Is(err, storage.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p, err := commitmeta.DecodeReplacePlan(data)
	return p.Clustering != nil, err
}
