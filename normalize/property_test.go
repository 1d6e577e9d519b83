package normalize_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

var atoms = []string{"null", "true", "false", "0", "1", "-7", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
	"123456789012345678901234567890", "1.0", "-0", "-0.0", "2.5", "0.1", "1e2", "1e-7", "1e400", "1e-400", "5e-324", "3.0000000000000001", "12345678901234567000.0",
	`""`, `"a"`, `"quote \" slash \/ back \\ tab \t"`, `"\u00e9\ud83d\ude00"`, `"é😀 and some more text"`, "[]", "{}", `[1, "x", {"a":[null]}]`, `{"a":{"b":"}"}}`}

// names is how many fields random documents choose from.
const names = 9

// randomBatch has many writes to few documents with few fields, so that every
// rule meets every other.
//
// A name that comes twice in a document while the budget runs out is left out:
// which field then gets the last column depends on the order of reading.
func randomBatch(t *testing.T, r *rand.Rand, twice bool) changes.Batch {
	var b changes.Batch
	for range r.IntN(12) {
		id := string(rune('a' + r.IntN(8)))
		var leaves []string
		for range 1 + r.IntN(2) {
			leaves = append(leaves, fmt.Sprintf("%d-%x", 1+r.IntN(4), r.IntN(99)))
		}
		if r.IntN(6) == 0 {
			b.Changes = append(b.Changes, deletion(t, id, "", leaves...))
			continue
		}
		parts := []string{`"_id":"` + id + `"`}
		order := r.Perm(names)
		for i := range r.IntN(7) {
			name := order[i]
			if twice {
				name = r.IntN(names)
			}
			atom := atoms[r.IntN(len(atoms))]
			if r.IntN(2) == 0 { // mostly of one kind, or all columns would be mixed
				atom = []string{"1", "2.5", `"x"`, "true", "[1]"}[r.IntN(5)]
			}
			parts = append(parts, fmt.Sprintf(`"%c" : %s`, 'k'+rune(name), atom))
		}
		b.Changes = append(b.Changes, change(t, id, "{"+strings.Join(parts, " ,\n")+"}", leaves...))
	}
	return b
}

func TestAgainstReference(t *testing.T) {
	rounds := 600
	if testing.Short() {
		rounds = 150
	}
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 7))
		budget := 1 + r.IntN(12)
		ref := newReference(budget)
		n := normalizer(t, normalize.Options{MaxColumns: budget})
		var s *hudi.Schema
		for step := range 4 {
			b := randomBatch(t, r, budget >= names)
			want, err := ref.normalize(b.Changes)
			if err != nil {
				t.Fatal(err)
			}
			got := normalized(t, n, b, s)
			s = got.Schema
			compare(t, fmt.Sprintf("seed %d step %d", seed, step), got, want, ref)
			if step == 1 { // as after a restart
				n = normalizer(t, normalize.Options{MaxColumns: budget})
				if s, err = hudi.ParseSchema(s.Avro()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

func compare(t *testing.T, where string, got normalize.Result, want []map[string]string, ref *reference) {
	t.Helper()
	if len(got.Rejects) != 0 || len(got.Records) != len(want) {
		t.Fatalf("%s: %d records, want %d; %d rejects", where, len(got.Records), len(want), len(got.Rejects))
	}
	var columns []string
	for _, c := range got.Schema.Columns()[9:] {
		columns = append(columns, c.Name)
	}
	if strings.Join(columns, " ") != strings.Join(ref.names, " ") {
		t.Fatalf("%s: columns %v, want %v", where, columns, ref.names)
	}
	for i, w := range want {
		for _, name := range append(columns, "_rescued") {
			text := ""
			if v := at(got, i, name); v != nil {
				text = fmt.Sprintf("%T %v", v, v)
			}
			if text != w[name] {
				t.Errorf("%s: row %d (%v): %s = %q, want %q", where, i, at(got, i, "_doc"), name, text, w[name])
			}
		}
	}
}
