package couchfake

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// exchange is one request and its answer.
type exchange struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	query url.Values

	closing  <-chan struct{} // closed when the server stops
	endpoint Endpoint
	database string
	db       *Database
	id       string // of a document
	attach   string // name of an attachment
	user     user

	order  *Order
	spoil  *Spoil
	sent   int64
	acted  bool
	finish bool
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	closing, ok := s.enter()
	if !ok {
		panic(http.ErrAbortHandler)
	}
	defer s.leave()
	if s.opts.Trace != nil {
		s.opts.Trace(r)
	}
	x := &exchange{s: s, w: w, r: r, query: r.URL.Query(), closing: closing}
	h := w.Header()
	h.Set("Server", "CouchDB/3.5.0 (Erlang OTP/25)")
	h.Set("Cache-Control", "must-revalidate")
	h.Set("X-Couch-Request-ID", hex.EncodeToString([]byte(newUUID()[:5])))
	h.Set("X-CouchDB-Body-Time", "0")
	handle := x.route()
	if x.order = s.order(x); x.order != nil {
		x.spoil = &x.order.spoil
		if x.spoil.immediate() {
			x.act()
			if x.spoil.Status != 0 {
				x.refuse()
				return
			}
		}
	}
	if err := x.answer(handle); err != nil {
		x.fail(asFailure(err))
	}
}

func (x *exchange) answer(handle handler) error {
	if err := x.authenticate(); err != nil {
		return err
	}
	return handle(x)
}

// Write sends bytes of the body; it is where an answer is cut in the middle of a line.
func (x *exchange) Write(p []byte) (int, error) {
	if x.spoil == nil || x.acted || x.spoil.Bytes == 0 || x.sent+int64(len(p)) < x.spoil.Bytes {
		n, err := x.w.Write(p)
		x.sent += int64(n)
		return n, err
	}
	k := int(x.spoil.Bytes - x.sent)
	n, err := x.w.Write(p[:k])
	x.sent += int64(n)
	if err != nil {
		return n, err
	}
	x.flush()
	x.act()
	m, err := x.Write(p[k:])
	return n + m, err
}

func (x *exchange) flush() {
	if f, ok := x.w.(http.Flusher); ok {
		f.Flush()
	}
}

// fail answers with a failure, unless the answer has begun.
func (x *exchange) fail(f *failure) {
	if f.ref != 0 {
		x.w.Header().Set("X-Couch-Stack-Hash", strconv.Itoa(f.ref))
	}
	x.json(f.status, f.body())
}

// json sends a whole answer. An error of the connection is the client's to see.
func (x *exchange) json(status int, body []byte) {
	h := x.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	if x.r.Method == http.MethodHead {
		return
	}
	if _, err := x.Write(body); err != nil {
		return
	}
}

// body reads the request's body.
func (x *exchange) body() ([]byte, error) {
	b, err := io.ReadAll(x.r.Body)
	if err != nil {
		return nil, badRequest("Request body could not be read: " + err.Error())
	}
	return b, nil
}

// jsonBody is body for the endpoints that insist on a content type.
func (x *exchange) jsonBody() ([]byte, error) {
	if t, _, _ := strings.Cut(x.r.Header.Get("Content-Type"), ";"); strings.TrimSpace(t) != "application/json" {
		return nil, errNotJSON
	}
	return x.body()
}

// flag reads a boolean of the query: anything but true is false, as on a real server.
func (x *exchange) flag(name string) bool { return x.query.Get(name) == "true" }

// allow refuses other methods than those named.
func (x *exchange) allow(methods ...string) error {
	for _, m := range methods {
		if m == x.r.Method {
			return nil
		}
	}
	list := strings.Join(methods, ",")
	x.w.Header().Set("Allow", list)
	return &failure{status: http.StatusMethodNotAllowed, name: "method_not_allowed", reason: "Only " + list + " allowed"}
}

// locate sets the Location header to a path of this server.
func (x *exchange) locate(segments ...string) {
	for i, s := range segments {
		segments[i] = escapeSegment(s)
	}
	x.w.Header().Set("Location", "http://"+x.r.Host+"/"+strings.Join(segments, "/"))
}

// escapeSegment escapes a part of a path; a colon stays as it is.
func escapeSegment(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"), "%3A", ":")
}
