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
	removed := 0
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.Type().IsRegular() || !isTemp(e.Name()) || strings.Contains(e.Name(), d.token) {
			return nil
		}
		err = os.Remove(path)
		if err == nil {
			removed++
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err != nil {
		return removed, fmt.Errorf("sweep temporary files: %w", err)
	}
	return removed, nil
}
