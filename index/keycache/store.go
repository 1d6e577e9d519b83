package keycache

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// errStore marks whatever the store says: it is thrown away then and built anew.
var errStore = errors.New("key cache is damaged")

func damaged(err error) error {
	if err == nil || errors.Is(err, errStore) {
		return err
	}
	return fmt.Errorf("%w: %w", errStore, err)
}

// store is the pebble store in its folder. Nothing is logged ahead and nothing is
// synced: what a crash takes is caught up from the table.
type store struct {
	fs   vfs.FS
	dir  string
	db   *pebble.DB
	lock *pebble.Lock
	// session is what stands in the folder's session file while the folder is
	// the one that was opened.
	session []byte
	// broken says that pebble met something from which it does not recover.
	broken atomic.Pointer[error]
	failed chan struct{} // closed when broken is set
	// unflushed counts bytes since the last flush.
	unflushed, flushAt int64
	options            *pebble.Options
	// fresh says that nothing was written yet.
	fresh bool
}

const (
	sessionName = "session"
	filterName  = "filter"
)

// openStore opens what is in the folder, or makes it. fresh empties it first.
func openStore(fsys vfs.FS, dir string, memory int64, fresh bool) (*store, error) {
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of the key cache: %w", err)
	}
	lock, err := pebble.LockDirectory(dir, fsys)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("lock folder of the key cache: %w", err)
		}
		return nil, fmt.Errorf("%w: %q: %w; give each process a state folder of its own", ErrInUse, dir, err)
	}
	s := &store{fs: fsys, dir: dir, lock: lock, failed: make(chan struct{}), session: []byte(rand.Text())}
	if err := s.open(memory, fresh); err != nil {
		return nil, errors.Join(err, s.closeDB(), lock.Close())
	}
	return s, nil
}

func (s *store) open(memory int64, fresh bool) (err error) {
	defer caught(&err)
	if fresh {
		if err := s.empty(); err != nil {
			return err
		}
	}
	const parts = 8
	s.flushAt = max(memory/parts, 1<<20)
	cache := pebble.NewCache(max(memory/parts*2, 1<<20))
	defer cache.Unref()
	s.options = &pebble.Options{FS: &patientFS{FS: s.fs, store: s}, Lock: s.lock, Cache: cache, DisableWAL: true,
		MemTableSize: uint64(s.flushAt), MemTableStopWritesThreshold: 4, MaxOpenFiles: 256,
		FormatMajorVersion: pebble.FormatNewest, Logger: s,
		EventListener: &pebble.EventListener{
			BackgroundError: s.fail,
			DataCorruption:  func(i pebble.DataCorruptionInfo) { s.fail(i.Details) },
		}}
	s.options.EnsureDefaults()
	if s.db, err = pebble.Open(s.dir, s.options); err != nil {
		s.db = nil
		return damaged(err)
	}
	s.fresh = fresh
	return s.mark()
}

// mark puts the session's text into the folder.
func (s *store) mark() error {
	f, err := s.fs.Create(s.fs.PathJoin(s.dir, sessionName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return damaged(err)
	}
	_, err = f.Write(bytes.Clone(s.session)) // a vfs.File may overwrite what it was given
	return damaged(errors.Join(err, f.Close()))
}

// empty removes what is in the folder, but for the lock.
func (s *store) empty() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return damaged(err)
	}
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		if err := s.fs.RemoveAll(s.fs.PathJoin(s.dir, name)); err != nil {
			return damaged(err)
		}
	}
	return nil
}

// alive is the error of a store that broke, or whose folder is gone.
func (s *store) alive() error {
	if err := s.broken.Load(); err != nil {
		return damaged(*err)
	}
	have, err := readFile(s.fs, s.fs.PathJoin(s.dir, sessionName))
	if err == nil && !bytes.Equal(have, s.session) {
		err = errors.New("another session is in the folder")
	}
	return damaged(err)
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// Infof and its sisters make the store pebble's logger. Its fatal errors must
// not end the process: nothing here is worth that.
func (s *store) Infof(string, ...any)  {}
func (s *store) Errorf(string, ...any) {}

// Fatalf notes that the store is broken; pebble then returns the error.
func (s *store) Fatalf(format string, a ...any) { s.fail(fmt.Errorf(format, a...)) }

func (s *store) fail(err error) {
	if err == nil {
		err = errStore
	}
	if s.broken.CompareAndSwap(nil, &err) {
		close(s.failed)
	}
}

// patientFS makes the folder again when somebody removed it under the open store:
// pebble would try to write in vain for ever, and whoever waits for it too. And
// folders that cannot be synced, over which pebble panics, break the store alone.
type patientFS struct {
	vfs.FS
	store *store
}

// Create implements vfs.FS.
func (p *patientFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, c)
	if errors.Is(err, fs.ErrNotExist) && p.MkdirAll(p.store.dir, 0o755) == nil {
		return p.FS.Create(name, c)
	}
	return f, err
}

// OpenDir implements vfs.FS.
func (p *patientFS) OpenDir(name string) (vfs.File, error) {
	f, err := p.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &patientDir{File: f, store: p.store}, nil
}

type patientDir struct {
	vfs.File
	store *store
}

// Sync implements vfs.File.
func (d *patientDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.store.fail(err)
	}
	return nil
}

// commit applies a batch at once, and flushes now and then.
func (s *store) commit(ctx context.Context, b *pebble.Batch) (err error) {
	defer caught(&err)
	if err := s.alive(); err != nil {
		return err
	}
	n := int64(b.Len())
	if err := b.Commit(pebble.NoSync); err != nil {
		return damaged(err)
	}
	if s.unflushed += n; s.unflushed < s.flushAt {
		return nil
	}
	return s.flush(ctx)
}

// flush writes the memtable out and waits for it, unless the store breaks.
func (s *store) flush(ctx context.Context) error {
	s.unflushed = 0
	done, err := s.db.AsyncFlush()
	if err != nil {
		return damaged(err)
	}
	select {
	case <-done:
		return nil
	case <-s.failed:
		return s.alive()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *store) get(key []byte) ([]byte, error) {
	value, c, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(err)
	}
	return bytes.Clone(value), damaged(c.Close())
}

// each calls f with the keys and values of a kind, from a key on, in order. f says
// whether to go on. They are good until it returns.
func (s *store) each(kind byte, from []byte, f func(key, value []byte) (bool, error)) (err error) {
	defer caught(&err)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		return damaged(err)
	}
	for ok := it.SeekGE(from); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return damaged(errors.Join(err, it.Close()))
		}
		more, err := f(it.Key(), value)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !more {
			break
		}
	}
	return damaged(errors.Join(it.Error(), it.Close()))
}

// close lets the folder go. What was not flushed is lost.
func (s *store) close() error {
	return errors.Join(s.closeDB(), s.lock.Close())
}

// caught makes an error of pebble's panics, of which some damage causes one.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errStore, p)
	}
}

// closeDB closes the store alone.
func (s *store) closeDB() (err error) {
	defer caught(&err)
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return damaged(db.Close())
}

// saveFilter keeps a filter for the next opening, with its sum in the store.
func (s *store) saveFilter(f *filter) error {
	name := s.fs.PathJoin(s.dir, filterName)
	w, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return damaged(err)
	}
	sum := sha256.New()
	buffered := bufio.NewWriter(io.MultiWriter(sum, w)) // the sum first: a vfs.File may overwrite what it was given
	err = f.writeTo(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = s.db.Set([]byte{kindFilter}, sum.Sum(nil), pebble.NoSync)
	}
	return damaged(err)
}

// loadFilter takes the kept filter, which is good once; nil when there is none,
// or another than the store's.
func (s *store) loadFilter(budget int64) (*filter, error) {
	want, err := s.get([]byte{kindFilter})
	if err != nil {
		return nil, err
	}
	name := s.fs.PathJoin(s.dir, filterName)
	data, err := readFile(s.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(err)
	}
	if err := s.fs.Remove(name); err != nil {
		return nil, damaged(err)
	}
	if have := sha256.Sum256(data); !bytes.Equal(have[:], want) {
		return nil, nil
	}
	f, err := readFilter(bytes.NewReader(data), budget)
	if err != nil {
		return nil, damaged(err)
	}
	return f, nil
}
