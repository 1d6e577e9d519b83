package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// misread gives documents a defect while they are named, like a source that was read
// the wrong way.
type misread struct {
	*couchdb.Source
	ids map[string]bool
}

func (s *misread) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	b, err := s.Source.Next(ctx, after, limit)
	for i := range b.Changes {
		if c := &b.Changes[i]; s.ids[c.ID] {
			c.Defect = "read the wrong way"
		}
	}
	return b, err
}

// deaf is a source that cannot be asked for documents.
type deaf struct{ changes.Source }

// quarantining is a world in which some documents are broken.
type quarantining struct {
	*world
	broken map[string]bool
}

func newQuarantining(t *testing.T, seed uint64, asks bool) *quarantining {
	t.Helper()
	q := &quarantining{world: newWorld(t, seed), broken: map[string]bool{}}
	q.partitioned, q.tune = true, smallFiles
	q.watch = func(s *couchdb.Source) changes.Source {
		if source := (&misread{Source: s, ids: q.broken}); asks {
			return source
		}
		return deaf{&misread{Source: s, ids: q.broken}}
	}
	return q
}

// quarantine changes documents and lets an ingest find them broken.
func (q *quarantining) quarantine(ids ...string) {
	q.t.Helper()
	for _, id := range ids {
		q.broken[id] = true
		q.must(q.db.Put(id, q.body()))
	}
	q.must(q.ingest(q.driver))
	clear(q.broken)
}

func (q *quarantining) retry(d storage.Driver, dry bool) (got pipeline.Retried, err error) {
	var done []pipeline.Progress
	err = q.process(q.t.Context(), d, "", &done, func(o pipeline.Options) (err error) {
		got, err = pipeline.RetryQuarantine(q.t.Context(), o, dry)
		return err
	})
	return got, err
}

// expect retries and compares what became of the changes, in short.
func (q *quarantining) expect(what, want string) {
	q.t.Helper()
	got, err := q.retry(q.driver, false)
	if err != nil {
		q.t.Fatalf("%s: %v", what, err)
	}
	if text := retried(got); text != want {
		q.t.Fatalf("%s: %s, want %s", what, text, want)
	}
}

func retried(r pipeline.Retried) string {
	return fmt.Sprintf("%d: %d applied, %d older, %d elsewhere, %d gone, %d broken in %d commits",
		r.Changes, r.Applied, r.Older, r.Elsewhere, r.Gone, r.Broken, r.Commits)
}

func (q *quarantining) waiting() int {
	q.t.Helper()
	n := 0
	for _, err := range pipeline.Quarantine(q.t.Context(), q.view()) {
		q.must(nil, err)
		n++
	}
	return n
}

// TestRetryQuarantine: what is still the newest is applied, once; the position stays.
func TestRetryQuarantine(t *testing.T) {
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprintf("asks=%t", asks), func(t *testing.T) {
			q := newQuarantining(t, 8, asks)
			q.round(60)
			q.must(q.ingest(q.driver))
			q.expect("nothing in quarantine", "0: 0 applied, 0 older, 0 elsewhere, 0 gone, 0 broken in 0 commits")
			q.quarantine("doc-0001", "doc-0002", "new")
			q.quarantine("doc-0003")
			seq, before := q.lastSeq(), q.instants()
			if got, err := q.retry(storagetest.NewCrasher(q.driver, storagetest.Crash{At: 1}), true); err != nil || retried(got) != "4: 4 applied, 0 older, 0 elsewhere, 0 gone, 0 broken in 0 commits" {
				t.Fatalf("dry: %s, %v", retried(got), err)
			}
			q.expect("all of it", "4: 4 applied, 0 older, 0 elsewhere, 0 gone, 0 broken in 1 commits")
			q.check("retried")
			if q.lastSeq() != seq || q.instants() != before+1 {
				t.Errorf("%d commits, last_seq %s; before %d, %s", q.instants(), q.lastSeq(), before, seq)
			}
			q.expect("again", "0: 0 applied, 0 older, 0 elsewhere, 0 gone, 0 broken in 0 commits")

			q.quarantine("doc-0004", "doc-0005")
			q.must(q.db.Put("doc-0004", q.body()))
			q.must(q.db.Delete("doc-0005"))
			q.must(q.ingest(q.driver))
			q.expect("newer ones came by themselves", "2: 0 applied, 2 older, 0 elsewhere, 0 gone, 0 broken in 1 commits")
			q.check("older ones")
			q.round(40)
			q.must(q.ingest(q.driver))
			q.check("going on")
			q.nothingLeft()
		})
	}
}

// Documents that the database does not hold any more, or that are still broken, and
// those of a database that was created again since.
func TestRetryOfWhatIsNoMore(t *testing.T) {
	q := newQuarantining(t, 9, true)
	q.round(60)
	q.must(q.ingest(q.driver))
	q.quarantine("doc-0001", "doc-0002", "new")
	q.db.Purge("doc-0001")
	spoils := []*couchfake.Order{
		q.server.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{NullDoc: "doc-0002"}, -1),
		q.server.Control(couchfake.Match{Endpoint: couchfake.Document}, couchfake.Spoil{Status: 404}, -1)}
	q.expect("purged and broken", "3: 1 applied, 0 older, 0 elsewhere, 1 gone, 1 broken in 1 commits")
	before := q.instants()
	q.expect("broken still", "1: 0 applied, 0 older, 0 elsewhere, 0 gone, 1 broken in 0 commits")
	if q.instants() != before || q.waiting() != 1 {
		t.Errorf("%d commits more, %d waiting", q.instants()-before, q.waiting())
	}
	for _, s := range spoils {
		s.Cancel()
	}
	var err error
	q.db, err = q.server.Recreate("docs")
	q.must(nil, err)
	clear(q.lives)
	q.must(q.db.Put("doc-0002", q.body()))
	accept := q.tune
	q.tune = func(o *pipeline.Options) { accept(o); o.AcceptRecreated = true }
	q.must(q.ingest(q.driver))
	q.expect("of an earlier database", "1: 0 applied, 0 older, 0 elsewhere, 1 gone, 0 broken in 1 commits")
	if r := q.snapshot()["doc-0002"]; r.Rev != q.model()["doc-0002"].Rev || r.Deleted {
		t.Errorf("%+v", r)
	}
}

// TestRetryCrashes dies at each storage write of a retry and starts it
// again: each change is applied once.
func TestRetryCrashes(t *testing.T) {
	noted := 0
	for _, after := range []bool{false, true} {
		for k := 1; ; k++ {
			q := newQuarantining(t, 10, k%2 == 0)
			q.round(20)
			q.must(q.ingest(q.driver))
			q.quarantine("doc-0001", "doc-0002", "new")
			crasher := storagetest.NewCrasher(q.driver, storagetest.Crash{At: k, After: after})
			if _, err := q.retry(crasher, false); err != nil && !crasher.Dead() {
				t.Fatal(err)
			}
			if !crasher.Dead() {
				break
			}
			if ops := crasher.Ops(); strings.Contains(ops[len(ops)-1].Name, ".settled.json") {
				noted++
			}
			q.must(q.retry(q.driver, false))
			q.check("retried after a crash " + crasher.Where())
			if q.waiting() != 0 {
				t.Fatalf("a crash %s: %d still wait", crasher.Where(), q.waiting())
			}
			q.must(q.ingest(q.driver))
			q.check("going on after a crash " + crasher.Where())
			q.nothingLeft()
		}
	}
	if noted < 2 {
		t.Errorf("%d crashes fell into the note of what is settled", noted)
	}
}

// TestMaxShare: a run stops before it writes a batch of which too much is broken, and
// loses nothing by it.
func TestMaxShare(t *testing.T) {
	q := newQuarantining(t, 11, true)
	for i := range 300 {
		id := fmt.Sprintf("doc-%04d", i)
		q.must(q.db.Put(id, q.body()))
		q.broken[id] = i%2 == 0
	}
	q.docs = 300
	q.tune = func(o *pipeline.Options) { o.MaxRows = 100 }
	_, err := q.ingest(q.driver)
	if !errors.Is(err, pipeline.ErrQuarantine) || !strings.Contains(err.Error(), "quarantine.max_share = 0.1") || !strings.Contains(err.Error(), "read the wrong way") {
		t.Fatal(err)
	}
	if got := q.waiting(); got == 0 || got > 100 {
		t.Errorf("%d are in quarantine, want those of the batches before", got)
	}
	q.tune = func(o *pipeline.Options) { o.MaxRows, o.MaxShare = 100, 1 }
	q.must(q.ingest(q.driver))
	if got := q.waiting(); got != 150 {
		t.Errorf("%d are in quarantine without a limit", got)
	}
	clear(q.broken)
	q.expect("mended", "150: 150 applied, 0 older, 0 elsewhere, 0 gone, 0 broken in 4 commits")
	q.check("mended")
}

// TestRetryGroup: what one table put aside, since it could not be read, is written into
// the table that it is for, also when the process dies in between.
func TestRetryGroup(t *testing.T) {
	h := newHerd(t, 12)
	h.graze(60)
	h.must(nil, h.follow(h.driver))
	orders := 0
	for k := 1; ; k++ {
		id := fmt.Sprintf("doc-%04d", h.rand.IntN(h.docs))
		body := h.document()
		heal := h.withhold(id)
		h.must(h.db.Put(id, body))
		h.must(nil, h.follow(h.driver))
		heal()
		h.must(h.db.Put(id, body))
		if h.belongs(string(body)) != "rest" {
			orders++
		}
		crasher := storagetest.NewCrasher(h.driver, storagetest.Crash{At: 2 * k, After: k%2 == 0})
		if _, err := h.retry(crasher); err != nil && !crasher.Dead() {
			t.Fatal(err)
		}
		done, err := h.retry(h.driver)
		h.must(nil, err)
		for i, r := range done {
			if r.Broken != 0 || !crasher.Dead() && r.Changes != 0 {
				t.Fatalf("table %s: %s", h.tables[i], retried(r))
			}
		}
		h.check("retried after a crash " + crasher.Where())
		if !crasher.Dead() {
			break
		}
	}
	if orders < 3 {
		t.Errorf("%d documents were for another table than that which put them aside", orders)
	}
	h.graze(20)
	h.must(nil, h.follow(h.driver))
	h.check("going on")
}

func (h *herd) retry(d storage.Driver) (done []pipeline.Retried, err error) {
	err = h.grouped(d, func(ctx context.Context, o pipeline.GroupOptions) (err error) {
		done, err = pipeline.RetryGroup(ctx, o, false)
		return err
	})
	return done, err
}
