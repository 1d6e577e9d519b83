//go:build unix

package normalize

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/filter"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// These benchmarks are the figures of docs/adr/0001 and 0002. Beside the time
// by the clock they report the processor's, which other programs on the
// machine disturb less.

// sample is a batch of documents of about 600 bytes and 14 members.
func sample(rows int) ([][]byte, changes.Batch) {
	var docs [][]byte
	var b changes.Batch
	for i := range rows {
		rev := changes.Rev{Generation: int64(1 + i%20), Hash: fmt.Sprintf("%032x", i*7919)}
		id := fmt.Sprintf("order:%08d", i)
		doc := fmt.Appendf(nil, `{"_id":%q,"_rev":%q,"type":"order","createdAt":"2024-%02d-%02dT12:%02d:00.000Z","customer":"customer-%d",`+
			`"email":"someone.%d@example.org","total":%d.%d,"items":%d,"paid":%t,"currency":"EUR","note":"leave it at the \"back\" door, \u00e9tage %d",`+
			`"address":{"street":"Long Street %d","city":"Springfield","zip":"%05d","country":"FR"},"tags":["web","spring","first-order"],`+
			`"lines":[{"sku":"A-%d","qty":2,"price":9.5},{"sku":"B-%d","qty":1,"price":30.0}],"history":"%s"}`,
			id, rev.String(), 1+i%12, 1+i%28, i%60, i%1000, i%997, i%500, 11+i%88, i%9, i%2 == 0, i%9, i%200, i%99999, i%1000, i%1009,
			"created, confirmed, packed, handed over to the carrier, waiting for the confirmation of delivery")
		docs = append(docs, doc)
		b.Changes = append(b.Changes, changes.Change{ID: id, Rev: rev, Leaves: []changes.Rev{rev}, Body: doc})
	}
	return docs, b
}

const sampleRows = 5000

// measured runs f, which handles sampleRows rows, b.N rows long.
func measured(b *testing.B, docs [][]byte, f func()) {
	b.Helper()
	n := 0
	for _, d := range docs {
		n += len(d)
	}
	b.SetBytes(int64(n / len(docs)))
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	done := 0
	for ; done < b.N; done += len(docs) {
		f()
	}
	b.StopTimer()
	b.ReportMetric((cpu(b)-before)/float64(done), "cpu-ns/row")
}

// cpu is the processor time of this process in nanoseconds.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkNormalize makes records of a batch: on top of a schema that has all
// the fields, and before there is one, when the columns are inferred.
func BenchmarkNormalize(b *testing.B) {
	docs, batch := sample(sampleRows)
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"plain", Options{Table: "t"}},
		{"partitioned", Options{Table: "t", PartitionField: "createdAt", PartitionFormat: "yyyyMMdd"}},
		{"nested", Options{Table: "t", Nested: NestedStruct}},
		{"masked", Options{Table: "t", Salt: "s", Declare: []Declared{{Name: "email", Mask: MaskHash}, {Path: "*.zip", Mask: MaskDrop}}}},
	} {
		n, err := New(c.o)
		if err != nil {
			b.Fatal(err)
		}
		first, err := n.Normalize(batch, nil)
		if err != nil || len(first.Records) != sampleRows {
			b.Fatal(len(first.Rejects), err)
		}
		for name, s := range map[string]*hudi.Schema{"known": first.Schema, "inferred": nil} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				measured(b, docs, func() {
					if _, err := n.Normalize(batch, s); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// BenchmarkFilter is BenchmarkNormalize with a filter that keeps all, half and none of
// the documents (docs/adr/0033).
func BenchmarkFilter(b *testing.B) {
	docs, batch := sample(sampleRows)
	for name, text := range map[string]string{
		"all":  `type == "order" and total > 0 and address.country in ["FR", "DE"]`,
		"half": `type == "order" and paid`,
		"none": `type == "invoice"`,
	} {
		f, err := filter.Compile(text)
		if err != nil {
			b.Fatal(err)
		}
		n, err := New(Options{Table: "t", Filter: f})
		if err != nil {
			b.Fatal(err)
		}
		first, err := n.Normalize(batch, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			measured(b, docs, func() {
				if _, err := n.Normalize(batch, first.Schema); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
	f, err := filter.Compile(`type == "order" and total > 0 and address.country in ["FR", "DE"]`)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("match alone", func(b *testing.B) {
		measured(b, docs, func() {
			for _, d := range docs {
				if !f.Match(d) {
					b.Fatal("no match")
				}
			}
		})
	})
}

// BenchmarkScan walks over documents and bounds their members, by this
// package's scanner and by jsontext.
func BenchmarkScan(b *testing.B) {
	docs, _ := sample(sampleRows)
	b.Run("scanner", func(b *testing.B) {
		members := 0
		s := scanner{member: func(_, _ *token) { members++ }}
		measured(b, docs, func() {
			for _, d := range docs {
				if err := s.object(d); err != nil {
					b.Fatal(err)
				}
			}
		})
		if members == 0 {
			b.Fatal("no members")
		}
	})
	b.Run("jsontext", func(b *testing.B) {
		r := bytes.NewReader(nil)
		d := jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true))
		measured(b, docs, func() {
			for _, doc := range docs {
				r.Reset(doc)
				d.Reset(r, jsontext.AllowDuplicateNames(true))
				if err := tokens(d, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("json.Valid", func(b *testing.B) {
		measured(b, docs, func() {
			for _, d := range docs {
				if !json.Valid(d) {
					b.Fatal("not valid")
				}
			}
		})
	})
}

// tokens walks over the members of an object with jsontext.
func tokens(d *jsontext.Decoder, member func(name []byte, kind jsontext.Kind, value []byte)) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		var name []byte
		if member != nil {
			name = append(make([]byte, 0, 32), v[1:len(v)-1]...)
		}
		kind := d.PeekKind()
		if v, err = d.ReadValue(); err != nil {
			return err
		}
		if member != nil {
			member(name, kind, v)
		}
	}
	_, err := d.ReadToken()
	return err
}

// BenchmarkHold turns documents into rows, held in different ways, and then
// encodes every row as Avro, which is what most of them are held for.
func BenchmarkHold(b *testing.B) {
	docs, batch := sample(sampleRows)
	n, err := New(Options{Table: "t"})
	if err != nil {
		b.Fatal(err)
	}
	first, err := n.Normalize(batch, nil)
	if err != nil || len(first.Records) != sampleRows {
		b.Fatal(len(first.Rejects), err)
	}
	columns := first.Schema.Columns()
	buf := make([]byte, 0, 1<<20)
	b.Run("map[string]any", func(b *testing.B) {
		measured(b, docs, func() { buf = asMaps(b, docs, columns, buf) })
	})
	b.Run("[]any", func(b *testing.B) {
		measured(b, docs, func() { buf = asAny(b, docs, columns, buf) })
	})
	b.Run("cells", func(b *testing.B) {
		measured(b, docs, func() {
			r, err := n.Normalize(batch, first.Schema)
			if err != nil {
				b.Fatal(err)
			}
			for i := range r.Records {
				buf = avroRow(buf[:0], r.Records[i].Row)
			}
		})
	})
	b.Run("Avro at once", func(b *testing.B) {
		measured(b, docs, func() { asAvro(b, docs, columns) })
	})
}

func asMaps(b *testing.B, docs [][]byte, columns []hudi.Column, buf []byte) []byte {
	rows := make([]map[string]any, 0, len(docs))
	for _, doc := range docs {
		var m map[string]any
		d := json.NewDecoder(bytes.NewReader(doc))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			b.Fatal(err)
		}
		rows = append(rows, m)
	}
	for _, m := range rows {
		buf = buf[:0]
		for i := range columns {
			var text []byte
			switch v := m[columns[i].Name].(type) {
			case map[string]any, []any:
				var err error
				if text, err = json.Marshal(v); err != nil {
					b.Fatal(err)
				}
				buf = avroAny(buf, text)
			default:
				buf = avroAny(buf, v)
			}
		}
	}
	return buf
}

func asAny(b *testing.B, docs [][]byte, columns []hudi.Column, buf []byte) []byte {
	place := map[string]int{}
	for i := range columns {
		place[columns[i].Name] = i
	}
	rows := make([][]any, 0, len(docs))
	s := scanner{}
	var row []any
	s.member = func(name, value *token) {
		i, ok := place[string(name.text(s.data))]
		if !ok {
			return
		}
		switch value.kind {
		case tokenLong:
			row[i] = value.long
		case tokenTrue, tokenFalse:
			row[i] = value.kind == tokenTrue
		case tokenFloat:
			row[i], _ = exactDouble(s.data[value.start:value.end])
		case tokenString:
			row[i] = shared(value.text(s.data))
		case tokenEscaped:
			row[i] = string(appendUnescaped(nil, value.text(s.data)))
		case tokenComposite:
			row[i] = shared(s.data[value.start:value.end])
		default:
		}
	}
	for _, doc := range docs {
		row = make([]any, len(columns))
		if err := s.object(doc); err != nil {
			b.Fatal(err)
		}
		rows = append(rows, row)
	}
	for _, r := range rows {
		buf = buf[:0]
		for _, v := range r {
			buf = avroAny(buf, v)
		}
	}
	return buf
}

// asAvro encodes while it scans: as good as it can get, for a table whose
// columns stand in the order of its documents' members, without an envelope.
func asAvro(b *testing.B, docs [][]byte, columns []hudi.Column) {
	place := map[string]int{}
	for i := range columns {
		place[columns[i].Name] = i
	}
	rows := make([][]byte, 0, len(docs))
	s := scanner{}
	var row, scratch []byte
	s.member = func(name, value *token) {
		if _, ok := place[string(name.text(s.data))]; !ok {
			return
		}
		row = append(row, 2)
		switch value.kind {
		case tokenLong:
			row = binary.AppendVarint(row, value.long)
		case tokenTrue, tokenFalse:
			row = append(row, byte(value.kind-tokenFalse))
		case tokenFloat:
			f, _ := exactDouble(s.data[value.start:value.end])
			row = binary.LittleEndian.AppendUint64(row, math.Float64bits(f))
		case tokenString:
			row = avroText(row, shared(value.text(s.data)))
		case tokenEscaped:
			scratch = appendUnescaped(scratch[:0], value.text(s.data))
			row = avroText(row, shared(scratch))
		case tokenComposite:
			row = avroText(row, shared(s.data[value.start:value.end]))
		default:
		}
	}
	for _, doc := range docs {
		row = make([]byte, 0, 2*len(doc))
		if err := s.object(doc); err != nil {
			b.Fatal(err)
		}
		row = avroText(append(row, 2), shared(doc)) // _doc
		rows = append(rows, row)
	}
	if len(rows) != len(docs) {
		b.Fatal(len(rows))
	}
}

func avroText(dst []byte, s string) []byte {
	return append(binary.AppendVarint(dst, int64(len(s))), s...)
}

func avroRow(dst []byte, row hudi.Row) []byte {
	for i := range row {
		v := &row[i]
		if v.IsNull() {
			dst = append(dst, 0)
			continue
		}
		dst = append(dst, 2)
		switch v.Kind() {
		case hudi.KindBoolean:
			bit := byte(0)
			if v.Boolean() {
				bit = 1
			}
			dst = append(dst, bit)
		case hudi.KindLong:
			dst = binary.AppendVarint(dst, v.Long())
		case hudi.KindDouble:
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Double()))
		default:
			dst = avroText(dst, v.Text())
		}
	}
	return dst
}

func avroAny(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, 0)
	case bool:
		if v {
			return append(dst, 2, 1)
		}
		return append(dst, 2, 0)
	case int64:
		return binary.AppendVarint(append(dst, 2), v)
	case float64:
		return binary.LittleEndian.AppendUint64(append(dst, 2), math.Float64bits(v))
	case json.Number:
		if n, err := v.Int64(); err == nil && !strings.ContainsAny(v.String(), ".eE") {
			return binary.AppendVarint(append(dst, 2), n)
		}
		f, err := v.Float64()
		if err != nil {
			return avroText(append(dst, 2), v.String())
		}
		return binary.LittleEndian.AppendUint64(append(dst, 2), math.Float64bits(f))
	case []byte:
		return avroText(append(dst, 2), shared(v))
	default:
		return avroText(append(dst, 2), v.(string))
	}
}
