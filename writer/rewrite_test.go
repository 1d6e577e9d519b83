package writer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/writer"
)

// lines are rows as "key value commit's-number seqno's-end".
func (w *world) lines(begin hudi.Time) []string {
	w.t.Helper()
	v, err := w.table.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for r, err := range reader.Incremental(w.t.Context(), v, begin, "", reader.Options{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		n := slices.IndexFunc(v.Instants(), func(i timeline.Instant) bool { return i.Time == r.CommitTime })
		line := fmt.Sprint(r.Key.Record, " ", r.Row[5].Text(), " ", n)
		if len(r.Row) > 6 {
			line += " " + r.Row[6].Text()
		}
		if !strings.HasPrefix(r.CommitSeqno, string(r.CommitTime)+"_") {
			w.t.Errorf("%s: %q", line, r.CommitSeqno)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// TestRewrittenRowsKeepTheirCommit: rows of the base file and of its logs are in
// the new base file with the commits that wrote them, so that an incremental
// reader sees none of them again; hard deletes are in no file any more; a column
// that came later is null in them.
func TestRewrittenRowsKeepTheirCommit(t *testing.T) {
	w := newWorld(t, 1, true)
	w.o = writer.Options{NewID: ids(1)}
	record := func(key string, order int64, value string, more ...hudi.Value) hudi.Located {
		at := hudi.Location{Partition: "pt=a"}
		if known, ok := w.places[key]; ok {
			at = known
		}
		row := hudi.Row{hudi.String(key), {}, hudi.Long(order), {}, {}, hudi.String(value)}
		return hudi.Located{Record: hudi.Record{Key: hudi.Key{Record: key, Partition: "pt=a"}, Order: order, Row: append(row, more...)}, Location: at}
	}
	remove := func(key string, order int64) hudi.Located {
		l := record(key, order, "")
		l.Row, l.Delete = nil, true
		return l
	}
	var instants []hudi.Time
	commit := func(rs ...hudi.Located) {
		t.Helper()
		x, body := w.write(rs)
		if err := x.Commit(t.Context(), body); err != nil {
			t.Fatal(err)
		}
		instants = append(instants, x.Instant())
		for _, r := range rs {
			w.places[r.Key.Record] = r.Location
		}
	}
	commit(record("b", 1, "b1"), record("d", 1, "d1"), record("f", 1, "f1"), record("h", 1, "h1"))
	commit(record("d", 2, "d2"), remove("f", 2))
	if w.rewrites != 0 {
		t.Fatal("updates alone rewrote a file")
	}
	wider, err := w.schema.Extend(hudi.Column{Name: "late", Kind: hudi.KindString})
	if err != nil {
		t.Fatal(err)
	}
	w.schema = wider
	commit(record("c", 1, "c1", hudi.String("new")), record("b", 2, "b2", hudi.String("new")), remove("h", 2))
	if w.rewrites != 1 {
		t.Fatalf("%d base files rewritten", w.rewrites)
	}
	v, err := w.table.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := v.Slices(t.Context(), "pt=a")
	if err != nil || len(list) != 1 || len(list[0].Logs) > 0 || list[0].Instant != instants[2] {
		t.Fatalf("%+v %v", list, err)
	}
	for begin, want := range map[hudi.Time][]string{
		"":          {"b b2 2 new", "c c1 2 new", "d d2 1 "},
		instants[0]: {"b b2 2 new", "c c1 2 new", "d d2 1 "},
		instants[1]: {"b b2 2 new", "c c1 2 new"},
		instants[2]: nil,
	} {
		if got := w.lines(begin); !slices.Equal(got, want) {
			t.Errorf("after %q\n got %q\nwant %q", begin, got, want)
		}
	}
	if got := len(contents(t, reader.Snapshot(t.Context(), v.AsOf(instants[1]), reader.Options{}))); got != 3 {
		t.Errorf("%d rows before the rewriting; want b, d and h", got)
	}
	// The next update goes to a log of the new base file.
	commit(record("d", 3, "d3", hudi.Value{}))
	if got, want := w.lines(instants[2]), []string{"d d3 3 "}; !slices.Equal(got, want) {
		t.Errorf("got %q want %q", got, want)
	}
}
