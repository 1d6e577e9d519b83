package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// withoutEra compares states of different eras by their sums.
func withoutEra(m map[string]state) map[string]state {
	for id, s := range m {
		s.Order -= hudi.Era(s.Order) << hudi.EraShift
		m[id] = s
	}
	return m
}

// A purged document is gone, one purged and written again begins anew, one
// whose winner was purged falls back; none of that has a row in the feed that
// the sum alone would let win.
func TestPurge(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		w := newWorld(t, 11)
		w.partitioned = partitioned
		for _, id := range []string{"gone", "again", "fallback", "stays"} {
			for range 3 {
				w.must(w.db.Put(id, w.body()))
			}
		}
		d, _ := w.db.Doc("fallback")
		w.must(w.db.Put("fallback", w.body()))
		w.must(w.ingest(w.driver))
		w.check("before")
		w.db.Purge("gone")
		w.db.Purge("again")
		w.must(w.db.Put("again", w.body()))
		purged, _ := w.db.Doc("fallback")
		if got := w.db.Purge("fallback", purged.Winner().Rev); len(got) != 1 {
			t.Fatalf("purged %v", got)
		}
		w.must(nil, w.db.Replicate("fallback", []couchRev{d.Winner().Rev}, w.body()))
		w.must(w.ingest(w.driver))
		got := withoutEra(w.snapshot())
		gone := got["gone"]
		if !gone.Deleted || gone.Rev != "" {
			t.Fatalf("the purged document is %+v", gone)
		}
		delete(got, "gone")
		w.equal("after the purge", w.model(), got)
		w.must(w.db.Put("again", w.body()))
		w.must(w.db.Put("gone", w.body()))
		w.must(w.ingest(w.driver))
		w.equal("after further edits", w.model(), withoutEra(w.snapshot()))
		before := w.instants()
		w.must(w.ingest(w.driver))
		if after := w.instants(); after != before {
			t.Fatalf("nothing happened, yet %d commits became %d", before, after)
		}
	}
}

// A row that was read before its document was purged is applied after the purge
// was, and does not bring the document back.
func TestPurgeBehindARow(t *testing.T) {
	w := newWorldOn(t, 19, couchfake.Options{Shards: 1}) // rows in the order of writing
	for range 2 {
		w.must(w.db.Put("first", w.body()))
		w.must(w.db.Put("ghost", w.body()))
	}
	w.must(w.ingest(w.driver))
	read, applied := make(chan struct{}), make(chan struct{}, 1)
	w.watch = func(s *couchdb.Source) changes.Source {
		return &purging{Source: s, id: "ghost", purge: func() { w.db.Purge("ghost"); close(read) }}
	}
	w.tune = func(o *pipeline.Options) {
		o.MaxRows = 1
		o.Events.Committed = func(pipeline.Progress) { // of the row before, whose purges are looked for next
			select {
			case applied <- struct{}{}:
				<-read
			default:
			}
		}
	}
	w.must(w.db.Put("first", w.body()))
	w.must(w.db.Put("ghost", w.body()))
	w.must(w.ingest(w.driver))
	got := withoutEra(w.snapshot())
	if ghost := got["ghost"]; !ghost.Deleted || ghost.Rev != "" {
		t.Fatalf("the purged document is %+v", ghost)
	}
	delete(got, "ghost")
	w.equal("after the purge", w.model(), got)
}

// purging has a document purged just after its row was read, as the second.
type purging struct {
	*couchdb.Source
	id    string
	rows  int
	purge func()
}

// Next implements changes.Source.
func (p *purging) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	b, err := p.Source.Next(ctx, after, limit)
	p.rows += len(b.Changes)
	if err == nil && p.rows == 2 && p.purge != nil {
		if len(b.Changes) != 1 || b.Changes[0].ID != p.id {
			return b, errors.New("the rows came in another order")
		}
		p.purge()
		p.purge = nil
	}
	return b, err
}

// A database that was created again is refused, then accepted in a new epoch:
// its rows win whatever their generation, and what it does not have is marked.
// The marking is interrupted at every storage write.
func TestRecreated(t *testing.T) {
	stride := 7
	if testing.Short() {
		stride = 41
	}
	for k := 0; ; k += stride {
		w := newWorld(t, 5)
		w.partitioned = true
		w.round(80)
		w.must(w.ingest(w.driver))
		db, err := w.server.Recreate("docs")
		if err != nil {
			t.Fatal(err)
		}
		w.db = db
		for i := 0; i < w.docs; i += 3 {
			w.must(w.db.Put(fmt.Sprintf("doc-%04d", i), w.body()))
		}
		if _, err := w.ingest(w.driver); !errors.Is(err, changes.ErrRecreated) {
			t.Fatalf("a recreated database gave %v", err)
		}
		w.tune = func(o *pipeline.Options) { o.AcceptRecreated, o.MaxRows = true, 9 }
		crasher := storagetest.NewCrasher(w.driver, storagetest.Crash{At: k})
		_, err = w.ingest(crasher)
		if crasher.Dead() {
			_, err = w.ingest(w.driver)
		}
		if err != nil {
			t.Fatalf("after %s: %v", crasher.Where(), err)
		}
		want, got := w.model(), withoutEra(w.snapshot())
		for id, s := range got {
			if _, there := want[id]; !there && s.Deleted {
				delete(got, id) // of the old database
			}
		}
		w.equal("after "+crasher.Where(), want, got)
		w.tune = nil
		w.must(w.ingest(w.driver)) // it is the accepted one now
		if k > 0 && !crasher.Dead() {
			return
		}
	}
}

// A replay drops what is not newer, keeps the follower's position, and can be
// stopped and gone on with; a rewriting one writes the rows again.
func TestReplay(t *testing.T) {
	w := newWorld(t, 13)
	w.partitioned = true
	w.round(150)
	w.must(w.ingest(w.driver))
	seq := w.lastSeq()
	w.tune = func(o *pipeline.Options) { o.Replay, o.MaxRows = true, 40 }
	done, err := w.ingest(w.driver)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range done {
		if p.Stats.Inserts+p.Stats.Upserts > 0 {
			t.Fatalf("a replay wrote %+v", p.Stats)
		}
	}
	if w.lastSeq() != seq {
		t.Fatal("the replay moved the follower's position")
	}
	w.check("after the replay")
	w.tune = func(o *pipeline.Options) { o.Replay, o.Rewrite = true, true }
	if done, err = w.ingest(w.driver); err != nil {
		t.Fatal(err)
	}
	var rows, written int64
	for _, p := range done {
		rows += p.Stats.Rows
		written += p.Stats.Upserts
	}
	if written == 0 || written != rows {
		t.Fatalf("a rewriting replay read %d rows and wrote %d", rows, written)
	}
	w.check("after the rewrite")
	w.tune = nil
	w.round(30)
	w.must(w.ingest(w.driver))
	w.check("followed on")
}

// A stale copy of a shard shows the past with new seqs, status 200 and nothing
// pending; the table does not follow it there.
func TestStaleCopy(t *testing.T) {
	w := newWorld(t, 17)
	w.partitioned = true
	w.round(120)
	w.must(w.ingest(w.driver))
	w.check("before")
	past := w.db.Snapshot()
	w.round(120)
	w.must(w.ingest(w.driver))
	w.check("after the copy was left behind")
	before := w.snapshot()
	w.db.ServeStale(past)
	w.db.FailOver()
	w.must(w.ingest(w.driver))
	w.equal("fed by a stale copy", before, w.snapshot())
	w.db.Heal()
	w.round(40)
	w.must(w.ingest(w.driver))
	if !strings.Contains(w.lastSeq(), "-") {
		t.Fatalf("last_seq %q", w.lastSeq())
	}
	w.check("healed")
}

// A replay beside a feed that goes back, or shows the past, makes no row older and
// moves no position.
func TestReplayBesideStaleCopy(t *testing.T) {
	w := newWorld(t, 31)
	w.partitioned = true
	w.round(150)
	past := w.db.Snapshot()
	w.round(150)
	w.must(w.ingest(w.driver))
	for name, rewrite := range map[string]bool{"replay": false, "rewrite": true} {
		w.db.ServeStale(past)
		w.db.FailOver()
		order := w.server.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{Rows: 20, Call: w.db.FailOver, Cut: true}, 2)
		w.tune = func(o *pipeline.Options) { o.Replay, o.Rewrite, o.MaxRows = true, rewrite, 40 }
		w.must(w.ingestFrom(w.driver, "0"))
		if order.Fired() == 0 {
			t.Fatalf("%s: the feed never went back", name)
		}
		w.check(name + " beside a stale copy")
		w.db.Heal()
		w.tune = nil
		w.round(20)
		w.must(w.ingest(w.driver))
		w.check(name + ", healed")
	}
}
