// Package storage is the one door to where tables live. Callers hold a
// concrete Bucket; a store implements the small Driver. Conditional put and
// durability are part of the driver's contract, since a table's commit point
// is a put-if-absent of one file.
//
// A put, commit or delete that fails with ErrExist, ErrChanged, ErrNotExist or
// ErrName did nothing. After any other error it is unknown whether it took
// effect (the answer may have been lost on its way): read before deciding.
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
	// ErrChanged: an If-Match put, or a read of one version, found another
	// version of the object.
	ErrChanged = errors.New("object was changed by somebody else")
	// ErrName: the name is not one a Bucket takes.
	ErrName = errors.New("not an object name")
	// ErrLocked: somebody else, in this process or another, holds the lock.
	ErrLocked = errors.New("locked by another process")
	// ErrLost: the lock that was held is another's by now, or may soon be.
	ErrLost = errors.New("the lease is lost")
	// ErrTooLarge: the object has more bytes than the caller allowed.
	ErrTooLarge = errors.New("object is larger than allowed")
	// ErrUnsafe: the store takes puts whose condition does not hold.
	ErrUnsafe = errors.New("the store ignores the condition of a put")
	// ErrFinished: the upload was committed, aborted or had failed before.
	ErrFinished = errors.New("upload is finished")
)

// Object describes one stored object. Name is relative to the bucket, with
// "/" between its parts; Size is in bytes.
type Object struct {
	Name     string
	Size     int64
	Modified time.Time
	// ETag names this version of the object; opaque. Two versions of one name with
	// different content never share it. Empty for folders.
	ETag string
}

// Cond is the condition of a put. The zero Cond overwrites. At most one field
// is set.
type Cond struct {
	// Absent: only if there is no object of that name (else ErrExist).
	Absent bool
	// ETag: only if the object still is this version (else ErrChanged, also
	// when it is gone).
	ETag string
}

// Driver is what a store implements. Names that reach it were checked by
// Bucket (CheckName). Every method may be called concurrently, and storagetest
// holds the suite that says whether a driver keeps this contract.
type Driver interface {
	// Stat describes one object or returns ErrNotExist.
	Stat(ctx context.Context, name string) (Object, error)
	// ReadAt reads o.Name into p from byte offset on, as io.ReaderAt does:
	// fewer bytes than len(p) come with an error, io.EOF at the end. When
	// o.ETag is set it reads that version or returns ErrChanged, so bytes of
	// two versions never meet in one p.
	ReadAt(ctx context.Context, o Object, p []byte, offset int64) (int, error)
	// Put stores data whole, under a condition, durable when it returns. No
	// reader ever sees a part of it.
	Put(ctx context.Context, name string, data []byte, cond Cond) (Object, error)
	// Create begins an upload; nothing is visible before its Commit. cond is
	// checked at Commit. ctx governs the whole upload.
	Create(ctx context.Context, name string, cond Cond) (Upload, error)
	// List yields the objects whose names begin with prefix, in the byte order
	// of names. With folders only those without a further "/" after prefix,
	// and the folders below as Objects whose Name ends in "/" and that hold at
	// least one object. An object put or deleted meanwhile may be seen or not.
	List(ctx context.Context, prefix string, folders bool) iter.Seq2[Object, error]
	// Delete removes one object, durably; ErrNotExist when there is none.
	Delete(ctx context.Context, name string) error
	// Lock takes an exclusive lock of that name until the returned Lock is closed
	// or the process ends; ErrLocked, at once, when another holds it. ctx governs
	// the taking alone. A store may keep an object of that name for the purpose:
	// the name belongs to the lock.
	Lock(ctx context.Context, name string) (Lock, error)
	// Sweep removes what unfinished uploads of dead writers left in hiding and
	// says how many it removed. Only for the one who holds the lock that keeps
	// every other writer out.
	Sweep(ctx context.Context) (int, error)
	// Close lets go of what the driver holds; locks are let go by their own
	// Close.
	Close() error
}

// Pruner is a Driver with folders of its own, which stay when the last object
// in them is gone.
type Pruner interface {
	// Prune removes the folder, whose name ends in "/", and those below it, each
	// if nothing at all is in it.
	Prune(ctx context.Context, folder string) error
}

// UnknownLister is a Driver that has to ask for each object which it lists, and
// can leave that out.
type UnknownLister interface {
	// ListUnknown yields, in any order, what List with folders yields of a folder,
	// which is empty or ends in "/", but for what known says yes to. It asks known
	// once for each name as it stands in the folder, a folder's without the "/" at
	// its end.
	ListUnknown(ctx context.Context, folder string, known func(name string) bool) iter.Seq2[Object, error]
}

// Prober is a Driver of stores among which there are some that take a condition and
// do not mind it.
type Prober interface {
	// Probe puts a few objects below the folder, which ends in "/", and removes them;
	// an ErrUnsafe says which condition the store ignored.
	Probe(ctx context.Context, folder string) error
}

// Upload is a large object being written. Exactly one of Commit or Abort must
// be called; Abort after Commit does nothing.
type Upload interface {
	io.Writer
	// Commit makes the object visible and durable. When it fails nothing is
	// left in hiding and Abort need not be called.
	Commit() (Object, error)
	// Abort leaves nothing behind.
	Abort() error
}
