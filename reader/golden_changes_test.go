package reader_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// goldenChange is a row of Hudi's own query for changes. An image is JSON, or
// null, or the text null.
type goldenChange struct {
	Op      string  `json:"op"`
	Instant string  `json:"ts_ms"`
	Before  *string `json:"before"`
	After   *string `json:"after"`
}

// goldenSpan is one query for changes and its rows, or its error.
type goldenSpan struct {
	Begin string          `json:"begin"`
	End   string          `json:"end"`
	Rows  json.RawMessage `json:"rows"`
}

// TestGoldenChanges: the changes of tables that Spark wrote with change data
// capture are those that Spark reads of them; where its query fails, since it
// wrote no change file, ours are what the snapshots before and after say.
func TestGoldenChanges(t *testing.T) {
	for _, name := range []string{"w015-v6-cdc", "w015-v6-cdc-cow", "w015-v6-cdc-compaction", "w120-v9-cdc", "w120-v9-cdc-cow", "w120-v9-cdc-compaction"} {
		t.Run(name, func(t *testing.T) {
			bucket, want := golden(t, name)
			v := openView(t, bucket)
			s, err := v.Schema(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			failed, read := 0, 0
			for _, span := range want.CDC {
				for _, memory := range []int64{0, 1} {
					var got []map[string]any
					for c, err := range reader.Changes(t.Context(), v, hudi.Time(span.Begin), hudi.Time(span.End), reader.Options{Memory: memory, TempDir: t.TempDir()}) {
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, map[string]any{"op": c.Op.String(), "ts_ms": string(c.Instant), "before": scalars(t, s, c.Before), "after": scalars(t, s, c.After)})
					}
					var list []goldenChange
					if json.Unmarshal(span.Rows, &list) != nil {
						failed++
						if len(got) != 6 { // the step is "insert 6"
							t.Errorf("%s to %s: %d changes", span.Begin, span.End, len(got))
						}
						continue
					}
					read += len(list)
					sameChanges(t, span.Begin+" to "+span.End, got, changeRows(t, list))
				}
			}
			if read == 0 || failed != 2 {
				t.Errorf("%d rows, %d failed queries", read, failed)
			}
			all := collectChanges(t, v)
			if got := len(follow(t, all)); got != len(want.Snapshot) {
				t.Errorf("replayed %d rows, the snapshot has %d", got, len(want.Snapshot))
			}
		})
	}
}

// changeRows are Hudi's rows in the form of ours: of an image the columns that
// hold a scalar. The arrays and structs of Spark's are its own memory in base64.
func changeRows(t *testing.T, list []goldenChange) []map[string]any {
	t.Helper()
	var out []map[string]any
	image := func(text *string) map[string]any {
		if text == nil || *text == "null" {
			return nil
		}
		var row map[string]any
		if err := decode([]byte(*text), &row); err != nil {
			t.Fatalf("%v: %s", err, *text)
		}
		return simple(row)
	}
	for _, c := range list {
		out = append(out, map[string]any{"op": c.Op, "ts_ms": c.Instant, "before": image(c.Before), "after": image(c.After)})
	}
	return out
}

func simple(row map[string]any) map[string]any {
	for k, v := range row {
		switch v.(type) {
		case nil, []any, map[string]any:
			delete(row, k)
		default:
			row[k] = number(v)
		}
		if hudi.IsMetaColumn(k) {
			delete(row, k)
		}
	}
	return row
}

func scalars(t *testing.T, s *hudi.Schema, r *hudi.Record) map[string]any {
	t.Helper()
	if r == nil {
		return nil
	}
	text, err := printer(t, s).AppendJSON(nil, r, false)
	if err != nil {
		t.Fatal(err)
	}
	var row map[string]any
	if err := decode(text, &row); err != nil {
		t.Fatal(err)
	}
	return simple(row)
}

func sameChanges(t *testing.T, what string, got, want []map[string]any) {
	t.Helper()
	order := func(a, b map[string]any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n got %v\nwant %v", what, lines(got), lines(want))
	}
}

func lines(list []map[string]any) string {
	var b strings.Builder
	for _, m := range list {
		fmt.Fprintln(&b, m)
	}
	return b.String()
}
