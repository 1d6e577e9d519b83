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
			got, err := reader.AppendJSON([]byte("before"), s, &c.r, c.meta)
			if err != nil || string(got) != "before"+c.want {
				t.Fatalf("%v\ngot  %s\nwant %s", err, got, c.want)
			}
			if !json.Valid(got[len("before"):]) {
				t.Fatal("no JSON")
			}
		})
	}
	for name, row := range map[string]hudi.Row{"too short": {hudi.Int(1)}, "bad nested value": {7: hudi.Nested([]byte{9})}} {
		if got, err := reader.AppendJSON([]byte("x"), s, &hudi.Record{Row: row}, false); err == nil || string(got) != "x" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
