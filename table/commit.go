package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Commit makes the transaction's files, and what the body says, part of the
// table, both at once or not at all. The body must name every file that was
// written, with its true size, and hold the schema. The errors that matter:
// ErrConflict (somebody else has written; Abort and begin anew), ErrUnknown
// (Abort, or open the table anew, tells what happened) and ErrMetadataTable.
func (x *Txn) Commit(ctx context.Context, b commitmeta.Body) error {
	if x.ended || x.decided {
		return fmt.Errorf("commit %s: %w", x.instant, ErrFinished)
	}
	if err := x.table.needLease("commit"); err != nil {
		return err
	}
	if err := x.checkBody(ctx, b); err != nil {
		return fmt.Errorf("commit %s: %w", x.instant, err)
	}
	data, err := commitmeta.Encode(hudi.Version6, b)
	if err != nil {
		return fmt.Errorf("commit %s: %w", x.instant, err)
	}
	seen, err := x.checkForeign(ctx)
	if err != nil {
		return fmt.Errorf("commit %s: %w", x.instant, err)
	}
	done := x.at(timeline.Completed)
	if done.Modified, err = x.complete(ctx, data); err != nil {
		x.table.outdate()
		return fmt.Errorf("commit %s: %w", x.instant, err)
	}
	x.table.carry(seen, done)
	x.end()
	// The commit stands. What stays of the rest is Recover's to remove.
	_ = x.removeHeartbeat(ctx)
	for _, marker := range x.markers {
		_ = x.table.bucket.DeleteIfExists(ctx, marker)
	}
	_ = x.table.bucket.Prune(ctx, tempFolder+string(x.instant)+"/")
	return nil
}

// complete puts the completed file: the commit point. It says when that was by
// the store's clock.
func (x *Txn) complete(ctx context.Context, data []byte) (time.Time, error) {
	name, err := instantName(x.at(timeline.Completed))
	if err != nil {
		return time.Time{}, err
	}
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	// A put that is cut off may still arrive: ctx does not end it.
	const patience, attempts = 20 * time.Second, 3
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for attempt := 1; ; attempt++ {
		// The store is asked whether the locks still are ours: a process that was
		// stopped, and its clocks with it, does not know.
		if err := x.bucket.Confirm(ctx); err != nil && attempt == 1 {
			return time.Time{}, err // nothing was sent
		} else if err != nil {
			return time.Time{}, x.lose(err)
		}
		x.decided = true
		o, err := x.bucket.PutIfAbsent(ctx, name, data)
		if err == nil {
			return o.Modified, nil
		}
		// Whether it took effect is not known after most errors, and if the answer
		// to a put was lost and it was sent again, not even after ErrExist.
		there, readErr := x.bucket.ReadAll(ctx, name, instantLimit)
		switch {
		case readErr == nil && bytes.Equal(there, data):
			x.table.outdate() // it is to be listed: its time is not known
			return time.Time{}, nil
		case readErr == nil:
			return time.Time{}, fmt.Errorf("%w: %s is there with other content", ErrConflict, name)
		case !errors.Is(readErr, storage.ErrNotExist) || attempt == attempts:
			return time.Time{}, x.lose(err)
		case errors.Is(err, storage.ErrExist):
			return time.Time{}, fmt.Errorf("%w: %s came and went", ErrConflict, name)
		}
		// To put it again tells for certain: of several that arrive one counts, and
		// they are all the same.
	}
}

// lose notes that nobody knows whether the commit took effect: even when it is not
// there now, a put whose sending was cut off may still arrive.
func (x *Txn) lose(err error) error {
	x.unknown = true
	return &Error{Err: fmt.Errorf("%w: %w", ErrUnknown, err), Hint: "restart the writer: it goes on from what the table holds"}
}

// end takes the transaction off the open ones. Its heartbeat stays, for who removes
// the pending instant.
func (x *Txn) end() {
	x.ended = true
	if x.beat != nil {
		x.beat.stop()
	}
	x.table.mu.Lock()
	delete(x.table.open, x.instant)
	x.table.mu.Unlock()
}

// checkBody holds what the body says against what was written.
func (x *Txn) checkBody(ctx context.Context, b commitmeta.Body) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	said := make(map[string]bool, len(x.files))
	for partition, stats := range b.Stats {
		for i := range stats {
			s := &stats[i]
			u := x.files[s.Path]
			switch {
			case u == nil || !u.done:
				return fmt.Errorf("%w: %q was not written", ErrBody, s.Path)
			case u.partition != partition:
				return fmt.Errorf("%w: %q is not in partition %q", ErrBody, s.Path, partition)
			case u.bytes != s.Bytes:
				return fmt.Errorf("%w: %q has %d bytes, not %d", ErrBody, s.Path, u.bytes, s.Bytes)
			case said[s.Path]:
				return fmt.Errorf("%w: %q stands twice", ErrBody, s.Path)
			}
			said[s.Path] = true
			for name, size := range s.CDC {
				if u := x.files[name]; u == nil || !u.done || u.partition != partition || u.bytes != size {
					return fmt.Errorf("%w: change file %q of %d bytes was not written", ErrBody, name, size)
				}
				said[name] = true
			}
		}
	}
	for name := range x.files {
		if !said[name] {
			return fmt.Errorf("%w: %q was written and is not named", ErrBody, name)
		}
	}
	if err := x.checkReplaced(ctx, b); err != nil {
		return err
	}
	return x.checkSchema(ctx, b.Extra[commitmeta.ExtraSchema])
}

// checkReplaced holds the replaced groups against the table as the transaction
// found it: each is there, and gets no file.
func (x *Txn) checkReplaced(ctx context.Context, b commitmeta.Body) error {
	if len(b.Replaced) > 0 && x.action != commitmeta.ActionReplaceCommit {
		return fmt.Errorf("%w: a %s replaces no file groups", ErrBody, x.action)
	}
	for partition, ids := range b.Replaced {
		list, err := x.view.Slices(ctx, partition)
		if err != nil {
			return err
		}
		there := make(map[hudi.FileID]bool, len(list))
		for i := range list {
			there[list[i].File] = true
		}
		for _, s := range b.Stats[partition] {
			delete(there, s.File)
		}
		for _, id := range ids {
			if !there[id] {
				return fmt.Errorf("%w: %q of partition %q is replaced, but not there or written to", ErrBody, id, partition)
			}
			delete(there, id)
		}
	}
	return nil
}

// checkSchema keeps a schema from narrowing: engines read the table with the
// latest commit's, whatever came before.
func (x *Txn) checkSchema(ctx context.Context, text string) error {
	if text == "" {
		return fmt.Errorf("%w: no %s in extraMetadata", ErrBody, commitmeta.ExtraSchema)
	}
	had, _, err := x.view.newest(ctx, commitmeta.ExtraSchema)
	if err != nil || had == text {
		return err
	}
	is, err := hudi.ParseSchema(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBody, err)
	}
	if had == "" {
		return nil
	}
	was, err := hudi.ParseSchema(had)
	if err != nil {
		return hinted(ErrCorrupt, "write the table with its own schema", "the latest schema: %v", err)
	}
	for _, c := range was.Columns() {
		at, ok := is.Lookup(c.Name)
		if !ok {
			return fmt.Errorf("%w: the schema lacks the table's column %q", ErrBody, c.Name)
		}
		if n := is.Columns()[at].Kind; !promoted(c.Kind, n) {
			return fmt.Errorf("%w: column %q would change from %s to %s", ErrBody, c.Name, c.Kind, n)
		}
	}
	return nil
}

// promoted says whether readers take values written as one kind for the other.
func promoted(from, to hudi.Kind) bool {
	switch from {
	case to:
		return true
	case hudi.KindInt, hudi.KindLong, hudi.KindFloat:
		return to > from && to <= hudi.KindDouble
	case hudi.KindString:
		return to == hudi.KindBytes
	case hudi.KindBytes:
		return to == hudi.KindString
	default:
		return false
	}
}

// checkForeign refuses to commit over what somebody else has done since Begin, and
// gives the timeline that says so: the one listing that every commit makes.
func (x *Txn) checkForeign(ctx context.Context) (known, error) {
	p, err := readProperties(ctx, x.table.bucket)
	if err != nil {
		return known{}, err
	}
	// Another engine builds a metadata table at its next write unless told not
	// to; with one, its readers would not see our files.
	if err := checkNoMetadataTable(p.Properties); err != nil {
		return known{}, err
	}
	now := known{look: x.table.nextLook()}
	if now.instants, err = x.table.settled(ctx, x.table.disown); err != nil {
		return known{}, err
	}
	own, ok := find(now.instants, x.instant)
	if !ok || !own.Same(x.at(timeline.Inflight)) {
		return known{}, hinted(ErrConflict, "let only one engine write to the table at a time", "the transaction was rolled back or replaced by somebody else")
	}
	return now, x.foreign(x.conflict(now.instants))
}

// foreign is the error of somebody else's work in the way of a transaction. It may
// have come before Begin, when that did not look.
func (x *Txn) foreign(err error) error {
	if err != nil && x.carried {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

// conflict looks for writes that came to the timeline since Begin.
func (x *Txn) conflict(now []timeline.Instant) error {
	x.table.mu.Lock()
	defer x.table.mu.Unlock()
	for _, i := range timeline.Differences(x.begun, now) {
		if x.table.own[i.Time] != nil {
			continue
		}
		was, before := find(x.begun, i.Time)
		planned := i.Action == commitmeta.ActionCompaction || i.Action == commitmeta.ActionLogCompaction
		switch {
		case planned && x.action == commitmeta.ActionReplaceCommit:
			return hinted(ErrConflict, "let only one engine write to the table at a time", "%s", i)
		case before && was.Action == commitmeta.ActionCompaction:
			// A compaction that was pending has moved on: log files carry its
			// instant, so that they are on top of its result.
			continue
		case i.Writes(), i.Action == commitmeta.ActionRollback, i.Action == commitmeta.ActionRestore:
			return hinted(ErrConflict, "let only one engine write to the table at a time", "%s", i)
		}
	}
	return nil
}

// metafileContent marks a partition.
func metafileContent(t hudi.Time, depth int, saved time.Time) []byte {
	return []byte("#partition metadata\n#" + saved.UTC().Format("Mon Jan 02 15:04:05 UTC 2006") +
		"\ncommitTime=" + string(t) + "\npartitionDepth=" + strconv.Itoa(depth) + "\n")
}

// Abort rolls the transaction back, as Recover would after a crash. Uploads
// must have been ended. After a failed Commit it finds out whether the commit
// took effect: ErrCommitted when it did, and then the table keeps it; ErrUnknown when
// it may still come to that, and it is not for the holder of this lease to judge. When it
// fails after that, Begin refuses with ErrRecover until Recover has finished it.
func (x *Txn) Abort(ctx context.Context) error {
	if x.ended {
		return fmt.Errorf("abort %s: %w", x.instant, ErrFinished)
	}
	if err := x.table.needLease("abort"); err != nil {
		return err
	}
	instants, err := x.table.list(ctx)
	if err != nil {
		return err
	}
	now, there := find(instants, x.instant)
	if there && now.Done() {
		x.end()
		return errors.Join(fmt.Errorf("abort %s: %w", x.instant, ErrCommitted), x.removeHeartbeat(ctx))
	}
	if !there {
		// Somebody else rolled it back, and found our files by the markers, if
		// they were written by then. What came later goes now.
		now = x.at(timeline.Inflight)
	}
	if x.unknown && x.bucket.Lent() {
		// Whoever has the lease next waits for its end, and looks then.
		x.end()
		return fmt.Errorf("abort %s: %w", x.instant, ErrUnknown)
	}
	var files []found
	for _, name := range x.paths() {
		f := found{}
		f.partition, f.name = split(name)
		files = append(files, f)
	}
	x.end()
	r, err := x.table.beginRollback(ctx, now, files)
	if err != nil {
		return err
	}
	if err := x.table.finish(ctx, r); err != nil {
		return err
	}
	return x.removeHeartbeat(ctx)
}

func (x *Txn) removeHeartbeat(ctx context.Context) error {
	return x.table.bucket.DeleteIfExists(ctx, x.beat.name)
}
