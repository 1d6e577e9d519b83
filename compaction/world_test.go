package compaction_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// clock is a clock that tests set; it moves a little at each look.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a table of two partitions, and what should be in it.
type world struct {
	t      *testing.T
	clock  *clock
	store  storage.Driver
	table  *table.Table
	lease  io.Closer
	schema *hudi.Schema
	rand   *rand.Rand
	// rewrite is writer.Options.MaxRewrite.
	rewrite int64
	// rows are the values by key, places where the keys are, orders how often
	// each was written.
	rows   map[string]string
	places map[string]hudi.Location
	orders map[string]int64
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	return newWorldOf(t, seed, table.CreateOptions{})
}

func newWorldOf(t *testing.T, seed uint64, o table.CreateOptions) *world {
	t.Helper()
	o.Name, o.PartitionField = "docs", "pt"
	w := &world{t: t, clock: newClock(), rand: rand.New(rand.NewPCG(seed, 3)), rewrite: -1, rows: map[string]string{},
		places: map[string]hudi.Location{}, orders: map[string]int64{}}
	w.store = teststore.At(t, w.clock.Now)
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong},
		hudi.Column{Name: "v", Kind: hudi.KindString})
	w.must(err)
	w.schema = s
	tb, err := table.Create(t.Context(), storage.New(w.store, nil), o, w.options())
	w.must(err)
	w.table = tb
	w.lease, err = tb.Lease(t.Context())
	w.must(err)
	return w
}

func (w *world) options() table.Options { return table.Options{Clock: w.clock.Now} }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// batch is n random writes, one a key: rows, later versions and deletes.
func (w *world) batch(n int) []hudi.Located {
	taken, rs := map[string]bool{}, []hudi.Located{}
	for len(rs) < n {
		k := fmt.Sprintf("k%03d", w.rand.IntN(40))
		if taken[k] {
			continue
		}
		taken[k] = true
		at, there := w.places[k]
		if !there {
			at = hudi.Location{Partition: fmt.Sprintf("pt=%d", len(k+k)%2+w.rand.IntN(2))}
		}
		order := w.orders[k] + 1
		r := hudi.Located{Location: at, Record: hudi.Record{Key: hudi.Key{Record: k, Partition: at.Partition}, Order: order}}
		if there && w.rand.IntN(4) == 0 {
			r.Delete = true
		} else {
			r.Row = hudi.Row{hudi.String(k), hudi.Long(order), hudi.String(strings.Repeat("v", w.rand.IntN(50)))}
		}
		rs = append(rs, r)
	}
	return rs
}

// write commits records to a table.
func (w *world) write(ctx context.Context, tb *table.Table, rs []hudi.Located) error {
	x, err := tb.Begin(ctx)
	if err != nil {
		return err
	}
	stats, err := writer.Write(ctx, x, w.schema, rs, writer.Options{MaxRewrite: w.rewrite})
	if err != nil {
		return errors.Join(err, x.Abort(ctx))
	}
	b := commitmeta.Body{Operation: "UPSERT", Extra: map[string]string{commitmeta.ExtraSchema: w.schema.Avro(), commitmeta.ExtraCheckpoint: string(x.Instant())},
		Stats: map[string][]commitmeta.WriteStat{}}
	for _, s := range stats {
		b.Stats[s.Partition] = append(b.Stats[s.Partition], s)
	}
	return x.Commit(ctx, b)
}

// note is what a batch makes of the model.
func (w *world) note(rs []hudi.Located) {
	for i := range rs {
		r := &rs[i]
		k := r.Key.Record
		w.places[k], w.orders[k] = r.Location, r.Order
		if delete(w.rows, k); !r.Delete {
			w.rows[k] = value(w.schema, &r.Record)
		}
	}
}

func value(s *hudi.Schema, r *hudi.Record) string {
	return fmt.Sprintf("%s %d %s", r.Key.Partition, s.At(r.Row, "_rev_order").Long(), s.At(r.Row, "v").Text())
}

// commit writes a random batch.
func (w *world) commit(n int) {
	w.t.Helper()
	rs := w.batch(n)
	w.must(w.write(w.t.Context(), w.table, rs))
	w.note(rs)
}

func (w *world) view() *table.View {
	w.t.Helper()
	v, err := w.table.View(w.t.Context())
	w.must(err)
	return v
}

// fresh is the table as another process sees it.
func (w *world) fresh() *table.View {
	w.t.Helper()
	tb, err := table.Open(context.Background(), storage.New(w.store, nil), table.Options{ReadOnly: true, Clock: w.clock.Now})
	w.must(err)
	v, err := tb.View(context.Background())
	w.must(err)
	return v
}

// lines are rows with their meta columns, sorted.
func (w *world) lines(seq iter.Seq2[*hudi.Record, error]) []string {
	w.t.Helper()
	var out []string
	for r, err := range seq {
		w.must(err)
		out = append(out, fmt.Sprintf("%s %s %s %s", r.Key.Record, value(w.schema, r), r.CommitTime, r.CommitSeqno))
	}
	slices.Sort(out)
	return out
}

func (w *world) snapshot(v *table.View) []string {
	w.t.Helper()
	return w.lines(reader.Snapshot(context.Background(), v, reader.Options{}))
}

// check compares the table with the model.
func (w *world) check(what string) {
	w.t.Helper()
	got := map[string]string{}
	v := w.fresh()
	if v.Last() == "" {
		return
	}
	for r, err := range reader.Snapshot(context.Background(), v, reader.Options{}) {
		w.must(err)
		if _, twice := got[r.Key.Record]; twice {
			w.t.Fatalf("%s: %q is there twice", what, r.Key.Record)
		}
		got[strings.Clone(r.Key.Record)] = value(w.schema, r)
	}
	if !maps.Equal(got, w.rows) {
		w.t.Fatalf("%s:\n got %v\nwant %v", what, got, w.rows)
	}
}

// increments are the incremental reads from each commit to the next that had
// rows of its own.
func (w *world) increments(v *table.View) map[hudi.Time][]string {
	w.t.Helper()
	all, begin := map[hudi.Time][]string{}, hudi.Time("0")
	for _, i := range v.Writes() {
		lines := w.lines(reader.Incremental(context.Background(), v, begin, i.Time, reader.Options{IncludeDeletes: true}))
		if b, err := v.Body(context.Background(), i); err != nil {
			w.t.Fatal(err)
		} else if b.Compacted && len(lines) > 0 {
			w.t.Fatalf("compaction %s has rows of its own: %v", i.Time, lines)
		} else if !b.Compacted {
			all[i.Time] = lines
		}
		begin = i.Time
	}
	return all
}

// planAll is the plan of every slice that has logs.
func (w *world) planAll() commitmeta.CompactionPlan {
	w.t.Helper()
	v := w.view()
	partitions, err := v.Partitions(w.t.Context())
	w.must(err)
	var latest []hudi.Slice
	for _, p := range partitions {
		list, err := v.Slices(w.t.Context(), p)
		w.must(err)
		latest = append(latest, list...)
	}
	now, err := w.table.Now().Clock()
	w.must(err)
	plan, ok := compaction.PlanCompact(latest, compaction.History{}, compaction.Policy{}, now)
	if !ok {
		w.t.Fatal("nothing to compact")
	}
	return plan
}

// settled fails on what a finished table must not have: pending compactions,
// markers, heartbeats.
func (w *world) settled(what string) {
	w.t.Helper()
	if p := w.fresh().Compactions(); len(p) > 0 {
		w.t.Errorf("%s: still pending: %v", what, p)
	}
	for o, err := range storage.New(w.store, nil).List(context.Background(), ".hoodie/.") {
		w.must(err)
		w.t.Errorf("%s: left over: %s", what, o.Name)
	}
}

// files are the data files, and those of them that some completed write names.
func (w *world) orphans() []string {
	w.t.Helper()
	v := w.fresh()
	named := map[string]bool{}
	for _, i := range v.Writes() {
		b, err := v.Body(context.Background(), i)
		w.must(err)
		for _, stats := range b.Stats {
			for _, s := range stats {
				named[s.Path] = true
			}
		}
	}
	var left []string
	for o, err := range storage.New(w.store, nil).List(context.Background(), "pt=") {
		w.must(err)
		if !named[o.Name] && !strings.HasSuffix(o.Name, ".hoodie_partition_metadata") {
			left = append(left, o.Name)
		}
	}
	slices.SortFunc(left, cmp.Compare)
	return left
}
