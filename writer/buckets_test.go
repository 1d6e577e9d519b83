package writer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// TestAssignBuckets: a bucket is one group whatever its size; it begins with a
// base file and takes logs then, also while it is being compacted.
func TestAssignBuckets(t *testing.T) {
	const n = 4
	uuid := "xxxxxxxx-0000-4000-8000-000000000000"
	byBucket := map[int][]string{}
	for i := range 40 {
		key := fmt.Sprintf("k%02d", i)
		b := hudi.Bucket(key, n)
		byBucket[b] = append(byBucket[b], key)
	}
	keys := func(b int) string { return strings.Join(byBucket[b], " ") }
	file := func(b int) string { return string(hudi.BucketFile(b, uuid)) }
	var rs []hudi.Located
	for b := range n {
		for _, k := range slices.Backward(byBucket[b]) {
			rs = append(rs, located(k, "p", ""))
		}
	}
	gone := located("gone", "p", file(2))
	gone.Delete, gone.Row = true, nil
	o := writer.Options{Buckets: n, FileBytes: 1, NewID: func() string { return uuid }}
	latest := []hudi.Slice{sized("p", file(1), 0, 10), compacting(sized("p", file(2), 1<<40))}
	plan, err := writer.Assign(writer.State{Latest: map[string][]hudi.Slice{"p": latest}}, append(rs, gone), o)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("p/%s: %s\np/%s: gone %s\n+p/%s: %s\n+p/%s: %s", file(1), keys(1), file(2), keys(2), file(0), keys(0), file(3), keys(3))
	if got := shape(plan); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	for name, list := range map[string][]hudi.Slice{
		"two of one bucket": {sized("p", file(1), 1), sized("p", "00000001-1000-4000-8000-000000000000-0", 1)},
		"more buckets":      {sized("p", file(n), 1)},
		"no buckets":        {sized("p", "a-0", 1)},
	} {
		if _, err := writer.Assign(writer.State{Latest: map[string][]hudi.Slice{"p": list}}, rs, o); !errors.Is(err, hudi.ErrBuckets) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stray := located("k", "p", "")
	stray.Delete, stray.Row = true, nil
	if plan, err := writer.Assign(writer.State{}, []hudi.Located{stray}, o); !errors.Is(err, writer.ErrLocation) {
		t.Errorf("a delete of an unknown key made %v, %v", plan, err)
	}
}

// counting counts the uploads that are open at a time.
type counting struct {
	storage.Driver
	mu              sync.Mutex
	open, most, all int
}

type counted struct {
	storage.Upload
	of   *counting
	once sync.Once
}

func (c *counting) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	up, err := c.Driver.Create(ctx, name, cond)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.all = c.open+1, c.all+1
	c.most = max(c.most, c.open)
	return &counted{Upload: up, of: c}, nil
}

func (u *counted) done() {
	u.once.Do(func() {
		u.of.mu.Lock()
		defer u.of.mu.Unlock()
		u.of.open--
	})
}

func (u *counted) Commit() (storage.Object, error) {
	defer u.done()
	return u.Upload.Commit()
}

func (u *counted) Abort() error {
	defer u.done()
	return u.Upload.Abort()
}

// overCounting is a world without partitions whose uploads are counted.
func overCounting(t *testing.T, c *counting) *world {
	t.Helper()
	w := newWorld(t, 5, false)
	if err := w.lease.Close(); err != nil {
		t.Fatal(err)
	}
	w.bucket = storage.New(c, nil)
	var err error
	if w.table, err = table.Create(t.Context(), w.bucket, table.CreateOptions{Name: "docs"}, table.Options{Clock: w.tick}); err != nil {
		t.Fatal(err)
	}
	if w.lease, err = w.table.Lease(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// baseGroups are the groups with a base file; none may have two.
func (w *world) baseGroups() map[hudi.FileID]bool {
	w.t.Helper()
	groups := map[hudi.FileID]bool{}
	for o, err := range w.bucket.List(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		if b, err := hudi.ParseBaseFileName(path.Base(o.Name)); err == nil {
			if groups[b.File] {
				w.t.Fatalf("%q has two base files", b.File)
			}
			groups[b.File] = true
		}
	}
	return groups
}

// TestManyBuckets: open files, each with its buffers, do not grow with the number
// of buckets, and the table is right.
func TestManyBuckets(t *testing.T) {
	const n, rows, parallel = 2048, 6000, 3
	c := &counting{Driver: teststore.New(t)}
	w := overCounting(t, c)
	w.o = writer.Options{Buckets: n, Parallel: parallel, NewID: ids(5), Memory: 8 << 20}
	placed := map[string]hudi.FileID{}
	for round := range 2 {
		rs := make([]hudi.Located, rows)
		for i := range rs {
			// Half of the keys of the second round are new.
			key := fmt.Sprintf("k%06d", i+round*rows/2)
			rs[i] = hudi.Located{Record: hudi.Record{Key: hudi.Key{Record: key}, Order: int64(round + 1), Row: hudi.Row{hudi.String(key), hudi.String("1-x"),
				hudi.Long(int64(round + 1)), hudi.String("u"), hudi.Boolean(false), hudi.String(strconv.Itoa(round))}}, Location: hudi.Location{File: placed[key]}}
			w.rows[key] = fmt.Sprint(" ", round)
		}
		if err := w.commit(rs); err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			if b, ok := hudi.BucketOf(r.File); !ok || b != hudi.Bucket(r.Key.Record, n) {
				t.Fatalf("%q is in %q", r.Key.Record, r.File)
			}
			placed[r.Key.Record] = r.File
		}
	}
	if c.most > parallel || c.open != 0 || c.all < n {
		t.Errorf("%d uploads, %d open at a time, %d left open", c.all, c.most, c.open)
	}
	if got := w.snapshot(reader.Options{}); !maps.Equal(got, w.rows) {
		t.Fatalf("%d rows, want %d", len(got), len(w.rows))
	}
	used := map[hudi.FileID]bool{}
	for _, file := range placed {
		used[file] = true
	}
	if got := w.baseGroups(); !maps.Equal(got, used) {
		t.Errorf("%d groups with a base file, %d with rows", len(got), len(used))
	}
	t.Logf("%d groups, %d uploads, at most %d open", len(used), c.all, c.most)
}
