package normalize_test

import (
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

func rev(t testing.TB, s string) changes.Rev {
	t.Helper()
	r, err := changes.ParseRev(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// change is a live change with the given leaves, the winner first.
func change(t testing.TB, id, body string, leaves ...string) changes.Change {
	t.Helper()
	if len(leaves) == 0 {
		leaves = []string{"1-a"}
	}
	c := changes.Change{ID: id, Body: []byte(body)}
	for _, l := range leaves {
		c.Leaves = append(c.Leaves, rev(t, l))
	}
	c.Rev = c.Leaves[0]
	return c
}

func deletion(t testing.TB, id, body string, leaves ...string) changes.Change {
	t.Helper()
	c := change(t, id, body, leaves...)
	c.Deleted = true
	if body == "" {
		c.Body = nil
	}
	return c
}

func batch(cs ...changes.Change) changes.Batch { return changes.Batch{Changes: cs} }

// bodies is a batch of live documents d0, d1, … with these bodies.
func bodies(t testing.TB, docs ...string) changes.Batch {
	t.Helper()
	var b changes.Batch
	for i, d := range docs {
		b.Changes = append(b.Changes, change(t, "d"+string(rune('0'+i)), d))
	}
	return b
}

func normalizer(t testing.TB, o normalize.Options) *normalize.Normalizer {
	t.Helper()
	if o.Table == "" {
		o.Table = "docs"
	}
	n, err := normalize.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func normalized(t testing.TB, n *normalize.Normalizer, b changes.Batch, s *hudi.Schema) normalize.Result {
	t.Helper()
	r, err := n.Normalize(b, s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Records {
		if rec := &r.Records[i]; rec.Delete != (rec.Row == nil) || (rec.Row != nil && len(rec.Row) != r.Schema.Len()) {
			t.Fatalf("record %d: %d cells for %d columns", i, len(rec.Row), r.Schema.Len())
		}
	}
	return r
}

// columns is the schema in short: "name:type", the doc in brackets.
func columns(s *hudi.Schema) string {
	var parts []string
	for _, c := range s.Columns() {
		p := c.Name + ":" + c.Kind.String()
		if c.Doc != "" {
			p += "[" + c.Doc + "]"
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, " ")
}

// fields is columns without the envelope.
func fields(t testing.TB, s *hudi.Schema) string {
	t.Helper()
	_, rest, ok := strings.Cut(columns(s)+" ", "_doc:string ")
	if !ok {
		t.Fatalf("no _doc in %s", columns(s))
	}
	return strings.TrimSpace(rest)
}

// cell is a value for people: null, true, 5L, 5D, "text".
func cell(v hudi.Value) any {
	switch v.Kind() {
	case hudi.KindNull:
		return nil
	case hudi.KindBoolean:
		return v.Boolean()
	case hudi.KindInt:
		return v.Int()
	case hudi.KindLong:
		return v.Long()
	case hudi.KindDouble:
		return v.Double()
	default:
		return v.Text()
	}
}

// at is one cell of a result.
func at(r normalize.Result, record int, column string) any {
	return cell(r.Schema.At(r.Records[record].Row, column))
}
