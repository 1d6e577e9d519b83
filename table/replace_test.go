package table_test

import (
	"io"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/table"
)

// replaceOne begins to replace group 1 by group 9.
func replaceOne(t *testing.T, tb *table.Table) (*table.Txn, commitmeta.Body) {
	t.Helper()
	x := must[*table.Txn](t)(tb.BeginReplace(t.Context()))
	b := body(must[commitmeta.WriteStat](t)(put(t.Context(), x, "pt=1", base(x, 9), table.MarkCreate, "new")))
	b.Replaced = map[string][]hudi.FileID{"pt=1": {groupID(1)}}
	return x, b
}

func groups(t *testing.T, v *table.View, partition string) (ids []hudi.FileID) {
	t.Helper()
	for _, s := range must[[]hudi.Slice](t)(v.Slices(t.Context(), partition)) {
		ids = append(ids, s.File)
	}
	return ids
}

// A replacecommit takes groups away and puts others there at once; the past has
// them still, and a fresh look at the store says the same.
func TestReplace(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	tb := create(t, d)
	first := must[hudi.Time](t)(commitBases(ctx, tb, 1, 2))
	x, b := replaceOne(t, tb)
	during := must[*table.View](t)(tb.View(ctx))
	if got := groups(t, during, "pt=1"); len(got) != 1 || got[0] != groupID(1) {
		t.Fatalf("while it is pending: %v", got)
	}
	if err := x.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	for _, v := range []*table.View{must[*table.View](t)(tb.View(ctx)), must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), options())).View(ctx))} {
		if got := groups(t, v, "pt=1"); len(got) != 1 || got[0] != groupID(9) {
			t.Errorf("afterwards: %v", got)
		}
		if got := groups(t, v, "pt=2"); len(got) != 1 || got[0] != groupID(2) {
			t.Errorf("the other partition: %v", got)
		}
		if got := groups(t, v.AsOf(first), "pt=1"); len(got) != 1 || got[0] != groupID(1) {
			t.Errorf("before: %v", got)
		}
	}
	must[hudi.Time](t)(commitBases(ctx, tb, 3))
}

// Rolled back, by its own writer or by the next, it leaves nothing.
func TestReplaceRollsBack(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	tb := must[*table.Table](t)(table.Create(ctx, bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, options()))
	held := must[io.Closer](t)(tb.Lease(ctx))
	must[hudi.Time](t)(commitBases(ctx, tb, 1))
	for _, dies := range []bool{false, true} {
		x, _ := replaceOne(t, tb)
		if dies {
			if err := held.Close(); err != nil {
				t.Fatal(err)
			}
			tb = open(t, d)
			if rolled := must[[]timeline.Instant](t)(tb.Recover(ctx)); len(rolled) != 1 || rolled[0].Time != x.Instant() {
				t.Fatalf("rolled back: %v", rolled)
			}
		} else if err := x.Abort(ctx); err != nil {
			t.Fatal(err)
		}
		if got := names(t, d, "pt=1/0000"); len(got) != 1 {
			t.Errorf("left: %v", got)
		}
		if got := groups(t, must[*table.View](t)(tb.View(ctx)), "pt=1"); len(got) != 1 || got[0] != groupID(1) {
			t.Errorf("groups: %v", got)
		}
	}
}

// What a body may not say, and what may not come between.
func TestReplaceRefuses(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	tb := create(t, d)
	must[hudi.Time](t)(commitBases(ctx, tb, 1, 2))
	x := must[*table.Txn](t)(tb.Begin(ctx))
	b := body()
	b.Replaced = map[string][]hudi.FileID{"pt=1": {groupID(1)}}
	wantErr(t, "a delta commit that replaces", x.Commit(ctx, b), table.ErrBody)
	if err := x.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	for what, ids := range map[string][]hudi.FileID{"a group that is not there": {groupID(7)}, "one of another partition": {groupID(2)},
		"one twice": {groupID(1), groupID(1)}, "one that it writes": {groupID(9)}} {
		x, b := replaceOne(t, tb)
		b.Replaced["pt=1"] = ids
		wantErr(t, what, x.Commit(ctx, b), table.ErrBody)
		if err := x.Abort(ctx); err != nil {
			t.Fatal(err)
		}
	}
	plan := must[[]byte](t)(commitmeta.EncodeCompactionPlan(commitmeta.CompactionPlan{}))
	x, b = replaceOne(t, tb)
	next := must[hudi.Time](t)(x.Instant().Next())
	name := ".hoodie/" + string(next) + ".compaction.requested"
	must[any](t)(bucketOf(d).Put(ctx, name, plan))
	wantErr(t, "a compaction was planned meanwhile", x.Commit(ctx, b), table.ErrConflict)
	if err := x.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := tb.BeginReplace(ctx)
	wantErr(t, "a pending compaction", err, table.ErrForeign)
	must[*table.Txn](t)(tb.Begin(ctx))
}
