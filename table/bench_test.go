package table_test

import (
	"fmt"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/table"
)

// One commit of one small file in a table that has had many, without the time
// that a disk takes: what the timeline and the view cost.
func BenchmarkCommit(b *testing.B) {
	for _, commits := range []int{10, 1000} {
		b.Run(fmt.Sprintf("after %d", commits), func(b *testing.B) {
			ctx := b.Context()
			tb, err := table.Create(ctx, storage.New(mem.New(nil), nil), table.CreateOptions{Name: "docs", PartitionField: "pt"}, options())
			if err != nil {
				b.Fatal(err)
			}
			l, err := tb.Lease(ctx)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			for i := range commits {
				if _, err := commitBases(ctx, tb, i); err != nil {
					b.Fatal(err)
				}
			}
			v, err := tb.View(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := v.Partitions(ctx); err != nil {
				b.Fatal(err)
			}
			n := commits
			for b.Loop() {
				if _, err := commitBases(ctx, tb, n); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}

// The slices of a partition of many groups, each with logs.
func BenchmarkSlices(b *testing.B) {
	const groups, logs = 1000, 5
	ctx, d := b.Context(), mem.New(nil)
	bucket := storage.New(d, nil)
	tb, err := table.Create(ctx, bucket, table.CreateOptions{Name: "docs", PartitionField: "pt"}, options())
	if err != nil {
		b.Fatal(err)
	}
	const at = hudi.Time("20260101000000000")
	put := func(name string) {
		if _, err := bucket.Put(ctx, name, nil); err != nil {
			b.Fatal(err)
		}
	}
	put(".hoodie/" + string(at) + ".deltacommit")
	put("pt=1/.hoodie_partition_metadata")
	for g := range groups {
		put("pt=1/" + hudi.BaseFileName{File: groupID(g), Token: "0-1-0", Instant: at}.String())
		for l := range logs {
			put("pt=1/" + logName(g, at, l+1))
		}
	}
	v, err := tb.View(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := v.Partitions(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		// A view looking back has no slices yet.
		s, err := v.AsOf(at).Slices(ctx, "pt=1")
		if err != nil || len(s) != groups {
			b.Fatal(len(s), err)
		}
	}
}
