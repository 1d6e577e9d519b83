package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Reader reads one version of one object. It implements io.ReaderAt and
// io.Closer and may be used concurrently. When the object is overwritten
// meanwhile, reads fail with ErrChanged; when it is deleted, with ErrNotExist; but
// for what it holds of that version: see BlockReader.
type Reader struct {
	object Object
	// readAt is Driver.ReadAt with the context given to Open: io.ReaderAt has
	// no place for one.
	readAt func(p []byte, offset int64) (int, error)
	closed atomic.Bool
}

// Open begins to read the object's present version. ctx governs every later
// read of the Reader, since io.ReaderAt cannot take one.
func (b *Bucket) Open(ctx context.Context, name string) (*Reader, error) {
	o, err := b.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	return b.reader(ctx, o), nil
}

func (b *Bucket) reader(ctx context.Context, o Object) *Reader {
	direct := func(p []byte, offset int64) (int, error) {
		n := 0
		err := b.do(ctx, "read", o.Name, func() (_ int64, err error) {
			n, err = b.driver.ReadAt(ctx, o, p, offset)
			if n < len(p) && (err == nil || errors.Is(err, io.EOF)) {
				// The caller asked within the size that Stat gave.
				err = fmt.Errorf("%d bytes at offset %d of %d: %w", n, offset, o.Size, io.ErrUnexpectedEOF)
			}
			if n == len(p) {
				err = nil
			}
			return int64(n), err
		})
		return n, err
	}
	d, ok := b.driver.(BlockReader)
	if !ok || d.BlockBytes() <= 0 {
		return &Reader{object: o, readAt: direct}
	}
	return &Reader{object: o, readAt: (&blocks{direct: direct, size: o.Size, block: d.BlockBytes()}).readAt}
}

// ReadAt implements io.ReaderAt. io.EOF comes bare.
func (r *Reader) ReadAt(p []byte, offset int64) (int, error) {
	if r.closed.Load() {
		return 0, fmt.Errorf("read %q: %w", r.object.Name, os.ErrClosed)
	}
	if offset < 0 {
		return 0, fmt.Errorf("read %q: offset %d is negative", r.object.Name, offset)
	}
	if len(p) == 0 {
		return 0, nil
	}
	rest := r.object.Size - offset
	if rest <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) <= rest {
		return r.readAt(p, offset)
	}
	n, err := r.readAt(p[:rest], offset)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// Size is the object's size in bytes.
func (r *Reader) Size() int64 { return r.object.Size }

// Object describes the version being read.
func (r *Reader) Object() Object { return r.object }

// Close ends the reading; later reads fail with os.ErrClosed.
func (r *Reader) Close() error {
	r.closed.Store(true)
	return nil
}

// ReadAll reads the whole object, of at most limit bytes; ErrTooLarge when it
// has more.
func (b *Bucket) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, _, err := b.ReadVersion(ctx, name, limit)
	return data, err
}

// ReadVersion is ReadAll that also says which version it read, for a later
// PutIfMatch.
func (b *Bucket) ReadVersion(ctx context.Context, name string, limit int64) ([]byte, Object, error) {
	// An object that is overwritten while we read is read again. Whoever
	// overwrites it faster than it can be read is a fault of its own.
	const attempts = 8
	for attempt := 1; ; attempt++ {
		data, o, err := b.readOnce(ctx, name, limit)
		if err == nil || !errors.Is(err, ErrChanged) || attempt == attempts {
			return data, o, err
		}
	}
}

func (b *Bucket) readOnce(ctx context.Context, name string, limit int64) ([]byte, Object, error) {
	o, err := b.Stat(ctx, name)
	if err != nil {
		return nil, Object{}, err
	}
	if o.Size > limit {
		return nil, Object{}, fmt.Errorf("read %q: %w: %d bytes, at most %d", name, ErrTooLarge, o.Size, limit)
	}
	data := make([]byte, o.Size)
	if _, err := b.reader(ctx, o).ReadAt(data, 0); err != nil {
		return nil, Object{}, err
	}
	return data, o, nil
}
