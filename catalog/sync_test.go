package catalog_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/hudi"
)

const lastSync = "last_commit_time_sync"

func wantPartitions(t *testing.T, w *world, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := w.partitions(); !slices.Equal(got, want) {
		t.Errorf("partitions %q, want %q", got, want)
	}
}

// A metastore is told all at first, then what commits brought, and nothing when there
// is nothing.
func TestSync(t *testing.T) {
	w := newWorld(t, "pt")
	if _, err := catalog.Sync(t.Context(), w.m, w.reader(), w.o); err == nil {
		t.Error("a table without a schema was synced")
	}
	first := w.commit("a", "New York", "a/b=c%d", "")
	r := w.sync()
	if !r.Database || r.Instant != first || len(r.Changes) != 4 || !r.Changes[0].Whole || r.Changes[0].Added != 4 || r.Changes[3].Step != catalog.StepCreate {
		t.Errorf("%+v", r)
	}
	wantPartitions(t, w, "a", "New York", "a/b=c%d", hudi.DefaultPartition)
	if got := w.there("").Parameters[lastSync]; got != string(first) {
		t.Errorf("last sync %s, want %s", got, first)
	}

	w.m.Calls()
	if r = w.sync(); r.Changed() {
		t.Errorf("nothing happened: %+v", r)
	}
	if calls := w.m.Calls(); slices.ContainsFunc(calls, func(c string) bool { return !strings.HasPrefix(c, "HasDatabase") && !strings.HasPrefix(c, "Table ") }) {
		t.Errorf("a sync of nothing new: %v", calls)
	}

	w.columns = append(w.columns, hudi.Column{Name: "Price", Kind: hudi.KindDouble})
	second := w.commit("a", "b")
	r = w.sync()
	for _, c := range r.Changes[:3] {
		if c.Step != catalog.StepAlter || c.Added != 1 || c.Whole {
			t.Errorf("%+v", c)
		}
	}
	if calls := w.m.Calls(); !slices.Contains(calls, "Partitions(2) orders_rt") {
		t.Errorf("only what the commit wrote to is asked for: %v", calls)
	}
	wantPartitions(t, w, "a", "b", "New York", "a/b=c%d", hudi.DefaultPartition)
	last := w.there("_ro").Columns
	if last[len(last)-1].Name != "price" || w.there("_ro").Parameters[lastSync] != string(second) {
		t.Errorf("%+v", w.there("_ro"))
	}
	if own := w.m.PartitionColumns("shop", "orders_ro", "a"); len(own) != len(last) {
		t.Errorf("the partition has %d columns, the table %d", len(own), len(last))
	}
	if q := w.there("_live").Query; !strings.Contains(q, "`price`") || !strings.HasSuffix(q, "FROM `shop`.`orders_rt` WHERE NOT COALESCE(`_deleted`, FALSE)") {
		t.Errorf("view: %s", q)
	}
}

// Partitions of which all is gone are dropped.
func TestGone(t *testing.T) {
	w := newWorld(t, "pt")
	w.commit("a", "b")
	w.sync()
	w.replace("b", 1)
	if r := w.sync(); r.Changes[0].Dropped != 1 || r.Changes[0].Whole {
		t.Errorf("%+v", r)
	}
	wantPartitions(t, w, "a")
	w.commit("b")
	w.sync()
	wantPartitions(t, w, "a", "b")
}

func TestUnpartitioned(t *testing.T) {
	w := newWorld(t, "")
	w.commit("x")
	w.sync()
	at := w.commit("x")
	r := w.sync()
	if r.Changed() || w.there("_rt").Parameters[lastSync] != string(at) || len(w.there("_rt").Partitioned) != 0 {
		t.Errorf("%+v %+v", r, w.there("_rt"))
	}
}

// Whatever dies, and however often, the next sync makes up for it.
func TestDies(t *testing.T) {
	crash := errors.New("the metastore is down")
	for first := range 2 {
		for k := 0; ; k++ {
			w := newWorld(t, "pt")
			w.commit("a", "b")
			if first == 1 {
				w.sync()
				w.columns = append(w.columns, hudi.Column{Name: "more", Kind: hudi.KindLong})
				w.commit("c", "a")
			}
			left := k
			w.m.Before = func(string, string) error {
				if left--; left < 0 {
					return crash
				}
				return nil
			}
			_, err := catalog.Sync(t.Context(), w.m, w.reader(), w.o)
			w.m.Before = nil
			done := err == nil
			if !done && !errors.Is(err, crash) {
				t.Fatal(err)
			}
			w.columns = append(w.columns, hudi.Column{Name: "later", Kind: hudi.KindLong})
			at := w.commit("d")
			w.sync()
			want := []string{"a", "b", "d"}
			if first == 1 {
				want = append(want, "c")
			}
			wantPartitions(t, w, want...)
			for _, suffix := range []string{"_ro", "_rt", ""} {
				there := w.there(suffix)
				if there.Parameters[lastSync] != string(at) || there.Columns[len(there.Columns)-1].Name != "later" {
					t.Errorf("call %d: %+v", k, there)
				}
			}
			if done {
				break
			}
		}
	}
}

// Several at once agree.
func TestAtOnce(t *testing.T) {
	w := newWorld(t, "pt")
	w.commit("a", "b", "c")
	const n = 8
	ended := make(chan error, n)
	for range n {
		reader := w.reader()
		go func() {
			_, err := catalog.Sync(t.Context(), w.m, reader, w.o)
			ended <- err
		}()
	}
	for range n {
		w.check(<-ended)
	}
	wantPartitions(t, w, "a", "b", "c")
	if r := w.sync(); r.Changed() {
		t.Errorf("%+v", r)
	}
}

// Partitions of commits that were taken back go: while the metastore knows a later
// commit than the table has, and when there are new ones.
func TestRestored(t *testing.T) {
	w := newWorld(t, "pt")
	at := w.commit("a")
	back := func() {
		t.Helper()
		_, err := w.table.Restore(t.Context(), at)
		w.check(err)
	}
	w.commit("b")
	w.sync()
	wantPartitions(t, w, "a", "b")
	back()
	w.sync()
	wantPartitions(t, w, "a")
	w.commit("c")
	w.sync()
	wantPartitions(t, w, "a", "c")
	back()
	w.commit("d")
	w.sync()
	wantPartitions(t, w, "a", "d")
}

// What the metastore was told last is in the archive by now.
func TestArchived(t *testing.T) {
	w := newWorld(t, "pt")
	w.commit("a")
	w.sync()
	w.commit("b")
	w.commit("c")
	w.commit("a")
	v, err := w.table.View(t.Context())
	w.check(err)
	_, err = w.table.Archive(t.Context(), v.Writes()[:2])
	w.check(err)
	if r := w.sync(); !r.Changes[0].Whole || r.Changes[0].Added != 2 {
		t.Errorf("%+v", r)
	}
	wantPartitions(t, w, "a", "b", "c")
}

// Somebody else's table is refused before anything is written, and dropped when that
// is asked for.
func TestDrift(t *testing.T) {
	w := newWorld(t, "pt")
	w.commit("a")
	other := catalogtest.Sample("orders", "file:///elsewhere")
	w.check(w.m.CreateDatabase(t.Context(), "shop"))
	w.check(w.m.Create(t.Context(), "shop", other))
	_, err := catalog.Sync(t.Context(), w.m, w.reader(), w.o)
	if !errors.Is(err, catalog.ErrForeign) || !strings.Contains(err.Error(), "--adopt") {
		t.Errorf("%v", err)
	}
	if _, err := w.m.Table(t.Context(), "shop", "orders_rt"); !errors.Is(err, catalog.ErrNotExist) {
		t.Errorf("a sync that was refused made a table: %v", err)
	}
	w.o.Adopt, w.o.DryRun = true, true
	if r := w.sync(); r.Changes[2].Step != catalog.StepAdopt || w.there("").Location != other.Location {
		t.Errorf("%+v", r)
	}
	w.o.DryRun = false
	if r := w.sync(); r.Changes[2].Step != catalog.StepAdopt || r.Changes[0].Step != catalog.StepCreate {
		t.Errorf("%+v", r)
	}
	wantPartitions(t, w, "a")
}

// A table that Hudi's own tool registered is taken over: what it lacks is added, what
// it has wrong goes, and what people wrote stays.
func TestTakesOver(t *testing.T) {
	w := newWorld(t, "pt")
	at := w.commit("a", "x%y")
	want, err := catalog.Describe(catalog.State{Database: "shop", Name: "orders", Location: "file:///data/orders", Schema: w.schema(), Partitioning: hudi.OurPartitioning("pt")})
	w.check(err)
	old := want[1]
	old.Columns = slices.Clone(old.Columns[:6])
	old.Columns[5].Comment = "the key"
	old.Parameters = maps.Clone(old.Parameters)
	delete(old.Parameters, "couch2hudi.table")
	old.Parameters[lastSync], old.Parameters["last_commit_completion_time_sync"], old.Parameters["owner.note"] = string(at), string(at), "keep"
	w.check(w.m.CreateDatabase(t.Context(), "shop"))
	w.check(w.m.Create(t.Context(), "shop", old))
	w.check(w.m.AddPartitions(t.Context(), "shop", old, []catalog.Partition{{Value: "a", Location: "file:/data/old"}, {Value: "x%25y", Location: "file:/data/orders/pt=x%25y"}}))
	r := w.sync()
	if c := r.Changes[1]; c.Step != catalog.StepAlter || c.Added != 1 || c.Moved != 1 || c.Dropped != 1 {
		t.Errorf("%+v", c)
	}
	wantPartitions(t, w, "a", "x%y")
	if got := w.there("_rt"); got.Columns[5].Comment != "the key" || got.Parameters["owner.note"] != "keep" || len(got.Columns) != 7 {
		t.Errorf("%+v", got)
	}
}

// With OnlyChanges a metastore that knows all columns and partitions is left alone.
func TestOnlyChanges(t *testing.T) {
	w := newWorld(t, "pt")
	first := w.commit("a")
	w.o.OnlyChanges = true
	w.sync()
	w.commit("a")
	w.m.Calls()
	w.sync()
	if calls := fmt.Sprint(w.m.Calls()); strings.Contains(calls, "Alter") || w.there("_rt").Parameters[lastSync] != string(first) {
		t.Errorf("%s", calls)
	}
	at := w.commit("b")
	w.sync()
	wantPartitions(t, w, "a", "b")
	if got := w.there("_rt").Parameters[lastSync]; got != string(at) {
		t.Errorf("last sync %s, want %s", got, at)
	}
}

func TestDryRun(t *testing.T) {
	w := newWorld(t, "pt")
	w.commit("a")
	w.o.DryRun = true
	if r := w.sync(); !r.Database || r.Changes[0].Step != catalog.StepCreate || r.Changes[0].Added != 1 {
		t.Errorf("%+v", r)
	}
	for _, c := range w.m.Calls() {
		if c != "HasDatabase" {
			t.Errorf("a dry run: %s", c)
		}
	}
	w.o.DryRun = false
	w.sync()
	w.commit("b")
	w.m.Calls()
	w.o.DryRun = true
	if r := w.sync(); r.Changes[0].Added != 1 {
		t.Errorf("%+v", r)
	}
	for _, c := range w.m.Calls() {
		if strings.HasPrefix(c, "A") || strings.HasPrefix(c, "C") || strings.HasPrefix(c, "D") || strings.HasPrefix(c, "M") {
			t.Errorf("a dry run: %s", c)
		}
	}
}

// A sync whose view was made before another one's does not take back what that told.
func TestBehind(t *testing.T) {
	w := newWorld(t, "pt")
	w.commit("a")
	var at hudi.Time
	w.m.Before = func(call, _ string) error {
		if call == "HasDatabase" { // the view is made by now
			w.m.Before = nil
			w.columns = append(w.columns, hudi.Column{Name: "more", Kind: hudi.KindLong})
			at = w.commit("b")
			w.sync()
		}
		return nil
	}
	if r := w.sync(); r.Instant != at || r.Changed() {
		t.Errorf("%+v", r)
	}
	if got := w.there("_rt"); got.Parameters[lastSync] != string(at) || got.Columns[len(got.Columns)-1].Name != "more" {
		t.Errorf("%+v", got)
	}
}
