package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Marker says what kind of file a transaction is about to write. Markers are
// how any engine finds the files of a commit that never completed.
type Marker string

// The markers of table version 6.
const (
	// MarkCreate: a new base file.
	MarkCreate Marker = "CREATE"
	// MarkMerge: a base file that replaces one.
	MarkMerge Marker = "MERGE"
	// MarkAppend: a log file.
	MarkAppend Marker = "APPEND"
	// MarkChanges: a new change file. Its marker is that of a log file of the base
	// file's by the name of the latter, as Hudi 0.7 wrote them: of the markers that
	// Hudi's rollbacks know, that alone makes them delete the file. A change file
	// that stays would become the group's latest slice, an empty one.
	MarkChanges Marker = "CHANGES"
)

// Txn is one delta commit or replacecommit, or the run of a compaction, in the
// making. Create may be called concurrently; everything else by one goroutine.
// End it with Commit or Abort.
type Txn struct {
	table   *Table
	bucket  *storage.Bucket // under the locks that it needs
	instant hudi.Time
	action  commitmeta.Action
	view    *View
	begun   []timeline.Instant // the timeline as Begin found it
	carried bool               // begun was not listed
	beat    *heartbeat         // nil for a compaction, which has its own

	mu      sync.Mutex
	files   map[string]*upload // by object name
	markers []string
	ended   bool // committed or aborted
	decided bool // the completed file was attempted
	unknown bool // and nobody knows what became of it
}

const (
	tempFolder  = hoodieFolder + ".temp/"
	asideFolder = hoodieFolder + "couch2hudi/"
)

// Begin begins a delta commit, later than all on the timeline. It needs the
// Lease, and refuses with ErrRecover when something is left to roll back.
func (t *Table) Begin(ctx context.Context) (*Txn, error) {
	return t.beginAction(ctx, commitmeta.ActionDeltaCommit)
}

// BeginAt is Begin on a view that the caller has worked with already, the one that
// Current, or View, gave last. It does not list the timeline: what others did
// since the view was made is found by Commit. The error is an ErrStale when
// something else is known of the table by now: take View and begin anew.
func (t *Table) BeginAt(ctx context.Context, v *View) (*Txn, error) {
	if err := t.mayWrite("begin"); err != nil {
		return nil, err
	}
	t.starting.Lock()
	defer t.starting.Unlock()
	is, carried := t.current(v)
	if !is {
		return nil, fmt.Errorf("begin: %w", ErrStale)
	}
	if err := t.mayBegin(ctx, v.instants, false); err != nil {
		return nil, err
	}
	x, err := t.begin(ctx, v, commitmeta.ActionDeltaCommit)
	if errors.Is(err, storage.ErrExist) {
		return nil, fmt.Errorf("%w: %w", ErrStale, err) // another writer has taken the very millisecond
	}
	if x != nil {
		x.carried = carried
	}
	return x, err
}

// BeginReplace begins a replacecommit: its body may name file groups that the
// files of the transaction take the place of. Beside what Begin refuses, a
// pending compaction is an ErrForeign: it would be of groups that are gone.
func (t *Table) BeginReplace(ctx context.Context) (*Txn, error) {
	return t.beginAction(ctx, commitmeta.ActionReplaceCommit)
}

func (t *Table) beginAction(ctx context.Context, a commitmeta.Action) (*Txn, error) {
	if err := t.mayWrite("begin"); err != nil {
		return nil, err
	}
	t.starting.Lock()
	defer t.starting.Unlock()
	v, err := t.View(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.mayBegin(ctx, v.instants, false); err != nil {
		return nil, err
	}
	if a == commitmeta.ActionReplaceCommit {
		if err := mayReplace(v.instants); err != nil {
			return nil, err
		}
	}
	// Another writer may have taken the very millisecond.
	const attempts = 8
	for attempt := 1; ; attempt++ {
		x, err := t.begin(ctx, v, a)
		if err == nil || !errors.Is(err, storage.ErrExist) || attempt == attempts {
			return x, err
		}
	}
}

func (t *Table) begin(ctx context.Context, v *View, a commitmeta.Action) (*Txn, error) {
	instant, err := t.nextTime(v.instants)
	if err != nil {
		return nil, err
	}
	x := &Txn{table: t, bucket: t.bucket, instant: instant, action: a, view: v, begun: v.instants, files: map[string]*upload{}}
	// Inflight and requested files without content are valid, and Hudi's own
	// rollback goes by markers.
	content := map[timeline.State][]byte{}
	if a == commitmeta.ActionReplaceCommit {
		// What an insert overwrite plans: it tells a dead one from a clustering.
		if content[timeline.Requested], err = commitmeta.EncodeReplacePlan(commitmeta.ReplacePlan{}); err != nil {
			return nil, err
		}
	}
	// First, as Hudi does: an engine that rolls failed writes back lazily takes a
	// pending instant without a heartbeat for a dead one's.
	if x.beat, err = t.startHeartbeat(ctx, instant); err != nil {
		return nil, fmt.Errorf("begin %s: %w", instant, err)
	}
	t.mu.Lock()
	t.own.add(instant)
	t.open[instant] = x
	t.mu.Unlock()
	for _, s := range []timeline.State{timeline.Requested, timeline.Inflight} {
		name, err := instantName(x.at(s))
		if err != nil {
			x.end()
			return nil, err
		}
		if _, err := t.bucket.PutIfAbsent(ctx, name, content[s]); err != nil {
			// What was put already is a dead writer's: Recover's to remove.
			x.end()
			t.outdate()
			return nil, fmt.Errorf("begin %s: %w", instant, err)
		}
	}
	return x, nil
}

// mayBegin refuses to write beside what is unfinished. Who writes to none of a
// clustering's groups may say so.
func (t *Table) mayBegin(ctx context.Context, instants []timeline.Instant, clustering bool) error {
	for _, i := range instants {
		if i.Done() {
			continue
		}
		t.mu.Lock()
		_, open := t.open[i.Time]
		t.mu.Unlock()
		if open {
			continue
		}
		switch i.Action {
		case commitmeta.ActionCommit, commitmeta.ActionDeltaCommit, commitmeta.ActionRollback:
			return hinted(ErrRecover, "restart the writer: it recovers the table when it starts", "%s", i)
		case commitmeta.ActionRestore:
			if ours, err := t.Restoring(ctx, i.Time); err != nil || !ours {
				return errors.Join(err, errRestore(i))
			}
			return hinted(ErrRecover, "restart the writer: it recovers the table when it starts", "%s", i)
		case commitmeta.ActionReplaceCommit:
			p, err := t.plan(ctx, i)
			if err != nil {
				return err
			}
			if !p.clustering {
				return hinted(ErrRecover, "restart the writer: it recovers the table when it starts", "%s", i)
			}
			if clustering {
				continue
			}
			// A row written to a group that is being rewritten would be lost.
			return hinted(ErrForeign, "let the engine that planned the clustering finish or cancel it", "%s is a clustering", i)
		default: // does not matter to a delta commit
		}
	}
	return nil
}

// mayReplace refuses to take file groups away that a compaction has planned on.
func mayReplace(instants []timeline.Instant) error {
	for _, i := range instants {
		if !i.Done() && (i.Action == commitmeta.ActionCompaction || i.Action == commitmeta.ActionLogCompaction) {
			return hinted(ErrForeign, "run the compaction first", "%s", i)
		}
	}
	return nil
}

func errRestore(i timeline.Instant) error {
	return hinted(ErrForeign, "let the engine that began the restore finish it", "%s", i)
}

func (x *Txn) at(s timeline.State) timeline.Instant {
	i := timeline.Instant{Time: x.instant, Action: x.action, State: s}
	if i.Done() && i.Action == commitmeta.ActionCompaction {
		i.Action = commitmeta.ActionCommit
	}
	return i
}

// Instant is the transaction's time.
func (x *Txn) Instant() hudi.Time { return x.instant }

// View is the table as the transaction found it.
func (x *Txn) View() *View { return x.view }

// Create begins a data file of a partition. Before the file come the
// partition's metafile, if it has none, and the marker by which a rollback
// finds the file. ctx governs the whole upload; Commit or Abort the upload
// before ending the transaction.
func (x *Txn) Create(ctx context.Context, partition, name string, m Marker) (storage.Upload, error) {
	if err := x.checkName(name, m); err != nil {
		return nil, err
	}
	u := &upload{txn: x, partition: partition, name: name}
	object := join(partition, name)
	x.mu.Lock()
	switch {
	case x.ended || x.decided:
		x.mu.Unlock()
		return nil, fmt.Errorf("create %q: %w", object, ErrFinished)
	case x.files[object] != nil:
		x.mu.Unlock()
		return nil, fmt.Errorf("create %q: %w", object, storage.ErrExist)
	}
	x.files[object] = u
	x.mu.Unlock()
	if err := x.prepare(ctx, partition, name, m); err != nil {
		u.drop()
		return nil, err
	}
	up, err := x.bucket.Create(ctx, object, storage.Cond{Absent: true})
	if err != nil {
		u.drop()
		return nil, err
	}
	u.up = up
	return u, nil
}

// checkName holds files to what a rollback and the slice rules can find again.
func (x *Txn) checkName(name string, m Marker) error {
	switch m {
	case MarkCreate, MarkMerge:
		n, err := hudi.ParseBaseFileName(name)
		if err != nil {
			return err
		}
		if n.Instant != x.instant {
			return fmt.Errorf("%w: base file %q in the transaction %s", hudi.ErrName, name, x.instant)
		}
	case MarkAppend:
		if _, err := hudi.ParseLogFileName(name); err != nil {
			return err
		}
	case MarkChanges:
		n, err := hudi.ParseLogFileName(name)
		if err != nil {
			return err
		}
		if !n.CDC || n.Instant != x.instant {
			return fmt.Errorf("%w: change file %q in the transaction %s", hudi.ErrName, name, x.instant)
		}
	default:
		return fmt.Errorf("%w: marker %q", ErrUnsupported, m)
	}
	return nil
}

// prepare puts the partition's metafile and the file's marker.
func (x *Txn) prepare(ctx context.Context, partition, name string, m Marker) error {
	t := x.table
	t.mu.Lock()
	known := t.folders[partition]
	t.mu.Unlock()
	if !known {
		depth := 0
		if partition != "" {
			depth = 1 + strings.Count(partition, "/")
		}
		_, err := t.bucket.PutIfAbsent(ctx, join(partition, metafile), metafileContent(x.instant, depth, t.now()))
		if err != nil && !errors.Is(err, storage.ErrExist) {
			return err
		}
		t.mu.Lock()
		t.folders[partition] = true
		t.mu.Unlock()
	}
	// Overwriting: a marker has no content, and may be there from an attempt
	// to create the same file.
	marker := tempFolder + string(x.instant) + "/" + join(partition, markerName(name, m))
	x.mu.Lock()
	x.markers = append(x.markers, marker)
	x.mu.Unlock()
	_, err := t.bucket.Put(ctx, marker, nil)
	return err
}

// markerName is what the marker of a file is called.
func markerName(name string, m Marker) string {
	if n, err := hudi.ParseLogFileName(name); err == nil && m == MarkChanges {
		name, m = hudi.BaseFileName{File: n.File, Token: n.Token, Instant: n.Instant}.String(), MarkAppend
	}
	return name + markerInfix + string(m)
}

// PutAside stores data beside the table, as .hoodie/couch2hudi/<name>, valid
// only if the transaction commits: a rollback removes it. The last part of
// name must be "<instant>.<something>", which is how a rollback finds it.
func (x *Txn) PutAside(ctx context.Context, name string, data []byte) error {
	_, last := split(name)
	if stem, ext, ok := strings.Cut(last, "."); !ok || ext == "" || stem != string(x.instant) {
		return fmt.Errorf("%w: %q is not named after the transaction %s", hudi.ErrName, name, x.instant)
	}
	if x.ended || x.decided {
		return fmt.Errorf("put aside %q: %w", name, ErrFinished)
	}
	_, err := x.table.bucket.Put(ctx, asideFolder+name, data)
	return err
}

// upload is a data file of a transaction.
type upload struct {
	txn             *Txn
	partition, name string
	up              storage.Upload
	done            bool
	bytes           int64
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) { return u.up.Write(p) }

// Commit implements storage.Upload.
func (u *upload) Commit() (storage.Object, error) {
	o, err := u.up.Commit()
	if errors.Is(err, storage.ErrExist) {
		// Another writer has put a file of that name: a roll-back must leave it.
		u.drop()
		return o, u.txn.foreign(fmt.Errorf("%w: %w", ErrConflict, err))
	}
	if err != nil {
		return o, err
	}
	u.txn.mu.Lock()
	u.done, u.bytes = true, o.Size
	u.txn.mu.Unlock()
	u.txn.table.tell(u.txn.instant, change{partition: u.partition, file: hudi.File{Name: u.name, Size: o.Size}})
	return o, nil
}

// Abort implements storage.Upload.
func (u *upload) Abort() error {
	u.drop()
	return u.up.Abort()
}

// drop takes an upload that did not happen off the transaction's files.
func (u *upload) drop() {
	u.txn.mu.Lock()
	defer u.txn.mu.Unlock()
	if !u.done {
		delete(u.txn.files, join(u.partition, u.name))
	}
}

// tell records a file of an own instant for the next view.
func (t *Table) tell(at hudi.Time, c change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = append(t.changed, c)
	t.own.add(at)
	t.own[at].add(c, at)
}

// paths are the transaction's files, sorted by name.
func (x *Txn) paths() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]string, 0, len(x.files))
	for name := range x.files {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
