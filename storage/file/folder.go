//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// makeFolder makes dir and whatever is missing above it, and sees to it that
// their entries are on disk. A folder that was there before is synced into its
// parent once all the same: whoever made it may not have come that far yet.
func (d *Driver) makeFolder(dir string) error {
	d.mu.Lock()
	known := d.durable[dir]
	d.mu.Unlock()
	if known {
		return nil
	}
	var err error
	if dir == d.root {
		err = d.makeRoot(dir)
	} else if err = d.makeFolder(filepath.Dir(dir)); err == nil {
		if err = makeOne(dir); err == nil {
			err = d.sync(filepath.Dir(dir))
		}
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.durable) >= maxDurable {
		clear(d.durable)
	}
	d.durable[dir] = true
	return nil
}

// makeRoot makes the root and its ancestors. Ancestors that were there are
// somebody else's, and may not even be readable: they are left alone.
func (d *Driver) makeRoot(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := d.makeRoot(parent); err != nil {
		return err
	}
	if err := makeOne(dir); err != nil {
		return err
	}
	return d.sync(parent)
}

func makeOne(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if fi, statErr := os.Stat(dir); statErr == nil && !fi.IsDir() {
		return fmt.Errorf("make folder %s: an object has that name", dir)
	}
	return nil
}

// forget is for a folder that turned out to be gone.
func (d *Driver) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ; dir != d.root; dir = filepath.Dir(dir) {
		delete(d.durable, dir)
	}
	delete(d.durable, d.root)
}

// sync brings a folder's entries to disk.
func (d *Driver) sync(dir string) error {
	if d.noSync {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// lockFolder takes an flock on the folder itself, shared or exclusive, so that
// no lock file litters the table. Holders are quick; we ask again until ctx ends.
func lockFolder(ctx context.Context, dir string, how int) (release func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		err := flock(f, how|unix.LOCK_NB)
		if err == nil {
			return func() { _ = unlock(f) }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock folder %s: %w", dir, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock folder %s: %w", dir, ctx.Err()), f.Close())
		case <-time.After(wait):
		}
	}
}

// flock is flock(2), asked again when a signal came between.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// unlock lets go and closes. Closing alone is not enough: a child process that
// is between fork and exec has the handle too.
func unlock(f *os.File) error {
	return errors.Join(flock(f, unix.LOCK_UN), f.Close())
}

// openIn opens a file in dir, and makes dir when it is missing.
func (d *Driver) openIn(dir, name string, flag int) (*os.File, error) {
	const attempts = 3 // others may remove dir as fast as we make it
	for attempt := 1; ; attempt++ {
		if err := d.makeFolder(dir); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(filepath.Join(dir, name), flag, 0o644)
		if !errors.Is(err, fs.ErrNotExist) || attempt == attempts {
			return f, err
		}
		d.forget(dir)
	}
}
