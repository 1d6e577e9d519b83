package index_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
)

// BenchmarkLocate asks a table of 50 base files, 20,000 random keys each, for
// 100,000 keys, of which a tenth is in the table, footers known and not known;
// for as many new keys alone; and for 1,000 keys that are all there.
func BenchmarkLocate(b *testing.B) {
	const files, perFile, asked = 50, 20_000, 100_000
	s := newStore(b)
	r := rand.New(rand.NewPCG(1, 2))
	key := func() string { return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()) }
	var parts []part
	var known []string
	for g := range files {
		p := part{at: at(fmt.Sprintf("pt=%d", g%5), fmt.Sprintf("%d-0", g))}
		for range perFile {
			k := key()
			known = append(known, k)
			p.records = append(p.records, live(k, 1, "1-abcdef"))
		}
		parts = append(parts, p)
	}
	s.commit(parts...)
	fresh := make([]hudi.Key, asked)
	for i := range fresh {
		fresh[i].Record = key()
	}
	mixed := append([]hudi.Key(nil), fresh...)
	for i := range asked / 10 {
		mixed[i*10].Record = known[r.IntN(len(known))]
	}
	v := s.view()
	locate := func(b *testing.B, ix index.Index, keys []hudi.Key) {
		if _, err := ix.Locate(b.Context(), v, keys, index.Global); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			locate(b, index.NewBloom(index.BloomOptions{}), mixed)
		}
		b.ReportMetric(asked*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	})
	warm := index.NewBloom(index.BloomOptions{})
	b.Run("warm", func(b *testing.B) {
		for b.Loop() {
			locate(b, warm, mixed)
		}
		b.ReportMetric(asked*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	})
	thousand := make([]hudi.Key, 1_000)
	for i := range thousand {
		thousand[i].Record = known[r.IntN(len(known))]
	}
	b.Run("thousand", func(b *testing.B) {
		for b.Loop() {
			locate(b, warm, thousand)
		}
	})
	b.Run("new keys", func(b *testing.B) {
		for b.Loop() {
			locate(b, warm, fresh)
		}
		b.ReportMetric(asked*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	})
}
