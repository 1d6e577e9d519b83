package normalize_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

func TestEnvelope(t *testing.T) {
	c := change(t, "a", `{"_id":"a","_rev":"3-c","n":1,"_attachments":{"x.txt": {"stub":true}},"s":"é"}`, "3-c", "2-b", "4-dead")
	c.Seq = "7-xyz"
	r := normalized(t, normalizer(t, normalize.Options{Seq: true, PartitionField: "s"}), batch(c), nil)
	const want = "_id:string _rev:string _rev_order:long _op:string _deleted:boolean _seq:string _leaves:string " +
		"_attachments:string pt:string _rescued:string _doc:string n:long s:string"
	if got := columns(r.Schema); got != want {
		t.Fatalf("columns\n%s\nwant\n%s", got, want)
	}
	for column, want := range map[string]any{
		"_id": "a", "_rev": "3-c", "_rev_order": int64(9), "_op": "u", "_deleted": false, "_seq": "7-xyz",
		"_leaves": `["3-c","2-b","4-dead"]`, "_attachments": `{"x.txt": {"stub":true}}`, "pt": "é", "_rescued": nil,
		"_doc": string(c.Body), "n": int64(1), "s": "é",
	} {
		if got := at(r, 0, column); got != want {
			t.Errorf("%s = %v, want %v", column, got, want)
		}
	}
	rec := r.Records[0]
	if rec.Key != (hudi.Key{Record: "a", Partition: "pt=é"}) || rec.Order != 9 || rec.Delete || rec.AnyPartition {
		t.Errorf("%+v", rec)
	}
	if r.Schema.Name != "docs_record" {
		t.Error(r.Schema.Name)
	}
}

// A document that is not for the table becomes a deletion for those that hold it,
// in the order of its revision; nothing of its body is kept.
func TestElsewhere(t *testing.T) {
	live := change(t, "a", `{"_id":"a","secret":1,"at":"x"}`, "3-c", "2-b")
	gone := deletion(t, "b", `{"_id":"b","_deleted":true,"reason":"x"}`, "2-d")
	live.Elsewhere, gone.Elsewhere = true, true
	r := normalized(t, normalizer(t, normalize.Options{PartitionField: "at"}), batch(live, gone), nil)
	if _, known := r.Schema.Lookup("secret"); known {
		t.Error("a column was made")
	}
	for i, want := range []map[string]any{
		{"_id": "a", "_rev": "3-c", "_rev_order": int64(5), "_op": "d", "_deleted": true, "_leaves": `["3-c","2-b"]`, "_doc": nil, "pt": nil},
		{"_id": "b", "_rev": "2-d", "_rev_order": int64(2), "_op": "d", "_deleted": true, "_doc": string(gone.Body)},
	} {
		for column, want := range want {
			if got := at(r, i, column); got != want {
				t.Errorf("row %d: %s = %v, want %v", i, column, got, want)
			}
		}
		if rec := &r.Records[i]; !rec.OnlyHeld || !rec.AnyPartition || rec.Delete {
			t.Errorf("row %d: %+v", i, rec)
		}
	}
	if s := r.Stats; s.Elsewhere != 2 || s.Tombstones != 0 || s.Collapsed != 0 {
		t.Errorf("%+v", s)
	}
	r = normalized(t, normalizer(t, normalize.Options{Deletes: normalize.Hard}), batch(live, gone), nil)
	for i := range r.Records {
		if rec := &r.Records[i]; !rec.OnlyHeld || !rec.Delete || rec.Order != int64(5-3*i) {
			t.Errorf("hard, row %d: %+v", i, rec)
		}
	}
	if s := r.Stats; s.Elsewhere != 2 || s.Deletes != 0 {
		t.Errorf("hard: %+v", s)
	}
}

func TestOneLeafIsNotListed(t *testing.T) {
	r := normalized(t, normalizer(t, normalize.Options{DropDoc: true}), batch(change(t, "a", `{}`, "12-c")), nil)
	if at(r, 0, "_leaves") != nil || at(r, 0, "_rev_order") != int64(12) {
		t.Error("leaves", at(r, 0, "_leaves"), at(r, 0, "_rev_order"))
	}
	if _, ok := r.Schema.Lookup("_doc"); ok {
		t.Error("_doc although it is dropped")
	}
}

func TestInference(t *testing.T) {
	for _, c := range []struct {
		docs   string // separated by a bar
		fields string
		cells  []any // of column v
	}{
		{`{"v":true}|{"v":false}|{"v":null}|{}`, "v:boolean", []any{true, false, nil, nil}},
		{`{"v":1}|{"v":-9223372036854775808}|{"v":9223372036854775807}`, "v:long", []any{int64(1), int64(math.MinInt64), int64(math.MaxInt64)}},
		{`{"v":1}|{"v":2.5}|{"v":1e2}`, "v:double", []any{1.0, 2.5, 100.0}},
		{`{"v":"a"}|{"v":"\u00e9\n\ud83d\ude00\/"}`, "v:string", []any{"a", "é\n😀/"}},
		{`{"v":[1, 2]}|{"v":{"a": {}}}`, "v:string[json]", []any{`[1, 2]`, `{"a": {}}`}},
		{`{"v":"a"}|{"v":1.50}|{"v":[1]}|{"v":true}|{"v":99999999999999999999}`, "v:string[mixed]", []any{"a", "1.50", "[1]", "true", "99999999999999999999"}},
		{`{"v":true}|{"v":1}`, "v:string[mixed]", []any{"true", "1"}},
		{`{"v":null}`, "", nil},
		{`{"v":1e400}|{"v":99999999999999999999}`, "", nil},
		{`{"b":1,"v":2}|{"a":1,"v":3,"b":2}`, "b:long v:long a:long", []any{int64(2), int64(3)}},
	} {
		r := normalized(t, normalizer(t, normalize.Options{}), bodies(t, strings.Split(c.docs, "|")...), nil)
		if got := fields(t, r.Schema); got != c.fields {
			t.Errorf("%s: columns %q, want %q", c.docs, got, c.fields)
		}
		for i, want := range c.cells {
			if got := at(r, i, "v"); got != want {
				t.Errorf("%s: row %d: %v, want %v", c.docs, i, got, want)
			}
		}
	}
}

// A value that does not fit its column goes to _rescued, whatever it is.
func TestMisfits(t *testing.T) {
	first := bodies(t, `{"b":true,"l":1,"d":1.5,"s":"x","j":[],"m":1}`, `{"m":"y"}`)
	for _, c := range []struct {
		doc, rescued string
		column       string
		cell         any
	}{
		{`{"b":1}`, `{"b":1}`, "b", nil},
		{`{"b":"true"}`, `{"b":"true"}`, "b", nil},
		{`{"l":1.0}`, `{"l":1.0}`, "l", nil},
		{`{"l":-0}`, `{"l":-0}`, "l", nil},
		{`{"l":9223372036854775808}`, `{"l":9223372036854775808}`, "l", nil},
		{`{"l":"1"}`, `{"l":"1"}`, "l", nil},
		{`{"d":9007199254740992}`, "", "d", 9007199254740992.0},
		{`{"d":9007199254740993}`, `{"d":9007199254740993}`, "d", nil},
		{`{"d":-9007199254740993}`, `{"d":-9007199254740993}`, "d", nil},
		{`{"d":1e400}`, `{"d":1e400}`, "d", nil},
		{`{"d":1e-400}`, `{"d":1e-400}`, "d", nil},
		{`{"d":5e-324}`, "", "d", 5e-324},
		{`{"d":0.1}`, "", "d", 0.1},
		{`{"d":0.30000000000000004}`, "", "d", 0.30000000000000004},
		{`{"d":0.1000000000000000055511151231257827}`, `{"d":0.1000000000000000055511151231257827}`, "d", nil},
		{`{"d":12345678901234567000.0}`, "", "d", 12345678901234567000.0},
		{`{"d":0e99999999999999999999}`, "", "d", 0.0},
		{`{"d":1E+2}`, "", "d", 100.0},
		{`{"s":5}`, `{"s":5}`, "s", nil},
		{`{"s":{"a": "é"}}`, `{"s":{"a": "é"}}`, "s", nil},
		{`{"j":"[]"}`, `{"j":"[]"}`, "j", nil},
		{`{"j":{}}`, "", "j", "{}"},
		{`{"m":99999999999999999999}`, "", "m", "99999999999999999999"},
		{`{"m":"z"}`, "", "m", "z"},
		{`{"s":1,"l":"a"}`, `{"s":1,"l":"a"}`, "l", nil},
	} {
		n := normalizer(t, normalize.Options{})
		s := normalized(t, n, first, nil).Schema
		r := normalized(t, n, bodies(t, c.doc), s)
		got, _ := at(r, 0, "_rescued").(string)
		if got != c.rescued || at(r, 0, c.column) != c.cell {
			t.Errorf("%s: rescued %q, %s = %v; want %q, %v", c.doc, got, c.column, at(r, 0, c.column), c.rescued, c.cell)
		}
		if r.Schema != s {
			t.Errorf("%s: another schema", c.doc)
		}
		if want := strings.Count(c.rescued, ":"); c.column != "s" && r.Stats.Rescued != want {
			t.Errorf("%s: %d rescued", c.doc, r.Stats.Rescued)
		}
	}
}

func TestSchemaGrowsAtItsEnd(t *testing.T) {
	n := normalizer(t, normalize.Options{})
	s1 := normalized(t, n, bodies(t, `{"a":1}`), nil).Schema
	r := normalized(t, n, bodies(t, `{"c":1,"a":2}`, `{"b":[1],"a":"x"}`), s1)
	if got := fields(t, r.Schema); got != "a:long c:long b:string[json]" || r.Stats.Columns != 2 {
		t.Errorf("%s, %d new", got, r.Stats.Columns)
	}
	if at(r, 0, "c") != int64(1) || at(r, 0, "b") != nil || at(r, 1, "b") != "[1]" || at(r, 1, "_rescued") != `{"a":"x"}` {
		t.Error("cells")
	}
	// What the failed commit of a schema left behind is forgotten.
	r = normalized(t, n, bodies(t, `{"d":1}`), s1)
	if got := fields(t, r.Schema); got != "a:long d:long" {
		t.Error(got)
	}
	// A schema read back from the table means the same.
	back, err := hudi.ParseSchema(r.Schema.AvroWithMeta())
	if err != nil {
		t.Fatal(err)
	}
	if r = normalized(t, n, bodies(t, `{"d":7}`), back); r.Schema != back || at(r, 0, "d") != int64(7) {
		t.Error("read back")
	}
}

func TestDuplicateNames(t *testing.T) {
	n := normalizer(t, normalize.Options{MaxColumns: 3})
	s := normalized(t, n, bodies(t, `{"a":1,"s":"x","n":5}`), nil).Schema
	for _, c := range []struct{ doc, a, rescued any }{
		{`{"a":1,"a":2}`, int64(2), nil},
		{`{"a":1,"\u0061":2}`, int64(2), nil},
		{`{"a":1,"a":"x"}`, nil, `{"a":"x"}`},
		{`{"a":"x","a":1}`, int64(1), nil},
		{`{"a":"x","a":"y"}`, nil, `{"a":"y"}`},
		{`{"a":1,"a":null}`, nil, nil},
		{`{"a":"x","a":null}`, nil, nil},
		{`{"z":1,"z":2}`, nil, `{"z":2}`},
		{`{"z":1,"z":null}`, nil, nil},
		{`{"z":null,"\u007a":1,"y":0}`, nil, `{"z":1,"y":0}`},
	} {
		r := normalized(t, n, bodies(t, c.doc.(string)), s)
		if at(r, 0, "a") != c.a || at(r, 0, "_rescued") != c.rescued {
			t.Errorf("%s: a = %v, rescued %v", c.doc, at(r, 0, "a"), at(r, 0, "_rescued"))
		}
	}
	r := normalized(t, normalizer(t, normalize.Options{}), bodies(t, `{"v":"x","v":1}`, `{"v":2,"v":null}`), nil)
	if fields(t, r.Schema) != "v:long" || at(r, 0, "v") != int64(1) || at(r, 1, "v") != nil {
		t.Error("first batch:", fields(t, r.Schema), at(r, 0, "v"), at(r, 1, "v"))
	}
}

func TestNames(t *testing.T) {
	docs := []string{
		`{"Name":1,"name":2,"NAME":3}`,
		`{"a b":1,"a-b":2,"a_b":3}`,
		`{"1st":1,"":2,"é":3,"$ref":4,"\u0000":5,"a.b":6,"日本":7}`,
		`{"_op":1,"_rescued":2,"_doc":3,"_seq":4,"_hoodie_commit_time":5,"pt":6,"_ID":7,"_key":8,"_Hoodie_x":9}`,
		`{"_conflicts":["1-a"],"_revisions":{},"_local_seq":5}`,
	}
	const want = `Name:long name_2:long[field "name"] NAME_3:long[field "NAME"] ` +
		`a_b:long[field "a b"] a_b_2:long[field "a-b"] a_b_3:long[field "a_b"] ` +
		`_1st:long[field "1st"] _:long[field ""] __2:long[field "é"] _ref:long[field "$ref"] __3:long[field "\u0000"] a_b_4:long[field "a.b"] __:long[field "日本"] ` +
		`_op_2:long[field "_op"] _rescued_2:long[field "_rescued"] _doc_2:long[field "_doc"] _seq_2:long[field "_seq"] ` +
		`hoodie_commit_time:long[field "_hoodie_commit_time"] pt_2:long[field "pt"] _ID_2:long[field "_ID"] _key_2:long[field "_key"] Hoodie_x:long[field "_Hoodie_x"]`
	n := normalizer(t, normalize.Options{PartitionField: "day"})
	r := normalized(t, n, bodies(t, docs...), nil)
	if got := fields(t, r.Schema); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	// The mapping comes back from the schema alone.
	back, err := hudi.ParseSchema(r.Schema.Avro())
	if err != nil {
		t.Fatal(err)
	}
	again := normalized(t, normalizer(t, normalize.Options{PartitionField: "day"}), bodies(t, docs...), back)
	if again.Schema != back {
		t.Fatalf("columns were added:\n%s", fields(t, again.Schema))
	}
	for i := range again.Records {
		for j := range again.Schema.Len() {
			if cell(again.Records[i].Row[j]) != cell(r.Records[i].Row[j]) {
				t.Errorf("row %d: %s differs", i, again.Schema.Columns()[j].Name)
			}
		}
	}
}

func TestForeignColumns(t *testing.T) {
	s, err := hudi.NewSchema("docs",
		hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong},
		hudi.Column{Name: "i", Kind: hudi.KindInt}, hudi.Column{Name: "f", Kind: hudi.KindFloat}, hudi.Column{Name: "c", Kind: hudi.KindString, Doc: "somebody's words"},
		hudi.Column{Name: "day", Kind: hudi.KindInt, Type: `{"type":"int","logicalType":"date"}`})
	if err != nil {
		t.Fatal(err)
	}
	r := normalized(t, normalizer(t, normalize.Options{}), bodies(t, `{"i":7,"f":1.5,"c":"x","day":5}`, `{"i":2147483648}`), s)
	if at(r, 0, "i") != int32(7) || at(r, 0, "c") != "x" || at(r, 0, "_rescued") != `{"f":1.5,"day":5}` || at(r, 1, "_rescued") != `{"i":2147483648}` {
		t.Error(at(r, 0, "i"), at(r, 0, "c"), at(r, 0, "_rescued"), at(r, 1, "_rescued"))
	}
	const want = "_id:string _rev:string _rev_order:long i:int f:float c:string[somebody's words] day:int _op:string _deleted:boolean " +
		"_leaves:string _attachments:string _rescued:string _doc:string"
	if got := columns(r.Schema); got != want {
		t.Errorf("%s", got)
	}
}

func TestSchemasThatDoNotFit(t *testing.T) {
	id, rev, order := hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong}
	for name, cs := range map[string][]hudi.Column{
		"no id":       {rev, order},
		"no order":    {id, rev},
		"no pt":       {id, rev, order},
		"order kind":  {id, rev, {Name: "_rev_order", Kind: hudi.KindString}, {Name: "pt", Kind: hudi.KindString}},
		"required":    {id, rev, order, {Name: "pt", Kind: hudi.KindString}, {Name: "x", Kind: hudi.KindLong, Required: true}},
		"field twice": {id, rev, order, {Name: "pt", Kind: hudi.KindString}, {Name: "x", Kind: hudi.KindLong}, {Name: "y", Kind: hudi.KindLong, Doc: `field "x"`}},
	} {
		s, err := hudi.NewSchema("docs", cs...)
		if err != nil {
			t.Fatal(err)
		}
		n := normalizer(t, normalize.Options{PartitionField: "day"})
		if _, err = n.Normalize(bodies(t, `{}`), s); !errors.Is(err, normalize.ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err = n.Normalize(bodies(t, `{}`), nil); err != nil {
			t.Errorf("%s: after the error: %v", name, err)
		}
	}
}

func TestBudget(t *testing.T) {
	n := normalizer(t, normalize.Options{MaxColumns: 2})
	r := normalized(t, n, bodies(t, `{"a":1,"b":2,"c":3}`, `{"d":"x","a":4,"c":null}`, `{"b":"x"}`), nil)
	if fields(t, r.Schema) != "a:long b:string[mixed]" || at(r, 0, "_rescued") != `{"c":3}` || at(r, 1, "_rescued") != `{"d":"x"}` {
		t.Error(fields(t, r.Schema), at(r, 0, "_rescued"), at(r, 1, "_rescued"))
	}
	if r.Stats.OverBudget != 2 || r.Stats.Rescued != 2 {
		t.Errorf("%+v", r.Stats)
	}
	long := strings.Repeat("n", 300)
	r = normalized(t, normalizer(t, normalize.Options{}), bodies(t, `{"`+long+`":1}`), nil)
	if fields(t, r.Schema) != "" || at(r, 0, "_rescued") != `{"`+long+`":1}` {
		t.Error("a long name", fields(t, r.Schema))
	}
}

func TestDeletes(t *testing.T) {
	const body = `{"_id":"a","_rev":"2-b","_deleted":true,"why":"gone","n":5}`
	live := change(t, "x", `{"n":1,"day":"2024-01-05"}`)
	for _, c := range []struct {
		deletes string
		del     bool
		doc     any
	}{
		{"", false, body}, {normalize.Tombstone, false, body}, {normalize.TombstoneThenPurge, false, nil}, {normalize.Hard, true, nil},
	} {
		n := normalizer(t, normalize.Options{Deletes: c.deletes, PartitionField: "day"})
		r := normalized(t, n, batch(live, deletion(t, "a", body, "2-b", "1-x"), deletion(t, "b", "", "5-b")), nil)
		if fields(t, r.Schema) != "n:long day:string" {
			t.Errorf("%s: %s", c.deletes, fields(t, r.Schema))
		}
		for i, order := range []int64{3, 5} {
			rec := r.Records[i+1]
			if rec.Delete != c.del || !rec.AnyPartition || rec.Order != order || rec.Key.Partition != "pt=__HIVE_DEFAULT_PARTITION__" {
				t.Errorf("%s: %+v", c.deletes, rec)
			}
		}
		if r.Stats.DefaultPartition != 0 || r.Stats.Tombstones+r.Stats.Deletes != 2 {
			t.Errorf("%s: %+v", c.deletes, r.Stats)
		}
		if c.del {
			continue
		}
		for column, want := range map[string]any{"_id": "a", "_rev": "2-b", "_rev_order": int64(3), "_op": "d", "_deleted": true, "_doc": c.doc,
			"_leaves": `["2-b","1-x"]`, "n": nil, "pt": nil, "_rescued": nil} {
			if got := at(r, 1, column); got != want {
				t.Errorf("%s: %s = %v, want %v", c.deletes, column, got, want)
			}
		}
	}
}

func TestCollapse(t *testing.T) {
	n := normalizer(t, normalize.Options{})
	r := normalized(t, n, batch(
		change(t, "a", `{"v":1}`, "3-a"),
		change(t, "b", `{"v":2}`, "1-a"),
		change(t, "a", `{"v":3}`, "2-a"),             // a stale copy of the shard
		deletion(t, "b", "", "2-b"),                  // deleted
		change(t, "c", `{"v":4}`, "3-aaa", "2-bbb"),  // a conflict
		change(t, "b", `{"v":5}`, "3-c"),             // and created again
		change(t, "c", `{"v":6}`, "2-bbb", "4-dead"), // whose winner was deleted
		change(t, "d", `{"v":7}`, "1-a"),             // twice the same
		change(t, "d", `{"v":8}`, "1-a"),
	), nil)
	var parts []string
	for i := range r.Records {
		parts = append(parts, fmt.Sprintf("%s=%d", r.Records[i].Key.Record, at(r, i, "v")))
	}
	got := strings.Join(parts, " ")
	if got != "a=1 b=5 c=6 d=8" || r.Stats.Collapsed != 5 || r.Stats.Rows != 9 {
		t.Errorf("%s %+v", got, r.Stats)
	}
}

func TestOrdering(t *testing.T) {
	c := change(t, "a", `{}`, "3-a", "2-b")
	r := normalized(t, normalizer(t, normalize.Options{Ordering: normalize.Generation}), batch(c), nil)
	if r.Records[0].Order != 3 || at(r, 0, "_rev_order") != int64(3) {
		t.Error(r.Records[0].Order)
	}
	c.Leaves = nil
	r = normalized(t, normalizer(t, normalize.Options{Ordering: normalize.Generation}), batch(c), nil)
	if r.Records[0].Order != 3 || at(r, 0, "_leaves") != nil {
		t.Error(r.Records[0].Order)
	}
	if _, err := normalizer(t, normalize.Options{}).Normalize(batch(c), nil); !errors.Is(err, normalize.ErrLeaves) {
		t.Error(err)
	}
}

func TestRejects(t *testing.T) {
	defect := change(t, "x", `{}`)
	defect.Defect = "a revision that is none"
	noRev := change(t, "x", `{}`)
	noRev.Rev = changes.Rev{}
	noBody := change(t, "x", ``)
	noBody.Body = nil
	huge := change(t, "x", `{}`)
	for range 600 {
		huge.Leaves = append(huge.Leaves, changes.Rev{Generation: 1 << 31, Hash: "a"})
	}
	badRev := change(t, "x", `{}`)
	badRev.Leaves = append(badRev.Leaves, changes.Rev{Generation: 1, Hash: "\xff"})
	for _, c := range []struct {
		name   string
		change changes.Change
		reason string
	}{
		{"defect", defect, "a revision that is none"},
		{"no id", change(t, "", `{}`), "no _id"},
		{"bad id", change(t, "\xff", `{}`), "UTF-8"},
		{"no rev", noRev, "no revision"},
		{"bad rev", badRev, "UTF-8"},
		{"no body", noBody, "without a body"},
		{"null body", change(t, "x", `null`), "without a body"},
		{"huge tree", huge, "add up"},
		{"another document", change(t, "x", `{"_id":"y"}`), "another document"},
		{"id is no string", change(t, "x", `{"_id":5}`), "another document"},
		{"array", change(t, "x", `[]`), "object"},
		{"cut", change(t, "x", `{"a":1,"b":"x`), "not valid JSON"},
		{"cut in a new field", change(t, "x", `{"a":1,"fresh":[1,2],"b":{`), "not valid JSON"},
		{"tail", change(t, "x", `{"a":1}{`), "after the document"},
		{"utf-8", change(t, "x", "{\"a\":\"\xc3\"}"), "UTF-8"},
		{"utf-8 deep", change(t, "x", "{\"a\":[{\"\xff\":1}]}"), "UTF-8"},
		{"lone surrogate", change(t, "x", `{"a":"\ud800"}`), "not valid JSON"},
		{"deleted", deletion(t, "x", `{"a":`), "not valid JSON"},
		{"deleted, array", deletion(t, "x", `[]`), "object"},
	} {
		n := normalizer(t, normalize.Options{})
		r := normalized(t, n, batch(change(t, "first", `{"a":"x"}`), c.change, change(t, "last", `{"z":1}`)), nil)
		if len(r.Rejects) != 1 || !strings.Contains(r.Rejects[0].Reason, c.reason) || r.Rejects[0].Change.ID != c.change.ID {
			t.Errorf("%s: %+v", c.name, r.Rejects)
			continue
		}
		if len(r.Records) != 2 || fields(t, r.Schema) != "a:string z:long" || at(r, 1, "z") != int64(1) || at(r, 1, "a") != nil {
			t.Errorf("%s: %d records, %s", c.name, len(r.Records), fields(t, r.Schema))
		}
		if r.Stats.Collapsed != 0 {
			t.Errorf("%s: %+v", c.name, r.Stats)
		}
	}
}

// When the newest state is broken the batch still holds an older one.
func TestRejectedWinner(t *testing.T) {
	n := normalizer(t, normalize.Options{})
	r := normalized(t, n, batch(
		change(t, "a", `{"v":1}`, "1-a"), change(t, "a", `{"v":`, "3-a"), change(t, "b", `{"v":9}`), change(t, "a", `{"v":2}`, "2-a")), nil)
	if len(r.Records) != 2 || len(r.Rejects) != 1 || at(r, 1, "v") != int64(2) || r.Records[1].Key.Record != "a" || r.Stats.Collapsed != 1 {
		t.Errorf("%d %d %+v", len(r.Records), len(r.Rejects), r.Stats)
	}
	r = normalized(t, n, batch(change(t, "a", `{"v":1}`, "1-a"), change(t, "a", `{"v":`, "3-a")), nil)
	if len(r.Records) != 1 || at(r, 0, "v") != int64(1) {
		t.Error("the older one")
	}
	// Of equal ones the later arrival, also in the second place.
	r = normalized(t, n, batch(change(t, "a", `{"v":1}`, "1-a"), change(t, "a", `{"v":2}`, "2-a"), change(t, "a", `{"v":3}`, "2-b"),
		change(t, "a", `{"v":`, "4-a"), change(t, "a", `[]`, "3-a")), nil)
	if len(r.Records) != 1 || at(r, 0, "v") != int64(3) || len(r.Rejects) != 2 || r.Stats.Collapsed != 2 {
		t.Errorf("%v, %+v", at(r, 0, "v"), r.Stats)
	}
}

// A broken document leaves no trace: not in the budget, not in values that wait.
func TestBrokenLeavesNoTrace(t *testing.T) {
	r := normalized(t, normalizer(t, normalize.Options{MaxColumns: 2}), bodies(t,
		`{"a":1}`, `{"x":1,"a":"x","a":3,"y":[1],"a":`, `{"b":2,"a":4}`, `{"a":null,"b":3,"c":`, `{"b":5}`), nil)
	if fields(t, r.Schema) != "a:long b:long" || len(r.Rejects) != 2 || r.Stats.Rescued != 0 {
		t.Fatalf("%s, %d rejects, %+v", fields(t, r.Schema), len(r.Rejects), r.Stats)
	}
	if at(r, 0, "a") != int64(1) || at(r, 1, "a") != int64(4) || at(r, 1, "b") != int64(2) || at(r, 2, "a") != nil || at(r, 2, "b") != int64(5) {
		t.Error("cells")
	}
	s := r.Schema
	n := normalizer(t, normalize.Options{MaxColumns: 2})
	r = normalized(t, n, bodies(t, `{"a":"x","b":1,"z":1,"a":`, `{"b":2}`), s)
	if len(r.Records) != 1 || at(r, 0, "a") != nil || at(r, 0, "b") != int64(2) || at(r, 0, "_rescued") != nil {
		t.Error(at(r, 0, "a"), at(r, 0, "b"), at(r, 0, "_rescued"))
	}
}

// What a batch held may be written over once it is done with.
func TestNothingIsKept(t *testing.T) {
	n := normalizer(t, normalize.Options{PartitionField: "p"})
	doc := []byte(`{"name":"x","p":"part","n\u0061":1}`)
	c := change(t, "d", "")
	c.Body = doc
	s := normalized(t, n, batch(c), nil).Schema
	for i := range doc {
		doc[i] = '#'
	}
	r := normalized(t, n, bodies(t, `{"name":"y","p":"part","na":2}`), s)
	if r.Schema != s || at(r, 0, "name") != "y" || at(r, 0, "na") != int64(2) || r.Records[0].Key.Partition != "pt=part" || at(r, 0, "pt") != "part" {
		t.Error(fields(t, r.Schema), r.Records[0].Key)
	}
}

func TestDeepNesting(t *testing.T) {
	const depth = 100_000
	for _, doc := range []string{
		`{"v":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`,
		strings.Repeat(`{"v":`, depth) + "1" + strings.Repeat("}", depth),
	} {
		r := normalized(t, normalizer(t, normalize.Options{}), bodies(t, doc), nil)
		if len(r.Records) != 1 || at(r, 0, "v") != doc[5:len(doc)-1] || at(r, 0, "_doc") != doc {
			t.Error(len(r.Records), r.Rejects[0].Reason)
		}
	}
	if r := normalized(t, normalizer(t, normalize.Options{}), bodies(t, `{"v":`+strings.Repeat("[", depth)), nil); len(r.Rejects) != 1 {
		t.Error("open brackets")
	}
}

func TestEmptyBatch(t *testing.T) {
	n := normalizer(t, normalize.Options{})
	r := normalized(t, n, changes.Batch{}, nil)
	if r.Schema == nil || len(r.Records) != 0 || fields(t, r.Schema) != "" {
		t.Errorf("%+v", r)
	}
	if r2 := normalized(t, n, changes.Batch{}, r.Schema); r2.Schema != r.Schema {
		t.Error("another schema")
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []normalize.Options{
		{Ordering: "rev"}, {Deletes: "soft"}, {MaxColumns: -1},
		{PartitionField: "a", PartitionFormat: "yyyy/MM"}, {PartitionField: "a", PartitionFormat: "yy"}, {PartitionField: "_id"},
		{PartitionField: "a", PartitionName: "_pt"}, {PartitionField: "a", PartitionName: "a-b"}, {PartitionField: "a", PartitionName: "1a"},
		{PartitionField: "a", PartitionTimezone: "Mars/Olympus"}, {PartitionField: "a", PartitionTimezone: "Local"},
	} {
		if _, err := normalize.New(o); !errors.Is(err, normalize.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
