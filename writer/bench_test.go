package writer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// BenchmarkWrite writes 20,000 new rows in four partitions, without committing
// them.
func BenchmarkWrite(b *testing.B) {
	const n, partitions = 20_000, 4
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong},
		hudi.Column{Name: "price", Kind: hudi.KindDouble}, hudi.Column{Name: "_doc", Kind: hudi.KindString})
	if err != nil {
		b.Fatal(err)
	}
	rs := make([]hudi.Located, n)
	for i := range rs {
		key := fmt.Sprintf("%08x", uint32(i)*2654435761)
		p := fmt.Sprintf("pt=%d", i%partitions)
		rs[i] = hudi.Located{Record: hudi.Record{Key: hudi.Key{Record: key, Partition: p}, Order: 1,
			Row: hudi.Row{hudi.String(key), hudi.Long(1), hudi.Double(float64(i) / 4), hudi.String(strings.Repeat(key+" ", 40))}},
			Location: hudi.Location{Partition: p}}
	}
	tb, err := table.Create(b.Context(), storage.New(mem.New(nil), nil), table.CreateOptions{Name: "docs", PartitionField: "pt"}, table.Options{})
	if err != nil {
		b.Fatal(err)
	}
	lease, err := tb.Lease(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer lease.Close()
	write := func(ctx context.Context) error {
		x, err := tb.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := writer.Write(ctx, x, s, rs, writer.Options{}); err != nil {
			return err
		}
		return x.Abort(ctx)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := write(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
