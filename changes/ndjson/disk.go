package ndjson

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/couch2hudi/couch2hudi/changes"
)

// disk is what the exporter does to its folder, so that tests can fail each step.
type disk interface {
	create(path string) (file, error)
	rename(from, to string) error
	remove(path string) error
	// sync makes the names in a folder durable.
	sync(folder string) error
}

// file is one that is being written.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

type realDisk struct{}

func (realDisk) create(path string) (file, error) {
	const mode = 0o644 // another user's process may carry it away
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
}
func (realDisk) rename(from, to string) error { return os.Rename(from, to) }
func (realDisk) remove(path string) error     { return os.Remove(path) }

func (realDisk) sync(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// put writes a file whole: under another name first, durable before it gets its own.
func put(d disk, folder, name string, data []byte) error {
	temp := filepath.Join(folder, tempName(name))
	f, err := d.create(temp)
	if err != nil {
		return fmt.Errorf("create %s: %w", temp, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = d.remove(temp)
		return fmt.Errorf("write %s: %w", temp, err)
	}
	return publish(d, folder, name)
}

// publish gives a file that is durable under its temporary name its own.
func publish(d disk, folder, name string) error {
	if err := d.rename(filepath.Join(folder, tempName(name)), filepath.Join(folder, name)); err != nil {
		return fmt.Errorf("name %s: %w", filepath.Join(folder, name), err)
	}
	if err := d.sync(folder); err != nil {
		return fmt.Errorf("sync %s: %w", folder, err)
	}
	return nil
}

// tempName is hidden, so that no tool carries it away by a pattern of names.
func tempName(name string) string { return "." + name + ".tmp" }

// lock keeps other exporters out of a folder for the life of the process.
func lock(folder string) (io.Closer, error) {
	const mode = 0o600
	path := filepath.Join(folder, lockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, mode)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: another export writes to %s; stop it, or export to another folder", changes.ErrBusy, folder)
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// readSmall reads a file of at most maxManifest bytes; a larger one is cut off.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// folderExists is an error when a folder is not there.
func folderExists(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: folder %s; make it, or correct the path", changes.ErrNotFound, path)
	case err != nil:
		return fmt.Errorf("look at folder %s: %w", path, err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is no folder", changes.ErrNotFound, path)
	}
	return nil
}
