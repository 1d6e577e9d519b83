package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Kind is a kind of operation on a driver or on an upload.
type Kind string

// The kinds, one for every method.
const (
	Stat   Kind = "stat"
	Read   Kind = "read"
	Put    Kind = "put"
	Create Kind = "create"
	Write  Kind = "write"
	Commit Kind = "commit"
	Abort  Kind = "abort"
	List   Kind = "list"
	Delete Kind = "delete"
	Lock   Kind = "lock"
	Unlock Kind = "unlock"
	Sweep  Kind = "sweep"
	Prune  Kind = "prune"
)

// writes says whether an operation of this kind is write-like: one that a
// crash may come before or after. Lock is none, it leaves nothing in the table,
// and neither is Abort, which takes back what nobody could see.
func (k Kind) writes() bool {
	switch k {
	case Put, Create, Write, Commit, Delete:
		return true
	default:
		return false
	}
}

// Op is one operation, as a wrapper sees it.
type Op struct {
	Kind Kind
	// Name is the object's name, or the prefix of a list.
	Name string
	// Cond is the condition of a put, create or commit.
	Cond storage.Cond
	// Offset is where a read begins, in bytes.
	Offset int64
	// Bytes are asked for by a read, given to a put or write, or the whole
	// upload's at its commit.
	Bytes int64
	// Folders is set for a list that stops at folders.
	Folders bool
}

// String is the operation in a few words, without what differs from run to run.
func (o Op) String() string {
	s := string(o.Kind) + " " + o.Name
	switch {
	case o.Kind == Sweep:
		return string(Sweep)
	case o.Kind == List && o.Name == "":
		s = "list everything"
	case o.Kind == Read:
		s += fmt.Sprintf(" %d+%d", o.Offset, o.Bytes)
	}
	switch {
	case o.Folders:
		s += " folders"
	case o.Cond.Absent:
		s += " if absent"
	case o.Cond.ETag != "":
		s += " if match"
	}
	return s
}

// wrapper is a driver that passes every operation of another through one
// function. around must call do at most once; what it returns is what the
// caller gets, and with an error the caller gets no result, even if do had one.
type wrapper struct {
	driver storage.Driver
	around func(op Op, do func() error) error
	// spoil, when set, may change the n bytes that were read into p.
	spoil func(name string, p []byte, offset int64)
	// parts has a read that fails give half of what it has.
	parts bool
}

var (
	_ storage.Driver        = (*wrapper)(nil)
	_ storage.UnknownLister = (*wrapper)(nil)
	_ storage.Pruner        = (*wrapper)(nil)
	_ storage.Opener        = (*wrapper)(nil)
)

// result calls f through around.
func result[T any](around func(Op, func() error) error, op Op, f func() (T, error)) (T, error) {
	var got, none T
	err := around(op, func() (err error) {
		got, err = f()
		return err
	})
	if err != nil {
		return none, err
	}
	return got, nil
}

// Stat implements storage.Driver.
func (w *wrapper) Stat(ctx context.Context, name string) (storage.Object, error) {
	return result(w.around, Op{Kind: Stat, Name: name}, func() (storage.Object, error) {
		return w.driver.Stat(ctx, name)
	})
}

// ReadAt implements storage.Driver.
func (w *wrapper) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (n int, err error) {
	err = w.around(Op{Kind: Read, Name: o.Name, Offset: offset, Bytes: int64(len(p))}, func() (err error) {
		n, err = w.driver.ReadAt(ctx, o, p, offset)
		if w.spoil != nil {
			w.spoil(o.Name, p[:n], offset)
		}
		return err
	})
	if w.parts && err != nil && !errors.Is(err, io.EOF) {
		n /= 2
	}
	return n, err
}

// BlockBytes implements storage.BlockReader: 0 for drivers that are none, or that have
// to be asked before they are read.
func (w *wrapper) BlockBytes() int64 {
	return Before{w.driver}.BlockBytes()
}

// ReadFirst implements storage.Opener.
func (w *wrapper) ReadFirst(ctx context.Context, name string, offset, most int64) (data []byte, o storage.Object, err error) {
	o, err = result(w.around, Op{Kind: Read, Name: name, Offset: offset, Bytes: most}, func() (_ storage.Object, err error) {
		data, o, err = Before{w.driver}.ReadFirst(ctx, name, offset, most)
		if w.spoil != nil {
			w.spoil(name, data, offset)
		}
		return o, err
	})
	if err != nil {
		return nil, storage.Object{}, err
	}
	return data, o, nil
}

// Put implements storage.Driver.
func (w *wrapper) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	op := Op{Kind: Put, Name: name, Cond: cond, Bytes: int64(len(data))}
	return result(w.around, op, func() (storage.Object, error) {
		return w.driver.Put(ctx, name, data, cond)
	})
}

// Create implements storage.Driver.
func (w *wrapper) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	up, err := result(w.around, Op{Kind: Create, Name: name, Cond: cond}, func() (storage.Upload, error) {
		return w.driver.Create(ctx, name, cond)
	})
	if err != nil {
		return nil, err
	}
	return &wrappedUpload{up: up, name: name, cond: cond, around: w.around}, nil
}

// List implements storage.Driver.
func (w *wrapper) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	return w.listed(Op{Kind: List, Name: prefix, Folders: folders}, w.driver.List(ctx, prefix, folders))
}

// ListUnknown implements storage.UnknownLister: a list that stops at folders.
func (w *wrapper) ListUnknown(ctx context.Context, folder string, known func(name string) bool) iter.Seq2[storage.Object, error] {
	if d, ok := w.driver.(storage.UnknownLister); ok {
		return w.listed(Op{Kind: List, Name: folder, Folders: true}, d.ListUnknown(ctx, folder, known))
	}
	return unknown(w.List(ctx, folder, true), folder, known)
}

// listed passes a list on. Its answers are gathered before the first is yielded, so
// that a wrapper sees one operation with one result.
func (w *wrapper) listed(op Op, list iter.Seq2[storage.Object, error]) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		objects, err := result(w.around, op, func() (objects []storage.Object, err error) {
			for o, err := range list {
				if err != nil {
					return nil, err
				}
				objects = append(objects, o)
			}
			return objects, nil
		})
		if err != nil {
			yield(storage.Object{}, err)
			return
		}
		for _, o := range objects {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Delete implements storage.Driver.
func (w *wrapper) Delete(ctx context.Context, name string) error {
	return w.around(Op{Kind: Delete, Name: name}, func() error { return w.driver.Delete(ctx, name) })
}

// Lock implements storage.Driver.
func (w *wrapper) Lock(ctx context.Context, name string) (storage.Lock, error) {
	held, err := result(w.around, Op{Kind: Lock, Name: name}, func() (storage.Lock, error) {
		return w.driver.Lock(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	return &wrappedLock{Lock: held, name: name, around: w.around}, nil
}

// Sweep implements storage.Driver.
func (w *wrapper) Sweep(ctx context.Context) (int, error) {
	return result(w.around, Op{Kind: Sweep}, func() (int, error) { return w.driver.Sweep(ctx) })
}

// Prune implements storage.Pruner, where the driver does.
func (w *wrapper) Prune(ctx context.Context, folder string) error {
	d, ok := w.driver.(storage.Pruner)
	if !ok {
		return nil
	}
	return w.around(Op{Kind: Prune, Name: folder}, func() error { return d.Prune(ctx, folder) })
}

// Close implements storage.Driver.
func (w *wrapper) Close() error { return w.driver.Close() }

// wrappedLock asks the lock itself whether it is valid: that is no operation.
type wrappedLock struct {
	storage.Lock
	name   string
	around func(op Op, do func() error) error
}

// Close implements io.Closer.
func (l *wrappedLock) Close() error {
	return l.around(Op{Kind: Unlock, Name: l.name}, l.Lock.Close)
}

type wrappedUpload struct {
	up     storage.Upload
	name   string
	cond   storage.Cond
	around func(op Op, do func() error) error
	bytes  int64
}

// Write implements io.Writer.
func (u *wrappedUpload) Write(p []byte) (n int, err error) {
	err = u.around(Op{Kind: Write, Name: u.name, Bytes: int64(len(p))}, func() (err error) {
		n, err = u.up.Write(p)
		u.bytes += int64(n)
		return err
	})
	return n, err
}

// Commit implements storage.Upload.
func (u *wrappedUpload) Commit() (storage.Object, error) {
	return result(u.around, Op{Kind: Commit, Name: u.name, Cond: u.cond, Bytes: u.bytes}, u.up.Commit)
}

// Abort implements storage.Upload.
func (u *wrappedUpload) Abort() error {
	return u.around(Op{Kind: Abort, Name: u.name}, u.up.Abort)
}
