package normalize_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// nasty is a document of testdata/nasty.txt.
type nasty struct {
	id, doc string
	// want are the columns written down, in order.
	want [][2]string
}

func nastyOnes(t testing.TB) (all []nasty) {
	t.Helper()
	f, err := os.Open("testdata/nasty.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), ": ")
		switch {
		case !found || strings.HasPrefix(name, "#"):
		case name == "id" && (len(all) == 0 || all[len(all)-1].doc != "") && !strings.HasPrefix(value, "long "):
			all = append(all, nasty{id: value})
		case name == "doc" && all[len(all)-1].doc == "":
			all[len(all)-1].doc = value
		default:
			n := &all[len(all)-1]
			n.want = append(n.want, [2]string{name, value})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// nastyDeclared are the columns that testdata/nasty.txt takes for declared.
func nastyDeclared() []normalize.Declared {
	return []normalize.Declared{{Name: "d_long", Type: "long"}, {Name: "d_at", Type: "timestamp"}, {Name: "d_day", Type: "date"},
		{Name: "d_dec", Type: "decimal(19,2)"}, {Name: "d_zip", Path: "addr.zip", Type: "string"}}
}

// written is a cell as testdata/nasty.txt writes it.
func written(c *hudi.Column, v hudi.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case strings.Contains(c.Type, "timestamp-micros"):
		return "micros " + strconv.FormatInt(v.Long(), 10)
	case strings.Contains(c.Type, `"date"`):
		return "days " + strconv.FormatInt(v.Long(), 10)
	case strings.Contains(c.Type, `"decimal"`):
		n := new(big.Int).SetBytes(v.Raw())
		if v.Raw()[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v.Raw()))))
		}
		text := new(big.Rat).SetFrac(n, big.NewInt(100)).FloatString(2)
		return "decimal " + strings.TrimSuffix(text, "0")
	case v.Kind() == hudi.KindString:
		return "string " + strconv.Quote(v.Text())
	case v.Kind() == hudi.KindDouble:
		return "double " + strconv.FormatFloat(v.Double(), 'g', -1, 64)
	}
	return fmt.Sprintf("%s %v", v.Kind(), cell(v))
}

func nastyBatch(t testing.TB) (changes.Batch, []nasty) {
	t.Helper()
	all := nastyOnes(t)
	if len(all) < 60 {
		t.Fatalf("%d documents", len(all))
	}
	var b changes.Batch
	for _, n := range all {
		b.Changes = append(b.Changes, change(t, n.id, n.doc))
	}
	return b, all
}

func TestNasty(t *testing.T) {
	b, all := nastyBatch(t)
	n := normalizer(t, normalize.Options{Declare: nastyDeclared()})
	r := normalized(t, n, b, nil)
	for round := range 2 {
		if len(r.Records) != len(all) {
			t.Fatalf("%d records of %d documents", len(r.Records), len(all))
		}
		for i, doc := range all {
			columns := r.Schema.Columns()
			for _, w := range doc.want {
				at, ok := r.Schema.Lookup(w[0])
				if !ok && w[1] == "null" {
					continue
				}
				if !ok {
					t.Errorf("%s: no column %s", doc.id, w[0])
					continue
				}
				if got := written(&columns[at], r.Records[i].Row[at]); got != quotedAgain(w[1]) {
					t.Errorf("round %d, %s: %s is %s, want %s", round, doc.id, w[0], got, w[1])
				}
			}
			// Nothing else may hold a value.
			for at := range columns[9:] {
				c := &columns[9+at]
				named := slices.ContainsFunc(doc.want, func(w [2]string) bool { return w[0] == c.Name })
				if v := r.Records[i].Row[9+at]; !named && !v.IsNull() && c.Name != "_doc" {
					t.Errorf("round %d, %s: %s is %s", round, doc.id, c.Name, written(c, v))
				}
			}
		}
		s, err := hudi.ParseSchema(r.Schema.Avro())
		if err != nil {
			t.Fatal(err)
		}
		r = normalized(t, normalizer(t, normalize.Options{Declare: nastyDeclared()}), b, s)
	}
}

// quotedAgain brings a string's quotes into the form that Go gives them.
func quotedAgain(w string) string {
	if text, ok := strings.CutPrefix(w, "string "); ok {
		if plain, err := strconv.Unquote(text); err == nil {
			return "string " + strconv.Quote(plain)
		}
	}
	return w
}

// What is too large to be written down.
func TestMonsters(t *testing.T) {
	const keys, depth, length = 5000, 100_000, 8 << 20
	var many strings.Builder
	for i := range keys {
		fmt.Fprintf(&many, `,"key%d":%d`, i, i)
	}
	docs := []string{`{"first":1` + many.String() + `}`, `{"deep":` + strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth) + `}`,
		`{"long":"` + strings.Repeat("x", length) + `"}`, `{"objects":` + strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat(`}`, depth) + `}`}
	for _, drop := range []bool{false, true} {
		r := normalized(t, normalizer(t, normalize.Options{DropDoc: drop}), bodies(t, docs[2], docs[1], docs[3], docs[0]), nil)
		if r.Stats.OverBudget != keys+4-normalize.DefaultMaxColumns || len(r.Rejects) > 0 {
			t.Errorf("%d over the budget, %d rejects", r.Stats.OverBudget, len(r.Rejects))
		}
		b := normalize.NewRebuilder(r.Schema, "")
		for i, doc := range []string{docs[2], docs[1], docs[3], docs[0]} {
			got, err := b.Append(nil, r.Records[i].Row)
			if err != nil {
				t.Fatal(err)
			}
			// encoding/json refuses what is nested so deeply; the members stand in the order of the columns here.
			if !bytes.HasSuffix(got, []byte(doc[1:])) {
				t.Errorf("monster %d: %.200s is not %.200s", i, got, doc)
			}
		}
	}
}
