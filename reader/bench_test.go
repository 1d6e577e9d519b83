package reader_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// BenchmarkSlice merges a base file of 50,000 rows with two logs that update
// half of them, with all log rows in memory and with all of them on disk.
func BenchmarkSlice(b *testing.B) {
	const n = 50_000
	f := newFixture(b)
	row := func(i int, order int64) hudi.Record {
		return put(fmt.Sprintf("key-%08d", i), order, strings.Repeat("payload ", 40))
	}
	var base, one, two []hudi.Record
	for i := range n {
		base = append(base, row(i, 1))
		if i%4 == 0 {
			one = append(one, row(i, 2))
		}
		if i%4 == 1 {
			two = append(two, row(i, 3))
		}
	}
	t1 := f.commit(baseOf("pt=a", "g-0", base...))
	f.commit(logOf("pt=a", "g-0", t1, 1, one...))
	f.commit(logOf("pt=a", "g-0", t1, 2, two...))
	v := f.view()
	list, err := v.Slices(b.Context(), "pt=a")
	if err != nil {
		b.Fatal(err)
	}
	for name, o := range map[string]reader.Options{"memory": {}, "disk": {Memory: 1 << 20, TempDir: b.TempDir()}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rows := 0
				for _, err := range reader.Slice(b.Context(), v, list[0], f.schema, o) {
					if err != nil {
						b.Fatal(err)
					}
					rows++
				}
				if rows != n {
					b.Fatal(rows)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
