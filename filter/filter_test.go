package filter_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/filter"
)

func compiled(t testing.TB, text string) *filter.Filter {
	t.Helper()
	f, err := filter.Compile(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

const order = `{"_id":"order:1","_rev":"3-a","type":"order","total":12.50,"items":3,"big":9007199254740993,"paid":true,"note":null,
 "a b":"odd","esc\u0061ped":"caf\u00e9 \"x\"","address":{"zip":"75001","geo":{"lat":48.85}},"tags":["web","spring"],
 "lines":[{"sku":"A","qty":2},{"sku":"B","qty":0}, 7], "len":5, "twice":1, "twice":2, "deep":{"x":{"a":"}"}}}`

func TestMatch(t *testing.T) {
	for text, want := range map[string]bool{
		`type == "order"`:   true,
		`type != "order"`:   false,
		`type == 'invoice'`: false,
		`_id startsWith "order:" and _rev matches "^3-"`: true,
		`total > 10`:                   true,
		`total == 12.5`:                true,
		`total >= 12.5 && items <= 3`:  true,
		`items == 3.0`:                 true,
		`items < 3.5 and items > 2.5`:  true,
		`big == 9007199254740993`:      true,
		`big == 9007199254740992`:      false,
		`big > 9007199254740992.0`:     true,
		`big < 1e300 and big > -1e300`: true,
		`-1 < items`:                   true,
		`paid`:                         true,
		`not paid`:                     false,
		`!paid or type == "order"`:     true,
		`type`:                         false, // a text is not true
		`items`:                        false,
		`missing`:                      false,
		`not missing`:                  true,
		`missing == nil`:               true,
		`note == nil`:                  true,
		`note == nil and items != nil`: true,
		`missing > 5`:                  false,
		`missing <= 5`:                 false,
		`not (missing > 5)`:            true,
		`missing != "x"`:               true,
		`type > 5`:                     false,
		`type < 5`:                     false,
		`paid > 0`:                     false,
		`paid == true`:                 true,
		`paid == "true"`:               false,
		`items == "3"`:                 false,
		`missing > 5 or items == 3`:    true,
		`address.zip == "75001"`:       true,
		`address?.zip == "75001"`:      true,
		`address.geo.lat > 48`:         true,
		`address.street.number == nil`: true,
		`type.x.y == nil`:              true,
		`deep.x.a == "}"`:              true,
		`tags[0] == "web"`:             true,
		`tags[-1] == "spring"`:         true,
		`tags[2] == nil`:               true,
		`tags[-3] == nil`:              true,
		`tags.web == nil`:              true,
		`address[0] == nil`:            true,
		`lines[0].qty == 2`:            true,
		`"web" in tags`:                true,
		`"zip" in address`:             true,
		`"x" in type`:                  false,
		`type in ["order", "invoice"]`: true,
		`type not in ["order"]`:        false,
		`items in [1, -2, 3.0]`:        true,
		`note in [nil]`:                true,
		`type contains "rde"`:          true,
		`type endsWith "r"`:            true,
		`items contains "3"`:           false,
		`type not contains "x"`:        true,
		`$env["a b"] == "odd"`:         true,
		`$env.type == "order"`:         true,
		`escaped == "café \"x\""`:      true,
		`$env["len"] == 5`:             true,
		`twice == 2`:                   true,
		`len(tags) == 2`:               true,
		`len(escaped) == 8`:            true,
		`len(address) == 2`:            true,
		`len(items) == nil`:            true,
		`lower(type) == "order" and upper(type) == "ORDER"`: true,
		`lower(items) == nil`:                               true,
		`trim(" x ") == "x"`:                                true,
		`any(lines, .sku == "B")`:                           true,
		`any(lines, .sku == "C")`:                           false,
		`all(lines, .qty > 0)`:                              false,
		`all(missing, .qty > 0)`:                            true,
		`none(lines, .sku == "C")`:                          true,
		`any(tags, # == "web")`:                             true,
		`count(lines, .qty >= 0) == 2`:                      true,
		`(missing ?? type) == "order"`:                      true,
		`paid ? type == "order" : false`:                    true,
		`tags == tags`:                                      true,
		`address == lines`:                                  false,
		"type == \"order\"\n  and // orders\n  items == 3":  true,
		`tags | any(# == "spring")`:                         true,
		`_attachments == nil`:                               true,
		`type == "ord\u0065r"`:                              true,
		`type matches "^o.*r$" and not (type matches "x")`:  true,
	} {
		if got := compiled(t, text).Match([]byte(order)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestFields(t *testing.T) {
	f := compiled(t, `type == "a" and (address.zip == "1" or $env["x y"] in tags) and type != nil`)
	if got := f.Fields(); !slices.Equal(got, []string{"type", "address", "x y", "tags"}) {
		t.Error(got)
	}
	if f.String()[:4] != "type" {
		t.Error(f.String())
	}
}

// What is refused is named with its place.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                                       "line 1, column 1: ",
		`type ==`:                                "line 1, column 7: ",
		"type == 'a'\n and (":                    "line 2, column ",
		`type = "a"`:                             "line 1, column ",
		`"order"`:                                "line 1, column 1: \"order\" is no condition",
		`type == "a" or "b"`:                     "line 1, column 16: \"b\" is no condition",
		`not 5`:                                  "line 1, column 5: 5 is no condition",
		`len(tags)`:                              "len(…) is no condition",
		`a + 1 > 2`:                              "line 1, column 3: + is not part of filters",
		`now() > date("2024-01-01")`:             "now() is not part of filters",
		`filter(lines, .a)`:                      "is no condition",
		`any(filter(lines, .a), .b)`:             "is not part of filters",
		`any(lines, any(.x, .y))`:                "a predicate within a predicate",
		`any(lines, .sku in skus)`:               "skus is a field of the document",
		`any(lines, .sku in $env["skus"])`:       "skus is a field of the document",
		`type matches other`:                     "a pattern in quotes",
		`type matches "("`:                       "line 1, column ",
		`type in [a]`:                            "a list holds",
		`[1] == a`:                               "a list stands behind in alone",
		`a in [not b]`:                           "a list holds",
		`a[b] == 1`:                              "in brackets",
		`a[1:2] == "x"`:                          "is not part of filters",
		`{"a": 1} == a`:                          "is not part of filters",
		`let x = 1; x == a`:                      "is not part of filters",
		`foo(a)`:                                 "is not part of filters",
		`a.b()`:                                  "is not part of filters",
		`_deleted`:                               "table.deletes",
		`$env["_deleted"] == true`:               "table.deletes",
		`$env == 1`:                              "a field's name alone",
		`1..1000000 == a`:                        "is not part of filters",
		`repeat("x", 1000000) == a`:              "is not part of filters",
		strings.Repeat("a == 1 or ", 4000) + "b": "bytes are more than",
	} {
		_, err := filter.Compile(text)
		if !errors.Is(err, filter.ErrFilter) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

// A million levels need no stack, and whatever a document holds takes time in
// proportion to its length.
func TestDeep(t *testing.T) {
	const levels = 200_000
	doc := []byte(`{"a":` + strings.Repeat(`{"x":[`, levels) + strings.Repeat(`]}`, levels) + `,"type":"x"}`)
	if !compiled(t, `type == "x" and a.x[0].x[0].y == nil`).Match(doc) {
		t.Error("no match")
	}
	wide := []byte(`{"l":[` + strings.Repeat(`"\u0061",`, levels) + `"b"],"n":[` + strings.Repeat(`1,`, levels) + `1]}`)
	if !compiled(t, `"b" in l and l[-1] == "b" and count(l, # == "a") == 200000 and n[199999] == 1`).Match(wide) {
		t.Error("no match in a wide document")
	}
}

// FuzzMatch: nothing in a document makes a filter fail, and spaces are nothing to it.
func FuzzMatch(f *testing.F) {
	all := compiled(f, `a == 1 or a.b[0] == "x" or "k" in a or any(a, .b > 1) or len(a) == 3 or a[-1] == nil or a matches "^x" or $env["c"] in ["y"]`)
	for _, seed := range []string{order, `{"a":[{"b":2}]}`, `{"a":"\`, `{"a":{"b":["x"`, `{"a":{"k":}}`, `{"a"`, `{"a":[1,,2]}`, `{"\u0061":1}`, `[`, `{"a":"x\\"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := bytes.Clone(doc)
		first := all.Match(doc)
		if !bytes.Equal(before, doc) {
			t.Fatal("the document was written to")
		}
		if all.Match(doc) != first || all.Match(append([]byte(" \n"), doc...)) != first {
			t.Fatal("the answer changed")
		}
	})
}
