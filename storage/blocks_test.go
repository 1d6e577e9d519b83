package storage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
)

// blockwise counts reads, the first of which may fail.
type blockwise struct {
	*mem.Driver
	reads, bytes, fail atomic.Int64
}

func (d *blockwise) BlockBytes() int64 { return 100 }

func (d *blockwise) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	if d.fail.Add(-1) >= 0 {
		return 0, errors.New("not now")
	}
	d.reads.Add(1)
	d.bytes.Add(int64(len(p)))
	return d.Driver.ReadAt(ctx, o, p, offset)
}

func TestBlocks(t *testing.T) {
	d := &blockwise{Driver: mem.New(nil)}
	b := storage.New(d, nil)
	content := make([]byte, 2345)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	if _, err := b.Put(t.Context(), "o", content); err != nil {
		t.Fatal(err)
	}
	open := func() *storage.Reader {
		r, err := b.Open(t.Context(), "o")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	d.fail.Store(1)
	if _, err := r.ReadAt(make([]byte, 5), 0); err == nil {
		t.Error("a failed read succeeds")
	}
	all, err := io.ReadAll(&slow{r: io.NewSectionReader(r, 0, r.Size())})
	if err != nil || !bytes.Equal(all, content) || d.reads.Load() != 24 || d.bytes.Load() != 2345 {
		t.Errorf("%d bytes in %d reads of %d bytes: %v", len(all), d.reads.Load(), d.bytes.Load(), err)
	}
	if n, err := r.ReadAt(make([]byte, 300), 7); n != 300 || err != nil || d.reads.Load() != 25 {
		t.Errorf("a large read: %d, %v, %d reads", n, err, d.reads.Load())
	}
	if n, err := r.ReadAt(make([]byte, 50), 2340); n != 5 || !errors.Is(err, io.EOF) {
		t.Errorf("a read over the end: %d, %v", n, err)
	}
	r = open()
	var wg sync.WaitGroup
	for seed := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			for range 500 {
				p := make([]byte, 1+random.IntN(99))
				at := random.IntN(len(content) - len(p))
				if n, err := r.ReadAt(p, int64(at)); n != len(p) || err != nil || !bytes.Equal(p, content[at:at+n]) {
					t.Errorf("%d bytes at %d: %d, %v", len(p), at, n, err)
				}
			}
		})
	}
	wg.Wait()
}

// slow reads little at a time.
type slow struct{ r io.Reader }

func (s *slow) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 7)]) }
