// Package catalog tells metastores of a table, so that engines find it by name: its
// columns, its partitions, and where it lives, as Hudi's own HiveSyncTool tells them.
// What a metastore must say is computed here, by pure functions; drivers below it
// speak to a Hive metastore (catalog/hms) and to AWS Glue (catalog/glue).
package catalog

import (
	"context"
	"errors"
	"fmt"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotExist: the metastore has no database, table or partition of that name.
	ErrNotExist = errors.New("the metastore has no such name")
	// ErrExist: somebody made it meanwhile.
	ErrExist = errors.New("the metastore has that name already")
	// ErrForeign: what has the name is not the table that is synced.
	ErrForeign = errors.New("the name is somebody else's in the metastore")
	// ErrColumns: the table has columns that a metastore cannot hold.
	ErrColumns = errors.New("columns that a metastore cannot hold")
)

// ForeignError is an ErrForeign: which table, and why it is not ours.
type ForeignError struct {
	Database, Table, Why string
}

// Error names the table, the reason, and the next step.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s.%s: %v: %s; choose another name, or let sync --adopt drop it there (its files stay) and register this one", e.Database, e.Table, ErrForeign, e.Why)
}

func (e *ForeignError) Unwrap() error { return ErrForeign }

// Column is a column as metastores see it: Name in lower case, Type in Hive's words.
type Column struct {
	Name, Type, Comment string
}

// Table is a table or a view as a metastore holds it.
type Table struct {
	Name string
	// Query is what a view reads; empty for a table.
	Query string
	// Columns are those that are not Partitioned.
	Columns     []Column
	Partitioned []Column
	// Location is where the files are, as engines write it.
	Location                         string
	InputFormat, OutputFormat, SerDe string
	SerDeParameters                  map[string]string
	// Parameters are the table's own; beside ours they may hold others', which stay.
	Parameters map[string]string
	// Managed says that the metastore deletes the files with the table. Ours are
	// external.
	Managed bool
}

// Partition is a folder of rows.
type Partition struct {
	// Value is the partition column's, hudi.DefaultPartition for null.
	Value string
	// Location is the folder's address.
	Location string
}

// Metastore is what a driver knows. Names of databases and tables are in lower case.
// Whatever it is asked to make or drop may be asked for again: what is there, or gone,
// already is no error unless said otherwise. It is for one goroutine.
type Metastore interface {
	// HasDatabase says whether there is a database.
	HasDatabase(ctx context.Context, database string) (bool, error)
	// CreateDatabase makes one.
	CreateDatabase(ctx context.Context, database string) error
	// Table is the table or view of that name, or an ErrNotExist.
	Table(ctx context.Context, database, name string) (Table, error)
	// Create makes a table, or a view; an ErrExist when the name is taken.
	Create(ctx context.Context, database string, t Table) error
	// Alter replaces what the metastore says of a table by t. Columns reach down to
	// the partitions that are there.
	Alter(ctx context.Context, database string, t Table) error
	// Drop forgets a table or a view, and never touches its files.
	Drop(ctx context.Context, database, name string) error
	// Partitions are all that a table has, or those of the given values that it has.
	Partitions(ctx context.Context, database string, t Table, values ...string) ([]Partition, error)
	// AddPartitions adds those that are not there.
	AddPartitions(ctx context.Context, database string, t Table, list []Partition) error
	// MovePartitions gives partitions that are there their locations.
	MovePartitions(ctx context.Context, database string, t Table, list []Partition) error
	// DropPartitions forgets partitions, and never touches their files.
	DropPartitions(ctx context.Context, database string, t Table, values []string) error
	// Close ends the connection.
	Close() error
}

// Batches is a list in parts of at most n, for requests that hold no more.
func Batches[T any](list []T, n int) [][]T {
	var all [][]T
	for len(list) > n {
		all, list = append(all, list[:n:n]), list[n:]
	}
	if len(list) > 0 {
		all = append(all, list)
	}
	return all
}
