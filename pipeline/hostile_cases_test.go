package pipeline_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// never is a moment that does not come: a stall ends with its request.
func never() <-chan struct{} { return make(chan struct{}) }

// feeds match requests of _changes, "" any of them.
func feeds(kind string) couchfake.Match {
	return couchfake.Match{Endpoint: couchfake.Changes, Feed: kind}
}

const (
	normalFeed     = "normal"
	continuousFeed = "continuous"
)

// spoiled are orders that need nothing of the world.
func spoiled(list ...order) func(*hostile) []order {
	return func(*hostile) []order { return list }
}

func hostileCases() []hostileCase {
	all := endings()
	all = append(all, silences()...)
	all = append(all, refusals()...)
	all = append(all, pasts()...)
	all = append(all, bodies()...)
	all = append(all, purges()...)
	// And what a backlog meets, when its documents are asked for side by side.
	bulk := couchfake.Match{Endpoint: couchfake.BulkGet}
	refused := order{bulk, couchfake.Spoil{Status: http.StatusServiceUnavailable}, 2}
	torn := order{bulk, couchfake.Spoil{Bytes: 500, Cut: true}, 2}
	for _, c := range append(endings(), pasts()...) {
		c.name, c.parallel = c.name+", in parallel", true
		if begin := c.begin; c.name == "cut line, in parallel" {
			c.begin = func(h *hostile) []order { return append(begin(h), refused, torn) }
		}
		all = append(all, c)
	}
	return all
}

// endings are answers that end before their time.
func endings() []hostileCase {
	return []hostileCase{
		{name: "polite end", begin: spoiled(
			order{feeds(continuousFeed), couchfake.Spoil{Finish: true}, 1},
			order{feeds(continuousFeed), couchfake.Spoil{Rows: 3, Finish: true}, 3},
			order{feeds(normalFeed), couchfake.Spoil{Rows: 2, Finish: true}, 1})},
		{name: "cut line", crash: 25, begin: spoiled(
			order{feeds(continuousFeed), couchfake.Spoil{Bytes: 900, Cut: true}, 2},
			order{feeds(continuousFeed), couchfake.Spoil{Rows: 2, Cut: true}, 1},
			order{feeds(normalFeed), couchfake.Spoil{Bytes: 600, Cut: true}, 2},
			order{feeds(normalFeed), couchfake.Spoil{Rows: 2, Cut: true}, 1},
			order{feeds(normalFeed), couchfake.Spoil{Cut: true}, 1})},
	}
}

// silences are answers that do not come, or stop coming.
func silences() []hostileCase {
	patient := func(_ *hostile, o *couchdb.Options) { o.Timeout = time.Hour }
	silent := func(n *heard) bool { return n.silent >= 2 && n.retried >= 2 }
	return []hostileCase{
		// As behind a gateway that holds back what has no end: rows come by
		// normal requests, one each three heartbeats.
		{name: "no continuous feed", source: patient, met: silent, begin: spoiled(
			order{feeds(continuousFeed), couchfake.Spoil{Until: never()}, -1})},
		{name: "slow first byte",
			source: func(_ *hostile, o *couchdb.Options) { o.Timeout = time.Second },
			met:    func(n *heard) bool { return n.retried >= 2 },
			begin: spoiled(
				order{feeds(normalFeed), couchfake.Spoil{Until: never()}, 1},
				order{feeds(normalFeed), couchfake.Spoil{Stall: 20 * time.Millisecond}, 2},
				order{feeds(continuousFeed), couchfake.Spoil{Until: never()}, 1},
				order{couchfake.Match{Endpoint: couchfake.Info}, couchfake.Spoil{Until: never()}, 1})},
		// Only the heartbeats can tell: the timeout is an hour.
		{name: "feed falls silent", source: patient, met: silent, begin: spoiled(
			order{feeds(continuousFeed), couchfake.Spoil{Rows: 3, Until: never()}, 2})},
		{name: "half-open socket", met: silent,
			source: func(h *hostile, o *couchdb.Options) {
				o.Timeout = time.Second // of what was asked beside the feed
				if h.wire != nil {
					o.URL = "http://" + h.wire.Address() + "/docs"
				}
			},
			begin: func(h *hostile) []order {
				var err error
				h.wire, err = couchfake.NewWire(strings.TrimPrefix(h.server.URL(), "http://"))
				h.must(nil, err)
				h.t.Cleanup(func() { _ = h.wire.Close() })
				freeze := couchfake.Spoil{Rows: 3, Call: func() { h.wire.Freeze(false) }}
				return []order{{feeds(continuousFeed), freeze, -1}}
			}},
	}
}

// refusals are answers that say no.
func refusals() []hostileCase {
	info := couchfake.Match{Endpoint: couchfake.Info}
	guarded := couchfake.Options{Admins: map[string]string{"admin": "top"}, Users: map[string]string{"reader": "first"}}
	restart := func(call func()) couchfake.Spoil { return couchfake.Spoil{Rows: 3, Call: call, Cut: true} }
	return []hostileCase{
		{name: "5xx", begin: spoiled(
			order{feeds(normalFeed), couchfake.Spoil{Status: http.StatusInternalServerError}, 2},
			order{feeds(continuousFeed), couchfake.Spoil{Status: http.StatusServiceUnavailable}, 2},
			order{feeds(normalFeed), couchfake.Spoil{Status: http.StatusGatewayTimeout}, 1},
			order{info, couchfake.Spoil{Status: http.StatusBadGateway}, 3})},
		{name: "429", met: func(n *heard) bool { return n.pause >= 45*time.Second }, begin: spoiled(
			order{feeds(normalFeed), couchfake.Spoil{Status: http.StatusTooManyRequests, RetryAfter: 45}, 2},
			order{feeds(continuousFeed), couchfake.Spoil{Status: http.StatusTooManyRequests}, 2},
			order{info, couchfake.Spoil{Status: http.StatusTooManyRequests, RetryAfter: 1}, 1})},
		{name: "session expires", server: guarded, met: func(n *heard) bool { return n.loggedIn >= 2 },
			source: func(_ *hostile, o *couchdb.Options) {
				o.User, o.Password, o.Auth = "reader", "first", couchdb.AuthCookie
			},
			begin: func(h *hostile) []order {
				return []order{{feeds(continuousFeed), restart(h.server.ExpireSessions), 3}}
			}},
		{name: "secret is rotated", server: guarded, met: func(n *heard) bool { return n.loggedIn >= 2 },
			source: func(h *hostile, o *couchdb.Options) { o.User, o.PasswordFile = "reader", h.password },
			begin: func(h *hostile) []order {
				n := 0
				rotate := func() {
					n++
					next := fmt.Sprintf("secret %d", n)
					_ = os.WriteFile(h.password, []byte(next+"\n"), 0o600) // fails as a wrong password
					h.server.SetPassword("reader", next)
				}
				return []order{{feeds(continuousFeed), restart(rotate), 2}}
			}},
	}
}

// pasts are rows that were shown before, or should have been.
func pasts() []hostileCase {
	return []hostileCase{
		{name: "rewind in mid-feed", crash: 30,
			met: func(n *heard) bool { return n.again > 0 && n.back > 0 },
			begin: func(h *hostile) []order {
				all := couchfake.Spoil{Rows: 3, Call: h.db.FailOver, Cut: true}
				some := couchfake.Spoil{Rows: 2, Call: func() { h.db.Rewind(0, 5) }, Cut: true}
				return []order{{feeds(continuousFeed), all, 1}, {feeds(continuousFeed), some, 1}}
			}},
		{name: "stale shard copy", crash: 12,
			met: func(n *heard) bool { return n.older > 10 && n.back > 0 },
			begin: func(h *hostile) []order {
				past := h.db.Snapshot()
				h.round(80)
				h.once()
				before := h.snapshot()
				h.db.ServeStale(past)
				h.db.FailOver()
				h.once()
				h.equal("fed by a stale copy", before, h.snapshot())
				h.db.FailOver()
				return nil
			},
			heal: func(h *hostile) { h.db.Heal() }},
		{name: "seq null", met: func(n *heard) bool { return n.again > 0 }, begin: spoiled(
			order{feeds(normalFeed), couchfake.Spoil{NullSeq: true}, 2},
			order{feeds(continuousFeed), couchfake.Spoil{Rows: 5, NullSeq: true, Cut: true}, 3},
			order{feeds(continuousFeed), couchfake.Spoil{Rows: 5, NullSeq: true, Finish: true}, 1})},
		{name: "rows out of order", server: couchfake.Options{Shards: 8},
			met: func(n *heard) bool { return n.unordered > 2 },
			begin: func(h *hostile) []order {
				for i := range 60 {
					h.must(h.db.Put(fmt.Sprintf("%s%03d", orderedID, i), h.body()))
				}
				return nil
			}},
	}
}

// bodies are documents that come late, or large.
func bodies() []hostileCase {
	doc := couchfake.Match{Endpoint: couchfake.Document}
	return []hostileCase{
		{name: "live row without its document", met: func(n *heard) bool { return n.refetched > 4 && n.missing > 0 },
			begin: func(h *hostile) []order {
				// Before it is asked for, a newer revision replaces it, and it is
				// compacted away.
				replace := func() {
					if _, err := h.db.Put(pulseID, []byte(`{"day":"2024-01-02","n":7}`)); err == nil {
						h.db.Compact()
					}
				}
				return []order{{feeds(""), couchfake.Spoil{NullDoc: pulseID}, -1},
					{doc, couchfake.Spoil{Status: http.StatusInternalServerError}, 2},
					{doc, couchfake.Spoil{Bytes: 20, Cut: true}, 1},
					{doc, couchfake.Spoil{Call: replace}, 2}}
			}},
		{name: "lines of 8 MB",
			source: func(_ *hostile, o *couchdb.Options) { o.Heartbeat = 2 * time.Second },
			met:    func(n *heard) bool { return n.large > 2 },
			begin: func(h *hostile) []order {
				h.large(0)
				cut := couchfake.Spoil{Bytes: int64(largeBody() / 2), Cut: true}
				return []order{{feeds(normalFeed), cut, 1}, {feeds(continuousFeed), cut, 1}}
			},
			round: func(h *hostile) {
				h.mu.Lock()
				n := h.heard.large
				h.mu.Unlock()
				if d, _ := h.db.Doc("large"); d.Winner().Rev.Gen <= n {
					h.large(n)
				}
			}},
	}
}

// largeBody is the size, in bytes, of a document that is as large as a server
// takes; less under the race detector.
func largeBody() int {
	if testing.Short() {
		return 200_000
	}
	return 7_900_000
}

// large writes such a document.
func (h *hostile) large(n int) {
	h.t.Helper()
	text := bytes.Repeat([]byte(`\"é`), largeBody()/4)
	h.must(h.db.Put("large", fmt.Appendf(nil, `{"day":"2024-01-0%d","n":%d,"text":"%s"}`, 1+n%5, n, text)))
}

// purges take documents, or their winners, out of the database.
func purges() []hostileCase {
	infos := couchfake.Match{Endpoint: couchfake.PurgedInfos}
	n := 0
	return []hostileCase{
		{name: "purges", eras: true, crash: 40, met: func(n *heard) bool { return n.purged > 12 },
			begin: spoiled(order{infos, couchfake.Spoil{Status: http.StatusServiceUnavailable}, 1},
				order{infos, couchfake.Spoil{Bytes: 5, Cut: true}, 1},
				order{infos, couchfake.Spoil{Call: func() {}}, 1}),
			round: func(h *hostile) {
				n++
				h.must(h.db.Put(fmt.Sprint("purged-", n), h.body()))
				h.must(h.db.Put(fmt.Sprint("purged-", n), h.body()))
				gone := fmt.Sprint("purged-", n-2)
				h.db.Purge(gone)
				if n%3 == 0 { // written again at once, of the first generation
					h.must(h.db.Put(gone, h.body()))
				}
			}},
	}
}
