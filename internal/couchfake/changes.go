package couchfake

import (
	"crypto/md5" //nolint:gosec // an ETag is no secret
	"encoding/binary"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The feeds that a request can ask for.
const (
	feedNormal      = "normal"
	feedLongpoll    = "longpoll"
	feedContinuous  = "continuous"
	feedEventsource = "eventsource"
)

// feedName is the feed for a value of the query, or nothing when there is no such feed.
func feedName(v string) string {
	switch v {
	case "", feedNormal:
		return feedNormal
	case "live", feedContinuous:
		return feedContinuous
	case feedLongpoll, feedEventsource:
		return v
	}
	return ""
}

// noLimit is what a real server counts down from when a request has no limit: which rows carry a seq under seq_interval depends on it.
const noLimit = 1_000_000_000_000_000

// feedOptions is what a request of _changes asks for.
type feedOptions struct {
	feed       string
	since      string
	shape      shape
	limit      int64
	interval   int64
	heartbeat  time.Duration // zero is none
	timeout    time.Duration
	descending bool
	keep       func(id string) bool // nil keeps all
}

// changes answers GET and POST /db/_changes.
func (x *exchange) changes() error {
	if err := x.allow(http.MethodGet, http.MethodPost, http.MethodHead); err != nil {
		return err
	}
	posted, err := x.posted()
	if err != nil {
		return err
	}
	o, err := x.feedOptions(posted)
	if err != nil {
		return err
	}
	f, err := newFeed(x, o)
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	switch o.feed {
	case feedNormal:
		etag := f.etag()
		h.Set("ETag", etag)
		if x.r.Header.Get("If-None-Match") == etag {
			x.w.WriteHeader(http.StatusNotModified)
			return nil
		}
		if x.r.Method == http.MethodHead {
			return nil
		}
		f.normal()
	case feedLongpoll:
		f.longpoll()
	case feedEventsource:
		h.Set("Content-Type", "text/event-stream")
		f.continuous()
	default:
		f.continuous()
	}
	return nil
}

// posted reads the body of a POST, which must be JSON when there is one, and say so even when there is none.
func (x *exchange) posted() (map[string][]byte, error) {
	if x.r.Method != http.MethodPost {
		return nil, nil
	}
	body, err := x.jsonBody()
	if err != nil || len(body) == 0 {
		return nil, err
	}
	return fields(body)
}

func (x *exchange) feedOptions(posted map[string][]byte) (feedOptions, error) {
	q := x.query
	o := feedOptions{since: "0", limit: noLimit, interval: 1, timeout: x.s.opts.FeedTimeout, descending: x.flag("descending")}
	if o.feed = feedName(q.Get("feed")); o.feed == "" {
		return o, badRequest("Supported `feed` types: normal, continuous, live, longpoll, eventsource")
	}
	o.shape = shape{includeDocs: x.flag("include_docs"), conflicts: x.flag("conflicts")}
	switch q.Get("style") {
	case "", "main_only":
	case "all_docs":
		o.shape.allLeaves = true
	default:
		return o, badArgument(2702678981)
	}
	if q.Has("since") {
		o.since = q.Get("since")
	} else if id := x.r.Header.Get("Last-Event-ID"); id != "" && o.feed == feedEventsource {
		o.since = id
	}
	if err := x.feedNumbers(&o); err != nil {
		return o, err
	}
	return o, x.feedFilter(&o, posted)
}

func (x *exchange) feedNumbers(o *feedOptions) error {
	q := x.query
	number := func(name string, to *int64) error {
		if !q.Has(name) {
			return nil
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil {
			return badArgument(4160630019)
		}
		*to = n
		return nil
	}
	if err := number("limit", &o.limit); err != nil {
		return err
	}
	if o.limit < 0 {
		o.limit = noLimit
	}
	if err := number("seq_interval", &o.interval); err != nil {
		return err
	}
	o.interval = max(o.interval, 1)
	timeout := o.timeout.Milliseconds()
	if err := number("timeout", &timeout); err != nil {
		return err
	}
	o.timeout = min(o.timeout, time.Duration(timeout)*time.Millisecond)
	return x.feedHeartbeat(o)
}

func (x *exchange) feedHeartbeat(o *feedOptions) error {
	switch v := x.query.Get("heartbeat"); v {
	case "", "false":
	case "true":
		o.heartbeat = time.Minute
	default:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n <= 0 {
			return badRequest("Invalid heartbeat value. Expecting a positive integer value (in milliseconds).")
		}
		o.heartbeat = time.Duration(n) * time.Millisecond
	}
	return nil
}

// feedFilter reads filter: of the built-in ones those by id are there.
func (x *exchange) feedFilter(o *feedOptions, posted map[string][]byte) error {
	switch filter := x.query.Get("filter"); {
	case filter == "":
		return nil
	case filter == "_design":
		o.keep = func(id string) bool { return strings.HasPrefix(id, "_design/") }
		return nil
	case filter == "_doc_ids":
		ids, err := x.filterIDs(posted)
		if err != nil {
			return err
		}
		wanted := make(map[string]bool, len(ids))
		for _, id := range ids {
			wanted[id] = true
		}
		o.keep = func(id string) bool { return wanted[id] }
		return nil
	case filter == "_selector" || filter == "_view":
		return &failure{status: http.StatusNotImplemented, name: "not_implemented", reason: "this stand-in has no filter `" + filter + "`"}
	case !strings.Contains(filter, "/"):
		return badRequest("`filter` must be of the form `designname/filtername`")
	}
	return errMissing
}

func (x *exchange) filterIDs(posted map[string][]byte) ([]string, error) {
	raw := []byte(x.query.Get("doc_ids"))
	if x.r.Method == http.MethodPost {
		raw = posted["doc_ids"]
	}
	list, _, err := normalizeJSON(raw)
	if err != nil {
		return nil, badRequest("`doc_ids` filter parameter is not a list of doc ids.")
	}
	ids, err := stringList(list)
	if err != nil {
		return nil, badRequest("`doc_ids` filter parameter is not a list of doc ids.")
	}
	return ids, nil
}

// etag names the state of the database.
func (f *feed) etag() string {
	h := []byte(f.db.uuid)
	for i, t := range f.seqs.tokens {
		h = binary.BigEndian.AppendUint64(h, t)
		h = binary.BigEndian.AppendUint64(h, f.end[i])
	}
	sum := md5.Sum(h) //nolint:gosec // see above
	return `"` + strings.ToUpper(new(big.Int).SetBytes(sum[:]).Text(36)) + `"`
}
