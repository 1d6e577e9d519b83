package couchdb_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
)

// TestTemporary: each of these passes, and costs nothing but time.
func TestTemporary(t *testing.T) {
	rec := recordings(t)
	for name, answer := range map[string]http.HandlerFunc{
		"no live copy of a shard": rec["couchdb/n1_normal_owner_down"].replay,
		"bad gateway":             fail(502, "bad_gateway", "x"),
		"too many requests":       fail(429, "too_many", "slow down"),
		"request timeout":         fail(408, "timeout", "x"),
		"a longpoll cut short":    rec["couchdb/longpoll_server_killed"].replay,
		"nothing at all":          cutOff(""),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, answer, answer, normal("1-a", 0, row("1-a", "a", "1-a")))
			var retried []couchdb.Retried
			o := options(s)
			o.Events.Retried = func(r couchdb.Retried) { retried = append(retried, r) }
			if b := next(t, open(t, o), "", changes.Limit{}); ids(b) != "a" {
				t.Errorf("got %q", ids(b))
			}
			if len(retried) != 2 || retried[0].Attempt != 1 || retried[1].Attempt != 2 || retried[0].Err == nil {
				t.Errorf("retried: %+v", retried)
			}
		})
	}
}

// TestFatal: somebody must act, and the message says where and how.
func TestFatal(t *testing.T) {
	rec := recordings(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		is     error
		says   string
	}{
		"no database":        {rec["couchdb/changes_db_missing"].replay, changes.ErrNotFound, "curl -X PUT"},
		"not logged in":      {rec["couchdb/noauth_changes"].replay, changes.ErrUnauthorized, "check the user and password"},
		"not a member":       {rec["couchdb/nonmember"].replay, changes.ErrUnauthorized, "_security"},
		"a foreign position": {rec["couchdb/since_garbage"].replay, changes.ErrPosition, "--since 0"},
		"a broken cookie":    {rec["couchdb/bad_cookie"].replay, changes.ErrUnauthorized, "AuthSession"},
		"some other refusal": {fail(405, "method_not_allowed", "Only GET"), nil, "Only GET"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://user:hunter2@elsewhere.example/x?y", http.StatusFound)
		}, nil, "elsewhere.example/x"},
	} {
		t.Run(name, func(t *testing.T) {
			// The log-in is tried anew once, so the answer comes twice.
			s := newServer(t, c.answer, c.answer)
			o := options(s)
			_, err := tryNext(open(t, o), "5-x", changes.Limit{})
			if err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("got %v, want %v", err, c.is)
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), s.URL+"/db") && name != "a redirect" {
				t.Errorf("%v: does not say %q and the URL", err, c.says)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v: tells a password", err)
			}
			var typed *couchdb.Error
			if !errors.As(err, &typed) || typed.Hint == "" {
				t.Errorf("%#v has no hint", err)
			}
		})
	}
}

// TestFatalWhileLive: the same answers to the continuous feed's request.
func TestFatalWhileLive(t *testing.T) {
	s := newServer(t, normal("1-a", 0), recordings(t)["couchdb/changes_db_missing"].replay)
	if _, err := tryNext(open(t, options(s)), "", changes.Limit{Idle: time.Hour}); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestNotCouchDB(t *testing.T) {
	s := newServer(t)
	for name, answer := range map[string]http.HandlerFunc{"other JSON": text(`{"hello":"world"}`), "no name": text(`{"db_name":""}`)} {
		s.set(func() { s.info = answer })
		_, err := open(t, options(s)).Identify(t.Context())
		if !errors.Is(err, couchdb.ErrNotCouchDB) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestLiveEnds: whatever ends a continuous feed, it goes on from the last row.
func TestLiveEnds(t *testing.T) {
	rec := recordings(t)
	polite := row("2-b", "b", "1-b") + "\n" + `{"last_seq":"2-b","pending":0}` + "\n\n"
	for name, first := range map[string]http.HandlerFunc{
		"politely":         text(polite),
		"cut after a row":  cutOff(row("2-b", "b", "1-b") + "\n"),
		"cut within a row": cutOff(row("2-b", "b", "1-b") + "\n" + `{"seq":"3-c","id":"c","cha`),
		"with an error":    text(row("2-b", "b", "1-b") + "\n" + `{"error":"nodedown","reason":"progress not possible"}` + "\n"),
		"with silence": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(row("2-b", "b", "1-b")))
			mute(w, r)
		},
		"before the head":     cutOff(""),
		"with a server error": rec["couchdb/n1_normal_owner_down"].replay,
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, normal("1-a", 0), first)
			var ended atomic.Int32
			o := options(s)
			o.Events.Ended = func(e couchdb.Ended) {
				if e.Feed == "continuous" && e.Err != nil {
					ended.Add(1)
				}
			}
			src := open(t, o)
			var got []string
			after := changes.Position("1-a")
			for range 20 {
				b := next(t, src, after, changes.Limit{Idle: 100 * time.Millisecond, Wait: time.Millisecond})
				if len(b.Changes) > 0 {
					got = append(got, ids(b))
					after = b.Last
				}
				if ended.Load() > 0 {
					break
				}
			}
			want := "b"
			if strings.HasPrefix(name, "before") || strings.HasPrefix(name, "with a server") {
				want = ""
			}
			if strings.Join(got, " ") != want || ended.Load() != 1 {
				t.Fatalf("got %q and %d ends", got, ended.Load())
			}
			// Then the live feed is picked up again, after the database's
			// identity was read.
			next(t, src, after, changes.Limit{Idle: 100 * time.Millisecond})
			log := s.log()
			again := slices.Index(log, "GET /db/_changes normal "+string(after))
			if again < 0 || !slices.Contains(log[again:], "GET /db  ") {
				t.Errorf("requests: %q", log)
			}
		})
	}
}

// TestRecordedDeaths replays how real feeds ended, and what came of it.
func TestRecordedDeaths(t *testing.T) {
	rec := recordings(t)
	t.Run("killed", func(t *testing.T) {
		s := newServer(t, normal("0-x", 0), rec["couchdb/cont_server_killed"].replay)
		src := open(t, options(s))
		b := next(t, src, "", untilRows)
		// The recorded rows carry no documents, and the server has none of them.
		if len(b.Changes) != 5 || b.Changes[0].Defect == "" || !strings.HasPrefix(string(b.Last), "5-") {
			t.Errorf("got %q, last %q", ids(b), b.Last)
		}
	})
	t.Run("deleted and created again", func(t *testing.T) {
		s := newServer(t, normal("0-x", 0), rec["couchdb/cont_while_db_deleted_recreated"].replay)
		src := open(t, options(s))
		b := next(t, src, "", untilRows)
		if ids(b) != "g0 g1 g2" {
			t.Fatalf("got %q", ids(b))
		}
		s.set(func() { s.born = "1795999392" })
		_, err := tryNext(src, b.Last, untilRows)
		if !errors.Is(err, changes.ErrRecreated) || !strings.Contains(err.Error(), "--accept-recreated") {
			t.Errorf("got %v", err)
		}
	})
}

// TestRecreated: no row of another database is delivered, whenever it appears.
func TestRecreated(t *testing.T) {
	other := normal("1-z", 0, row("1-z", "z", "1-z"))
	t.Run("since the checkpoint", func(t *testing.T) {
		o := options(newServer(t, other))
		o.Incarnation = "1795999000"
		src := open(t, o)
		if id, err := src.Identify(t.Context()); err != nil || id.Incarnation != "1795999391" {
			t.Errorf("identify: %+v, %v", id, err)
		}
		if _, err := tryNext(src, "5-x", changes.Limit{}); !errors.Is(err, changes.ErrRecreated) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("between two calls", func(t *testing.T) {
		s := newServer(t, normal("1-a", 0, row("1-a", "a", "1-a")), normal("1-a", 0), other)
		src := open(t, options(s))
		b := next(t, src, "", changes.Limit{})
		s.set(func() { s.born = "1795999392" })
		if _, err := tryNext(src, b.Last, changes.Limit{}); !errors.Is(err, changes.ErrRecreated) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("just before the live feed", func(t *testing.T) {
		var s *server
		s = newServer(t, normal("1-a", 0), func(w http.ResponseWriter, r *http.Request) {
			s.set(func() { s.born = "1795999392" })
			stay(row("1-z", "z", "1-z"))(w, r)
		})
		if _, err := tryNext(open(t, options(s)), "", changes.Limit{Idle: time.Hour}); !errors.Is(err, changes.ErrRecreated) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("and the position is foreign to it", func(t *testing.T) {
		s := newServer(t, normal("1-a", 0), recordings(t)["couchdb/since_garbage"].replay)
		src := open(t, options(s))
		next(t, src, "", changes.Limit{})
		s.set(func() { s.born = "1795999392" })
		if _, err := tryNext(src, "5-x", changes.Limit{}); !errors.Is(err, changes.ErrRecreated) {
			t.Errorf("got %v", err)
		}
	})
}

// TestUnreachable: Next keeps trying; the caller's context and Idle bound it.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/db"
	_ = l.Close()
	o := couchdb.Options{URL: url, Jitter: func() float64 { return 0.5 }}
	src := open(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	_, err = src.Next(ctx, "", changes.Limit{})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	b, err := src.Next(t.Context(), "7-x", changes.Limit{Idle: 60 * time.Millisecond})
	if err != nil || len(b.Changes) != 0 || b.CaughtUp || b.Last != "7-x" {
		t.Errorf("got %+v, %v", b, err)
	}
}

// TestBackOff: the pauses double up to the cap, a server's own wish is obeyed,
// and a success begins anew.
func TestBackOff(t *testing.T) {
	busy := fail(503, "busy", "x")
	var script []http.HandlerFunc
	for range 10 {
		script = append(script, busy)
	}
	script = append(script,
		func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Retry-After", "45"); busy(w, r) },
		normal("1-a", 0, row("1-a", "a", "1-a")), normal("1-a", 0), busy)
	s := newServer(t, script...)
	var mu sync.Mutex
	var waits []time.Duration
	o := options(s)
	o.Jitter = func() float64 { return 0.5 }
	o.Sleep = func(_ context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, d)
		return nil
	}
	src := open(t, o)
	b := next(t, src, "", changes.Limit{})
	next(t, src, b.Last, changes.Limit{})
	ms := time.Millisecond
	want := []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 15000 * ms, 45000 * ms, 50 * ms}
	if !slices.Equal(waits, want) {
		t.Errorf("waited %v, want %v", waits, want)
	}
}

// TestPoliteEndsAreNotALoop: a server that ends each feed at once is not asked
// without a pause.
func TestPoliteEndsAreNotALoop(t *testing.T) {
	var script []http.HandlerFunc
	for range 5 {
		script = append(script, normal("1-a", 0), text("\n{\"last_seq\":\"1-a\",\"pending\":0}\n\n"))
	}
	s := newServer(t, append(script, normal("1-a", 0, row("2-b", "b", "1-b")))...)
	var attempts []int
	o := options(s)
	o.Heartbeat = time.Second
	o.Events.Retried = func(r couchdb.Retried) { attempts = append(attempts, r.Attempt) }
	if b := next(t, open(t, o), "1-a", changes.Limit{Idle: time.Hour}); ids(b) != "b" {
		t.Errorf("got %q", ids(b))
	}
	if !slices.Equal(attempts, []int{1, 2, 3, 4, 5}) {
		t.Errorf("attempts %v", attempts)
	}
}

// TestBackPressure: a follower that does not take its rows is not mistaken for
// a server that is silent.
func TestBackPressure(t *testing.T) {
	var rows []string
	for i := range 3000 {
		rows = append(rows, row(string(rune('a'+i%26))+"-s", "d", "1-a"))
	}
	s := newServer(t, normal("1-a", 0), stay(rows...))
	var ended atomic.Int32
	o := options(s)
	o.Heartbeat = 150 * time.Millisecond
	o.Events.Ended = func(e couchdb.Ended) {
		if e.Err != nil && !errors.Is(e.Err, couchdb.ErrClosed) {
			ended.Add(1)
		}
	}
	src := open(t, o)
	got, after := 0, changes.Position("")
	for _, rows := range []int{700, 1500, 800} {
		b := next(t, src, after, changes.Limit{Rows: rows, Idle: time.Hour, Wait: time.Hour})
		if b.CaughtUp {
			t.Error("caught up in the middle")
		}
		got += len(b.Changes)
		after = b.Last
		time.Sleep(5 * o.Heartbeat) // more than may be missing
	}
	if got != len(rows) || ended.Load() != 0 {
		t.Errorf("%d rows, %d ends", got, ended.Load())
	}
}

// TestHeartbeatBehindARow: a row is handed over although heartbeats follow it
// in the same read, and no other row does.
func TestHeartbeatBehindARow(t *testing.T) {
	s := newServer(t, normal("1-a", 0), stay(row("2-b", "b", "1-b")+"\n\n"))
	if b := next(t, open(t, options(s)), "", changes.Limit{Rows: 1, Idle: time.Hour}); ids(b) != "b" {
		t.Errorf("got %q", ids(b))
	}
}

// TestUnheardServerIsNotCaughtUp: that no rows came from a feed that never
// began says nothing.
func TestUnheardServerIsNotCaughtUp(t *testing.T) {
	s := newServer(t, normal("1-a", 0), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	o := options(s)
	o.Heartbeat = time.Minute
	src := open(t, o)
	limit := changes.Limit{Idle: 20 * time.Millisecond}
	if b := next(t, src, "", limit); !b.CaughtUp {
		t.Error("the normal read was empty, and the batch is not caught up")
	}
	if b := next(t, src, "", limit); b.CaughtUp || len(b.Changes) > 0 {
		t.Errorf("got %+v", b)
	}
}

// TestCallsAtOnce: a status page may ask who the source is while it reads.
func TestCallsAtOnce(t *testing.T) {
	s := newServer(t, normal("1-a", 0), stay(row("2-b", "b", "1-b")))
	s.password = secret
	o := options(s)
	o.User, o.Password, o.Auth = "reader", secret, couchdb.AuthCookie
	src := open(t, o)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if _, err := src.Identify(t.Context()); err != nil {
					t.Error(err)
				}
				if src.String() == "" {
					t.Error("no name")
				}
			}
		})
	}
	if b := next(t, src, "", untilRows); ids(b) != "b" {
		t.Errorf("got %q", ids(b))
	}
	s.set(func() { s.cookie = "expired" }) // once: each call logs in again once
	wg.Wait()
}
