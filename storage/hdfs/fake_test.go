package hdfs_test

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

// fake is HDFS in memory, as far as the driver can tell: files are seen from their
// creation on, empty until they are closed; numbers of inodes never come back;
// renames are one step; a file that is closed may still be replicating. It was
// compared with a real one by running the suite over both (e2e).
type fake struct {
	mu     sync.Mutex
	inodes map[uint64]*inode
	paths  map[string]uint64
	last   uint64
	now    time.Time
	// snapshots: inodes of replaced and deleted files lead to the paths they had.
	snapshots bool
	// replicating is how often a Close says that replication is in progress.
	replicating int
	// before and after a call they may make it fail; the call takes effect when it
	// is only after that fails. They run without the lock.
	before, after func(call) error
}

type call struct{ op, path, to string }

func (c call) String() string { return strings.TrimSpace(c.op + " " + c.path + " " + c.to) }

type inode struct {
	id       uint64
	path     string
	folder   bool
	open     bool // being written
	content  []byte
	modified time.Time
}

func newFake() *fake {
	return &fake{inodes: map[uint64]*inode{}, paths: map[string]uint64{}, last: 16384, now: time.Now()}
}

// connect is another process's connection.
func (f *fake) connect(context.Context) (hdfs.Cluster, error) {
	if err := f.fails(f.before, call{op: "connect"}); err != nil {
		return nil, err
	}
	return &fakeConn{f: f}, nil
}

func (f *fake) fails(hook func(call) error, c call) error {
	if hook == nil {
		return nil
	}
	return hook(c)
}

// exception is an error of the name node.
type exception struct{ class, message string }

func (e exception) Error() string     { return "call failed with ERROR_APPLICATION (" + e.class + ")" }
func (e exception) Exception() string { return e.class }
func (e exception) Message() string   { return e.message + "\n\tat org.apache.hadoop.Somewhere" }

func ioException(message string) error { return exception{"java.io.IOException", message} }

// fakeConn is one client.
type fakeConn struct{ f *fake }

// do runs one call as the name node does, under its lock.
func do[T any](c *fakeConn, what call, f func() (T, error)) (T, error) {
	var none T
	if err := c.f.fails(c.f.before, what); err != nil {
		return none, err
	}
	c.f.mu.Lock()
	v, err := f()
	c.f.mu.Unlock()
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	if err := c.f.fails(c.f.after, what); err != nil {
		return none, err
	}
	return v, nil
}

// resolve turns a path by inode into a plain one.
func (f *fake) resolve(at string) (string, error) {
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
func (f *fake) get(at string) (*inode, error) {
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
func (f *fake) room(at string) error {
	for part := range strings.SplitSeq(at, "/") {
		if strings.Contains(part, ":") || part == "." || part == ".." {
			return exception{"org.apache.hadoop.fs.InvalidPathException", "Invalid path name " + at}
		}
	}
	parent, err := f.get(path.Dir(at))
	if err == nil && !parent.folder {
		return exception{"org.apache.hadoop.fs.ParentNotDirectoryException", parent.path + " (is not a directory)"}
	}
	return err
}

// touch gives a folder, in which something changed, the time of that.
func (f *fake) touch(dir string) time.Time {
	f.now = f.now.Add(time.Microsecond) // so that many have the same millisecond
	now := f.now.Truncate(time.Millisecond)
	if n := f.inodes[f.paths[dir]]; n != nil {
		n.modified = now
	}
	return now
}

func (f *fake) add(at string, folder bool) *inode {
	f.last++
	n := &inode{id: f.last, path: at, folder: folder, modified: f.touch(path.Dir(at))}
	f.inodes[n.id], f.paths[at] = n, n.id
	return n
}

// unlink takes an inode's name away, and it with it unless a snapshot has it.
func (f *fake) unlink(n *inode) {
	f.touch(path.Dir(n.path))
	delete(f.paths, n.path)
	if !f.snapshots {
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

func (c *fakeConn) Stat(at string) (hdfs.Info, error) {
	return do(c, call{op: "stat", path: at}, func() (hdfs.Info, error) {
		n, err := c.f.get(at)
		if err != nil {
			return hdfs.Info{}, err
		}
		return n.info(), nil
	})
}

func (c *fakeConn) List(at string) ([]hdfs.Info, error) {
	return do(c, call{op: "list", path: at}, func() (all []hdfs.Info, err error) {
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

type fakeReader struct {
	c    *fakeConn
	path string
	info hdfs.Info
}

func (c *fakeConn) Open(at string) (hdfs.Reader, error) {
	i, err := c.Stat(at)
	if err != nil {
		return nil, err
	}
	return &fakeReader{c: c, path: at, info: i}, nil
}

func (r *fakeReader) Info() hdfs.Info { return r.info }
func (r *fakeReader) Close() error    { return nil }

// ReadAt finds the blocks by the path, which may be another file's by now.
func (r *fakeReader) ReadAt(p []byte, offset int64) (int, error) {
	return do(r.c, call{op: "read", path: r.path}, func() (int, error) {
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

type fakeWriter struct {
	c    *fakeConn
	path string
	id   uint64
	wait int
}

func (c *fakeConn) Create(at string) (io.WriteCloser, error) {
	return do(c, call{op: "create", path: at}, func() (io.WriteCloser, error) {
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
		return &fakeWriter{c: c, path: at, id: n.id, wait: c.f.replicating}, nil
	})
}

// lease is the file that is written, unless it was removed.
func (w *fakeWriter) lease() (*inode, error) {
	n := w.c.f.inodes[w.id]
	if n == nil || w.c.f.paths[n.path] != w.id || !n.open {
		return nil, exception{"org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", "File does not exist: " + w.path}
	}
	return n, nil
}

func (w *fakeWriter) Write(p []byte) (int, error) {
	return do(w.c, call{op: "write", path: w.path}, func() (int, error) {
		n, err := w.lease()
		if err != nil {
			return 0, err
		}
		n.content = append(n.content, p...)
		return len(p), nil
	})
}

func (w *fakeWriter) Close() error {
	_, err := do(w.c, call{op: "close", path: w.path}, func() (struct{}, error) {
		n, err := w.lease()
		if err == nil && w.wait == 0 {
			n.open = false
			w.c.f.now = w.c.f.now.Add(time.Microsecond)
			n.modified = w.c.f.now.Truncate(time.Millisecond)
		}
		return struct{}{}, err
	})
	if err == nil && w.wait > 0 {
		w.wait--
		return &os.PathError{Op: "create", Path: w.path, Err: upstream.ErrReplicating}
	}
	return err
}

func (c *fakeConn) MkdirAll(at string) error {
	_, err := do(c, call{op: "mkdir", path: at}, func() (struct{}, error) { return struct{}{}, c.f.mkdirAll(at) })
	return err
}

func (f *fake) mkdirAll(at string) error {
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

func (c *fakeConn) Rename(from, to string, overwrite bool) error {
	_, err := do(c, call{op: fmt.Sprintf("rename(%v)", overwrite), path: from, to: to}, func() (struct{}, error) {
		return struct{}{}, c.f.rename(from, to, overwrite)
	})
	return err
}

func (f *fake) rename(from, to string, overwrite bool) error {
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

func (c *fakeConn) Remove(at string) error {
	_, err := do(c, call{op: "remove", path: at}, func() (struct{}, error) {
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

func (c *fakeConn) Close() error { return nil }

// files are the paths of all files.
func (f *fake) files() map[string]string {
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
