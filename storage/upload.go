package storage

import (
	"errors"
	"fmt"
	"io"
)

// upload keeps an Upload's promises whatever the driver: it ends once, and
// after a failed write it cannot be committed with a hole.
type upload struct {
	up   Upload
	name string
	// do is Bucket.do with the context given to Create.
	do       func(op string, f func() (int64, error)) error
	written  int64
	failed   error
	finished bool
	// done lets go of what the upload's context holds.
	done func()
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) {
	if u.finished {
		return 0, fmt.Errorf("write %q: %w", u.name, ErrFinished)
	}
	if u.failed != nil {
		return 0, u.failed
	}
	n := 0
	u.failed = u.do("write", func() (_ int64, err error) {
		n, err = u.up.Write(p)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		return int64(n), err
	})
	u.written += int64(n)
	return n, u.failed
}

// Commit implements Upload.
func (u *upload) Commit() (Object, error) {
	if u.finished {
		return Object{}, fmt.Errorf("commit %q: %w", u.name, ErrFinished)
	}
	u.finished = true
	defer u.done()
	var o Object
	called := false
	err := u.do("commit", func() (_ int64, err error) {
		if u.failed != nil {
			return 0, fmt.Errorf("an earlier write failed: %w", u.failed)
		}
		called = true
		o, err = u.up.Commit()
		if err == nil && o.Size != u.written {
			err = fmt.Errorf("stored %d bytes of %d written", o.Size, u.written)
		}
		return 0, err
	})
	if err != nil && !called {
		err = errors.Join(err, u.up.Abort())
	}
	return o, err
}

// Abort implements Upload.
func (u *upload) Abort() error {
	if u.finished {
		return nil
	}
	u.finished = true
	defer u.done()
	// Not through do: an upload whose context is cancelled is still cleared away.
	if err := u.up.Abort(); err != nil {
		return fmt.Errorf("abort upload of %q: %w", u.name, err)
	}
	return nil
}
