package table_test

import (
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/table"
)

func TestCommitIsSeen(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	tb := create(t, d)
	v := must[*table.View](t)(tb.View(ctx))
	if _, err := v.Schema(ctx); err == nil {
		t.Error("an empty table has a schema")
	}
	at := must[hudi.Time](t)(commitBases(ctx, tb, 1, 2))
	v = must[*table.View](t)(tb.View(ctx))
	if ps := must[[]string](t)(v.Partitions(ctx)); !slices.Equal(ps, []string{"pt=1", "pt=2"}) {
		t.Errorf("partitions %q", ps)
	}
	s := must[[]hudi.Slice](t)(v.Slices(ctx, "pt=1"))
	if len(s) != 1 || s[0].Instant != at || s[0].File != groupID(1) || s[0].Base.Size == 0 {
		t.Errorf("slices %+v", s)
	}
	if v.Last() != at || !v.Committed(at) || v.Committed("20990101000000000") {
		t.Errorf("last %s", v.Last())
	}
	must[*hudi.Schema](t)(v.Schema(ctx))
	if left := names(t, d, ".hoodie/.temp/"); len(left) > 0 {
		t.Errorf("markers left: %q", left)
	}
}
