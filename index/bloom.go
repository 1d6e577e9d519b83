package index

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/internal/bloom"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// BloomOptions are the choices of a Bloom; the zero value is the default.
type BloomOptions struct {
	// CacheBytes bounds what is remembered of footers; 64 MiB by default.
	CacheBytes int64
	// Parallel is how many file groups are looked into at a time; GOMAXPROCS by
	// default.
	Parallel int
	// Memory and TempDir are those of reader.Options, for each of them.
	Memory  int64
	TempDir string
	// ScanLogs looks for keys in the log files of every group: for tables to
	// which writers with another kind of index add rows in logs. Groups without
	// a base file are looked into in any case.
	ScanLogs bool
	// IgnoreRanges asks the filter of every file, whatever its least and
	// greatest key: random ids are in the range of every file.
	IgnoreRanges bool
}

// Bloom finds keys by the key ranges and the Bloom filters in the footers of
// base files, and then by reading the key columns of the file groups that are
// left, base and logs merged. It may be used concurrently.
type Bloom struct {
	o     BloomOptions
	cache *cache
}

// NewBloom makes an index. It knows nothing of a table before it is asked.
func NewBloom(o BloomOptions) *Bloom {
	const defaultCacheBytes = 64 << 20
	if o.CacheBytes <= 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	return &Bloom{o: o, cache: newCache(o.CacheBytes)}
}

// Locate implements Index.
func (b *Bloom) Locate(ctx context.Context, v *table.View, keys []hudi.Key, scope Scope) ([]hudi.Stored, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	if len(partitions) == 0 || v.Last() == "" {
		return make([]hudi.Stored, len(keys)), nil
	}
	if scope == Global {
		return b.locate(ctx, v, partitions, keys)
	}
	return eachPartition(partitions, keys, func(p string, asked []hudi.Key) ([]hudi.Stored, error) {
		return b.locate(ctx, v, []string{p}, asked)
	})
}

// eachPartition looks for the keys of each partition in its own file groups.
func eachPartition(partitions []string, keys []hudi.Key, locate func(partition string, asked []hudi.Key) ([]hudi.Stored, error)) ([]hudi.Stored, error) {
	places := map[string][]int{}
	for i, k := range keys {
		places[k.Partition] = append(places[k.Partition], i)
	}
	out := make([]hudi.Stored, len(keys))
	for _, p := range partitions {
		at := places[p]
		if len(at) == 0 {
			continue
		}
		asked := make([]hudi.Key, len(at))
		for i, place := range at {
			asked[i] = keys[place]
		}
		answers, err := locate(p, asked)
		if err != nil {
			return nil, err
		}
		for i, place := range at {
			out[place] = answers[i]
		}
	}
	return out, nil
}

// locate looks for all keys in all file groups of the partitions.
func (b *Bloom) locate(ctx context.Context, v *table.View, partitions []string, keys []hudi.Key) ([]hudi.Stored, error) {
	q, err := newQuery(ctx, v, keys)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(b.o.Parallel)
	for _, partition := range partitions {
		list, err := v.Slices(ctx, partition)
		if err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		for _, s := range list {
			g.Go(func() error { return b.search(ctx, q, s) })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return q.answers(keys), nil
}

// search looks for the keys in one file group.
func (b *Bloom) search(ctx context.Context, q *query, s hudi.Slice) error {
	keys, err := b.candidates(ctx, q, s)
	if err == nil && keys.Len() > 0 {
		err = q.read(ctx, s, reader.Options{Memory: b.o.Memory, TempDir: b.o.TempDir, Keys: keys})
	}
	if err != nil {
		return fmt.Errorf("look into file group %q of partition %q: %w", s.File, s.Partition, err)
	}
	return nil
}

// candidates are the keys that the group may hold.
func (b *Bloom) candidates(ctx context.Context, q *query, s hudi.Slice) (*basefile.KeySet, error) {
	if s.Base.Name == "" || (b.o.ScanLogs && len(s.Logs) > 0) {
		return q.all(), nil
	}
	f, err := b.cache.get(ctx, q.view, s)
	if err != nil {
		return nil, err
	}
	return basefile.NewKeySet(f.candidates(q.sorted, !b.o.IgnoreRanges)), nil
}

// query is one batch of keys and what was found of them.
type query struct {
	view *table.View
	// target is what is read of a row besides the meta columns.
	target       *hudi.Schema
	rev, deleted int
	// sorted are the distinct record keys in the order of UTF-16 units, place
	// where each is in sorted.
	sorted []bloom.Probe
	place  map[string]int
	// all is the set of all keys, made when the first group needs it.
	all func() *basefile.KeySet

	mu    sync.Mutex
	found []hudi.Stored // by place
}

func newQuery(ctx context.Context, v *table.View, keys []hudi.Key) (*query, error) {
	distinct := make([]string, len(keys))
	for i, k := range keys {
		distinct[i] = k.Record
	}
	slices.SortFunc(distinct, hudi.CompareUTF16)
	distinct = slices.Compact(distinct)
	q := &query{view: v, rev: -1, deleted: -1, sorted: make([]bloom.Probe, len(distinct)), place: make(map[string]int, len(distinct))}
	for i, k := range distinct {
		q.sorted[i], q.place[k] = bloom.NewProbe(k), i
	}
	q.found = make([]hudi.Stored, len(q.sorted))
	q.all = sync.OnceValue(func() *basefile.KeySet { return basefile.NewKeySet(distinct) })
	return q, q.aim(ctx)
}

// aim chooses the columns to read: of other writers' tables those that are there.
func (q *query) aim(ctx context.Context) error {
	s, err := q.view.Schema(ctx)
	if err != nil {
		return err
	}
	var columns []hudi.Column
	for _, name := range []string{hudi.ColumnRev, hudi.ColumnDeleted, q.view.Table().OrderColumn()} {
		if i, ok := s.Lookup(name); ok {
			columns = append(columns, s.Columns()[i])
		}
	}
	if q.target, err = hudi.MakeSchema(s.Name, s.Namespace, columns...); err != nil {
		return err
	}
	if i, ok := q.target.Lookup(hudi.ColumnRev); ok {
		q.rev = i
	}
	if i, ok := q.target.Lookup(hudi.ColumnDeleted); ok {
		q.deleted = i
	}
	return nil
}

// read reads the key columns of a slice and notes the versions of the keys.
func (q *query) read(ctx context.Context, s hudi.Slice, o reader.Options) error {
	o.HardDeletes = true
	for r, err := range reader.Slice(ctx, q.view, s, q.target, o) {
		if err != nil {
			return err
		}
		q.note(q.place[r.Key.Record], q.stored(r, s.Location))
	}
	return nil
}

func (q *query) stored(r *hudi.Record, at hudi.Location) hudi.Stored {
	f := hudi.Stored{Found: !r.Delete, Natural: r.Natural && r.Delete, Location: at, Order: r.Order}
	if q.rev >= 0 {
		f.Rev = strings.Clone(r.Row[q.rev].Text())
	}
	if q.deleted >= 0 && f.Found {
		f.Deleted = r.Row[q.deleted].Boolean()
	}
	return f
}

// note merges one finding of a key with those before it. Groups are searched in
// any order, so that the outcome must not depend on it.
func (q *query) note(i int, f hudi.Stored) {
	q.mu.Lock()
	defer q.mu.Unlock()
	had := q.found[i]
	if newer(&had, &f) {
		had, f = f, had
	}
	had.Others = append(had.Others, f.Others...)
	had.Hidden = append(had.Hidden, f.Hidden...)
	switch {
	case f.Found:
		had.Others = append(had.Others, f.Location)
	case f.File != "":
		had.Hidden = append(had.Hidden, hudi.Hidden{Location: f.Location, Order: f.Order})
	}
	q.found[i] = had
}

// newer says whether b takes the place of a as what is known of a key: a row
// before a hard delete before nothing, then by order, then the row that another
// writer deleted before the delete that a move left, then by place.
func newer(a, b *hudi.Stored) bool {
	if a.Found != b.Found {
		return b.Found
	}
	if a.File == "" || b.File == "" {
		return a.File == ""
	}
	if a.Order != b.Order {
		return b.Order > a.Order
	}
	if a.Natural != b.Natural {
		return b.Natural
	}
	return compare(b.Location, a.Location) < 0
}

func compare(a, b hudi.Location) int {
	if c := strings.Compare(a.Partition, b.Partition); c != 0 {
		return c
	}
	return strings.Compare(string(a.File), string(b.File))
}

func (q *query) answers(keys []hudi.Key) []hudi.Stored {
	for i := range q.found {
		f := &q.found[i]
		// A file may hold a key twice; its place is named once all the same.
		slices.SortFunc(f.Others, compare)
		f.Others = slices.DeleteFunc(slices.Compact(f.Others), func(at hudi.Location) bool { return at == f.Location })
		slices.SortFunc(f.Hidden, func(a, b hudi.Hidden) int { return compare(a.Location, b.Location) })
		f.Hidden = slices.CompactFunc(f.Hidden, func(a, b hudi.Hidden) bool { return a.Location == b.Location })
		f.Hidden = slices.DeleteFunc(f.Hidden, func(h hudi.Hidden) bool { return h.Location == f.Location })
	}
	out := make([]hudi.Stored, len(keys))
	for i, k := range keys {
		out[i] = q.found[q.place[k.Record]]
	}
	return out
}
