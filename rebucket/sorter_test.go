package rebucket

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// TestSorter compares with a stable sort in memory: in memory alone, with some
// runs, and with more runs than are read at a time; twice with the same sorter.
func TestSorter(t *testing.T) {
	for name, budget := range map[string]int64{"memory": 1 << 30, "runs": 20_000, "more runs": 1_000, "a run a row": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newSorter(dir, budget)
			r := rand.New(rand.NewPCG(7, uint64(budget)))
			for range 2 {
				var want []row
				for i := range 2_000 {
					rec := hudi.Record{Key: hudi.Key{Record: fmt.Sprintf("k%d\U0001F600", r.IntN(900))}, Order: r.Int64() - r.Int64(), CommitTime: "20260101000000000",
						CommitSeqno: strconv.Itoa(i), Row: hudi.Row{hudi.String(strconv.Itoa(i)), {}, hudi.Long(r.Int64())}}
					if i%50 == 0 {
						rec.Key.Record = "￿" + rec.Key.Record // sorts otherwise by bytes
					}
					bucket := r.IntN(5) * 500
					want = append(want, row{bucket, rec.Order, rec.Key.Record, reader.AppendRow(nil, &rec)})
					if err := s.add(bucket, &rec); err != nil {
						t.Fatal(err)
					}
				}
				slices.SortStableFunc(want, func(a, b row) int { return a.compare(&b) })
				i := 0
				err := s.each(func(got *row) error {
					w := want[i]
					if got.bucket != w.bucket || got.key != w.key || got.order != w.order || !bytes.Equal(got.data, w.data) {
						return fmt.Errorf("row %d is %d %q %s, want %d %q %s", i, got.bucket, got.key, got.data, w.bucket, w.key, w.data)
					}
					i++
					return nil
				})
				if err != nil || i != len(want) {
					t.Fatalf("%d of %d rows: %v", i, len(want), err)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Fatalf("left behind: %v %v", left, err)
			}
		})
	}
}

// Whoever stops reading, or never begins, leaves nothing.
func TestSorterStops(t *testing.T) {
	dir := t.TempDir()
	stop := errors.New("stop")
	for _, budget := range []int64{1, 1 << 20} {
		s := newSorter(dir, budget)
		for i := range 300 {
			if err := s.add(i%3, &hudi.Record{Key: hudi.Key{Record: strconv.Itoa(i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if budget == 1 && len(s.file.runs) > maxRuns {
			t.Fatalf("%d runs", len(s.file.runs))
		}
		if err := s.each(func(*row) error { return stop }); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := newSorter(dir+"/nowhere", 1).add(0, &hudi.Record{}); err == nil {
		t.Fatal("a run without a folder")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v %v", left, err)
	}
}
