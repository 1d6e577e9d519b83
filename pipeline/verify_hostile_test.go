package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
)

// What may happen to each verb in the middle of its work, and the test that shows what
// comes of it. A dash is where it cannot happen: nobody is a member of a group, only
// bundles are copied, and only Kafka has brokers.
//
//	run       stale replica, rewind, restart: TestHostile; full disk: e2e/kill, changes/ndjson, index/keycache;
//	          broker: e2e TestKafkaKilled; rebalance: changes/kafka TestGroupRebalances; half a bundle: changes/ndjson TestHalfCopiedBundles, cmd TestExportAndRun
//	parallel  stale replica, rewind, cut: TestHostile "in parallel", changes/couchdb TestParallelBesideStaleCopy; the rest as run
//	replay    stale replica, rewind: TestReplayBesideStaleCopy; the rest as run
//	verify    stale replica: TestVerifyBesideStaleCopy; rewind, cut: TestVerifySurvives; restart, another database: TestVerifyServerRestarts;
//	          full disk: TestVerifyFullDisk; half a bundle: cmd TestVerifyHalfABundle; broker: changes/kafka TestBrokersFail (the same source)
//	export    stale replica, rewind, cut: cmd TestOutgoingBesideStaleCopy; another database: cmd TestOutgoingRecreated;
//	          full disk: changes/ndjson TestExporterOnAFullDisk; half a bundle: TestExporterDiesAtEachStep
//	produce   stale replica: changes/kafka TestProducerBesideStaleCopy, cmd TestOutgoingBesideStaleCopy; rewind, cut, restart: TestProducerSurvives;
//	          another database: TestProducerRecreatedMeanwhile, cmd TestOutgoingRecreated; full disk: TestProducerRetries; broker: e2e TestKafkaKilled

// A feed of a copy that is behind makes no difference: what it showed is asked for
// again, and is not written either.
func TestVerifyBesideStaleCopy(t *testing.T) {
	for _, hard := range []bool{false, true} {
		t.Run(fmt.Sprintf("hard %v", hard), func(t *testing.T) {
			w := newWorld(t, 11)
			w.partitioned, w.hard = true, hard
			w.filled(60)
			w.must(w.db.Put("revived", w.body()))
			w.must(w.db.Delete("revived"))
			past := w.db.Snapshot()
			for i := 20; i < 60; i++ {
				w.must(w.db.Put(fmt.Sprintf("doc-%04d", i), w.body()))
			}
			for i := range 5 {
				w.must(w.db.Put(fmt.Sprintf("new-%d", i), w.body()))
			}
			w.must(w.db.Put("revived", w.body()))
			w.must(w.db.Delete("doc-0030"))
			w.must(w.db.Delete("doc-0031"))
			w.must(w.ingest(w.driver))
			defects := plants(true, hard)
			w.plant(defects, false)
			want := map[string]pipeline.Difference{"extra": pipeline.Extra}
			if hard {
				want["doc-0007"] = pipeline.Resurrected
			}
			for _, p := range defects {
				want[p.id] = p.want
			}
			// The copy does not know the table's position: its rows come again, and run
			// mends with them what is older than they are.
			maps.DeleteFunc(want, func(_ string, d pipeline.Difference) bool {
				return d == pipeline.Missing || d == pipeline.Stale || d == pipeline.Resurrected && hard
			})
			w.db.ServeStale(past)
			w.db.FailOver()
			got := map[string]pipeline.Difference{}
			var ids []string
			v := w.verify(pipeline.VerifyOptions{Memory: 3000, Found: func(_ context.Context, d pipeline.Difference, id string) error {
				got[id] = d
				ids = append(ids, id)
				return nil
			}})
			if !maps.Equal(got, want) || v.Settled < 44 || v.Documents != v.Equal+v.Moving+v.Count()-1 {
				t.Errorf("found %v, want %v: %+v", got, want, v)
			}
			w.repair(ids)
			w.must(w.ingest(w.driver))
			// Whatever is repaired: no row becomes older.
			w.repair([]string{"doc-0021", "doc-0030", "doc-0059", "new-1", "revived"})
			if hard {
				// Of what was deleted hard nothing is left, so the old feed brings it back.
				w.must(w.db.Put("doc-0030", w.body()))
				w.must(w.db.Put("doc-0031", w.body()))
			} else {
				w.alike("repaired")
			}
			w.db.Heal()
			w.db.FailOver()
			w.must(w.ingest(w.driver))
			w.alike("healed")
			if v := w.verify(pipeline.VerifyOptions{}); v.Count() != 0 || v.Settled != 0 || v.Moving != 0 {
				t.Errorf("healed: %+v", v)
			}
		})
	}
}

// What was written between the look at the feed and the second one is moving.
func TestVerifyMovesMeanwhile(t *testing.T) {
	w := newWorld(t, 12)
	w.filled(30)
	w.must(w.ingest(w.driver))
	w.plant(plants(false, false), false)
	paused := 0
	got := w.verify(pipeline.VerifyOptions{Sleep: func(context.Context, time.Duration) error {
		paused++
		w.must(w.db.Put("doc-0000", w.body()))
		w.must(w.db.Put("never seen", w.body()))
		w.must(w.db.Delete("doc-0002"))
		return nil
	}})
	if paused != 1 || got.Moving != 2 || got.Count() != int64(len(plants(false, false)))-2+1 || got.Settled != 0 {
		t.Errorf("%d pauses, %+v", paused, got)
	}
	stop := errors.New("stop")
	if _, err := w.verified(pipeline.VerifyOptions{Sleep: func(context.Context, time.Duration) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// Whatever happens to the feed in the middle: each document is compared once.
func TestVerifySurvives(t *testing.T) {
	feed := couchfake.Match{Endpoint: couchfake.Changes}
	cut := couchfake.Spoil{Rows: 20, Cut: true}
	for name, happen := range map[string]func(*world) couchfake.Spoil{
		"rewind": func(w *world) couchfake.Spoil { return couchfake.Spoil{Rows: 20, Call: w.db.FailOver, Cut: true} },
		"rewind of one shard": func(w *world) couchfake.Spoil {
			return couchfake.Spoil{Rows: 20, Call: func() { w.db.Rewind(0, 5) }, Finish: true}
		},
		"cut":        func(*world) couchfake.Spoil { return cut },
		"cut line":   func(*world) couchfake.Spoil { return couchfake.Spoil{Bytes: 3000, Cut: true} },
		"seq null":   func(*world) couchfake.Spoil { return couchfake.Spoil{NullSeq: true} },
		"overloaded": func(*world) couchfake.Spoil { return couchfake.Spoil{Status: 503} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 13)
			w.filled(300)
			w.must(w.ingest(w.driver))
			w.plant(plants(false, false), false)
			w.follow = func(o *couchdb.Options) {
				o.Sleep = func(context.Context, time.Duration) error { return nil }
			}
			order := w.server.Control(feed, happen(w), 6)
			got := w.verify(pipeline.VerifyOptions{Memory: 2000})
			rewound := strings.HasPrefix(name, "rewind") // then rows that run reads again are moving
			if got.Documents != 300 || got.Count()+got.Moving != 12 || got.Count() < 8 || !rewound && got.Moving > 0 || got.Equal != 300-11 || order.Fired() == 0 {
				t.Errorf("%d times: %+v", order.Fired(), got)
			}
			order.Cancel()
			w.must(w.ingest(w.driver))
			w.repair(slices.Collect(maps.Keys(planned(plants(false, false)))))
			if got := w.verify(pipeline.VerifyOptions{}); got.Count() != 1 || got.Equal != 300 {
				t.Errorf("repaired: %+v", got)
			}
		})
	}
}

func planned(all []planted) map[string]pipeline.Difference {
	out := map[string]pipeline.Difference{}
	for _, p := range all {
		out[p.id] = p.want
	}
	return out
}

// A server that restarts in the middle costs nothing; another database in its place
// ends it.
func TestVerifyServerRestarts(t *testing.T) {
	for _, again := range []bool{false, true} {
		w := newWorld(t, 14)
		w.filled(200)
		w.must(w.ingest(w.driver))
		w.follow = func(o *couchdb.Options) {
			o.Sleep = func(context.Context, time.Duration) error { return nil }
		}
		calls := 0
		w.watch = func(s *couchdb.Source) changes.Source {
			return &busy{Source: s, between: func() {
				if calls++; calls != 3 {
					return
				}
				if again {
					w.must(w.server.Recreate("docs"))
					return
				}
				w.must(nil, w.server.Stop())
				w.must(nil, w.server.Restart())
			}}
		}
		got, err := w.verified(pipeline.VerifyOptions{})
		switch {
		case again:
			if !errors.Is(err, changes.ErrRecreated) || !strings.Contains(err.Error(), "read source") {
				t.Errorf("created again: %v", err)
			}
		case err != nil || got.Count() != 0 || got.Equal != 200 || calls < 4:
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// full is a temporary file on a disk that is full after so many writes.
type full struct {
	*os.File
	left *atomic.Int64
	open *atomic.Int64
}

// WriteAt implements io.WriterAt.
func (f *full) WriteAt(p []byte, off int64) (int, error) {
	if f.left.Add(-1) < 0 {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

// Close implements io.Closer.
func (f *full) Close() error {
	f.open.Add(-1)
	return errors.Join(f.File.Close(), os.Remove(f.Name()))
}

// A disk that is full at any of the writes ends it, with the reason and what to do,
// and nothing stays there.
func TestVerifyFullDisk(t *testing.T) {
	w := newWorld(t, 15)
	w.filled(60)
	w.must(w.ingest(w.driver))
	w.plant(plants(false, false), false)
	dir := t.TempDir()
	for writes := int64(0); ; writes++ {
		var left, open atomic.Int64
		left.Store(writes)
		got, err := w.verified(pipeline.VerifyOptions{Memory: 4000, TempFile: func() (reader.TempFile, error) {
			open.Add(1)
			f, err := os.CreateTemp(dir, "")
			return &full{File: f, left: &left, open: &open}, err
		}})
		stay, readErr := os.ReadDir(dir)
		w.must(nil, readErr)
		if open.Load() != 0 || len(stay) > 0 {
			t.Fatalf("full after %d writes: %d files are open, %v stay", writes, open.Load(), stay)
		}
		if err == nil {
			if writes < 8 || got.Count() != 12 {
				t.Errorf("never full in %d writes: %+v", writes, got)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "TMPDIR") {
			t.Fatalf("full after %d writes: %v", writes, err)
		}
	}
}
