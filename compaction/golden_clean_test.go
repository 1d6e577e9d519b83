package compaction_test

import (
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// Tables that Spark wrote read the same after we cleaned and archived all that may
// go; what a pending compaction or a savepoint holds stays, and there is
// nothing to clean where Spark has just done it.
func TestCleanSparksTables(t *testing.T) {
	for name, files := range map[string]bool{"bloom-nomdt": true, "compaction-clean": false, "compaction-pending": false, "clustering": true,
		"insert-overwrite": true, "archive": false, "savepoint-restore": false, "failed-rollback-nomarkers": false} {
		t.Run(name, func(t *testing.T) {
			b := load(t, "w015-v6-"+name)
			tb, err := table.Open(t.Context(), b, table.Options{})
			if err != nil {
				t.Fatal(err)
			}
			lease, err := tb.Lease(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Close()
			look := func(tb *table.Table) (now, last []string) {
				v, err := tb.View(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				s, err := v.Schema(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				begin := hudi.Time("0")
				if w := v.Writes(); len(w) > 1 {
					begin = w[len(w)-2].Time
				}
				return jsonLines(t, s, reader.Snapshot(t.Context(), v, reader.Options{IncludeDeletes: true})),
					jsonLines(t, s, reader.Incremental(t.Context(), v, begin, "", reader.Options{}))
			}
			now, last := look(tb)
			if len(now) == 0 {
				t.Fatal("no rows")
			}
			done, err := compaction.Clean(t.Context(), tb, compaction.CleanPolicy{By: compaction.ByCommits, Keep: 1})
			if err != nil {
				t.Fatal(err)
			}
			if files != (len(done) > 0 && done[0].Files > 0) {
				t.Errorf("cleaned %+v", done)
			}
			if _, err := compaction.Archive(t.Context(), tb, compaction.ArchivePolicy{KeepMin: 2, KeepMax: 2}); err != nil {
				t.Fatal(err)
			}
			other, err := table.Open(t.Context(), b, table.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, tb := range []*table.Table{tb, other} {
				gotNow, gotLast := look(tb)
				if !slices.Equal(gotNow, now) {
					t.Errorf("got\n%q\nwant\n%q", gotNow, now)
				}
				if !slices.Equal(gotLast, last) {
					t.Errorf("incremental: got\n%q\nwant\n%q", gotLast, last)
				}
			}
		})
	}
}
