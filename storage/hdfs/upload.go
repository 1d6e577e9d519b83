package hdfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Create implements storage.Driver. What is written waits on this machine, in
// memory or in a file, until Commit: the library cannot go on with a file when one
// of its data nodes fails, so the whole file must be there to be written again.
func (d *Driver) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	if _, err := d.path(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &upload{folder: d.spill, store: func(content io.ReaderAt, size int64) (storage.Object, error) {
		return d.store(ctx, name, content, size, cond)
	}}, nil
}

// inMemory is how much of an upload waits in memory, in bytes.
const inMemory = 1 << 20

// upload is what was written so far.
type upload struct {
	store    func(content io.ReaderAt, size int64) (storage.Object, error)
	folder   string
	memory   []byte
	file     *os.File // nil while memory is enough
	size     int64
	finished bool
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) {
	if u.finished {
		return 0, storage.ErrFinished
	}
	if u.file == nil && len(u.memory)+len(p) <= inMemory {
		u.memory = append(u.memory, p...)
		u.size += int64(len(p))
		return len(p), nil
	}
	if err := u.spill(); err != nil {
		return 0, fmt.Errorf("write %d bytes aside: %w", len(p), err)
	}
	n, err := u.file.Write(p)
	u.size += int64(n)
	return n, err
}

// spill goes on in a file, which has no name: it is gone when the process is.
func (u *upload) spill() error {
	if u.file != nil {
		return nil
	}
	f, err := os.CreateTemp(u.folder, "couch2hudi-upload-*")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err := f.Write(u.memory); err != nil {
		return errors.Join(err, f.Close())
	}
	u.file, u.memory = f, nil
	return nil
}

// Commit implements storage.Upload.
func (u *upload) Commit() (storage.Object, error) {
	if u.finished {
		return storage.Object{}, storage.ErrFinished
	}
	var content io.ReaderAt = bytes.NewReader(u.memory)
	if u.file != nil {
		content = u.file
	}
	o, err := u.store(content, u.size)
	return o, errors.Join(err, u.Abort())
}

// Abort implements storage.Upload.
func (u *upload) Abort() error {
	if u.finished {
		return nil
	}
	u.finished, u.memory = true, nil
	if u.file == nil {
		return nil
	}
	return u.file.Close()
}
