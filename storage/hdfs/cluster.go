package hdfs

import (
	"io"
	"time"
)

// Cluster is what this store asks of HDFS; Dial gives the real one. Errors match
// fs.ErrNotExist, fs.ErrExist, syscall.ENOTEMPTY and syscall.ENOTDIR where they
// say so; those of the name node have its exception (see remote). It may be used
// concurrently.
type Cluster interface {
	// Stat describes a file or folder.
	Stat(path string) (Info, error)
	// List describes what is in a folder, in any order.
	List(path string) ([]Info, error)
	// Open opens a file for reading.
	Open(path string) (Reader, error)
	// Create makes a new file, which everybody sees at once; fs.ErrExist when the
	// path is taken, fs.ErrNotExist when its folder is missing. Close may have to
	// be called several times, while it fails with ErrReplicating of the library.
	Create(path string) (io.WriteCloser, error)
	// MkdirAll makes a folder and those above it.
	MkdirAll(path string) error
	// Rename moves a file in one step, onto another file if overwrite says so,
	// else fs.ErrExist. fs.ErrNotExist when from, or the folder of to, is missing.
	Rename(from, to string, overwrite bool) error
	// Remove removes a file or an empty folder.
	Remove(path string) error
	// Close ends the connection.
	Close() error
}

// Reader is an open file.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Info describes the file as it was when it was opened.
	Info() Info
}

// Info describes a file or folder.
type Info struct {
	// Name is the last part of its path; not set where the path was asked for.
	Name string
	// Inode is its number, which no other file will ever have.
	Inode uint64
	// Size is in bytes, as far as its blocks are complete.
	Size int64
	// Modified is to the millisecond.
	Modified time.Time
	Folder   bool
}
