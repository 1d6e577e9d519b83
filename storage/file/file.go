//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Options are the choices of a Driver; nil or the zero value is the default.
type Options struct {
	// NoSync leaves out every fsync: for tests and demonstrations. What was
	// called durable may be lost, or be torn, when the machine dies.
	NoSync bool
	// Now gives modification times, for simulations; time.Now by default. It must
	// never give the same time twice: versions of a file are told apart by it.
	Now func() time.Time
}

// Driver implements storage.Driver over one folder.
type Driver struct {
	root   string
	noSync bool
	now    func() time.Time
	// token tells this Driver's temporary files from those of dead writers.
	token  string
	serial atomic.Uint64

	mu sync.Mutex
	// durable holds folders whose entries in their parents, up to the root,
	// are known to be on disk. At most maxDurable.
	durable map[string]bool
}

// maxDurable bounds Driver.durable; a folder that was forgotten costs an fsync.
const maxDurable = 1 << 14

var (
	_ storage.Driver        = (*Driver)(nil)
	_ storage.UnknownLister = (*Driver)(nil)
)

// New is a store in the folder root, which comes into being with the first
// object. Something else than a folder at root is an error.
func New(root string, o *Options) (*Driver, error) {
	if root == "" {
		return nil, errors.New("open file store: the folder has no name")
	}
	full, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open file store %q: %w", root, err)
	}
	switch fi, err := os.Stat(full); {
	case err == nil && !fi.IsDir():
		return nil, fmt.Errorf("open file store %q: not a folder", full)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open file store: %w", err)
	}
	d := &Driver{root: full, token: newToken(), durable: map[string]bool{}, now: time.Now}
	if o != nil {
		d.noSync = o.NoSync
		if o.Now != nil {
			d.now = o.Now
		}
	}
	return d, nil
}

// Close implements storage.Driver. Nothing is held open between operations.
func (d *Driver) Close() error { return nil }

// maxPartBytes is NAME_MAX of every file system we know of.
const maxPartBytes = 255

// path is where the object of that name lies. Names of our temporary files are
// refused, so that no object can be taken for one.
func (d *Driver) path(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if isTemp(part) {
			return "", fmt.Errorf("%w: parts that begin with %q are for temporary files", storage.ErrName, tempPrefix)
		}
		if len(part) > maxPartBytes {
			return "", fmt.Errorf("%w: a part has %d bytes, and files at most %d", storage.ErrName, len(part), maxPartBytes)
		}
	}
	return filepath.Join(d.root, name), nil
}

// Stat implements storage.Driver.
func (d *Driver) Stat(_ context.Context, name string) (storage.Object, error) {
	path, err := d.path(name)
	if err != nil {
		return storage.Object{}, err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return storage.Object{}, translate(err)
	}
	return describe(name, fi)
}

// ReadAt implements storage.Driver. The file is opened for every read: a
// version is checked and read through one handle, and none stays open.
func (d *Driver) ReadAt(_ context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	path, err := d.path(o.Name)
	if err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, translate(err)
	}
	defer f.Close() //nolint:errcheck // opened for reading: nothing can be lost
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	now, err := describe(o.Name, fi)
	if err != nil {
		return 0, err
	}
	if o.ETag != "" && o.ETag != now.ETag {
		return 0, storage.ErrChanged
	}
	return f.ReadAt(p, offset)
}

// Delete implements storage.Driver. The folder stays, even when it is empty:
// a writer may be about to put something there.
func (d *Driver) Delete(ctx context.Context, name string) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	release, err := lockFolder(ctx, dir, unix.LOCK_SH)
	if err != nil {
		return translate(err)
	}
	defer release()
	fi, err := os.Stat(path)
	if err == nil {
		_, err = describe(name, fi)
	}
	if err != nil {
		return translate(err)
	}
	dropChecksum(path)
	// Not os.Remove, which would take an empty folder too.
	if err := unix.Unlink(path); err != nil {
		return translate(&fs.PathError{Op: "unlink", Path: path, Err: err})
	}
	return d.sync(dir)
}

// describe is the Object that a file is; anything but a regular file is none.
func describe(name string, fi fs.FileInfo) (storage.Object, error) {
	if !fi.Mode().IsRegular() {
		return storage.Object{}, storage.ErrNotExist
	}
	return storage.Object{Name: name, Size: fi.Size(), Modified: fi.ModTime(), ETag: etag(fi)}, nil
}

// etag names a version by inode, size and modification time. The time is set
// by us to the nanosecond before a file becomes visible (see upload.seal): the
// kernel's own stamps are too coarse to tell two quick overwrites apart that
// happen to get the same inode.
func etag(fi fs.FileInfo) string {
	inode := uint64(0)
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	return strconv.FormatUint(inode, 36) + "-" + strconv.FormatInt(fi.Size(), 36) + "-" +
		strconv.FormatInt(fi.ModTime().UnixNano(), 36)
}

// translate turns errors of the system into those of storage.
func translate(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) {
		return storage.ErrNotExist
	}
	return err
}
