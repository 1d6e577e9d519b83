package couchfake

import (
	"net/http"
	"strconv"
	"time"
)

// Endpoint names what a request is for.
type Endpoint string

// The endpoints that a Match can name. Others have their path as name: "_revs_limit", "_security".
const (
	AnyEndpoint Endpoint = ""
	Welcome     Endpoint = "/"
	Up          Endpoint = "_up"
	Session     Endpoint = "_session"
	AllDBs      Endpoint = "_all_dbs"
	DBUpdates   Endpoint = "_db_updates"
	Info        Endpoint = "db" // GET, PUT, DELETE and POST of the database itself
	Document    Endpoint = "doc"
	LocalDoc    Endpoint = "_local"
	Attachment  Endpoint = "attachment"
	Changes     Endpoint = "_changes"
	AllDocs     Endpoint = "_all_docs"
	BulkDocs    Endpoint = "_bulk_docs"
	BulkGet     Endpoint = "_bulk_get"
	PurgedInfos Endpoint = "_purged_infos"
)

// Match says which requests to spoil. What is empty matches all.
type Match struct {
	Endpoint Endpoint
	Method   string
	Database string
	Feed     string // normal, longpoll, continuous, eventsource: as asked for; a request without feed is normal
}

// Spoil says what goes wrong with a request, and when.
//
// The moment is after Rows rows of a feed or after Bytes bytes of the body, whichever is set; when both are zero, it is
// before the answer begins. At the moment, what is set happens in this order: Call, the stall, then Status, Cut or
// Finish. NullDoc and NullSeq hold for the whole answer.
type Spoil struct {
	Rows  int
	Bytes int64

	// Call runs at the moment. It may use the server and its databases: rewind a shard, make the database again, revoke access.
	// It must not wait for Stop or Close, which wait for the request.
	Call func()
	// Stall sends nothing for this long; Until sends nothing until it is closed. The end of the request ends both.
	Stall time.Duration
	Until <-chan struct{}
	// Status answers with this status instead. It only works before the answer begins. RetryAfter, in seconds, is sent along unless zero.
	Status     int
	RetryAfter int
	// Cut breaks the connection: in the middle of a line, when Bytes is so.
	Cut bool
	// Finish ends a feed politely, with the last_seq of what was sent.
	Finish bool

	// NullDoc is the id of a document whose row has "doc":null.
	NullDoc string
	// NullSeq gives all rows "seq":null.
	NullSeq bool
}

// Order is a standing order to spoil requests.
type Order struct {
	match Match
	spoil Spoil
	left  int
	taken int
	fired int
	s     *Server
}

// Control spoils the next requests that match, as many as times says; a negative number means all of them, until Cancel.
// Orders are looked at in the order they were given, and one request takes one at most.
func (s *Server) Control(m Match, sp Spoil, times int) *Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &Order{match: m, spoil: sp, left: times, s: s}
	s.orders = append(s.orders, o)
	return o
}

// Cancel ends the order; requests that are being spoiled go on.
func (o *Order) Cancel() {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.left = 0
}

// Taken is how many requests took the order so far.
func (o *Order) Taken() int {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.taken
}

// Fired is for how many of them the moment has come: an answer may end before its row or byte.
func (o *Order) Fired() int {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.fired
}

func (m Match) covers(x *exchange) bool {
	if m.Endpoint != AnyEndpoint && m.Endpoint != x.endpoint {
		return false
	}
	if m.Method != "" && m.Method != x.r.Method {
		return false
	}
	if m.Database != "" && m.Database != x.database {
		return false
	}
	return m.Feed == "" || m.Feed == feedName(x.query.Get("feed"))
}

// order finds the order that this request takes.
func (s *Server) order(x *exchange) *Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.orders {
		if o.left == 0 || !o.match.covers(x) {
			continue
		}
		o.taken++
		if o.left > 0 {
			o.left--
		}
		if o.left == 0 {
			s.orders = append(s.orders[:i:i], s.orders[i+1:]...)
		}
		return o
	}
	return nil
}

// immediate says that the moment is before the answer.
func (sp *Spoil) immediate() bool { return sp.Rows == 0 && sp.Bytes == 0 }

// act makes the spoil happen. What was written before must have been flushed.
func (x *exchange) act() {
	sp := x.spoil
	x.acted = true
	x.s.mu.Lock()
	x.order.fired++
	x.s.mu.Unlock()
	if sp.Call != nil {
		sp.Call()
	}
	x.stall(sp)
	if sp.Cut {
		panic(http.ErrAbortHandler)
	}
	x.finish = sp.Finish
}

func (x *exchange) stall(sp *Spoil) {
	if sp.Stall == 0 && sp.Until == nil {
		return
	}
	var over <-chan time.Time
	if sp.Stall > 0 {
		t := time.NewTimer(sp.Stall)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
	case <-sp.Until:
	case <-x.r.Context().Done():
	case <-x.closing:
		panic(http.ErrAbortHandler)
	}
}

// refuse answers with the spoil's status.
func (x *exchange) refuse() {
	sp := x.spoil
	if sp.RetryAfter > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(sp.RetryAfter))
	}
	f := &failure{status: sp.Status, name: "internal_server_error", reason: http.StatusText(sp.Status)}
	switch sp.Status {
	case http.StatusNotFound:
		f.name, f.reason = "not_found", "missing"
	case http.StatusUnauthorized:
		f = errNobody
	case http.StatusForbidden:
		f = errNotMember
	case http.StatusTooManyRequests:
		f.name, f.reason = "too_many_requests", "Too many requests."
	case http.StatusServiceUnavailable:
		f.name, f.reason = "service_unavailable", "Service unavailable."
	case http.StatusInternalServerError:
		f.name, f.reason = "nodedown", "progress not possible" // what a shard without a live copy answers
	}
	x.fail(f)
}
