package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// Options are the choices of a Bucket; nil or the zero value is the default.
type Options struct {
	// Observe, when set, is called after every operation, on the goroutine
	// that asked for it, or that asked ahead: for metrics and traces. It must be quick.
	Observe func(Event)
	// Cache holds what is read in blocks: one for several Buckets bounds them together.
	// By default each has its own, of 32 MiB.
	Cache *Cache
	// Ahead is how many requests may be under way, in goroutines of their own, for what a
	// Reader of blocks was told that it will be asked for: see Reader.Ahead. 0 is none.
	Ahead int
}

// Event is one finished operation of a Bucket.
type Event struct {
	// Op is the operation, as in errors: stat, read, put, create, write,
	// commit, abort, list, delete, lock, sweep, prune, probe.
	Op string
	// Name is the object's name, or the prefix of a list.
	Name string
	// Bytes were read or written.
	Bytes int64
	// Took is how long it lasted; a list lasts as long as its reader reads.
	Took time.Duration
	// Err is nil, or what the caller got.
	Err error
}

// Bucket is where one table lives: named objects of bytes. It checks names,
// says in every error what was tried on which object, and leaves the rest to
// its Driver. It may be used concurrently.
type Bucket struct {
	driver  Driver
	observe func(Event)
	cache   *Cache
	ahead   int
	locks   []Lock // what its writes are under
}

// New is a Bucket over d. Closing the Bucket closes d.
func New(d Driver, o *Options) *Bucket {
	b := &Bucket{driver: d}
	if o != nil {
		b.observe, b.cache, b.ahead = o.Observe, o.Cache, o.Ahead
	}
	if b.cache == nil {
		b.cache = NewCache(0)
	}
	return b
}

// Stat describes one object; ErrNotExist when there is none.
func (b *Bucket) Stat(ctx context.Context, name string) (Object, error) {
	var o Object
	err := b.do(ctx, "stat", name, func() (_ int64, err error) {
		o, err = b.driver.Stat(ctx, name)
		return 0, err
	})
	return o, err
}

// Exists says whether there is an object of that name.
func (b *Bucket) Exists(ctx context.Context, name string) (bool, error) {
	_, err := b.Stat(ctx, name)
	if errors.Is(err, ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put stores data whole, over whatever had the name; durable on return.
func (b *Bucket) Put(ctx context.Context, name string, data []byte) (Object, error) {
	return b.put(ctx, name, data, Cond{})
}

// PutIfAbsent stores data if nothing has the name, else ErrExist. Of any
// number that race, in any number of processes, exactly one succeeds. When the
// store's answer is lost it is looked for: data that is there was put.
func (b *Bucket) PutIfAbsent(ctx context.Context, name string, data []byte) (Object, error) {
	return b.put(ctx, name, data, Cond{Absent: true})
}

// PutIfMatch stores data if the object still is the version that etag names,
// else ErrChanged.
func (b *Bucket) PutIfMatch(ctx context.Context, name string, data []byte, etag string) (Object, error) {
	if etag == "" {
		// An empty condition would overwrite: never what this caller meant.
		return Object{}, fmt.Errorf("put %q: the ETag to match is empty", name)
	}
	return b.put(ctx, name, data, Cond{ETag: etag})
}

func (b *Bucket) put(ctx context.Context, name string, data []byte, cond Cond) (Object, error) {
	var o Object
	err := b.do(ctx, "put", name, func() (_ int64, err error) {
		err = b.guarded(ctx, func(ctx context.Context) error {
			o, err = b.settled(ctx, name, data, cond)
			return err
		})
		return int64(len(data)), err
	})
	return o, err
}

// settled puts. A conditional put whose answer was lost took effect when the object
// is what was to be put, and what it had to find is there no more: to put it again
// would fail, and the caller would take himself for somebody else.
func (b *Bucket) settled(ctx context.Context, name string, data []byte, cond Cond) (Object, error) {
	o, err := b.driver.Put(ctx, name, data, cond)
	if err == nil || cond == (Cond{}) || isDefinite(err) || ctx.Err() != nil {
		return o, err
	}
	there, o, look := New(b.driver, nil).ReadVersion(ctx, name, int64(len(data)))
	if look == nil && bytes.Equal(there, data) && (cond.ETag == "" || o.ETag != cond.ETag) {
		return o, nil
	}
	return Object{}, err
}

// Create begins an upload of an object too large to hold in memory. Nothing is
// visible before Commit, where cond is checked. ctx governs the whole upload:
// once it is cancelled, writes and Commit fail.
func (b *Bucket) Create(ctx context.Context, name string, cond Cond) (Upload, error) {
	if cond.Absent && cond.ETag != "" {
		return nil, fmt.Errorf("create %q: a condition is either absence or a version, not both", name)
	}
	var up Upload
	lasting, done := b.under(ctx)
	err := b.do(ctx, "create", name, func() (_ int64, err error) {
		if err := b.valid(); err != nil {
			return 0, err
		}
		up, err = b.driver.Create(lasting, name, cond)
		return 0, err
	})
	if err != nil {
		done()
		return nil, err
	}
	do := func(op string, f func() (int64, error)) error {
		return b.do(ctx, op, name, func() (n int64, err error) {
			if err := b.valid(); err != nil || op != "commit" {
				if err == nil {
					n, err = f()
				}
				return n, err
			}
			return n, b.guarded(ctx, func(context.Context) error {
				n, err = f()
				return err
			})
		})
	}
	return &upload{up: up, do: do, done: done, name: name}, nil
}

// List yields the objects whose names begin with prefix, in the byte order of
// names; the empty prefix is all. It ends after the first error.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return b.list(ctx, prefix, false)
}

// ListFolders yields the objects directly under prefix, and the folders there
// as Objects whose Name ends in "/"; a folder is there while it holds objects.
// prefix is empty or, to list a folder, ends in "/".
func (b *Bucket) ListFolders(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return b.list(ctx, prefix, true)
}

// ListUnknown is ListFolders of a folder, in any order, for who remembers most of
// what is there: it yields what known says no to. known is asked once for each
// name as it stands in the folder, a folder's without its "/". Stores that must ask for the size and time of
// each object are spared that.
func (b *Bucket) ListUnknown(ctx context.Context, folder string, known func(name string) bool) iter.Seq2[Object, error] {
	d, ok := b.driver.(UnknownLister)
	if ok {
		return b.listed(ctx, folder, d.ListUnknown(ctx, folder, known))
	}
	return func(yield func(Object, error) bool) {
		for o, err := range b.list(ctx, folder, true) {
			if err == nil && known(strings.TrimSuffix(strings.TrimPrefix(o.Name, folder), "/")) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

func (b *Bucket) list(ctx context.Context, prefix string, folders bool) iter.Seq2[Object, error] {
	return b.listed(ctx, prefix, b.driver.List(ctx, prefix, folders))
}

// listed is a driver's list with what every operation of a Bucket has.
func (b *Bucket) listed(ctx context.Context, prefix string, list iter.Seq2[Object, error]) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		var failed error
		start := b.now()
		defer func() { b.tell("list", prefix, 0, start, failed) }()
		if failed = checkPrefix(prefix); failed != nil {
			yield(Object{}, failed)
			return
		}
		for o, err := range list {
			if err == nil {
				err = ctx.Err()
			}
			if errors.Is(err, io.EOF) {
				err = lostError{err}
			}
			if err != nil {
				failed = fmt.Errorf("list %q: %w", prefix, err)
				yield(Object{}, failed)
				return
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Delete removes one object, durably; ErrNotExist when there is none.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	return b.do(ctx, "delete", name, func() (int64, error) {
		return 0, b.guarded(ctx, func(ctx context.Context) error { return b.driver.Delete(ctx, name) })
	})
}

// DeleteIfExists is Delete for a caller who only wants the object gone.
func (b *Bucket) DeleteIfExists(ctx context.Context, name string) error {
	if err := b.Delete(ctx, name); !errors.Is(err, ErrNotExist) {
		return err
	}
	return nil
}

// Lock takes the exclusive lock of that name until it is closed or the process
// ends; ErrLocked, at once and with what is known of the holder,
// when somebody has it. The name belongs to the lock: put nothing there.
func (b *Bucket) Lock(ctx context.Context, name string) (Lock, error) {
	var held Lock
	err := b.do(ctx, "lock", name, func() (_ int64, err error) {
		held, err = b.driver.Lock(ctx, name)
		return 0, err
	})
	return held, err
}

// Sweep removes what unfinished uploads of dead writers left in hiding and says
// how many. Only for the holder of the lock that keeps all other writers out.
func (b *Bucket) Sweep(ctx context.Context) (int, error) {
	n := 0
	err := b.run("sweep", "", func() (_ int64, err error) {
		return 0, b.guarded(ctx, func(ctx context.Context) error {
			n, err = b.driver.Sweep(ctx)
			return err
		})
	})
	return n, err
}

// Probe tries whether the store minds the conditions of puts, by objects of its own
// below folder, which ends in "/". An ErrUnsafe says which one it ignores. Stores
// that cannot but mind them are not asked.
func (b *Bucket) Probe(ctx context.Context, folder string) error {
	p, ok := b.driver.(Prober)
	if !ok {
		return nil
	}
	return b.run("probe", folder, func() (int64, error) { return 0, p.Probe(ctx, folder) })
}

// Prune removes a folder, whose name ends in "/", and those below it as far as
// they are empty, where the store has folders of its own.
func (b *Bucket) Prune(ctx context.Context, folder string) error {
	p, ok := b.driver.(Pruner)
	if !ok {
		return nil
	}
	return b.run("prune", folder, func() (int64, error) {
		return 0, b.guarded(ctx, func(ctx context.Context) error { return p.Prune(ctx, folder) })
	})
}

// Close closes the driver.
func (b *Bucket) Close() error {
	if err := b.driver.Close(); err != nil {
		return fmt.Errorf("close bucket: %w", err)
	}
	return nil
}

// do is the door through which every operation on one object passes.
func (b *Bucket) do(ctx context.Context, op, name string, f func() (int64, error)) error {
	return b.run(op, name, func() (int64, error) {
		if why := nameDefect(name); why != "" {
			return 0, fmt.Errorf("%w: it %s", ErrName, why)
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f()
	})
}

// run names the operation in f's error and tells the observer.
func (b *Bucket) run(op, name string, f func() (int64, error)) error {
	start := b.now()
	n, err := f()
	if errors.Is(err, io.EOF) {
		err = lostError{err}
	}
	if err != nil {
		err = fmt.Errorf("%s %q: %w", op, abbreviate(name), err)
	}
	b.tell(op, name, n, start, err)
	return err
}

// lostError is an error that is no io.EOF whatever it wraps: the end of a connection must
// not be taken for that of what is read through it.
type lostError struct{ err error }

// Error implements error.
func (e lostError) Error() string { return e.err.Error() }

// Is implements errors.
func (e lostError) Is(target error) bool { return target != io.EOF && errors.Is(e.err, target) }

// As implements errors.
func (e lostError) As(target any) bool { return errors.As(e.err, target) }

// now is the time only when somebody wants to know how long things take.
func (b *Bucket) now() time.Time {
	if b.observe == nil {
		return time.Time{}
	}
	return time.Now()
}

func (b *Bucket) tell(op, name string, n int64, start time.Time, err error) {
	if b.observe != nil {
		b.observe(Event{Op: op, Name: name, Bytes: n, Took: time.Since(start), Err: err})
	}
}
