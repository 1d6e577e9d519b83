package avro_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/avro"
)

const wide = `{"type":"record","name":"r","namespace":"n","fields":[
	{"name":"s","type":["null","string"],"default":null},{"name":"l","type":"long"},{"name":"i","type":["int","null"]},
	{"name":"b","type":"boolean"},{"name":"f","type":"float"},{"name":"d","type":"double"},{"name":"raw","type":"bytes"},
	{"name":"fix","type":{"type":"fixed","name":"fx","size":2}},{"name":"e","type":{"type":"enum","name":"en","symbols":["A","B"]}},
	{"name":"a","type":{"type":"array","items":["null","long"]}},{"name":"m","type":{"type":"map","values":"string"}},
	{"name":"p","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},
	{"name":"sub","type":["null",{"type":"record","name":"sub","fields":[{"name":"x","type":"int"}]}]},{"name":"sub2","type":["null","sub"]}]}`

type wideRow struct {
	S   *string           `avro:"s"`
	L   int64             `avro:"l"`
	I   *int32            `avro:"i"`
	B   bool              `avro:"b"`
	F   float32           `avro:"f"`
	D   float64           `avro:"d"`
	Raw []byte            `avro:"raw"`
	Fix [2]byte           `avro:"fix"`
	E   string            `avro:"e"`
	A   []*int64          `avro:"a"`
	M   map[string]string `avro:"m"`
	Sub *subRow           `avro:"sub"`
	Two *subRow           `avro:"sub2"`
}

type subRow struct {
	X int32 `avro:"x"`
}

func parse(t testing.TB, text string) *avro.Schema {
	t.Helper()
	s, err := avro.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ptr[T any](v T) *T { return &v }

// wideText is wide without its decimal, which has no plain Go type.
var wideText = strings.Replace(wide, `{"name":"p","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},`, "", 1)

func wideValue() wideRow {
	return wideRow{S: ptr("é"), L: math.MinInt64, B: true, F: 0.5, D: -1e300, Raw: []byte{0, 255}, Fix: [2]byte{1, 2}, E: "B",
		A: []*int64{ptr(int64(1)), nil, ptr(int64(math.MaxInt64))}, M: map[string]string{"k": "v"}, Two: &subRow{X: -7}}
}

const wideJSON = `{"s":"é","l":-9223372036854775808,"i":null,"b":true,"f":0.5,"d":-1e+300,"raw":"AP8=","fix":"AQI=","e":"B","a":[1,null,9223372036854775807],"m":{"k":"v"},"sub":null,"sub2":{"x":-7}}`

func TestFileRoundTrip(t *testing.T) {
	s := parse(t, wideText)
	want := wideValue()
	data, err := s.EncodeFile(&want)
	if err != nil {
		t.Fatal(err)
	}
	var got wideRow
	if err := avro.DecodeFile(data, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v", got)
	}
	// A reader with fewer fields and one that the file lacks.
	narrow := struct {
		L   int64   `avro:"l"`
		New *string `avro:"new"`
	}{New: ptr("kept")}
	if err := avro.DecodeFile(data, &narrow); err != nil || narrow.L != math.MinInt64 || *narrow.New != "kept" {
		t.Fatal(narrow, err)
	}
	for n := range data {
		if err := avro.DecodeFile(data[:n], &got); err == nil {
			t.Fatalf("cut to %d bytes", n)
		}
	}
	if err := avro.DecodeFile(append(bytes.Clone(data), 0), &got); !errors.Is(err, avro.ErrData) {
		t.Fatal(err)
	}
	other := bytes.Replace(data, []byte("Obj\x01"), []byte("Obj\x02"), 1)
	if err := avro.DecodeFile(other, &got); !errors.Is(err, avro.ErrData) {
		t.Fatal(err)
	}
}

func TestToJSON(t *testing.T) {
	s := parse(t, wideText)
	v := wideValue()
	datum, err := s.Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	text, err := avro.ToJSON(s, datum)
	if err != nil || string(text) != wideJSON || !json.Valid(text) {
		t.Fatalf("%s %v", text, err)
	}
	for n := range datum {
		if _, err := avro.ToJSON(s, datum[:n]); !errors.Is(err, avro.ErrData) {
			t.Fatalf("cut to %d: %v", n, err)
		}
		if _, err := avro.Skip(s.Type(), datum[:n]); !errors.Is(err, avro.ErrData) {
			t.Fatalf("cut to %d: %v", n, err)
		}
		if err := s.Unmarshal(datum[:n], &v); !errors.Is(err, avro.ErrData) {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
	if _, err := avro.ToJSON(s, append(bytes.Clone(datum), 0)); !errors.Is(err, avro.ErrData) {
		t.Fatal("a byte too many")
	}
}

func TestJSONOfScalars(t *testing.T) {
	decimal := `{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}`
	for _, c := range []struct {
		schema, datum, want string
	}{
		{decimal, "\x04\x04\xd2", "12.34"}, {decimal, "\x02\xff", "-0.01"}, {decimal, "\x00", "0.00"}, {decimal, "\x04\x00\x80", "1.28"},
		{`{"type":"fixed","name":"f","size":2,"logicalType":"decimal","precision":4,"scale":0}`, "\xff\xfe", "-2"},
		{`"double"`, string(avro.AppendDouble(nil, math.NaN())), `"NaN"`}, {`"double"`, string(avro.AppendDouble(nil, math.Inf(-1))), `"-Infinity"`},
		{`"float"`, string(avro.AppendFloat(nil, 0.1)), "0.1"}, {`"float"`, string(avro.AppendFloat(nil, float32(math.Inf(1)))), `"Infinity"`},
		{`{"type":"long","logicalType":"timestamp-millis"}`, "\x01", `"1969-12-31T23:59:59.999Z"`}, {`{"type":"int","logicalType":"date"}`, "\x01", `"1969-12-31"`},
		{`{"type":"long","logicalType":"local-timestamp-micros"}`, "\x02", `"1970-01-01T00:00:00.000001"`},
		{`{"type":"int","logicalType":"time-millis"}`, "\x04", `"00:00:00.002"`}, {`{"type":"long","logicalType":"other"}`, "\x04", "2"},
		{`"string"`, "\x06a\"\n", `"a\"\n"`}, {`"null"`, "", "null"}, {`{"type":"array","items":"int"}`, "\x00", "[]"},
		{`{"type":"array","items":"int"}`, "\x03\x04\x02\x04\x02\x06\x00", "[1,2,3]"}, {`{"type":"map","values":"int"}`, "\x00", "{}"},
		{`{"type":"long","logicalType":"timestamp-micros"}`, "\x02", `"1970-01-01T00:00:00.000001Z"`}, {`{"type":"record","name":"e","fields":[]}`, "", "{}"},
	} {
		text, err := avro.ToJSON(parse(t, c.schema), []byte(c.datum))
		if err != nil || string(text) != c.want {
			t.Errorf("%s %x: %s, want %s: %v", c.schema, c.datum, text, c.want, err)
		}
	}
}

// TestBoundsOfLists: a small datum must not make for endless work.
func TestBoundsOfLists(t *testing.T) {
	huge := string(avro.AppendLong(nil, 1<<40))
	for _, c := range []struct{ schema, datum string }{
		{`{"type":"array","items":"null"}`, huge}, {`{"type":"array","items":"int"}`, huge},
		{`{"type":"array","items":{"type":"record","name":"e","fields":[]}}`, huge}, {`{"type":"map","values":"null"}`, huge},
		{`"string"`, huge}, {`{"type":"array","items":"int"}`, string(avro.AppendLong(nil, math.MinInt64)) + "\x00"},
		{`{"type":"record","name":"l","fields":[{"name":"next","type":["null","l"]}]}`, strings.Repeat("\x02", 10_000)},
	} {
		s := parse(t, c.schema)
		if _, err := avro.ToJSON(s, []byte(c.datum)); !errors.Is(err, avro.ErrData) {
			t.Errorf("%s: %v", c.schema, err)
		}
		if _, err := avro.Skip(s.Type(), []byte(c.datum)); !errors.Is(err, avro.ErrData) {
			t.Errorf("%s: %v", c.schema, err)
		}
	}
}

func TestLongs(t *testing.T) {
	for shift := range 64 {
		for _, v := range []int64{1 << shift, -1 << shift, 1<<shift - 1, -(1 << shift) + 1} {
			b := avro.AppendLong(nil, v)
			if got, n := avro.ReadLong(append(b, 0xff)); got != v || n != len(b) {
				t.Fatalf("%d: %d of %d bytes", v, got, n)
			}
			if _, n := avro.ReadLong(b[:len(b)-1]); n != 0 {
				t.Fatalf("%d cut short", v)
			}
			datum, err := parse(t, `"long"`).Marshal(v)
			if err != nil || !bytes.Equal(datum, b) {
				t.Fatalf("%d: %x, the library has %x", v, b, datum)
			}
		}
	}
	if _, n := avro.ReadLong(bytes.Repeat([]byte{0xff}, 10)); n != 0 {
		t.Fatal("longer than 64 bits")
	}
}

func TestLogicalTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"int","logicalType":"date"}`: "int date", `{"type":"string","logicalType":"date"}`: "string", `{"type":"long","logicalType":"date"}`: "long",
		`{"type":"long","logicalType":"local-timestamp-micros"}`:                               "long local-timestamp-micros",
		`{"type":"bytes","logicalType":"decimal","precision":4}`:                               "bytes decimal(4,0)",
		`{"type":"bytes","logicalType":"decimal","precision":4,"scale":5}`:                     "bytes",
		`{"type":"bytes","logicalType":"decimal"}`:                                             "bytes",
		`{"type":"fixed","name":"f","size":2,"logicalType":"decimal","precision":4,"scale":1}`: "fixed(2) decimal(4,1)",
		`{"type":"fixed","name":"f","size":2,"logicalType":"decimal","precision":5,"scale":1}`: "fixed(2)",
		`{"type":"string","avro.java.string":"String"}`:                                        "string",
	} {
		if got := parse(t, text).Type().String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// FuzzParse: any text gives an error or a schema that can be walked.
func FuzzParse(f *testing.F) {
	f.Add(wide)
	f.Add(`["null",{"type":"array","items":"int"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := avro.Parse(text)
		if err != nil {
			if !errors.Is(err, avro.ErrSchema) {
				t.Fatal(err)
			}
			return
		}
		_ = s.Type().String()
		_, _ = avro.Skip(s.Type(), []byte{2, 2, 2, 2, 2, 2})
	})
}

func TestNamesAreNotShared(t *testing.T) {
	a := parse(t, `{"type":"record","name":"same","fields":[{"name":"x","type":"int"}]}`)
	b := parse(t, `{"type":"record","name":"same","fields":[{"name":"y","type":"string"}]}`)
	if a.Type().Field("x") == nil || b.Type().Field("y") == nil || b.Type().Field("x") != nil {
		t.Fatal("two schemas of one name")
	}
	const nested = `{"type":"record","name":"o","namespace":"a.b","fields":[{"name":"x","type":{"type":"record","name":"i","fields":[{"name":"y","type":["null","o"]}]}},` +
		`{"name":"z","type":{"type":{"type":"fixed","name":"c.f","size":2}}},{"name":"w","type":"a.b.i"}]}`
	o := parse(t, nested).Type()
	if o.Name != "a.b.o" || o.Fields[0].Type.Name != "a.b.i" || o.Fields[0].Type.Fields[0].Type.Branches[1] != o || o.Fields[1].Type.Name != "c.f" || o.Fields[2].Type != o.Fields[0].Type {
		t.Fatalf("%+v", o)
	}
	for _, bad := range []string{`["null","int","int"]`, `[]`, `["null",["int"]]`, `{"type":"enum","name":"e","symbols":[]}`, `{"type":"record","name":"r"}`,
		`{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`, `{"type":"record","name":"r","fields":[{"name":"a b","type":"int"}]}`,
		strings.Repeat(`{"type":"array","items":`, 300) + `"int"` + strings.Repeat("}", 300), `3`, "", "{", `"nothing"`, `{"type":"record","name":"1","fields":[]}`, `{"type":"array"}`, `{"type":"fixed","name":"f"}`} {
		if _, err := avro.Parse(bad); !errors.Is(err, avro.ErrSchema) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
