package storage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// distant takes its time for each request, of a clock that tests have to themselves.
type distant struct{ *counting }

const latency = 20 * time.Millisecond

func (d distant) wait(ctx context.Context) error {
	select {
	case <-time.After(latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d distant) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	if err := d.wait(ctx); err != nil {
		return 0, err
	}
	return d.counting.ReadAt(ctx, o, p, offset)
}

func (d distant) ReadFirst(ctx context.Context, name string, offset, most int64) ([]byte, storage.Object, error) {
	if err := d.wait(ctx); err != nil {
		return nil, storage.Object{}, err
	}
	return d.counting.ReadFirst(ctx, name, offset, most)
}

// columns reads an object as columns are read: of each of so many stretches a little at
// a time, in turns. It returns how long that took.
func columns(t *testing.T, r *storage.Reader, content []byte, stretches int) time.Duration {
	t.Helper()
	start, each := time.Now(), len(content)/stretches
	for i := range stretches {
		r.Ahead(int64(i*each), int64(each))
	}
	p := make([]byte, 7)
	for at := 0; at < each; at += len(p) {
		for i := range stretches {
			from := i*each + at
			n := min(len(p), each-at)
			if _, err := r.ReadAt(p[:n], int64(from)); err != nil || !bytes.Equal(p[:n], content[from:from+n]) {
				t.Fatalf("%d bytes at %d: %v", n, from, err)
			}
		}
	}
	return time.Since(start)
}

// TestAhead: stretches that are read from beginning to end are asked for before, within
// the bound, and nothing is asked for twice.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		stretches, blocks int
		limit             int64         // blocks
		gain              time.Duration // so many times as fast
	}{{1, 100, 64, 5}, {4, 100, 64, 4}, {16, 160, 64, 4}, {30, 120, 64, 3}, {1, 100, 4, 2}, {4, 100, 8, 1}, {1, 1, 8, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var took [2]time.Duration
			var asked [2]string
			for i, ahead := range []int{0, 8} {
				d, cache := newCounting(), storage.NewCache(c.limit*testBlock)
				b := storage.New(distant{d}, &storage.Options{Cache: cache, Ahead: ahead})
				content := object(t, b, "o", c.blocks*testBlock)
				r := opened(t, b, "o", storage.OpenOptions{})
				took[i] = columns(t, r, content, c.stretches)
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				asked[i] = d.asked()
				if now, most := cache.Bytes(); now != 0 || most > c.limit*testBlock {
					t.Errorf("%+v: %d bytes are held at the end, %d were at most", c, now, most)
				}
			}
			if asked[0] != asked[1] || took[1] > took[0]/c.gain {
				t.Errorf("%+v: %s in %s, ahead %s in %s", c, asked[0], took[0], asked[1], took[1])
			}
		})
	}
}

// TestAheadClosed: a file that is closed while it is asked for waits for that, and what
// fails ahead fails for nobody but the one who comes to it.
func TestAheadClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, cache := newCounting(), storage.NewCache(1000)
		b := storage.New(distant{d}, &storage.Options{Cache: cache, Ahead: 4})
		content := object(t, b, "o", 2000)
		r := opened(t, b, "o", storage.OpenOptions{})
		r.Ahead(0, 1000)
		r.Ahead(1000, 5000)
		r.Ahead(5000, 10)
		r.Ahead(-1, 10)
		d.asked()
		start := time.Now()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if now, _ := cache.Bytes(); now != 0 || time.Since(start) != 0 || d.asked() != "0 stats, 0 reads, 0 bytes" {
			t.Errorf("closed after %s, and %d bytes are held", time.Since(start), now)
		}
		r.Ahead(0, 2000)
		r = opened(t, b, "o", storage.OpenOptions{})
		defer r.Close()
		d.fail.Store(3)
		r.Ahead(100, 1900)
		all, failed := make([]byte, 0, len(content)), 0
		for len(all) < len(content) {
			p := make([]byte, 50)
			n, err := r.ReadAt(p, int64(len(all)))
			if err != nil && !errors.Is(err, io.EOF) {
				if failed++; failed > 3 {
					t.Fatal(err)
				}
				continue
			}
			all = append(all, p[:n]...)
		}
		if !bytes.Equal(all, content) {
			t.Error("other bytes after a failure")
		}
	})
}

// TestAheadOfMany: many files are read ahead at once, by several, within a bound that is
// too small for them.
func TestAheadOfMany(t *testing.T) {
	const limit = 10 * testBlock
	d, cache := newCounting(), storage.NewCache(limit)
	b := storage.New(d, &storage.Options{Cache: cache, Ahead: 6})
	content := object(t, b, "o", 3000)
	var wg sync.WaitGroup
	for seed := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), 2))
			for range 50 {
				r, err := b.OpenKnown(t.Context(), "o", storage.OpenOptions{Size: 3000, End: seed%2 == 0})
				if err != nil {
					t.Error(err)
					return
				}
				from := random.IntN(2900)
				r.Ahead(int64(from), int64(random.IntN(3000)))
				r.Ahead(0, int64(random.IntN(500)))
				for at := from; at < min(from+700, len(content)); {
					p := make([]byte, 1+random.IntN(40))
					n, err := r.ReadAt(p, int64(at))
					if err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(p[:n], content[at:at+n]) {
						t.Errorf("%d bytes at %d: %v", n, at, err)
					}
					at += n
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if now, most := cache.Bytes(); now != 0 || most > limit {
		t.Errorf("%d bytes are held at the end, %d were at most", now, most)
	}
}
