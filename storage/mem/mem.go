// Package mem is a store in memory, for tests: the whole contract of
// storage.Driver except that nothing outlives the process. Several Buckets
// over one Driver stand for several processes with one store.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Options are the choices of a Driver; nil or the zero value is the default.
type Options struct {
	// Now gives modification times; time.Now by default.
	Now func() time.Time
	// Block is how many bytes a read asks for at least, as of object stores; 512 KiB
	// by default. Below 0 a read asks for what is asked, as of files.
	Block int64
}

// Driver implements storage.Driver.
type Driver struct {
	now   func() time.Time
	block int64

	mu      sync.Mutex
	objects map[string]object
	locks   map[string]bool
	version uint64
}

// object is one version; data is never written to after it was stored.
type object struct {
	storage.Object
	data []byte
}

var _ storage.Opener = (*Driver)(nil)

const defaultBlock = 512 << 10

// New is an empty store.
func New(o *Options) *Driver {
	d := &Driver{now: time.Now, block: defaultBlock, objects: map[string]object{}, locks: map[string]bool{}}
	if o != nil && o.Now != nil {
		d.now = o.Now
	}
	if o != nil && o.Block != 0 {
		d.block = max(o.Block, 0)
	}
	return d
}

func (d *Driver) get(name string) (object, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.objects[name]
	return o, ok
}

// Stat implements storage.Driver.
func (d *Driver) Stat(ctx context.Context, name string) (storage.Object, error) {
	o, ok := d.get(name)
	if !ok {
		return storage.Object{}, storage.ErrNotExist
	}
	return o.Object, ctx.Err()
}

// ReadAt implements storage.Driver.
func (d *Driver) ReadAt(ctx context.Context, want storage.Object, p []byte, offset int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	o, ok := d.get(want.Name)
	if !ok {
		return 0, storage.ErrNotExist
	}
	if want.ETag != "" && want.ETag != o.ETag {
		return 0, storage.ErrChanged
	}
	return bytes.NewReader(o.data).ReadAt(p, offset)
}

// BlockBytes implements storage.BlockReader.
func (d *Driver) BlockBytes() int64 { return d.block }

// ReadFirst implements storage.Opener.
func (d *Driver) ReadFirst(ctx context.Context, name string, offset, most int64) ([]byte, storage.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, storage.Object{}, err
	}
	o, ok := d.get(name)
	if !ok {
		return nil, storage.Object{}, storage.ErrNotExist
	}
	offset = min(offset, o.Size)
	data := make([]byte, min(most, o.Size-offset))
	copy(data, o.data[offset:])
	return data, o.Object, nil
}

// Put implements storage.Driver.
func (d *Driver) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	return d.store(ctx, name, bytes.Clone(data), cond)
}

// store makes data, which nobody else may write to, the object's content.
func (d *Driver) store(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	if err := ctx.Err(); err != nil {
		return storage.Object{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old, exists := d.objects[name]
	if cond.Absent && exists {
		return storage.Object{}, storage.ErrExist
	}
	if cond.ETag != "" && old.ETag != cond.ETag {
		return storage.Object{}, storage.ErrChanged
	}
	d.version++
	o := object{data: data, Object: storage.Object{
		Name:     name,
		Size:     int64(len(data)),
		Modified: d.now(),
		ETag:     strconv.FormatUint(d.version, 10),
	}}
	d.objects[name] = o
	return o.Object, nil
}

// Create implements storage.Driver.
func (d *Driver) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &upload{commit: func(data []byte) (storage.Object, error) {
		return d.store(ctx, name, data, cond)
	}}, nil
}

// List implements storage.Driver. It yields what was there when it began.
func (d *Driver) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		d.mu.Lock()
		objects := maps.Clone(d.objects)
		d.mu.Unlock()
		last := ""
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			rest, ok := strings.CutPrefix(name, prefix)
			if !ok {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(storage.Object{}, err)
				return
			}
			o := objects[name].Object
			if part, _, below := strings.Cut(rest, "/"); folders && below {
				o = storage.Object{Name: prefix + part + "/"}
				if o.Name == last {
					continue
				}
				last = o.Name
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Delete implements storage.Driver.
func (d *Driver) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.objects[name]; !ok {
		return storage.ErrNotExist
	}
	delete(d.objects, name)
	return nil
}

// Lock implements storage.Driver. The lock is no object.
func (d *Driver) Lock(ctx context.Context, name string) (storage.Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] {
		return nil, fmt.Errorf("%w: held within this process", storage.ErrLocked)
	}
	d.locks[name] = true
	return &lock{release: sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locks, name)
	})}, nil
}

// Sweep implements storage.Driver: dead writers leave nothing in memory.
func (d *Driver) Sweep(ctx context.Context) (int, error) { return 0, ctx.Err() }

// Close implements storage.Driver and keeps the content.
func (d *Driver) Close() error { return nil }

type lock struct{ release func() }

// Valid implements storage.Lock: nothing but Close lets go.
func (l *lock) Valid() error { return nil }

// Confirm implements storage.Lock.
func (l *lock) Confirm(context.Context) error { return nil }

// Held implements storage.Lock.
func (l *lock) Held() context.Context { return context.Background() }

// Doubt implements storage.Lock.
func (l *lock) Doubt() {}

// Lent implements storage.Lock.
func (l *lock) Lent() bool { return false }

// Close implements io.Closer; only the first call does anything.
func (l *lock) Close() error {
	l.release()
	return nil
}

type upload struct {
	data     []byte
	commit   func([]byte) (storage.Object, error)
	finished bool
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) {
	if u.finished {
		return 0, storage.ErrFinished
	}
	u.data = append(u.data, p...)
	return len(p), nil
}

// Commit implements storage.Upload.
func (u *upload) Commit() (storage.Object, error) {
	if u.finished {
		return storage.Object{}, storage.ErrFinished
	}
	u.finished = true
	return u.commit(u.data)
}

// Abort implements storage.Upload.
func (u *upload) Abort() error {
	u.finished, u.data = true, nil
	return nil
}
