package table

import (
	"errors"
	"fmt"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNoTable: there is no table in the bucket.
	ErrNoTable = errors.New("no table")
	// ErrExists: Create found a table.
	ErrExists = errors.New("there is a table already")
	// ErrCorrupt: hoodie.properties, or an instant of the timeline, cannot be read.
	ErrCorrupt = errors.New("the table is damaged")
	// ErrVersion: the table version is not one that we know.
	ErrVersion = errors.New("unsupported table version")
	// ErrType: the table is not Merge-On-Read.
	ErrType = errors.New("not a Merge-On-Read table")
	// ErrMetadataTable: the table has a metadata table, which we do not keep up.
	ErrMetadataTable = errors.New("the table has a metadata table")
	// ErrBootstrapped: the table was bootstrapped from files elsewhere.
	ErrBootstrapped = errors.New("the table is bootstrapped from other files")
	// ErrUnsupported: another setting of the table is one we cannot work with.
	ErrUnsupported = errors.New("the table has a setting that is not supported")
	// ErrHeld: another writer holds the table's lease.
	ErrHeld = errors.New("another writer holds the table")
	// ErrLost: the lease was held and is another's by now, or may soon be.
	ErrLost = storage.ErrLost
	// ErrNoLease: the operation needs the table's lease.
	ErrNoLease = errors.New("the table's lease is not held")
	// ErrRecover: a dead writer left something that Recover has to roll back.
	ErrRecover = errors.New("a dead writer left an unfinished instant")
	// ErrForeign: another engine left work that only it can finish.
	ErrForeign = errors.New("another engine left unfinished work")
	// ErrConflict: another writer has written since the transaction began.
	ErrConflict = errors.New("another writer has written to the table")
	// ErrStale: the view that a transaction was to begin at, or began at, is not the
	// table as it is. Nothing is wrong: begin anew with View.
	ErrStale = errors.New("the table has changed since it was looked at")
	// ErrUnknown: whether the commit took effect is not known.
	ErrUnknown = errors.New("whether the commit took effect is not known")
	// ErrCommitted: the transaction is part of the table already.
	ErrCommitted = errors.New("the transaction is committed")
	// ErrFinished: the transaction was committed or aborted before.
	ErrFinished = errors.New("the transaction is finished")
	// ErrBusy: another process, or another transaction of this one, is at work
	// on what was asked for.
	ErrBusy = errors.New("somebody is at work on it")
	// ErrNotPending: the compaction is not planned, or no longer.
	ErrNotPending = errors.New("no pending compaction")
	// ErrNoInstant: the timeline has no completed write, or no savepoint, of that time.
	ErrNoInstant = errors.New("no such instant")
	// ErrNotNewest: only the newest write can be rolled back by itself.
	ErrNotNewest = errors.New("it is not the newest write")
	// ErrNotPlain: the write is one that cannot be rolled back by itself.
	ErrNotPlain = errors.New("it cannot be rolled back by itself")
	// ErrSaved: what is to be taken back is held by a savepoint.
	ErrSaved = errors.New("a savepoint would be lost")
	// ErrSavepoint: there is a savepoint at that instant already.
	ErrSavepoint = errors.New("there is a savepoint already")
	// ErrCleaned: files that would be needed are gone already, or going.
	ErrCleaned = errors.New("the past was cleaned")
	// ErrBody: what a commit says does not agree with what was written.
	ErrBody = errors.New("commit metadata does not fit the files written")
	// ErrNoSchema: no commit holds a schema and neither do the properties.
	ErrNoSchema = errors.New("the table has no schema yet")
	// ErrArchived: the answer may lie in a part of the archive that cannot be read.
	ErrArchived = errors.New("the archived timeline cannot be read")
)

// Error is an error with what an operator can do about it.
type Error struct {
	// Err is what is wrong; it wraps one of the errors above.
	Err error
	// Hint is what to do next.
	Hint string
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() + "; " + e.Hint }

// Unwrap makes errors.Is see the cause.
func (e *Error) Unwrap() error { return e.Err }

// hinted is an error of a sentinel with details and a hint.
func hinted(sentinel error, hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf("%w: %s", sentinel, fmt.Sprintf(format, args...)), Hint: hint}
}
