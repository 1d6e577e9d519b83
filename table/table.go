// Package table is the state of one table: an immutable View of what is
// committed, and the transaction (Txn) that adds to it.
package table

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Options are the choices of an opened table; the zero value is the default.
type Options struct {
	// Clock gives the time from which instant times are made; time.Now when nil.
	Clock func() time.Time
	// ReadOnly opens tables that may be read but not written by us: those with
	// a metadata table or foreign key generators.
	ReadOnly bool
	// Location is the table's address as other engines write it
	// (file:///data/docs, s3a://bucket/docs). Rollback plans hold absolute
	// paths, so that another engine can finish what we began; without a
	// Location they hold paths relative to the table.
	Location string
	// Zone is the zone of instant times in a table whose properties say that
	// its writers use their local one; UTC when nil.
	Zone *time.Location
}

// CreateOptions say what a new table is.
type CreateOptions struct {
	// Name is the table's name, stored as hoodie.table.name.
	Name string
	// PartitionField is the partition column, or empty for one partition.
	PartitionField string
	// OrderColumn is the column that decides between two versions of a key;
	// hudi.ColumnRevOrder when empty.
	OrderColumn string
	// KeyColumn is the record key's column; hudi.ColumnID when empty.
	KeyColumn string
	// Schema, if set, is stored as hoodie.table.create.schema.
	Schema *hudi.Schema
	// Extra are further properties. They must not contradict the others.
	Extra map[string]string
}

// Table is an open table.
type Table struct{}

// View is an immutable snapshot of a table.
type View struct{}

// Txn is one delta commit in the making.
type Txn struct{}

// Marker says what kind of file a transaction is about to write.
type Marker string

// The marker kinds.
const (
	// MarkCreate is a new base file, MarkMerge a rewritten one, MarkAppend a
	// log file.
	MarkCreate Marker = "CREATE"
	MarkMerge  Marker = "MERGE"
	MarkAppend Marker = "APPEND"
)

// Exists says whether there is a table in the bucket.
func Exists(ctx context.Context, b *storage.Bucket) (bool, error) { return false, errors.ErrUnsupported }

// Create makes a table.
func Create(ctx context.Context, b *storage.Bucket, c CreateOptions, o Options) (*Table, error) {
	return nil, errors.ErrUnsupported
}

// Open opens a table.
func Open(ctx context.Context, b *storage.Bucket, o Options) (*Table, error) {
	return nil, errors.ErrUnsupported
}

// Properties are the table's properties.
func (t *Table) Properties() hudi.Properties { return hudi.Properties{} }

// Name is the table's name.
func (t *Table) Name() string { return "" }

// OrderColumn is the ordering column.
func (t *Table) OrderColumn() string { return "" }

// PartitionField is the partition column, "" for a table of one partition.
func (t *Table) PartitionField() string { return "" }

// KeyColumn is the record key's column.
func (t *Table) KeyColumn() string { return "" }

// Lease makes this process the table's only writer until the closer is closed.
// Begin and Recover need it.
func (t *Table) Lease(ctx context.Context) (io.Closer, error) { return nil, errors.ErrUnsupported }

// Recover rolls back what dead writers left. It needs the Lease.
func (t *Table) Recover(ctx context.Context) ([]timeline.Instant, error) {
	return nil, errors.ErrUnsupported
}

// View is the table as it is now.
func (t *Table) View(ctx context.Context) (*View, error) { return nil, errors.ErrUnsupported }

// Begin begins a delta commit. It needs the Lease.
func (t *Table) Begin(ctx context.Context) (*Txn, error) { return nil, errors.ErrUnsupported }

// Table is the table of which this is a view.
func (v *View) Table() *Table { return nil }

// Instants are all instants of the active timeline, ascending.
func (v *View) Instants() []timeline.Instant { return nil }

// Writes are the completed commits, deltacommits and replacecommits, ascending.
func (v *View) Writes() []timeline.Instant { return nil }

// Last is the last completed write, "" when there is none.
func (v *View) Last() hudi.Time { return "" }

// Body is what a completed write says.
func (v *View) Body(ctx context.Context, i timeline.Instant) (commitmeta.Body, error) {
	return commitmeta.Body{}, errors.ErrUnsupported
}

// Schema is the table's schema.
func (v *View) Schema(ctx context.Context) (*hudi.Schema, error) { return nil, errors.ErrUnsupported }

// Extra is the newest value of a key of extraMetadata.
func (v *View) Extra(ctx context.Context, key string) (string, timeline.Instant, bool, error) {
	return "", timeline.Instant{}, false, errors.ErrUnsupported
}

// AsOf is the view as of an earlier instant.
func (v *View) AsOf(at hudi.Time) *View { return nil }

// Partitions are the partition paths, sorted; [""] for a table without.
func (v *View) Partitions(ctx context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

// Slices are the latest slices of a partition, sorted by file id.
func (v *View) Slices(ctx context.Context, partition string) ([]hudi.Slice, error) {
	return nil, errors.ErrUnsupported
}

// Committed says whether what an instant wrote is part of the view.
func (v *View) Committed(t hudi.Time) bool { return false }

// Open opens a file of a partition.
func (v *View) Open(ctx context.Context, partition, name string) (*storage.Reader, error) {
	return nil, errors.ErrUnsupported
}

// Instant is the transaction's time.
func (x *Txn) Instant() hudi.Time { return "" }

// View is the table as the transaction found it.
func (x *Txn) View() *View { return nil }

// Create begins a data file.
func (x *Txn) Create(ctx context.Context, partition, name string, m Marker) (storage.Upload, error) {
	return nil, errors.ErrUnsupported
}

// PutAside stores data beside the table, valid only if the transaction commits.
func (x *Txn) PutAside(ctx context.Context, name string, data []byte) error {
	return errors.ErrUnsupported
}

// Commit makes the transaction's files part of the table.
func (x *Txn) Commit(ctx context.Context, b commitmeta.Body) error { return errors.ErrUnsupported }

// Abort rolls the transaction back.
func (x *Txn) Abort(ctx context.Context) error { return errors.ErrUnsupported }

// Errors that callers tell apart.
var (
	// ErrHeld: another writer holds the table.
	ErrHeld = errors.New("another writer holds the table")
	// ErrNoLease: the operation needs the table's lease.
	ErrNoLease = errors.New("the table's lease is not held")
	// ErrConflict: another writer has written since the transaction began.
	ErrConflict = errors.New("another writer has written to the table")
	// ErrNoSchema: no commit holds a schema and neither do the properties.
	ErrNoSchema = errors.New("the table has no schema yet")
	// ErrNoTable: there is no table in the bucket.
	ErrNoTable = errors.New("no table")
)
