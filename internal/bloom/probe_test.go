package bloom_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/bloom"
)

// TestProbeAgreesWithContains asks filters of all kinds for keys of all lengths.
func TestProbeAgreesWithContains(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var keys []string
	for n := range 400 {
		keys = append(keys, strings.Repeat("é", n)+strconv.FormatUint(uint64(r.Uint32()), 10))
	}
	filters := []*bloom.Filter{bloom.NewSimple(200, bloom.Rate), bloom.NewSimple(50, 0.3), bloom.NewDynamic(20, bloom.Rate, 100), bloom.NewSimple(1, 0.9)}
	for _, f := range filters {
		for _, key := range keys[:200] {
			f.Add(key)
		}
	}
	var b bloom.Builder
	for _, key := range keys[:200] {
		b.Add(key)
	}
	filters = append(filters, b.Filter(bloom.Rate))
	for i, f := range filters {
		for j, key := range append(keys, "") {
			p := bloom.NewProbe(key)
			if p.Key() != key || f.MayContain(&p) != f.Contains(key) {
				t.Fatalf("filter %d, key %q: %v", i, key, f.Contains(key))
			}
			if j < 200 && !f.MayContain(&p) {
				t.Fatalf("filter %d lost %q", i, key)
			}
		}
	}
}

func BenchmarkProbe(b *testing.B) {
	f := bloom.NewSimple(2000, bloom.Rate)
	for i := range 2000 {
		f.Add(fmt.Sprint("key", i))
	}
	probes := make([]bloom.Probe, 4096)
	for i := range probes {
		probes[i] = bloom.NewProbe(fmt.Sprintf("%032x", i))
	}
	for i := 0; b.Loop(); i++ {
		f.MayContain(&probes[i%len(probes)])
	}
}
