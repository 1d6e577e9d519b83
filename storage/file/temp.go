//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempPrefix marks our temporary files. The dot hides them from Hadoop's
// readers, and List leaves them out.
const tempPrefix = ".~c2h-"

// newToken is what no other Driver, in no other process, has.
func newToken() string { return rand.Text() }

// tempName is a new name; the process is in it for whoever wonders.
func (d *Driver) tempName() string {
	return fmt.Sprintf("%s%d-%s-%d.tmp", tempPrefix, os.Getpid(), d.token, d.serial.Add(1))
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// Sweep implements storage.Driver: it walks the whole tree and removes the
// temporary files that are not this Driver's own.
func (d *Driver) Sweep(ctx context.Context) (int, error) {
	removed, err := d.sweep(ctx, d.root)
	if err != nil {
		return removed, fmt.Errorf("sweep temporary files: %w", err)
	}
	return removed, nil
}

// sweep does not follow symbolic links: what lies there may be another's.
func (d *Driver) sweep(ctx context.Context, dir string) (removed int, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			n, err := d.sweep(ctx, path)
			removed += n
			if err != nil {
				return removed, err
			}
		case e.Type().IsRegular() && isTemp(e.Name()) && !strings.Contains(e.Name(), d.token):
			err := os.Remove(path)
			if err == nil {
				removed++
			} else if !errors.Is(err, fs.ErrNotExist) {
				return removed, err
			}
		}
	}
	return removed, nil
}
