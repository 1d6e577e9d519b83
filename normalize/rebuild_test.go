package normalize_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// sameDocument says that two documents have the same members: numbers, arrays and
// objects byte for byte, strings character by character. Of a name that comes
// twice the last value counts.
func sameDocument(t *testing.T, where string, want, got []byte) {
	t.Helper()
	wanted, given := rawMembers(t, where, want), rawMembers(t, where, got)
	for name, w := range wanted {
		g, ok := given[name]
		delete(given, name)
		if !ok || !sameValue(w, g) {
			t.Fatalf("%s: member %q is %.200s, want %.200s\nof %.300s", where, name, g, w, want)
		}
	}
	for name := range given {
		if name != "_id" && name != "_rev" && name != "_deleted" {
			t.Fatalf("%s: a member %q, which is not in %.300s", where, name, want)
		}
	}
}

func rawMembers(t *testing.T, where string, doc []byte) map[string]string {
	t.Helper()
	ms := map[string]string{}
	list, err := members(doc)
	if err != nil {
		t.Fatalf("%s: %v: %.300s", where, err, doc)
	}
	for _, m := range list {
		ms[m.name] = m.raw
	}
	return ms
}

func sameValue(a, b string) bool {
	if a[0] != '"' || b[0] != '"' {
		return a == b
	}
	var x, y string
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && x == y
}

// nastyAtoms are values that some column or other cannot hold, or not tell.
var nastyAtoms = append(slices.Clone(atoms), `"1"`, `"true"`, `"null"`, `"[1]"`, `"{}"`, `"-0.0"`, `" 1"`, `"2024-01-05T10:00:00Z"`, `"2024-01-05T10:00:00.000Z"`,
	`"2024-01-05T10:00:00.123456+05:30"`, `"2024-01-05"`, `"1.50"`, "1.50", "12.5", "-12.50", "1700000000", "1700000000.5", "1700000000123", "5.0", "5", "1e22", "1e+22",
	"1e-7", "100.0", "1e2", "-1", `"05.01.2024"`, `"a\u0000b"`, `"\u0061"`, "9007199254740992", "9007199254740992.0", "0.0", "0")

// nastyKeys are names that some column or other cannot have.
var nastyKeys = []string{"", " ", "a", "A", "a.b", "a_b", "b", "b_string", "b_long", "9", "_9", "é", "😀", "_hoodie_commit_time", "hoodie_commit_time", "pt", "\\u0061", "d", "D",
	"_paths2", "select", "a\\\"b", "c", "e", "f"}

func nastyDoc(r *rand.Rand, id string) string {
	var parts []string
	for range r.IntN(9) {
		v := nastyAtoms[r.IntN(len(nastyAtoms))]
		if r.IntN(4) == 0 {
			v = fmt.Sprintf(`{"z": %s, "y":[%s]}`, v, nastyAtoms[r.IntN(len(nastyAtoms))])
		}
		if r.IntN(3) == 0 {
			v = nestedValue(r, 0)
		}
		parts = append(parts, `"`+nastyKeys[r.IntN(len(nastyKeys))]+`" :`+v)
	}
	if r.IntN(9) == 0 {
		parts = append(parts, `"_attachments":`+[]string{`{"x":{"stub":true}}`, `null`}[r.IntN(2)])
	}
	return `{"_id":"` + id + `",` + `"_rev":"1-a"` + strings.Join(append([]string{""}, parts...), ",") + "}"
}

// nestedValue is an array or object, mostly of one kind, or a scalar.
func nestedValue(r *rand.Rand, depth int) string {
	simple := []string{"1", "2.5", `"x"`, "true", "null", "1.0", `"\u0041"`}
	kind := r.IntN(3)
	if depth > 3 {
		kind = 2
	}
	var parts []string
	switch kind {
	case 0:
		same := simple[r.IntN(len(simple))]
		for range r.IntN(4) {
			v := same
			if r.IntN(3) == 0 {
				v = nestedValue(r, depth+1)
			}
			parts = append(parts, v)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case 1:
		for range r.IntN(5) {
			parts = append(parts, `"`+nastyKeys[r.IntN(len(nastyKeys))]+`":`+nestedValue(r, depth+1))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return simple[r.IntN(len(simple))]
}

func nastyOptions(r *rand.Rand) normalize.Options {
	o := normalize.Options{DropDoc: true, MaxColumns: 4 + r.IntN(40), Others: []string{normalize.Inferred, normalize.Rescued}[r.IntN(4)/3],
		Conflict: []string{normalize.Rescue, normalize.AsString, normalize.NewColumn}[r.IntN(3)]}
	if r.IntN(2) == 0 {
		o.PartitionField = "c"
	}
	if r.IntN(2) == 0 {
		o.Nested, o.NestedDepth, o.NestedWidth = normalize.NestedStruct, 1+r.IntN(4), 1+r.IntN(4)
	}
	types := []string{"boolean", "long", "double", "string", "json", "timestamp", "date", "decimal(9,2)", "timestamp epoch-seconds", "timestamp epoch-milliseconds", "date dd.MM.yyyy"}
	for i, path := range []string{"a", "b", "d", `["a.b"]`, "e.z", "e.y[0]", "f"} {
		if r.IntN(2) == 0 {
			typ, format, _ := strings.Cut(types[r.IntN(len(types))], " ")
			o.Declare = append(o.Declare, normalize.Declared{Name: fmt.Sprintf("col%d", i), Path: path, Type: typ, Format: format,
				Conflict: []string{"", normalize.Rescue, normalize.AsString, normalize.NewColumn}[r.IntN(4)]})
		}
	}
	return o
}

// From the columns and _rescued alone every document is rebuilt as it was given,
// whatever is declared, whatever the policies, and when they change.
func TestRebuild(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 11))
		o := nastyOptions(r)
		n := normalizer(t, o)
		var s *hudi.Schema
		for step := range 4 {
			var b changes.Batch
			for i := range 1 + r.IntN(6) {
				id := fmt.Sprintf("d%d", i)
				c := change(t, id, nastyDoc(r, id), "1-a")
				c.Deleted = r.IntN(6) == 0
				b.Changes = append(b.Changes, c)
			}
			got := normalized(t, n, b, s)
			if len(got.Rejects) > 0 {
				t.Fatalf("seed %d: %s", seed, got.Rejects[0].Reason)
			}
			parsed, err := hudi.ParseSchema(got.Schema.Avro())
			if err != nil {
				t.Fatal(err)
			}
			partition := ""
			if o.PartitionField != "" {
				partition = normalize.DefaultPartitionName
			}
			rebuilder := normalize.NewRebuilder(parsed, partition)
			for i := range got.Records {
				doc, err := rebuilder.Append(nil, got.Records[i].Row)
				if err != nil {
					t.Fatal(err)
				}
				sameDocument(t, fmt.Sprintf("seed %d step %d", seed, step), b.Changes[i].Body, doc)
			}
			s = got.Schema
			if step == 1 { // another configuration, and a restart
				s = parsed
				next := nastyOptions(r)
				next.PartitionField = o.PartitionField
				if candidate := normalizer(t, next); candidate.Check(s) == nil {
					n = candidate
				}
			}
		}
	}
}

// The documents of testdata/nasty.txt, with _doc and without.
func TestRebuildNasty(t *testing.T) {
	b, all := nastyBatch(t)
	for _, drop := range []bool{false, true} {
		n := normalizer(t, normalize.Options{Declare: nastyDeclared(), DropDoc: drop})
		r := normalized(t, n, b, nil)
		for range 2 {
			rebuilder := normalize.NewRebuilder(r.Schema, "")
			for i := range all {
				doc, err := rebuilder.Append(nil, r.Records[i].Row)
				if err != nil {
					t.Fatal(err)
				}
				if !drop && string(doc) != all[i].doc {
					t.Errorf("%s: %s is not byte for byte %s", all[i].id, doc, all[i].doc)
				}
				sameDocument(t, all[i].id, []byte(all[i].doc), doc)
			}
			r = normalized(t, n, b, r.Schema)
		}
	}
}
