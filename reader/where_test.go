package reader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

func whereSchema(t *testing.T) *hudi.Schema {
	t.Helper()
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "s", Kind: hudi.KindString}, hudi.Column{Name: "n", Kind: hudi.KindLong},
		hudi.Column{Name: "i", Kind: hudi.KindInt}, hudi.Column{Name: "d", Kind: hudi.KindDouble}, hudi.Column{Name: "f", Kind: hudi.KindFloat},
		hudi.Column{Name: "b", Kind: hudi.KindBoolean}, hudi.Column{Name: "raw", Kind: hudi.KindBytes},
		hudi.Column{Name: "day", Kind: hudi.KindInt, Type: `{"type":"int","logicalType":"date"}`},
		hudi.Column{Name: "at", Kind: hudi.KindLong, Type: `{"type":"long","logicalType":"timestamp-micros"}`},
		hudi.Column{Name: "in", Kind: hudi.KindLong})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhere(t *testing.T) {
	s := whereSchema(t)
	const million = 1_000_000
	r := &hudi.Record{Key: hudi.Key{Record: "k1", Partition: "pt=a"}, CommitTime: "20260101000000000", Row: hudi.Row{hudi.String("it's"), hudi.Long(1<<53 + 1),
		hudi.Int(-3), hudi.Double(2.5), hudi.Float(0.1), hudi.Boolean(true), hudi.Bytes([]byte{1}), hudi.Int(1), hudi.Long(1 * million), hudi.Value{}}}
	for text, want := range map[string]bool{
		`s = 'it''s'`: true, `s = "it's"`: true, `s != 'x'`: true, `s <> "it's"`: false, `s > 'it'`: true, `s < 'it'`: false,
		`n = 9007199254740993`: true, `n = 9007199254740992`: false, `n > 9007199254740992.5`: true, `n < 9223372036854775808`: true, `n > -1e30`: true,
		`i = -3`: true, `i <= -3`: true, `i > -3.5`: true, `i < -2.5`: true, `i = -3.0`: true, `i in (1, 2, -3)`: true, `i in (1,2)`: false, `i=+3`: false,
		`d = 2.5`: true, `d >= 25e-1`: true, `d < 2.5`: false, `d in (1, 2.5)`: true, `f = 0.1`: true, `f != 0.1`: false,
		`b = true`: true, `b = FALSE`: false, `b != false`: true, `b in (true, false)`: true, `raw is not null`: true, `raw is null`: false,
		`day = '1970-01-02'`: true, `day > 0`: true, `at = '1970-01-01T00:00:01Z'`: true, `at < '1970-01-01T01:00:00+01:00'`: false, `at = 1000000`: true,
		`in is null`: true, `in is not null`: false, `in = 1`: false, `in != 1`: false, `in in(1)`: false,
		`_hoodie_record_key = 'k1' and _hoodie_partition_path = 'pt=a'`: true, `_hoodie_commit_time > '2026'`: true, `_hoodie_commit_time > '2027'`: false,
		"s = \"it's\" AND n > 1\n\tAnd b = True": true, `s = "it's" and n < 1`: false,
	} {
		w, err := reader.ParseWhere(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		f, err := w.Bind(s)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := f.Keeps(r); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestWhereRefuses(t *testing.T) {
	s := whereSchema(t)
	for text, want := range map[string]struct {
		column   string
		position int
		reason   string
	}{
		``:                           {"", 1, "a column"},
		`= 1`:                        {"", 1, "a column"},
		`s`:                          {"s", 2, "the end"},
		`s =`:                        {"s", 4, "a value"},
		`s = x`:                      {"s", 5, "strings stand in quotes"},
		`s = 'x`:                     {"", 5, "closing quote"},
		`s = null`:                   {"s", 5, "is null"},
		`s is`:                       {"s", 5, "null"},
		`s is not 1`:                 {"s", 10, "null"},
		`s in 1`:                     {"s", 6, "("},
		`s in (`:                     {"s", 7, "a value"},
		`s in ()`:                    {"s", 7, "a value"},
		`s in ('a' 'b')`:             {"s", 11, `","`},
		`s = 'a' or s = 'b'`:         {"s", 9, "and"},
		`s = 'a' and`:                {"", 12, "a column"},
		`s like 'a%'`:                {"s", 3, "in or is"},
		`s = 'a';`:                   {"", 8, ";"},
		`s = 1`:                      {"s", 5, "a string"},
		`n = 1 and n = 'a'`:          {"n", 15, "a number"},
		`n = true`:                   {"n", 5, "a number"},
		`n = 1x`:                     {"n", 5, "number"},
		`n = 1e999`:                  {"n", 5, "number"},
		`b = 1`:                      {"b", 5, "true or false"},
		`b < true`:                   {"b", 1, "boolean"},
		`raw = 'x'`:                  {"raw", 7, "null only"},
		`day = 'yesterday'`:          {"day", 7, "2026-01-31"},
		`at = '2026-01-01'`:          {"at", 6, "T12:00"},
		`n = 1 and nothing is null`:  {"nothing", 11, "no such column"},
		`_hoodie_record_key = 1`:     {"_hoodie_record_key", 22, "a string"},
		`_hoodie_file_name is null`:  {"_hoodie_file_name", 1, "no such column"},
		"s = 'é' and n = ü":          {"", 18, "ü"},
		`s = 'a' and in`:             {"in", 15, "in or is"},
		`n = 9999999999999999999999`: {},
	} {
		w, err := reader.ParseWhere(text)
		if err == nil {
			_, err = w.Bind(s)
		}
		if want.position == 0 {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		var e *reader.WhereError
		if !errors.As(err, &e) || e.Column != want.column || e.Position != want.position || !strings.Contains(e.Error(), want.reason) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzParseWhere: no text makes the parser fail in another way than with a
// WhereError that points into the text.
func FuzzParseWhere(f *testing.F) {
	for _, text := range []string{`a = 1 and b in ('x', "y") and c is not null`, `a=-1.5e-3`, `a = 'x''`, `a<>.5`, ``} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := reader.ParseWhere(text)
		var e *reader.WhereError
		if err != nil && (!errors.As(err, &e) || e.Position < 1 || e.Position > len(text)+1) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
