package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// replaceFile puts what write gives in the place of a file, whole and durable or
// not at all: a temporary file beside it, flushed to disk, takes its name.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	const readable = 0o644 // the temporary file was its owner's alone
	if err := errors.Join(f.Chmod(readable), f.Sync()); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	// From here on the file has its name, and there is nothing to remove.
	if closed := f.Close(); closed != nil {
		return fmt.Errorf("write %q: %w", path, closed)
	}
	return syncFolder(dir)
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush folder: %w", err)
	}
	return nil
}
