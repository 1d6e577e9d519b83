package cloud_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// s3Server is a store in memory that speaks S3. What it lacks of Amazon's is added
// here: the condition of a completion.
type s3Server struct {
	backend http.Handler
	// deaf leaves the completion as it is.
	deaf bool
	// before and instead see each request; instead says whether it has answered.
	// after may spoil the answer that the store gave.
	instead func(w http.ResponseWriter, r *http.Request) bool
	after   func(r *http.Request, answer *httptest.ResponseRecorder)

	mu       sync.Mutex
	requests map[string]int
}

const bucket = "bucket"

// startS3 starts one with an empty bucket.
func startS3(t *testing.T, s *s3Server) url.Values {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", "/nothing")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nothing")
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	s.backend, s.requests = gofakes3.New(backend).Server(), map[string]int{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return url.Values{"endpoint": {server.URL}, "region": {"us-east-1"}}
}

// kind is what a request is, as Amazon's price list has it.
func kind(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && q.Has("list-type"):
		return "list"
	case q.Has("uploads") && r.Method == http.MethodPost:
		return "begin"
	case q.Has("uploadId") && r.Method == http.MethodPost:
		return "complete"
	case q.Has("uploadId") && r.Method == http.MethodPut:
		return "part"
	case q.Has("uploadId") && r.Method == http.MethodDelete:
		return "abort"
	}
	return strings.ToLower(r.Method)
}

func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[kind(r)]++
	if s.instead != nil && s.instead(w, r) {
		return
	}
	if kind(r) == "complete" && !s.deaf && r.Header.Get("If-None-Match") == "*" && s.has(r) {
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	answer := httptest.NewRecorder()
	s.backend.ServeHTTP(answer, r)
	if s.after != nil {
		s.after(r, answer)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = io.Copy(w, answer.Body)
}

func (s *s3Server) has(r *http.Request) bool {
	head := httptest.NewRequest(http.MethodHead, r.URL.Path, http.NoBody)
	answer := httptest.NewRecorder()
	s.backend.ServeHTTP(answer, head)
	return answer.Code == http.StatusOK
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}{Code: code})
}

func open(t *testing.T, query url.Values, o cloud.Options) *cloud.Driver {
	t.Helper()
	o.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	if o.PartBytes == 0 {
		o.PartBytes = 5 << 20
	}
	d, err := cloud.Open(t.Context(), cloud.SchemeS3, bucket, "lake/table", query, &o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Driver { return open(t, startS3(t, &s3Server{}), cloud.Options{}) })
}

func TestProbe(t *testing.T) {
	ctx := t.Context()
	left := func(d *cloud.Driver) (n int) {
		for range d.List(ctx, "", false) {
			n++
		}
		return n
	}
	good := open(t, startS3(t, &s3Server{}), cloud.Options{})
	if err := storage.New(good, nil).Probe(ctx, ".hoodie/couch2hudi/"); err != nil || left(good) > 0 {
		t.Errorf("a store that minds: %v, %d left", err, left(good))
	}
	for what, c := range map[string]struct {
		server *s3Server
		says   string
	}{
		"completions": {&s3Server{deaf: true}, "in parts"},
		"absence":     {&s3Server{instead: without("If-None-Match")}, "if nothing is there"},
		"versions":    {&s3Server{instead: without("If-Match")}, "over one version"},
	} {
		d := open(t, startS3(t, c.server), cloud.Options{})
		err := storage.New(d, nil).Probe(ctx, ".hoodie/couch2hudi/")
		if !errors.Is(err, storage.ErrUnsafe) || !strings.Contains(err.Error(), c.says) || left(d) > 0 {
			t.Errorf("a store deaf to the condition of %s: %v, %d left", what, err, left(d))
		}
	}
	down := open(t, startS3(t, &s3Server{instead: func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusForbidden, "AccessDenied")
		return true
	}}), cloud.Options{})
	if err := down.Probe(ctx, "x/"); err == nil || errors.Is(err, storage.ErrUnsafe) {
		t.Errorf("a store that lets nobody in: %v", err)
	}
}

// without makes a server overlook a header.
func without(header string) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del(header)
		return false
	}
}

// A fault comes with each first try of a request: before it took effect, after it,
// or in the middle of the answer.
func TestFaultsPass(t *testing.T) {
	for name, fault := range map[string]func(*s3Server){
		"500 before": func(s *s3Server) {
			seen := 0
			s.instead = func(w http.ResponseWriter, _ *http.Request) bool {
				if seen++; seen%2 == 1 {
					refuse(w, http.StatusInternalServerError, "InternalError")
				}
				return seen%2 == 1
			}
		},
		"503 after": func(s *s3Server) {
			seen := 0
			s.after = func(_ *http.Request, answer *httptest.ResponseRecorder) {
				if seen++; seen%2 == 1 {
					answer.Code, answer.Body = http.StatusServiceUnavailable, &bytes.Buffer{}
					answer.Header().Del("Content-Length")
				}
			}
		},
		"409 before": func(s *s3Server) {
			seen := 0
			s.instead = func(w http.ResponseWriter, r *http.Request) bool {
				if kind(r) != "put" && kind(r) != "complete" {
					return false
				}
				if seen++; seen%2 == 1 {
					refuse(w, http.StatusConflict, "ConditionalRequestConflict")
				}
				return seen%2 == 1
			}
		},
		"connection closed after": func(s *s3Server) {
			seen := 0
			s.after = func(*http.Request, *httptest.ResponseRecorder) {
				if seen++; seen%2 == 1 {
					panic(http.ErrAbortHandler)
				}
			}
		},
		"half an answer": func(s *s3Server) {
			seen := 0
			s.after = func(_ *http.Request, answer *httptest.ResponseRecorder) {
				if seen++; seen%2 == 1 && answer.Body.Len() > 1 {
					answer.Body.Truncate(answer.Body.Len() / 2)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &s3Server{}
			d := open(t, startS3(t, s), cloud.Options{})
			fault(s)
			useAll(t, storage.New(d, nil))
		})
	}
}

// useAll makes one request of each kind and looks at what became of it.
func useAll(t *testing.T, b *storage.Bucket) {
	t.Helper()
	ctx := t.Context()
	must := func(o storage.Object, err error) storage.Object {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	content := bytes.Repeat([]byte("0123456789"), 600_000)
	one := must(b.PutIfAbsent(ctx, "f/one", []byte("one")))
	if _, err := b.PutIfAbsent(ctx, "f/one", []byte("one")); !errors.Is(err, storage.ErrExist) {
		t.Errorf("the same put again: %v", err)
	}
	two := must(b.PutIfMatch(ctx, "f/one", []byte("two"), one.ETag))
	if _, err := b.PutIfMatch(ctx, "f/one", []byte("two"), one.ETag); !errors.Is(err, storage.ErrChanged) {
		t.Errorf("a put over an old version: %v", err)
	}
	must(b.Put(ctx, "f/one", []byte("three")))
	up, err := b.Create(ctx, "f/large", storage.Cond{Absent: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.Write(content); err != nil {
		t.Fatal(err)
	}
	must(up.Commit())
	if got, err := b.ReadAll(ctx, "f/large", 1<<30); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := b.ReadAll(ctx, "f/one", 100); err != nil || string(got) != "three" || two.Size != 3 {
		t.Errorf("%q, %v", got, err)
	}
	var names []string
	for o, err := range b.List(ctx, "f/") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Name)
	}
	if strings.Join(names, " ") != "f/large f/one" {
		t.Errorf("%q", names)
	}
	if err := b.Delete(ctx, "f/one"); err != nil {
		t.Error(err)
	}
	if err := b.Delete(ctx, "f/one"); !errors.Is(err, storage.ErrNotExist) {
		t.Error(err)
	}
}

// Another writer comes between a try whose answer was lost and the next one.
func TestLostAnswerIsNotTakenForAnothers(t *testing.T) {
	s := &s3Server{}
	query := startS3(t, s)
	d := open(t, query, cloud.Options{})
	other := open(t, query, cloud.Options{})
	ctx := t.Context()
	tries := 0
	s.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if kind(r) != "put" || r.Header.Get("If-None-Match") == "" {
			return false
		}
		if tries++; tries > 1 {
			return false
		}
		// The request is lost, and another's put, of equal content, is quicker.
		s.mu.Unlock()
		defer s.mu.Lock()
		if _, err := other.Put(ctx, "o", []byte("same"), storage.Cond{}); err != nil {
			t.Error(err)
		}
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	}
	if _, err := d.Put(ctx, "o", []byte("same"), storage.Cond{Absent: true}); !errors.Is(err, storage.ErrExist) || tries != 2 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// A store that is down is given up in the end, and nothing is claimed of the put.
func TestPatienceEnds(t *testing.T) {
	s := &s3Server{}
	query := startS3(t, s)
	d := open(t, query, cloud.Options{Patience: time.Millisecond})
	s.instead = func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	}
	_, err := d.Put(t.Context(), "o", nil, storage.Cond{Absent: true})
	if err == nil || errors.Is(err, storage.ErrExist) || errors.Is(err, storage.ErrChanged) || !strings.Contains(err.Error(), "tried") {
		t.Error(err)
	}
}

// A request that gets no answer is cut off and made again.
func TestTimeout(t *testing.T) {
	s := &s3Server{}
	query := startS3(t, s)
	d := open(t, query, cloud.Options{Timeout: 50 * time.Millisecond})
	silent := true
	s.instead = func(_ http.ResponseWriter, r *http.Request) bool {
		if !silent {
			return false
		}
		silent = false
		s.mu.Unlock()
		defer s.mu.Lock()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	}
	if _, err := d.Put(t.Context(), "o", []byte("x"), storage.Cond{Absent: true}); err != nil {
		t.Error(err)
	}
}

func TestSweepAbortsOldUploads(t *testing.T) {
	s := &s3Server{}
	query := startS3(t, s)
	ctx := t.Context()
	dead, living := open(t, query, cloud.Options{}), open(t, query, cloud.Options{Stale: time.Nanosecond})
	begin := func(d *cloud.Driver, name string) storage.Upload {
		up, err := d.Create(ctx, name, storage.Cond{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := up.Write(make([]byte, 11<<20)); err != nil {
			t.Fatal(err)
		}
		return up
	}
	begin(dead, "f/dead")
	up := begin(living, "f/living")
	elsewhere, err := cloud.Open(ctx, cloud.SchemeS3, bucket, "lake/table2", query, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin(elsewhere, "f/dead")
	if n, err := dead.Sweep(ctx); n != 0 || err != nil {
		t.Errorf("young ones: %d, %v", n, err)
	}
	if n, err := living.Sweep(ctx); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := up.Commit(); err != nil {
		t.Error(err)
	}
	again := begin(living, "f/again")
	if err := again.Abort(); err != nil || s.requests["abort"] != 2 {
		t.Errorf("%v, %v", err, s.requests)
	}
}

// What a call costs.
func TestRequests(t *testing.T) {
	s := &s3Server{}
	b := storage.New(open(t, startS3(t, s), cloud.Options{}), nil)
	for _, c := range []struct {
		what string
		do   func() error
		want map[string]int
	}{
		{"put", func() error { _, err := b.PutIfAbsent(t.Context(), "o", []byte("x")); return err }, map[string]int{"put": 1}},
		{"small upload", func() error {
			up, err := b.Create(t.Context(), "u", storage.Cond{Absent: true})
			if err != nil {
				return err
			}
			_, err = up.Commit()
			return err
		}, map[string]int{"put": 1}},
		{"read", func() error { _, err := b.ReadAll(t.Context(), "o", 9); return err }, map[string]int{"head": 1, "get": 1}},
		{"list", func() error {
			for _, err := range b.List(t.Context(), "") {
				if err != nil {
					return err
				}
			}
			return nil
		}, map[string]int{"list": 1}},
		{"delete", func() error { return b.Delete(t.Context(), "o") }, map[string]int{"head": 1, "delete": 1}},
	} {
		s.requests = map[string]int{}
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if len(s.requests) != len(c.want) {
			t.Errorf("%s: %v", c.what, s.requests)
		}
		for kind, n := range c.want {
			if s.requests[kind] != n {
				t.Errorf("%s: %v", c.what, s.requests)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/nothing")
	for _, c := range []struct{ scheme, query string }{{"ftp", ""}, {"s3", ""}, {"s3", "region=x&what=1"}, {"s3", "endpoint=http://h&use_path_style=maybe"}} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cloud.Open(t.Context(), c.scheme, bucket, "t", query, nil); !errors.Is(err, cloud.ErrURL) {
			t.Errorf("%s?%s: %v", c.scheme, c.query, err)
		}
	}
}
