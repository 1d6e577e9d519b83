package basefile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// foreign writes a Parquet file of one column beside the record key, from rows
// of values with levels: how other writers lay columns out.
func foreign(t *testing.T, column parquet.Node, rows ...[]parquet.Value) []byte {
	t.Helper()
	var b bytes.Buffer
	// The newer writer refuses lists of two levels.
	w := parquet.NewWriter(&b, parquet.NewSchema("spark_schema", parquet.Group{
		hudi.MetaRecordKey: parquet.Optional(parquet.String()), "c": column}))
	for i, values := range rows {
		row := parquet.Row{parquet.ByteArrayValue([]byte{byte('a' + i)}).Level(0, 1, 0)}
		if _, err := w.WriteRows([]parquet.Row{append(row, values...)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// at is a value of the column's n-th leaf.
func at(v parquet.Value, leaf, rep, def int) parquet.Value { return v.Level(rep, def, leaf+1) }

func text(s string) parquet.Value { return parquet.ByteArrayValue([]byte(s)) }

// annotated puts a LIST or MAP annotation on a group with any inner layout.
type annotated struct {
	parquet.Node
	typ parquet.Type
}

func (a annotated) Type() parquet.Type { return a.typ }

func list(inner parquet.Group) parquet.Node {
	return parquet.Optional(annotated{inner, parquet.List(parquet.String()).Type()})
}

func mapping(inner parquet.Group) parquet.Node {
	return parquet.Optional(annotated{inner, parquet.Map(parquet.String(), parquet.String()).Type()})
}

func TestDialects(t *testing.T) {
	null := parquet.Value{}
	strings3 := [][]parquet.Value{{at(text("x"), 0, 0, 3), at(null, 0, 1, 2), at(text("y"), 0, 1, 3)}, {at(null, 0, 0, 1)}, {at(null, 0, 0, 0)}}
	want3 := `[["x",null,"y"],[],null]`
	element := parquet.Optional(parquet.String())
	pair := `{"type":"record","name":"p","fields":[{"name":"x","type":["null","string"]},{"name":"n","type":["null","long"]}]}`
	for name, c := range map[string]struct {
		node parquet.Node
		rows [][]parquet.Value
		typ  string
		want string
	}{
		"list.element":      {list(parquet.Group{"list": parquet.Repeated(parquet.Group{"element": element})}), strings3, tagType, want3},
		"list.array":        {list(parquet.Group{"list": parquet.Repeated(parquet.Group{"array": element})}), strings3, tagType, want3},
		"bag.array_element": {list(parquet.Group{"bag": parquet.Repeated(parquet.Group{"array_element": element})}), strings3, tagType, want3},
		"array of group": {list(parquet.Group{"array": parquet.Repeated(parquet.Group{"x": parquet.Optional(parquet.String())})}),
			[][]parquet.Value{{at(text("x"), 0, 0, 3), at(null, 0, 1, 2)}, {at(null, 0, 0, 1)}, {at(null, 0, 0, 0)}},
			`{"type":"array","items":` + pair + `}`, `[[{"x":"x","n":null},{"x":null,"n":null}],[],null]`},
		"two levels": {list(parquet.Group{"array": parquet.Repeated(parquet.String())}),
			[][]parquet.Value{{at(text("x"), 0, 0, 2), at(text("y"), 0, 1, 2)}, {at(null, 0, 0, 1)}, {at(null, 0, 0, 0)}}, tagType, `[["x","y"],[],null]`},
		"two levels of lists": {list(parquet.Group{"array": parquet.Repeated(annotated{parquet.Group{"array": parquet.Repeated(parquet.Leaf(parquet.Int32Type))}, parquet.List(parquet.String()).Type()})}),
			[][]parquet.Value{{at(parquet.Int32Value(1), 0, 0, 3), at(parquet.Int32Value(2), 0, 2, 3), at(null, 0, 1, 2), at(parquet.Int32Value(3), 0, 1, 3)}, {at(null, 0, 0, 1)}, {at(null, 0, 0, 0)}},
			`{"type":"array","items":{"type":"array","items":"long"}}`, `[[[1,2],[],[3]],[],null]`},
		"bare repeated": {parquet.Repeated(parquet.String()), [][]parquet.Value{{at(text("x"), 0, 0, 1), at(text("y"), 0, 1, 1)}, {at(null, 0, 0, 0)}}, tagType, `[["x","y"],[]]`},
		"map of old name": {mapping(parquet.Group{"map": parquet.Repeated(parquet.Group{"key": parquet.String(), "value": parquet.Optional(parquet.Leaf(parquet.Int64Type))})}),
			[][]parquet.Value{{at(text("k"), 0, 0, 2), at(text("l"), 0, 1, 2), at(parquet.Int64Value(1), 1, 0, 3), at(null, 1, 1, 2)}, {at(null, 0, 0, 1), at(null, 1, 0, 1)}, {at(null, 0, 0, 0), at(null, 1, 0, 0)}},
			`{"type":"map","values":["null","long"]}`, `[{"k":1,"l":null},{},null]`},
		"fewer and more fields": {parquet.Optional(parquet.Group{"n": parquet.Optional(parquet.Leaf(parquet.Int32Type)), "other": parquet.Optional(parquet.String())}),
			[][]parquet.Value{{at(parquet.Int32Value(5), 0, 0, 2), at(text("o"), 1, 0, 2)}, {at(null, 0, 0, 1), at(null, 1, 0, 1)}, {at(null, 0, 0, 0), at(null, 1, 0, 0)}},
			pair, `[{"x":null,"n":5},{"x":null,"n":null},null]`},
		"no field in common": {parquet.Optional(parquet.Group{"other": parquet.Optional(parquet.String())}),
			[][]parquet.Value{{at(text("o"), 0, 0, 2)}, {at(null, 0, 0, 0)}}, pair, `[{"x":null,"n":null},null]`},
	} {
		t.Run(name, func(t *testing.T) {
			data := foreign(t, c.node, c.rows...)
			s := schema(t, hudi.Column{Name: "c", Kind: hudi.KindNested, Type: c.typ})
			rs, err := readAll(open(t, data), s, "")
			if err != nil {
				t.Fatal(err)
			}
			var want []any
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if got := rowJSON(t, s, &rs[i])["c"]; !reflect.DeepEqual(got, want[i]) {
					t.Errorf("row %d: %v, want %v", i, got, want[i])
				}
			}
			if len(rs) != len(want) {
				t.Errorf("%d rows", len(rs))
			}
		})
	}
}

// TestDecimals: the layouts of old and new Spark, and of parquet-avro.
func TestDecimals(t *testing.T) {
	fixed := hudi.Column{Name: "c", Kind: hudi.KindBytes, Type: `{"type":"fixed","name":"f","size":5,"logicalType":"decimal","precision":10,"scale":2}`}
	loose := hudi.Column{Name: "c", Kind: hudi.KindBytes, Type: `{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}`}
	for name, c := range map[string]struct {
		node  parquet.Node
		value parquet.Value
		short string
	}{
		"int32":  {parquet.Decimal(2, 9, parquet.Int32Type), parquet.Int32Value(-1234), "\xfb\x2e"},
		"int64":  {parquet.Decimal(2, 10, parquet.Int64Type), parquet.Int64Value(-1234), "\xfb\x2e"},
		"fixed":  {parquet.Decimal(2, 10, parquet.FixedLenByteArrayType(7)), parquet.FixedLenByteArrayValue([]byte("\xff\xff\xff\xff\xff\xfb\x2e")), "\xff\xff\xff\xff\xff\xfb\x2e"},
		"binary": {parquet.Decimal(2, 10, parquet.ByteArrayType), parquet.ByteArrayValue([]byte("\xfb\x2e")), "\xfb\x2e"},
	} {
		data := foreign(t, parquet.Optional(c.node), []parquet.Value{at(c.value, 0, 0, 1)}, []parquet.Value{at(parquet.Value{}, 0, 0, 0)})
		for _, want := range []struct {
			column hudi.Column
			text   string
		}{{fixed, "\xff\xff\xff\xfb\x2e"}, {loose, c.short}} {
			rs, err := readAll(open(t, data), schema(t, want.column), "")
			if err != nil || rs[0].Row[0].Text() != want.text || !rs[1].Row[0].IsNull() {
				t.Errorf("%s: %v %v", name, rs, err)
			}
		}
		other := loose
		other.Type = `{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}`
		if _, err := readAll(open(t, data), schema(t, other), ""); !errors.Is(err, avro.ErrSchema) {
			t.Errorf("%s of another scale: %v", name, err)
		}
	}
	// A number that needs more bytes than the target has.
	data := foreign(t, parquet.Optional(parquet.Decimal(2, 10, parquet.Int64Type)), []parquet.Value{at(parquet.Int64Value(1<<50), 0, 0, 1)})
	if _, err := readAll(open(t, data), schema(t, fixed), ""); !errors.Is(err, avro.ErrSchema) {
		t.Error(err)
	}
}

func TestTimes(t *testing.T) {
	micros := hudi.Column{Name: "c", Kind: hudi.KindLong, Type: `{"type":"long","logicalType":"timestamp-micros"}`}
	plain := hudi.Column{Name: "c", Kind: hudi.KindLong}
	for name, c := range map[string]struct {
		node   parquet.Node
		value  parquet.Value
		column hudi.Column
		want   error
	}{
		"micros":        {parquet.Timestamp(parquet.Microsecond), parquet.Int64Value(5), micros, nil},
		"as a number":   {parquet.Timestamp(parquet.Microsecond), parquet.Int64Value(5), plain, nil},
		"from a number": {parquet.Leaf(parquet.Int64Type), parquet.Int64Value(5), micros, nil},
		"millis":        {parquet.Timestamp(parquet.Millisecond), parquet.Int64Value(5), micros, avro.ErrSchema},
		"local":         {parquet.TimestampAdjusted(parquet.Microsecond, false), parquet.Int64Value(5), micros, avro.ErrSchema},
		"int96":         {parquet.Leaf(parquet.Int96Type), parquet.Value{}, micros, basefile.ErrUnsupported},
		"unsigned":      {parquet.Uint(64), parquet.Int64Value(5), plain, basefile.ErrUnsupported},
	} {
		def := 1
		if c.value.IsNull() {
			def = 0
		}
		data := foreign(t, parquet.Optional(c.node), []parquet.Value{at(c.value, 0, 0, def)})
		rs, err := readAll(open(t, data), schema(t, c.column), "")
		if !errors.Is(err, c.want) || (err == nil && rs[0].Row[0] != hudi.Long(5)) {
			t.Errorf("%s: %v %v", name, rs, err)
		}
	}
}

func TestRowsThatAreDeletes(t *testing.T) {
	for name, c := range map[string]hudi.Row{"_hoodie_operation": {hudi.String("-U"), hudi.String("I")}, "_hoodie_is_deleted": {hudi.Boolean(true), hudi.Boolean(false)}} {
		kind := c[0].Kind()
		s := schema(t, hudi.Column{Name: name, Kind: kind})
		data, _ := write(t, s, options(), hudi.Record{Key: hudi.Key{Record: "a"}, Row: c[:1]}, hudi.Record{Key: hudi.Key{Record: "b"}, Row: c[1:]})
		rs, err := readAll(open(t, data), schema(t), "")
		if err != nil || !rs[0].Delete || rs[0].Row != nil || rs[1].Delete || rs[1].Row == nil {
			t.Errorf("%s: %+v %v", name, rs, err)
		}
	}
}

func damaged(t testing.TB) (*hudi.Schema, []hudi.Record) {
	s := schema(t, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong}, hudi.Column{Name: "tags", Kind: hudi.KindNested, Type: tagType})
	return s, []hudi.Record{
		{Key: hudi.Key{Record: "a"}, Row: hudi.Row{hudi.Long(7), hudi.Nested([]byte{2, 2, 2, 'x', 0})}},
		{Key: hudi.Key{Record: "b"}, Row: hudi.Row{hudi.Long(8), {}}}}
}

// TestEveryFlippedByte: pages carry a checksum, so that a damaged one is
// always noticed; what is read is right or an error.
func TestEveryFlippedByte(t *testing.T) {
	s, rs := damaged(t)
	data, _ := write(t, s, options(), rs...)
	want, err := readAll(open(t, data), s, "_rev_order")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	pages := 4
	for _, c := range raw.Metadata().RowGroups[0].Columns {
		pages += int(c.MetaData.TotalCompressedSize)
	}
	noticed := 0
	for i := range data[:pages] {
		broken := bytes.Clone(data)
		broken[i] ^= 0x10
		got, err := openAndRead(broken, s)
		if err != nil {
			noticed++
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("byte %d of %d: read as %+v", i, len(data), got)
		}
	}
	if noticed < pages/4 { // the file name column is not read, nor are statistics
		t.Errorf("%d of %d bytes noticed", noticed, pages)
	}
}

// TestDamagedFooter: the footer has no checksum. A damaged one may say what it
// likes, but it must not bring the reader down.
func TestDamagedFooter(t *testing.T) {
	s, rs := damaged(t)
	data, _ := write(t, s, options(), rs...)
	refused := 0
	step := 1
	if testing.Short() {
		step = 17
	}
	for i := 4; i < len(data); i += step {
		for _, flip := range []byte{0x01, 0x40, 0xff} {
			broken := bytes.Clone(data)
			broken[i] ^= flip
			if _, err := openAndRead(broken, s); err != nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}

func openAndRead(data []byte, s *hudi.Schema) ([]hudi.Record, error) {
	f, err := basefile.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	return readAll(f, s, "_rev_order")
}

func TestTorn(t *testing.T) {
	s, rs := damaged(t)
	data, _ := write(t, s, options(), rs...)
	for n := range data {
		if _, err := openAndRead(data[:n], s); !errors.Is(err, basefile.ErrFormat) {
			t.Fatalf("cut to %d of %d: %v", n, len(data), err)
		}
	}
	if _, err := basefile.Open(bytes.NewReader([]byte("not parquet at all")), 18); !errors.Is(err, basefile.ErrFormat) {
		t.Fatal(err)
	}
}

type failingReader struct {
	io.ReaderAt
	left int
}

func (f *failingReader) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, io.ErrNoProgress
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestReadErrorIsNoCorruption: a failed read is not taken for a broken file.
func TestReadErrorIsNoCorruption(t *testing.T) {
	s, rs := damaged(t)
	data, _ := write(t, s, options(), rs...)
	for left := range 200 {
		f, err := basefile.Open(&failingReader{bytes.NewReader(data), left}, int64(len(data)))
		if err == nil {
			_, err = readAll(f, s, "")
		}
		if err == nil {
			return
		}
		if !errors.Is(err, io.ErrNoProgress) || errors.Is(err, basefile.ErrFormat) {
			t.Fatalf("after %d reads: %v", left, err)
		}
	}
	t.Fatal("never done")
}

func FuzzOpen(f *testing.F) {
	s, rs := damaged(f)
	data, _ := write(f, s, options(), rs...)
	f.Add(data)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := basefile.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		_, _ = p.Bloom()
		n := 0
		for _, err := range p.Records(s, "_rev_order") {
			if n++; err != nil || n > 1000 {
				break
			}
		}
		for range p.Keys() {
			if n++; n > 2000 {
				break
			}
		}
	})
}
