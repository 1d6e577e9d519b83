package keycache_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
)

const benchFiles, benchKeys = 50, 1_000_000

// benchTable is a table of a million keys in 50 base files, and its keys.
func benchTable(b *testing.B) (*history, []string) {
	b.Helper()
	h := newHistory(b, 1)
	keys := make([]string, benchKeys)
	c := h.begin(commitmeta.ActionDeltaCommit)
	for f := range benchFiles {
		records := make([]hudi.Record, 0, benchKeys/benchFiles)
		for i := f; i < benchKeys; i += benchFiles {
			keys[i] = fmt.Sprintf("%016x%016x", h.rand.Uint64(), h.rand.Uint64())
			r := live(keys[i], 1+int64(i%4))
			r.Row[1] = hudi.String(fmt.Sprintf("%d-%016x%016x", r.Order, h.rand.Uint64(), h.rand.Uint64()))
			records = append(records, r)
		}
		h.base(c, hudi.Location{Partition: fmt.Sprintf("pt=%d", f%5), File: hudi.FileID(fmt.Sprintf("g%d-0", f))}, records)
	}
	h.complete(c)
	return h, keys
}

func benchCache(b *testing.B, dir string) *keycache.Cache {
	b.Helper()
	c, err := keycache.Open(b.Context(), keycache.Options{Dir: dir, Memory: 32 << 20})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkBuild builds the cache of a million keys from nothing.
func BenchmarkBuild(b *testing.B) {
	h, keys := benchTable(b)
	v := h.view()
	dir := filepath.Join(b.TempDir(), "keys")
	for b.Loop() {
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
		c := benchCache(b, dir)
		if _, err := c.Locate(b.Context(), v, []hudi.Key{{Record: keys[0]}}, index.Global); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(benchKeys*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	b.ReportMetric(float64(folderBytes(b, dir))/benchKeys, "disk-bytes/key")
}

func folderBytes(b *testing.B, dir string) (n int64) {
	b.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range list {
		i, err := e.Info()
		if err != nil {
			b.Fatal(err)
		}
		n += i.Size()
	}
	return n
}

// BenchmarkLocate asks for 1,000 known keys and 1,000 new ones of a million, and
// opens a closed cache.
func BenchmarkLocate(b *testing.B) {
	h, keys := benchTable(b)
	v := h.view()
	dir := filepath.Join(b.TempDir(), "keys")
	c := benchCache(b, dir)
	r := rand.New(rand.NewPCG(3, 4))
	ask := func(b *testing.B, known bool) {
		b.Helper()
		const asked = 1000
		batch := make([]hudi.Key, asked)
		for i := range batch {
			batch[i].Record = keys[r.IntN(len(keys))]
			if !known {
				batch[i].Record += "new"
			}
		}
		got, err := c.Locate(b.Context(), v, batch, index.Global)
		if err != nil {
			b.Fatal(err)
		}
		for i := range got {
			if got[i].Found != known {
				b.Fatalf("%+v: %+v", batch[i], got[i])
			}
		}
	}
	ask(b, true)
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			ask(b, true)
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			ask(b, false)
		}
	})
	b.Run("reopen", func(b *testing.B) {
		for b.Loop() {
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
			c = benchCache(b, dir)
			ask(b, true)
		}
	})
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}
