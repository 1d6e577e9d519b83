package rebucket_test

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/rebucket"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

func schema(t *testing.T) *hudi.Schema {
	t.Helper()
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func created(t *testing.T, d storage.Driver) (tb *table.Table, release func()) {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tb, err := table.Create(t.Context(), storage.New(d, nil), table.CreateOptions{Name: "docs"}, table.Options{Clock: func() time.Time {
		now = now.Add(time.Second)
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := tb.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tb, func() { lease.Close() }
}

// base makes a commit of one base file of keys with their order.
func base(t *testing.T, tb *table.Table, file hudi.FileID, keys map[string]int64) {
	t.Helper()
	x, err := tb.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := hudi.BaseFileName{File: file, Token: "0-0-0", Instant: x.Instant()}.String()
	up, err := x.Create(t.Context(), "", name, table.MarkCreate)
	if err != nil {
		t.Fatal(err)
	}
	w, err := basefile.NewWriter(up, schema(t), basefile.WriterOptions{Stamp: hudi.Stamp{Instant: x.Instant()}, FileName: name})
	if err != nil {
		t.Fatal(err)
	}
	for key, order := range keys {
		if err := w.Append(&hudi.Record{Key: hudi.Key{Record: key}, Order: order, Row: hudi.Row{hudi.String(key), hudi.Long(order)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := up.Commit()
	if err != nil {
		t.Fatal(err)
	}
	stat := commitmeta.WriteStat{File: file, Path: path.Join("", name), Writes: int64(len(keys)), Inserts: int64(len(keys)), Bytes: o.Size}
	if err := x.Commit(t.Context(), commitmeta.Body{Stats: map[string][]commitmeta.WriteStat{"": {stat}}, Extra: map[string]string{commitmeta.ExtraSchema: schema(t).Avro()}}); err != nil {
		t.Fatal(err)
	}
}

func rows(t *testing.T, tb *table.Table) map[string]int64 {
	t.Helper()
	v, err := tb.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for r, err := range reader.Snapshot(t.Context(), v, reader.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[r.Key.Record]; twice {
			t.Errorf("%q twice", r.Key.Record)
		}
		all[strings.Clone(r.Key.Record)] = r.Order
	}
	return all
}

// TestRunMendsSecondRows: an older writer had put keys with ":" into bucket 1 as
// well; of each the newest row stays.
func TestRunMendsSecondRows(t *testing.T) {
	tb, release := created(t, teststore.New(t))
	defer release()
	base(t, tb, "00000000-a-0", map[string]int64{"plain": 1, "urn:1": 2, "urn:2": 9})
	base(t, tb, "00000001-a-0", map[string]int64{"other": 1, "urn:1": 3, "urn:2": 4})
	done, err := rebucket.Run(t.Context(), tb, rebucket.Options{Buckets: 3, Extra: map[string]string{"last_seq": "7-x"}, TempDir: t.TempDir()})
	if err != nil || done.Dropped != 2 || done.Rows != 4 || done.Groups != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := rows(t, tb); fmt.Sprint(got) != "map[other:1 plain:1 urn:1:3 urn:2:9]" {
		t.Fatal(got)
	}
	v, err := tb.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writes := v.Writes()
	b, err := v.Body(t.Context(), writes[len(writes)-1])
	if err != nil || b.Operation != "CLUSTER" || len(b.Replaced[""]) != 2 || b.Extra["last_seq"] != "7-x" || b.Extra[commitmeta.ExtraSchema] == "" {
		t.Fatalf("%+v, %v", b, err)
	}
}

// TestRunFails: whatever fails once, the table has its rows, in the old buckets
// or in the new ones, and the next attempt comes to the end.
func TestRunFails(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 5
	}
	for _, kind := range []storagetest.Kind{storagetest.Read, storagetest.List, storagetest.Put,
		storagetest.Create, storagetest.Write, storagetest.Commit, storagetest.Delete} {
		n := 1
		for ; failAt(t, kind, n); n += stride {
		}
		if n == 1 {
			t.Errorf("no %s was seen", kind)
		}
	}
}

// failAt fails the n-th operation of a kind and says whether there was one.
func failAt(t *testing.T, kind storagetest.Kind, n int) bool {
	t.Helper()
	d := teststore.New(t)
	tb, lease := created(t, d)
	want := map[string]int64{}
	for i := range 20 {
		want[fmt.Sprintf("k%d", i)] = int64(i + 1)
	}
	base(t, tb, "00000000-a-0", want)
	lease()
	faulty := storagetest.Faults(d, storagetest.Fault{Kind: kind, N: n})
	attempt := func(d storage.Driver) error {
		tb, err := table.Open(t.Context(), storage.New(d, nil), table.Options{})
		if err != nil {
			return err
		}
		held, err := tb.Lease(t.Context())
		if err != nil {
			return err
		}
		defer held.Close()
		if _, err := tb.Recover(t.Context()); err != nil {
			return err
		}
		_, err = rebucket.Run(t.Context(), tb, rebucket.Options{Buckets: 4, Memory: 1 << 10, TempDir: t.TempDir()})
		return err
	}
	err := attempt(faulty)
	if faulty.Hit() == 0 && err != nil {
		t.Fatal(err)
	}
	for range 2 {
		tb, err := table.Open(t.Context(), storage.New(d, nil), table.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := rows(t, tb); !maps.Equal(got, want) {
			t.Fatalf("%s %d: %v", kind, n, got)
		}
		if err := attempt(d); err != nil {
			t.Fatalf("after a failed %s %d: %v", kind, n, err)
		}
	}
	return faulty.Hit() > 0
}

func TestRunWithoutBuckets(t *testing.T) {
	tb, release := created(t, teststore.New(t))
	defer release()
	if _, err := rebucket.Run(t.Context(), tb, rebucket.Options{}); !errors.Is(err, hudi.ErrBuckets) {
		t.Fatal(err)
	}
}
