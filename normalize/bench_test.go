package normalize_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// order is a document of about 600 bytes and 12 fields, as in the benchmarks
// of the design.
func order(i int, r *rand.Rand) changes.Change {
	rev := changes.Rev{Generation: int64(1 + r.IntN(20)), Hash: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())}
	id := fmt.Sprintf("order:%08d", i)
	body := fmt.Sprintf(`{"_id":%q,"_rev":%q,"type":"order","createdAt":"2024-%02d-%02dT12:%02d:00.000Z","customer":"customer-%d",`+
		`"email":"someone.%d@example.org","total":%d.%02d,"items":%d,"paid":%t,"currency":"EUR","note":"leave it at the \"back\" door, \u00e9tage %d",`+
		`"address":{"street":"Long Street %d","city":"Springfield","zip":"%05d","country":"FR"},`+
		`"tags":["web","spring","first-order"],"lines":[{"sku":"A-%d","qty":2,"price":9.5},{"sku":"B-%d","qty":1,"price":30.0}],`+
		`"history":"created, confirmed, packed, handed over to the carrier, waiting for the confirmation of delivery"}`,
		id, rev.String(), 1+r.IntN(12), 1+r.IntN(28), r.IntN(60), r.IntN(1000), r.IntN(1000), r.IntN(500), 10+r.IntN(89), r.IntN(9), r.IntN(2) == 0,
		r.IntN(9), r.IntN(200), r.IntN(99999), r.IntN(1000), r.IntN(1000))
	return changes.Change{ID: id, Rev: rev, Leaves: []changes.Rev{rev}, Body: []byte(body)}
}

func orders(n int) changes.Batch {
	r := rand.New(rand.NewPCG(1, 2))
	b := changes.Batch{}
	for i := range n {
		b.Changes = append(b.Changes, order(i, r))
	}
	return b
}

func BenchmarkNormalize(b *testing.B) {
	const rows = 10_000
	batch := orders(rows)
	var bytes int64
	for i := range batch.Changes {
		bytes += int64(len(batch.Changes[i].Body))
	}
	for _, c := range []struct {
		name string
		o    normalize.Options
	}{
		{"plain", normalize.Options{Table: "orders"}},
		{"partitioned", normalize.Options{Table: "orders", PartitionField: "createdAt", PartitionFormat: "yyyyMMdd"}},
	} {
		n, err := normalize.New(c.o)
		if err != nil {
			b.Fatal(err)
		}
		first, err := n.Normalize(batch, nil)
		if err != nil || len(first.Records) != rows {
			b.Fatal(len(first.Rejects), err)
		}
		b.Run(c.name+"/known", func(b *testing.B) {
			b.SetBytes(bytes / rows)
			b.ReportAllocs()
			for done := 0; done < b.N; done += rows {
				if _, err := n.Normalize(batch, first.Schema); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/inferred", func(b *testing.B) {
			b.SetBytes(bytes / rows)
			b.ReportAllocs()
			for done := 0; done < b.N; done += rows {
				if _, err := n.Normalize(batch, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
