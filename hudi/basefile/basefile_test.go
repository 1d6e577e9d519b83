package basefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

const (
	instant  = "20260101000000000"
	fileName = "0f1fc431-f37c-4ca0-94b7-d302faf35e8f-0_1-0-1_20260101000000000.parquet"
	tagType  = `{"type":"array","items":["null","string"]}`
	deepType = `{"type":"record","name":"deep","fields":[
		{"name":"city","type":["null","string"],"default":null},
		{"name":"zip","type":["null","int"],"default":null},
		{"name":"lists","type":["null",{"type":"array","items":["null",{"type":"array","items":["null","long"]}]}],"default":null},
		{"name":"by","type":["null",{"type":"map","values":["null","double"]}],"default":null},
		{"name":"people","type":["null",{"type":"array","items":["null",{"type":"record","name":"person","fields":[
			{"name":"name","type":["null","string"],"default":null},{"name":"age","type":["null","int"],"default":null}]}]}],"default":null}]}`
)

func schema(t testing.TB, columns ...hudi.Column) *hudi.Schema {
	t.Helper()
	s, err := hudi.NewSchema("docs", columns...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wideSchema has a column of each kind, in no alphabetical order.
func wideSchema(t testing.TB) *hudi.Schema {
	return schema(t,
		hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong},
		hudi.Column{Name: "b", Kind: hudi.KindBoolean}, hudi.Column{Name: "i", Kind: hudi.KindInt},
		hudi.Column{Name: "f", Kind: hudi.KindFloat}, hudi.Column{Name: "d", Kind: hudi.KindDouble},
		hudi.Column{Name: "_doc", Kind: hudi.KindString}, hudi.Column{Name: "raw", Kind: hudi.KindBytes},
		hudi.Column{Name: "fix", Kind: hudi.KindBytes, Type: `{"type":"fixed","name":"fix_t","size":3}`},
		hudi.Column{Name: "color", Kind: hudi.KindString, Type: `{"type":"enum","name":"color_t","symbols":["RED","BLUE"]}`},
		hudi.Column{Name: "day", Kind: hudi.KindInt, Type: `{"type":"int","logicalType":"date"}`},
		hudi.Column{Name: "at", Kind: hudi.KindLong, Type: `{"type":"long","logicalType":"timestamp-micros"}`},
		hudi.Column{Name: "price", Kind: hudi.KindBytes, Type: `{"type":"fixed","name":"price_t","size":5,"logicalType":"decimal","precision":10,"scale":2}`},
		hudi.Column{Name: "tags", Kind: hudi.KindNested, Type: tagType}, hudi.Column{Name: "deep", Kind: hudi.KindNested, Type: deepType},
		hudi.Column{Name: "must", Kind: hudi.KindString, Required: true})
}

// randomDatum is a random datum of an Avro type.
func randomDatum(r *rand.Rand, t *avro.Type, dst []byte) []byte {
	switch t.Kind {
	case avro.Union:
		i := r.IntN(len(t.Branches))
		return randomDatum(r, t.Branches[i], avro.AppendLong(dst, int64(i)))
	case avro.Record:
		for _, f := range t.Fields {
			dst = randomDatum(r, f.Type, dst)
		}
	case avro.Array, avro.Map:
		n := r.IntN(4)
		if n > 0 {
			dst = avro.AppendLong(dst, int64(n))
		}
		for i := range n {
			if t.Kind == avro.Map {
				dst = avro.AppendText(dst, fmt.Sprint("k", i))
			}
			dst = randomDatum(r, t.Item, dst)
		}
		dst = append(dst, 0)
	case avro.Int:
		dst = avro.AppendLong(dst, int64(int32(r.Uint32())))
	case avro.Long:
		dst = avro.AppendLong(dst, int64(r.Uint64()))
	case avro.Double:
		dst = avro.AppendDouble(dst, r.NormFloat64())
	case avro.String:
		dst = avro.AppendText(dst, strings.Repeat("é", r.IntN(5)))
	default:
	}
	return dst
}

func nested(t testing.TB, r *rand.Rand, typ string) hudi.Value {
	t.Helper()
	s, err := avro.Parse(typ)
	if err != nil {
		t.Fatal(err)
	}
	return hudi.Nested(randomDatum(r, s.Type(), nil))
}

func randomRecord(t testing.TB, r *rand.Rand, n int) hudi.Record {
	id := fmt.Sprintf("id-%06d", n)
	long := int64(r.Uint64()) >> r.IntN(64)
	rec := hudi.Record{Key: hudi.Key{Record: id, Partition: "pt=1"}, Row: hudi.Row{
		hudi.String(id), hudi.Long(long), hudi.Boolean(n%3 == 0), hudi.Int(int32(long)), hudi.Float(float32(r.NormFloat64())),
		hudi.Double(r.NormFloat64()), hudi.String(strings.Repeat(strconv.FormatUint(r.Uint64(), 10), r.IntN(30))), hudi.Bytes([]byte{byte(n), 0}[:r.IntN(3)]),
		hudi.Bytes([]byte{1, byte(n), 0xff}), hudi.String([]string{"RED", "BLUE"}[n%2]), hudi.Int(int32(n)), hudi.Long(long),
		hudi.Bytes([]byte{0xff, 0xff, byte(n), 1, 2}), nested(t, r, tagType), nested(t, r, deepType), hudi.String("m")}}
	for i := range rec.Row[:15] {
		if r.IntN(5) == 0 && i != 1 {
			rec.Row[i] = hudi.Value{}
		}
	}
	return rec
}

func options() basefile.WriterOptions {
	return basefile.WriterOptions{Stamp: hudi.Stamp{Instant: instant, Task: 7}, FileName: fileName}
}

func write(t testing.TB, s *hudi.Schema, o basefile.WriterOptions, rs ...hudi.Record) ([]byte, basefile.Footer) {
	t.Helper()
	var b bytes.Buffer
	w, err := basefile.NewWriter(&b, s, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rs {
		if err := w.Append(&rs[i]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if f.Bytes != int64(b.Len()) || f.Rows != int64(len(rs)) {
		t.Fatalf("%+v of %d bytes", f, b.Len())
	}
	return b.Bytes(), f
}

func open(t testing.TB, data []byte) *basefile.File {
	t.Helper()
	f, err := basefile.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readAll(f *basefile.File, target *hudi.Schema, order string) (rs []hudi.Record, err error) {
	for r, err := range f.Records(target, order) {
		if err != nil {
			return rs, err
		}
		rs = append(rs, r.Clone())
	}
	return rs, nil
}

func TestRoundTrip(t *testing.T) {
	s := wideSchema(t)
	r := rand.New(rand.NewPCG(1, 2))
	var rs, want []hudi.Record
	for n := range 1200 {
		rec := randomRecord(t, r, n)
		if n == 7 {
			rec.CommitTime, rec.CommitSeqno = "20250101000000000", "x_1_2"
		}
		rs = append(rs, rec)
		if n != 7 {
			stamped := n
			if n > 7 {
				stamped--
			}
			rec.CommitTime, rec.CommitSeqno = instant, fmt.Sprintf("%s_7_%d", instant, stamped)
		}
		rec.Order = rec.Row[1].Long()
		want = append(want, rec)
	}
	for _, o := range []basefile.WriterOptions{{}, {Codec: basefile.Zstd}, {Codec: basefile.Gzip}, {Codec: basefile.Uncompressed}, {RowGroupBytes: 100_000}} {
		o.Stamp, o.FileName = options().Stamp, fileName
		data, footer := write(t, s, o, rs...)
		f := open(t, data)
		if f.Footer() != footer || footer.MinKey != "id-000000" || footer.MaxKey != "id-001199" || footer.Schema != s.AvroWithMeta() || !footer.HasBloom {
			t.Fatalf("footer %+v, want %+v", f.Footer(), footer)
		}
		got, err := readAll(f, s, "_rev_order")
		if err != nil {
			t.Fatal(err)
		}
		compare(t, got, want)
		checkKeys(t, f, want)
	}
}

func compare(t *testing.T, got, want []hudi.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("record %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}

func checkKeys(t *testing.T, f *basefile.File, want []hudi.Record) {
	t.Helper()
	filter, err := f.Bloom()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for k, err := range f.Keys() {
		if err != nil {
			t.Fatal(err)
		}
		if k != want[n].Key.Record || !filter.Contains(k) || filter.Contains(k+"x") {
			t.Fatalf("key %d: %q", n, k)
		}
		n++
	}
	if n != len(want) {
		t.Fatalf("%d keys", n)
	}
}

// TestOnlyFixedBytesHaveALength: a length in the schema of any other type makes
// Hive refuse the column.
func TestOnlyFixedBytesHaveALength(t *testing.T) {
	data, _ := write(t, wideSchema(t), options(), randomRecord(t, rand.New(rand.NewPCG(1, 1)), 1))
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		t.Fatal(err)
	}
	sized := 0
	for _, e := range f.Metadata().Schema {
		fixed := e.Type.Valid && parquet.Kind(e.Type.V) == parquet.FixedLenByteArray
		if e.TypeLength.Valid != fixed {
			t.Errorf("column %s: length %v; want one: %v", e.Name, e.TypeLength, fixed)
		}
		if fixed {
			sized++
		}
	}
	if sized == 0 {
		t.Error("no column of fixed bytes was looked at")
	}
}

func TestEmptyFile(t *testing.T) {
	s := wideSchema(t)
	data, footer := write(t, s, options())
	f := open(t, data)
	if footer.MinKey != "" || f.Footer() != footer {
		t.Fatalf("%+v %+v", footer, f.Footer())
	}
	rs, err := readAll(f, s, "")
	if err != nil || len(rs) != 0 {
		t.Fatal(rs, err)
	}
	if b, err := f.Bloom(); err != nil || b.Contains("a") {
		t.Fatal(err)
	}
}

func TestKeyRangeIsUTF16(t *testing.T) {
	s := schema(t, hudi.Column{Name: "_id", Kind: hudi.KindString})
	var rs []hudi.Record
	for _, k := range []string{"b", "\uffff", "\U0001F600", "a", "\ue000"} {
		rs = append(rs, hudi.Record{Key: hudi.Key{Record: k}, Row: hudi.Row{hudi.String(k)}})
	}
	data, footer := write(t, s, options(), rs...)
	if footer.MinKey != "a" || footer.MaxKey != "\uffff" || open(t, data).Footer() != footer {
		t.Fatalf("%q %q", footer.MinKey, footer.MaxKey)
	}
}

// TestProjection: fewer columns, other order, new columns, wider types.
func TestProjection(t *testing.T) {
	old := schema(t, hudi.Column{Name: "i", Kind: hudi.KindInt}, hudi.Column{Name: "l", Kind: hudi.KindLong}, hudi.Column{Name: "f", Kind: hudi.KindFloat},
		hudi.Column{Name: "s", Kind: hudi.KindString}, hudi.Column{Name: "gone", Kind: hudi.KindString})
	target := schema(t, hudi.Column{Name: "new", Kind: hudi.KindString}, hudi.Column{Name: "s", Kind: hudi.KindBytes},
		hudi.Column{Name: "f", Kind: hudi.KindDouble}, hudi.Column{Name: "l", Kind: hudi.KindDouble}, hudi.Column{Name: "i", Kind: hudi.KindLong})
	data, _ := write(t, old, options(), hudi.Record{Key: hudi.Key{Record: "k"},
		Row: hudi.Row{hudi.Int(-3), hudi.Long(1 << 40), hudi.Float(0.5), hudi.String("x"), hudi.String("y")}})
	rs, err := readAll(open(t, data), target, "l")
	if err != nil {
		t.Fatal(err)
	}
	want := hudi.Row{{}, hudi.Bytes([]byte("x")), hudi.Double(0.5), hudi.Double(1 << 40), hudi.Long(-3)}
	if len(rs) != 1 || !reflect.DeepEqual(rs[0].Row, want) || rs[0].Order != 1<<40 {
		t.Fatalf("%+v", rs)
	}
	for _, c := range []hudi.Column{{Name: "l", Kind: hudi.KindInt}, {Name: "s", Kind: hudi.KindLong}, {Name: "s", Kind: hudi.KindNested, Type: tagType},
		{Name: "l", Kind: hudi.KindLong, Type: `{"type":"record","name":"x","fields":[]}`}} {
		_, err := readAll(open(t, data), schema(t, c), "")
		if c.Type != "" && c.Kind == hudi.KindLong {
			continue
		}
		if !errors.Is(err, avro.ErrSchema) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := readAll(open(t, data), target, "s"); !errors.Is(err, basefile.ErrUnsupported) {
		t.Errorf("text as ordering column: %v", err)
	}
}

func TestAppendRefuses(t *testing.T) {
	s := wideSchema(t)
	good := randomRecord(t, rand.New(rand.NewPCG(5, 6)), 1)
	change := func(i int, v hudi.Value) hudi.Record {
		c := good.Clone()
		c.Row[i] = v
		return c
	}
	unkeyed := good.Clone()
	unkeyed.Key.Record = ""
	bad := map[string]hudi.Record{
		"wrong kind": change(0, hudi.Long(1)), "long for int": change(3, hudi.Long(1)), "size of fixed": change(8, hudi.Bytes([]byte{1})),
		"null in required": change(15, hudi.Value{}), "key": unkeyed, "delete": {Key: good.Key, Delete: true},
		"broken list": change(13, hudi.Nested([]byte{2, 2, 4, 'a'})), "list with more": change(13, hudi.Nested([]byte{0, 0})),
		"broken record": change(14, hudi.Nested([]byte{2, 2, 'a', 9})), "wide decimal": change(12, hudi.Bytes([]byte{1, 2, 3, 4, 5, 6})),
	}
	var b bytes.Buffer
	w, err := basefile.NewWriter(&b, s, options())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Append(&good); err != nil {
			t.Fatal(err)
		}
		for name, r := range bad {
			if err := w.Append(&r); !errors.Is(err, basefile.ErrRecord) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	footer, err := w.Close()
	if err != nil || footer.Rows != 2 {
		t.Fatalf("%+v %v", footer, err)
	}
	got, err := readAll(open(t, b.Bytes()), s, "")
	if err != nil || len(got) != 2 || !reflect.DeepEqual(got[0].Row, good.Row) || !reflect.DeepEqual(got[1].Row, good.Row) {
		t.Fatalf("%v %v", got, err)
	}
	if err := w.Append(&good); err == nil {
		t.Fatal("append after close")
	}
	if _, err := basefile.NewWriter(&b, s, basefile.WriterOptions{}); !errors.Is(err, basefile.ErrRecord) {
		t.Fatal(err)
	}
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWriteErrorStays(t *testing.T) {
	s := schema(t, hudi.Column{Name: "_id", Kind: hudi.KindString})
	rec := hudi.Record{Key: hudi.Key{Record: "k"}, Row: hudi.Row{hudi.String("k")}}
	whole, _ := write(t, s, options(), rec)
	for left := 0; left < len(whole); left += 13 {
		w, err := basefile.NewWriter(&failing{left}, s, options())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Append(&rec); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := w.Close(); !errors.Is(err, io.ErrClosedPipe) {
				t.Fatalf("after %d bytes: %v", left, err)
			}
		}
	}
}

// TestSize: close to the real size, and growing.
func TestSize(t *testing.T) {
	s := schema(t, hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_doc", Kind: hudi.KindString})
	var b bytes.Buffer
	o := options()
	o.RowGroupBytes = 1 << 20
	w, err := basefile.NewWriter(&b, s, o)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 10_000 {
		doc := make([]byte, 600)
		for i := range doc {
			doc[i] = byte('a' + r.IntN(26))
		}
		id := strconv.Itoa(n)
		if err := w.Append(&hudi.Record{Key: hudi.Key{Record: id}, Row: hudi.Row{hudi.String(id), hudi.StringOf(doc)}}); err != nil {
			t.Fatal(err)
		}
	}
	size := w.Size()
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if ratio := float64(size) / float64(b.Len()); math.Abs(ratio-1) > 0.3 {
		t.Fatalf("said %d, is %d", size, b.Len())
	}
}

// Bounds of pages, of columns and of the index must not hold whole documents:
// a value that cannot be compressed stands in the file once.
func TestLargeValuesStandOnce(t *testing.T) {
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_doc", Kind: hudi.KindString}, hudi.Column{Name: "text", Kind: hudi.KindString})
	if err != nil {
		t.Fatal(err)
	}
	random, large := rand.New(rand.NewPCG(1, 2)), make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(33 + random.IntN(90))
	}
	var file bytes.Buffer
	w, err := basefile.NewWriter(&file, s, basefile.WriterOptions{FileName: "a-0_0-0-0_20240101000000000.parquet", Stamp: hudi.Stamp{Instant: "20240101000000000"}})
	if err != nil {
		t.Fatal(err)
	}
	r := hudi.Record{Key: hudi.Key{Record: "k"}, Row: hudi.Row{hudi.StringOf(large), hudi.StringOf(large)}}
	if err := w.Append(&r); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if limit := 2*len(large) + 64<<10; file.Len() > limit {
		t.Fatalf("two values of %d bytes made a file of %d", len(large), file.Len())
	}
}
