package basefile_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
)

// benchSchema and benchRecords are a table as documents of 600 bytes make it:
// the envelope and ten fields.
func benchSchema(t testing.TB) *hudi.Schema {
	t.Helper()
	columns := []hudi.Column{{Name: "_id", Kind: hudi.KindString}, {Name: "_rev", Kind: hudi.KindString}, {Name: "_rev_order", Kind: hudi.KindLong},
		{Name: "_op", Kind: hudi.KindString}, {Name: "_deleted", Kind: hudi.KindBoolean}, {Name: "_leaves", Kind: hudi.KindString},
		{Name: "_attachments", Kind: hudi.KindString}, {Name: "_rescued", Kind: hudi.KindString}, {Name: "_doc", Kind: hudi.KindString}}
	for i := range 5 {
		columns = append(columns, hudi.Column{Name: fmt.Sprint("s", i), Kind: hudi.KindString})
	}
	for i := range 3 {
		columns = append(columns, hudi.Column{Name: fmt.Sprint("l", i), Kind: hudi.KindLong})
	}
	columns = append(columns, hudi.Column{Name: "d", Kind: hudi.KindDouble}, hudi.Column{Name: "b", Kind: hudi.KindBoolean})
	s, err := hudi.NewSchema("docs", columns...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func benchRecords(n int) []hudi.Record {
	words := strings.Fields("open paid sent returned customer asked for a refund because the parcel came late and the box was broken again today")
	r := rand.New(rand.NewPCG(1, 1))
	rs := make([]hudi.Record, n)
	for i := range rs {
		id := fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
		doc := fmt.Appendf(nil, `{"_id":%q,"_rev":"3-%s","type":"order","status":"%s","total":%d,"note":"`, id, id, words[r.IntN(len(words))], r.IntN(10000))
		for len(doc) < 598 {
			doc = append(append(doc, words[r.IntN(len(words))]...), ' ')
		}
		doc = append(doc, `"}`...)
		row := hudi.Row{hudi.String(id), hudi.String("3-" + id), hudi.Long(3), hudi.String("u"), hudi.Boolean(false), {}, {}, {}, hudi.StringOf(doc)}
		for j := range 5 {
			row = append(row, hudi.StringOf(doc[j*20:j*20+20]))
		}
		for range 3 {
			row = append(row, hudi.Long(r.Int64()))
		}
		rs[i] = hudi.Record{Key: hudi.Key{Record: id, Partition: "pt=20240105"}, Order: 3,
			Row: append(row, hudi.Double(r.Float64()), hudi.Boolean(true))}
	}
	return rs
}

// BenchmarkAppend is the cost of a row written.
func BenchmarkAppend(b *testing.B) {
	rs := benchRecords(1000)
	w, err := basefile.NewWriter(io.Discard, benchSchema(b), options())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := w.Append(&rs[i%len(rs)]); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRecords is the cost of a row read, all columns.
func BenchmarkRecords(b *testing.B) { benchmarkRecords(b, benchSchema(b)) }

// BenchmarkRecordsKeys is the cost of a row read, two columns wanted.
func BenchmarkRecordsKeys(b *testing.B) {
	benchmarkRecords(b, schema(b, hudi.Column{Name: "_rev", Kind: hudi.KindString}, hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean}))
}

func benchmarkRecords(b *testing.B, target *hudi.Schema) {
	data, _ := write(b, benchSchema(b), options(), benchRecords(10_000)...)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		f := open(b, data)
		for _, err := range f.Records(target, "_rev_order") {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n == b.N {
				break
			}
		}
	}
}

// BenchmarkKeys is the cost of a key read.
func BenchmarkKeys(b *testing.B) {
	data, _ := write(b, benchSchema(b), options(), benchRecords(10_000)...)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		for _, err := range open(b, data).Keys() {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n == b.N {
				break
			}
		}
	}
}
