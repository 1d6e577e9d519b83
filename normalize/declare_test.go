package normalize_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

func micros(t *testing.T, rfc string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, rfc)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

// One declared column v of each type: what it takes, and as what. A nil is a
// value that goes to _rescued as it is.
func TestDeclaredTypes(t *testing.T) {
	const day = 24 * 3600
	for _, c := range []struct {
		typ, format, value string
		want               any
	}{
		{"boolean", "", `true`, true},
		{"boolean", "", `"true"`, nil},
		{"boolean", "", `1`, nil},
		{"long", "", `9223372036854775807`, int64(9223372036854775807)},
		{"long", "", `9223372036854775808`, nil},
		{"long", "", `1.0`, nil},
		{"double", "", `1`, 1.0},
		{"double", "", `9007199254740993`, nil},
		{"double", "", `0.1`, 0.1},
		{"string", "", `"a\u0000b"`, "a\x00b"},
		{"string", "", `5`, nil},
		{"json", "", `5.0`, "5.0"},
		{"json", "", `"x\u00e9"`, `"x\u00e9"`},
		{"json", "", `[1, {"a":[]}]`, `[1, {"a":[]}]`},
		{"timestamp", "", `"2024-01-05T10:00:00Z"`, micros(t, "2024-01-05T10:00:00Z")},
		{"timestamp", "", `"2024-01-05T10:00:00.123456+01:00"`, micros(t, "2024-01-05T09:00:00.123456Z")},
		{"timestamp", "", `"2024-01-05T10:00:00.1234567Z"`, nil},
		{"timestamp", "", `"2024-01-05T10:00:00.1234560Z"`, micros(t, "2024-01-05T10:00:00.123456Z")},
		{"timestamp", "", `"2024-01-05T23:59:60Z"`, nil},
		{"timestamp", "", `"2024-02-30T10:00:00Z"`, nil},
		{"timestamp", "", `"2024-01-05 10:00:00"`, nil},
		{"timestamp", "", `"1899-12-31T23:59:59Z"`, nil},
		{"timestamp", "", `"1900-01-01T00:00:00Z"`, micros(t, "1900-01-01T00:00:00Z")},
		{"timestamp", "", `"9999-12-31T23:59:59.999999Z"`, micros(t, "9999-12-31T23:59:59.999999Z")},
		{"timestamp", "", `"9999-12-31T23:59:59-01:00"`, nil},
		{"timestamp", "", `1704448800`, nil},
		{"timestamp", "epoch-seconds", `1704448800`, micros(t, "2024-01-05T10:00:00Z")},
		{"timestamp", "epoch-seconds", `1704448800.25`, micros(t, "2024-01-05T10:00:00.25Z")},
		{"timestamp", "epoch-seconds", `1704448800.1234567`, nil},
		{"timestamp", "epoch-seconds", `1.7e9`, int64(1_700_000_000_000_000)},
		{"timestamp", "epoch-seconds", `-1.5`, int64(-1_500_000)},
		{"timestamp", "epoch-seconds", `9223372036854775807`, nil},
		{"timestamp", "epoch-seconds", `1e300`, nil},
		{"timestamp", "epoch-seconds", `"1704448800"`, nil},
		{"timestamp", "epoch-milliseconds", `1704448800001`, micros(t, "2024-01-05T10:00:00.001Z")},
		{"timestamp", "epoch-milliseconds", `0.001`, int64(1)},
		{"timestamp", "dd.MM.yyyy HH:mm", `"05.01.2024 10:00"`, micros(t, "2024-01-05T10:00:00Z")},
		{"timestamp", "dd.MM.yyyy HH:mm", `"31.02.2024 10:00"`, nil},
		{"timestamp", "dd.MM.yyyy HH:mm", `"5.1.2024 10:00"`, nil},
		{"timestamp", "dd.MM.yyyy HH:mm", `"05.01.2024 10:00:00"`, nil},
		{"timestamp", "dd.MM.yyyy HH:mm", `"05.01.2024 24:00"`, nil},
		{"timestamp", "yyyyMMdd'T'HHmmss.SSSX", `"20240105T100000.250+02:00"`, micros(t, "2024-01-05T08:00:00.25Z")},
		{"timestamp", "yyyyMMdd'T'HHmmss.SSSX", `"20240105T100000.250Z"`, micros(t, "2024-01-05T10:00:00.25Z")},
		{"date", "", `"2024-01-05"`, int32(micros(t, "2024-01-05T00:00:00Z") / 1e6 / day)},
		{"date", "", `"1969-12-31"`, int32(-1)},
		{"date", "", `"1582-10-14"`, nil},
		{"date", "", `"1582-10-15"`, int32(-141427)},
		{"date", "", `"9999-12-31"`, int32(2932896)},
		{"date", "", `"2024-01-05T00:00:00Z"`, nil},
		{"date", "", `"2023-02-29"`, nil},
		{"date", "dd/MM/yyyy", `"29\/02\/2024"`, int32(19782)},
		{"date", "", `20240105`, nil},
		{"decimal(5,2)", "", `1.5`, hexBytes("000096")},
		{"decimal(5,2)", "", `"1.50"`, hexBytes("000096")},
		{"decimal(5,2)", "", `-1.5`, hexBytes("ffff6a")},
		{"decimal(5,2)", "", `999.99`, hexBytes("01869f")},
		{"decimal(5,2)", "", `-999.99`, hexBytes("fe7961")},
		{"decimal(5,2)", "", `1000`, nil},
		{"decimal(5,2)", "", `1.005`, nil},
		{"decimal(5,2)", "", `1.0000`, hexBytes("000064")},
		{"decimal(5,2)", "", `15e-1`, hexBytes("000096")},
		{"decimal(5,2)", "", `1e400`, nil},
		{"decimal(5,2)", "", `1e-400`, nil},
		{"decimal(5,2)", "", `0.00`, hexBytes("000000")},
		{"decimal(5,2)", "", `" 1"`, nil},
		{"decimal(5,2)", "", `"1,5"`, nil},
		{"decimal(5,2)", "", `""`, nil},
		{"decimal(5,2)", "", `true`, nil},
		{"decimal(38,0)", "", `99999999999999999999999999999999999999`, hexBytes("4b3b4ca85a86c47a098a223fffffffff")},
		{"decimal(38,0)", "", `100000000000000000000000000000000000000`, nil},
	} {
		n := normalizer(t, normalize.Options{Declare: []normalize.Declared{{Name: "v", Type: c.typ, Format: c.format}}})
		r := normalized(t, n, bodies(t, `{"v":`+c.value+`}`, `{"v":null}`, `{}`), nil)
		rescued, _ := at(r, 0, "_rescued").(string)
		want := ""
		if c.want == nil {
			want = `{"v":` + c.value + `}`
		}
		if got := at(r, 0, "v"); got != c.want || rescued != want {
			t.Errorf("%s %s %s: %v (%T), rescued %q; want %v", c.typ, c.format, c.value, got, got, rescued, c.want)
		}
		if at(r, 1, "v") != nil || at(r, 2, "v") != nil || at(r, 1, "_rescued") != nil {
			t.Errorf("%s: a null is something", c.typ)
		}
	}
}

func hexBytes(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestDeclaredPaths(t *testing.T) {
	n := normalizer(t, normalize.Options{Declare: []normalize.Declared{
		{Name: "zip", Path: "address.zip", Type: "string"},
		{Name: "first", Path: "tags[0]", Type: "string"},
		{Name: "deep", Path: `["a.b"][""].x[1][0]`, Type: "long"},
		{Name: "city", Path: "address.city.name", Type: "string", Conflict: normalize.AsString},
		{Name: "late", Type: "double"},
	}})
	r := normalized(t, n, bodies(t,
		`{"address":{"zip":"1","city":{"name":"P"},"\u007aip":"2"},"tags":["t",2],"a.b":{"":{"x":[0,[7]]}},"zip":5}`,
		`{"address":{"zip":9,"city":[1]},"tags":[],"a.b":{"":{"x":[0]}},"n":1}`,
		`{"address":"x","tags":{"0":"t"}}`,
		`{"address":{"zip":"old"},"address":{"city":{"name":1.50}}}`,
		`{"address":{"zip":1,"zip":"new"}}`), nil)
	const want = `zip:string[path "address.zip", declared] first:string[path "tags[0]", declared] deep:long[path "[\"a.b\"][\"\"].x[1][0]", declared] ` +
		`city:string[path "address.city.name", mixed, declared] late:double[declared] address:string[mixed] tags:string[json] a_b:string[field "a.b", json] zip_2:long[field "zip"] n:long`
	if got := fields(t, r.Schema); got != want {
		t.Fatalf("columns\n%s\nwant\n%s", got, want)
	}
	for i, w := range []map[string]any{
		{"zip": "2", "first": "t", "deep": int64(7), "city": "P", "zip_2": int64(5), "_rescued": nil, "tags": `["t",2]`},
		{"zip": nil, "first": nil, "deep": nil, "city": nil, "_rescued": `{"_paths":{"address.zip":9}}`, "address": `{"zip":9,"city":[1]}`},
		{"zip": nil, "first": nil, "address": "x", "tags": `{"0":"t"}`, "_rescued": nil},
		{"zip": nil, "city": "1.50", "_rescued": nil},
		{"zip": "new", "_rescued": nil},
	} {
		for column, v := range w {
			if got := at(r, i, column); got != v {
				t.Errorf("row %d: %s = %v, want %v", i, column, got, v)
			}
		}
	}
	// As after a restart, and without a configuration: the table says it all.
	s, err := hudi.ParseSchema(r.Schema.Avro())
	if err != nil {
		t.Fatal(err)
	}
	again := normalized(t, normalizer(t, normalize.Options{}), bodies(t, `{"address":{"zip":"3"},"tags":["u"],"late":2}`), s)
	if at(again, 0, "zip") != "3" || at(again, 0, "first") != "u" || at(again, 0, "late") != 2.0 || !again.Schema.Same(s) {
		t.Errorf("after a restart: %v %v %v", at(again, 0, "zip"), at(again, 0, "first"), at(again, 0, "late"))
	}
}

func TestOthers(t *testing.T) {
	declare := []normalize.Declared{{Name: "a", Type: "long"}, {Name: "zip", Path: "address.zip", Type: "string"}}
	doc := `{"a":1,"b":2,"address":{"zip":"1"},"c":[1],"b":3,"p":"x"}`
	for others, want := range map[string]any{normalize.Rescued: `{"address":{"zip":"1"},"c":[1],"b":3,"p":"x"}`, normalize.Dropped: nil} {
		n := normalizer(t, normalize.Options{Declare: declare, Others: others, PartitionField: "p"})
		r := normalized(t, n, bodies(t, doc, `{"b":null,"c":null}`), nil)
		if got := fields(t, r.Schema); got != `a:long[declared] zip:string[path "address.zip", declared]` {
			t.Errorf("%s: columns %s", others, got)
		}
		if at(r, 0, "_rescued") != want || at(r, 0, "zip") != "1" || at(r, 0, "pt") != "x" || at(r, 1, "_rescued") != nil {
			t.Errorf("%s: rescued %v, zip %v", others, at(r, 0, "_rescued"), at(r, 0, "zip"))
		}
		if again := normalized(t, n, bodies(t, doc), r.Schema); at(again, 0, "_rescued") != want || !again.Schema.Same(r.Schema) {
			t.Errorf("%s: another time %v", others, at(again, 0, "_rescued"))
		}
		// The table had columns before: they go on.
		old := normalized(t, normalizer(t, normalize.Options{PartitionField: "p"}), bodies(t, `{"b":1}`), nil)
		if r := normalized(t, n, bodies(t, doc), old.Schema); at(r, 0, "b") != int64(3) || at(r, 0, "a") != int64(1) {
			t.Errorf("%s: a column of before: %v", others, at(r, 0, "b"))
		}
	}
}

func TestConflicts(t *testing.T) {
	first := []string{`{"v":1,"p":{"q":true}}`}
	for _, c := range []struct {
		policy, doc, fields, rescued string
		cells                        map[string]any
	}{
		{normalize.Rescue, `{"v":"x"}`, "v:long", `{"v":"x"}`, nil},
		{normalize.AsString, `{"v":"x"}`, `v:long v_string:string[field "v", mixed, beside]`, "", map[string]any{"v": nil, "v_string": "x"}},
		{normalize.AsString, `{"v":1.50}`, `v:long v_string:string[field "v", mixed, beside]`, "", map[string]any{"v_string": "1.50"}},
		{normalize.NewColumn, `{"v":1.5}`, `v:long v_double:double[field "v", beside]`, "", map[string]any{"v_double": 1.5}},
		{normalize.NewColumn, `{"v":[1]}`, `v:long v_json:string[field "v", json, beside]`, "", map[string]any{"v_json": "[1]"}},
		{normalize.NewColumn, `{"v":"x","v":true}`, `v:long v_boolean:boolean[field "v", beside]`, "", map[string]any{"v_boolean": true}},
		{normalize.NewColumn, `{"v":"x","v":null}`, `v:long`, "", nil},
		{normalize.NewColumn, `{"v":"x","v":7}`, `v:long`, "", map[string]any{"v": int64(7)}},
		{normalize.NewColumn, `{"v":1e400}`, `v:long`, `{"v":1e400}`, nil},
	} {
		n := normalizer(t, normalize.Options{Conflict: c.policy, Declare: []normalize.Declared{{Name: "v", Type: "long"}}, Others: normalize.Rescued})
		s := normalized(t, n, bodies(t, first[0]), nil).Schema
		for round := range 3 {
			r := normalized(t, n, bodies(t, c.doc, `{"v":2}`), s)
			s = r.Schema
			got := strings.ReplaceAll(fields(t, s), "v:long[declared]", "v:long")
			rescued, _ := at(r, 0, "_rescued").(string)
			// A value that was replaced may have made its column in some round.
			if got != c.fields && !strings.HasPrefix(got, c.fields+" ") {
				t.Errorf("%s %s round %d: %s, want %s", c.policy, c.doc, round, got, c.fields)
			}
			if rescued != c.rescued || at(r, 1, "v") != int64(2) {
				t.Errorf("%s %s round %d: rescued %q", c.policy, c.doc, round, rescued)
			}
			for column, want := range c.cells {
				if at(r, 0, column) != want {
					t.Errorf("%s %s round %d: %s = %v, want %v", c.policy, c.doc, round, column, at(r, 0, column), want)
				}
			}
		}
	}
}

// At creation a text takes what is of several kinds, unless each kind is to get
// a column of its own.
func TestConflictsAtCreation(t *testing.T) {
	docs := bodies(t, `{"v":1}`, `{"v":"x"}`, `{"v":2.5}`)
	for policy, want := range map[string]string{
		normalize.Rescue: "v:string[mixed]", normalize.AsString: "v:string[mixed]",
		normalize.NewColumn: `v:double v_string:string[field "v", beside]`,
	} {
		r := normalized(t, normalizer(t, normalize.Options{Conflict: policy}), docs, nil)
		if got := fields(t, r.Schema); got != want {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
		if policy == normalize.NewColumn && (at(r, 0, "v") != 1.0 || at(r, 1, "v") != nil || at(r, 1, "v_string") != "x") {
			t.Errorf("cells: %v %v", at(r, 0, "v"), at(r, 1, "v_string"))
		}
	}
	_, err := normalizer(t, normalize.Options{Conflict: normalize.Fail}).Normalize(docs, nil)
	if !errors.Is(err, normalize.ErrConflict) {
		t.Errorf("fail: %v", err)
	}
}

func TestFail(t *testing.T) {
	n := normalizer(t, normalize.Options{Declare: []normalize.Declared{
		{Name: "v", Type: "long", Conflict: normalize.Fail}, {Name: "w", Path: "o.w", Type: "string", Conflict: normalize.Fail, Required: true}}})
	s := normalized(t, n, bodies(t, `{"v":1,"o":{"w":"x"}}`, `{"o":{"w":"x"},"v":null}`), nil).Schema
	for doc, says := range map[string]string{
		`{"v":"secret","o":{"w":"x"}}`: `column "v" (v): a string where the column is long`,
		`{"v":1}`:                      `column "w" (o.w): no value`,
		`{"v":1,"o":{"w":null}}`:       `column "w" (o.w): no value`,
		`{"v":1,"o":{"w":5}}`:          `a number where the column is string`,
	} {
		_, err := n.Normalize(bodies(t, doc), s)
		if !errors.Is(err, normalize.ErrConflict) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", doc, err)
		}
	}
	// A deletion has no values, and a broken document is no conflict.
	r := normalized(t, n, batch(deletion(t, "a", ""), change(t, "b", `{"v":"x",`)), s)
	if len(r.Records) != 1 || len(r.Rejects) != 1 {
		t.Errorf("%d records, %d rejects", len(r.Records), len(r.Rejects))
	}
}

// A table that has a column otherwise is refused, in words that help.
func TestDeclaredOtherwise(t *testing.T) {
	at := func(ds ...normalize.Declared) *hudi.Schema {
		r := normalized(t, normalizer(t, normalize.Options{Declare: ds, Salt: "salt"}), bodies(t, `{"a":1,"s":"x","j":[1],"m":1}`, `{"m":"x"}`), nil)
		s, err := hudi.ParseSchema(r.Schema.Avro())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	type d = normalize.Declared
	for _, c := range []struct {
		have []d
		want d
		says string // empty: fine
	}{
		{nil, d{Name: "a", Type: "long"}, ""},
		{nil, d{Name: "a", Type: "double"}, "of type long there"},
		{nil, d{Name: "A", Type: "long"}, "upper and lower case"},
		{nil, d{Name: "a", Path: "b", Type: "long"}, "values of a there"},
		{nil, d{Name: "s", Type: "timestamp"}, "of type string"},
		{nil, d{Name: "s", Type: "string", Conflict: normalize.AsString}, "it is string there"},
		{nil, d{Name: "m", Type: "string", Conflict: normalize.AsString}, ""},
		{nil, d{Name: "m", Type: "string"}, "on_conflict string"},
		{nil, d{Name: "j", Type: "json"}, "it is json there"},
		{nil, d{Name: "s_at", Path: "s", Type: "timestamp"}, ""},
		{[]d{{Name: "t", Type: "timestamp"}}, d{Name: "t", Type: "timestamp", Format: "epoch-seconds"}, ""},
		{[]d{{Name: "t", Type: "timestamp"}}, d{Name: "t", Type: "date"}, "of type timestamp"},
		{[]d{{Name: "p", Type: "decimal(5,2)"}}, d{Name: "p", Type: "decimal(5,2)"}, ""},
		{[]d{{Name: "p", Type: "decimal(5,2)"}}, d{Name: "p", Type: "decimal(6,2)"}, "decimal(5,2)"},
		{[]d{{Name: "s", Mask: normalize.MaskHash}}, d{Name: "s", Mask: normalize.MaskRedact}, ""},
		{[]d{{Name: "s", Mask: normalize.MaskHash}}, d{Name: "s", Type: "string"}, "masked"},
		{[]d{{Name: "s", Mask: normalize.MaskHash}}, d{Name: "q", Type: "string"}, "no mask is declared"},
		{[]d{{Name: "s", Mask: normalize.MaskHash}}, d{Name: "s", Type: "string", Mask: normalize.MaskNone}, ""},
	} {
		n := normalizer(t, normalize.Options{Declare: []d{c.want}, Salt: "salt"})
		err := n.Check(at(c.have...))
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, normalize.ErrDeclared) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v, then %+v: %v", c.have, c.want, err)
		}
	}
}

func TestBadDeclarations(t *testing.T) {
	type d = normalize.Declared
	for _, c := range []d{
		{Name: "a"}, {Name: "a", Type: "int"}, {Name: "a", Type: "decimal"}, {Name: "a", Type: "decimal(39,0)"}, {Name: "a", Type: "decimal(2,3)"},
		{Name: "a", Type: "long(3)"}, {Name: "a", Type: "long", Format: "rfc3339"}, {Name: "a", Type: "timestamp", Format: "yyyy"},
		{Name: "a", Type: "timestamp", Format: "yyyy-MM-dd'T"}, {Name: "a", Type: "timestamp", Format: "yyyyMMddHHmmssSSSSSSS"},
		{Name: "a", Type: "timestamp", Format: "yyyyMMdd yyyy"}, {Name: "a", Type: "date", Format: "epoch-seconds"}, {Name: "a", Type: "date", Format: "yyyyMMddHH"},
		{Name: "a b", Type: "long"}, {Name: "_a", Type: "long"}, {Name: "_id", Type: "string"}, {Name: "pt", Type: "string"}, {Path: "x[0]", Type: "long"},
		{Name: "a", Path: "[0]", Type: "long"}, {Name: "a", Path: "x..y", Type: "long"}, {Name: "a", Path: "x[-1]", Type: "long"}, {Name: "a", Path: "x[a]", Type: "long"},
		{Name: "a", Path: `x["y"`, Type: "long"}, {Name: "a", Path: "x[0", Type: "long"}, {Name: "a", Path: "x]", Type: "long"}, {Name: "a", Path: "_id", Type: "string"},
		{Name: "a", Type: "long", Mask: "hash"}, {Name: "a", Mask: "blur"}, {Name: "a", Mask: "drop", Type: "string"}, {Name: "p", Mask: "redact"},
		{Name: "a", Type: "long", Conflict: "ignore"}, {Name: "a", Type: "long", Required: true}, {Name: "A", Type: "long"}, {Name: "x", Path: "m", Type: "string"},
		{Name: "x", Path: "*.x", Type: "string"}, {Name: "x", Path: "x[*]", Type: "string", Mask: "hash"}, {Name: "a", Path: "[*]", Mask: "hash"}, {Path: "*", Mask: "redact"},
		{Path: "*.x", Mask: "redact", Conflict: "string"}, {Path: "*.x", Mask: "none", Required: true}, {Path: "x*.y", Type: "long"},
	} {
		_, err := normalize.New(normalize.Options{Table: "t", PartitionField: "p", Salt: "s", Declare: []d{{Name: "a", Path: "zz", Type: "long"}, {Name: "m", Mask: "redact"}, c}})
		if c.Name == "a" && err == nil || c.Name != "a" && !errors.Is(err, normalize.ErrOptions) {
			t.Errorf("%+v: %v", c, err)
		}
		if c.Name == "a" {
			if _, err := normalize.New(normalize.Options{Table: "t", Salt: "s", Declare: []d{c}}); !errors.Is(err, normalize.ErrOptions) {
				t.Errorf("%+v alone: %v", c, err)
			}
		}
	}
	if _, err := normalize.New(normalize.Options{Table: "t", Declare: []d{{Name: "a", Mask: "hash"}}}); !errors.Is(err, normalize.ErrOptions) {
		t.Errorf("no salt: %v", err)
	}
}
