// Package table is the state of one table: an immutable View of what is
// committed, and the transaction (Txn) that adds to it. What differs by table
// version is asked of hudi/timeline (names), commitmeta (contents) and the
// slice rules in here.
//
// One writer at a time: the holder of the Lease. Views need no lease.
package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Options are the choices of an opened table; the zero value is the default.
type Options struct {
	// Clock gives the time from which instant times are made; time.Now when nil.
	Clock func() time.Time
	// ReadOnly opens tables that may be read but not written by us: those with
	// a metadata table, with other key generators or with another merge rule.
	ReadOnly bool
	// Location is the table's address as other engines write it
	// (file:///data/docs, s3a://bucket/docs). Rollback plans hold absolute
	// paths, so that another engine can finish what we began; without a
	// Location they hold paths relative to the table.
	Location string
	// Zone is the zone of instant times in a table whose properties say that
	// its writers use their local one; UTC when nil. Tables that we create
	// use UTC.
	Zone *time.Location
}

// CreateOptions say what a new table is.
type CreateOptions struct {
	// Name is the table's name, stored as hoodie.table.name.
	Name string
	// PartitionField is the partition column, or empty for one partition.
	PartitionField string
	// BareFolders names partition folders by the value alone, not field=value;
	// PlainFolders leaves values unescaped in them.
	BareFolders, PlainFolders bool
	// OrderColumn is the column that decides between two versions of a key;
	// hudi.ColumnRevOrder when empty.
	OrderColumn string
	// KeyColumn is the record key's column; hudi.ColumnID when empty.
	KeyColumn string
	// Schema, if set, is stored as hoodie.table.create.schema.
	Schema *hudi.Schema
	// CDC is what change files the table keeps.
	CDC hudi.CDCMode
	// Extra are further properties. They must not contradict the others.
	Extra map[string]string
}

// Table is an open table. It may be used concurrently.
type Table struct {
	bucket       *storage.Bucket // under gate
	gate         *gate
	properties   hudi.Properties
	version      hudi.Version
	partitioning hudi.Partitioning
	options      Options
	bodies       *bodyCache
	lister       *timeline.Lister
	archive      *archiveRanges

	// starting is held while a delta commit begins or a compaction is planned:
	// no log file may come between the plan's view and its instant.
	starting sync.Mutex
	// viewing is held while a view is made, which reads; mu only for moments.
	viewing sync.Mutex
	view    *View // guarded by viewing
	viewed  known // what view was made of; guarded by viewing

	mu      sync.Mutex
	leased  bool
	last    hudi.Time            // the latest instant time handed out
	known   known                // the timeline as it was last seen
	looks   uint64               // counts looks at the timeline, and changes of it
	stale   uint64               // the last change that made known wrong
	open    map[hudi.Time]*Txn   // transactions begun and not finished
	begins  hudi.Time            // the first instant of the timeline
	own     ownInstants          // instants that this Table put on the timeline
	changed []change             // files added or removed since the last view
	folders map[string]bool      // partitions known to have a metafile
	plans   map[hudi.Time]*plans // pending plans, which never change
	// undone are the writes that rollbacks of the timeline took back, by their instants.
	undone map[hudi.Time]undone
	// archives is the number of the archive's last file, 0 when that is not known, or
	// when the last archival did not come to its end.
	archives int
	// archiver is what the next file of the archive is made with, nil before the first.
	archiver *timeline.ArchiveWriter
}

// ownInstants are instants with what each touched.
type ownInstants map[hudi.Time]ownInstant

func (o ownInstants) add(at hudi.Time) {
	if o[at] == nil {
		o[at] = ownInstant{}
	}
}

// ownInstant are file groups, by partition; true for those to which more has
// happened than that they got log files.
type ownInstant map[string]map[hudi.FileID]bool

func (o ownInstant) touch(l hudi.Location, more bool) {
	if o[l.Partition] == nil {
		o[l.Partition] = map[hudi.FileID]bool{}
	}
	o[l.Partition][l.File] = o[l.Partition][l.File] || more
}

// add notes a change by the instant at. A log file that has that instant for its
// base's is a slice of its own, which comes with the commit.
func (o ownInstant) add(c change, at hudi.Time) {
	id, base, _ := sliceOf(c.file.Name)
	o.touch(hudi.Location{Partition: c.partition, File: id}, c.removed || !isLogName(c.file.Name) || base == at)
}

// change is a file that this Table added to or removed from a partition.
type change struct {
	partition string
	file      hudi.File
	removed   bool
}

// Exists says whether there is a table in the bucket.
func Exists(ctx context.Context, b *storage.Bucket) (bool, error) {
	for _, name := range []string{propertiesName, propertiesBackup} {
		if ok, err := b.Exists(ctx, name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// Create makes an empty table of version 6 and opens it; ErrExists when there
// is one. Of several that race one wins.
func Create(ctx context.Context, b *storage.Bucket, c CreateOptions, o Options) (*Table, error) {
	p, err := createProperties(c)
	if err != nil {
		return nil, err
	}
	t, err := newTable(b, p, o)
	if err != nil {
		return nil, err
	}
	if ok, err := Exists(ctx, b); err != nil {
		return nil, err
	} else if ok {
		return nil, fmt.Errorf("create table: %w", ErrExists)
	}
	if _, err := b.PutIfAbsent(ctx, propertiesName, p.Encode(t.now())); err != nil {
		if errors.Is(err, storage.ErrExist) {
			return nil, fmt.Errorf("create table: %w", ErrExists)
		}
		return nil, err
	}
	t.partitioning, err = p.Partitioning()
	return t, err
}

// Open opens the table in the bucket. It refuses with one of this package's
// errors, with a hint, what it could not read right, and unless ReadOnly what
// it could not write right.
func Open(ctx context.Context, b *storage.Bucket, o Options) (*Table, error) {
	p, err := readProperties(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := checkReadable(p.Properties); err != nil {
		return nil, err
	}
	if !o.ReadOnly {
		if err := checkWritable(p.Properties); err != nil {
			return nil, err
		}
		if err := checkNoSchemaHistory(ctx, b); err != nil {
			return nil, err
		}
	}
	t, err := newTable(b, p.Properties, o)
	if err != nil {
		return nil, err
	}
	if len(p.List(hudi.PropPartitionFields)) <= 1 {
		t.partitioning, err = p.Partitioning()
	}
	return t, err
}

func newTable(b *storage.Bucket, p hudi.Properties, o Options) (*Table, error) {
	version, err := p.Version()
	if err != nil {
		return nil, err
	}
	l, err := timeline.NewLister(b, version)
	if err != nil {
		return nil, err
	}
	g := &gate{}
	return &Table{bucket: b.Under(g), gate: g, properties: p, version: version, options: o, bodies: newBodyCache(bodyCacheBytes), lister: l,
		archive: &archiveRanges{byFile: map[archiveFile]timeRange{}, extras: map[string]archivedExtra{}},
		open:    map[hudi.Time]*Txn{}, own: ownInstants{}, folders: map[string]bool{}, plans: map[hudi.Time]*plans{}}, nil
}

// Properties are the table's properties as they were when it was opened.
func (t *Table) Properties() hudi.Properties { return t.properties }

// Name is the table's name.
func (t *Table) Name() string { return t.properties.Get(hudi.PropName) }

// KeyColumn is the record key's column.
func (t *Table) KeyColumn() string { return first(t.properties.List(hudi.PropKeyFields)) }

// OrderColumn is the column that decides between two versions of a key, ""
// when the table (opened to be read only) has none.
func (t *Table) OrderColumn() string { return first(t.properties.OrderingFields()) }

// PartitionField is the partition column, "" for a table of one partition.
func (t *Table) PartitionField() string { return t.partitioning.Field }

// Partitioning is how the table names its partition folders.
func (t *Table) Partitioning() hudi.Partitioning { return t.partitioning }

// CDC is what change files the table keeps. A mode that nobody knows counts as
// none: a table of that kind is not opened for writing.
func (t *Table) CDC() hudi.CDCMode {
	m, err := t.properties.CDC()
	if err != nil {
		return hudi.CDCOff
	}
	return m
}

// Changelog says whether the table's files tell what was done to each row.
func (t *Table) Changelog() bool { return t.properties.Flag(hudi.PropChangelog, false) }

// FileSchema is the schema of the rows in new files, for the table's own.
func (t *Table) FileSchema(s *hudi.Schema) (*hudi.Schema, error) {
	if !t.Changelog() {
		return s, nil
	}
	return s.WithOperation()
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (t *Table) now() time.Time {
	if t.options.Clock != nil {
		return t.options.Clock()
	}
	return time.Now()
}

// nextTime is an instant time after all on the timeline and all handed out
// before, and the clock's unless that went back.
func (t *Table) nextTime(instants []timeline.Instant) (hudi.Time, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range instants {
		if i.Time.After(t.last) {
			t.last = i.Time
		}
	}
	next := t.Now()
	if t.last != "" && !next.After(t.last) {
		var err error
		if next, err = t.last.Next(); err != nil {
			return "", fmt.Errorf("instant time after %q: %w", t.last, err)
		}
	}
	t.last = next
	return next, nil
}

// list reads the timeline.
func (t *Table) list(ctx context.Context) ([]timeline.Instant, error) {
	return t.lister.List(ctx)
}

// instantName is the object name of an instant's file in a table of version 6,
// which is what we write.
func instantName(i timeline.Instant) (string, error) {
	folder, err := timeline.Folder(hudi.Version6)
	if err != nil {
		return "", err
	}
	name, err := timeline.FileName(hudi.Version6, i)
	return folder + name, err
}

func find(instants []timeline.Instant, t hudi.Time) (timeline.Instant, bool) {
	i := slices.IndexFunc(instants, func(i timeline.Instant) bool { return i.Time == t })
	if i < 0 {
		return timeline.Instant{}, false
	}
	return instants[i], true
}
