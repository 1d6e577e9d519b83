package hudi_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

func TestSchemaRoundTrip(t *testing.T) {
	s, err := hudi.NewSchema("my-docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "n", Kind: hudi.KindLong, Doc: `field "ñ"`},
		hudi.Column{Name: "tags", Kind: hudi.KindNested, Type: `{"type":"array","items":["null","string"]}`},
		hudi.Column{Name: "d", Kind: hudi.KindInt, Type: `{"type":"int","logicalType":"date"}`})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{s.Avro(), s.AvroWithMeta()} {
		back, err := hudi.ParseSchema(text)
		if err != nil {
			t.Fatal(err)
		}
		if !back.Same(s) || back.Name != "my_docs_record" || back.Namespace != "hoodie.my_docs" {
			t.Fatalf("round trip: %s\n%s", text, back.Avro())
		}
	}
}

// Notes inside nested columns come back to a schema that lost them.
func TestWithDocsInside(t *testing.T) {
	schema := func(typ string) *hudi.Schema {
		s, err := hudi.NewSchema("t", hudi.Column{Name: "n", Kind: hudi.KindNested, Type: typ})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const ours = `{"type":"array","items":["null",{"type":"record","name":"n","namespace":"hoodie.t.t_record","fields":[` +
		`{"name":"a_b","type":["null","string"],"doc":"field \"a b\", json","default":null},{"name":"c","type":["null","long"],"default":null}]}]}`
	for name, c := range map[string]struct{ theirs, want string }{
		"lost": {`{"items":["null",{"name":"n","namespace":"hoodie.t.t_record","fields":[{"name":"a_b","type":["null","string"],"doc":"","default":null},{"name":"c","type":["null","long"],"default":null}],"type":"record"}],"type":"array"}`, ours},
		"lost, and a member more": {`{"type":"array","items":["null",{"type":"record","name":"n","fields":[{"name":"a_b","type":["null","string"]},{"name":"d","type":["null","long"]}]}]}`,
			`{"items":["null",{"fields":[{"doc":"field \"a b\", json","name":"a_b","type":["null","string"]},{"name":"d","type":["null","long"]}],"name":"n","type":"record"}],"type":"array"}`},
		"of another kind": {`{"type":"map","values":"long"}`, `{"type":"map","values":"long"}`},
	} {
		got, err := schema(c.theirs).WithDocs(schema(ours))
		if err != nil {
			t.Fatal(err)
		}
		if got.Columns()[0].Type != c.want {
			t.Errorf("%s: %s\nwant %s", name, got.Columns()[0].Type, c.want)
		}
	}
}

func TestFileNames(t *testing.T) {
	for _, name := range []string{"0f1fc431-f37c-4ca0-94b7-d302faf35e8f-0_1-190-256_20261130004441686.parquet"} {
		n, err := hudi.ParseBaseFileName(name)
		if err != nil || n.String() != name {
			t.Fatalf("%v %v", n, err)
		}
	}
	for _, name := range []string{".0f1fc431-f37c-4ca0-94b7-d302faf35e8f-0_20261130004441686.log.12_1-190-256", ".a-0_20261130004441686.log.1_0-1-2.cdc"} {
		n, err := hudi.ParseLogFileName(name)
		if err != nil || n.String() != name {
			t.Fatalf("%v %v", n, err)
		}
	}
	for _, name := range []string{"", "x", "a_b_c.parquet", "a_b_1.orc", ".a_1.log.", ".a_1.log.x_1-1-1", "a_1.log.1_1-1-1", ".hoodie_partition_metadata"} {
		if _, err := hudi.ParseBaseFileName(name); err == nil {
			t.Errorf("%q is no base file", name)
		}
		if _, err := hudi.ParseLogFileName(name); err == nil {
			t.Errorf("%q is no log file", name)
		}
	}
}

func TestMerge(t *testing.T) {
	rec := func(order int64, natural bool) hudi.Record {
		return hudi.Record{Order: order, Natural: natural, Delete: natural}
	}
	for _, c := range []struct {
		stored, incoming hudi.Record
		incomingWins     bool
	}{
		{rec(1, false), rec(2, false), true},
		{rec(2, false), rec(2, false), true},
		{rec(3, false), rec(2, false), false},
		{rec(3, false), rec(0, true), true},
		{rec(0, true), rec(1, false), true},
	} {
		got := hudi.Merge(c.stored, c.incoming)
		if (got.Order == c.incoming.Order && got.Natural == c.incoming.Natural) != c.incomingWins {
			t.Errorf("%+v", c)
		}
	}
}
