package reader_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// step is a change with its images as text.
type step struct {
	instant            hudi.Time
	op                 hudi.Op
	key, before, after string
}

func imageText(t *testing.T, s *hudi.Schema, r *hudi.Record) string {
	t.Helper()
	if r == nil {
		return ""
	}
	text, err := printer(t, s).AppendJSON(nil, r, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func collectChanges(t *testing.T, v *table.View) []step {
	t.Helper()
	s, err := v.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []step
	for c, err := range reader.Changes(t.Context(), v, "", "", reader.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, step{c.Instant, c.Op, strings.Clone(c.Key.Record), imageText(t, s, c.Before), imageText(t, s, c.After)})
	}
	return out
}

// follow replays changes into a map by record key alone: each finds the row as the
// one before left it.
func follow(t *testing.T, list []step) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for i, c := range list {
		if i > 0 && c.instant.Before(list[i-1].instant) {
			t.Errorf("%s after %s", c.instant, list[i-1].instant)
		}
		if rows[c.key] != c.before || (c.before == "") != (c.op == hudi.OpInsert) || (c.after == "") != (c.op == hudi.OpDelete) {
			t.Errorf("%s %s of %q: before %s, was %s", c.instant, c.op, c.key, c.before, rows[c.key])
		}
		if rows[c.key] = c.after; c.after == "" {
			delete(rows, c.key)
		}
	}
	return rows
}

// TestChangesOfGoldenTables: for tables without change files, by Spark, the
// changes replayed are the snapshot: with moved partitions, compactions, a
// clustering, an overwritten partition and failed writes.
func TestChangesOfGoldenTables(t *testing.T) {
	for _, name := range []string{"bloom", "bloom-nomdt", "nonpartitioned", "hive-style", "global-bloom-move", "bucket", "bucket-compaction",
		"clustering", "insert-overwrite", "compaction-pending", "failed-inflight", "failed-rollback-nomarkers"} {
		t.Run(name, func(t *testing.T) {
			bucket, _ := golden(t, "w015-v6-"+name)
			v := openView(t, bucket)
			s, err := v.Schema(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for r, err := range reader.Snapshot(t.Context(), v, reader.Options{IncludeDeletes: true}) {
				if err != nil {
					t.Fatal(err)
				}
				want[strings.Clone(r.Key.Record)] = imageText(t, s, r)
			}
			got := follow(t, collectChanges(t, v))
			if !maps.Equal(got, want) {
				t.Errorf("replayed %v\nwant %v", got, want)
			}
		})
	}
}

// TestChangesOfCleanedCommits: where a clean took what a commit found, the range is
// refused before any change, and works from the commit on that the error names.
func TestChangesOfCleanedCommits(t *testing.T) {
	bucket, want := golden(t, "w015-v6-compaction-clean")
	v := openView(t, bucket)
	var gone *reader.RangeError
	n := 0
	for _, err := range reader.Changes(t.Context(), v, "", "", reader.Options{}) {
		if n++; !errors.As(err, &gone) {
			t.Fatalf("a change, or %v", err)
		}
	}
	if n != 1 || gone == nil || gone.Commit == "" || gone.File == "" || !errors.Is(gone, reader.ErrCleaned) {
		t.Fatalf("%d steps, %+v", n, gone)
	}
	keys := map[string]bool{}
	for c, err := range reader.Changes(t.Context(), v, gone.Oldest, "", reader.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys[strings.Clone(c.Key.Record)] = true
	}
	if len(keys) == 0 || len(want.Snapshot) == 0 {
		t.Errorf("no changes after %s", gone.Oldest)
	}
}
