//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Lock implements storage.Driver. The file says who holds it, for the error
// message of whoever comes next; the lock itself is the kernel's. It is never
// deleted: somebody may have it open and be about to lock it.
func (d *Driver) Lock(_ context.Context, name string) (storage.Lock, error) {
	path, err := d.path(name)
	if err != nil {
		return nil, err
	}
	const attempts = 10 // others would have to replace the file that often
	for range attempts {
		f, err := d.openIn(filepath.Dir(path), filepath.Base(path), os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = &storage.LockedError{Holder: readHolder(f)}
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if isStillThere(f, path) {
			if err := writeHolder(f); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return &lock{file: f}, nil
		}
		// Somebody deleted or replaced the file between our open and our
		// flock: this lock would keep nobody out.
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("lock %s: the file is replaced again and again", path)
}

// Holder implements storage.HolderTeller. A holder leaves its name only while it
// lives or when it was killed; so the lock is tried, shared and for a moment, in
// these cases alone.
func (d *Driver) Holder(_ context.Context, name string) (*storage.LockedError, error) {
	path, err := d.path(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // which gives the lock back
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return nil, err
	}
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &storage.LockedError{Holder: readHolder(f)}, nil
	}
	return nil, err
}

func isStillThere(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}

// maxHolderBytes bounds what is read of a lock file, which anybody may write.
const maxHolderBytes = 512

func writeHolder(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	line := fmt.Sprintf("held by pid %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(line), 0)
	return err
}

// readHolder is what the holder wrote; it may be about to write it.
func readHolder(f *os.File) string {
	p := make([]byte, maxHolderBytes)
	n, err := f.ReadAt(p, 0)
	line, _, whole := strings.Cut(string(p[:n]), "\n")
	if (err != nil && !errors.Is(err, io.EOF)) || !whole {
		return "held by a process that has not said who it is"
	}
	return strings.ToValidUTF8(line, "?")
}

// lock is held as long as its file is open.
type lock struct{ file *os.File }

// Valid implements storage.Lock: the kernel takes the lock from nobody who lives.
func (l *lock) Valid() error { return nil }

// Confirm implements storage.Lock.
func (l *lock) Confirm(context.Context) error { return nil }

// Held implements storage.Lock.
func (l *lock) Held() context.Context { return context.Background() }

// Doubt implements storage.Lock.
func (l *lock) Doubt() {}

// Lent implements storage.Lock.
func (l *lock) Lent() bool { return false }

// Close implements io.Closer; only the first call does anything.
func (l *lock) Close() error {
	if err := l.file.Truncate(0); errors.Is(err, os.ErrClosed) {
		return nil
	}
	return unlock(l.file)
}
