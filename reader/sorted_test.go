package reader_test

import (
	"cmp"
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

// TestSorter compares with a model: in memory, with some runs, and with a run for
// each row.
func TestSorter(t *testing.T) {
	type line struct {
		number int
		key    string
		order  int64
		text   string
	}
	rows := 2_000
	if testing.Short() {
		rows = 400
	}
	for name, budget := range map[string]int64{"memory": 1 << 30, "runs": 20_000, "a run a row": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := reader.NewSorter(reader.Options{Memory: budget, TempDir: dir})
			r := rand.New(rand.NewPCG(7, uint64(budget)))
			type place struct {
				number int
				key    string
			}
			newest := map[place]line{}
			for i := range rows {
				rec := hudi.Record{Key: hudi.Key{Record: fmt.Sprintf("k%d\U0001F600", r.IntN(rows*9/20))}, Order: r.Int64N(5), CommitTime: "20260101000000000",
					CommitSeqno: strconv.Itoa(i), Row: hudi.Row{hudi.String(strconv.Itoa(i)), {}, hudi.Long(r.Int64())}}
				if i%50 == 0 {
					rec.Key.Record = "￿" + rec.Key.Record // sorts otherwise by bytes
				}
				p := place{r.IntN(5) * 500, rec.Key.Record}
				l := line{p.number, p.key, rec.Order, fmt.Sprint(rec.CommitTime, rec.CommitSeqno, rec.Row)}
				if had, ok := newest[p]; !ok || l.order >= had.order {
					newest[p] = l
				}
				if err := s.Add(p.number, &rec); err != nil {
					t.Fatal(err)
				}
			}
			var want []line
			for _, l := range newest {
				want = append(want, l)
			}
			slices.SortFunc(want, func(a, b line) int { return cmp.Or(cmp.Compare(a.number, b.number), hudi.CompareUTF16(a.key, b.key)) })
			i := 0
			err := s.Each("pt=a", func(number int, got *hudi.Record) error {
				if l := (line{number, got.Key.Record, got.Order, fmt.Sprint(got.CommitTime, got.CommitSeqno, got.Row)}); l != want[i] || got.Key.Partition != "pt=a" {
					return fmt.Errorf("row %d is %+v, want %+v", i, l, want[i])
				}
				i++
				return nil
			})
			if err != nil || i != len(want) || s.Older() != int64(rows-len(want)) {
				t.Fatalf("%d of %d rows, %d older: %v", i, len(want), s.Older(), err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Fatalf("left behind: %v %v", left, err)
			}
		})
	}
}

// Whoever stops leaves nothing, and what cannot be kept is said.
func TestSorterStops(t *testing.T) {
	dir, stop := t.TempDir(), errors.New("stop")
	s := reader.NewSorter(reader.Options{Memory: 1, TempDir: dir})
	for i := range 300 {
		if err := s.Add(i%3, &hudi.Record{Key: hudi.Key{Record: strconv.Itoa(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Each("", func(int, *hudi.Record) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reader.NewSorter(reader.Options{Memory: 1, TempDir: dir + "/nowhere"}).Add(0, &hudi.Record{}); err == nil {
		t.Fatal("a run without a folder")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v %v", left, err)
	}
}
