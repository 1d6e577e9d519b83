package hdfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Options are the choices of a Driver; nil or the zero value is the default.
type Options struct {
	// Hidden is the folder, relative to the root, of files that are no objects yet;
	// ".~c2h" by default. No reader of the table may look there.
	Hidden string
	// Patience is how long an operation that the file system cannot do now (it
	// restarts, is in safe mode, cannot be reached) is tried again, in waits
	// between attempts; 2 minutes by default.
	Patience time.Duration
	// Retried, when set, is told of each failure that is tried again.
	Retried func(err error, wait time.Duration)
	// Sleep waits between two attempts; for tests.
	Sleep func(context.Context, time.Duration) error
	// Spill is the local folder where uploads of more than a megabyte wait for
	// their end; the system's temporary folder by default.
	Spill string
	// Lease says how long a lock stands that its holder does not renew.
	Lease storage.LeaseOptions
}

const (
	defaultHidden   = ".~c2h"
	defaultPatience = 2 * time.Minute
)

// Driver implements storage.Driver over one folder.
type Driver struct {
	root, hidden string // absolute paths in HDFS
	spill        string
	dial         func(context.Context) (Cluster, error)
	retry        retry
	leases       *storage.Leases
	// token tells this Driver's hidden files from those of dead writers.
	token  string
	serial atomic.Uint64

	mu     sync.Mutex
	conn   Cluster // nil while there is no connection
	closed bool
}

var (
	_ storage.Driver        = (*Driver)(nil)
	_ storage.UnknownLister = (*Driver)(nil)
	_ storage.Pruner        = (*Driver)(nil)
)

// New is a store in the folder root, an absolute path, of the file system that
// dial connects with. It connects when it is first asked for something.
func New(root string, dial func(context.Context) (Cluster, error), o *Options) (*Driver, error) {
	if !path.IsAbs(root) {
		return nil, fmt.Errorf("open HDFS store: the path %q is not absolute", root)
	}
	if o == nil {
		o = &Options{}
	}
	d := &Driver{root: path.Clean(root), spill: o.Spill, dial: dial, token: rand.Text()}
	d.hidden = path.Join(d.root, defaultHidden)
	if o.Hidden != "" {
		d.hidden = path.Join(d.root, o.Hidden)
	}
	d.retry = retry{patience: o.Patience, told: o.Retried, sleep: o.Sleep}
	if d.retry.sleep == nil {
		d.retry.sleep = sleep
	}
	if d.retry.patience == 0 {
		d.retry.patience = defaultPatience
	}
	d.leases = storage.NewLeases(d, o.Lease)
	return d, nil
}

// cluster connects, unless there is a connection.
func (d *Driver) cluster(ctx context.Context) (Cluster, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, os.ErrClosed
	}
	if d.conn == nil {
		c, err := d.dial(ctx)
		if err != nil {
			return nil, err
		}
		d.conn = c
	}
	return d.conn, nil
}

// drop gives up a connection that failed.
func (d *Driver) drop(c Cluster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c != nil && d.conn == c {
		d.conn = nil
		_ = c.Close() // it failed before
	}
}

// Close implements storage.Driver.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.conn
	d.conn, d.closed = nil, true
	if c == nil {
		return nil
	}
	return c.Close()
}

// maxPartBytes is dfs.namenode.fs-limits.max-component-length, as it is by default.
const maxPartBytes = 255

// path is where the object of that name lies.
func (d *Driver) path(name string) (string, error) {
	full := d.root + "/" + name
	if d.root == "/" {
		full = "/" + name
	}
	refuse := func(why string) (string, error) { return "", fmt.Errorf("%w on HDFS: %s", storage.ErrName, why) }
	switch {
	case strings.Contains(name, ":"):
		return refuse(`":" is not allowed there`)
	case !utf8.ValidString(name):
		return refuse("names are UTF-8 there")
	case full == d.hidden || strings.HasPrefix(full, d.hidden+"/"):
		return refuse("it is in the folder of hidden files")
	case full == "/.reserved" || strings.HasPrefix(full, "/.reserved/"):
		return refuse("/.reserved is HDFS's own")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".snapshot" {
			return refuse(".snapshot is HDFS's own")
		}
		if len(part) > maxPartBytes {
			return refuse(fmt.Sprintf("a part has %d bytes, at most %d are allowed", len(part), maxPartBytes))
		}
	}
	return full, nil
}

// Stat implements storage.Driver.
func (d *Driver) Stat(ctx context.Context, name string) (storage.Object, error) {
	at, err := d.path(name)
	if err != nil {
		return storage.Object{}, err
	}
	i, err := d.stat(ctx, at)
	if err != nil {
		return storage.Object{}, translate(err)
	}
	return describe(name, i), nil
}

// stat describes a file; of a folder it says fs.ErrNotExist.
func (d *Driver) stat(ctx context.Context, at string) (Info, error) {
	var i Info
	err := d.try(ctx, func(c Cluster, _ bool) (err error) {
		i, err = statFile(c, at)
		return err
	})
	return i, err
}

func statFile(c Cluster, at string) (Info, error) {
	i, err := c.Stat(at)
	if err == nil && i.Folder {
		err = fs.ErrNotExist
	}
	return i, err
}

// ReadAt implements storage.Driver. The blocks of a file are found by its name,
// after it was looked at: so the name is looked at again afterwards. A version that
// lost its name does not get it back.
func (d *Driver) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	at, err := d.path(o.Name)
	if err != nil {
		return 0, err
	}
	n := 0
	err = d.try(ctx, func(c Cluster, _ bool) (err error) {
		n, err = readOnce(c, at, o.ETag, p, offset)
		return err
	})
	if err != nil {
		return 0, translate(err)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readOnce reads what the file has for p, which is less than p at its end alone.
func readOnce(c Cluster, at, want string, p []byte, offset int64) (int, error) {
	r, err := c.Open(at)
	if err != nil {
		return 0, err
	}
	defer r.Close() //nolint:errcheck // opened for reading: nothing can be lost
	version := etag(r.Info())
	switch {
	case r.Info().Folder:
		return 0, fs.ErrNotExist
	case want != "" && want != version:
		return 0, storage.ErrChanged
	}
	p = p[:max(0, min(int64(len(p)), r.Info().Size-offset))]
	if len(p) == 0 {
		return 0, nil
	}
	n, readErr := r.ReadAt(p, offset)
	now, err := statFile(c, at)
	switch {
	case err != nil:
		return 0, err
	case etag(now) != version && want != "":
		return 0, storage.ErrChanged
	case etag(now) != version:
		return 0, fmt.Errorf("%w: it was replaced while it was read", errAgain)
	case n < len(p):
		return 0, fmt.Errorf("%w: %d bytes of %d at %d: %w", errAgain, n, len(p), offset, readErr)
	}
	return n, nil
}

// Delete implements storage.Driver. The folder stays, see Prune.
func (d *Driver) Delete(ctx context.Context, name string) error {
	at, err := d.path(name)
	if err != nil {
		return err
	}
	return translate(d.try(ctx, func(c Cluster, again bool) error {
		_, err := statFile(c, at) // a folder is not to be removed, even an empty one
		if err == nil {
			err = c.Remove(at)
		}
		if again && errors.Is(err, fs.ErrNotExist) {
			return nil // by an attempt whose answer was lost, or by others since
		}
		return err
	}))
}

// describe is the Object that a file is.
func describe(name string, i Info) storage.Object {
	return storage.Object{Name: name, Size: i.Size, Modified: i.Modified, ETag: etag(i)}
}

// etag names a version. The inode alone tells our versions apart; size and time
// are there for others' appends.
func etag(i Info) string {
	return strconv.FormatUint(i.Inode, 36) + "-" + strconv.FormatInt(i.Size, 36) + "-" + strconv.FormatInt(i.Modified.UnixMilli(), 36)
}

// translate turns errors of the file system into those of storage.
func translate(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return storage.ErrNotExist
	}
	return err
}
