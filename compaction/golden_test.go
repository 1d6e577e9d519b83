package compaction_test

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/golden"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// load is a golden table in memory.
func load(t *testing.T, name string) *storage.Bucket {
	t.Helper()
	return golden.Load(t, storage.New(teststore.New(t), nil), name)
}

// jsonLines are the rows as JSON with their meta columns, but for the file's
// name, sorted.
func jsonLines(t *testing.T, s *hudi.Schema, seq iter.Seq2[*hudi.Record, error]) []string {
	t.Helper()
	var out []string
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		line, err := printer(t, s).AppendJSON(nil, r, true)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(line))
	}
	slices.Sort(out)
	return out
}

// We run what Spark has planned: the rows stay, with all that Spark wrote of
// them, and those that came after the plan stay on top.
func TestRunSparksPlan(t *testing.T) {
	b := load(t, "w015-v6-compaction-pending")
	tb, err := table.Open(t.Context(), b, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	look := func() (v *table.View, snapshot []string) {
		v, err := tb.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := v.Schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v, jsonLines(t, s, reader.Snapshot(t.Context(), v, reader.Options{IncludeDeletes: true}))
	}
	v, before := look()
	pending := v.Compactions()
	if len(pending) != 1 || len(before) == 0 {
		t.Fatalf("pending %v, %d rows", pending, len(before))
	}
	at := pending[0].Time
	schema, err := v.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	planned := jsonLines(t, schema, reader.Snapshot(t.Context(), v.AsOf(at), reader.Options{IncludeDeletes: true}))
	r, err := compaction.Run(t.Context(), tb, at, compaction.RunOptions{Memory: 1, TempDir: t.TempDir(),
		Clock: func() time.Time { return time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC) }})
	if err != nil || r.Slices != 3 || r.Instant != at {
		t.Fatalf("%+v %v", r, err)
	}
	v, after := look()
	if !slices.Equal(after, before) {
		t.Errorf("after:\n%s\nbefore:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	if len(v.Compactions()) != 0 {
		t.Errorf("still pending: %v", v.Compactions())
	}
	if got := jsonLines(t, schema, reader.ReadOptimized(t.Context(), v.AsOf(at), reader.Options{IncludeDeletes: true})); !slices.Equal(got, planned) {
		t.Errorf("read-optimized:\n%s\nas planned:\n%s", strings.Join(got, "\n"), strings.Join(planned, "\n"))
	}
}

func printer(t *testing.T, s *hudi.Schema) *reader.Printer {
	t.Helper()
	p, err := reader.NewPrinter(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
