package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// world is a database, a table that is to equal it, and what the table should
// hold, told from the database's revision trees alone.
type world struct {
	t      *testing.T
	server *couchfake.Server
	db     *couchfake.Database
	driver storage.Driver
	rand   *rand.Rand
	// partitioned and hard are the table's settings.
	partitioned, hard bool
	// bare and plain are how partition folders are named, stay leaves rows in
	// their first.
	bare, plain, stay bool
	maxRows           int
	// maxRowBytes is the source's limit; 0 for its default.
	maxRowBytes int
	// lives is the partition in which each document was last seen live by an
	// ingest; a tombstone stays there.
	lives map[string]string
	docs  int
	// tune and follow change the options of the next ingests and of their source,
	// watch puts something before it.
	tune   func(*pipeline.Options)
	follow func(*couchdb.Options)
	watch  func(*couchdb.Source) changes.Source
	// shape changes the options of the next normalizers.
	shape func(*normalize.Options)
	// pinned are further properties of the table when it is made.
	pinned map[string]string
	// ignore is a document that the table cannot be equal in.
	ignore string
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	return newWorldOn(t, seed, couchfake.Options{})
}

func newWorldOn(t *testing.T, seed uint64, o couchfake.Options) *world {
	t.Helper()
	s, err := couchfake.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &world{t: t, server: s, driver: teststore.New(t), rand: rand.New(rand.NewPCG(seed, 1)), lives: map[string]string{}}
	if w.db, err = s.Create("docs"); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) open(ctx context.Context, d storage.Driver) (t *table.Table, err error) {
	b := storage.New(d, nil)
	there, err := table.Exists(ctx, b)
	if err != nil {
		return nil, err
	}
	if there {
		return table.Open(ctx, b, table.Options{})
	}
	c := table.CreateOptions{Name: "docs", OrderColumn: hudi.ColumnRevOrder, KeyColumn: hudi.ColumnID}
	c.Extra = w.pinned
	if w.partitioned {
		c.PartitionField, c.BareFolders, c.PlainFolders = "pt", w.bare, w.plain
	}
	return table.Create(ctx, b, c, table.Options{})
}

// ingest runs the pipeline until it has caught up.
func (w *world) ingest(d storage.Driver) ([]pipeline.Progress, error) {
	return w.ingestFrom(d, "")
}

func (w *world) ingestFrom(d storage.Driver, since changes.Position) ([]pipeline.Progress, error) {
	return w.run(context.Background(), d, since)
}

// run runs the pipeline until it ends, by itself or with ctx.
func (w *world) run(ctx context.Context, d storage.Driver, since changes.Position) (done []pipeline.Progress, err error) {
	err = w.process(ctx, d, since, &done, func(o pipeline.Options) error {
		p, err := pipeline.New(ctx, o)
		if err != nil {
			return err
		}
		return p.Run(ctx)
	})
	return done, err
}

// process does with the options what one process does.
func (w *world) process(ctx context.Context, d storage.Driver, since changes.Position, done *[]pipeline.Progress, does func(pipeline.Options) error) (err error) {
	t, err := w.open(ctx, d)
	if err != nil {
		return err
	}
	lease, err := t.Lease(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeQuietly(lease)) }()
	o := couchdb.Options{URL: w.server.URL() + "/docs", BatchRows: 50, SeqInterval: 7, MaxRowBytes: w.maxRowBytes}
	if w.follow != nil {
		w.follow(&o)
	}
	follower, err := couchdb.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, follower.Close()) }()
	source := changes.Source(follower)
	if w.watch != nil {
		source = w.watch(follower)
	}
	return does(w.options(source, t, since, done))
}

// closeQuietly lets go of a lease; one that died with its process is gone.
func closeQuietly(c io.Closer) error {
	_ = c.Close()
	return nil
}

func (w *world) options(source changes.Source, t *table.Table, since changes.Position, done *[]pipeline.Progress) pipeline.Options {
	n := normalize.Options{Table: "docs", Deletes: "tombstone"}
	if w.hard {
		n.Deletes = "hard"
	}
	if w.partitioned {
		n.PartitionField, n.PartitionFormat, n.PartitionName = "day", "yyyyMMdd", "pt"
		n.BareFolders, n.PlainFolders = w.bare, w.plain
	}
	if w.shape != nil {
		w.shape(&n)
	}
	shaper, err := normalize.New(n)
	if err != nil {
		w.t.Fatal(err)
	}
	o := pipeline.Options{Source: source, Table: t, Normalizer: shaper, Since: since, Once: true, MaxRows: w.maxRows,
		Events: pipeline.Events{Committed: func(p pipeline.Progress) { *done = append(*done, p) }}}
	o.BareFolders, o.PlainFolders, o.Stay = w.bare, w.plain, w.stay
	if w.tune != nil {
		w.tune(&o)
	}
	return o
}

// state is what the model and the table say of one document.
type state struct {
	Rev, Doc, Partition string
	Order               int64
	Deleted             bool
	N                   int64
}

// clipped is a state that can be printed.
func (s state) clipped() state {
	const most = 500
	if len(s.Doc) > most {
		s.Doc = fmt.Sprintf("%s… (%d bytes)", s.Doc[:most], len(s.Doc))
	}
	return s
}

// model is what the table should hold, from the revision trees.
func (w *world) model() map[string]state {
	m := map[string]state{}
	for d := range w.db.Docs() {
		s := state{Rev: d.Winner().Rev.String(), Doc: string(d.Winner().Body), Order: d.GenerationSum(), Deleted: d.Deleted()}
		if s.Deleted {
			s.Partition = w.lives[d.ID]
			if s.Partition == "" && w.partitioned {
				s.Partition = w.folder(hudi.DefaultPartition)
			}
			w.lives[d.ID] = s.Partition
			if w.hard {
				continue
			}
		} else {
			var day string
			day, s.N = w.dayAndN(d.Winner().Body)
			if w.partitioned {
				s.Partition = w.folder(day[:4] + day[5:7] + day[8:])
			}
			if first := w.lives[d.ID]; w.stay && first != "" {
				s.Partition = first
			}
			w.lives[d.ID] = s.Partition
		}
		m[d.ID] = s
	}
	return m
}

// folder is that of a partition's value; days need no escapes.
func (w *world) folder(value string) string {
	if w.bare {
		return value
	}
	return "pt=" + value
}

// dayAndN are two members that bodies begin with, behind those of the database.
// What follows may be nested deeper than package json reads.
func (w *world) dayAndN(body []byte) (day string, n int64) {
	w.t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	token := func() json.Token {
		t, err := d.Token()
		w.must(t, err)
		return t
	}
	token() // the brace
	for {
		switch token() {
		case "day":
			w.must(nil, d.Decode(&day))
		case "n":
			w.must(nil, d.Decode(&n))
			return day, n
		default:
			token()
		}
	}
}

// view is the table as it is now.
func (w *world) view() *table.View {
	w.t.Helper()
	ctx := context.Background()
	t, err := w.open(ctx, w.driver)
	if err != nil {
		w.t.Fatal(err)
	}
	v, err := t.View(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// rows reads a table's rows into states by document id.
func (w *world) rows(read func(context.Context, *table.View) func(func(*hudi.Record, error) bool)) map[string]state {
	w.t.Helper()
	v, ctx := w.view(), context.Background()
	m := map[string]state{}
	schema, err := v.Schema(ctx)
	if errors.Is(err, table.ErrNoSchema) {
		return m
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for r, err := range read(ctx, v) {
		if err != nil {
			w.t.Fatal(err)
		}
		r := r.Clone()
		text := func(c string) string { return schema.At(r.Row, c).Text() }
		if _, twice := m[r.Key.Record]; twice {
			w.t.Fatalf("%q is in the table twice", r.Key.Record)
		}
		if text(hudi.ColumnID) != r.Key.Record {
			w.t.Fatalf("_id %q under the key %q", text(hudi.ColumnID), r.Key.Record)
		}
		m[r.Key.Record] = state{Rev: text(hudi.ColumnRev), Doc: text(hudi.ColumnDoc), Partition: r.Key.Partition,
			Order: schema.At(r.Row, hudi.ColumnRevOrder).Long(), Deleted: schema.At(r.Row, hudi.ColumnDeleted).Boolean(),
			N: schema.At(r.Row, "n").Long()}
	}
	return m
}

func (w *world) snapshot() map[string]state {
	w.t.Helper()
	return w.rows(func(ctx context.Context, v *table.View) func(func(*hudi.Record, error) bool) {
		return reader.Snapshot(ctx, v, reader.Options{IncludeDeletes: true})
	})
}

// replay applies the incremental reads from each commit to the next.
func (w *world) replay() map[string]state {
	w.t.Helper()
	v := w.view()
	all, begin := map[string]state{}, hudi.Time("0")
	for _, i := range v.Writes() {
		part := w.rows(func(ctx context.Context, v *table.View) func(func(*hudi.Record, error) bool) {
			return reader.Incremental(ctx, v, begin, i.Time, reader.Options{IncludeDeletes: true})
		})
		maps.Copy(all, part)
		begin = i.Time
	}
	return all
}

// check compares the table with the database.
func (w *world) check(what string) {
	w.t.Helper()
	want := w.model()
	w.equal(what+": snapshot", want, w.snapshot())
	if !w.hard { // hard deletes do not show in incremental reads
		w.equal(what+": incremental reads replayed", want, w.replay())
	}
}

func (w *world) equal(what string, want, got map[string]state) {
	w.t.Helper()
	bad := 0
	delete(want, w.ignore)
	delete(got, w.ignore)
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id] != want[id] {
			if bad++; bad < 5 {
				w.t.Errorf("%s: %q\n got %+v\nwant %+v", what, id, got[id].clipped(), want[id].clipped())
			}
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			if bad++; bad < 5 {
				w.t.Errorf("%s: %q should not be there: %+v", what, id, got[id].clipped())
			}
		}
	}
	if bad > 0 {
		w.t.Fatalf("%s: %d of %d documents differ", what, bad, len(want))
	}
}

type couchRev = couchfake.Rev

// instants is the number of completed writes.
func (w *world) instants() int {
	w.t.Helper()
	return len(w.view().Writes())
}

// lastSeq is the newest commit's.
func (w *world) lastSeq() string {
	w.t.Helper()
	v := w.view()
	seq, _, ok, err := v.Extra(context.Background(), commitmeta.ExtraLastSeq)
	if err != nil || !ok {
		w.t.Fatalf("no last_seq: %v %v", ok, err)
	}
	return seq
}

// must fails the test on an error.
func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) body() []byte {
	day := time.Date(2024, 1, 1+w.rand.IntN(5), 0, 0, 0, 0, time.UTC).Format("2006-01-02")
	return fmt.Appendf(nil, `{"day":%q,"n":%d,"text":"wert \u00e9 %d","more":{"a":[1,2,%d]}}`,
		day, w.rand.IntN(1000), w.rand.IntN(10), w.rand.IntN(10))
}

// round changes the database: n random edits of every kind.
func (w *world) round(n int) {
	w.t.Helper()
	for range n {
		if w.docs == 0 || w.rand.IntN(3) == 0 {
			w.must(w.db.Put(fmt.Sprintf("doc-%04d", w.docs), w.body()))
			w.docs++
			continue
		}
		w.edit(fmt.Sprintf("doc-%04d", w.rand.IntN(w.docs)))
	}
}

// edit changes one document in one of the ways that trees change.
func (w *world) edit(id string) {
	w.t.Helper()
	d, _ := w.db.Doc(id)
	leaf := d.Leaves[w.rand.IntN(len(d.Leaves))]
	switch w.rand.IntN(6) {
	case 0, 1: // the winner is edited, or a deleted document comes back
		w.must(w.db.Put(id, w.body()))
	case 2: // a replicated branch: a conflict
		hash := fmt.Sprintf("%032x", w.rand.Uint64())
		w.must(nil, w.db.Replicate(id, []couchfake.Rev{{Gen: 1, Hash: hash}}, w.body()))
	case 3: // some leaf is edited
		if !leaf.Deleted {
			w.must(w.db.Edit(id, leaf.Rev, w.body()))
		}
	case 4: // some leaf is deleted: perhaps the winner is demoted
		if !leaf.Deleted {
			w.must(w.db.Edit(id, leaf.Rev, []byte(`{"_deleted":true,"reason":"gone"}`)))
		}
	case 5: // the winner is deleted without a body
		if !d.Deleted() {
			w.must(w.db.Delete(id))
		}
	}
}
