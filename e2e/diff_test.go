package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestDiffFindsEveryKindOfDifference(t *testing.T) {
	base := func() row {
		return row{colPartition: "p", colKey: "a", "n": int64(1), "x": 0.5, "s": "text", "z": nil}
	}
	with := func(column string, v any) row {
		r := base()
		r[column] = v
		return r
	}
	without := func(column string) row {
		r := base()
		delete(r, column)
		return r
	}
	tests := []struct {
		name   string
		got    []row
		ignore []string
		want   string // empty: equal
	}{
		{name: "equal", got: []row{base()}},
		{name: "missing row", got: nil, want: `"p|a" is missing`},
		{name: "row too many", got: []row{base(), with(colKey, "b")}, want: `"p|b" is not expected`},
		{name: "same key in another partition", got: []row{with(colPartition, "q")}, want: `"q|a" is not expected`},
		{name: "key twice", got: []row{base(), base()}, want: "occurs 2 times; want 1"},
		{name: "long is no double", got: []row{with("n", 1.0)}, want: "n = double 1; want long 1"},
		{name: "value", got: []row{with("s", "texT")}, want: `s = "texT"; want "text"`},
		{name: "null is not empty", got: []row{with("z", "")}, want: `z = ""; want null`},
		{name: "column lost", got: []row{without("z")}, want: "column z is missing"},
		{name: "column too many", got: []row{with("more", nil)}, want: "column more is not expected"},
		{name: "ignored column", got: []row{with("s", "other")}, ignore: []string{"s"}},
		{name: "sign of zero", got: []row{with("x", math.Copysign(0, -1))}, want: "x = double -0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := diff([]row{base()}, tt.got, tt.ignore...)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("diff = %q; want %q in it", got, tt.want)
			}
		})
	}
}

func TestDiffTellsTheFirstOfMany(t *testing.T) {
	var want []row
	for i := range 100 {
		want = append(want, row{colKey: fmt.Sprintf("k%03d", i)})
	}
	got := diff(want, nil)
	if !strings.HasPrefix(got, "100 differences (0 rows; want 100), the first 12:") || strings.Count(got, "\n") != toldDifferences {
		t.Errorf("diff = %s", got)
	}
}

func TestTypedKeepsValuesExact(t *testing.T) {
	tests := []struct {
		json, kind string
		want       any
		bad        bool
	}{
		{json: "9007199254740993", kind: "long", want: int64(9007199254740993)},
		{json: "-9223372036854775808", kind: "long", want: int64(math.MinInt64)},
		{json: "1.0", kind: "long", bad: true},
		{json: `"1"`, kind: "long", bad: true},
		{json: "1", kind: "double", want: 1.0},
		{json: "5e-324", kind: "double", want: math.SmallestNonzeroFloat64},
		{json: `"nan"`, kind: "double", want: math.NaN()},
		{json: "true", kind: "boolean", want: true},
		{json: "1", kind: "boolean", bad: true},
		{json: "\"a\\u0000\\ud83d\\ude00\"", kind: "string", want: "a\x00😀"},
		{json: "1", kind: "string", bad: true},
		{json: "null", kind: "long", want: nil},
		{json: "[1]", kind: "array<bigint>", want: []any{json.Number("1")}},
	}
	for _, tt := range tests {
		var v any
		if err := decodeNumbers([]byte(tt.json), &v); err != nil {
			t.Fatal(err)
		}
		got, err := typed(v, tt.kind)
		if (err != nil) != tt.bad || !tt.bad && !same(got, tt.want) {
			t.Errorf("typed(%s, %s) = %v, %v; want %v", tt.json, tt.kind, got, err, tt.want)
		}
	}
}
