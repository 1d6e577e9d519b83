package keycache_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

func one(t *testing.T, ix index.Index, v *table.View, key string) hudi.Stored {
	t.Helper()
	s, err := ix.Locate(t.Context(), v, []hudi.Key{{Record: key}}, index.Global)
	if err != nil || len(s) != 1 {
		t.Fatalf("%v %v", s, err)
	}
	return s[0]
}

// TestRememberedDeletes: a hard delete that compaction has forgotten keeps older
// rows out for as long as it is remembered, and no longer, and not under a row.
func TestRememberedDeletes(t *testing.T) {
	l := newLife(t, 1)
	a := l.fresh("pt=a")
	l.complete(l.write([]hudi.Located{{Record: live("k", 3), Location: a}, {Record: live("other", 1), Location: a}}))
	l.check()
	placed := []hudi.Located{{Record: removed("k", 5), Location: a}}
	c := l.write(placed)
	l.complete(c)
	l.must(nil, l.cache.Committed(t.Context(), c.at, placed))
	if s := one(t, l.cache, l.view(), "k"); s.Found || s.File != a.File || s.Order != 5 {
		t.Fatalf("hidden in the base file: %+v", s)
	}
	s, _ := l.slice(a)
	rows := l.rows(s)
	c = l.begin(commitmeta.ActionCommit)
	l.base(c, a, rows)
	l.complete(c)
	for range 2 {
		if s := one(t, l.cache, l.view(), "k"); s.Found || s.File != "" || s.Order != 5 {
			t.Fatalf("after the compaction: %+v", s)
		}
		l.reopen()
	}
	l.now = l.now.Add(23 * time.Hour)
	if s := one(t, l.cache, l.view(), "k"); s.Order != 5 {
		t.Fatalf("after 23 hours: %+v", s)
	}
	l.now = l.now.Add(2 * time.Hour)
	if s := one(t, l.cache, l.view(), "k"); s.Order != 0 || s.File != "" {
		t.Fatalf("after 25 hours: %+v", s)
	}
}

// TestInUse: a second process is told which folder, and the first is not disturbed.
func TestInUse(t *testing.T) {
	h := newHistory(t, 1)
	dir := t.TempDir()
	first, err := keycache.Open(t.Context(), keycache.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keycache.Open(t.Context(), keycache.Options{Dir: dir}); !errors.Is(err, keycache.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("%v", err)
	}
	one(t, first, h.view(), "k")
	h.must(nil, first.Close())
	second, err := keycache.Open(t.Context(), keycache.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	h.must(nil, second.Close())
	h.must(nil, second.Close())
}

// TestAnotherTable: a cache of another table or layout is not believed.
func TestAnotherTable(t *testing.T) {
	fs := vfs.NewMem()
	var told []string
	open := func(identity, layout string) *keycache.Cache {
		t.Helper()
		c, err := keycache.Open(t.Context(), keycache.Options{Dir: dir, FS: fs, Identity: identity, Layout: layout,
			Events: keycache.Events{Building: func(b keycache.Building) {
				if b.Done == 0 {
					told = append(told, b.Reason)
				}
			}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for i, c := range []struct {
		identity, layout, reason string
	}{{"a", "bloom", "none"}, {"a", "bloom", ""}, {"b", "bloom", "another table"}, {"b", "bucket", "another table"}, {"b", "bucket", "archived"}} {
		h := newHistory(t, uint64(i))
		if i == 4 {
			h.now = h.now.Add(time.Hour) // made anew in the same place
		}
		at := hudi.Location{Partition: "pt=a", File: hudi.FileID(fmt.Sprintf("g%d-0", i/4))}
		h.complete(h.write([]hudi.Located{{Record: live("k", 1), Location: at}}))
		cache := open(c.identity, c.layout)
		told = nil
		if s := one(t, cache, h.view(), "k"); s.Location != at {
			t.Errorf("%d: %+v", i, s)
		}
		if got := strings.Join(told, ";"); (c.reason == "") != (got == "") || !strings.Contains(got, c.reason) {
			t.Errorf("%d: built because %q, want %q", i, got, c.reason)
		}
		h.must(nil, cache.Close())
	}
}

// TestThePast: views of the past, and of a table that stands before the cache, are
// answered rightly.
func TestThePast(t *testing.T) {
	l := newLife(t, 3)
	a := l.fresh("pt=a")
	first := l.write([]hudi.Located{{Record: live("k", 1), Location: a}})
	l.complete(first)
	before := l.view()
	l.complete(l.write([]hudi.Located{{Record: live("k", 2), Location: a}}))
	for range 2 {
		if s := one(t, l.cache, l.view(), "k"); s.Order != 2 {
			t.Fatalf("%+v", s)
		}
		if s := one(t, l.cache, l.view().AsOf(first.at), "k"); s.Order != 1 {
			t.Fatalf("%+v", s)
		}
		if s := one(t, l.cache, before, "k"); s.Order != 1 {
			t.Fatalf("%+v", s)
		}
	}
}

// TestFaultsOfTheTable: what cannot be read of the table is an error, and the
// cache is right once it can be read again.
func TestFaultsOfTheTable(t *testing.T) {
	h := newHistory(t, 5)
	driver := teststore.New(t)
	h.bucket = storage.New(driver, nil)
	if _, err := table.Create(t.Context(), h.bucket, table.CreateOptions{Name: "docs", PartitionField: "pt"}, table.Options{}); err != nil {
		t.Fatal(err)
	}
	reopen := func(d storage.Driver) {
		t.Helper()
		tb, err := table.Open(t.Context(), storage.New(d, nil), table.Options{ReadOnly: true})
		h.must(nil, err)
		h.table = tb
	}
	reopen(driver)
	a, b := hudi.Location{Partition: "pt=a", File: "a-0"}, hudi.Location{Partition: "pt=b", File: "b-0"}
	h.complete(h.write([]hudi.Located{{Record: live("k", 1), Location: a}, {Record: live("m", 1), Location: b}}))
	reopen(driver)
	fs := vfs.NewMem()
	c, err := keycache.Open(t.Context(), keycache.Options{Dir: dir, FS: fs})
	h.must(nil, err)
	faults := 0
	sweep := func(order int64) {
		t.Helper()
		for _, kind := range []storagetest.Kind{storagetest.Read, storagetest.List} {
			for n := 1; ; n++ {
				faulty := storagetest.Faults(driver, storagetest.Fault{Kind: kind, N: n})
				tb, err := table.Open(t.Context(), storage.New(faulty, nil), table.Options{ReadOnly: true})
				var v *table.View
				if err == nil {
					v, err = tb.View(t.Context())
				}
				var got []hudi.Stored
				if err == nil {
					got, err = c.Locate(t.Context(), v, []hudi.Key{{Record: "k"}}, index.Global)
				}
				if faulty.Hit() > 0 && !errors.Is(err, storagetest.ErrFault) {
					t.Fatalf("%s %d failed and nobody said so: %v %v", kind, n, got, err)
				}
				if faulty.Hit() == 0 {
					if err != nil || got[0].Order != order {
						t.Fatalf("%+v %v", got, err)
					}
					break
				}
				faults++
			}
		}
	}
	sweep(1)
	h.complete(h.write([]hudi.Located{{Record: live("k", 2), Location: a}}))
	sweep(2)
	if faults < 10 {
		t.Errorf("only %d faults", faults)
	}
	h.must(nil, c.Close())
}

// TestFaultsOfTheFolder: whatever write or reading of the folder fails, once or
// from then on for ever, the answers are right.
func TestFaultsOfTheFolder(t *testing.T) {
	stride := int64(7)
	if testing.Short() {
		stride = 41
	}
	for _, forever := range []bool{false, true} {
		failed := 0
		for n := int64(0); ; n += stride {
			reached, fell := brokenFolder(t, n, forever)
			if !reached {
				break
			}
			failed += fell
		}
		if (failed > 0) != forever {
			t.Errorf("forever=%t: the fallback was used %d times", forever, failed)
		}
	}
}

func brokenFolder(t *testing.T, n int64, forever bool) (reached bool, failed int) {
	t.Helper()
	var count atomic.Int64
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileClose, errorfs.OpLock:
			return nil // pebble takes these for granted
		default:
		}
		if at := count.Add(1); at == n || forever && at > n {
			return syscall.ENOSPC
		}
		return nil
	})
	l := &life{history: newHistory(t, 9), deletes: map[string]int64{}, fs: errorfs.Wrap(vfs.NewMem(), injector)}
	l.keys = []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"}
	c, err := keycache.Open(t.Context(), l.options())
	if err != nil {
		return true, 1 // said at once
	}
	l.cache = c
	for range 4 {
		placed := l.batch(false)
		a := l.write(placed)
		l.complete(a)
		l.must(nil, l.cache.Committed(t.Context(), a.at, placed))
		l.check()
	}
	_ = l.cache.Close()
	return count.Load() >= n, len(l.failed)
}

// TestFolderIsRemoved under a running process, at any moment, with writes that
// still have to go there.
func TestFolderIsRemoved(t *testing.T) {
	h := newHistory(t, 11)
	dir := filepath.Join(t.TempDir(), "state", "keys")
	l := &life{history: h, deletes: map[string]int64{}, fs: vfs.Default}
	o := l.options()
	o.Dir, o.Memory = dir, 1
	c, err := keycache.Open(t.Context(), o)
	h.must(nil, err)
	l.cache = c
	order, rows := int64(1), 3000
	if testing.Short() {
		rows /= 3
	}
	for i := range 12 {
		var placed []hudi.Located
		l.keys = l.keys[:0]
		for k := range rows {
			key := fmt.Sprintf("key-%d-%d", i, k)
			at := hudi.Location{Partition: "pt=a", File: hudi.FileID(fmt.Sprintf("g%d-0", i))}
			placed = append(placed, hudi.Located{Record: live(key, order), Location: at})
			if k%(rows/5) == 0 {
				l.keys = append(l.keys, key)
			}
		}
		a := l.write(placed)
		l.complete(a)
		if i%4 == 3 {
			removeAll(t, filepath.Dir(dir))
		}
		h.must(nil, c.Committed(t.Context(), a.at, placed))
		if i%4 == 2 {
			removeAll(t, dir)
		}
		l.check()
	}
	h.must(nil, c.Close())
	if len(l.failed) > 0 {
		t.Errorf("%v", l.failed)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// removeAll removes a folder into which somebody still writes.
func removeAll(t *testing.T, dir string) {
	t.Helper()
	var err error
	for range 100 {
		if err = os.RemoveAll(dir); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// TestCancelled: a building that was stopped is begun anew.
func TestCancelled(t *testing.T) {
	l := newLife(t, 13)
	for range 5 {
		l.complete(l.write(l.batch(false)))
	}
	l.reopen()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.cache.Locate(ctx, l.view(), l.asked(), index.Global); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	l.check()
	l.complete(l.write(l.batch(false)))
	if _, err := l.cache.Locate(ctx, l.view(), l.asked(), index.Global); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	l.check()
	if len(l.failed) > 0 {
		t.Errorf("%v", l.failed)
	}
}

// TestCommittedSaysOnlyWhatIsNext: a commit that is not the only one missing is
// left to be read from the table.
func TestCommittedSaysOnlyWhatIsNext(t *testing.T) {
	l := newLife(t, 15)
	a := l.fresh("pt=a")
	first := []hudi.Located{{Record: live("k", 1), Location: a}, {Record: live("m", 1), Location: a}}
	c := l.write(first)
	l.must(nil, l.cache.Committed(t.Context(), c.at, first)) // before anything was asked
	l.complete(c)
	l.check()
	l.complete(l.write([]hudi.Located{{Record: live("k", 2), Location: a}}))
	second := []hudi.Located{{Record: live("m", 2), Location: a}}
	c = l.write(second)
	l.complete(c)
	l.must(nil, l.cache.Committed(t.Context(), c.at, second))
	l.keys = []string{"k", "m", "x", "y"}
	caught := l.caught
	l.check()
	if l.caught != caught+1 {
		t.Errorf("caught up %d times", l.caught-caught)
	}
	third := []hudi.Located{{Record: live("m", 3), Location: a}}
	c = l.write(third)
	l.complete(c)
	l.must(nil, l.cache.Committed(t.Context(), c.at, third))
	l.check()
	if l.caught != caught+1 {
		t.Error("a commit that was told was read again")
	}
}
