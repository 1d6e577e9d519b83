package table_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/table"
)

func TestUpdateProperties(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	bare := must[*table.Table](t)(table.Create(ctx, bucketOf(d), table.CreateOptions{Name: "docs", Extra: map[string]string{"some.pin": "1"}}, options()))
	wantErr(t, "without the lease", bare.UpdateProperties(ctx, map[string]string{"some.pin": "2"}), table.ErrNoLease)
	tb := open(t, d)
	wantErr(t, "to what we could not write", tb.UpdateProperties(ctx, map[string]string{hudi.PropCDC: "true", hudi.PropCDCMode: "everything"}), table.ErrUnsupported)
	if err := tb.UpdateProperties(ctx, map[string]string{"some.pin": "2", "new.pin": "x"}); err != nil {
		t.Fatal(err)
	}
	if got := tb.Properties().Get("some.pin"); got != "1" {
		t.Errorf("the open table changed to %s", got)
	}
	is := must[*table.Table](t)(table.Open(ctx, bucketOf(d), options())).Properties()
	if is.Get("some.pin") != "2" || is.Get("new.pin") != "x" || is.Get(hudi.PropZone) != "UTC" || is.Len() != tb.Properties().Len()+1 || is.CheckSum() != nil {
		t.Errorf("%v", is)
	}
	if left := names(t, d, ".hoodie/hoodie.properties"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	must[any](t)(bucketOf(d).Put(ctx, ".hoodie/hoodie.properties.backup", is.Encode(newClock().Now())))
	wantErr(t, "beside another update", tb.UpdateProperties(ctx, map[string]string{"some.pin": "3"}), table.ErrRecover)
}
