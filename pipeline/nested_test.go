package pipeline_test

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// nestedDocs are documents with arrays and objects, of few names, so that they meet.
func nestedDocs(r *rand.Rand, n int) changes.Batch {
	var b changes.Batch
	for i := range n {
		body := fmt.Sprintf(`{"f":%s,"g":%s,"h":%s}`, nestedJSON(r, 'f', 0), nestedJSON(r, 'g', 0), nestedJSON(r, 'h', 0))
		rev := changes.Rev{Generation: 1, Hash: "a"}
		b.Changes = append(b.Changes, changes.Change{ID: fmt.Sprintf("d%d", i), Rev: rev, Leaves: []changes.Rev{rev}, Body: []byte(body)})
	}
	return b
}

// nestedJSON is the value of a name, of the kind that the name mostly has.
func nestedJSON(r *rand.Rand, name rune, depth int) string {
	if r.IntN(12) == 0 {
		name = rune('a' + r.IntN(8))
	}
	var parts []string
	switch name {
	case 'a':
		return []string{"1", "-7", "9007199254740993", "null"}[r.IntN(4)]
	case 'b':
		return []string{`"x"`, `""`, `"\u00e9\n"`}[r.IntN(3)]
	case 'c':
		return []string{"true", "0.5", "2.5", "null"}[r.IntN(4)]
	case 'e', 'g':
		of := rune("abcdfh"[r.IntN(2)*3+depth%3])
		for range r.IntN(3) {
			parts = append(parts, nestedJSON(r, of, depth+1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	for _, i := range r.Perm(7)[:r.IntN(5)] {
		if child := rune('a' + i); depth < 5 {
			parts = append(parts, fmt.Sprintf("%q:%s", string(child), nestedJSON(r, child, depth+1)))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestNestedCellsComeBack: what is written of a type is read of the type that it has
// grown to as that would have written it, from base files and from log files.
func TestNestedCellsComeBack(t *testing.T) {
	const rounds, docs = 60, 12
	compared, grew := 0, 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 31))
		n, err := normalize.New(normalize.Options{Table: "t", Nested: normalize.NestedStruct, NestedDepth: 1 + r.IntN(5)})
		if err != nil {
			t.Fatal(err)
		}
		first, second := nestedDocs(r, docs), nestedDocs(r, docs)
		old, err := n.Normalize(first, nil)
		if err != nil {
			t.Fatal(err)
		}
		base, log := baseOf(t, &old), logOf(t, &old)
		grown, err := n.Normalize(second, old.Schema)
		if err != nil {
			t.Fatal(err)
		}
		want, err := n.Normalize(first, grown.Schema)
		if err != nil || !want.Schema.Same(grown.Schema) {
			t.Fatal(err)
		}
		read := map[string][]hudi.Row{"base": base(want.Schema), "log": log(want.Schema)}
		for i, c := range want.Schema.Columns() {
			if c.Kind != hudi.KindNested {
				continue
			}
			for k := range want.Records {
				// What had no place at first is null, and has one now.
				expected := want.Records[k].Row[i]
				if strings.Contains(want.Schema.At(old.Records[k].Row, hudi.ColumnRescued).Text(), `"`+c.Name) || i >= old.Schema.Len() {
					continue
				}
				if compared++; c.Type != old.Schema.Columns()[i].Type && !expected.IsNull() {
					grew++
				}
				for where, rows := range read {
					if got := rows[k][i]; got != expected {
						t.Fatalf("seed %d, %s, %s of type %s: %x, want %x of %s", seed, where, c.Name, c.Type, got.Text(), expected.Text(), first.Changes[k].Body)
					}
				}
			}
		}
	}
	if compared < rounds || grew < rounds {
		t.Errorf("%d cells compared in %d rounds, %d of types that grew", compared, rounds, grew)
	}
}

// baseOf writes records as a base file, and reads them of another schema.
func baseOf(t *testing.T, r *normalize.Result) func(*hudi.Schema) []hudi.Row {
	t.Helper()
	var b bytes.Buffer
	w, err := basefile.NewWriter(&b, r.Schema, basefile.WriterOptions{Stamp: hudi.Stamp{Instant: "20260101000000000"}, FileName: "f"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Records {
		if err := w.Append(&r.Records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := basefile.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return func(s *hudi.Schema) []hudi.Row { return rowsOf(t, f.Records(s, hudi.ColumnRevOrder)) }
}

// logOf is baseOf for a log file.
func logOf(t *testing.T, r *normalize.Result) func(*hudi.Schema) []hudi.Row {
	t.Helper()
	var b bytes.Buffer
	w, err := logfile.NewWriter(&b, r.Schema, logfile.WriterOptions{Stamp: hudi.Stamp{Instant: "20260101000000000"}, File: "f"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Records {
		if err := w.Append(&r.Records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	block, err := logfile.NewScanner(bytes.NewReader(b.Bytes()), int64(b.Len())).Next()
	if err != nil {
		t.Fatal(err)
	}
	return func(s *hudi.Schema) []hudi.Row { return rowsOf(t, block.Records(s, hudi.ColumnRevOrder)) }
}

func rowsOf(t *testing.T, records iter.Seq2[*hudi.Record, error]) (rows []hudi.Row) {
	t.Helper()
	for r, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r.Clone().Row)
	}
	return rows
}
