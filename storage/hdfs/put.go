package hdfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Put implements storage.Driver.
func (d *Driver) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	return d.store(ctx, name, bytes.NewReader(data), int64(len(data)), cond)
}

// staged is a file in the hidden folder, whole and closed.
type staged struct {
	Info
	path string
}

// maxSweeps is how often a put bears that its hidden file is swept away.
const maxSweeps = 3

// store brings content to a name, under cond.
func (d *Driver) store(ctx context.Context, name string, content io.ReaderAt, size int64, cond storage.Cond) (storage.Object, error) {
	at, err := d.path(name)
	if err != nil {
		return storage.Object{}, err
	}
	for attempt := 1; ; attempt++ {
		s, err := d.stage(ctx, content, size)
		if err != nil {
			return storage.Object{}, fmt.Errorf("write hidden file: %w", explain(err))
		}
		if err = d.show(ctx, s, at, cond); err == nil {
			return describe(name, s.Info), nil
		}
		d.discard(s)
		if !errors.Is(err, errSwept) || attempt == maxSweeps {
			return storage.Object{}, explain(err)
		}
	}
}

// stage writes content to a new hidden file. Each attempt has a file of its own:
// what a failed one has left is not known.
func (d *Driver) stage(ctx context.Context, content io.ReaderAt, size int64) (staged, error) {
	var s staged
	err := d.try(ctx, func(c Cluster, _ bool) error {
		at := path.Join(d.hidden, fmt.Sprintf("%s-%d", d.token, d.serial.Add(1)))
		i, err := d.write(ctx, c, at, content, size)
		if err != nil {
			_ = c.Remove(at) // as far as it came into being; else it is Sweep's
			return err
		}
		s = staged{Info: i, path: at}
		return nil
	})
	return s, err
}

func (d *Driver) write(ctx context.Context, c Cluster, at string, content io.ReaderAt, size int64) (Info, error) {
	w, err := c.Create(at)
	if errors.Is(err, fs.ErrNotExist) {
		if err = c.MkdirAll(d.hidden); err == nil {
			w, err = c.Create(at)
		}
	}
	if err != nil {
		return Info{}, err
	}
	const buffer = 256 << 10
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, &source{section: io.NewSectionReader(content, 0, size), alive: ctx.Err}, make([]byte, min(buffer, size+1)))
	// Closed in any case: the library runs goroutines until then.
	if closeErr := d.closeFile(ctx, w); err == nil {
		err = closeErr
	}
	var i Info
	if err == nil {
		i, err = c.Stat(at)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Info{}, fmt.Errorf("%w: swept away while it was written: %w", errAgain, err)
	case err != nil:
		return Info{}, err
	case i.Size != size:
		return Info{}, fmt.Errorf("%w: the file has %d bytes, %d were written", errAgain, i.Size, size)
	}
	return i, nil
}

// closePatience is how long a file may wait for its data nodes' reports: as long as
// for Hadoop's own client. One that stopped before its report never makes it, and
// the file is written anew.
const closePatience = 12 * time.Second

// closeFile closes a file, and waits until enough data nodes have reported its
// last block.
func (d *Driver) closeFile(ctx context.Context, w io.Closer) error {
	const longest = time.Second
	var waited time.Duration
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		err := w.Close()
		if !hdfs.IsErrReplicating(err) {
			return err
		}
		if waited >= closePatience {
			return fmt.Errorf("%w: the data nodes did not report it within %s: %w", errAgain, closePatience, err)
		}
		if err := d.retry.sleep(ctx, wait); err != nil {
			return err
		}
		waited += wait
	}
}

// source is content that ends when its context does. Errors of it are this
// machine's.
type source struct {
	section io.Reader
	alive   func() error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if err := s.alive(); err != nil {
		return 0, err
	}
	n, err := s.section.Read(p)
	if err != nil && err != io.EOF {
		err = localError{err}
	}
	return n, err
}

// discard removes a hidden file that became no object. What is left is Sweep's.
func (d *Driver) discard(s staged) {
	d.mu.Lock()
	c := d.conn
	d.mu.Unlock()
	if c != nil {
		_ = c.Remove(s.path)
	}
}

// show gives a staged file its name, under cond.
func (d *Driver) show(ctx context.Context, s staged, at string, cond storage.Cond) error {
	if cond.Absent {
		return d.place(ctx, s, at)
	}
	for {
		there, err := d.stat(ctx, at)
		switch {
		case errors.Is(translate(err), storage.ErrNotExist) && cond.ETag == "":
			err = d.place(ctx, s, at)
		case errors.Is(translate(err), storage.ErrNotExist):
			return fmt.Errorf("%w: it is gone", storage.ErrChanged)
		case err != nil:
		case cond.ETag != "" && etag(there) != cond.ETag:
			return storage.ErrChanged
		default:
			err = d.replace(ctx, s, at, there)
		}
		switch {
		case cond.ETag != "":
			return err
		case errors.Is(err, errUnknown):
			return errSwept // overwriting once more does no harm
		case !errors.Is(err, storage.ErrExist) && !errors.Is(err, storage.ErrChanged):
			return err
		}
		// Another was quicker, and is now what there is to overwrite.
	}
}

// place moves a staged file to a path that nothing has, else storage.ErrExist.
// This is put-if-absent.
func (d *Driver) place(ctx context.Context, s staged, to string) error {
	return d.try(ctx, func(c Cluster, again bool) error {
		const attempts = 3 // others may prune the folder as fast as it is made
		for range attempts {
			err := c.Rename(s.path, to, false)
			if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			there, statErr := c.Stat(to)
			switch {
			case statErr == nil && there.Inode == s.Inode:
				return nil // by an attempt whose answer was lost
			case statErr != nil && !errors.Is(translate(statErr), storage.ErrNotExist):
				return statErr
			case errors.Is(err, fs.ErrExist):
				return storage.ErrExist
			}
			_, statErr = c.Stat(s.path)
			switch {
			case errors.Is(statErr, fs.ErrNotExist) && again:
				return fmt.Errorf("%w: the answer to its rename was lost, and the file is not there", errUnknown)
			case errors.Is(statErr, fs.ErrNotExist):
				return errSwept
			case statErr != nil:
				return statErr
			}
			if err := c.MkdirAll(path.Dir(to)); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: its folder is removed again and again", errAgain)
	})
}

// next is where the file lies that follows a version: who moves his there first
// has decided that.
func (d *Driver) next(version Info) string {
	return path.Join(d.hidden, fmt.Sprintf("%s%d", nextPrefix, version.Inode))
}

const nextPrefix = "next-"

// byInode is a path that names a file by its number, wherever it lies.
func byInode(i Info) string { return fmt.Sprintf("/.reserved/.inodes/%d", i.Inode) }

// replace puts a staged file into the place of a version, else storage.ErrChanged.
// This is the If-Match put. A staged file that does not get there is s again.
func (d *Driver) replace(ctx context.Context, s staged, at string, old Info) error {
	claim := staged{Info: s.Info, path: d.next(old)}
	switch err := d.place(ctx, s, claim.path); {
	case errors.Is(err, storage.ErrExist):
		other, err := d.stat(ctx, claim.path)
		if errors.Is(err, fs.ErrNotExist) {
			return storage.ErrChanged // its writer has just finished
		}
		if err == nil {
			err = d.finish(ctx, staged{Info: other, path: claim.path}, at, old)
		}
		if err != nil {
			return err
		}
		return storage.ErrChanged
	case err != nil:
		return err
	}
	err := d.finish(ctx, claim, at, old)
	if errors.Is(err, storage.ErrChanged) {
		back := d.try(ctx, func(c Cluster, _ bool) error { return c.Rename(byInode(s.Info), s.path, false) })
		if back != nil && !errors.Is(back, fs.ErrNotExist) && !errors.Is(back, fs.ErrExist) {
			return back // the claim is Sweep's
		}
	}
	return err
}

// finish moves the claimed successor onto the version that it follows, else
// storage.ErrChanged. Both are called by inode: a path may be another file's by
// the time that a paused writer goes on. In folders with snapshots the inode of a
// replaced file leads to its path; so the path is looked at first, and that is
// enough, since while the claim stands only the claimed file may follow.
func (d *Driver) finish(ctx context.Context, claim staged, at string, old Info) error {
	return d.try(ctx, func(c Cluster, _ bool) error {
		there, err := statFile(c, at)
		switch {
		case err == nil && there.Inode == claim.Inode:
			return nil // another has finished it
		case err == nil && there.Inode == old.Inode:
			err = c.Rename(byInode(claim.Info), byInode(old), true)
		case err == nil || errors.Is(err, fs.ErrNotExist):
			err = fs.ErrNotExist
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// One of the two is not where it was.
		there, err = statFile(c, at)
		if err == nil && there.Inode == claim.Inode {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		mine, err := statFile(c, byInode(claim.Info))
		if err == nil && mine.Inode == claim.Inode {
			return storage.ErrChanged
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// Another has finished it, and it was replaced or deleted since.
		return nil
	})
}
