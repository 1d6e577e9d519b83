//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Prune implements storage.Pruner. That the folders are gone is not made
// durable: one that comes back is empty.
func (d *Driver) Prune(ctx context.Context, folder string) error {
	path, err := d.path(strings.TrimSuffix(folder, "/"))
	if err != nil {
		return err
	}
	return d.prune(ctx, path)
}

func (d *Driver) prune(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return translate(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := d.prune(ctx, filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	d.mu.Lock()
	delete(d.durable, path)
	d.mu.Unlock()
	err = unix.Rmdir(path)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return translate(&fs.PathError{Op: "rmdir", Path: path, Err: err})
	}
	return nil
}
