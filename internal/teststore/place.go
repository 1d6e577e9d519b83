//go:build stores

package teststore

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// place is where the objects of one store are, however many processes open it.
type place struct {
	tb   testing.TB
	open opener
	now  func() time.Time

	locking sync.Mutex // held while a lock is taken, and counted
	mu      sync.Mutex // guards what follows
	// stamps are the times of objects, where they are the test's and not the store's.
	stamps map[string]stamp
	// living counts the locks of a name that were not let go.
	living map[string]int
}

type stamp struct {
	etag string
	at   time.Time
}

// process is the store as one more process has it.
func (p *place) process() *process {
	p.tb.Helper()
	d, err := p.open(context.Background()) // it outlives the test's own, which ends before the clean-up
	if err != nil {
		p.tb.Fatal(err)
	}
	p.tb.Cleanup(func() { _ = d.Close() })
	return &process{Before: storagetest.Before{Driver: d}, place: p}
}

// put notes the time of an object that was put.
func (p *place) put(o storage.Object) storage.Object {
	if p.now == nil {
		return o
	}
	at := p.now() // outside of the mutex: it is the test's
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stamps[o.Name] = stamp{o.ETag, at}
	o.Modified = at
	return o
}

// seen has the object's time as it was noted.
func (p *place) seen(o storage.Object) storage.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.stamps[o.Name]; ok && s.etag == o.ETag {
		o.Modified = s.at
	}
	return o
}

func (p *place) count(name string, by int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.living[name] += by
	return p.living[name]
}

// process is a driver that a test can use as it uses one in memory: Close keeps it
// open, times may be the test's, and the lease of a dead process is to be had at once.
type process struct {
	storagetest.Before
	place *place
}

var _ storagetest.Another = (*process)(nil)

// Another implements storagetest.Another.
func (d *process) Another() storage.Driver { return d.place.process() }

// Close implements storage.Driver; the test's end closes.
func (d *process) Close() error { return nil }

// Stat implements storage.Driver.
func (d *process) Stat(ctx context.Context, name string) (storage.Object, error) {
	o, err := d.Driver.Stat(ctx, name)
	return d.place.seen(o), err
}

// ReadFirst implements storage.Opener.
func (d *process) ReadFirst(ctx context.Context, name string, offset, most int64) ([]byte, storage.Object, error) {
	data, o, err := d.Before.ReadFirst(ctx, name, offset, most)
	return data, d.place.seen(o), err
}

// Put implements storage.Driver.
func (d *process) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	o, err := d.Driver.Put(ctx, name, data, cond)
	if err != nil {
		return o, err
	}
	return d.place.put(o), nil
}

// Create implements storage.Driver.
func (d *process) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	up, err := d.Driver.Create(ctx, name, cond)
	if err != nil {
		return nil, err
	}
	return &upload{up, d.place}, nil
}

type upload struct {
	storage.Upload
	place *place
}

// Commit implements storage.Upload.
func (u *upload) Commit() (storage.Object, error) {
	o, err := u.Upload.Commit()
	if err != nil {
		return o, err
	}
	return u.place.put(o), nil
}

// List implements storage.Driver.
func (d *process) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	return d.place.stamped(d.Driver.List(ctx, prefix, folders))
}

// ListUnknown implements storage.UnknownLister.
func (d *process) ListUnknown(ctx context.Context, folder string, known func(name string) bool) iter.Seq2[storage.Object, error] {
	return d.place.stamped(d.Before.ListUnknown(ctx, folder, known))
}

func (p *place) stamped(list iter.Seq2[storage.Object, error]) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		for o, err := range list {
			if !yield(p.seen(o), err) {
				return
			}
		}
	}
}

// Lock implements storage.Driver. A lease that stands although all who had it have
// ended (they had a doubt, so that it has to run out) is taken by one whose clock
// runs ahead: nobody waits for it.
func (d *process) Lock(ctx context.Context, name string) (storage.Lock, error) {
	d.place.locking.Lock()
	defer d.place.locking.Unlock()
	held, err := d.Driver.Lock(ctx, name)
	if errors.Is(err, storage.ErrLocked) && d.place.count(name, 0) == 0 {
		var ahead atomic.Int64
		leases := storage.NewLeases(d.Driver, storage.LeaseOptions{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		if held, err = leases.Lock(ctx, name); errors.Is(err, storage.ErrLocked) {
			ahead.Store(int64(2 * storage.DefaultValidity))
			held, err = leases.Lock(ctx, name)
		}
	}
	if err != nil {
		return nil, err
	}
	d.place.count(name, 1)
	return &lock{Lock: held, ended: sync.OnceFunc(func() { d.place.count(name, -1) })}, nil
}

type lock struct {
	storage.Lock
	ended func()
}

// Close implements io.Closer.
func (l *lock) Close() error {
	defer l.ended()
	return l.Lock.Close()
}
