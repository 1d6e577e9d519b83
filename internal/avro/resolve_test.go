package avro_test

import (
	"errors"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/avro"
)

func record(fields string) string { return `{"type":"record","name":"r","fields":[` + fields + `]}` }

func TestResolve(t *testing.T) {
	for name, c := range map[string]struct {
		writer, reader string
		value          any
		want           string // JSON
	}{
		"same":             {record(`{"name":"a","type":"int"}`), record(`{"name":"a","type":"int"}`), map[string]any{"a": 3}, `{"a":3}`},
		"order of union":   {`["string","null"]`, `["null","string"]`, map[string]any{"string": "x"}, `"x"`},
		"null in union":    {`["string","null"]`, `["null","string"]`, nil, "null"},
		"into union":       {`"int"`, `["null","long"]`, 3, "3"},
		"out of union":     {`["null","int"]`, `"long"`, map[string]any{"int": 3}, "3"},
		"int to double":    {`"int"`, `"double"`, 3, "3"},
		"long to float":    {`"long"`, `"float"`, int64(3), "3"},
		"float to double":  {`"float"`, `"double"`, float32(0.5), "0.5"},
		"string to bytes":  {`"string"`, `"bytes"`, "x", `"eA=="`},
		"fields by name":   {record(`{"name":"a","type":"int"},{"name":"b","type":"string"}`), record(`{"name":"b","type":"string"},{"name":"n","type":["null","int"]},{"name":"a","type":"long"}`), map[string]any{"a": 3, "b": "x"}, `{"b":"x","n":null,"a":3}`},
		"null comes last":  {record(`{"name":"a","type":"int"}`), record(`{"name":"n","type":["int","null"]},{"name":"a","type":"int"}`), map[string]any{"a": 3}, `{"n":null,"a":3}`},
		"names of records": {`["null",{"type":"record","name":"one","fields":[{"name":"a","type":"int"}]}]`, `["null",{"type":"record","name":"two","fields":[{"name":"a","type":"long"}]}]`, map[string]any{"one": map[string]any{"a": 1}}, `{"a":1}`},
		"items":            {`{"type":"array","items":"int"}`, `{"type":"array","items":["null","long"]}`, []any{1, 2, 3}, "[1,2,3]"},
		"no items":         {`{"type":"array","items":"int"}`, `{"type":"array","items":["null","long"]}`, []any{}, "[]"},
		"map":              {`{"type":"map","values":"int"}`, `{"type":"map","values":"double"}`, map[string]any{"k": 2}, `{"k":2}`},
		"enum":             {`{"type":"enum","name":"e","symbols":["A","B"]}`, `{"type":"enum","name":"e","symbols":["B","C"]}`, "B", `"B"`},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := parse(t, c.writer), parse(t, c.reader)
			datum, err := w.Marshal(c.value)
			if err != nil {
				t.Fatal(err)
			}
			rs, err := avro.NewResolver(w.Type(), r.Type())
			if err != nil {
				t.Fatal(err)
			}
			if rs.Same() != (name == "same") {
				t.Fatalf("same: %v", rs.Same())
			}
			out, rest, err := rs.Append([]byte("x"), append(datum, 9))
			if err != nil || out[0] != 'x' || len(rest) != 1 || rest[0] != 9 {
				t.Fatalf("%x %x %v", out, rest, err)
			}
			if text, err := avro.ToJSON(r, out[1:]); err != nil || string(text) != c.want {
				t.Fatalf("%s %v", text, err)
			}
			for n := range datum {
				if _, _, err := rs.Append(nil, datum[:n]); !errors.Is(err, avro.ErrData) {
					t.Fatalf("cut to %d: %v", n, err)
				}
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	for name, c := range map[string]struct{ writer, reader string }{
		"narrower":       {`"long"`, `"int"`},
		"other kind":     {`"string"`, `"int"`},
		"other unit":     {`{"type":"long","logicalType":"timestamp-millis"}`, `{"type":"long","logicalType":"timestamp-micros"}`},
		"other scale":    {`{"type":"bytes","logicalType":"decimal","precision":9,"scale":1}`, `{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`},
		"missing field":  {record(``), record(`{"name":"a","type":"int"}`)},
		"field type":     {record(`{"name":"a","type":"string"}`), record(`{"name":"a","type":"int"}`)},
		"items":          {`{"type":"array","items":"string"}`, `{"type":"array","items":"int"}`},
		"list as record": {`{"type":"array","items":"string"}`, record(``)},
		"no branch":      {`"string"`, `["null","int"]`},
		"size of fixed":  {`{"type":"fixed","name":"f","size":2}`, `{"type":"fixed","name":"f","size":3}`},
	} {
		if _, err := avro.NewResolver(parse(t, c.writer).Type(), parse(t, c.reader).Type()); !errors.Is(err, avro.ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What only some values have is an error when such a value comes.
	for name, c := range map[string]struct {
		writer, reader string
		value          any
	}{
		"null":   {`["null","int"]`, `"int"`, nil},
		"branch": {`["null","int","string"]`, `["null","int"]`, map[string]any{"string": "x"}},
		"symbol": {`{"type":"enum","name":"e","symbols":["A","B"]}`, `{"type":"enum","name":"e","symbols":["B"]}`, "A"},
	} {
		w := parse(t, c.writer)
		rs, err := avro.NewResolver(w.Type(), parse(t, c.reader).Type())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		datum, err := w.Marshal(c.value)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := rs.Append(nil, datum); !errors.Is(err, avro.ErrData) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResolveRecursive(t *testing.T) {
	w := parse(t, record(`{"name":"v","type":"int"},{"name":"next","type":["null","r"]}`))
	r := parse(t, record(`{"name":"next","type":["null","r"]},{"name":"v","type":"long"}`))
	rs, err := avro.NewResolver(w.Type(), r.Type())
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := rs.Append(nil, []byte{2, 2, 4, 0})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := avro.ToJSON(r, out); err != nil || string(text) != `{"next":{"next":null,"v":2},"v":1}` {
		t.Fatalf("%s %v", text, err)
	}
}

func FuzzResolve(f *testing.F) {
	w, r := parse(f, wideText), parse(f, record(`{"name":"l","type":"double"},{"name":"new","type":["null","int"]},{"name":"a","type":{"type":"array","items":["long","null"]}}`))
	rs, err := avro.NewResolver(w.Type(), r.Type())
	if err != nil {
		f.Fatal(err)
	}
	v := wideValue()
	datum, err := w.Marshal(&v)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(datum)
	f.Fuzz(func(t *testing.T, b []byte) {
		rest, skipErr := avro.Skip(w.Type(), b)
		out, rest2, err := rs.Append(nil, b)
		if (err == nil) != (skipErr == nil) || len(rest) != len(rest2) {
			t.Fatalf("skip: %v, resolve: %v", skipErr, err)
		}
		if err != nil {
			return
		}
		if rest, err := avro.Skip(r.Type(), out); err != nil || len(rest) != 0 {
			t.Fatalf("what comes out is no datum of the reader's: %v", err)
		}
		_, _, _ = avro.AppendJSON(nil, w.Type(), b) // may fail on text that is no UTF-8, must not panic
	})
}

func FuzzDecodeFile(f *testing.F) {
	v := wideValue()
	data, err := parse(f, wideText).EncodeFile(&v)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, b []byte) {
		var row wideRow
		if err := avro.DecodeFile(b, &row); err != nil && !errors.Is(err, avro.ErrData) && !errors.Is(err, avro.ErrSchema) {
			t.Fatal(err)
		}
	})
}
