package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Options are the choices of a Driver; nil or the zero value is the default.
type Options struct {
	// Timeout is how long a request may take, beside a second for each 256 KiB that it
	// carries; 30 s by default.
	Timeout time.Duration
	// Patience is how long a request is tried again that failed by what may pass;
	// 1 min by default.
	Patience time.Duration
	// PartBytes is how large an upload gets before it goes in parts, of that size
	// each; 8 MiB by default, and no less than 5 MiB, S3's least. An upload holds up
	// to two of them.
	PartBytes int
	// Retried, when set, is told of each failure that is tried again, and of the wait
	// before that.
	Retried func(err error, wait time.Duration)
	// Sleep waits between two tries; for tests.
	Sleep func(ctx context.Context, d time.Duration) error
	// Stale is how old an upload in parts is which Sweep removes; 24 h by default:
	// as far as anybody knows its writer lives.
	Stale time.Duration
	// Lease is how Lock's leases stand.
	Lease storage.LeaseOptions
}

// Driver implements storage.Driver over one bucket, or what is below a prefix of it.
// ETags are S3's ETags, Google's generations and Azure's ETags, without quotation
// marks.
type Driver struct {
	store  store
	prefix string
	// refused are the bytes that names must not have.
	refused string
	retry   retry
	part    int
	stale   time.Duration
	leases  *storage.Leases
	closed  sync.Once

	mu sync.Mutex
	// open are the ids of this driver's uploads in parts.
	open map[string]bool
}

var (
	_ storage.Driver       = (*Driver)(nil)
	_ storage.HolderTeller = (*Driver)(nil)
	_ storage.Opener       = (*Driver)(nil)
)

const (
	defaultPart  = 8 << 20
	defaultTries = time.Minute
	// readAtOnce and readers are the size and number of the requests by which a
	// large read goes side by side. They need no memory but the caller's.
	readAtOnce, readers = 8 << 20, 4
	// readBlock is the least that is asked for of an open object: a request takes as
	// long as some hundred KiB.
	readBlock = 512 << 10
)

func newDriver(s store, where, prefix string, o *Options) *Driver {
	if o == nil {
		o = &Options{}
	}
	or := func(d, otherwise time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return otherwise
	}
	const first, longest, timeout, day = 100 * time.Millisecond, 5 * time.Second, 30 * time.Second, 24 * time.Hour
	d := &Driver{store: s, part: o.PartBytes, stale: or(o.Stale, day), open: map[string]bool{},
		retry: retry{where: where, timeout: or(o.Timeout, timeout), patience: or(o.Patience, defaultTries), first: first, longest: longest, sleep: o.Sleep, told: o.Retried}}
	d.retry.explain = d.explain
	if d.part == 0 {
		d.part = defaultPart
	}
	if d.retry.sleep == nil {
		d.retry.sleep = sleep
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		d.prefix = prefix + "/"
	}
	if _, azure := s.(*azureStore); azure {
		d.refused = `\` // a slash to Azure's clients
	}
	d.leases = storage.NewLeases(d, o.Lease)
	return d
}

func (d *Driver) object(o info) storage.Object {
	return storage.Object{Name: strings.TrimPrefix(o.key, d.prefix), Size: o.size, Modified: o.modified, ETag: o.version}
}

// key is a name's key in the bucket.
func (d *Driver) key(name string) (string, error) {
	if strings.ContainsAny(name, d.refused) {
		return "", fmt.Errorf("%w: Azure takes a backslash for a slash", storage.ErrName)
	}
	return d.prefix + name, nil
}

// named gives an error of a read or a deletion the storage package's meaning.
func (d *Driver) named(err error) error {
	if err == nil {
		return nil
	}
	switch d.fault(err) {
	case missing:
		return fmt.Errorf("%w: %w", storage.ErrNotExist, err)
	case refused:
		return fmt.Errorf("%w: %w", storage.ErrChanged, err)
	default:
		return err
	}
}

// Stat implements storage.Driver.
func (d *Driver) Stat(ctx context.Context, name string) (storage.Object, error) {
	key, err := d.key(name)
	if err != nil {
		return storage.Object{}, err
	}
	o, err := d.head(ctx, key)
	if err != nil {
		return storage.Object{}, d.named(err)
	}
	return d.object(o), nil
}

// ReadAt implements storage.Driver. A large read goes in several requests side by
// side.
func (d *Driver) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	if len(p) <= readAtOnce {
		return d.readPart(ctx, o, p, offset)
	}
	if o.ETag == "" {
		// The requests have to meet one version.
		now, err := d.Stat(ctx, o.Name)
		if err != nil {
			return 0, err
		}
		o.ETag = now.ETag
	}
	counts := make([]int, (len(p)+readAtOnce-1)/readAtOnce)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i := range counts {
		g.Go(func() error {
			from := i * readAtOnce
			n, err := d.readPart(ctx, o, p[from:min(from+readAtOnce, len(p))], offset+int64(from))
			counts[i] = n
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	n := 0
	for _, c := range counts {
		n += c
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readPart reads by one request, and goes on by another where it broke off.
func (d *Driver) readPart(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	key, err := d.key(o.Name)
	if err != nil {
		return 0, err
	}
	n, version := 0, o.ETag
	ended := false
	err = d.retry.tries(ctx, func(int) (bool, error) {
		if n > 0 && version == "" {
			return true, fmt.Errorf("the answer broke off after %d bytes: %w", n, io.ErrUnexpectedEOF)
		}
		err := d.retry.once(ctx, len(p)-n, func(ctx context.Context) error {
			got, err := d.store.get(ctx, key, version, offset+int64(n), int64(len(p)-n))
			if err != nil {
				return err
			}
			more, err := got.read(p[n:])
			n += more
			if err == nil && n < len(p) && offset+int64(n) < got.of.size {
				err = fmt.Errorf("the answer has %d bytes, the object more: %w", more, io.ErrUnexpectedEOF)
			}
			return err
		})
		if n == len(p) {
			return true, nil
		}
		ended = err == nil || d.fault(err) == beyond
		return ended || d.fault(err) != passing, err
	})
	if ended {
		return n, io.EOF
	}
	return n, d.named(err)
}

// Put implements storage.Driver, by one request. When its answer is lost it is tried
// again; a try that is refused asks the store whose token the object bears, so that
// a put never takes its own first try for somebody else's.
func (d *Driver) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	key, err := d.key(name)
	if err != nil {
		return storage.Object{}, err
	}
	token := uuid.NewString()
	o, err := d.settle(ctx, key, cond, token, len(data), func(ctx context.Context) (info, error) {
		return d.store.put(ctx, key, data, cond, token)
	})
	if err != nil {
		return storage.Object{}, err
	}
	return d.object(o), nil
}

// List implements storage.Driver, page by page.
func (d *Driver) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		for next := ""; ; {
			var p page
			err := d.safely(ctx, 0, func(ctx context.Context) (err error) {
				p, err = d.store.list(ctx, d.prefix+prefix, folders, next)
				return err
			})
			if err != nil {
				yield(storage.Object{}, err)
				return
			}
			for _, o := range p.objects {
				if o.key == d.prefix || o.key == d.prefix+prefix && strings.HasSuffix(prefix, "/") {
					continue // what some tools put to have an empty folder
				}
				if !yield(d.object(o), nil) {
					return
				}
			}
			if next = p.next; next == "" {
				return
			}
		}
	}
}

// Delete implements storage.Driver.
func (d *Driver) Delete(ctx context.Context, name string) error {
	key, err := d.key(name)
	if err != nil {
		return err
	}
	if d.store.deletesSilently() {
		if _, err := d.head(ctx, key); err != nil {
			return d.named(err)
		}
	}
	doubt := false
	err = d.retry.tries(ctx, func(int) (bool, error) {
		err := d.retry.once(ctx, 0, func(ctx context.Context) error { return d.store.delete(ctx, key) })
		switch {
		case err == nil:
			return true, nil
		case d.fault(err) == passing:
			doubt = true
			return false, err
		case doubt && d.fault(err) == missing:
			return true, nil // the first try's answer was lost
		}
		return true, err
	})
	return d.named(err)
}

// Lock implements storage.Driver by a lease: see storage.Leases.
func (d *Driver) Lock(ctx context.Context, name string) (storage.Lock, error) {
	return d.leases.Lock(ctx, name)
}

// Holder implements storage.HolderTeller.
func (d *Driver) Holder(ctx context.Context, name string) (*storage.LockedError, error) {
	return d.leases.Holder(ctx, name)
}

// Sweep implements storage.Driver: it removes the uploads in parts below the prefix
// that are older than Options.Stale. On Google's and Azure's stores they vanish by
// themselves.
func (d *Driver) Sweep(ctx context.Context) (int, error) {
	alive := func(id string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.open[id]
	}
	n := 0
	err := d.safely(ctx, 0, func(ctx context.Context) error {
		more, err := d.store.sweep(ctx, d.prefix, time.Now().Add(-d.stale), alive)
		n += more
		return err
	})
	return n, err
}

// Close implements storage.Driver.
func (d *Driver) Close() (err error) {
	d.closed.Do(func() { err = d.store.close() })
	return err
}
