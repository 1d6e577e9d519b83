package couchdb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
)

// server answers like one database named "db". Requests of _changes go to the
// scripted answers in order; after the last of them, normal feeds are empty
// and continuous feeds idle with heartbeats.
type server struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	born     string
	script   []http.HandlerFunc
	docs     map[string]http.HandlerFunc
	requests []string // method, path and the wanted parameters, in order
	password string   // when set, basic auth or a session is demanded
	cookie   string   // the session that is valid
	logins   int
	info     http.HandlerFunc
	who      http.HandlerFunc // what GET /_session answers, unless it knows
}

const lastSeq = "9-end"

func newServer(t *testing.T, script ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{t: t, born: "1795999391", script: script, docs: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.EscapedPath()+" "+r.URL.Query().Get("feed")+" "+r.URL.Query().Get("since"))
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/_session" {
		defer s.mu.Unlock()
		s.session(w, r)
		return
	}
	if !s.allowed(r) {
		s.mu.Unlock()
		fail(http.StatusUnauthorized, "unauthorized", "Name or password is incorrect.")(w, r)
		return
	}
	answer := s.answer(r)
	s.mu.Unlock()
	answer(w, r)
}

// answer picks what a request gets; s.mu is held.
func (s *server) answer(r *http.Request) http.HandlerFunc {
	switch {
	case r.URL.Path == "/db" && s.info != nil:
		return s.info
	case r.URL.Path == "/db":
		return text(fmt.Sprintf(`{"instance_start_time":%q,"db_name":"db","purge_seq":"3-p","doc_count":1}`, s.born))
	case r.URL.Path == "/db/_changes" && len(s.script) > 0:
		next := s.script[0]
		s.script = s.script[1:]
		return next
	case r.URL.Path == "/db/_changes" && r.URL.Query().Get("feed") == "continuous":
		return idle
	case r.URL.Path == "/db/_changes":
		return normal(lastSeq, 0)
	}
	if doc, ok := s.docs[strings.TrimPrefix(r.URL.EscapedPath(), "/db/")]; ok {
		return doc
	}
	return fail(http.StatusNotFound, "not_found", "missing")
}

func (s *server) session(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		s.login(w, r)
	case s.who != nil:
		s.who(w, r)
	case !s.allowed(r):
		fail(http.StatusUnauthorized, "unauthorized", "Name or password is incorrect.")(w, r)
	default:
		text(`{"ok":true,"userCtx":{"name":"reader","roles":[]}}`)(w, r)
	}
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Password string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Password != s.password {
		fail(http.StatusUnauthorized, "unauthorized", "Name or password is incorrect.")(w, r)
		return
	}
	s.logins++
	s.cookie = fmt.Sprintf("session%d", s.logins)
	http.SetCookie(w, &http.Cookie{Name: "AuthSession", Value: s.cookie, Path: "/"})
	_, _ = w.Write([]byte(`{"ok":true,"name":"reader","roles":[]}`))
}

func (s *server) allowed(r *http.Request) bool {
	if s.password == "" {
		return true
	}
	if c, err := r.Cookie("AuthSession"); err == nil && s.cookie != "" && c.Value == s.cookie {
		return true
	}
	_, given, ok := r.BasicAuth()
	return ok && given == s.password
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// text answers 200 with a body.
func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}
}

// fail answers with an error as CouchDB does.
func fail(status int, name, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":%q,"reason":%q}`+"\n", name, reason)
	}
}

// normal answers a normal feed.
func normal(last string, pending int, rows ...string) http.HandlerFunc {
	return text(normalBody(last, pending, rows...))
}

func normalBody(last string, pending int, rows ...string) string {
	return "{\"results\":[\n" + strings.Join(rows, ",\r\n") + fmt.Sprintf("\n],\n\"last_seq\":%q,\"pending\":%d}\n\n", last, pending)
}

// cutOff writes a text and breaks the connection without a final chunk.
func cutOff(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(body))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// idle is a continuous feed with nothing new.
func idle(w http.ResponseWriter, r *http.Request) { beat(w, r, "") }

// beat writes a text and then heartbeats until the client leaves.
func beat(w http.ResponseWriter, r *http.Request, body string) {
	c := http.NewResponseController(w)
	_, _ = w.Write([]byte("\n" + body))
	_ = c.Flush()
	every := 10 * time.Millisecond
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(every):
			if _, err := w.Write([]byte("\n")); err != nil {
				return
			}
			_ = c.Flush()
		}
	}
}

// stay is a continuous feed with some rows that then idles.
func stay(rows ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { beat(w, r, strings.Join(rows, "\n")+"\n") }
}

// mute sends a head and then nothing at all.
func mute(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte("\n"))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// row is a row of the feed; an empty seq is null.
func row(seq, id, rev string) string {
	s := "null"
	if seq != "" {
		s = fmt.Sprintf("%q", seq)
	}
	return fmt.Sprintf(`{"seq":%s,"id":%q,"changes":[{"rev":%q}],"doc":{"_id":%q,"_rev":%q,"n":1}}`, s, id, rev, id, rev)
}

// options are quick ones for a server.
func options(s *server) couchdb.Options {
	return couchdb.Options{
		URL:       s.URL + "/db",
		Heartbeat: 100 * time.Millisecond,
		Timeout:   5 * time.Second,
		Sleep: func(ctx context.Context, _ time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond):
				return nil
			}
		},
	}
}

func open(t *testing.T, o couchdb.Options) *couchdb.Source {
	t.Helper()
	settle := goroutines(t)
	src, err := couchdb.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
		settle()
	})
	return src
}

// goroutines returns a func that fails the test when some are left over that
// were started after this call. Those of the server end with its connections.
func goroutines(t *testing.T) func() {
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		for range 500 {
			if runtime.NumGoroutine() <= before+1 { // the server's one for an idle connection
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		buf := make([]byte, 1<<20)
		t.Errorf("goroutines left over: %d before, %d after\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
	}
}

func ids(b changes.Batch) string {
	var out []string
	for _, c := range b.Changes {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

// next is Next with a deadline that only a hanging test reaches.
func next(t *testing.T, src *couchdb.Source, after changes.Position, limit changes.Limit) changes.Batch {
	t.Helper()
	b, err := tryNext(src, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tryNext(src *couchdb.Source, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, errors.New("the test hangs"))
	defer cancel()
	return src.Next(ctx, after, limit)
}

// through is a transport made of a func.
type through func(*http.Request) (*http.Response, error)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(r *http.Request, body string, cookies ...string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}, "Set-Cookie": cookies},
	}
}

func failed(r *http.Request, status int, reason string) *http.Response {
	resp := response(r, fmt.Sprintf(`{"error":"x","reason":%q}`, reason))
	resp.StatusCode = status
	return resp
}

// recording is one answer of a real server.
type recording struct {
	Name, Path, Body string
	Status           int
	Cut              bool
}

func recordings(t testing.TB) map[string]recording {
	t.Helper()
	data, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []recording
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]recording{}
	for _, r := range list {
		out[r.Name] = r
	}
	return out
}

// replay answers as the real server did.
func (r recording) replay(w http.ResponseWriter, req *http.Request) {
	if r.Body == "" {
		panic("no such recording")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_, _ = w.Write([]byte(r.Body))
	if r.Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
