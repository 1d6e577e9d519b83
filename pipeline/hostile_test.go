package pipeline_test

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// hostileCase is one way in which a server, or the way to it, misbehaves. What
// ends a run with an exit code is in cmd/couch2hudi.
type hostileCase struct {
	name   string
	server couchfake.Options
	source func(*hostile, *couchdb.Options)
	// begin runs before the follower starts, on a table that equals the
	// database, and returns orders to the server, each of which must be met.
	begin func(*hostile) []order
	// round runs before each round of edits until all was met.
	round func(*hostile)
	// met says that the follower got to see what the case is about, beside the
	// orders.
	met func(*heard) bool
	// heal runs once all was met; further edits follow.
	heal func(*hostile)
	// crash lets the storage die at this write, if not 0, and the follower start again.
	crash int
	// parallel lets the backlog's documents be asked for by _bulk_get.
	parallel bool
	// eras says that rows begin anew: orders are compared without eras, and the
	// table may remember documents that the database forgot.
	eras bool
}

// order spoils some of the next requests.
type order struct {
	match couchfake.Match
	spoil couchfake.Spoil
	times int
}

// heard counts what a follower met, over all its starts.
type heard struct {
	// Older rows have a smaller sum than one that was shown before, again the
	// same; back are positions whose number is lower than that of the one before.
	older, again, back int
	// unordered are rows whose document was written before that of the row before.
	unordered int
	// large are documents as large as largeBody, missing ones were asked for in vain.
	large, refetched, missing int
	retried, loggedIn, silent int
	purged                    int64
	// pause is the longest one that was asked for.
	pause time.Duration
}

// hostile is a world whose follower does not stop by itself.
type hostile struct {
	*world
	c        hostileCase
	wire     *couchfake.Wire
	password string
	orders   []order
	given    [][]*couchfake.Order // for each of orders, as often as it was given

	mu    sync.Mutex
	heard heard
	sums  map[string]int64
	last  int64 // the number of the last position
	// listening says that a continuous feed is open.
	listening bool
	// stepped and committed tell of each Next and commit.
	stepped, committed chan struct{}
}

func newHostile(t *testing.T, c hostileCase) *hostile {
	t.Helper()
	h := &hostile{world: newWorldOn(t, 23, c.server), c: c, sums: map[string]int64{},
		stepped: make(chan struct{}, 1), committed: make(chan struct{}, 1), password: filepath.Join(t.TempDir(), "password")}
	h.must(nil, os.WriteFile(h.password, []byte("first\n"), 0o600))
	if c.server.Users != nil {
		h.db.SetMembers("reader")
	}
	h.partitioned = true
	h.follow = func(o *couchdb.Options) {
		o.Heartbeat, o.Events = 200*time.Millisecond, h.events()
		o.Sleep = h.sleep
		if c.parallel {
			o.Parallel = 4
		}
		if c.source != nil {
			c.source(h, o)
		}
	}
	h.watch = func(s *couchdb.Source) changes.Source { return &witness{Source: s, h: h} }
	h.tune = h.live
	return h
}

// live makes an ingest go on for ever, in small commits.
func (h *hostile) live(o *pipeline.Options) {
	o.Once, o.Interval, o.MaxRows = false, 20*time.Millisecond, 40
	o.Events.Committed = func(p pipeline.Progress) {
		h.note(func(n *heard) { n.purged += p.Stats.Purged })
		notify(h.committed)
	}
}

// once ingests to the end of what is there.
func (h *hostile) once() {
	h.t.Helper()
	h.tune = nil
	h.must(h.ingest(h.driver))
	h.tune = h.live
}

// witness notes what a source shows.
type witness struct {
	*couchdb.Source
	h *hostile
}

// Next implements changes.Source.
func (w *witness) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	b, err := w.Source.Next(ctx, after, limit)
	w.h.note(func(n *heard) { w.h.see(n, b) })
	notify(w.h.stepped)
	return b, err
}

// see counts what is strange about a batch. The number before a position's dash
// means nothing to a follower, and is what people look at.
func (h *hostile) see(n *heard, b changes.Batch) {
	large := largeBody() * 9 / 10
	before := ""
	for i := range b.Changes {
		c, sum := &b.Changes[i], int64(0)
		for _, l := range c.Leaves {
			sum += l.Generation
		}
		switch known := h.sums[c.ID]; {
		case sum < known:
			n.older++
		case sum == known:
			n.again++
		}
		h.sums[c.ID] = max(h.sums[c.ID], sum)
		if len(c.Body) > large {
			n.large++
		}
		if strings.HasPrefix(c.ID, orderedID) {
			if c.ID < before {
				n.unordered++
			}
			before = c.ID
		}
	}
	digits, _, _ := strings.Cut(string(b.Last), "-")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return // the beginning
	}
	if number < h.last {
		n.back++
	}
	h.last = number
}

func (h *hostile) note(change func(*heard)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.heard)
}

func (h *hostile) hears(open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listening = open
}

func (h *hostile) hearing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listening
}

func (h *hostile) events() couchdb.Events {
	return couchdb.Events{
		Connected: func(c couchdb.Connected) {
			if c.Feed == continuousFeed {
				h.hears(true)
			}
		},
		Retried:  func(couchdb.Retried) { h.note(func(n *heard) { n.retried++ }) },
		LoggedIn: func() { h.note(func(n *heard) { n.loggedIn++ }) },
		Refetched: func(r couchdb.Refetched) {
			h.note(func(n *heard) {
				n.refetched++
				if !r.Found {
					n.missing++
				}
			})
		},
		Ended: func(e couchdb.Ended) {
			if e.Feed == continuousFeed {
				h.hears(false)
			}
			if e.Err != nil && strings.Contains(e.Err.Error(), "silent") {
				h.note(func(n *heard) { n.silent++ })
			}
		},
	}
}

// sleep makes pauses short and keeps the longest.
func (h *hostile) sleep(ctx context.Context, d time.Duration) error {
	h.note(func(n *heard) { n.pause = max(n.pause, d) })
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Millisecond):
		return nil
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// follower is an ingest that is running.
type follower struct {
	h      *hostile
	driver storage.Driver
	dead   func() bool
	cancel context.CancelFunc
	ended  chan error
}

func (h *hostile) start() *follower {
	f := &follower{h: h, driver: h.driver, dead: func() bool { return false }}
	if h.c.crash > 0 {
		crasher := storagetest.NewCrasher(h.driver, storagetest.Crash{At: h.c.crash})
		f.driver, f.dead = crasher, crasher.Dead
	}
	f.run()
	return f
}

func (f *follower) run() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.ended = cancel, make(chan error, 1)
	go func() {
		_, err := f.h.run(ctx, f.driver, "")
		f.ended <- err
	}()
}

// patience ends a test that would hang; a crowded machine stays far below it.
const patience = 8 * time.Minute

// await waits for a sign of the follower, and starts it again when its storage died.
func (f *follower) await(what string, sign <-chan struct{}) {
	f.h.t.Helper()
	select {
	case <-sign:
	case err := <-f.ended:
		if !f.dead() || f.driver == f.h.driver {
			f.h.t.Fatalf("%s: the follower ended: %v", what, err)
		}
		f.cancel()
		f.driver = f.h.driver
		f.run()
	case <-time.After(patience):
		f.h.t.Fatalf("%s: nothing for %v; orders met %v, %+v", what, patience, f.h.fired(), f.h.heard)
	}
}

func (f *follower) stop() {
	f.h.t.Helper()
	f.cancel()
	if err := <-f.ended; err != nil {
		f.h.t.Fatalf("stopped: %v", err)
	}
}

// catchUp waits until the table equals the database.
func (f *follower) catchUp() {
	f.h.t.Helper()
	for {
		if want, got := f.h.states(f.h.snapshot); maps.Equal(want, got) {
			return
		}
		f.await("become equal", f.h.committed)
	}
}

// turn brings the follower to requests of another kind, for orders that wait
// for one: a feed that stays open is cut, and one that never ends of itself
// comes when nothing is left to read. It is waited for: on a crowded machine
// the next edits would else be there before the follower asks for it, always.
func (h *hostile) turn(f *follower, cut bool) {
	h.t.Helper()
	if !cut {
		f.catchUp()
		for before := h.fired(); !h.hearing() && slices.Equal(before, h.fired()); {
			f.await("listen", h.stepped)
		}
		return
	}
	h.must(nil, h.server.Stop())
	h.round(10)
	h.must(nil, h.server.Restart())
}

// states are the database's and the table's, as far as they must agree: where a
// tombstone lies depends on which of the states before it was seen.
func (h *hostile) states(read func() map[string]state) (want, got map[string]state) {
	want, got = h.model(), read()
	if h.c.eras {
		got = withoutEra(got)
	}
	for _, m := range []map[string]state{want, got} {
		for id, s := range m {
			if s.Deleted {
				s.Partition = ""
				m[id] = s
			}
		}
	}
	for id, s := range got {
		if _, there := want[id]; !there && h.c.eras && s.Deleted && s.Rev == "" {
			delete(got, id)
		}
	}
	return want, got
}

// edit changes the database in many ways, and "pulse" for certain.
func (h *hostile) edits() {
	h.t.Helper()
	h.round(4)
	h.must(h.db.Put(pulseID, h.body()))
}

const (
	pulseID   = "pulse"
	orderedID = "ordered-"
)

// survive follows a database whose server misbehaves while it goes on changing.
func (h *hostile) survive() {
	h.t.Helper()
	h.round(60)
	h.once()
	unasked := h.neverAsked()
	if h.c.begin != nil {
		h.orders = h.c.begin(h)
	}
	for _, o := range h.orders {
		h.given = append(h.given, []*couchfake.Order{h.server.Control(o.match, o.spoil, o.times)})
	}
	h.round(60)
	f := h.start()
	for n := 1; !h.met(); n++ {
		if n%4 == 0 && slices.Contains(h.fired(), 0) {
			h.turn(f, n%8 == 0)
		}
		if h.c.round != nil {
			h.c.round(h)
		}
		h.edits()
		f.await("meet the case", h.stepped)
	}
	for _, o := range slices.Concat(h.given...) {
		o.Cancel()
	}
	if h.c.heal != nil {
		h.c.heal(h)
	}
	for range 3 {
		h.edits()
		f.await("go on", h.stepped)
	}
	f.catchUp()
	f.stop()
	if h.c.crash > 0 && !f.dead() {
		h.t.Fatal("the storage never died")
	}
	h.same("followed")
	h.once()
	h.same("started again")
	h.unasked(unasked)
}

// same compares the table, and its incremental reads, with the database.
func (h *hostile) same(what string) {
	h.t.Helper()
	want, got := h.states(h.snapshot)
	h.equal(what+": snapshot", want, got)
	want, got = h.states(h.replay)
	h.equal(what+": incremental reads replayed", want, got)
}

func (h *hostile) fired() (n []int) {
	for _, given := range h.given {
		sum := 0
		for _, o := range given {
			sum += o.Fired()
		}
		n = append(n, sum)
	}
	return n
}

// met says that each order spoiled an answer, and that the case was seen. An
// order whose answers may have ended before its row is given again; they may also
// be open still, so each counts.
func (h *hostile) met() bool {
	all := true
	for i, fired := range h.fired() {
		if fired > 0 {
			continue
		}
		all = false
		o, given := h.orders[i], h.given[i]
		if given[len(given)-1].Taken() == o.times {
			h.given[i] = append(given, h.server.Control(o.match, o.spoil, o.times))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return all && (h.c.met == nil || h.c.met(&h.heard))
}

// neverAsked refuses what the follower has no use for, so that none of it can
// go wrong: its fall-back from a continuous feed is the normal one, documents
// are asked for one by one, and a sweep needs no list of them.
func (h *hostile) neverAsked() []*couchfake.Order {
	var out []*couchfake.Order
	never := []couchfake.Match{{Endpoint: couchfake.Changes, Feed: "longpoll"}, {Endpoint: couchfake.Changes, Feed: "eventsource"}, {Endpoint: couchfake.AllDocs}}
	if !h.c.parallel {
		never = append(never, couchfake.Match{Endpoint: couchfake.BulkGet})
	}
	for _, m := range never {
		out = append(out, h.server.Control(m, couchfake.Spoil{Status: http.StatusInternalServerError}, -1))
	}
	return out
}

func (h *hostile) unasked(orders []*couchfake.Order) {
	h.t.Helper()
	for i, o := range orders {
		if o.Taken() > 0 {
			h.t.Errorf("%d requests of the kind %d that the follower should not need", o.Taken(), i)
		}
	}
}

// TestHostile: whatever the server does, the table is equal to the database in
// the end. Each case proves that it was met.
func TestHostile(t *testing.T) {
	for _, c := range hostileCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // some wait for silence
			newHostile(t, c).survive()
		})
	}
}
