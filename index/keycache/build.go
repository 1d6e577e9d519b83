package keycache

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// build makes the cache from the latest slices of a view: their key columns are
// read, sorted in memory in runs, and the runs given to the store as files.
func (c *Cache) build(ctx context.Context, v *table.View) error {
	if !c.store.fresh {
		reason := c.reason
		if err := c.open(true); err != nil {
			return damaged(err)
		}
		c.reason = reason
	}
	c.store.fresh = false
	b := &building{c: c, view: v, began: c.o.Clock(), state: &state{head: c.want(v.Table()), groups: newGroups(),
		filter: newFilter(c.o.Memory / filterShare), done: map[mark]bool{}, pending: map[mark]bool{}}}
	b.told.Reason = c.reason
	if err := b.run(ctx); err != nil {
		return err
	}
	c.state, c.reason = b.state, noCache
	return nil
}

// building is one run of build.
type building struct {
	c      *Cache
	view   *table.View
	state  *state
	narrow narrow
	began  time.Time

	// mu guards what follows, and the filter.
	mu    sync.Mutex
	told  Building
	files int
}

func (b *building) run(ctx context.Context) error {
	list, err := b.list(ctx)
	if err != nil {
		return err
	}
	b.told.Groups = len(list)
	b.tell()
	jobs := make(chan job)
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(jobs)
		for _, j := range list {
			select {
			case jobs <- j:
			case <-inner.Done():
				return inner.Err()
			}
		}
		return nil
	})
	for range min(b.c.o.Parallel, max(len(list), 1)) {
		g.Go(func() error { return b.work(inner, jobs) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return b.complete(ctx, list)
}

// job is a slice to read, with the group that its entries name.
type job struct {
	slice hudi.Slice
	group *group
}

func (b *building) list(ctx context.Context) (list []job, err error) {
	if b.view.Last() == "" {
		return nil, nil
	}
	if b.narrow, err = narrowOf(ctx, b.view); err != nil {
		return nil, err
	}
	partitions, err := b.view.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		found, err := b.view.Slices(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			g, err := b.state.groups.add(b.c.store, s.Location)
			if err != nil {
				return nil, err
			}
			g.of(s, b.view.Last())
			list = append(list, job{s, g})
		}
	}
	return list, nil
}

// work reads slices until there are none left.
func (b *building) work(ctx context.Context, jobs <-chan job) error {
	const share = 4
	r := run{b: b, limit: int(max(b.c.o.Memory/share/int64(b.c.o.Parallel), 1<<20))}
	for j := range jobs {
		keys, err := r.read(ctx, j)
		if err != nil {
			return fmt.Errorf("read the keys of file group %q of partition %q: %w", j.slice.File, j.slice.Partition, err)
		}
		b.mu.Lock()
		b.told.Done++
		b.told.Keys += keys
		b.tell()
		b.mu.Unlock()
	}
	return r.spill(ctx)
}

func (b *building) tell() {
	b.told.Took = b.c.o.Clock().Sub(b.began)
	if f := b.c.o.Events.Building; f != nil {
		f(b.told)
	}
}

// complete writes what makes the entries count.
func (b *building) complete(ctx context.Context, list []job) error {
	s := b.c.store
	batch := s.db.NewBatch()
	defer batch.Close() //nolint:errcheck // it was committed, or is not to be
	for _, j := range list {
		if err := j.group.save(batch); err != nil {
			return err
		}
		b.state.groups.put(j.group)
	}
	done, pending := marksOf(b.view)
	var errs []error
	for m := range done {
		errs = append(errs, batch.Set(m.key(kindInstant), nil, nil))
	}
	for m := range pending {
		errs = append(errs, batch.Set(m.key(kindPending), nil, nil))
	}
	b.state.done, b.state.pending = done, pending
	head, err := json.Marshal(b.state.head)
	if err != nil {
		return err
	}
	reserved := max(b.state.groups.next, b.state.groups.reserved)
	b.state.groups.reserved = reserved
	errs = append(errs, batch.Set([]byte{kindReserved}, binary.BigEndian.AppendUint32(nil, reserved), nil), batch.Set([]byte{kindHeader}, head, nil))
	if err := errors.Join(errs...); err != nil {
		return damaged(err)
	}
	if err := s.commit(ctx, batch); err != nil {
		return err
	}
	return s.flush(ctx)
}

// run gathers entries of one worker in memory until they are too many.
type run struct {
	b     *building
	limit int
	bytes []byte
	pairs []pair
}

// pair is the place of a key and of its value right behind it.
type pair struct{ at, value, end int }

func (r *run) key(p pair) []byte { return r.bytes[p.at:p.value] }

// read gathers the entries of one slice.
func (r *run) read(ctx context.Context, j job) (keys int64, err error) {
	for v, err := range reader.Versions(ctx, r.b.view, j.slice, r.b.narrow.target, nil, r.b.c.readerOptions()) {
		if err != nil {
			return keys, err
		}
		e := r.b.narrow.entry(v.Record)
		if e.inBase = v.InBase; e.hard || !e.inBase {
			e.instant = j.group.Scanned
		}
		j.group.loosen(&e)
		r.add(v.Key.Record, j.group.id, &e)
		keys++
		if len(r.bytes)+len(r.pairs)*pairBytes < r.limit {
			continue
		}
		if err := r.spill(ctx); err != nil {
			return keys, err
		}
	}
	return keys, nil
}

const pairBytes = 24

func (r *run) add(record string, id uint32, e *entry) {
	p := pair{at: len(r.bytes)}
	r.bytes = appendKey(r.bytes, record, id)
	p.value = len(r.bytes)
	r.bytes = appendEntry(r.bytes, e)
	p.end = len(r.bytes)
	r.pairs = append(r.pairs, p)
}

// spill sorts what was gathered and gives it to the store as one file.
func (r *run) spill(ctx context.Context) error {
	if len(r.pairs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.pairs, func(a, b pair) int { return bytes.Compare(r.key(a), r.key(b)) })
	name, err := r.write()
	if err != nil {
		return damaged(err)
	}
	s := r.b.c.store
	if err := s.alive(); err != nil {
		return err
	}
	if err := s.db.Ingest(ctx, []string{name}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return damaged(err)
	}
	r.bytes, r.pairs = r.bytes[:0], r.pairs[:0]
	return nil
}

func (r *run) write() (string, error) {
	s := r.b.c.store
	r.b.mu.Lock()
	r.b.files++
	name := s.fs.PathJoin(s.dir, fmt.Sprintf("run-%d", r.b.files))
	for _, p := range r.pairs {
		key := r.key(p)
		r.b.state.filter.add(key[:len(key)-idBytes])
	}
	r.b.mu.Unlock()
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), s.options.MakeWriterOptions(0, s.db.TableFormat()))
	for i, p := range r.pairs {
		if r.older(i) {
			continue
		}
		if err := w.Set(r.key(p), r.bytes[p.value:p.end]); err != nil {
			return "", errors.Join(err, w.Close())
		}
	}
	return name, w.Close()
}

// older says that the next pair is of the same key, which a file may hold twice,
// and takes this one's place.
func (r *run) older(i int) bool {
	if i+1 >= len(r.pairs) || !bytes.Equal(r.key(r.pairs[i]), r.key(r.pairs[i+1])) {
		return false
	}
	a, errA := decodeEntry(r.bytes[r.pairs[i].value:r.pairs[i].end])
	b, errB := decodeEntry(r.bytes[r.pairs[i+1].value:r.pairs[i+1].end])
	if errA == nil && errB == nil && (a.order > b.order || b.hard && !a.hard) {
		r.pairs[i+1] = r.pairs[i]
	}
	return true
}

var _ pebble.Logger = (*store)(nil)
