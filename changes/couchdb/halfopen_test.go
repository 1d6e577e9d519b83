package couchdb_test

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// wire is a way to a server that can go dead: connections stay open, and
// nothing passes any more. New ones are as good as ever, or only accepted.
type wire struct {
	net.Listener
	to string

	mu       sync.Mutex
	frozen   chan struct{} // closed when those that are open are dead
	mute     bool          // new ones are dead from the start
	accepted int
	all      []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, to: to, frozen: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, c := range w.all {
			_ = c.Close()
		}
		w.mu.Unlock()
		wg.Wait()
	})
	return w
}

func (w *wire) carry(client net.Conn) {
	w.mu.Lock()
	w.accepted++
	frozen := w.frozen
	w.all = append(w.all, client)
	if w.mute {
		w.mu.Unlock()
		return // kept open, never read
	}
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		w.mu.Unlock()
		return
	}
	w.all = append(w.all, server)
	w.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { pass(server, client, frozen) })
	pass(client, server, frozen)
	wg.Wait()
}

// pass carries bytes until the wire freezes; then it drops them all.
func pass(to, from net.Conn, frozen <-chan struct{}) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		select {
		case <-frozen:
			if err != nil {
				return // and to stays open
			}
			continue
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// freeze makes all open connections dead, and new ones too when mute.
func (w *wire) freeze(mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.frozen)
	w.frozen, w.mute = make(chan struct{}), mute
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = false
}

func (w *wire) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted
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
	w := newWire(t, strings.TrimPrefix(s.URL(), "http://"))
	o := quick(t, s)
	o.URL = "http://reader:first@" + w.Addr().String() + "/db"
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
	before := w.connections()
	w.freeze(false)
	write(t, db, "b")
	began := time.Now()
	b = next(t, src, b.Last, changes.Limit{Idle: time.Hour}) // within the 10 s of next
	if ids(b) != "b" || silent.Load() != 1 || retried.Load() != 1 {
		t.Errorf("got %q after %v, %d silences, %d retries", ids(b), time.Since(began), silent.Load(), retried.Load())
	}
	if w.connections() == before {
		t.Error("no new connection")
	}
}

// TestMuteServer: a server that accepts connections and says nothing costs one
// timeout an attempt, until it speaks again.
func TestMuteServer(t *testing.T) {
	s, db := guarded(t, couchfake.HeaderAuth{})
	w := newWire(t, strings.TrimPrefix(s.URL(), "http://"))
	o := quick(t, s)
	o.URL = "http://reader:first@" + w.Addr().String() + "/db"
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
	w.freeze(true)
	write(t, db, "b")
	go func() { <-third; w.thaw() }()
	if b = next(t, src, b.Last, changes.Limit{Idle: time.Hour}); ids(b) != "b" {
		t.Errorf("got %q", ids(b))
	}
}
