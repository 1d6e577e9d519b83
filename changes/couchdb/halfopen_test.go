package couchdb_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// newWire is a way to a server that can go dead.
func newWire(t *testing.T, to string) *couchfake.Wire {
	t.Helper()
	w, err := couchfake.NewWire(strings.TrimPrefix(to, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// unwatched is open without the count of goroutines, which the wire's spoil.
func unwatched(t *testing.T, o couchdb.Options) *couchdb.Source {
	t.Helper()
	src, err := couchdb.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Close() })
	return src
}

// TestHalfOpen: a connection that died without a word is noticed by the
// heartbeats that do not come, and no other one of its age is tried.
func TestHalfOpen(t *testing.T) {
	s, db := guarded(t, couchfake.HeaderAuth{})
	w := newWire(t, s.URL())
	o := quick(t, s)
	o.URL = "http://reader:first@" + w.Address() + "/db"
	o.Timeout = time.Hour // only the heartbeats can tell
	var silent, retried atomic.Int32
	o.Events.Ended = func(e couchdb.Ended) {
		if e.Feed == "continuous" && e.Err != nil && strings.Contains(e.Err.Error(), "silent") {
			silent.Add(1)
		}
	}
	o.Events.Retried = func(couchdb.Retried) { retried.Add(1) }
	src := unwatched(t, o)
	b := next(t, src, "", untilRows)
	next(t, src, b.Last, aMoment)
	before := w.Connections()
	w.Freeze(false)
	write(t, db, "b")
	began := time.Now()
	b = next(t, src, b.Last, changes.Limit{Idle: time.Hour}) // within the 10 s of next
	if ids(b) != "b" || silent.Load() != 1 || retried.Load() != 1 {
		t.Errorf("got %q after %v, %d silences, %d retries", ids(b), time.Since(began), silent.Load(), retried.Load())
	}
	if w.Connections() == before {
		t.Error("no new connection")
	}
}

// TestMuteServer: a server that accepts connections and says nothing costs one
// timeout an attempt, until it speaks again.
func TestMuteServer(t *testing.T) {
	s, db := guarded(t, couchfake.HeaderAuth{})
	w := newWire(t, s.URL())
	o := quick(t, s)
	o.URL = "http://reader:first@" + w.Address() + "/db"
	o.Timeout = 100 * time.Millisecond
	third := make(chan struct{})
	o.Events.Retried = func(r couchdb.Retried) {
		if r.Attempt == 3 {
			close(third)
		}
	}
	src := unwatched(t, o)
	b := next(t, src, "", untilRows)
	next(t, src, b.Last, aMoment)
	w.Freeze(true)
	write(t, db, "b")
	go func() { <-third; w.Thaw() }()
	if b = next(t, src, b.Last, changes.Limit{Idle: time.Hour}); ids(b) != "b" {
		t.Errorf("got %q", ids(b))
	}
}
