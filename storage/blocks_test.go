package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
)

const testBlock = 100

// counting counts what is asked for, of which the first may fail.
type counting struct {
	*mem.Driver
	stats, reads, bytes, fail atomic.Int64
}

func newCounting() *counting { return &counting{Driver: mem.New(&mem.Options{Block: testBlock})} }

var errNotNow = errors.New("not now")

func (d *counting) Stat(ctx context.Context, name string) (storage.Object, error) {
	d.stats.Add(1)
	return d.Driver.Stat(ctx, name)
}

func (d *counting) count(n int) error {
	if d.fail.Add(-1) >= 0 {
		return errNotNow
	}
	d.reads.Add(1)
	d.bytes.Add(int64(n))
	return nil
}

func (d *counting) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	if err := d.count(len(p)); err != nil {
		return 0, err
	}
	return d.Driver.ReadAt(ctx, o, p, offset)
}

func (d *counting) ReadFirst(ctx context.Context, name string, offset, most int64) ([]byte, storage.Object, error) {
	data, o, err := d.Driver.ReadFirst(ctx, name, offset, most)
	return data, o, errors.Join(err, d.count(len(data)))
}

// asked says what was asked for since it was last called.
func (d *counting) asked() string {
	return fmt.Sprintf("%d stats, %d reads, %d bytes", d.stats.Swap(0), d.reads.Swap(0), d.bytes.Swap(0))
}

// object is an object of random bytes.
func object(t *testing.T, b *storage.Bucket, name string, size int) []byte {
	t.Helper()
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(content)
	if _, err := b.Put(t.Context(), name, content); err != nil {
		t.Fatal(err)
	}
	return content
}

func opened(t *testing.T, b *storage.Bucket, name string, o storage.OpenOptions) *storage.Reader {
	t.Helper()
	r, err := b.OpenKnown(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBlocks: an object is read once, block by block, however it is opened.
func TestBlocks(t *testing.T) {
	d := newCounting()
	b := storage.New(d, nil)
	const size = 2345
	content := object(t, b, "o", size)
	for _, c := range []struct {
		o    storage.OpenOptions
		want string
	}{
		{storage.OpenOptions{}, "0 stats, 24 reads, 2345 bytes"},
		{storage.OpenOptions{Size: size}, "0 stats, 24 reads, 2345 bytes"},
		{storage.OpenOptions{Size: size, End: true}, "0 stats, 24 reads, 2345 bytes"},
		{storage.OpenOptions{End: true}, "0 stats, 25 reads, 2445 bytes"}, // whose first block lies elsewhere
		{storage.OpenOptions{Size: 2 * size, End: true}, "0 stats, 25 reads, 2345 bytes"},
		{storage.OpenOptions{Size: 50}, "0 stats, 25 reads, 2395 bytes"},
	} {
		r := opened(t, b, "o", c.o)
		if c.o.End && c.o.Size == size { // the end came with the opening, and is a whole block
			before := d.reads.Load()
			if n, err := r.ReadAt(make([]byte, testBlock-1), size-testBlock); n != testBlock-1 || err != nil || d.reads.Load() != before {
				t.Errorf("%+v: the end: %d, %v", c.o, n, err)
			}
		}
		all, err := io.ReadAll(&slow{r: io.NewSectionReader(r, 0, r.Size())})
		if got := d.asked(); err != nil || !bytes.Equal(all, content) || got != c.want {
			t.Errorf("%+v: %d bytes by %s, want %s: %v", c.o, len(all), got, c.want, err)
		}
		if n, err := r.ReadAt(make([]byte, 300), 7); n != 300 || err != nil || d.asked() != "0 stats, 1 reads, 300 bytes" {
			t.Errorf("a large read: %d, %v", n, err)
		}
		if n, err := r.ReadAt(make([]byte, 50), size-5); n != 5 || !errors.Is(err, io.EOF) {
			t.Errorf("a read over the end: %d, %v", n, err)
		}
		d.asked()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBlocksFail: what could not be read is read again, and nothing of it is held.
func TestBlocksFail(t *testing.T) {
	d, cache := newCounting(), storage.NewCache(1000)
	b := storage.New(d, &storage.Options{Cache: cache})
	content := object(t, b, "o", 250)
	d.fail.Store(1)
	if _, err := b.Open(t.Context(), "o"); !errors.Is(err, errNotNow) {
		t.Errorf("open: %v", err)
	}
	r := opened(t, b, "o", storage.OpenOptions{})
	d.fail.Store(1)
	p := make([]byte, 20)
	if _, err := r.ReadAt(p, 190); !errors.Is(err, errNotNow) {
		t.Errorf("read: %v", err)
	}
	if now, _ := cache.Bytes(); now != testBlock {
		t.Errorf("%d bytes are held of a block that failed", now-testBlock)
	}
	if n, err := r.ReadAt(p, 190); n != len(p) || err != nil || !bytes.Equal(p, content[190:210]) {
		t.Errorf("read again: %d, %v", n, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if now, most := cache.Bytes(); now != 0 || most != 250 {
		t.Errorf("closed: %d bytes are held, %d were", now, most)
	}
}

// TestBlocksOfManyFiles: whatever number of files is open and read, by several at once,
// what is held stays within the bound, and what is read is right.
func TestBlocksOfManyFiles(t *testing.T) {
	const files, limit = 300, 1000
	for _, limit := range []int64{limit, testBlock, testBlock - 1} {
		d, cache := newCounting(), storage.NewCache(limit)
		b := storage.New(d, &storage.Options{Cache: cache})
		contents := make([][]byte, files)
		readers := make([]*storage.Reader, files)
		for i := range readers {
			name := fmt.Sprint("o", i)
			contents[i] = object(t, b, name, 1+i*7%1234)
			readers[i] = opened(t, b, name, storage.OpenOptions{Size: int64(len(contents[i])), End: i%2 == 0})
		}
		var wg sync.WaitGroup
		for seed := range 8 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(seed), 1))
				for range 2000 {
					i := random.IntN(files)
					at := random.IntN(len(contents[i]))
					p := make([]byte, 1+random.IntN(min(testBlock-1, len(contents[i])-at)))
					if n, err := readers[i].ReadAt(p, int64(at)); n != len(p) || err != nil || !bytes.Equal(p, contents[i][at:at+n]) {
						t.Errorf("object %d, %d bytes at %d: %d, %v", i, len(p), at, n, err)
					}
				}
			})
		}
		wg.Wait()
		for _, r := range readers {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		if now, most := cache.Bytes(); now != 0 || most > limit || limit >= testBlock && most < limit-testBlock {
			t.Errorf("of %d bytes %d are held at the end, %d were at most", limit, now, most)
		}
	}
}

// TestCacheOfSeveral: two Buckets share a bound, and the blocks that are used stay.
func TestCacheOfSeveral(t *testing.T) {
	cache := storage.NewCache(3 * testBlock)
	d := newCounting()
	one, other := storage.New(d, &storage.Options{Cache: cache}), storage.New(d, &storage.Options{Cache: cache})
	object(t, one, "o", 10*testBlock)
	a, b := opened(t, one, "o", storage.OpenOptions{}), opened(t, other, "o", storage.OpenOptions{})
	p := make([]byte, 10)
	read := func(r *storage.Reader, block int64, want string) {
		t.Helper()
		if _, err := r.ReadAt(p, block*testBlock); err != nil {
			t.Fatal(err)
		}
		if got := d.asked(); got != want {
			t.Errorf("block %d: %s, want %s", block, got, want)
		}
	}
	const nothing, block = "0 stats, 0 reads, 0 bytes", "0 stats, 1 reads, 100 bytes"
	d.asked()
	read(a, 0, nothing)
	read(b, 0, nothing)
	read(b, 1, block)
	read(a, 0, nothing)
	read(b, 2, block) // in the place of the other's first
	read(a, 0, nothing)
	read(b, 1, nothing)
	read(b, 0, block)
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if now, most := cache.Bytes(); now != 0 || most != 3*testBlock {
		t.Errorf("%d bytes are held at the end, %d were at most", now, most)
	}
}

// slow reads little at a time.
type slow struct{ r io.Reader }

func (s *slow) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 7)]) }
