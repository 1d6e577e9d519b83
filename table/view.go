package table

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// View is an immutable snapshot of a table: what was committed when it was
// made, or at an earlier instant (AsOf). It may be used concurrently. The files
// that it names stay until a cleaner or a rollback deletes them.
type View struct {
	table *Table
	// at is the instant to look from, "" for the newest.
	at hudi.Time
	// until bounds when what is seen completed, "" for not at all.
	until    hudi.Time
	instants []timeline.Instant
	// listed are all instants of the active timeline, also when the view is AsOf
	// or Reaching. firstDone is the first completed write on it that is no
	// savepoint: before it all that is met counts as completed, but for what is
	// pending.
	listed    []timeline.Instant
	firstDone hudi.Time
	// compacting is the pending compaction of each group, replaced the instant
	// of the completed replacecommit that took it out.
	compacting, replaced map[hudi.Location]hudi.Time
	files                *files
	// archived are the instants of the view that are in the archive alone, by
	// what plain leaves of them. Only a view that is Reaching has any.
	archived map[timeline.Instant]archiveFile
	// uncut is the view of which this one is AsOf, nil when it is of none.
	uncut *View

	mu     sync.Mutex
	slices map[string][]hudi.Slice
}

// Table is the table of which this is a view.
func (v *View) Table() *Table { return v.table }

// At is the instant that the view looks from, "" for the newest.
func (v *View) At() hudi.Time { return v.at }

// Instants are all instants of the active timeline, ascending. The slice is
// shared and must not be written to.
func (v *View) Instants() []timeline.Instant { return v.instants }

// Writes are the completed commits, deltacommits and replacecommits, ascending.
func (v *View) Writes() []timeline.Instant {
	return slices.DeleteFunc(slices.Clone(v.instants), func(i timeline.Instant) bool { return !i.Done() || !i.Writes() })
}

// Last is the last completed write, "" when there is none.
func (v *View) Last() hudi.Time {
	for _, i := range slices.Backward(v.instants) {
		if i.Done() && i.Writes() {
			return i.Time
		}
	}
	return ""
}

// Body is what a completed write of the view says. It is shared and must not
// be written to.
func (v *View) Body(ctx context.Context, i timeline.Instant) (commitmeta.Body, error) {
	if f, ok := v.archived[plain(i)]; ok {
		return v.table.archivedBody(ctx, i, f)
	}
	return v.table.body(ctx, i)
}

// newest is the newest completed write, archived ones too, with a non-empty
// value of a key of extraMetadata.
func (v *View) newest(ctx context.Context, key string) (string, timeline.Instant, error) {
	for _, i := range slices.Backward(v.instants) {
		if !i.Done() || !i.Writes() {
			continue
		}
		b, err := v.Body(ctx, i)
		if err != nil {
			return "", timeline.Instant{}, err
		}
		if value := b.Extra[key]; value != "" {
			return value, i, nil
		}
	}
	return v.archivedExtra(ctx, key)
}

// Extra is the newest value of a key of extraMetadata and the completed write
// that carries it, be it in the archive; false when none does.
func (v *View) Extra(ctx context.Context, key string) (string, timeline.Instant, bool, error) {
	value, i, err := v.newest(ctx, key)
	return value, i, value != "", err
}

// Schema is the table's schema: that of the latest commit that holds one, else
// the one in the properties, else ErrNoSchema. Other engines drop the notes of
// columns, in which we keep what a column was made from, so those come from our
// own latest commit.
func (v *View) Schema(ctx context.Context) (*hudi.Schema, error) {
	text, i, err := v.newest(ctx, commitmeta.ExtraSchema)
	if err != nil {
		return nil, err
	}
	where := i.String()
	if text == "" {
		text, where = v.table.properties.Get(hudi.PropCreateSchema), hudi.PropCreateSchema
	}
	if text == "" {
		return nil, ErrNoSchema
	}
	s, err := hudi.ParseSchema(text)
	if err != nil {
		return nil, hinted(ErrCorrupt, "write the table with its own schema", "schema of %s: %v", where, err)
	}
	if text == v.table.properties.Get(hudi.PropCreateSchema) {
		return s, nil
	}
	return v.noted(ctx, s, i)
}

// noted is the schema of a commit with the notes that another engine dropped.
func (v *View) noted(ctx context.Context, s *hudi.Schema, of timeline.Instant) (*hudi.Schema, error) {
	_, own, err := v.newest(ctx, commitmeta.ExtraLayout)
	if errors.Is(err, ErrArchived) {
		err = nil // the rows can be read without their notes
	}
	if err != nil || own.Time == "" || own.Time == of.Time {
		return s, err
	}
	b, err := v.Body(ctx, own)
	if err != nil || b.Extra[commitmeta.ExtraSchema] == "" {
		return s, err
	}
	ours, err := hudi.ParseSchema(b.Extra[commitmeta.ExtraSchema])
	if err != nil {
		return nil, hinted(ErrCorrupt, "write the table with its own schema", "schema of %s: %v", own, err)
	}
	return s.WithDocs(ours)
}

// AsOf is the view as of an earlier instant: instants after at, and what they
// wrote, are not in it.
func (v *View) AsOf(at hudi.Time) *View {
	if v.at != "" && v.at.Before(at) {
		at = v.at
	}
	n := v.copy()
	n.at = at
	if n.slices = map[string][]hudi.Slice{}; n.uncut == nil {
		n.uncut = v
	}
	n.instants = slices.DeleteFunc(slices.Clone(v.instants), func(i timeline.Instant) bool { return i.Time.After(at) })
	return n
}

// copy is a view of the same, to be changed.
func (v *View) copy() *View {
	v.mu.Lock()
	defer v.mu.Unlock()
	return &View{table: v.table, at: v.at, until: v.until, instants: v.instants, listed: v.listed, firstDone: v.firstDone,
		compacting: v.compacting, replaced: v.replaced, files: v.files, archived: v.archived, uncut: v.uncut, slices: maps.Clone(v.slices)}
}

// Uncut is the view of which this one is AsOf, else the view itself.
func (v *View) Uncut() *View {
	if v.uncut != nil {
		return v.uncut
	}
	return v
}

// Partitions are the partition paths, sorted; [""] for a table without
// partitions. They may be empty of rows.
func (v *View) Partitions(ctx context.Context) ([]string, error) {
	if len(v.table.properties.List(hudi.PropPartitionFields)) == 0 {
		return []string{""}, nil
	}
	return v.files.partitions(ctx)
}

// Slices are the latest slices of a partition at the view's instant, sorted by
// file id; none for a partition that is not there. Log files may hold blocks
// of instants that are not Committed: who reads them leaves those out.
// The slice is shared and must not be written to.
func (v *View) Slices(ctx context.Context, partition string) ([]hudi.Slice, error) {
	v.mu.Lock()
	list, ok := v.slices[partition]
	v.mu.Unlock()
	if ok {
		return list, nil
	}
	files, err := v.files.partition(ctx, partition)
	if err != nil {
		return nil, err
	}
	if v.table.version.Completes() {
		when, err := v.completions(ctx, files)
		if err != nil {
			return nil, err
		}
		list = slices8(partition, files, v.rules(), when)
	} else {
		list = slices6(partition, files, v.rules())
	}
	v.mu.Lock()
	v.slices[partition] = list
	v.mu.Unlock()
	return list, nil
}

func (v *View) rules() sliceRules {
	return sliceRules{
		at:         v.at,
		committed:  v.Committed,
		compacting: func(l hudi.Location) hudi.Time { return v.compacting[l] },
		replaced: func(l hudi.Location) bool {
			t, ok := v.replaced[l]
			return ok && v.Committed(t)
		},
	}
}

// Committed says whether what an instant wrote is part of the view: it is
// completed, or older than everything completed on the active timeline, and
// not after the view's instant. Readers ask it for each block of a log file.
func (v *View) Committed(t hudi.Time) bool {
	if v.at != "" && t.After(v.at) || v.after(t) {
		return false
	}
	if completed, there := timeline.Has(v.listed, t); there {
		return completed
	}
	return v.firstDone != "" && t.Before(v.firstDone)
}

// done says whether a write is completed on the active timeline.
func (v *View) done(t hudi.Time) bool {
	completed, _ := timeline.Has(v.listed, t)
	return completed
}

// Ahead is how many files at once are worth while to open before they are read, 0 or 1
// for one after the other.
func (v *View) Ahead() int { return v.table.bucket.Ahead() }

// Open opens a file of a partition; its size may be 0 for unknown. ctx governs the
// reading, too.
func (v *View) Open(ctx context.Context, partition string, f hudi.File) (*storage.Reader, error) {
	_, noBase := hudi.ParseBaseFileName(f.Name)
	r, err := v.table.bucket.OpenKnown(ctx, join(partition, f.Name), storage.OpenOptions{Size: f.Size, End: noBase == nil})
	if errors.Is(err, storage.ErrNotExist) {
		return nil, &Error{Err: err, Hint: "the file was cleaned away or rolled back since the view was made: take a new view"}
	}
	return r, err
}
