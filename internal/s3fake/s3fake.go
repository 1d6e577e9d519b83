// Package s3fake is a store in memory that speaks S3 over HTTP, in the process of the
// test. The store is gofakes3; what it lacks of Amazon's is added here: the condition
// of a completion, that of a read, and one ETag for an object that came in parts.
package s3fake

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is the name of the bucket that a Server has.
const Bucket = "bucket"

// Kind is what a request asks for, as Amazon's price list has it.
type Kind string

// The kinds of requests.
const (
	Get      Kind = "get"
	Head     Kind = "head"
	Put      Kind = "put"
	Delete   Kind = "delete"
	List     Kind = "list"
	Begin    Kind = "begin"
	Part     Kind = "part"
	Complete Kind = "complete"
	Abort    Kind = "abort"
	Uploads  Kind = "uploads"
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{Get, Head, Put, Delete, List, Begin, Part, Complete, Abort, Uploads}
}

// KindOf is the kind of a request.
func KindOf(r *http.Request) Kind {
	q := r.URL.Query()
	part := q.Has("uploadId")
	switch {
	case r.Method == http.MethodGet && q.Has("list-type"):
		return List
	case r.Method == http.MethodGet && q.Has("uploads"):
		return Uploads
	case r.Method == http.MethodPost && q.Has("uploads"):
		return Begin
	case r.Method == http.MethodPost && part:
		return Complete
	case r.Method == http.MethodPut && part:
		return Part
	case r.Method == http.MethodDelete && part:
		return Abort
	}
	return Kind(strings.ToLower(r.Method))
}

// Options are the choices of a Server; the zero value is a store as Amazon's.
type Options struct {
	// Deaf has it not mind the condition of a completion, as some dialects do not.
	Deaf bool
}

// Server is a store with one bucket.
type Server struct {
	deaf     bool
	backend  http.Handler
	listener net.Listener
	server   *http.Server
	// outer is what a request meets: the store, in what Wrap put around it.
	outer atomic.Pointer[http.Handler]
	// writes keeps other writes out between the look at a completion's condition and
	// the completion. All other requests are steps of their own to the backend.
	writes sync.RWMutex

	mu       sync.Mutex
	requests map[Kind]int
}

// Start starts a store with an empty bucket, at a free port of this machine.
func Start(o Options) (*Server, error) {
	backend := s3mem.New()
	if err := backend.CreateBucket(Bucket); err != nil {
		return nil, fmt.Errorf("make a bucket in memory: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the listener lives until Close
	if err != nil {
		return nil, fmt.Errorf("listen for S3 requests: %w", err)
	}
	s := &Server{deaf: o.Deaf, backend: gofakes3.New(backend).Server(), listener: listener, requests: map[Kind]int{}}
	s.Wrap(nil)
	s.server = &http.Server{Handler: s} //nolint:gosec // a test's own client may take its time
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// Close ends it, with all connections.
func (s *Server) Close() error {
	if err := s.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("close the S3 of a test: %w", err)
	}
	return nil
}

// Query is what the URL of a table in it has behind the question mark. It needs no
// credentials, of the environment or other.
func (s *Server) Query() url.Values {
	return url.Values{"endpoint": {"http://" + s.listener.Addr().String()}, "region": {"us-east-1"}, "anonymous": {"true"}}
}

// URL is that of a table at prefix.
func (s *Server) URL(prefix string) string {
	return "s3://" + Bucket + "/" + strings.Trim(prefix, "/") + "?" + s.Query().Encode()
}

// Wrap puts something around the store, in the place of what was there; nil leaves the
// store alone. What it wraps is a plain store: what around answers itself, that the
// store does not see.
func (s *Server) Wrap(around func(store http.Handler) http.Handler) {
	var h http.Handler = http.HandlerFunc(s.serve)
	if around != nil {
		h = around(h)
	}
	s.outer.Store(&h)
}

// Requests is how many of each kind came since the start or the last Forget.
func (s *Server) Requests() map[Kind]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Forget begins the count anew.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = map[Kind]int{}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests[KindOf(r)]++
	s.mu.Unlock()
	(*s.outer.Load()).ServeHTTP(w, r)
}

// serve is the store.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	kind := KindOf(r)
	if kind == Put || kind == Part || kind == Complete {
		// The body first: locks do not wait for a client.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	switch match := r.Header.Get("If-Match"); {
	case kind == Complete:
		s.complete(w, r)
		return
	case kind == Put, kind == Delete:
		s.writes.RLock()
		defer s.writes.RUnlock()
	case match != "":
		m := &matching{ResponseWriter: w, etag: match}
		defer m.end()
		w = m
	}
	s.backend.ServeHTTP(w, r)
}

// complete completes an upload in parts if its condition holds. The answer has the
// ETag by which the backend knows the object from then on.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	s.writes.Lock()
	defer s.writes.Unlock()
	there, etag := s.head(r)
	if match := r.Header.Get("If-Match"); !s.deaf && (there && r.Header.Get("If-None-Match") == "*" || match != "" && match != etag) {
		Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	answer := httptest.NewRecorder()
	s.backend.ServeHTTP(answer, r)
	var result gofakes3.CompleteMultipartUploadResult
	if answer.Code == http.StatusOK && xml.Unmarshal(answer.Body.Bytes(), &result) == nil {
		_, result.ETag = s.head(r)
		answer.Body.Reset()
		_ = xml.NewEncoder(answer.Body).Encode(&result)
	}
	Copy(w, answer)
}

func (s *Server) head(r *http.Request) (there bool, etag string) {
	answer := s.ask(http.MethodHead, r.URL.EscapedPath())
	return answer.Code == http.StatusOK, answer.Header().Get("ETag")
}

// ask asks the backend something that is not counted.
func (s *Server) ask(method, target string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	s.backend.ServeHTTP(answer, httptest.NewRequest(method, target, http.NoBody)) //nolint:noctx // it ends with the call
	return answer
}

// Unfinished are the keys of the uploads in parts that were neither completed nor
// aborted.
func (s *Server) Unfinished() (keys []string, err error) {
	answer := s.ask(http.MethodGet, "/"+Bucket+"?uploads")
	if answer.Code == http.StatusNotFound {
		return nil, nil // there never was one
	}
	var list struct {
		Upload []struct{ Key string }
	}
	if err := xml.Unmarshal(answer.Body.Bytes(), &list); err != nil {
		return nil, fmt.Errorf("list the uploads in parts of a test's S3: status %d, %w", answer.Code, err)
	}
	for _, u := range list.Upload {
		keys = append(keys, u.Key)
	}
	return keys, nil
}

// Refuse answers with an error as S3 does.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}{Code: code})
}

// Copy gives an answer that was recorded.
func Copy(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(w)
}

// matching turns the answer to a read into a refusal when the object is not the one
// that the condition names.
type matching struct {
	http.ResponseWriter
	etag           string
	begun, refused bool
}

// WriteHeader implements http.ResponseWriter.
func (m *matching) WriteHeader(status int) {
	m.begun = true
	if status < http.StatusMultipleChoices && m.Header().Get("ETag") != m.etag {
		m.refused = true
		for _, name := range []string{"ETag", "Content-Length", "Content-Range", "Accept-Ranges"} {
			m.Header().Del(name)
		}
		Refuse(m.ResponseWriter, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	m.ResponseWriter.WriteHeader(status)
}

// end answers where there was no body to do it.
func (m *matching) end() {
	if !m.begun {
		m.WriteHeader(http.StatusOK)
	}
}

// Write implements io.Writer.
func (m *matching) Write(p []byte) (int, error) {
	m.end()
	if m.refused {
		return len(p), nil
	}
	return m.ResponseWriter.Write(p)
}
