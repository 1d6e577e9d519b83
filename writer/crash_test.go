package writer_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestCrashAtEveryWrite lets the writer die at each operation of a commit,
// before and after it took effect. Whoever comes next rolls back or finds the
// commit; the table is the one before or the one after, never between, and
// goes on taking commits.
func TestCrashAtEveryWrite(t *testing.T) {
	for _, cdc := range []hudi.CDCMode{hudi.CDCOff, hudi.CDCDataBeforeAfter} {
		for _, after := range []bool{false, true} {
			var n deaths
			for k := 1; ; k++ {
				if !crashAt(t, cdc, storagetest.Crash{At: k, After: after}, &n) {
					break
				}
			}
			if n.before < 10 || n.done < 1 || n.rewriting < 3 || (n.changing > 0) != (cdc != hudi.CDCOff) {
				t.Fatalf("cdc %q, after %v: %+v", cdc, after, n)
			}
		}
	}
}

// deaths counts them by the side of the commit, those in a new base file of a
// known group or in its marker, and those in a change file or in its marker.
type deaths struct{ before, done, rewriting, changing int }

// crashAt says whether the writer died, and counts where.
func crashAt(t *testing.T, cdc hudi.CDCMode, crash storagetest.Crash, n *deaths) bool {
	t.Helper()
	w := newWorldOf(t, 11, true, cdc)
	w.o.FileBytes = 0
	store := teststore.New(t)
	w.reopen(store)
	rs, committed := w.batch(8)
	if err := w.commit(rs); err != nil {
		t.Fatal(err)
	}
	committed()
	w.locate()

	crasher := storagetest.NewCrasher(store, crash)
	w.reopen(crasher)
	old := maps.Clone(w.rows)
	rs, committed = w.batch(8)
	err := w.commit(rs)
	if !crasher.Dead() {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	w.reopen(store)
	ops := crasher.Ops()
	if last := ops[len(ops)-1].Name; strings.HasSuffix(last, ".parquet.marker.APPEND") || strings.HasSuffix(last, ".cdc") {
		n.changing++
	}
	w.noStrays(crasher.Where())
	if last := ops[len(ops)-1].Name; strings.Contains(last, ".marker.MERGE") || w.replaces(last) {
		n.rewriting++
	}
	got := w.snapshot(reader.Options{})
	switch committed(); {
	case maps.Equal(got, old):
		n.before++
		w.rows = old
	case maps.Equal(got, w.rows):
		n.done++
	default:
		t.Fatalf("%s: neither before nor after the commit: %v", crasher.Where(), got)
	}
	w.places = map[string]hudi.Location{}
	w.locate()
	rs, committed = w.batch(8)
	if err := w.commit(rs); err != nil {
		t.Fatalf("%s: the next commit: %v", crasher.Where(), err)
	}
	committed()
	if got := w.snapshot(reader.Options{}); !maps.Equal(got, w.rows) {
		t.Fatalf("%s: the commit after: %v, want %v", crasher.Where(), got, w.rows)
	}
	return true
}

// noStrays holds that each change file is one that a commit names: any other would
// become an empty slice of its group for Hudi, once the timeline has moved past it.
func (w *world) noStrays(where string) {
	w.t.Helper()
	v, err := w.table.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	named := map[string]bool{}
	for _, i := range v.Writes() {
		body, err := v.Body(w.t.Context(), i)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, stats := range body.Stats {
			for k := range stats {
				for name := range stats[k].CDC {
					named[name] = true
				}
			}
		}
	}
	for o, err := range w.bucket.List(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasSuffix(o.Name, ".cdc") && !named[o.Name] {
			w.t.Fatalf("%s: %q is nobody's", where, o.Name)
		}
	}
}

// replaces says whether an object is a base file of a group that has another.
func (w *world) replaces(object string) bool {
	partition, name, _ := strings.Cut(object, "/")
	n, err := hudi.ParseBaseFileName(name)
	for _, at := range w.places {
		if err == nil && at.Partition == partition && at.File == n.File {
			return true
		}
	}
	return false
}

// reopen is what a new process does with a store: the table, made if there is
// none, the lease, and the recovery.
func (w *world) reopen(d storage.Driver) {
	w.t.Helper()
	w.lease.Close() // a dead process has let it go already
	w.bucket = storage.New(d, nil)
	o := table.Options{Clock: w.tick}
	ctx := w.t.Context()
	var err error
	if w.table, err = table.Create(ctx, w.bucket, table.CreateOptions{Name: "docs", PartitionField: "pt", CDC: w.cdc}, o); errors.Is(err, table.ErrExists) {
		w.table, err = table.Open(ctx, w.bucket, o)
	}
	if err == nil {
		w.lease, err = w.table.Lease(ctx)
	}
	if err == nil {
		_, err = w.table.Recover(ctx)
	}
	if err != nil && !errors.Is(err, storagetest.ErrCrashed) {
		w.t.Fatal(err)
	}
	w.o.NewID = ids(w.r.Uint64N(1 << 20))
}

// commit is a whole commit of records.
func (w *world) commit(rs []hudi.Located) error {
	w.t.Helper()
	x, err := w.table.Begin(w.t.Context())
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	body, err := w.files(x, rs)
	if err != nil {
		return err
	}
	return x.Commit(w.t.Context(), body)
}
