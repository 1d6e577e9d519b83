package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// verify compares the world's table with its database; through watch, when set.
func (w *world) verify(o pipeline.VerifyOptions) pipeline.Verified {
	w.t.Helper()
	got, err := w.verified(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) verified(o pipeline.VerifyOptions) (pipeline.Verified, error) {
	w.t.Helper()
	source, done := w.source()
	defer done()
	var none []pipeline.Progress
	made := w.options(source, nil, "", &none)
	if o.Sleep == nil {
		o.Sleep = func(context.Context, time.Duration) error { return nil }
	}
	o.Source, o.View, o.Normalizer, o.Stay, o.Scope = source, w.view(), made.Normalizer, made.Stay, made.Scope
	if o.Samples == 0 {
		o.Samples = 100
	}
	return pipeline.Verify(w.t.Context(), o)
}

func (w *world) source() (changes.Source, func()) {
	w.t.Helper()
	o := couchdb.Options{URL: w.server.URL() + "/docs", BatchRows: 50, SeqInterval: 7}
	if w.follow != nil {
		w.follow(&o)
	}
	follower, err := couchdb.Open(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	source := changes.Source(follower)
	if w.watch != nil {
		source = w.watch(follower)
	}
	return source, func() { w.must(nil, follower.Close()) }
}

// repair repairs what verify names.
func (w *world) repair(ids []string) {
	w.t.Helper()
	ctx := w.t.Context()
	t, err := w.open(ctx, w.driver)
	w.must(t, err)
	lease, err := t.Lease(ctx)
	w.must(lease, err)
	defer func() { w.must(nil, lease.Close()) }()
	source, done := w.source()
	defer done()
	var commits []pipeline.Progress
	o := w.options(source, t, "", &commits)
	o.Repairs = true
	p, err := pipeline.New(ctx, o)
	w.must(p, err)
	w.must(nil, p.Repair(ctx, ids))
	rows := int64(0)
	for _, c := range commits {
		rows += c.Stats.Rows
	}
	if rows != int64(len(ids)) {
		w.t.Errorf("%d rows were read for %d documents", rows, len(ids))
	}
}

// planted is what another writer did to the rows of documents.
type planted struct {
	id   string
	want pipeline.Difference
	// rows makes the rows that stand in the place of the right one.
	rows func(s *hudi.Schema, right hudi.Record) []hudi.Record
}

func cell(s *hudi.Schema, r *hudi.Record, column string, v hudi.Value) {
	i, ok := s.Lookup(column)
	if !ok {
		panic(column)
	}
	r.Row[i] = v
}

// older is a state of one generation less.
func older(s *hudi.Schema, r hudi.Record) []hudi.Record {
	r.Order--
	cell(s, &r, hudi.ColumnRevOrder, hudi.Long(r.Order))
	cell(s, &r, hudi.ColumnRev, hudi.String("1-abc"))
	return []hudi.Record{r}
}

func set(column string, v hudi.Value) func(*hudi.Schema, hudi.Record) []hudi.Record {
	return func(s *hudi.Schema, r hudi.Record) []hudi.Record {
		cell(s, &r, column, v)
		return []hudi.Record{r}
	}
}

func elsewhere(both bool) func(*hudi.Schema, hudi.Record) []hudi.Record {
	return func(s *hudi.Schema, r hudi.Record) []hudi.Record {
		other := r.Clone()
		other.Key.Partition = "pt=20990101"
		cell(s, &other, "pt", hudi.String("20990101"))
		if both {
			return []hudi.Record{r, other}
		}
		return []hudi.Record{other}
	}
}

// plants are defects of each kind. The documents of the world are doc-0000 and so
// on, all of them at least twice written; doc-0007 to doc-0010 are deleted.
func plants(partitioned, hard bool) []planted {
	gone := func(*hudi.Schema, hudi.Record) []hudi.Record { return nil }
	all := []planted{
		{"doc-0000", pipeline.Missing, gone},
		{"doc-0001", pipeline.Stale, older},
		{"doc-0002", pipeline.Wrong, set("n", hudi.Long(4711))},
		{"doc-0003", pipeline.Wrong, set(hudi.ColumnDoc, hudi.String("{}"))},
		{"doc-0004", pipeline.Wrong, set(hudi.ColumnRev, hudi.String("2-ffff"))},
		{"doc-0005", pipeline.Wrong, func(s *hudi.Schema, r hudi.Record) []hudi.Record { // a state that never was
			r.Order += 40
			cell(s, &r, hudi.ColumnRevOrder, hudi.Long(r.Order))
			return []hudi.Record{r}
		}},
	}
	if partitioned {
		all = append(all, planted{"doc-0011", pipeline.WrongPartition, elsewhere(false)}, planted{"doc-0012", pipeline.WrongPartition, elsewhere(true)})
	}
	if !hard {
		all = append(all, planted{"doc-0006", pipeline.Wrong, set(hudi.ColumnDeleted, hudi.Boolean(true))}, // a deletion that never was
			planted{"doc-0007", pipeline.Resurrected, set(hudi.ColumnDeleted, hudi.Boolean(false))},
			planted{"doc-0008", pipeline.Missing, gone},
			planted{"doc-0009", pipeline.Stale, older},
			planted{"doc-0010", pipeline.Wrong, set("n", hudi.Long(1))})
	}
	return all
}

// plant makes the table anew, by another writer: with the rows as they are, but for
// the defects.
func (w *world) plant(defects []planted, buckets bool) {
	w.t.Helper()
	ctx, v := w.t.Context(), w.view()
	schema, err := v.Schema(ctx)
	w.must(schema, err)
	by := map[string]planted{}
	for _, p := range defects {
		by[p.id] = p
	}
	var rows []hudi.Located
	add := func(r hudi.Record) {
		rows = append(rows, hudi.Located{Record: r, Location: hudi.Location{Partition: r.Key.Partition}})
	}
	for r, err := range reader.Snapshot(ctx, v, reader.Options{IncludeDeletes: true}) {
		w.must(r, err)
		c := r.Clone()
		c.CommitTime, c.CommitSeqno = "", ""
		switch p, defect := by[c.Key.Record]; {
		case defect:
			for _, planted := range p.rows(schema, c) {
				add(planted)
			}
		default:
			add(c)
		}
		if c.Key.Record == "doc-0015" { // and a document that the database does not know
			extra := r.Clone()
			extra.Key.Record, extra.CommitTime, extra.CommitSeqno = "extra", "", ""
			cell(schema, &extra, hudi.ColumnID, hudi.String("extra"))
			add(extra)
		}
		if c.Key.Record == "doc-0016" && w.hard { // one that was deleted hard
			back := r.Clone()
			back.Key.Record, back.CommitTime, back.CommitSeqno = "doc-0007", "", ""
			cell(schema, &back, hudi.ColumnID, hudi.String("doc-0007"))
			add(back)
		}
	}
	extra := map[string]string{}
	for _, key := range []string{commitmeta.ExtraSchema, commitmeta.ExtraLastSeq, commitmeta.ExtraCheckpoint, commitmeta.ExtraOrdering, commitmeta.ExtraLayout} {
		extra[key], _, _, err = v.Extra(ctx, key)
		w.must(nil, err)
	}
	w.driver = teststore.New(w.t)
	t, err := w.open(ctx, w.driver)
	w.must(t, err)
	var o writer.Options
	if buckets {
		o.Buckets = 3
	}
	w.write(t, schema, rows, extra, o)
}

// write is a commit of another writer.
func (w *world) write(t *table.Table, s *hudi.Schema, rows []hudi.Located, extra map[string]string, o writer.Options) {
	w.t.Helper()
	ctx := w.t.Context()
	lease, err := t.Lease(ctx)
	w.must(lease, err)
	defer func() { w.must(nil, lease.Close()) }()
	x, err := t.Begin(ctx)
	w.must(x, err)
	stats, err := writer.Write(ctx, x, s, rows, o)
	w.must(stats, err)
	body := commitmeta.Body{Stats: map[string][]commitmeta.WriteStat{}, Operation: "UPSERT", Extra: extra}
	for _, stat := range stats {
		body.Stats[stat.Partition] = append(body.Stats[stat.Partition], stat)
	}
	w.must(nil, x.Commit(ctx, body))
}

// Each kind of defect that another writer planted is found, named and repaired, and
// nothing else is touched.
func TestVerifyFindsAndRepairs(t *testing.T) {
	for _, find := range []string{"bloom", "bucket", "cache"} {
		for _, kind := range []struct{ partitioned, hard bool }{{}, {true, false}, {false, true}, {true, true}} {
			if find != "bloom" && !kind.partitioned {
				continue
			}
			t.Run(fmt.Sprintf("%s, partitioned %v, hard %v", find, kind.partitioned, kind.hard), func(t *testing.T) {
				partitioned, hard := kind.partitioned, kind.hard
				w := newWorld(t, 9)
				w.partitioned, w.hard = partitioned, hard
				w.tune = func(o *pipeline.Options) { w.find(find, o) }
				w.filled(40)
				w.must(w.ingest(w.driver))
				if got := w.verify(pipeline.VerifyOptions{}); got.Count() != 0 || got.Documents != 40 || got.Equal != 40 || got.Moving != 0 || got.Rows == 0 {
					t.Fatalf("an equal pair: %+v", got)
				}
				defects := plants(partitioned, hard)
				w.plant(defects, find == "bucket")
				want := map[string]pipeline.Difference{"extra": pipeline.Extra}
				if hard {
					want["doc-0007"] = pipeline.Resurrected
				}
				for _, p := range defects {
					want[p.id] = p.want
				}
				var ids []string
				got := w.verify(pipeline.VerifyOptions{Memory: 2000, // so that it sorts on disk
					Found: func(_ context.Context, d pipeline.Difference, id string) error {
						if want[id] != d {
							t.Errorf("%s is %q, want %q", id, d, want[id])
						}
						ids = append(ids, id)
						return nil
					}})
				if len(ids) != len(want) || got.Count() != int64(len(want)) || len(got.Samples) != len(want) || !slices.IsSorted(ids) {
					t.Errorf("%d found, want %d: %v, %+v", len(ids), len(want), ids, got)
				}
				w.repair(ids)
				if got := w.verify(pipeline.VerifyOptions{}); got.Count() != 0 || got.Equal != 40 {
					t.Errorf("repaired: %+v", got)
				}
				w.alike("repaired")
				// The follower goes on above what was repaired.
				for i := range 40 {
					w.must(w.db.Put(fmt.Sprintf("doc-%04d", i), w.body()))
				}
				w.must(w.ingest(w.driver))
				w.alike("followed")
				if got := w.verify(pipeline.VerifyOptions{}); got.Count() != 0 || got.Equal != 40 {
					t.Errorf("followed: %+v", got)
				}
			})
		}
	}
}

// filled are n documents, some of them deleted.
func (w *world) filled(n int) {
	w.t.Helper()
	for range 2 {
		for i := range n {
			w.must(w.db.Put(fmt.Sprintf("doc-%04d", i), w.body()))
		}
	}
	for i := 7; i <= 10; i++ {
		w.must(w.db.Delete(fmt.Sprintf("doc-%04d", i)))
	}
}

// alike is check for a table in which eras were raised, and one row is no document's.
func (w *world) alike(what string) {
	w.t.Helper()
	want, got := w.model(), w.snapshot()
	for id, s := range got {
		if id == "extra" && s.Deleted {
			delete(got, id)
			continue
		}
		s.Order -= hudi.Order(hudi.Era(s.Order), 0)
		if s.Deleted { // it stays where it was found
			s.Partition = want[id].Partition
		}
		got[id] = s
	}
	w.equal(what, want, got)
}

// busy writes documents, and follows them, while the database is read.
type busy struct {
	*couchdb.Source
	between func()
}

func (b *busy) Next(ctx context.Context, after changes.Position, l changes.Limit) (changes.Batch, error) {
	b.between()
	l.Rows = 40
	return b.Source.Next(ctx, after, l)
}

// An equal pair is equal while documents are written, and followed or not: what is
// not due yet is moving.
func TestVerifyWhileWriting(t *testing.T) {
	w := newWorld(t, 3)
	w.partitioned = true
	w.filled(300)
	w.must(w.ingest(w.driver))
	w.docs = 300
	calls := 0
	w.watch = func(s *couchdb.Source) changes.Source {
		return &busy{Source: s, between: func() {
			w.round(5)
			if calls++; calls%3 == 0 {
				watch := w.watch
				w.watch = nil
				w.must(w.ingest(w.driver))
				w.watch = watch
			}
		}}
	}
	got := w.verify(pipeline.VerifyOptions{})
	if got.Count() != 0 || got.Moving == 0 || got.Equal == 0 || calls < 3 {
		t.Errorf("%+v after %d calls", got, calls)
	}
	w.watch = nil
	w.must(w.ingest(w.driver))
	if got := w.verify(pipeline.VerifyOptions{}); got.Count() != 0 || got.Moving != 0 {
		t.Errorf("quiet again: %+v", got)
	}
	// Behind by all that follows, and still no difference.
	w.round(100)
	if got := w.verify(pipeline.VerifyOptions{}); got.Count() != 0 || got.Moving == 0 {
		t.Errorf("behind: %+v", got)
	}
}

// What a purge left is found and repaired where the purge itself was not noticed;
// a database that was created again is refused.
func TestVerifyOtherSources(t *testing.T) {
	w := newWorld(t, 5)
	w.filled(20)
	w.must(w.ingest(w.driver))
	d, _ := w.db.Doc("doc-0001")
	var revs []couchRev
	for _, l := range d.Leaves {
		revs = append(revs, l.Rev)
	}
	w.db.Purge("doc-0001", revs...)
	got := w.verify(pipeline.VerifyOptions{})
	if got.Different[pipeline.Extra] != 1 || got.Count() != 1 || got.Samples[0].ID != "doc-0001" || got.Samples[0].Source != nil {
		t.Errorf("%+v", got)
	}
	var err error
	w.db, err = w.server.Recreate("docs")
	w.must(w.db, err)
	source, done := w.source()
	defer done()
	var none []pipeline.Progress
	_, err = pipeline.Verify(t.Context(), pipeline.VerifyOptions{Source: source, View: w.view(), Normalizer: w.options(source, nil, "", &none).Normalizer})
	if !errors.Is(err, changes.ErrRecreated) {
		t.Errorf("created again: %v", err)
	}
}
