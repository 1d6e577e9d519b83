package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

var poolStride = flag.Int("pool.stride", 13, "TestPoolCrashSweep dies at each n-th storage write; 1 takes half a minute")

// pool is a server whose databases go into one table. They hold documents of equal
// ids, and such that database, slash and id together are one text.
type pool struct {
	*world
	names  []string
	states map[string]*herded
	accept bool
	mu     sync.Mutex
	seen   []pipeline.Progress
	// buckets are those of a bucket index, 0 for the bloom index.
	buckets int
}

// herded is what the world keeps of its one database.
type herded struct {
	db    *couchfake.Database
	docs  int
	lives map[string]string
}

func newPool(t *testing.T, seed uint64) *pool {
	p := &pool{world: newWorld(t, seed), states: map[string]*herded{}, buckets: 0}
	for _, name := range []string{"eu", "eu/shop", "shop"} {
		p.create(name)
	}
	p.with("eu", func() { p.must(p.db.Put("shop/doc-0001", p.body())) })
	return p
}

func (p *pool) create(name string) {
	p.t.Helper()
	db, err := p.server.Create(name)
	p.must(db, err)
	p.names = append(p.names, name)
	p.states[name] = &herded{db: db, lives: map[string]string{}}
	p.with(name, func() { p.must(p.db.Put("doomed", p.body())) })
}

// with lets the world work on one of the databases.
func (p *pool) with(name string, do func()) {
	s := p.states[name]
	p.db, p.docs, p.lives = s.db, s.docs, s.lives
	do()
	s.docs = p.docs
}

// graze changes all databases.
func (p *pool) graze(n int) {
	p.t.Helper()
	for _, name := range p.names {
		p.with(name, func() { p.round(n + p.rand.IntN(n)) })
	}
}

func (p *pool) table(ctx context.Context, d storage.Driver) (*table.Table, error) {
	b := storage.New(d, nil)
	there, err := table.Exists(ctx, b)
	if err != nil {
		return nil, err
	}
	if there {
		return table.Open(ctx, b, table.Options{})
	}
	pins := pipeline.Pins{Layout: p.layout()}
	c := table.CreateOptions{Name: "docs", OrderColumn: hudi.ColumnRevOrder, KeyColumn: hudi.ColumnKey, Extra: pins.Properties()}
	if p.partitioned {
		c.PartitionField = "pt"
	}
	return table.Create(ctx, b, c, table.Options{})
}

func (p *pool) layout() pipeline.Layout {
	l := pipeline.Layout{Index: "bloom", Key: hudi.ColumnKey}
	if p.buckets > 0 {
		l.Index, l.Buckets = "bucket", p.buckets
	}
	if p.partitioned {
		l.PartitionField, l.PartitionFormat, l.Timezone, l.PartitionName = "day", "yyyyMMdd", "UTC", "pt"
	}
	return l
}

// opened does with the table's options what one process does.
func (p *pool) opened(ctx context.Context, d storage.Driver, do func(pipeline.Options) error) error {
	t, err := p.table(ctx, d)
	if err != nil {
		return err
	}
	lease, err := t.Lease(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Close() }()
	shape := p.shape
	defer func() { p.shape = shape }()
	p.shape = func(n *normalize.Options) {
		n.Databases, n.PartitionTimezone = true, "UTC"
		if shape != nil {
			shape(n)
		}
	}
	var done []pipeline.Progress
	o := p.options(nil, t, "", &done)
	o.Layout, o.AcceptRecreated = p.layout(), p.accept
	if p.buckets > 0 {
		o.Writer.Buckets = p.buckets
		o.Index = index.NewBucket(index.BucketOptions{Buckets: p.buckets})
	}
	o.Events.Committed = func(g pipeline.Progress) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen = append(p.seen, g)
	}
	return do(o)
}

// source opens one of the databases.
func (p *pool) source(ctx context.Context, name string) (*couchdb.Source, error) {
	return couchdb.Open(ctx, couchdb.Options{URL: p.server.URL() + "/" + strings.ReplaceAll(name, "/", "%2F"), BatchRows: 50, SeqInterval: 7})
}

// follow gives every database turns until all have caught up.
func (p *pool) follow(d storage.Driver) error {
	return p.followed(context.Background(), d, func(ctx context.Context, in *pipeline.Pool, name string) error {
		s, err := p.source(ctx, name)
		if err != nil {
			return err
		}
		return errors.Join(in.Turn(ctx, s, ""), s.Close())
	})
}

func (p *pool) followed(ctx context.Context, d storage.Driver, take func(context.Context, *pipeline.Pool, string) error) error {
	return p.opened(ctx, d, func(o pipeline.Options) error {
		const workers = 2
		in, err := pipeline.NewPool(ctx, o, workers)
		if err != nil {
			return err
		}
		turns := pipeline.NewTurns(pipeline.TurnsOptions{Workers: workers, Once: true, Idle: in.Quiet,
			Take: func(ctx context.Context, name string) error { return take(ctx, in, name) }})
		turns.Want(p.names...)
		e, ctx := errgroup.WithContext(ctx)
		e.Go(func() error { return in.Run(ctx) })
		e.Go(func() error {
			defer in.End()
			return turns.Run(ctx)
		})
		return e.Wait()
	})
}

// model is what the table should hold, by keys.
func (p *pool) model() map[string]state {
	all := map[string]state{}
	for _, name := range p.names {
		p.with(name, func() {
			for id, s := range p.world.model() {
				all[normalize.Key(name, id)] = s
			}
		})
	}
	return all
}

// rows are the table's, by keys; what the columns say of the key is looked at.
func (p *pool) rows() map[string]state {
	p.t.Helper()
	ctx := context.Background()
	m := map[string]state{}
	v := p.view()
	if v.Last() == "" {
		return m
	}
	schema, err := v.Schema(ctx)
	p.must(schema, err)
	for r, err := range reader.Snapshot(ctx, v, reader.Options{IncludeDeletes: true}) {
		p.must(nil, err)
		r := r.Clone()
		text := func(c string) string { return schema.At(r.Row, c).Text() }
		if _, twice := m[r.Key.Record]; twice {
			p.t.Fatalf("%q is in the table twice", r.Key.Record)
		}
		db, id := text(hudi.ColumnDB), text(hudi.ColumnID)
		if text(hudi.ColumnKey) != r.Key.Record || normalize.Key(db, id) != r.Key.Record {
			p.t.Fatalf("_key %q, _db %q and _id %q under the key %q", text(hudi.ColumnKey), db, id, r.Key.Record)
		}
		m[r.Key.Record] = state{Rev: text(hudi.ColumnRev), Doc: text(hudi.ColumnDoc), Partition: r.Key.Partition,
			Order: schema.At(r.Row, hudi.ColumnRevOrder).Long(), Deleted: schema.At(r.Row, hudi.ColumnDeleted).Boolean(), N: schema.At(r.Row, "n").Long()}
	}
	return m
}

func (p *pool) check(what string) {
	p.t.Helper()
	p.equal(what, p.model(), p.rows())
}

// checkpoint is the newest commit's, which must be that of the newest write, and the
// source that its last_seq is of.
func (p *pool) checkpoint() (commitmeta.Checkpoint, string) {
	p.t.Helper()
	ctx, v := context.Background(), p.view()
	text, at, found, err := v.Extra(ctx, commitmeta.ExtraCheckpoint)
	if err != nil || !found || at.Time != v.Last() {
		p.t.Fatalf("checkpoint of %s, the last commit is %s: %v", at.Time, v.Last(), err)
	}
	c, err := commitmeta.DecodeCheckpoint(text)
	p.must(c, err)
	of, _, _, err := v.Extra(ctx, commitmeta.ExtraSource)
	p.must(of, err)
	if seq := p.lastSeq(); c.Sources[of].Seq != seq {
		p.t.Errorf("last_seq %q, and the checkpoint of %q says %q", seq, of, c.Sources[of].Seq)
	}
	return c, of
}

func TestPool(t *testing.T) {
	for n := range 4 {
		hard, partitioned, buckets := n%2 == 1, n >= 2, 4*(n%3%2)
		t.Run(fmt.Sprintf("hard=%t,partitioned=%t,buckets=%d", hard, partitioned, buckets), func(t *testing.T) {
			t.Parallel()
			p := newPool(t, uint64(n))
			p.hard, p.partitioned, p.buckets, p.maxRows, p.tune = hard, partitioned, buckets, 90, smallFiles
			for r := range 4 {
				p.graze(30)
				switch r {
				case 1:
					p.create("late")
				case 2:
					p.states["eu"].db.FailOver()
				}
				p.must(nil, p.follow(p.driver))
				p.check(fmt.Sprintf("round %d", r))
				if r > 0 { // after a fail-over rows come again
					continue
				}
				p.must(nil, p.follow(p.driver)) // the feed's end may have another text
				before := len(p.seen)
				p.must(nil, p.follow(p.driver))
				if len(p.seen) != before {
					t.Error("a run without changes committed")
				}
			}
			c, _ := p.checkpoint()
			if names := slices.Sorted(maps.Keys(c.Sources)); !slices.Equal(names, slices.Sorted(slices.Values(p.names))) {
				t.Errorf("the checkpoint has %v", names)
			}
			most := 0
			for _, g := range p.seen {
				most = max(most, g.Sources)
			}
			if most < 2 {
				t.Errorf("no commit of %d took several databases", len(p.seen))
			}
		})
	}
}

// TestPoolCrashSweep dies at each storage write of a run, starts again and compares:
// rows and the positions of all databases come together.
func TestPoolCrashSweep(t *testing.T) {
	stride := *poolStride
	if testing.Short() {
		stride = 31
	}
	for _, after := range []bool{false, true} {
		for k := 1; ; k += stride {
			p := newPool(t, 21)
			p.maxRows, p.hard, p.accept = 40, after, true
			crasher := storagetest.NewCrasher(p.driver, storagetest.Crash{At: k, After: after})
			for r := range 3 {
				p.graze(12)
				if r == 2 {
					p.recreate("shop")
					p.purge("eu")
				}
				if !crasher.Dead() {
					if err := p.follow(crasher); err != nil && !crasher.Dead() {
						t.Fatalf("alive: %v", err)
					}
				}
				if crasher.Dead() {
					if err := p.follow(p.driver); err != nil {
						t.Fatalf("start again after a crash %s: %v", crasher.Where(), err)
					}
				}
				p.compare("after a crash " + crasher.Where())
			}
			if !crasher.Dead() {
				break
			}
		}
	}
}

// compare looks at live rows and their documents: eras make orders others than the
// sums, and tombstones stay of what a database no longer knows.
func (p *pool) compare(what string) {
	p.t.Helper()
	live := func(all map[string]state) map[string]state {
		m := map[string]state{}
		for key, s := range all {
			if !s.Deleted {
				s.Order -= hudi.Order(hudi.Era(s.Order), 0)
				m[key] = s
			}
		}
		return m
	}
	p.equal(what, live(p.model()), live(p.rows()))
}

// recreate makes a database anew, with one document of an id that it had and one more.
func (p *pool) recreate(name string) {
	p.t.Helper()
	db, err := p.server.Recreate(name)
	p.must(db, err)
	p.states[name] = &herded{db: db, lives: map[string]string{}}
	p.with(name, func() {
		p.must(p.db.Put("doc-0001", p.body()))
		p.must(p.db.Put("only-now", p.body()))
	})
}

// purge takes a document of a database away without a trace.
func (p *pool) purge(name string) {
	p.t.Helper()
	p.with(name, func() {
		d, there := p.db.Doc("doomed")
		if !there || len(p.db.Purge(d.ID, d.Winner().Rev)) != 1 {
			p.t.Fatalf("there is nothing to purge in %s", name)
		}
	})
}

// TestPoolEpochs: what a recreated database does not have goes, and nothing of others;
// a database that is gone keeps its rows while others go on.
func TestPoolEpochs(t *testing.T) {
	p := newPool(t, 3)
	p.graze(20)
	p.must(nil, p.follow(p.driver))
	p.check("at first")
	p.recreate("eu/shop")
	p.graze(5)
	if err := p.follow(p.driver); !errors.Is(err, changes.ErrRecreated) {
		t.Fatalf("a recreated database: %v", err)
	}
	p.accept = true
	p.must(nil, p.follow(p.driver))
	p.compare("recreated")
	c, _ := p.checkpoint()
	for name, s := range c.Sources {
		if want := map[bool]int64{true: 1}[name == "eu/shop"]; s.Epoch != want || s.Sweep {
			t.Errorf("%s has epoch %d, sweep %t", name, s.Epoch, s.Sweep)
		}
	}
	p.purge("shop")
	p.graze(5)
	p.must(nil, p.follow(p.driver))
	p.compare("purged")
	names := p.names
	p.names = p.names[:2]
	p.graze(5)
	p.must(nil, p.follow(p.driver))
	p.names = names
	p.compare("while one was not followed")
}

// TestPoolFollows commits what several databases have in one commit, and once an
// interval.
func TestPoolFollows(t *testing.T) {
	p := newPool(t, 4)
	p.graze(10)
	for i := range 20 {
		p.create(fmt.Sprint("user-", i))
	}
	p.tune = func(o *pipeline.Options) { o.Once, o.Interval = false, 50*time.Millisecond }
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := p.opened(ctx, p.driver, func(o pipeline.Options) error {
		committed := make(chan pipeline.Progress, 1000)
		o.Events.Committed = func(g pipeline.Progress) { committed <- g }
		in, err := pipeline.NewPool(ctx, o, 3)
		if err != nil {
			return err
		}
		turns := pipeline.NewTurns(pipeline.TurnsOptions{Workers: 3, Idle: in.Quiet, Take: func(ctx context.Context, name string) error {
			s, err := p.source(ctx, name)
			if err != nil {
				return err
			}
			return errors.Join(in.Turn(ctx, s, ""), s.Close())
		}})
		turns.Want(p.names...)
		run, end := context.WithCancel(ctx)
		e, run := errgroup.WithContext(run)
		e.Go(func() error { return in.Run(run) })
		e.Go(func() error { return turns.Run(run) })
		for rows, all := int64(0), int64(len(p.model())); rows < all; { // all that was there
			rows += (<-committed).Stats.Rows
		}
		for _, name := range p.names {
			p.with(name, func() { p.must(p.db.Put("new", p.body())) })
		}
		turns.Want(p.names...)
		commits := 0
		for rows := int64(0); rows < int64(len(p.names)); commits++ {
			rows += (<-committed).Stats.Rows
		}
		if commits > len(p.names)/2 {
			t.Errorf("%d commits of %d databases with a document each", commits, len(p.names))
		}
		end()
		return e.Wait()
	})
	p.must(nil, err)
	p.check("followed")
}

// TestPoolQuarantine: a broken document is put aside with its database, and applied to
// it alone when it is tried again.
func TestPoolQuarantine(t *testing.T) {
	p := newPool(t, 5)
	p.graze(10)
	for _, name := range []string{"eu", "shop"} {
		p.with(name, func() { p.must(p.db.Put("doc-0000", p.body())) })
	}
	broken := true
	take := func(ctx context.Context, in *pipeline.Pool, name string) error {
		s, err := p.source(ctx, name)
		if err != nil {
			return err
		}
		return errors.Join(in.Turn(ctx, &breaking{s, "doc-0000", broken && name == "shop"}, ""), s.Close())
	}
	p.must(nil, p.followed(context.Background(), p.driver, take))
	waiting := map[string]string{}
	for one, err := range pipeline.Quarantine(context.Background(), p.view()) {
		p.must(nil, err)
		waiting[one.Source] = one.ID
	}
	if len(waiting) != 1 || waiting["shop"] != "doc-0000" {
		t.Fatalf("in quarantine: %v", waiting)
	}
	broken = false
	for _, name := range p.names {
		p.must(nil, p.opened(context.Background(), p.driver, func(o pipeline.Options) error {
			ctx := context.Background()
			s, err := p.source(ctx, name)
			if err != nil {
				return err
			}
			o.Source = pipeline.Of(s, name)
			got, err := pipeline.RetryQuarantine(ctx, o, false)
			if want := map[bool]int64{true: 1}[name == "shop"]; got.Applied != want || got.Changes != want {
				t.Errorf("%s: %+v", name, got)
			}
			return errors.Join(err, s.Close())
		}))
	}
	p.check("tried again")
	if c, _ := p.checkpoint(); len(c.Sources) != 3 {
		t.Errorf("the checkpoint after it: %+v", c)
	}
}

// breaking is a source one of whose documents comes without its body.
type breaking struct {
	*couchdb.Source
	id     string
	breaks bool
}

func (b *breaking) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	got, err := b.Source.Next(ctx, after, limit)
	for i := range got.Changes {
		if b.breaks && got.Changes[i].ID == b.id {
			got.Changes[i].Body, got.Changes[i].Defect = nil, "broken on the way"
		}
	}
	return got, err
}

// TestPoolPins: a table of one database is none of many, and the other way round.
func TestPoolPins(t *testing.T) {
	p := newPool(t, 6)
	p.graze(5)
	p.must(nil, p.follow(p.driver))
	_, err := p.ingest(p.driver)
	var pinned *pipeline.PinError
	if !errors.As(err, &pinned) || pinned.Have != hudi.ColumnKey || !strings.Contains(pinned.Hint(), "source.into: one") {
		t.Errorf("one database into a table of many: %v", err)
	}
	w := newWorld(t, 6)
	w.round(5)
	w.tune = func(o *pipeline.Options) { o.Layout = pipeline.Layout{Index: "bloom", Key: hudi.ColumnID} }
	w.must(w.ingest(w.driver))
	p.driver = w.driver
	if err := p.follow(p.driver); !errors.As(err, &pinned) || pinned.Want != hudi.ColumnKey || !strings.Contains(pinned.Hint(), "another table") {
		t.Errorf("many databases into a table of one: %v", err)
	}
}

// TestPoolCheckpointText: entries are by the databases' names, whatever these are.
func TestPoolCheckpointText(t *testing.T) {
	p := newPool(t, 8)
	p.graze(3)
	p.must(nil, p.follow(p.driver))
	text, _, _, err := p.view().Extra(context.Background(), commitmeta.ExtraCheckpoint)
	p.must(text, err)
	var c struct {
		Sources map[string]struct{ Kind, DB, Seq string }
	}
	p.must(nil, json.Unmarshal([]byte(text), &c))
	for _, name := range p.names {
		if s := c.Sources[name]; s.Kind != "couchdb" || s.DB != name || s.Seq == "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
