package table_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// session is what a writer's process does: open, recover, and one transaction
// of two files and one put aside. It returns the transaction's instant.
func session(ctx context.Context, d storage.Driver, logOf func(hudi.Time) string) (hudi.Time, error) {
	tb, err := table.Open(ctx, bucketOf(d), options())
	if err != nil {
		return "", err
	}
	l, err := tb.Lease(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	if _, err := tb.Recover(ctx); err != nil {
		return "", err
	}
	x, err := tb.Begin(ctx)
	if err != nil {
		return "", err
	}
	on := x.View().Last()
	created, err := put(ctx, x, "pt=3", base(x, 3), table.MarkCreate, "base")
	if err != nil {
		return x.Instant(), err
	}
	if err := x.PutAside(ctx, "quarantine/"+string(x.Instant())+".ndjson", []byte("{}\n")); err != nil {
		return x.Instant(), err
	}
	appended, err := put(ctx, x, "pt=1", logName(1, on, 1), table.MarkAppend, logOf(x.Instant()))
	if err != nil {
		return x.Instant(), err
	}
	return x.Instant(), x.Commit(ctx, body(created, appended))
}

// start is a store with a table of one commit.
func start(t *testing.T) storage.Driver {
	t.Helper()
	d := teststore.New(t)
	tb := must[*table.Table](t)(table.Create(t.Context(), bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, options()))
	l := must[interface{ Close() error }](t)(tb.Lease(t.Context()))
	must[hudi.Time](t)(commitBases(t.Context(), tb, 1, 2))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// settled checks a recovered store: each write is whole or absent, and nothing
// lies about. committed says whether the crashed transaction is in the table.
func settled(t *testing.T, d storage.Driver) (committed bool) {
	t.Helper()
	ctx := context.Background()
	v := must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{ReadOnly: true})).View(ctx))
	files := map[string]bool{}
	var aside []string
	for _, name := range names(t, d, "") {
		switch {
		case strings.HasPrefix(name, ".hoodie/.temp/"):
			t.Errorf("left over: %s", name)
		case strings.HasPrefix(name, ".hoodie/couch2hudi/quarantine/"):
			aside = append(aside, name)
		case !strings.HasPrefix(name, ".hoodie/") && !strings.HasSuffix(name, ".hoodie_partition_metadata"):
			files[name] = true
		}
	}
	for _, i := range v.Instants() {
		if !i.Done() {
			t.Errorf("still pending: %s", i)
		}
		if !i.Writes() {
			continue
		}
		b, err := v.Body(ctx, i)
		if err != nil {
			t.Fatal(err)
		}
		for _, stats := range b.Stats {
			for _, s := range stats {
				if !files[s.Path] {
					t.Errorf("%s names %s, which is not there", i, s.Path)
				}
				delete(files, s.Path)
			}
		}
	}
	if len(files) > 0 {
		t.Errorf("orphans: %v", files)
	}
	committed = len(v.Writes()) == 2
	if committed != (len(aside) == 1) || len(aside) > 1 {
		t.Errorf("committed %v, put aside %q", committed, aside)
	}
	if got := len(must[[]hudi.Slice](t)(v.Slices(ctx, "pt=3"))); (got == 1) != committed {
		t.Errorf("committed %v, slices of the new partition: %d", committed, got)
	}
	if s := must[[]hudi.Slice](t)(v.Slices(ctx, "pt=1")); len(s) != 1 || (len(s[0].Logs) == 1) != committed {
		t.Errorf("committed %v, slices of the old partition: %+v", committed, s)
	}
	return committed
}

// recoverAll opens the table and recovers it.
func recoverAll(ctx context.Context, d storage.Driver) ([]timeline.Instant, error) {
	tb, err := table.Open(ctx, bucketOf(d), options())
	if err != nil {
		return nil, err
	}
	l, err := tb.Lease(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	return tb.Recover(ctx)
}

// A process dies at each write of a transaction, before and after it takes
// effect; then Recover dies at each of its own writes; then Recover runs once
// more. The transaction is in the table whole or not at all.
func TestCrashSweep(t *testing.T) {
	ctx := context.Background()
	logOf := func(at hudi.Time) string { return logContent(t, at) }
	outcomes := map[bool]int{}
	for _, after := range []bool{false, true} {
		for k := 1; ; k++ {
			crash := storagetest.Crash{At: k, After: after}
			d := start(t)
			c := storagetest.NewCrasher(d, crash)
			_, err := session(ctx, c, logOf)
			if !c.Dead() {
				if err != nil {
					t.Fatal(err)
				}
				settled(t, d)
				break
			}
			if err != nil && !errors.Is(err, storagetest.ErrCrashed) {
				t.Errorf("%s: %v", c.Where(), err)
			}
			for j := 1; ; j++ {
				// The same crash again, since a Recover leaves its traces.
				d := start(t)
				c := storagetest.NewCrasher(d, crash)
				_, _ = session(ctx, c, logOf)
				r := storagetest.NewCrasher(d, storagetest.Crash{At: j, After: after})
				_, err := recoverAll(ctx, r)
				if r.Dead() {
					if _, err = recoverAll(ctx, d); err != nil {
						t.Fatalf("%s, then recovery %s: %v", c.Where(), r.Where(), err)
					}
				} else if err != nil {
					t.Fatalf("%s: recovery: %v", c.Where(), err)
				}
				outcomes[settled(t, d)]++
				if t.Failed() {
					t.Fatalf("%s, then recovery %s\n%s", c.Where(), r.Where(), strings.Join(names(t, d, ""), "\n"))
				}
				if _, err := session(ctx, d, logOf); err != nil {
					t.Fatalf("%s, then recovery %s, then: %v", c.Where(), r.Where(), err)
				}
				if !r.Dead() {
					break
				}
			}
		}
	}
	if outcomes[true] == 0 || outcomes[false] == 0 {
		t.Errorf("outcomes: %v", outcomes)
	}
	t.Logf("committed %d times, rolled back %d times", outcomes[true], outcomes[false])
}

// The fourth put of an empty transaction is its commit. When that fails, the
// table is asked what became of it, and it is put again.
func TestCommitAnswer(t *testing.T) {
	for _, c := range []struct {
		name         string
		failures     int
		after, lease bool
	}{
		{"the answer was lost", 1, true, false}, {"the put was lost", 1, false, false}, {"two puts were lost", 2, false, false},
		{"the store was down", 3, false, false}, {"the store was down, and the lease is lent", 3, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, d := t.Context(), start(t)
			var faults []storagetest.Fault
			for n := range c.failures {
				faults = append(faults, storagetest.Fault{Kind: storagetest.Put, N: 4 + n, After: c.after})
			}
			f := storage.Driver(storagetest.Faults(d, faults...))
			if c.lease { // whose object is not in the way of the count
				f = &lent{Driver: f, leases: storage.NewLeases(teststore.New(t), storage.LeaseOptions{})}
			}
			tb := open(t, f)
			x := must[*table.Txn](t)(tb.Begin(ctx))
			err := x.Commit(ctx, body())
			v := must[*table.View](t)(tb.View(ctx))
			if c.failures < 3 {
				if err != nil || v.Last() != x.Instant() {
					t.Errorf("%v, last %s", err, v.Last())
				}
				wantErr(t, "abort after it", x.Abort(ctx), table.ErrFinished)
				return
			}
			wantErr(t, "commit", err, table.ErrUnknown)
			wantErr(t, "commit again", x.Commit(ctx, body()), table.ErrFinished)
			if c.lease || lends(t, d) {
				// A put may still arrive: the next holder of the lease judges.
				wantErr(t, "abort", x.Abort(ctx), table.ErrUnknown)
				_, err := tb.Begin(ctx)
				wantErr(t, "begin", err, table.ErrRecover)
				return
			}
			if err := x.Abort(ctx); err != nil {
				t.Error(err)
			}
			if v := must[*table.View](t)(tb.View(ctx)); len(v.Writes()) != 1 {
				t.Errorf("writes %v", v.Writes())
			}
			must[hudi.Time](t)(commitBases(ctx, tb, 7))
		})
	}
}

// lends says whether a store only lends its locks.
func lends(t *testing.T, d storage.Driver) bool {
	t.Helper()
	l := must[storage.Lock](t)(d.Lock(t.Context(), ".hoodie/couch2hudi/another.lock"))
	defer func() { _ = l.Close() }()
	return l.Held().Done() != nil
}

// lent is a store that has its locks elsewhere.
type lent struct {
	storage.Driver
	leases *storage.Leases
}

func (l *lent) Lock(ctx context.Context, name string) (storage.Lock, error) {
	return l.leases.Lock(ctx, name)
}
