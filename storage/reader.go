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
// for what is held of that version: see Cache.
type Reader struct {
	object Object
	// readAt is Driver.ReadAt with the context given to Open: io.ReaderAt has
	// no place for one.
	readAt func(p []byte, offset int64) (int, error)
	// blocks are what readAt is of, where the store is read in blocks.
	blocks *blocks
	closed atomic.Bool
}

// OpenOptions are what the one who opens an object knows of it; the zero value is
// nothing.
type OpenOptions struct {
	// Size is how large the object is likely to be, in bytes: no more is asked for at
	// first. When it is not, that costs a request.
	Size int64
	// End says that the reading begins at the object's end, as that of Parquet does. It
	// is of use with a Size.
	End bool
}

// Open begins to read the object's present version. ctx governs every later
// read of the Reader, since io.ReaderAt cannot take one.
func (b *Bucket) Open(ctx context.Context, name string) (*Reader, error) {
	return b.OpenKnown(ctx, name, OpenOptions{})
}

// OpenKnown is Open for who knows something of the object. Where the store can, it
// reads the first block that will be asked for in place of asking for the size.
func (b *Bucket) OpenKnown(ctx context.Context, name string, known OpenOptions) (*Reader, error) {
	if d, ok := b.opener(); ok {
		if r, err := b.openFirst(ctx, d, name, known); r != nil || err != nil {
			return r, err
		}
	}
	o, err := b.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	return b.reader(ctx, o, known.End), nil
}

// opener is the driver, if a first read of it needs nothing asked before.
func (b *Bucket) opener() (Opener, bool) {
	d, ok := b.driver.(Opener)
	return d, ok && d.BlockBytes() > 0
}

// openFirst opens by reading a block; no Reader means that there is no room for one.
func (b *Bucket) openFirst(ctx context.Context, d Opener, name string, known OpenOptions) (*Reader, error) {
	r := b.blockwise(ctx, d.BlockBytes())
	most, offset := r.blocks.block, int64(0)
	if known.Size > 0 {
		r.blocks.fit(known.Size, known.End)
		if known.End {
			offset, _ = r.blocks.bounds(r.blocks.number(known.Size - 1))
		}
		most = min(most, known.Size-offset)
	}
	room := b.cache.reserve(r.blocks, most)
	if room == nil {
		return nil, r.Close()
	}
	defer b.cache.done(room)
	data, o, err := b.readFirst(ctx, d, name, offset, most)
	if err != nil {
		b.cache.forget(room)
		return nil, errors.Join(err, r.Close())
	}
	r.object = o
	r.blocks.fit(o.Size, known.End)
	number := r.blocks.number(offset)
	if start, end := r.blocks.bounds(number); start != offset || end != offset+int64(len(data)) {
		data = nil // it is of another size, and its blocks lie elsewhere
	}
	b.cache.settle(room, number, data)
	return r, nil
}

// readFirst is Opener.ReadFirst with what every operation of a Bucket has.
func (b *Bucket) readFirst(ctx context.Context, d Opener, name string, offset, most int64) (data []byte, o Object, err error) {
	err = b.do(ctx, "read", name, func() (int64, error) {
		data, o, err = d.ReadFirst(ctx, name, offset, most)
		return int64(len(data)), err
	})
	return data, o, err
}

// reader reads a version in blocks, where the store is one for that.
func (b *Bucket) reader(ctx context.Context, o Object, end bool) *Reader {
	if d, ok := b.driver.(BlockReader); ok && d.BlockBytes() > 0 {
		r := b.blockwise(ctx, d.BlockBytes())
		r.object = o
		r.blocks.fit(o.Size, end)
		return r
	}
	r := &Reader{object: o}
	r.readAt = b.direct(ctx, r)
	return r
}

// blockwise is a Reader that reads in blocks, of an object that is still to be told.
func (b *Bucket) blockwise(ctx context.Context, size int64) *Reader {
	r := &Reader{}
	r.blocks = &blocks{direct: b.direct(ctx, r), cache: b.cache, block: size, held: map[int64]*block{}}
	r.readAt = r.blocks.readAt
	if b.ahead > 0 {
		own, cancel := context.WithCancel(ctx)
		r.blocks.ahead.most, r.blocks.ahead.cancel, r.blocks.ahead.direct = b.ahead, cancel, b.direct(own, r)
	}
	return r
}

// direct reads what it is asked for.
func (b *Bucket) direct(ctx context.Context, r *Reader) func(p []byte, offset int64) (int, error) {
	return func(p []byte, offset int64) (int, error) {
		n := 0
		err := b.do(ctx, "read", r.object.Name, func() (_ int64, err error) {
			n, err = b.driver.ReadAt(ctx, r.object, p, offset)
			if n < len(p) && (err == nil || err == io.EOF) { //nolint:errorlint // bare it is the object's end, wrapped a connection's
				// The caller asked within the object's size.
				err = fmt.Errorf("%d bytes at offset %d of %d: %w", n, offset, r.object.Size, io.ErrUnexpectedEOF)
			}
			if n == len(p) {
				err = nil
			}
			return int64(n), err
		})
		return n, err
	}
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
	if !r.closed.Swap(true) && r.blocks != nil {
		r.blocks.cache.leave(r.blocks)
		r.blocks.end()
	}
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
	d, first := b.opener()
	var (
		o    Object
		data []byte
		err  error
	)
	if first {
		data, o, err = b.readFirst(ctx, d, name, 0, max(1, min(d.BlockBytes(), limit)))
	} else {
		o, err = b.Stat(ctx, name)
	}
	if err != nil {
		return nil, Object{}, err
	}
	if o.Size > limit {
		return nil, Object{}, fmt.Errorf("read %q: %w: %d bytes, at most %d", name, ErrTooLarge, o.Size, limit)
	}
	if int64(len(data)) == o.Size {
		return data, o, nil
	}
	whole := make([]byte, o.Size)
	n := copy(whole, data)
	if _, err := b.direct(ctx, &Reader{object: o})(whole[n:], int64(n)); err != nil {
		return nil, Object{}, err
	}
	return whole, o, nil
}
