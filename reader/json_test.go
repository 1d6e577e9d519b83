package reader_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

func TestAppendJSON(t *testing.T) {
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "text", Kind: hudi.KindString}, hudi.Column{Name: "yes", Kind: hudi.KindBoolean},
		hudi.Column{Name: "i", Kind: hudi.KindInt}, hudi.Column{Name: "l", Kind: hudi.KindLong}, hudi.Column{Name: "f", Kind: hudi.KindFloat},
		hudi.Column{Name: "d", Kind: hudi.KindDouble}, hudi.Column{Name: "b", Kind: hudi.KindBytes},
		hudi.Column{Name: "tags", Kind: hudi.KindNested, Type: `{"type":"array","items":["null","string"]}`})
	if err != nil {
		t.Fatal(err)
	}
	p, err := reader.NewPrinter(s)
	if err != nil {
		t.Fatal(err)
	}
	tags := hudi.Nested([]byte{4, 2, 2, '"', 0, 0})
	r := hudi.Record{Key: hudi.Key{Record: "k\"\x00", Partition: "pt=a"}, CommitTime: "20260101000000000", CommitSeqno: "20260101000000000_0_1",
		Row: hudi.Row{hudi.String("\u2028<é>\n\xff"), hudi.Boolean(true), hudi.Int(-7), hudi.Long(math.MaxInt64), hudi.Float(0.1),
			hudi.Double(1e-7), hudi.Bytes([]byte{0, 255}), tags}}
	for _, c := range []struct {
		name string
		r    hudi.Record
		meta bool
		want string
	}{
		{"meta columns first", r, true, `{"_hoodie_commit_time":"20260101000000000","_hoodie_commit_seqno":"20260101000000000_0_1","_hoodie_record_key":"k\"\u0000","_hoodie_partition_path":"pt=a",` +
			"\"text\":\"\u2028<é>\\n\uFFFD\"" + `,"yes":true,"i":-7,"l":9223372036854775807,"f":0.1,"d":1e-07,"b":"AP8=","tags":["\"",null]}`},
		{"nulls", hudi.Record{Row: make(hudi.Row, s.Len())}, false, `{"text":null,"yes":null,"i":null,"l":null,"f":null,"d":null,"b":null,"tags":null}`},
		{"no JSON numbers", hudi.Record{Row: hudi.Row{4: hudi.Float(float32(math.NaN())), 5: hudi.Double(math.Inf(1)), 7: {}}}, false,
			`{"text":null,"yes":null,"i":null,"l":null,"f":"NaN","d":"Infinity","b":null,"tags":null}`},
		{"the other infinity, and large", hudi.Record{Row: hudi.Row{4: hudi.Float(3e38), 5: hudi.Double(math.Inf(-1)), 7: {}}}, false,
			`{"text":null,"yes":null,"i":null,"l":null,"f":3e+38,"d":"-Infinity","b":null,"tags":null}`},
		{"hard delete", hudi.Record{Key: hudi.Key{Record: "k"}, Delete: true}, false, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := p.AppendJSON([]byte("before"), &c.r, c.meta)
			if err != nil || string(got) != "before"+c.want {
				t.Fatalf("%v\ngot  %s\nwant %s", err, got, c.want)
			}
			if !json.Valid(got[len("before"):]) {
				t.Fatal("no JSON")
			}
		})
	}
	for name, row := range map[string]hudi.Row{"too short": {hudi.Int(1)}, "bad nested value": {7: hudi.Nested([]byte{9})}} {
		if got, err := p.AppendJSON([]byte("x"), &hudi.Record{Row: row}, false); err == nil || string(got) != "x" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestPrinterShowsLogicalTypes: what is stored as a number or as bytes is shown as
// what it means, in JSON and as plain text.
func TestPrinterShowsLogicalTypes(t *testing.T) {
	for _, c := range []struct {
		kind       hudi.Kind
		typ        string
		v          hudi.Value
		json, text string
	}{
		{hudi.KindLong, `{"type":"long","logicalType":"timestamp-micros"}`, hudi.Long(1_700_000_000_250_000), `"2023-11-14T22:13:20.25Z"`, "2023-11-14T22:13:20.25Z"},
		{hudi.KindLong, `{"type":"long","logicalType":"timestamp-micros"}`, hudi.Long(-1), `"1969-12-31T23:59:59.999999Z"`, "1969-12-31T23:59:59.999999Z"},
		{hudi.KindLong, `{"type":"long","logicalType":"timestamp-millis"}`, hudi.Long(1_700_000_000_000), `"2023-11-14T22:13:20Z"`, "2023-11-14T22:13:20Z"},
		{hudi.KindInt, `{"type":"int","logicalType":"date"}`, hudi.Int(-141427), `"1582-10-15"`, "1582-10-15"},
		{hudi.KindBytes, `{"type":"fixed","name":"f","size":2,"logicalType":"decimal","precision":4,"scale":2}`, hudi.Bytes([]byte{0xff, 0x85}), "-1.23", "-1.23"},
		{hudi.KindBytes, `{"type":"bytes","logicalType":"decimal","precision":4,"scale":0}`, hudi.Bytes([]byte{7}), "7", "7"},
		{hudi.KindBytes, `{"type":"fixed","name":"f","size":2}`, hudi.Bytes([]byte{0, 255}), `"AP8="`, "AP8="},
		{hudi.KindBytes, "", hudi.Bytes([]byte{0, 255}), `"AP8="`, "AP8="},
		{hudi.KindString, `{"type":"enum","name":"e","symbols":["a"]}`, hudi.String("a"), `"a"`, "a"},
		{hudi.KindNested, `{"type":"array","items":{"type":"int","logicalType":"date"}}`, hudi.Nested([]byte{4, 0, 2, 0}), `["1970-01-01","1970-01-02"]`, `["1970-01-01","1970-01-02"]`},
		{hudi.KindDouble, "", hudi.Double(math.NaN()), `"NaN"`, "NaN"},
		{hudi.KindString, "", hudi.String(`a"b`), `"a\"b"`, `a"b`},
		{hudi.KindBoolean, "", hudi.Value{}, "null", ""},
	} {
		s, err := hudi.NewSchema("docs", hudi.Column{Name: "c", Kind: c.kind, Type: c.typ})
		if err != nil {
			t.Fatal(err)
		}
		p, err := reader.NewPrinter(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.AppendJSON(nil, &hudi.Record{Row: hudi.Row{c.v}}, false); err != nil || string(got) != `{"c":`+c.json+"}" {
			t.Errorf("%s: %s, want %s: %v", c.typ, got, c.json, err)
		}
		if got, err := p.AppendText([]byte("x"), 0, c.v); err != nil || string(got) != "x"+c.text {
			t.Errorf("%s: text %s, want %s: %v", c.typ, got, c.text, err)
		}
	}
}
