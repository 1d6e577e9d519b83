package compaction_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestCompactionChangesNothing: with compactions planned, pending and run among the
// commits, what was read of the changes before is read again, each commit adds its
// own at the end, and replayed they are the rows; with change files, without, and
// with a changelog.
func TestCompactionChangesNothing(t *testing.T) {
	for name, o := range map[string]table.CreateOptions{"computed": {}, "keys": {CDC: hudi.CDCOpKeyOnly}, "before": {CDC: hudi.CDCDataBefore},
		"both": {CDC: hudi.CDCDataBeforeAfter}, "changelog": {Extra: map[string]string{hudi.PropChangelog: "true"}}} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				w := newWorldOf(t, seed, o)
				w.rewrite = 20_000
				var pending hudi.Time
				var seen []string
				runs := 0
				for range 18 {
					switch {
					case pending == "" && w.logged() && w.rand.IntN(3) == 0:
						at, err := w.table.Schedule(t.Context(), w.planAll())
						w.must(err)
						pending = at
					case pending != "" && w.rand.IntN(2) == 0:
						_, err := compaction.Run(t.Context(), w.table, pending, compaction.RunOptions{Memory: 4000, TempDir: t.TempDir(), Clock: w.clock.Now})
						w.must(err)
						pending = ""
						runs++
					default:
						w.commit(10)
					}
					got := w.changes()
					if len(got) < len(seen) || !slices.Equal(got[:len(seen)], seen) {
						t.Fatalf("seed %d: what was read before is read otherwise:\n%s\nwas\n%s", seed, strings.Join(got, "\n"), strings.Join(seen, "\n"))
					}
					seen = got
				}
				if runs == 0 {
					t.Errorf("seed %d: no compaction ran", seed)
				}
			}
		})
	}
}

// logged says whether there are log files to compact.
func (w *world) logged() bool {
	w.t.Helper()
	v := w.view()
	for _, partition := range []string{"pt=0", "pt=1"} {
		list, err := v.Slices(w.t.Context(), partition)
		w.must(err)
		if slices.ContainsFunc(list, func(s hudi.Slice) bool { return len(s.Logs) > 0 }) {
			return true
		}
	}
	return false
}

// changes are those of the table as lines. They lead to the model's rows.
func (w *world) changes() []string {
	w.t.Helper()
	rows := map[string]string{}
	var lines []string
	for c, err := range reader.Changes(w.t.Context(), w.fresh(), "", "", reader.Options{Memory: 2000}) {
		w.must(err)
		key, before, after := strings.Clone(c.Key.Record), "", ""
		if c.Before != nil {
			before = value(w.schema, c.Before)
		}
		if c.After != nil {
			after = value(w.schema, c.After)
		}
		if was := rows[key]; was != before && (c.Before != nil || was != "") {
			w.t.Fatalf("%s of %q: before %q, it was %q", c.Op, key, before, was)
		}
		if rows[key] = after; c.After == nil {
			delete(rows, key)
		}
		lines = append(lines, fmt.Sprint(c.Instant, c.Op, key, before, after))
	}
	if !maps.Equal(rows, w.rows) {
		w.t.Fatalf("replayed %v\nwant %v", rows, w.rows)
	}
	return lines
}
