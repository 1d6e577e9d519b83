package pipeline_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

var groupStride = flag.Int("group.stride", 13, "TestGroupCrashSweep dies at each n-th storage write; 1 takes half a minute")

// folder is a part of a store, so that one crash can be that of all tables.
type folder struct {
	storage.Driver
	name string
}

func (f *folder) in(name string) string { return f.name + "/" + name }

func (f *folder) out(o storage.Object) storage.Object {
	o.Name = strings.TrimPrefix(o.Name, f.name+"/")
	return o
}

func (f *folder) Stat(ctx context.Context, name string) (storage.Object, error) {
	o, err := f.Driver.Stat(ctx, f.in(name))
	return f.out(o), err
}

func (f *folder) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	o.Name = f.in(o.Name)
	return f.Driver.ReadAt(ctx, o, p, offset)
}

func (f *folder) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	o, err := f.Driver.Put(ctx, f.in(name), data, cond)
	return f.out(o), err
}

func (f *folder) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	u, err := f.Driver.Create(ctx, f.in(name), cond)
	return &upload{u, f}, err
}

func (f *folder) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		for o, err := range f.Driver.List(ctx, f.in(prefix), folders) {
			if !yield(f.out(o), err) {
				return
			}
		}
	}
}

func (f *folder) Delete(ctx context.Context, name string) error {
	return f.Driver.Delete(ctx, f.in(name))
}

func (f *folder) Lock(ctx context.Context, name string) (storage.Lock, error) {
	return f.Driver.Lock(ctx, f.in(name))
}

type upload struct {
	storage.Upload
	f *folder
}

func (u *upload) Commit() (storage.Object, error) {
	o, err := u.Upload.Commit()
	return u.f.out(o), err
}

// herd is a database whose documents go to several tables by their type.
type herd struct {
	*world
	tables []string
	others pipeline.Others
	values map[string][]string
	// types are what documents may be.
	types []string
	shape func(*pipeline.GroupOptions)
	seen  map[string][]pipeline.Progress
	mu    sync.Mutex
	// dropped counts, aligned names what was told.
	dropped int64
	aligned []pipeline.Alignment
}

func newHerd(t *testing.T, seed uint64) *herd {
	h := &herd{world: newWorld(t, seed), tables: []string{"orders", "people", "rest"}, others: pipeline.Others{Table: "rest"},
		types: []string{`"order"`, `"person"`, `"staff"`, `"thing"`, "1", "null", ""}, seen: map[string][]pipeline.Progress{},
		values: map[string][]string{"orders": {"order"}, "people": {"person", "staff", "1"}}}
	return h
}

// belongs is the table of a live document.
func (h *herd) belongs(body string) string {
	for name, values := range h.values {
		for _, v := range values {
			if strings.Contains(body, `"type":"`+v+`"`) || strings.Contains(body, `"type":`+v+`,`) {
				return name
			}
		}
	}
	return h.others.Table
}

func (h *herd) document() []byte {
	member := ""
	if v := h.types[h.rand.IntN(len(h.types))]; v != "" {
		member = `"type":` + v + ","
	}
	return append([]byte("{"+member), h.body()[1:]...)
}

// graze changes the database: documents that come, change their type, go with and
// without saying of what type they were, and come back.
func (h *herd) graze(n int) {
	h.t.Helper()
	for range n {
		if h.docs == 0 || h.rand.IntN(3) == 0 {
			h.must(h.db.Put(fmt.Sprintf("doc-%04d", h.docs), h.document()))
			h.docs++
			continue
		}
		id := fmt.Sprintf("doc-%04d", h.rand.IntN(h.docs))
		d, _ := h.db.Doc(id)
		switch h.rand.IntN(6) {
		case 0, 1, 2:
			h.must(h.db.Put(id, h.document()))
		case 3:
			hash := fmt.Sprintf("%032x", h.rand.Uint64())
			h.must(nil, h.db.Replicate(id, []couchfake.Rev{{Gen: 1, Hash: hash}}, h.document()))
		case 4:
			if leaf := d.Leaves[h.rand.IntN(len(d.Leaves))]; !leaf.Deleted {
				gone := strings.Replace(string(h.document()), "{", `{"_deleted":true,`, 1)
				h.must(h.db.Edit(id, leaf.Rev, []byte(gone)))
			}
		case 5:
			if !d.Deleted() {
				h.must(h.db.Delete(id))
			}
		}
	}
}

// follow runs the group until it has caught up.
func (h *herd) follow(d storage.Driver) error {
	return h.group(d, func(ctx context.Context, g *pipeline.Group) error { return g.Run(ctx) })
}

func (h *herd) group(d storage.Driver, do func(context.Context, *pipeline.Group) error) (err error) {
	return h.grouped(d, func(ctx context.Context, o pipeline.GroupOptions) error {
		g, err := pipeline.NewGroup(ctx, o)
		if err != nil {
			return err
		}
		return do(ctx, g)
	})
}

// grouped does with the options of all tables what one process does.
func (h *herd) grouped(d storage.Driver, do func(context.Context, pipeline.GroupOptions) error) (err error) {
	ctx := context.Background()
	source, err := couchdb.Open(ctx, couchdb.Options{URL: h.server.URL() + "/docs", BatchRows: 50, SeqInterval: 7})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	o := pipeline.GroupOptions{Field: "type", Others: h.others, Workers: 1,
		Dropped: func(n int64) { h.dropped += n }, Aligned: func(a pipeline.Alignment) { h.aligned = append(h.aligned, a) },
		Feed: pipeline.Options{Source: source, Once: true, MaxRows: h.maxRows}}
	for _, name := range h.tables {
		t, err := h.open(ctx, &folder{d, name})
		if err != nil {
			return err
		}
		lease, err := t.Lease(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = lease.Close() }()
		o.Tables = append(o.Tables, pipeline.Routed{Name: name, Values: h.values[name], Options: h.tableOptions(t, name)})
	}
	if h.shape != nil {
		h.shape(&o)
	}
	return do(ctx, o)
}

func (h *herd) tableOptions(t *table.Table, name string) pipeline.Options {
	n := normalize.Options{Table: name, Deletes: normalize.Tombstone}
	if h.hard {
		n.Deletes = normalize.Hard
	}
	if h.partitioned {
		n.PartitionField, n.PartitionFormat, n.PartitionName = "day", "yyyyMMdd", "pt"
	}
	shaper, err := normalize.New(n)
	h.must(nil, err)
	o := pipeline.Options{Table: t, Normalizer: shaper, Events: pipeline.Events{Committed: func(p pipeline.Progress) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen[name] = append(h.seen[name], p)
	}}}
	if h.tune != nil {
		h.tune(&o)
	}
	return o
}

// in is the world with one of the tables as its only one.
func (h *herd) in(name string) *world {
	w := *h.world
	w.driver = &folder{h.driver, name}
	return &w
}

// check compares each table with the documents of the database that are for it.
func (h *herd) check(what string) {
	h.t.Helper()
	all := map[string]map[string]state{}
	for d := range h.db.Docs() {
		if d.Deleted() {
			continue
		}
		body := string(d.Winner().Body)
		s := state{Rev: d.Winner().Rev.String(), Doc: body, Order: d.GenerationSum()}
		var day string
		if day, s.N = h.dayAndN([]byte(body)); h.partitioned {
			s.Partition = h.folder(strings.ReplaceAll(day, "-", ""))
		}
		name := h.belongs(body)
		if all[name] == nil {
			all[name] = map[string]state{}
		}
		all[name][d.ID] = s
	}
	for _, name := range h.tables {
		w := h.in(name)
		live := w.rows(func(ctx context.Context, v *table.View) func(func(*hudi.Record, error) bool) {
			return reader.Snapshot(ctx, v, reader.Options{})
		})
		want := all[name]
		if want == nil {
			want = map[string]state{}
		}
		h.equal(what+": "+name, want, live)
		if gone := len(w.snapshot()) - len(live); h.hard != (gone == 0) && h.docs > 100 && h.partitioned {
			h.t.Errorf("%s: %s has %d tombstones", what, name, gone)
		}
	}
}

// place is where a table's last commit stands.
func (h *herd) place(name string) string { return h.in(name).lastSeq() }

func TestGroup(t *testing.T) {
	for n := range 4 {
		hard, partitioned := n%2 == 1, n >= 2
		t.Run(fmt.Sprintf("hard=%t,partitioned=%t", hard, partitioned), func(t *testing.T) {
			t.Parallel()
			h := newHerd(t, uint64(n))
			h.hard, h.partitioned, h.maxRows, h.tune = hard, partitioned, 60, smallFiles
			h.shape = func(o *pipeline.GroupOptions) { o.Workers = 1 + 2*(n%2) }
			for r := range 5 {
				h.graze(60 + h.rand.IntN(100))
				if r == 3 {
					h.db.FailOver()
				}
				h.must(nil, h.follow(h.driver))
				h.check(fmt.Sprintf("round %d", r))
			}
			if len(h.aligned) > 0 {
				t.Errorf("tables stood apart: %+v", h.aligned)
			}
			for _, name := range h.tables {
				if h.place(name) != h.place(h.tables[0]) {
					t.Errorf("%s stands elsewhere", name)
				}
			}
		})
	}
}

// TestGroupCrashSweep dies at each storage write of a run, whichever table's it
// is, starts again and compares.
func TestGroupCrashSweep(t *testing.T) {
	stride, apart := *groupStride, 0
	if testing.Short() {
		stride = 31
	}
	for _, after := range []bool{false, true} {
		for k := 1; ; k += stride {
			h := newHerd(t, 11)
			h.maxRows, h.hard = 30, after
			crasher := storagetest.NewCrasher(h.driver, storagetest.Crash{At: k, After: after})
			for range 3 {
				h.graze(25)
				if !crasher.Dead() {
					if err := h.follow(crasher); err != nil && !crasher.Dead() {
						t.Fatalf("alive: %v", err)
					}
				}
				if crasher.Dead() {
					if err := h.follow(h.driver); err != nil {
						t.Fatalf("start again after a crash %s: %v", crasher.Where(), err)
					}
				}
				h.check("after a crash " + crasher.Where())
			}
			apart += len(h.aligned)
			if !crasher.Dead() {
				break
			}
		}
	}
	if apart == 0 {
		t.Error("no crash left the tables at different positions")
	}
	t.Logf("%d starts with tables apart", apart)
}

// TestGroupCrashes dies again and again, also while tables are led together, and
// takes tables out and in.
func TestGroupCrashes(t *testing.T) {
	for seed := range uint64(6) {
		if testing.Short() && seed > 1 {
			break
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			h := newHerd(t, 100+seed)
			h.maxRows = 20 + h.rand.IntN(30)
			all := slices.Clone(h.tables)
			for r := range 14 {
				h.graze(20 + h.rand.IntN(30))
				h.tables = all
				if r > 3 && r%4 == 0 { // the feed goes on without one of them
					h.tables = slices.Delete(slices.Clone(all), r/4%2, r/4%2+1)
				}
				crasher := storagetest.NewCrasher(h.driver, storagetest.Crash{At: 1 + h.rand.IntN(40), After: h.rand.IntN(2) == 0})
				if err := h.follow(crasher); err != nil && !crasher.Dead() {
					t.Fatal(err)
				}
			}
			h.tables = all
			h.must(nil, h.follow(h.driver))
			h.check("in the end")
		})
	}
}

// A quiet table's position follows, but not with every batch.
func TestGroupQuietTable(t *testing.T) {
	h := newHerd(t, 5)
	h.types = []string{`"order"`}
	var ticks atomic.Int64
	began := time.Now()
	h.shape = func(o *pipeline.GroupOptions) {
		o.Feed.Once, o.Feed.Interval = false, 2*time.Millisecond
		o.Feed.Clock = func() time.Time { return began.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
	}
	h.must(nil, h.group(h.driver, func(ctx context.Context, g *pipeline.Group) error {
		h.graze(20)
		for i := range 30 {
			if _, err := g.Step(ctx); err != nil {
				return err
			}
			ticks.Add(7000)
			h.must(h.db.Put(fmt.Sprint("more-", i), h.document()))
		}
		return nil
	}))
	if orders, people := len(h.seen["orders"]), len(h.seen["people"]); orders < 25 || people < 2 || people > 4 {
		t.Errorf("%d commits of the table with rows, %d of a quiet one in 210 s", orders, people)
	}
}

// A table that is new is fed from the beginning, and the others read it again.
func TestGroupNewTable(t *testing.T) {
	h := newHerd(t, 6)
	all := h.tables
	h.others = pipeline.Others{}
	h.tables = all[:1]
	h.graze(150)
	h.must(nil, h.follow(h.driver))
	if h.dropped == 0 {
		t.Error("nothing was dropped")
	}
	h.tables, h.others = all, pipeline.Others{Table: "rest"}
	h.graze(50)
	h.must(nil, h.follow(h.driver))
	h.check("with new tables")
	if !slices.Equal(h.aligned, []pipeline.Alignment{{Routes: true}}) {
		t.Errorf("told %+v", h.aligned)
	}
	before := maps.Clone(h.seen)
	h.must(nil, h.follow(h.driver))
	for name, p := range h.seen {
		if len(p) != len(before[name]) {
			t.Errorf("%s was written although there was nothing", name)
		}
	}
}

// TestGroupFail: the run stops at a document of no table, and does not lose it.
func TestGroupFail(t *testing.T) {
	h := newHerd(t, 8)
	h.tables, h.others, h.types = h.tables[:2], pipeline.Others{Fail: true}, []string{`"order"`, `"staff"`}
	h.graze(60)
	h.must(nil, h.follow(h.driver))
	h.must(h.db.Put("odd", []byte(`{"type":"invoice","day":"2024-01-01","n":1}`)))
	err := h.follow(h.driver)
	if !errors.Is(err, pipeline.ErrUnrouted) || !strings.Contains(err.Error(), `"odd"`) || !strings.Contains(err.Error(), `"invoice"`) {
		t.Fatalf("got %v", err)
	}
	h.must(h.db.Put("odd", []byte(`{"type":"order","day":"2024-01-01","n":1}`)))
	h.must(nil, h.follow(h.driver))
	h.check("corrected")
}

// TestGroupRecreated: a database that was deleted and made again is refused, or
// followed into a new epoch of every table.
func TestGroupRecreated(t *testing.T) {
	h := newHerd(t, 9)
	h.graze(80)
	h.must(nil, h.follow(h.driver))
	db, err := h.server.Recreate("docs")
	h.must(nil, err)
	h.db = db
	for i := range h.docs / 2 {
		h.must(h.db.Put(fmt.Sprintf("doc-%04d", i), h.document()))
	}
	if err := h.follow(h.driver); !errors.Is(err, changes.ErrRecreated) {
		t.Fatalf("got %v", err)
	}
	h.shape = func(o *pipeline.GroupOptions) { o.Feed.AcceptRecreated = true }
	h.must(nil, h.follow(h.driver))
	live := map[string]bool{}
	for _, name := range h.tables {
		for id, s := range h.in(name).snapshot() {
			if s.Deleted {
				continue
			}
			d, ok := h.db.Doc(id)
			if !ok || h.belongs(string(d.Winner().Body)) != name || d.Winner().Rev.String() != s.Rev {
				t.Errorf("%s has %q: %+v", name, id, s)
			}
			live[id] = true
		}
	}
	if len(live) != h.db.Len() {
		t.Errorf("%d of %d documents", len(live), h.db.Len())
	}
}

// TestGroupPurge: a purged document leaves the table that holds it, and one that
// comes back with another type goes to another table.
func TestGroupPurge(t *testing.T) {
	h := newHerd(t, 10)
	h.graze(120)
	h.must(nil, h.follow(h.driver))
	purged := 0
	for i := range h.docs {
		id := fmt.Sprintf("doc-%04d", i)
		d, ok := h.db.Doc(id)
		if !ok || i%3 != 0 {
			continue
		}
		purged++
		for _, l := range d.Leaves {
			h.db.Purge(id, l.Rev)
		}
		if i%2 == 0 {
			h.must(h.db.Put(id, h.document()))
		}
	}
	h.must(nil, h.follow(h.driver))
	for _, name := range h.tables {
		for id, s := range h.in(name).snapshot() {
			d, ok := h.db.Doc(id)
			if !s.Deleted && (!ok || d.Winner().Rev.String() != s.Rev || h.belongs(string(d.Winner().Body)) != name) {
				t.Errorf("%s has %q: %+v", name, id, s)
			}
		}
	}
	if purged == 0 {
		t.Error("nothing was purged")
	}
}

// TestGroupRoutesChange: when the values of the tables were given out anew the
// documents move, whatever dies meanwhile.
func TestGroupRoutesChange(t *testing.T) {
	h := newHerd(t, 12)
	h.maxRows = 40
	h.graze(150)
	h.must(nil, h.follow(h.driver))
	h.values = map[string][]string{"orders": {"person", "1"}, "people": {"order", "staff"}}
	for k := 2; ; k += 3 { // each start dies a little later
		crasher := storagetest.NewCrasher(h.driver, storagetest.Crash{At: k})
		if err := h.follow(crasher); err == nil {
			break
		} else if !crasher.Dead() {
			t.Fatal(err)
		}
	}
	h.check("turned")
	if len(h.aligned) < 2 || !h.aligned[0].Routes {
		t.Errorf("told %+v", h.aligned)
	}
}

// acknowledged remembers what the source was told to be durable.
type acknowledged struct {
	changes.Source
	told []changes.Position
}

func (a *acknowledged) Committed(_ context.Context, at changes.Position) error {
	a.told = append(a.told, at)
	return nil
}

// TestGroupAcknowledges: the source is told of what every table has in a commit, and
// of nothing that only one of them has.
func TestGroupAcknowledges(t *testing.T) {
	h := newHerd(t, 13)
	h.types, h.maxRows = []string{`"order"`}, 20
	var a *acknowledged
	h.shape = func(o *pipeline.GroupOptions) {
		a = &acknowledged{Source: o.Feed.Source}
		o.Feed.Source = a
	}
	h.graze(100)
	h.must(nil, h.follow(h.driver))
	if n := len(h.seen["orders"]); n < 3 || len(a.told) != 1 || string(a.told[0]) != h.place("rest") {
		t.Errorf("%d commits of one table, and the source was told %d times", n, len(a.told))
	}
}

// TestGroupOptions: routes that mean nothing are refused.
func TestGroupOptions(t *testing.T) {
	for name, o := range map[string]pipeline.GroupOptions{
		"no tables":  {Field: "type"},
		"no field":   {Tables: []pipeline.Routed{{Name: "a"}}},
		"twice":      {Field: "type", Tables: []pipeline.Routed{{Name: "a", Values: []string{"x"}}, {Name: "b", Values: []string{"x"}}}},
		"no default": {Field: "type", Tables: []pipeline.Routed{{Name: "a"}}, Others: pipeline.Others{Table: "b"}},
	} {
		if _, err := pipeline.NewGroup(t.Context(), o); !errors.Is(err, pipeline.ErrRoutes) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
