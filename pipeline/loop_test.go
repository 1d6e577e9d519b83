package pipeline_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// doc is what the model of TestLoop knows of a key.
type doc struct {
	order int64
	part  string
	value string
	dead  bool
}

// TestLoop places, writes and reads random batches, with moves, eras, tombstones,
// hard deletes and rebirths, and compares with a model of keys.
func TestLoop(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { loop(t, seed) })
	}
}

func loop(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	s, _ := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev", Kind: hudi.KindString},
		hudi.Column{Name: "_rev_order", Kind: hudi.KindLong}, hudi.Column{Name: "_op", Kind: hudi.KindString},
		hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean}, hudi.Column{Name: "pt", Kind: hudi.KindString}, hudi.Column{Name: "v", Kind: hudi.KindString})
	var n atomic.Int64
	o := table.Options{Clock: func() time.Time { return time.Date(2026, 1, 1, 0, 0, int(n.Add(1)), 0, time.UTC) }}
	b := storage.New(teststore.New(t), nil)
	tb, err := table.Create(t.Context(), b, table.CreateOptions{Name: "docs", PartitionField: "pt"}, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tb.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hard := seed%2 == 1
	files := writer.Options{FileBytes: 3000}
	if !hard {
		files.FileBytes = 30_000 // base files are written again
	}
	ix := index.NewBloom(index.BloomOptions{CacheBytes: int64(seed % 3)})
	model := map[string]doc{}
	epoch := int64(0)
	parts := []string{"a", "b/c", ""}
	for step := range 15 {
		if r.IntN(8) == 0 {
			epoch++
		}
		var rs []hudi.Record
		for range 1 + r.IntN(25) {
			key := fmt.Sprint("k", r.IntN(60))
			m, ok := model[key]
			sum := int64(1)
			if ok {
				sum = m.order&(1<<40-1) + int64(r.IntN(4)) - 1
				if sum < 1 {
					sum = 1
				}
				if m.dead && sum == m.order&(1<<40-1) {
					sum++ // a deletion makes the sum larger: no row stands beside it
				}
			}
			rev := fmt.Sprintf("%d-%d", sum, r.IntN(2))
			pv := parts[r.IntN(3)]
			pt := hudi.String(pv)
			if pv == "" {
				pt = hudi.Value{}
			}
			rec := hudi.Record{Key: hudi.Key{Record: key, Partition: hudi.PartitionPath("pt", pv, pv == "")}, Order: sum}
			value := fmt.Sprintf("%d.%d", step, r.IntN(1000))
			del := r.IntN(4) == 0
			switch {
			case del && hard:
				rec.Delete, rec.AnyPartition = true, true
				rec.Key.Partition = hudi.PartitionPath("pt", "", true)
			case del:
				value = "tombstone " + value
				rec.AnyPartition = true
				rec.Key.Partition = hudi.PartitionPath("pt", "", true)
				rec.Row = hudi.Row{hudi.String(key), hudi.String(rev), hudi.Long(sum), hudi.String("d"), hudi.Boolean(true), {}, hudi.String(value)}
			default:
				rec.Row = hudi.Row{hudi.String(key), hudi.String(rev), hudi.Long(sum), hudi.String("u"), hudi.Boolean(false), pt, hudi.String(value)}
			}
			dup := false
			for i := range rs {
				if rs[i].Key.Record == key {
					dup = true
				}
			}
			if dup {
				continue
			}
			// model
			era := epoch
			if ok {
				era = max(era, hudi.Era(m.order))
			}
			order := hudi.Order(era, sum)
			rs = append(rs, rec)
			if ok && order < m.order {
				continue
			}
			tomb := strings.HasPrefix(m.value, rev+" tombstone ")
			if ok && order == m.order && !rec.Delete && !m.dead && strings.HasPrefix(m.value, rev+" ") && tomb == (del && !hard) {
				continue
			}
			where := rec.Key.Partition
			if rec.AnyPartition && ok && !m.dead {
				where = m.part
			}
			switch {
			case rec.Delete && !ok:
			case rec.Delete && m.dead:
			case rec.Delete:
				m.dead, m.order = true, order
				model[key] = m
			default:
				if rec.AnyPartition && ok && m.dead {
					where = m.part
				}
				model[key] = doc{order: order, part: where, value: rev + " " + value}
			}
		}
		v, err := tb.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tg, err := index.Tag(t.Context(), ix, v, s, rs, index.TagOptions{Epoch: epoch})
		if err != nil {
			t.Fatal(err)
		}
		x, err := tb.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stats, err := writer.Write(t.Context(), x, s, tg.Records, files)
		if err != nil {
			t.Fatal(err)
		}
		body := commitmeta.Body{Stats: map[string][]commitmeta.WriteStat{}, Operation: "UPSERT", Extra: map[string]string{commitmeta.ExtraSchema: s.Avro()}}
		for _, st := range stats {
			body.Stats[st.Partition] = append(body.Stats[st.Partition], st)
		}
		if err := x.Commit(t.Context(), body); err != nil {
			t.Fatal(err)
		}
		v, err = tb.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, want := map[string]doc{}, map[string]doc{}
		for rec, err := range reader.Snapshot(t.Context(), v, reader.Options{IncludeDeletes: true}) {
			if err != nil {
				t.Fatal(err)
			}
			k := strings.Clone(rec.Key.Record)
			if _, twice := got[k]; twice {
				t.Fatalf("%s twice", k)
			}
			val, null, err := tb.Partitioning().Value(rec.Key.Partition)
			if err != nil || null != rec.Row[5].IsNull() || val != rec.Row[5].Text() || rec.Row[2].Long() != rec.Order {
				t.Fatalf("%+v %v", rec, err)
			}
			got[k] = doc{order: rec.Order, part: strings.Clone(rec.Key.Partition), value: strings.Clone(rec.Row[1].Text() + " " + rec.Row[6].Text())}
		}
		for k, m := range model {
			if !m.dead {
				want[k] = m
			}
		}
		if !maps.Equal(got, want) {
			for k := range want {
				if got[k] != want[k] {
					t.Errorf("step %d %s got %+v want %+v", step, k, got[k], want[k])
				}
			}
			for k := range got {
				if _, ok := want[k]; !ok {
					t.Errorf("extra %s %+v model %+v", k, got[k], model[k])
				}
			}
			t.FailNow()
		}
	}
}
