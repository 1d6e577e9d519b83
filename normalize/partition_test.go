package normalize_test

import (
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests need zones on every machine

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
)

func TestPartition(t *testing.T) {
	const shanghai = "Asia/Shanghai"
	const none = "__HIVE_DEFAULT_PARTITION__"
	for _, c := range []struct {
		format string
		zone   string
		value  string // JSON
		folder string
	}{
		{"yyyyMMdd", "", `"2024-01-05T23:30:00Z"`, "20240105"},
		{"yyyyMMdd", shanghai, `"2024-01-05T23:30:00Z"`, "20240106"},
		{"yyyyMMdd", "", `"2024-01-05T23:30:00.123456789-02:00"`, "20240106"},
		{"yyyyMMdd", shanghai, `"2024-01-05"`, "20240105"},
		{"yyyy-MM-dd", "", `"2024\u002d01-05"`, "2024-01-05"},
		{"yyyyMM", "", `"2024-01-05"`, "202401"},
		{"yyyy", "", `"2024-01-05"`, "2024"},
		{"yyyyMMddHH", "", `"2024-01-05T23:30:00Z"`, "2024010523"},
		{"yyyy_MM.dd-HHmm", "", `"2024-01-05T23:30:00Z"`, "2024_01.05-2330"},
		{"yyyyMMddHH", "", `1704497400`, "2024010523"},
		{"yyyyMMddHH", shanghai, `1704497400000`, "2024010607"},
		{"yyyyMMddHH", "", `1704497400.75`, "2024010523"},
		{"yyyyMMddHH", "", `"1704497400"`, "2024010523"},
		{"yyyyMMddHH", "", `"1704497400000"`, "2024010523"},
		{"yyyy", "", `-1704497400`, "1915"},
		{"yyyyMMdd", "", `20240105`, none},
		{"yyyyMMdd", "", `"20240105"`, none},
		{"yyyyMMdd", "", `2024`, none},
		{"yyyyMMdd", "", `999999999999999999`, none},
		{"yyyyMMdd", "", `1e300`, none},
		{"yyyyMMdd", "", `"0000-01-01"`, none},
		{"yyyyMMddHH", "America/St_Johns", `-1704497401`, "1915122720"},
		{"yyyyMMdd", "", `"1969-12-31T23:59:59Z"`, "19691231"},
		{"yyyyMMdd", "", `"2024-13-05"`, none},
		{"yyyyMMdd", "", `"2024-02-30T00:00:00Z"`, none},
		{"yyyyMMdd", "", `"2024-01-05T23:30:00"`, none},
		{"yyyyMMdd", "", `"yesterday"`, none},
		{"yyyyMMdd", "", `""`, none},
		{"yyyyMMdd", "", `true`, none},
		{"yyyyMMdd", "", `null`, none},
		{"yyyyMMdd", "", `{"y":2024}`, none},
		{"yyyyMMdd", shanghai, `"9999-12-31T23:00:00Z"`, none},
		{"", "", `"FR"`, "FR"},
		{"", "", `"a/b=c%"`, "a%2Fb%3Dc%25"},
		{"", "", `"\u00e9"`, "é"},
		{"", "", `12`, "12"},
		{"", "", `99999999999999999999`, "99999999999999999999"},
		{"", "", `false`, "false"},
		{"", "", `1.5`, none},
		{"", "", `[]`, none},
		{"", "", `""`, none},
		{"", "", `"\u0000"`, none},
		{"", "", `"` + none + `"`, none},
		{"", "", `"` + strings.Repeat("x", 253) + `"`, none},
		{"", "", `"` + strings.Repeat("x", 252) + `"`, strings.Repeat("x", 252)},
	} {
		n := normalizer(t, normalize.Options{PartitionField: "at", PartitionFormat: c.format, PartitionTimezone: c.zone})
		// Twice, since partitions are remembered; the second time the column is known too.
		s := normalized(t, n, bodies(t, `{"at":"2001-01-01"}`, `{"at":`+c.value+`}`), nil).Schema
		r := normalized(t, n, bodies(t, `{"x":1}`, `{"at":1,"at":`+c.value+`}`), s)
		if got := r.Records[1].Key.Partition; got != "pt="+c.folder {
			t.Errorf("%q of %s: %s, want %s", c.format, c.value, got, c.folder)
		}
		misses := 1
		if c.folder == none {
			misses = 2
		}
		if null := at(r, 1, "pt") == nil; null != (c.folder == none) || r.Stats.DefaultPartition != misses {
			t.Errorf("%q of %s: pt = %v, %+v", c.format, c.value, at(r, 1, "pt"), r.Stats)
		}
	}
}

func TestNoPartition(t *testing.T) {
	r := normalized(t, normalizer(t, normalize.Options{}), bodies(t, `{"pt":"x"}`), nil)
	if r.Records[0].Key.Partition != "" || fields(t, r.Schema) != "pt:string" || at(r, 0, "pt") != "x" || r.Stats.DefaultPartition != 0 {
		t.Errorf("%+v", r.Records[0].Key)
	}
}

// The field of the partition may be one that is never seen, or the last one of
// the budget.
func TestPartitionFieldWithoutColumn(t *testing.T) {
	n := normalizer(t, normalize.Options{PartitionField: "day", MaxColumns: 1})
	r := normalized(t, n, bodies(t, `{"a":1,"day":"x"}`), nil)
	if fields(t, r.Schema) != "a:long" || r.Records[0].Key.Partition != "pt=x" || at(r, 0, "_rescued") != `{"day":"x"}` {
		t.Error(fields(t, r.Schema), r.Records[0].Key, at(r, 0, "_rescued"))
	}
	n = normalizer(t, normalize.Options{PartitionField: "day"})
	s := normalized(t, n, bodies(t, `{"a":1}`), nil).Schema
	for range 2 {
		r = normalized(t, n, bodies(t, `{"b":1,"day":"x"}`), s)
		if fields(t, r.Schema) != "a:long b:long day:string" || at(r, 0, "day") != "x" || at(r, 0, "pt") != "x" {
			t.Error(fields(t, r.Schema))
		}
	}
}

// More partitions than are remembered, by text and by day.
func TestManyPartitions(t *testing.T) {
	const many, day = 10_000, 86_400
	for format, folder := range map[string]func(i int) string{
		"":         func(i int) string { return strconv.Itoa(1_000_000_000 + i*day) },
		"yyyyMMdd": func(i int) string { return time.Unix(1_000_000_000+int64(i)*day, 0).UTC().Format("20060102") },
	} {
		n := normalizer(t, normalize.Options{PartitionField: "k", PartitionFormat: format})
		var b changes.Batch
		for i := range many {
			b.Changes = append(b.Changes, change(t, strconv.Itoa(i), `{"k":`+strconv.Itoa(1_000_000_000+i*day)+`}`))
		}
		r := normalized(t, n, b, nil)
		for i := range many {
			if want := "pt=" + folder(i); r.Records[i].Key.Partition != want || at(r, i, "pt") != folder(i) {
				t.Fatal(r.Records[i].Key.Partition, want)
			}
		}
	}
}
