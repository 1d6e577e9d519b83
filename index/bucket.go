package index

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// BucketOptions are the choices of a Bucket; Buckets is needed.
type BucketOptions struct {
	// Buckets is how many file groups a partition may have.
	Buckets int
	// HashField are the key fields that are hashed, with commas between them;
	// the table's own key field by default.
	HashField string
	// Parallel is how many file groups are looked into at a time; GOMAXPROCS by
	// default.
	Parallel int
	// Memory and TempDir are those of reader.Options, for each of them.
	Memory  int64
	TempDir string
}

// Bucket finds keys by their hash: it names the one file group of a partition
// that can hold a key, whose key columns are read, base and logs merged. It
// remembers nothing, and its memory does not grow with the number of buckets.
// It may be used concurrently.
type Bucket struct{ o BucketOptions }

// NewBucket makes an index of o.Buckets buckets.
func NewBucket(o BucketOptions) *Bucket {
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	return &Bucket{o: o}
}

// Locate implements Index. A partition whose file groups are not those of the
// buckets is a hudi.ErrBuckets, whatever the keys.
func (b *Bucket) Locate(ctx context.Context, v *table.View, keys []hudi.Key, scope Scope) ([]hudi.Stored, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if b.o.Buckets < 1 {
		return nil, fmt.Errorf("%w: %d buckets", hudi.ErrBuckets, b.o.Buckets)
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

// locate looks for all keys in their buckets of all the partitions.
func (b *Bucket) locate(ctx context.Context, v *table.View, partitions []string, keys []hudi.Key) ([]hudi.Stored, error) {
	q, err := newQuery(ctx, v, keys)
	if err != nil {
		return nil, err
	}
	wanted := b.sort(v, q)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(b.o.Parallel)
	for _, partition := range partitions {
		groups, err := b.groups(ctx, v, partition)
		if err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		for _, w := range wanted {
			if s := groups[w.bucket]; s != nil {
				g.Go(func() error { return b.search(ctx, q, *s, w.keys) })
			}
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return q.answers(keys), nil
}

func (b *Bucket) groups(ctx context.Context, v *table.View, partition string) (map[int]*hudi.Slice, error) {
	list, err := v.Slices(ctx, partition)
	if err != nil {
		return nil, err
	}
	return hudi.BucketSlices(list, b.o.Buckets)
}

// bucket is that of a key.
func (b *Bucket) bucket(v *table.View, key string) int {
	field := b.o.HashField
	if field == "" {
		field = v.Table().KeyColumn()
	}
	return hudi.BucketBy(key, field, b.o.Buckets)
}

// share are the keys asked for that belong to one bucket.
type share struct {
	bucket int
	keys   *basefile.KeySet
}

// sort gives the keys asked for to their buckets, of which only those that get
// some are named.
func (b *Bucket) sort(v *table.View, q *query) []share {
	byBucket := map[int][]string{}
	for i := range q.sorted {
		key := q.sorted[i].Key()
		n := b.bucket(v, key)
		byBucket[n] = append(byBucket[n], key)
	}
	wanted := make([]share, 0, len(byBucket))
	for n, keys := range byBucket {
		wanted = append(wanted, share{n, basefile.NewKeySet(keys)})
	}
	slices.SortFunc(wanted, func(a, b share) int { return a.bucket - b.bucket })
	return wanted
}

func (b *Bucket) search(ctx context.Context, q *query, s hudi.Slice, keys *basefile.KeySet) error {
	err := q.read(ctx, s, reader.Options{Memory: b.o.Memory, TempDir: b.o.TempDir, Keys: keys})
	if err != nil {
		return fmt.Errorf("look into file group %q of partition %q: %w", s.File, s.Partition, err)
	}
	return nil
}

// verified is how many file groups Verify looks into.
const verified = 64

// Verify says whether a table that somebody else wrote has this number of
// buckets, as far as its files show: each file group is of one of them, none
// are of the same, and the least and greatest keys of some base files are in
// their buckets. A hudi.ErrBuckets says what is not so.
func (b *Bucket) Verify(ctx context.Context, v *table.View) error {
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return err
	}
	left := verified
	for _, partition := range partitions {
		groups, err := b.groups(ctx, v, partition)
		if err != nil {
			return err
		}
		for n, s := range groups {
			if left == 0 || s.Base.Name == "" {
				continue
			}
			left--
			if err := b.verify(ctx, v, n, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bucket) verify(ctx context.Context, v *table.View, bucket int, s *hudi.Slice) error {
	f, err := readFacts(ctx, v, *s)
	if err != nil || f.rows == 0 || f.max == "" {
		return err
	}
	for _, key := range []string{f.min, f.max} {
		if n := b.bucket(v, key); n != bucket {
			return fmt.Errorf("%w: file group %q of partition %q holds the key %q, which is of bucket %d of %d",
				hudi.ErrBuckets, s.File, s.Partition, key, n, b.o.Buckets)
		}
	}
	return nil
}

// Bucketed says whether the file groups of a table look like those of a bucket
// index, and which bucket is the greatest.
func Bucketed(ctx context.Context, v *table.View) (greatest int, bucketed bool, err error) {
	// Random ids have a number as their first eight digits once in 43, one this
	// small once in 10,000.
	const most = 1 << 16
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return 0, false, err
	}
	for _, partition := range partitions {
		list, err := v.Slices(ctx, partition)
		if err != nil {
			return 0, false, err
		}
		for _, s := range list {
			n, ok := hudi.BucketOf(s.File)
			if !ok || n > most {
				return 0, false, nil
			}
			greatest, bucketed = max(greatest, n), true
		}
	}
	return greatest, bucketed, nil
}
