// Package storage is the one door to where tables live. Callers hold a
// concrete Bucket; a store implements the small Driver. Conditional put and
// durability are part of the driver's contract, since a table's commit point
// is a put-if-absent of one file.
package storage

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors of every driver, to be matched with errors.Is.
var (
	// ErrNotExist: there is no object of that name.
	ErrNotExist = errors.New("object does not exist")
	// ErrExist: a put-if-absent found an object of that name.
	ErrExist = errors.New("object exists already")
	// ErrChanged: an If-Match put found another version of the object.
	ErrChanged = errors.New("object was changed by somebody else")
	// ErrName: the name is not one a Bucket takes.
	ErrName = errors.New("not an object name")
	// ErrLocked: another process holds the lock.
	ErrLocked = errors.New("locked by another process")
)

// Object describes one stored object. Name is relative to the bucket, with
// "/" between its parts; Size is in bytes.
type Object struct {
	Name     string
	Size     int64
	Modified time.Time
	// ETag names this version of the object; opaque.
	ETag string
}

// Cond is the condition of a put. The zero Cond overwrites.
type Cond struct {
	// Absent: only if there is no object of that name (else ErrExist).
	Absent bool
	// ETag: only if the object still is this version (else ErrChanged).
	ETag string
}

// Driver is what a store implements. Names that reach it were checked by
// Bucket. Every method may be called concurrently.
type Driver interface {
	// Stat describes one object or returns ErrNotExist.
	Stat(ctx context.Context, name string) (Object, error)
	// ReadAt reads into p from byte offset on, as io.ReaderAt does.
	ReadAt(ctx context.Context, name string, p []byte, offset int64) (int, error)
	// Put stores data whole, under a condition, durable when it returns. No
	// reader ever sees a part of it.
	Put(ctx context.Context, name string, data []byte, cond Cond) (Object, error)
	// Create begins an upload; nothing is visible before its Commit. cond is
	// checked at Commit.
	Create(ctx context.Context, name string, cond Cond) (Upload, error)
	// List yields the objects whose names begin with prefix, in name order.
	// With a delimiter only those without a further "/" after prefix, and the
	// folders below as Objects whose Name ends in "/".
	List(ctx context.Context, prefix string, folders bool) iter.Seq2[Object, error]
	// Delete removes one object; ErrNotExist when there is none.
	Delete(ctx context.Context, name string) error
	// Lock takes an exclusive lock of that name for the life of the process
	// or until the returned io.Closer is closed; ErrLocked when another holds it.
	Lock(ctx context.Context, name string) (io.Closer, error)
	Close() error
}

// Upload is a large object being written. Exactly one of Commit or Abort must
// be called; Abort after Commit does nothing.
type Upload interface {
	io.Writer
	// Commit makes the object visible and durable.
	Commit() (Object, error)
	// Abort leaves nothing behind.
	Abort() error
}
