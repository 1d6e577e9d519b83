package table_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

func TestSavepoint(t *testing.T) {
	ctx := t.Context()
	d, tb, c := logged(t)
	v := viewOf(t, tb)
	second := v.Last()
	want := append(sliceNames(t, v.AsOf(second), "pt=1"), sliceNames(t, v.AsOf(second), "pt=2")...)
	appendLog(t, tb, 2)
	c.add(time.Minute)
	made := must[table.Savepoint](t)(tb.Save(ctx, second, "ops", "before the migration"))
	if made.Instant != second || made.Files != len(want)+1 { // a log file that came later is in a slice of that time
		t.Errorf("made %+v", made)
	}
	_, err := tb.Save(ctx, second, "", "")
	wantErr(t, "once more", err, table.ErrSavepoint)
	_, err = tb.Save(ctx, "20200101000000000", "", "")
	wantErr(t, "of nothing", err, table.ErrNoInstant)
	newest := must[table.Savepoint](t)(tb.Save(ctx, "", "", "the newest"))
	v = viewOf(t, tb)
	list := must[[]table.Savepoint](t)(v.Savepoints(ctx))
	if len(list) != 2 || list[0] != made || list[1] != newest || newest.Instant != v.Last() || !made.Made.Equal(c.Now()) {
		t.Errorf("listed %+v", list)
	}
	data := must[[]byte](t)(bucketOf(d).ReadAll(ctx, ".hoodie/"+string(second)+".savepoint", 1<<20))
	m := must[commitmeta.Savepoint](t)(commitmeta.DecodeSavepoint(data))
	got := slices.Concat(m.Files["pt=1"], m.Files["pt=2"])
	// The log file that came later is in a slice of that time, too: Hudi has it so.
	if len(m.Files) != 2 || len(got) < len(want) || !slices.Equal(m.Files["pt=1"], sliceNames(t, v.AsOf(second), "pt=1")) {
		t.Errorf("holds %v", m.Files)
	}
	wantErr(t, "delete one that is not there", tb.DeleteSavepoint(ctx, "20200101000000000"), table.ErrNoInstant)
	must[any](t)(nil, tb.DeleteSavepoint(ctx, second))
	if list := must[[]table.Savepoint](t)(viewOf(t, tb).Savepoints(ctx)); len(list) != 1 || list[0] != newest {
		t.Errorf("left %+v", list)
	}
}

func sliceNames(t *testing.T, v *table.View, partition string) []string {
	t.Helper()
	var list []string
	for _, s := range must[[]hudi.Slice](t)(v.Slices(t.Context(), partition)) {
		list = append(list, s.Base.Name)
		for _, f := range s.Logs {
			list = append(list, f.Name)
		}
	}
	return list
}

// A savepoint is there or not, whatever dies, and nothing is left of half a one.
func TestCrashSavepoint(t *testing.T) {
	save := func(ctx context.Context, p *past, tb *table.Table) error {
		_, err := tb.Save(ctx, p.at[pastLogged], "", "")
		return err
	}
	drop := func(ctx context.Context, p *past, tb *table.Table) error {
		return tb.DeleteSavepoint(ctx, p.at[pastSaved])
	}
	for name, do := range map[string]func(context.Context, *past, *table.Table) error{"save": save, "delete": drop} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []bool{false, true} {
				for k := 1; ; k++ {
					p := newPast(t)
					c := storagetest.NewCrasher(p.d, storagetest.Crash{At: k, After: after})
					err := p.leased(t.Context(), c, func(tb *table.Table) error { return do(t.Context(), p, tb) })
					if !c.Dead() {
						must[any](t)(nil, err)
						break
					}
					must[any](t)(nil, p.leased(t.Context(), p.d, nil))
					tb := must[*table.Table](t)(table.Open(t.Context(), bucketOf(p.d), table.Options{ReadOnly: true}))
					v := viewOf(t, tb)
					if i := slices.IndexFunc(v.Instants(), func(i timeline.Instant) bool { return !i.Done() }); i >= 0 {
						t.Errorf("%s: %s is left", c.Where(), v.Instants()[i])
					}
					if list := must[[]table.Savepoint](t)(v.Savepoints(t.Context())); len(list) > 2 || (name == "save" && len(list) < 1) {
						t.Errorf("%s: %v", c.Where(), list)
					}
					if p.state(t) != p.states[pastReplaced] {
						t.Errorf("%s: the table has changed", c.Where())
					}
				}
			}
		})
	}
}

// Of what Spark wrote: its restore, and a commit after it, which is taken back.
func TestRestoreGolden(t *testing.T) {
	ctx := t.Context()
	g := load(t, "w015-v6-savepoint-restore")
	before := g.view(t)
	saved := must[[]table.Savepoint](t)(before.Savepoints(ctx))
	if len(saved) != 1 || saved[0].Files == 0 {
		t.Fatalf("savepoints %+v", saved)
	}
	last, _ := find(before, before.Last())
	want := dataFiles(t, g.driver)
	for _, stats := range must[commitmeta.Body](t)(before.Body(ctx, last)).Stats {
		for _, s := range stats {
			// Log files that Spark undid by command blocks stay.
			delete(want, s.Path)
		}
	}
	tb := open(t, g.driver)
	done := must[table.Restored](t)(tb.Restore(ctx, saved[0].Instant))
	if len(done.Undone) != 1 || done.Undone[0].Time != last.Time || done.Files == 0 {
		t.Errorf("done %+v", done)
	}
	if v := g.view(t); v.Last() != saved[0].Instant {
		t.Errorf("last %s, want %s", v.Last(), saved[0].Instant)
	}
	if got := dataFiles(t, g.driver); !maps.Equal(got, want) {
		t.Errorf("left %v\nwant %v", got, want)
	}
}
