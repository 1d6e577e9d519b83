package reader_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
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

// scanSchema is a table as documents make it: the envelope with the document, and
// ten fields.
func scanSchema(t testing.TB) (*hudi.Schema, []string) {
	t.Helper()
	columns := []hudi.Column{{Name: "_id", Kind: hudi.KindString}, {Name: "_rev", Kind: hudi.KindString}, {Name: "_rev_order", Kind: hudi.KindLong},
		{Name: "_op", Kind: hudi.KindString}, {Name: "_deleted", Kind: hudi.KindBoolean}, {Name: "_doc", Kind: hudi.KindString}}
	var fields []string
	for i := range 10 {
		kind := []hudi.Kind{hudi.KindString, hudi.KindLong, hudi.KindString, hudi.KindDouble, hudi.KindBoolean}[i%5]
		fields = append(fields, fmt.Sprint("f", i))
		columns = append(columns, hudi.Column{Name: fields[i], Kind: kind})
	}
	s, err := hudi.NewSchema("docs", columns...)
	if err != nil {
		t.Fatal(err)
	}
	return s, fields
}

func scanRow(s *hudi.Schema, r *rand.Rand, i int, order int64) hudi.Record {
	key := fmt.Sprintf("order-%08d", i)
	row := hudi.Row{hudi.String(key), hudi.String(fmt.Sprintf("%d-%032x", order, r.Uint64())), hudi.Long(order), hudi.String("u"), hudi.Boolean(false),
		hudi.String(`{"_id":"` + key + `","note":"` + strings.Repeat("some words of a document ", 16) + strconv.FormatUint(r.Uint64(), 10) + `"}`)}
	for _, c := range s.Columns()[len(row):] {
		switch c.Kind {
		case hudi.KindLong:
			row = append(row, hudi.Long(r.Int64N(1_000_000)))
		case hudi.KindDouble:
			row = append(row, hudi.Double(float64(r.IntN(100_000))/100))
		case hudi.KindBoolean:
			row = append(row, hudi.Boolean(r.IntN(2) == 0))
		default:
			row = append(row, hudi.String([]string{"open", "paid", "sent"}[r.IntN(3)]+strconv.Itoa(r.IntN(5000))))
		}
	}
	return hudi.Record{Key: hudi.Key{Record: key}, Order: order, Row: row}
}

// BenchmarkScan is a snapshot of 60,000 rows and ten columns, of base files alone,
// and with twenty logs over each that updated half of the rows; with a predicate
// that few rows meet, too.
func BenchmarkScan(b *testing.B) {
	const n, groups, logs = 60_000, 3, 20
	for _, logged := range []bool{false, true} {
		f := newFixture(b)
		var fields []string
		f.schema, fields = scanSchema(b)
		r := rand.New(rand.NewPCG(1, 2))
		var base []write
		for g := range groups {
			var rs []hudi.Record
			for i := g; i < n; i += groups {
				rs = append(rs, scanRow(f.schema, r, i, 1))
			}
			base = append(base, baseOf("pt=a", hudi.FileID(fmt.Sprintf("g%d-0", g)), rs...))
		}
		t1 := f.commit(base...)
		name := "base"
		for l := 0; logged && l < logs; l++ {
			name = "logs"
			var writes []write
			for g := range groups {
				var rs []hudi.Record
				for i := g + groups*l; i < n; i += groups * logs * 2 {
					rs = append(rs, scanRow(f.schema, r, i, 2))
				}
				writes = append(writes, logOf("pt=a", hudi.FileID(fmt.Sprintf("g%d-0", g)), t1, l+1, rs...))
			}
			f.commit(writes...)
		}
		v := f.view()
		for what, o := range map[string]reader.Options{"": {Columns: fields}, "/where": {Columns: fields, Where: parsed(b, "f1 < 1000 and f0 >= 'paid'")}} {
			b.Run(name+what, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					rows := 0
					for _, err := range reader.Snapshot(b.Context(), v, o) {
						if err != nil {
							b.Fatal(err)
						}
						rows++
					}
					if (rows != n) != (what != "") {
						b.Fatal(rows)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
