package writer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/writer"
)

// cells are the data columns of a record as text, "" for none.
func cells(r *hudi.Record) string {
	if r == nil {
		return ""
	}
	return fmt.Sprint(r.Row[0].Text(), "|", r.Row[2].Long(), "|", r.Row[5].Text())
}

// changes are those after begin, as lines "instant op key before after".
func (w *world) changes(begin hudi.Time, o reader.Options) []string {
	w.t.Helper()
	v, err := w.table.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for c, err := range reader.Changes(w.t.Context(), v, begin, "", o) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range []*hudi.Record{c.Before, c.After} {
			if r != nil && (r.Key.Record != c.Key.Record || r.Key.Partition != c.Key.Partition) {
				w.t.Fatalf("image of %v in a change of %v", r.Key, c.Key)
			}
		}
		out = append(out, fmt.Sprintf("%s\t%s\t%s %s\t%s\t%s", c.Instant, c.Op, c.Key.Partition, c.Key.Record, cells(c.Before), cells(c.After)))
	}
	return out
}

// follow replays changes: each sees the row before it as the one before left it.
func follow(t *testing.T, lines []string) map[string]string {
	t.Helper()
	rows := map[string]string{}
	last := ""
	for _, line := range lines {
		f := strings.Split(line, "\t")
		instant, op, key, before, after := f[0], f[1], f[2], f[3], f[4]
		if instant < last {
			t.Fatalf("%s after %s", instant, last)
		}
		last = instant
		want := map[string][2]bool{"i": {false, true}, "u": {true, true}, "d": {true, false}}[op]
		if got := [2]bool{before != "", after != ""}; got != want || rows[key] != before {
			t.Fatalf("%s: before it was %q", line, rows[key])
		}
		if rows[key] = after; after == "" {
			delete(rows, key)
		}
	}
	return rows
}

// TestChangesAreTheHistory: for a table of each mode, written alike, the changes
// are the same; replayed they are the snapshot, from any instant on; and memory
// does not matter.
func TestChangesAreTheHistory(t *testing.T) {
	for seed := range uint64(4) {
		var first []string
		for _, cdc := range []hudi.CDCMode{hudi.CDCOff, hudi.CDCOpKeyOnly, hudi.CDCDataBefore, hudi.CDCDataBeforeAfter} {
			w := newWorldOf(t, seed, seed%2 == 0, cdc)
			w.o.FileBytes, w.o.MaxRewrite, w.o.Parallel = 60_000, []int64{0, 30_000}[seed/2], 1
			var states []map[string]string
			var instants []hudi.Time
			for range 8 {
				rs, committed := w.batch(1 + w.r.IntN(60))
				x, body := w.write(rs)
				if err := x.Commit(t.Context(), body); err != nil {
					t.Fatal(err)
				}
				committed()
				w.locate()
				states, instants = append(states, w.state()), append(instants, x.Instant())
			}
			if w.rewrites == 0 {
				t.Fatalf("seed %d, cdc %q: nothing was rewritten", seed, cdc)
			}
			all := w.changes("", reader.Options{})
			if got := follow(t, all); !maps.Equal(got, states[len(states)-1]) {
				t.Fatalf("seed %d, cdc %q: %v, want %v", seed, cdc, got, states[len(states)-1])
			}
			for i, at := range instants {
				n := slices.IndexFunc(all, func(line string) bool { return line[:len(at)] > string(at) })
				if n < 0 {
					n = len(all)
				}
				if got := follow(t, all[:n]); !maps.Equal(got, states[i]) {
					t.Fatalf("seed %d, cdc %q, at %s: %v, want %v", seed, cdc, at, got, states[i])
				}
				if i%3 > 0 {
					continue
				}
				if got := w.changes(at, reader.Options{Memory: 1}); !slices.Equal(got, all[n:]) {
					t.Fatalf("seed %d, cdc %q, after %s:\n%s\nwant\n%s", seed, cdc, at, strings.Join(got, "\n"), strings.Join(all[n:], "\n"))
				}
			}
			// What is packed where differs by mode, and so does the order within a commit.
			slices.Sort(all)
			if first == nil {
				first = all
			}
			if cdc != hudi.CDCOpKeyOnly && !slices.Equal(all, first) {
				t.Fatalf("seed %d, cdc %q: other changes than without", seed, cdc)
			}
		}
	}
}

// state is the snapshot in the form of changes' images.
func (w *world) state() map[string]string {
	w.t.Helper()
	v, err := w.table.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	rows := map[string]string{}
	for r, err := range reader.Snapshot(w.t.Context(), v, reader.Options{IncludeDeletes: true}) {
		if err != nil {
			w.t.Fatal(err)
		}
		rows[r.Key.Partition+" "+r.Key.Record] = cells(r)
	}
	return rows
}

// TestOpKeyOnlyKeepsLogs: Hudi's readers take the rows before a rewriting from the
// base file alone in this mode, so that no group with logs is rewritten.
func TestOpKeyOnlyKeepsLogs(t *testing.T) {
	for cdc, want := range map[hudi.CDCMode]int{hudi.CDCOpKeyOnly: 0, hudi.CDCDataBefore: 1} {
		w := newWorldOf(t, 3, false, cdc)
		w.o = writer.Options{NewID: ids(3)}
		for order := range int64(3) {
			key := "a"
			if order == 2 {
				key = "b"
			}
			row := hudi.Row{hudi.String(key), {}, hudi.Long(order + 1), {}, {}, hudi.String("v")}
			rs := []hudi.Located{{Record: hudi.Record{Key: hudi.Key{Record: key}, Order: order + 1, Row: row}, Location: w.places[key]}}
			x, body := w.write(rs)
			if err := x.Commit(t.Context(), body); err != nil {
				t.Fatal(err)
			}
			w.locate()
		}
		if w.rewrites != want {
			t.Errorf("%s: %d groups rewritten, want %d", cdc, w.rewrites, want)
		}
	}
}
