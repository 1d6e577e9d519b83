package normalize_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// datum shows a nested cell by its type alone, as JSON with nulls.
func datum(t *testing.T, c *hudi.Column, v hudi.Value) string {
	t.Helper()
	var typ any
	if err := json.Unmarshal([]byte(c.AvroType()), &typ); err != nil {
		t.Fatal(err)
	}
	if v.IsNull() {
		return "null"
	}
	d := &datumReader{t: t, b: v.Raw()}
	text := d.value(typ)
	if len(d.b) > 0 {
		t.Fatalf("%d bytes behind %s", len(d.b), text)
	}
	return text
}

type datumReader struct {
	t *testing.T
	b []byte
}

func (d *datumReader) long() int64 {
	i, n := binary.Varint(d.b)
	if n <= 0 {
		d.t.Fatal("cut short")
	}
	d.b = d.b[n:]
	return i
}

func (d *datumReader) value(typ any) string {
	switch typ := typ.(type) {
	case []any:
		return d.value(typ[d.long()])
	case map[string]any:
		var parts []string
		if typ["type"] == "array" {
			for n := d.long(); n != 0; n = d.long() {
				for range n {
					parts = append(parts, d.value(typ["items"]))
				}
			}
			return "[" + strings.Join(parts, ",") + "]"
		}
		for _, f := range typ["fields"].([]any) {
			m := f.(map[string]any)
			parts = append(parts, fmt.Sprintf("%s:%s", m["name"], d.value(m["type"])))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	switch typ {
	case "null":
		return "null"
	case "boolean":
		b := d.b[0]
		d.b = d.b[1:]
		return strconv.FormatBool(b == 1)
	case "long":
		return strconv.FormatInt(d.long(), 10)
	case "double":
		f := math.Float64frombits(binary.LittleEndian.Uint64(d.b))
		d.b = d.b[8:]
		return fmt.Sprintf("%gd", f)
	}
	n := d.long()
	s := string(d.b[:n])
	d.b = d.b[n:]
	return strconv.Quote(s)
}

// nestedAt is a nested cell of a result.
func nestedAt(t *testing.T, r normalize.Result, record int, column string) string {
	t.Helper()
	i, ok := r.Schema.Lookup(column)
	if !ok {
		t.Fatalf("no column %s in %s", column, columns(r.Schema))
	}
	return datum(t, &r.Schema.Columns()[i], r.Records[record].Row[i])
}

// typeOf is a column's type in words.
func typeOf(t *testing.T, s *hudi.Schema, column string) string {
	t.Helper()
	parsed, err := hudi.ParseSchema(s.Avro())
	if err != nil {
		t.Fatal(err)
	}
	if !parsed.Same(s) {
		t.Fatalf("%s is read back as %s", s.Avro(), parsed.Avro())
	}
	i, ok := parsed.Lookup(column)
	if !ok {
		t.Fatalf("no column %s in %s", column, columns(s))
	}
	return normalize.TypeOf(&parsed.Columns()[i])
}

func nested() normalize.Options { return normalize.Options{Nested: normalize.NestedStruct} }

// TestNestedTypes: what a field becomes by the values seen, as a sample and as the
// first batch.
func TestNestedTypes(t *testing.T) {
	wide := func(n int) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(`"k%d":1`, i))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{`[1,2]`, `[]`, `[3]`}, "array<long>"},
		{[]string{`[1,2]`, `[null,3]`}, "json"},
		{[]string{`[1,1e400]`}, "json"},
		{[]string{`[1,2.5]`}, "array<double>"},
		{[]string{`["a"]`}, "array<string>"},
		{[]string{`[[1],[2,3]]`}, "array<array<long>>"},
		{[]string{`[1,"a"]`}, "json"},
		{[]string{`[1]`, `["a"]`}, "json"},
		{[]string{`[[1],["a"]]`}, "json"},
		{[]string{`[]`}, "json"},
		{[]string{`[null]`}, "json"},
		{[]string{`[1e400]`}, "json"},
		{[]string{`{}`}, "json"},
		{[]string{`{"a":null}`}, "json"},
		{[]string{`{"a":1}`, `[1]`}, "json"},
		{[]string{`{"a":1}`, `1`}, "string, with on_conflict string"},
		{[]string{`{"a":1,"b":"x"}`, `{"c":[true],"a":2.5}`}, "struct<a: double, b: string, c: array<boolean>>"},
		{[]string{`{"a":1}`, `{"a":"x"}`}, "struct<a: string>"},
		{[]string{`{"a":[1]}`, `{"a":{"b":1}}`}, "struct<a: json>"},
		{[]string{`[{"a":1},{"b":{"c":"x"}}]`}, "array<struct<a: long, b: struct<c: string>>>"},
		{[]string{`[{"a":1},[1]]`}, "json"},
		{[]string{`[{"a":1},{}]`}, "array<struct<a: long>>"},
		{[]string{`[{}]`}, "json"},
		{[]string{`{"late fee":1,"late_fee":2,"LATE_FEE":3,"9":4,"":5,"element":6,"_hoodie_x":7}`},
			"struct<late_fee: long, late_fee_2: long, LATE_FEE_3: long, _9: long, _: long, element_2: long, hoodie_x: long>"},
		{[]string{`{"a":{"b":{"c":{"d":{"e":1}}}}}`}, "struct<a: struct<b: struct<c: struct<d: struct<e: long>>>>>"},
		{[]string{`{"a":{"b":{"c":{"d":{"e":[1]}}}}}`}, "struct<a: struct<b: struct<c: struct<d: struct<e: json>>>>>"},
		{[]string{`[[[[[[1]]]]]]`}, "json"},
		{[]string{wide(50)}, "struct<k0: long, "},
		{[]string{wide(51)}, "json"},
		{[]string{`{"a":` + wide(51) + `}`}, "struct<a: json>"},
	} {
		docs := make([]string, len(c.values))
		for i, v := range c.values {
			docs[i] = `{"f":` + v + `}`
		}
		b := bodies(t, docs...)
		n := normalizer(t, nested())
		survey, err := n.Survey()
		if err != nil {
			t.Fatal(err)
		}
		survey.Add(b)
		sampled, err := survey.Schema()
		if err != nil {
			t.Fatal(err)
		}
		r := normalized(t, n, b, nil)
		for how, s := range map[string]*hudi.Schema{"sample": sampled, "batch": r.Schema} {
			if got := typeOf(t, s, "f"); !strings.HasPrefix(got, c.want) {
				t.Errorf("%v: %s: %s, want %s", c.values, how, got, c.want)
			}
		}
		if again := normalized(t, n, b, sampled); !again.Schema.Same(sampled) {
			t.Errorf("%v: the sample's columns do not take the sample: %s, then %s", c.values, sampled.Avro(), again.Schema.Avro())
		}
	}
}

// Users' data as names: many, and none of them common.
func TestNestedKeysAreData(t *testing.T) {
	var users, names []string
	for i := range 10 {
		users = append(users, fmt.Sprintf(`{"f":{"user%d":1}}`, i))
		names = append(names, fmt.Sprintf(`{"f":{"id":1,"opt%d":1}}`, i))
	}
	n := normalizer(t, nested())
	if got := typeOf(t, normalized(t, n, bodies(t, users...), nil).Schema, "f"); got != "json" {
		t.Errorf("users: %s", got)
	}
	if got := typeOf(t, normalized(t, n, bodies(t, names...), nil).Schema, "f"); !strings.HasPrefix(got, "struct<id: long, opt0: long") {
		t.Errorf("names: %s", got)
	}
}

// TestNestedCells: what fits is in the cell, what does not is in _rescued by its
// path, and the type of a later table takes it on.
func TestNestedCells(t *testing.T) {
	first := bodies(t, `{"f":{"a":1,"late fee":"x","l":[1,2],"s":[{"p":true}]}}`)
	for _, c := range []struct{ value, cell, rescued string }{
		{`{"a":2,"late fee":"é\n","l":[],"s":[]}`, `{a:2,late_fee:"é\n",l:[],s:[]}`, ""},
		{`{"s":[{"p":false},{}],"l":[3]}`, `{a:null,late_fee:null,l:[3],s:[{p:false},{p:null}]}`, ""},
		{`{"s":[{"p":1},null,{}],"l":[null,3]}`, `{a:null,late_fee:null,l:null,s:null}`, `{"_paths":{"f.s":[{"p":1},null,{}],"f.l":[null,3]}}`},
		{`{}`, `{a:null,late_fee:null,l:null,s:null}`, ""},
		{`{"a":1.0,"l":[1,"x",{"y":1}]}`, `{a:null,late_fee:null,l:null,s:null}`, `{"_paths":{"f.a":1.0,"f.l":[1,"x",{"y":1}]}}`},
		{`{"a":"x","a":3}`, `{a:3,late_fee:null,l:null,s:null}`, ""},
		{`{"s":{"p":true},"late fee":[1]}`, `{a:null,late_fee:null,l:null,s:null}`, `{"_paths":{"f.s":{"p":true},"f.late fee":[1]}}`},
		{`{"s":[{"p":1}]}`, `{a:null,late_fee:null,l:null,s:[{p:null}]}`, `{"_paths":{"f.s[0].p":1}}`},
		{`"text"`, "null", `{"f":"text"}`},
		{`[1]`, "null", `{"f":[1]}`},
		{`null`, "null", ""},
		{`{"s":[` + strings.Repeat(`{"p":1},`, 40) + `{}]}`, `{a:null,late_fee:null,l:null,s:[` + strings.Repeat("{p:null},", 40) + `{p:null}]}`, `{"f":{"s":[` + strings.Repeat(`{"p":1},`, 40) + `{}]}}`},
		{`{"s":[` + strings.Repeat(`{},`, 50_000) + `{}]}`, "null", `{"f":{"s":[` + strings.Repeat(`{},`, 50_000) + `{}]}}`},
	} {
		n := normalizer(t, nested())
		s := normalized(t, n, first, nil).Schema
		r := normalized(t, n, bodies(t, `{"f":`+c.value+`}`), s)
		rescued := ""
		if text := at(r, 0, "_rescued"); text != nil {
			rescued = text.(string)
		}
		if got := nestedAt(t, r, 0, "f"); got != c.cell || rescued != c.rescued || !r.Schema.Same(s) {
			t.Errorf("%.200s:\n%.200s, rescued %.200s; want\n%.200s, rescued %.200s", c.value, got, rescued, c.cell, c.rescued)
		}
	}
}

// A field that comes twice counts as it stands last.
func TestNestedTwice(t *testing.T) {
	n := normalizer(t, nested())
	s := normalized(t, n, bodies(t, `{"f":{"a":1}}`), nil).Schema
	r := normalized(t, n, bodies(t, `{"f":{"a":1,"z":2},"f":{"a":3}}`, `{"f":{"a":1},"f":null}`, `{"f":{"a":1},"f":"x"}`, `{"f":"x","f":{"a":4}}`), s)
	for i, want := range []string{"{a:3}", "null", "null", "{a:4}"} {
		if got := nestedAt(t, r, i, "f"); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if got := at(r, 2, "_rescued"); got != `{"f":"x"}` || at(r, 3, "_rescued") != nil {
		t.Errorf("rescued %v, %v", got, at(r, 3, "_rescued"))
	}
}

// TestNestedGrows: new members come at the end of their struct, within the limits,
// and all rows of the batch are of the grown type.
func TestNestedGrows(t *testing.T) {
	o := nested()
	o.NestedWidth, o.NestedDepth = 4, 2
	n := normalizer(t, o)
	s := normalized(t, n, bodies(t, `{"f":{"a":1,"s":{"x":1}},"g":[{"p":1}],"n":1}`), nil).Schema
	r := normalized(t, n, bodies(t, `{"f":{"a":1}}`, `{"f":{"b":{"deep":{"er":1}},"s":{"y":"t"},"A":2}}`, `{"g":[{"q":true},{"p":2}]}`, `{"f":{"c":1,"d":2}}`), s)
	for column, want := range map[string]string{"f": "struct<a: long, s: struct<x: long, y: string>, b: struct<deep: json>, A_2: long>", "g": "array<struct<p: long, q: boolean>>", "n": "long"} {
		if got := typeOf(t, r.Schema, column); got != want {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
	for i, want := range []string{`{a:1,s:null,b:null,A_2:null}`, `{a:null,s:{x:null,y:"t"},b:{deep:"{\"er\":1}"},A_2:2}`, "null", `{a:null,s:null,b:null,A_2:null}`} {
		if got := nestedAt(t, r, i, "f"); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if got := nestedAt(t, r, 2, "g"); got != `[{p:null,q:true},{p:2,q:null}]` {
		t.Error(got)
	}
	for i, want := range []any{nil, nil, nil, `{"_paths":{"f.c":1,"f.d":2}}`} {
		if got := at(r, i, "_rescued"); got != want {
			t.Errorf("%d: rescued %v, want %v", i, got, want)
		}
	}
	if r.Stats.Rescued != 2 || r.Stats.OverBudget != 2 {
		t.Errorf("%+v", r.Stats)
	}
	// Not asked for any more: the columns stay, and take what they have a place for.
	plain := normalized(t, normalizer(t, normalize.Options{}), bodies(t, `{"f":{"a":5,"z":1},"h":{"i":1}}`), r.Schema)
	if got := nestedAt(t, plain, 0, "f"); got != `{a:5,s:null,b:null,A_2:null}` || at(plain, 0, "_rescued") != `{"_paths":{"f.z":1}}` || typeOf(t, plain.Schema, "h") != "json" {
		t.Errorf("%s, rescued %v, h %s", got, at(plain, 0, "_rescued"), typeOf(t, plain.Schema, "h"))
	}
}

// The scalars inside count as columns.
func TestNestedBudget(t *testing.T) {
	o := nested()
	o.MaxColumns = 4
	n := normalizer(t, o)
	r := normalized(t, n, bodies(t, `{"f":{"a":1,"b":1,"c":1},"g":{"x":1,"y":2}}`), nil)
	if f, g := typeOf(t, r.Schema, "f"), typeOf(t, r.Schema, "g"); f != "struct<a: long, b: long, c: long>" || g != "json" {
		t.Errorf("%s, %s", f, g)
	}
	r = normalized(t, n, bodies(t, `{"f":{"d":1},"h":1}`), r.Schema)
	if got := at(r, 0, "_rescued"); got != `{"_paths":{"f.d":1},"h":1}` && got != `{"h":1,"_paths":{"f.d":1}}` {
		t.Error(got)
	}
}

// A document that turns out broken leaves nothing behind.
func TestNestedBroken(t *testing.T) {
	n := normalizer(t, nested())
	s := normalized(t, n, bodies(t, `{"f":{"a":1}}`), nil).Schema
	r := normalized(t, n, bodies(t, `{"f":{"a":1}}`, `{"f":{"a":2,"z":1},`, `{"f":{"a":3}}`), s)
	if len(r.Rejects) != 1 || nestedAt(t, r, 0, "f") != "{a:1}" || nestedAt(t, r, 1, "f") != "{a:3}" || !r.Schema.Same(s) {
		t.Errorf("%d rejects, %s, %s", len(r.Rejects), nestedAt(t, r, 0, "f"), nestedAt(t, r, 1, "f"))
	}
}

// Policies see to a value as a whole; for parts there is _rescued, and fail.
func TestNestedConflicts(t *testing.T) {
	for policy, want := range map[string]string{normalize.AsString: "f_string", normalize.NewColumn: "f_json"} {
		o := nested()
		o.Conflict = policy
		n := normalizer(t, o)
		s := normalized(t, n, bodies(t, `{"f":{"a":1},"l":[1]}`), nil).Schema
		r := normalized(t, n, bodies(t, `{"f":[1]}`, `{"f":{"a":"x","new":1}}`, `{"l":[1,"x"]}`, `{"l":[2]}`), s)
		if at(r, 0, want) != "[1]" || at(r, 2, strings.Replace(want, "f_", "l_", 1)) != `[1,"x"]` || at(r, 1, "_rescued") != `{"_paths":{"f.a":"x"}}` || nestedAt(t, r, 0, "f") != "null" {
			t.Errorf("%s: %v, %v", policy, at(r, 0, want), at(r, 1, "_rescued"))
		}
	}
	o := nested()
	o.Conflict = normalize.Fail
	n := normalizer(t, o)
	s := normalized(t, n, bodies(t, `{"f":{"a":1}}`), nil).Schema
	for _, doc := range []string{`{"f":{"a":"secret"}}`, `{"f":"secret"}`} {
		_, err := n.Normalize(bodies(t, doc), s)
		if !errors.Is(err, normalize.ErrConflict) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", doc, err)
		}
	}
	if r := normalized(t, n, bodies(t, `{"f":{"new":1}}`), s); typeOf(t, r.Schema, "f") != "struct<a: long, new: long>" {
		t.Error(typeOf(t, r.Schema, "f"))
	}
}

// Masks come first: a struct's member holds the mask.
func TestNestedMasks(t *testing.T) {
	o := nested()
	o.Salt = "s"
	o.Declare = []normalize.Declared{{Path: "card.number", Mask: normalize.MaskDrop}, {Name: "holder", Path: "card.holder", Mask: normalize.MaskRedact}}
	r := normalized(t, normalizer(t, o), bodies(t, `{"card":{"number":4111,"holder":"Ann","brand":"visa"}}`), nil)
	if got := nestedAt(t, r, 0, "card"); got != `{holder:"[redacted]",brand:"visa"}` || at(r, 0, "holder") != "[redacted]" {
		t.Errorf("%s, %v", got, at(r, 0, "holder"))
	}
}

// Columns that another writer made of types that we do not make take nothing.
func TestNestedOfOthers(t *testing.T) {
	s := normalized(t, normalizer(t, nested()), bodies(t, `{"n":1}`), nil).Schema
	for _, typ := range []string{`{"type":"map","values":"long"}`, `{"type":"array","items":"long"}`, `{"type":"array","items":["null","float"]}`,
		`{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}`, `{"type":"array","items":["null",{"type":"long","logicalType":"timestamp-micros"}]}`} {
		other, err := s.Extend(hudi.Column{Name: "f", Kind: hudi.KindNested, Type: typ})
		if err != nil {
			t.Fatal(err)
		}
		r := normalized(t, normalizer(t, nested()), bodies(t, `{"f":[1]}`), other)
		if at(r, 0, "f") != nil || at(r, 0, "_rescued") != `{"f":[1]}` {
			t.Errorf("%s: %v, rescued %v", typ, at(r, 0, "f"), at(r, 0, "_rescued"))
		}
	}
	// Unions with null last, as some write them, are filled.
	other, err := s.Extend(hudi.Column{Name: "f", Kind: hudi.KindNested, Type: `{"type":"record","name":"x.r","fields":[{"name":"a","type":[{"type":"string","avro.java.string":"String"},"null"]}]}`})
	if err != nil {
		t.Fatal(err)
	}
	r := normalized(t, normalizer(t, nested()), bodies(t, `{"f":{"a":"x","b":1}}`, `{"f":{}}`), other)
	if nestedAt(t, r, 0, "f") != `{a:"x",b:1}` || nestedAt(t, r, 1, "f") != `{a:null,b:null}` {
		t.Errorf("%s, %s", nestedAt(t, r, 0, "f"), nestedAt(t, r, 1, "f"))
	}
}

func TestNestedOptions(t *testing.T) {
	for _, o := range []normalize.Options{{Nested: "avro"}, {NestedDepth: -1}, {NestedDepth: 16}, {NestedWidth: -1}} {
		o.Table = "docs"
		if _, err := normalize.New(o); !errors.Is(err, normalize.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
