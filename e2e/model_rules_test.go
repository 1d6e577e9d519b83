package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The model is the judge of all other tests here, so each of its rules is
// pinned by hand.

// ruleColumns is a table whose first commit had a document of all kinds.
func ruleColumns(t *testing.T) *tableModel {
	t.Helper()
	m := newModel(modelOptions{})
	err := m.infer([]document{live("first", "1-a", `{"n":1,"x":0.5,"s":"t","b":false,"list":[],"any":"t","wide":1}`),
		live("second", "1-a", `{"any":3,"wide":0.5,"big":9223372036854775808,"none":null,"a b":1,"A_b":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func live(id, rev, body string) document {
	return document{ID: id, Leaves: []string{rev}, Body: []byte(body)}
}

func TestModelRows(t *testing.T) {
	const id = "a"
	tests := []struct {
		name string
		doc  document
		want row // only the columns that the case is about
	}{
		{
			name: "scalars and their types",
			doc:  live(id, "3-abc", `{"n":9007199254740993,"x":1,"s":"t","b":true,"list":[1, 2]}`),
			want: row{"_rev": "3-abc", "_rev_order": int64(3), "_op": "u", "_deleted": false, "_leaves": nil, "_rescued": nil,
				"n": int64(9007199254740993), "x": 1.0, "s": "t", "b": true, "list": "[1, 2]",
				"_doc": `{"n":9007199254740993,"x":1,"s":"t","b":true,"list":[1, 2]}`},
		},
		{
			name: "null and absent",
			doc:  live(id, "1-a", `{"n":null}`),
			want: row{"n": nil, "x": nil, "_rescued": nil},
		},
		{
			name: "what does not fit is rescued",
			doc:  live(id, "1-a", `{"s":5,"n":"1","b":[true],"x":9007199254740993,"list":"text"}`),
			want: row{"s": nil, "n": nil, "b": nil, "x": nil, "list": nil,
				"_rescued": `{"s":5,"n":"1","b":[true],"x":9007199254740993,"list":"text"}`},
		},
		{
			name: "numbers are never rounded",
			doc:  live(id, "1-a", `{"n":9223372036854775808,"x":1e400,"wide":0.1000000000000000001}`),
			want: row{"n": nil, "x": nil, "wide": nil, "_rescued": `{"n":9223372036854775808,"x":1e400,"wide":0.1000000000000000001}`},
		},
		{
			name: "a double as short as it is told apart",
			doc:  live(id, "1-a", `{"x":0.1,"wide":-2.50e3,"n":1.0}`),
			want: row{"x": 0.1, "wide": -2500.0, "n": nil, "_rescued": `{"n":1.0}`},
		},
		{
			name: "a mixed column takes everything as text",
			doc:  live(id, "1-a", `{"any":{"k": 1e2}}`),
			want: row{"any": `{"k": 1e2}`, "_rescued": nil},
		},
		{
			name: "names that Avro forbids, and that differ by case alone",
			doc:  live(id, "1-a", `{"a b":5,"A_b":6}`),
			want: row{"a_b": int64(5), "A_b_2": int64(6)},
		},
		{
			name: "a field without a column",
			doc:  live(id, "1-a", `{"big":1,"none":2}`),
			want: row{"_rescued": `{"big":1,"none":2}`},
		},
		{
			name: "conflicts sum their leaves",
			doc:  document{ID: id, Leaves: []string{"3-b", "2-a", "7-c"}, Body: []byte(`{}`)},
			want: row{"_rev": "3-b", "_rev_order": int64(12), "_leaves": `["3-b","2-a","7-c"]`},
		},
		{
			name: "a tombstone has no payload but its document",
			doc:  document{ID: id, Leaves: []string{"4-d"}, Deleted: true, Body: []byte(`{"_deleted":true,"s":"why"}`)},
			want: row{"_op": "d", "_deleted": true, "_rev_order": int64(4), "s": nil, "_rescued": nil, "_doc": `{"_deleted":true,"s":"why"}`},
		},
		{
			name: "attachments",
			doc:  live(id, "1-a", `{"_attachments":{"f":{"stub":true}}}`),
			want: row{"_attachments": `{"f":{"stub":true}}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ruleColumns(t).row(tt.doc)
			if err != nil {
				t.Fatal(err)
			}
			for c, want := range tt.want {
				if v, ok := got[c]; !ok || !same(v, want) {
					t.Errorf("%s = %s; want %s", c, show(v), show(want))
				}
			}
		})
	}
}

func TestModelPartitions(t *testing.T) {
	m := newModel(modelOptions{partition: "at", layout: "20060102"})
	steps := []struct {
		instant string
		doc     document
		want    string
	}{
		{"1", live("a", "1-a", `{"at":"2024-01-05T23:30:00-02:00"}`), "pt=20240106"},
		{"2", live("b", "1-a", `{"at":"2024-01-05"}`), "pt=20240105"},
		{"3", live("c", "1-a", `{"at":1704412800}`), "pt=20240105"},
		{"4", live("d", "1-a", `{"at":1704412800000}`), "pt=20240105"},
		{"5", live("e", "1-a", `{"at":"soon"}`), "pt=" + defaultPartition},
		{"51", live("g", "1-a", `{"at":20240105}`), "pt=" + defaultPartition},
		{"6", live("a", "2-a", `{"at":"2024-02-01"}`), "pt=20240201"},
		{"7", document{ID: "a", Leaves: []string{"3-a"}, Deleted: true, Body: []byte(`{"at":"2020-01-01"}`)}, "pt=20240201"},
		{"8", document{ID: "f", Leaves: []string{"1-a"}, Deleted: true}, "pt=" + defaultPartition},
		{"9", live("a", "4-a", `{"at":"2024-03-01"}`), "pt=20240301"},
	}
	for _, s := range steps {
		if err := m.apply(s.instant, []document{s.doc}); err != nil {
			t.Fatal(err)
		}
		if got := m.rows[s.doc.ID][colPartition]; got != s.want {
			t.Errorf("step %s: partition %v; want %s", s.instant, got, s.want)
		}
	}
	if got := len(m.readOptimized()); got != 9 { // a to g, and a again in two more partitions
		t.Errorf("base files hold %d rows; want 9", got)
	}
}

func TestModelHistory(t *testing.T) {
	m := newModel(modelOptions{})
	for i, docs := range [][]document{
		{live("a", "1-a", `{"n":1}`), live("b", "1-b", `{"n":1}`)},
		{live("a", "2-a", `{"n":2}`), live("b", "1-b", `{"n":1}`)}, // b comes again, unchanged
		{live("c", "1-c", `{"n":3}`)},
	} {
		if err := m.apply(fmt.Sprintf("20%d", i), docs); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(rows []row) string {
		var s strings.Builder
		for _, k := range []string{"a", "b", "c"} {
			for _, r := range rows {
				if r[colKey] == k {
					fmt.Fprintf(&s, "%s%v@%v ", k, r["n"], r[colCommitTime])
				}
			}
		}
		return s.String()
	}
	tests := []struct{ name, got, want string }{
		{"snapshot", keys(m.snapshot()), "a2@201 b1@200 c3@202 "},
		{"as of the first", keys(m.asOf("200")), "a1@200 b1@200 "},
		{"all", keys(m.incremental("000", "202")), "a2@201 b1@200 c3@202 "},
		{"after the first", keys(m.incremental("200", "202")), "a2@201 c3@202 "},
		{"the second", keys(m.incremental("200", "201")), "a2@201 "},
		{"read optimized", keys(m.readOptimized()), "a1@200 b1@200 c3@202 "},
		{"spans", fmt.Sprint(m.spans()), "[[000 200] [000 201] [000 202] [200 201] [200 202] [201 202]]"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s = %s; want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestModelPlaces(t *testing.T) {
	gone := document{ID: "a", Leaves: []string{"4-a"}, Deleted: true}
	steps := []document{live("a", "1-a", `{"p":"x"}`), live("a", "2-a", `{"p":"y"}`), live("a", "3-a", `{"p":"a/b"}`), gone}
	for name, c := range map[string]struct {
		o    modelOptions
		want []string // the partitions of the document's rows after each step, oldest first
	}{
		"moves":        {modelOptions{}, []string{"pt=x", "pt=y", "pt=a%2Fb", "pt=a%2Fb"}},
		"stays":        {modelOptions{stay: true}, []string{"pt=x", "pt=x", "pt=x", "pt=x"}},
		"bare":         {modelOptions{bare: true}, []string{"x", "y", defaultPartition, defaultPartition}},
		"scoped":       {modelOptions{scoped: true}, []string{"pt=x", "pt=x pt=y", "pt=x pt=y pt=a%2Fb", "pt=a%2Fb"}},
		"scoped, hard": {modelOptions{scoped: true, hard: true}, []string{"pt=x", "pt=x pt=y", "pt=x pt=y pt=a%2Fb", ""}},
	} {
		c.o.partition = "p"
		m := newModel(c.o)
		for i, d := range steps {
			if err := m.apply(strconv.Itoa(i), []document{d}); err != nil {
				t.Fatal(err)
			}
			rows := m.rowsOf("a")
			slices.SortFunc(rows, func(x, y row) int { return int(x["_rev_order"].(int64) - y["_rev_order"].(int64)) })
			var at []string
			for _, r := range rows {
				at = append(at, r[colPartition].(string))
			}
			if got := strings.Join(at, " "); got != c.want[i] {
				t.Errorf("%s, step %d: rows in %q; want %q", name, i, got, c.want[i])
			}
			if !m.has(d) {
				t.Errorf("%s, step %d: the model does not have what was applied", name, i)
			}
		}
	}
}

// Of two buckets, "a" is in 0 and "b" in 1: Java's hash of ["a"] is 31+97.
func TestModelHoldsBucketsToTheirGroups(t *testing.T) {
	first := []baseFile{{"", "/00000000-x", []string{"a"}}}
	for name, c := range map[string]struct {
		files []baseFile
		id    string
		ok    bool
	}{
		"known bucket, in the log":          {nil, "c", true},
		"new bucket, in a file of its own":  {[]baseFile{{"", "/00000001-y", []string{"b"}}}, "b", true},
		"new bucket, in no file":            {nil, "b", false},
		"new bucket, in a group of another": {[]baseFile{{"", "/00000000-y", []string{"b"}}}, "b", false},
		"second group":                      {[]baseFile{{"", "/00000000-y", []string{"c"}}}, "c", false},
		"written again":                     {[]baseFile{{"", "/00000000-x", []string{"a", "c"}}}, "c", false},
	} {
		m := newModel(modelOptions{buckets: 2})
		m.told = true
		if err := m.apply("1", []document{live("a", "1-a", `{}`)}, first...); err != nil {
			t.Fatal(err)
		}
		if err := m.apply("2", []document{live(c.id, "1-b", `{}`)}, c.files...); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
