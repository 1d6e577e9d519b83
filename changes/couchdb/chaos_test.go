package couchdb_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

var (
	chaosRuns  = flag.Int("chaos.runs", 4, "how many worlds TestChaos follows")
	chaosSteps = flag.Int("chaos.steps", 120, "how many steps each of them takes")
	chaosSeed  = flag.Uint64("chaos.seed", 1, "the seed of the first of them")
)

// TestChaos follows a database whose server fails in every way that it can be
// told to, with a follower that loses its batches and starts anew, and
// compares what the follower knows with the database at the end.
func TestChaos(t *testing.T) {
	for i := range *chaosRuns {
		seed := *chaosSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { chaos(t, seed) })
	}
}

// state is what a follower knows of a document: the row with the largest sum
// of its leaves' generations.
type state struct {
	sum     int64
	rev     string
	deleted bool
}

type follower struct {
	t    *testing.T
	rng  *rand.Rand
	w    *world
	src  changes.Source
	at   changes.Position // committed
	docs map[string]state
}

func chaos(t *testing.T, seed uint64) {
	o := couchdb.Options{BatchRows: 10, SeqInterval: 3, Parallel: 1 + 2*int(seed%2), Sleep: options(newServer(t)).Sleep}
	w := newWorld(t, o)
	w.opts.Heartbeat = 60 * time.Millisecond
	f := &follower{t: t, rng: rand.New(rand.NewPCG(seed, 1)), w: w, docs: map[string]state{}}
	f.src = w.Open(t)
	defer func() { _ = f.src.Close() }()
	for range *chaosSteps {
		f.write()
		f.spoil()
		f.step()
	}
	f.finish()
	for doc := range w.db.Docs() {
		got := f.docs[doc.ID]
		want := state{sum: doc.GenerationSum(), rev: doc.Winner().Rev.String(), deleted: doc.Deleted()}
		if got != want {
			t.Errorf("seed %d: %s is %+v, want %+v", seed, doc.ID, got, want)
		}
		delete(f.docs, doc.ID)
	}
	for id := range f.docs {
		t.Errorf("seed %d: %s is not in the database", seed, id)
	}
}

func (f *follower) write() {
	for range f.rng.IntN(5) {
		id := fmt.Sprintf("d%d", f.rng.IntN(25))
		body := fmt.Sprintf(`{"n":%d}`, f.rng.IntN(1000))
		doc, ok := f.w.db.Doc(id)
		var err error
		switch f.rng.IntN(6) {
		case 0:
			if ok && !doc.Deleted() {
				_, err = f.w.db.Delete(id)
			}
		case 1:
			path := []couchfake.Rev{{Gen: 1 + f.rng.IntN(3), Hash: fmt.Sprintf("%x", f.rng.IntN(16))}}
			err = f.w.db.Replicate(id, path, []byte(body))
		default:
			_, err = f.w.db.Put(id, []byte(body))
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// spoil makes one of the coming requests fail.
func (f *follower) spoil() {
	if f.rng.IntN(3) > 0 {
		return
	}
	match := couchfake.Match{Endpoint: couchfake.Changes}
	var s couchfake.Spoil
	switch f.rng.IntN(9) {
	case 0:
		s = couchfake.Spoil{Rows: f.rng.IntN(8), Cut: true}
	case 1:
		s = couchfake.Spoil{Bytes: int64(f.rng.IntN(2000)), Cut: true}
	case 2:
		s = couchfake.Spoil{Rows: f.rng.IntN(4), Finish: true}
		match.Feed = "continuous"
	case 3:
		s = couchfake.Spoil{Rows: f.rng.IntN(4), Stall: 300 * time.Millisecond, Cut: true}
		match.Feed = "continuous"
	case 4:
		s = couchfake.Spoil{Status: 500 + f.rng.IntN(4)}
	case 5:
		s = couchfake.Spoil{Status: 503}
		match.Endpoint = couchfake.Info
	case 6:
		f.w.db.Rewind(f.rng.IntN(f.w.db.Shards()), uint64(f.rng.IntN(5)))
		return
	case 7:
		s = couchfake.Spoil{NullDoc: fmt.Sprintf("d%d", f.rng.IntN(25))}
	case 8:
		s = couchfake.Spoil{Bytes: int64(f.rng.IntN(500)), Cut: true}
		match.Endpoint = couchfake.BulkGet
	}
	f.w.server.Control(match, s, 1)
}

// step reads a batch; now and then it is lost with the process that read it.
func (f *follower) step() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	limit := changes.Limit{Rows: 1 + f.rng.IntN(12), Wait: time.Millisecond}
	if f.rng.IntN(2) == 0 {
		limit.Idle = time.Duration(1+f.rng.IntN(10)) * time.Millisecond
	}
	if f.rng.IntN(4) == 0 {
		limit.Bytes = int64(100 + f.rng.IntN(2000))
	}
	b, err := f.src.Next(ctx, f.at, limit)
	if err != nil {
		f.t.Fatal(err)
	}
	if f.rng.IntN(6) == 0 {
		if f.rng.IntN(2) == 0 {
			_ = f.src.Close()
			f.src = f.w.Open(f.t)
		}
		return
	}
	f.take(b)
}

func (f *follower) take(b changes.Batch) {
	for _, c := range b.Changes {
		if c.Defect != "" {
			f.t.Errorf("%s: %s", c.ID, c.Defect)
		}
		s := state{rev: c.Rev.String(), deleted: c.Deleted}
		for _, l := range c.Leaves {
			s.sum += l.Generation
		}
		if s.sum >= f.docs[c.ID].sum {
			f.docs[c.ID] = s
		}
	}
	f.at = b.Last
}

// finish reads to the end.
func (f *follower) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		b, err := f.src.Next(ctx, f.at, changes.Limit{})
		if err != nil {
			f.t.Fatal(errors.Join(err, errors.New("at the end")))
		}
		f.take(b)
		if b.CaughtUp {
			return
		}
	}
}
