// Package hdfsfake is HDFS in memory, as far as storage/hdfs can tell: files are
// seen from their creation on, empty until they are closed; numbers of inodes never
// come back; renames are one step; a file that is closed may still be replicating.
// It was compared with a real one by running the suite over both (e2e).
package hdfsfake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	upstream "github.com/colinmarc/hdfs/v2"

	"github.com/couch2hudi/couch2hudi/storage/hdfs"
)

// FS is a file system. Its fields are set while nobody uses it, or by a hook.
type FS struct {
	// Snapshots: inodes of replaced and deleted files lead to the paths they had.
	Snapshots bool
	// Replicating is how often a Close says that replication is in progress.
	Replicating int
	// Before and After a call they may make it fail; the call takes effect when it
	// is only After that fails. They run without the lock.
	Before, After func(Call) error

	mu     sync.Mutex
	inodes map[uint64]*inode
	paths  map[string]uint64
	last   uint64
	now    time.Time
}

// Call is what a client asks of the file system.
type Call struct{ Op, Path, To string }

// String is the call in a line.
func (c Call) String() string { return strings.TrimSpace(c.Op + " " + c.Path + " " + c.To) }

type inode struct {
	id       uint64
	path     string
	folder   bool
	open     bool // being written
	content  []byte
	modified time.Time
}

// New is an empty file system.
func New() *FS {
	return &FS{inodes: map[uint64]*inode{}, paths: map[string]uint64{}, last: 16384, now: time.Now()}
}

// Connect is another process's connection.
func (f *FS) Connect(context.Context) (hdfs.Cluster, error) {
	if err := f.fails(f.Before, Call{Op: "connect"}); err != nil {
		return nil, err
	}
	return &conn{f: f}, nil
}

func (f *FS) fails(hook func(Call) error, c Call) error {
	if hook == nil {
		return nil
	}
	return hook(c)
}

// RemoteError is an error of the name node.
type RemoteError struct{ Class, Text string }

// Error implements error.
func (e RemoteError) Error() string { return "call failed with ERROR_APPLICATION (" + e.Class + ")" }

// Exception is its class in Java.
func (e RemoteError) Exception() string { return e.Class }

// Message is what the name node says, with a line of Java's trace.
func (e RemoteError) Message() string { return e.Text + "\n\tat org.apache.hadoop.Somewhere" }

func ioException(message string) error { return RemoteError{"java.io.IOException", message} }

// conn is one client.
type conn struct{ f *FS }

// do runs one call as the name node does, under its lock.
func do[T any](c *conn, what Call, f func() (T, error)) (T, error) {
	var none T
	if err := c.f.fails(c.f.Before, what); err != nil {
		return none, err
	}
	c.f.mu.Lock()
	v, err := f()
	c.f.mu.Unlock()
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	if err := c.f.fails(c.f.After, what); err != nil {
		return none, err
	}
	return v, nil
}

// resolve turns a path by inode into a plain one.
func (f *FS) resolve(at string) (string, error) {
	number, ok := strings.CutPrefix(at, "/.reserved/.inodes/")
	if !ok {
		return at, nil
	}
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return "", err
	}
	n := f.inodes[id]
	if n == nil {
		return "", fs.ErrNotExist
	}
	return n.path, nil
}

// get finds an inode; nil when there is none.
func (f *FS) get(at string) (*inode, error) {
	at, err := f.resolve(at)
	if err != nil {
		return nil, err
	}
	if at == "/" {
		return &inode{id: 16385, path: "/", folder: true}, nil
	}
	if n := f.inodes[f.paths[at]]; n != nil {
		return n, nil
	}
	return nil, fs.ErrNotExist
}

// room checks that something may be put at a path.
func (f *FS) room(at string) error {
	for part := range strings.SplitSeq(at, "/") {
		if strings.Contains(part, ":") || part == "." || part == ".." {
			return RemoteError{"org.apache.hadoop.fs.InvalidPathException", "Invalid path name " + at}
		}
	}
	parent, err := f.get(path.Dir(at))
	if err == nil && !parent.folder {
		return RemoteError{"org.apache.hadoop.fs.ParentNotDirectoryException", parent.path + " (is not a directory)"}
	}
	return err
}

// tick is the time of a change: a microsecond after the one before, so that many have
// the same millisecond.
func (f *FS) tick() time.Time {
	f.now = f.now.Add(time.Microsecond)
	return f.now.Truncate(time.Millisecond)
}

// touch gives a folder, in which something changed, the time of that.
func (f *FS) touch(dir string) time.Time {
	now := f.tick()
	if n := f.inodes[f.paths[dir]]; n != nil {
		n.modified = now
	}
	return now
}

func (f *FS) add(at string, folder bool) *inode {
	f.last++
	n := &inode{id: f.last, path: at, folder: folder, modified: f.touch(path.Dir(at))}
	f.inodes[n.id], f.paths[at] = n, n.id
	return n
}

// unlink takes an inode's name away, and it with it unless a snapshot has it.
func (f *FS) unlink(n *inode) {
	f.touch(path.Dir(n.path))
	delete(f.paths, n.path)
	if !f.Snapshots {
		delete(f.inodes, n.id)
	}
}

func (n *inode) info() hdfs.Info {
	i := hdfs.Info{Name: path.Base(n.path), Inode: n.id, Folder: n.folder, Modified: n.modified}
	if !n.open {
		i.Size = int64(len(n.content))
	}
	return i
}

func (c *conn) Stat(at string) (hdfs.Info, error) {
	return do(c, Call{Op: "stat", Path: at}, func() (hdfs.Info, error) {
		n, err := c.f.get(at)
		if err != nil {
			return hdfs.Info{}, err
		}
		return n.info(), nil
	})
}

func (c *conn) List(at string) ([]hdfs.Info, error) {
	return do(c, Call{Op: "list", Path: at}, func() (all []hdfs.Info, err error) {
		n, err := c.f.get(at)
		if err != nil {
			return nil, err
		}
		if !n.folder {
			return nil, syscall.ENOTDIR
		}
		for p, id := range maps.All(c.f.paths) { // in no order
			if path.Dir(p) == at {
				all = append(all, c.f.inodes[id].info())
			}
		}
		return all, nil
	})
}

type reader struct {
	c    *conn
	path string
	info hdfs.Info
}

func (c *conn) Open(at string) (hdfs.Reader, error) {
	i, err := c.Stat(at)
	if err != nil {
		return nil, err
	}
	return &reader{c: c, path: at, info: i}, nil
}

func (r *reader) Info() hdfs.Info { return r.info }
func (r *reader) Close() error    { return nil }

// ReadAt finds the blocks by the path, which may be another file's by now.
func (r *reader) ReadAt(p []byte, offset int64) (int, error) {
	return do(r.c, Call{Op: "read", Path: r.path}, func() (int, error) {
		n, err := r.c.f.get(r.path)
		if err != nil {
			return 0, err
		}
		if offset > r.info.Size {
			return 0, errors.New("invalid resulting offset")
		}
		return bytes.NewReader(n.content).ReadAt(p, offset)
	})
}

type writer struct {
	c    *conn
	path string
	id   uint64
	wait int
}

func (c *conn) Create(at string) (io.WriteCloser, error) {
	return do(c, Call{Op: "create", Path: at}, func() (io.WriteCloser, error) {
		if err := c.f.room(at); err != nil {
			return nil, err
		}
		if n, err := c.f.get(at); err == nil {
			if n.open { // by a client that may be dead: the file stays until its lease is recovered
				return nil, fmt.Errorf("%w: already being created", fs.ErrExist)
			}
			return nil, fs.ErrExist
		}
		n := c.f.add(at, false)
		n.open = true
		return &writer{c: c, path: at, id: n.id, wait: c.f.Replicating}, nil
	})
}

// lease is the file that is written, unless it was removed.
func (w *writer) lease() (*inode, error) {
	n := w.c.f.inodes[w.id]
	if n == nil || w.c.f.paths[n.path] != w.id || !n.open {
		return nil, RemoteError{"org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", "File does not exist: " + w.path}
	}
	return n, nil
}

func (w *writer) Write(p []byte) (int, error) {
	return do(w.c, Call{Op: "write", Path: w.path}, func() (int, error) {
		n, err := w.lease()
		if err != nil {
			return 0, err
		}
		n.content = append(n.content, p...)
		return len(p), nil
	})
}

func (w *writer) Close() error {
	_, err := do(w.c, Call{Op: "close", Path: w.path}, func() (struct{}, error) {
		n, err := w.lease()
		if err == nil && w.wait == 0 {
			n.open = false
			n.modified = w.c.f.tick()
		}
		return struct{}{}, err
	})
	if err == nil && w.wait > 0 {
		w.wait--
		return &os.PathError{Op: "create", Path: w.path, Err: upstream.ErrReplicating}
	}
	return err
}

func (c *conn) MkdirAll(at string) error {
	_, err := do(c, Call{Op: "mkdir", Path: at}, func() (struct{}, error) { return struct{}{}, c.f.mkdirAll(at) })
	return err
}

func (f *FS) mkdirAll(at string) error {
	if n, err := f.get(at); err == nil {
		if n.folder {
			return nil
		}
		return fs.ErrExist
	}
	if err := f.mkdirAll(path.Dir(at)); err != nil {
		return err
	}
	if err := f.room(at); err != nil {
		return err
	}
	f.add(at, true)
	return nil
}

func (c *conn) Rename(from, to string, overwrite bool) error {
	_, err := do(c, Call{Op: fmt.Sprintf("rename(%v)", overwrite), Path: from, To: to}, func() (struct{}, error) {
		return struct{}{}, c.f.rename(from, to, overwrite)
	})
	return err
}

func (f *FS) rename(from, to string, overwrite bool) error {
	n, err := f.get(from)
	if err != nil {
		return err
	}
	if to, err = f.resolve(to); err != nil {
		return err
	}
	if n.folder {
		return errors.New("this fake renames files alone")
	}
	if n.path == to {
		return fs.ErrExist
	}
	if err := f.room(to); err != nil {
		return err
	}
	if old, err := f.get(to); err == nil {
		switch {
		case old.folder:
			return ioException("Source " + n.path + " and destination " + to + " must both be directories")
		case !overwrite:
			return fs.ErrExist
		}
		f.unlink(old)
	}
	delete(f.paths, n.path)
	f.touch(path.Dir(n.path))
	n.path = to
	f.paths[to] = n.id
	f.touch(path.Dir(to))
	return nil
}

func (c *conn) Remove(at string) error {
	_, err := do(c, Call{Op: "remove", Path: at}, func() (struct{}, error) {
		n, err := c.f.get(at)
		if err != nil {
			return struct{}{}, err
		}
		for p := range c.f.paths {
			if n.folder && path.Dir(p) == n.path {
				return struct{}{}, syscall.ENOTEMPTY
			}
		}
		c.f.unlink(n)
		return struct{}{}, nil
	})
	return err
}

func (c *conn) Close() error { return nil }

// Files are the contents of all files by their paths.
func (f *FS) Files() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]string{}
	for p, id := range f.paths {
		if n := f.inodes[id]; !n.folder {
			all[p] = string(n.content)
		}
	}
	return all
}

// Exists says whether there is a file or folder of that path.
func (f *FS) Exists(at string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, there := f.paths[at]
	return there
}
