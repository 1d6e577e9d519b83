package cloud_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/s3fake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

const bucket = s3fake.Bucket

// startS3 starts a store with an empty bucket.
func startS3(t *testing.T, o s3fake.Options) *s3fake.Server {
	t.Helper()
	s, err := s3fake.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// instead sees each request before the store does, and says whether it has answered.
func instead(f func(w http.ResponseWriter, r *http.Request) bool) func(http.Handler) http.Handler {
	return func(store http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !f(w, r) {
				store.ServeHTTP(w, r)
			}
		})
	}
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
	storagetest.Run(t, func(t *testing.T) storage.Driver {
		return open(t, startS3(t, s3fake.Options{}).Query(), cloud.Options{})
	})
}

// Requests are signed with what the environment says.
func TestSigned(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", "/nothing")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nothing")
	s := startS3(t, s3fake.Options{})
	s.Wrap(instead(func(w http.ResponseWriter, r *http.Request) bool {
		signed := strings.Contains(r.Header.Get("Authorization"), "Credential=id/")
		if !signed {
			s3fake.Refuse(w, http.StatusForbidden, "AccessDenied")
		}
		return !signed
	}))
	query := s.Query()
	query.Del("anonymous")
	useAll(t, storage.New(open(t, query, cloud.Options{}), nil))
	if _, err := open(t, s.Query(), cloud.Options{}).Stat(t.Context(), "o"); err == nil {
		t.Error("a request without a signature was let in")
	}
}

func TestProbe(t *testing.T) {
	ctx := t.Context()
	left := func(d *cloud.Driver) (n int) {
		for range d.List(ctx, "", false) {
			n++
		}
		return n
	}
	good := open(t, startS3(t, s3fake.Options{}).Query(), cloud.Options{})
	if err := storage.New(good, nil).Probe(ctx, ".hoodie/couch2hudi/"); err != nil || left(good) > 0 {
		t.Errorf("a store that minds: %v, %d left", err, left(good))
	}
	for what, c := range map[string]struct {
		deaf    bool
		without string
		says    string
	}{
		"completions": {true, "-", "in parts"},
		"absence":     {false, "If-None-Match", "if nothing is there"},
		"versions":    {false, "If-Match", "over one version"},
	} {
		s := startS3(t, s3fake.Options{Deaf: c.deaf})
		s.Wrap(without(c.without))
		d := open(t, s.Query(), cloud.Options{})
		err := storage.New(d, nil).Probe(ctx, ".hoodie/couch2hudi/")
		if !errors.Is(err, storage.ErrUnsafe) || !strings.Contains(err.Error(), c.says) || left(d) > 0 {
			t.Errorf("a store deaf to the condition of %s: %v, %d left", what, err, left(d))
		}
	}
	s := startS3(t, s3fake.Options{})
	s.Wrap(instead(func(w http.ResponseWriter, _ *http.Request) bool {
		s3fake.Refuse(w, http.StatusForbidden, "AccessDenied")
		return true
	}))
	down := open(t, s.Query(), cloud.Options{})
	if err := down.Probe(ctx, "x/"); err == nil || errors.Is(err, storage.ErrUnsafe) {
		t.Errorf("a store that lets nobody in: %v", err)
	}
}

// without makes a server overlook a header.
func without(header string) func(http.Handler) http.Handler {
	return instead(func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del(header)
		return false
	})
}

// A fault comes with each first try of each kind of request, in each way.
func TestFaultsPass(t *testing.T) {
	const timeout, part = 50 * time.Millisecond, 30_000
	for _, way := range s3fake.Ways() {
		t.Run(string(way), func(t *testing.T) {
			hit := 0
			for _, kind := range s3fake.Kinds() {
				if !way.Fits(kind) {
					continue
				}
				s := startS3(t, s3fake.Options{})
				o := cloud.Options{PartBytes: part, Patience: time.Hour}
				every := 1
				if way.Waits() {
					o.Timeout, every = timeout, 10
				}
				f := s3fake.FirstTries(kind, way, every)
				s.Wrap(f.Wrap)
				useAll(t, storage.New(open(t, s.Query(), o), nil))
				hit += f.Hit()
			}
			if hit == 0 {
				t.Error("nothing went wrong")
			}
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
	content := bytes.Repeat([]byte("0123456789"), 10_000)
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
	s := startS3(t, s3fake.Options{})
	query := s.Query()
	d := open(t, query, cloud.Options{})
	other := open(t, query, cloud.Options{})
	ctx := t.Context()
	var tries atomic.Int64
	s.Wrap(instead(func(w http.ResponseWriter, r *http.Request) bool {
		if s3fake.KindOf(r) != s3fake.Put || r.Header.Get("If-None-Match") == "" || tries.Add(1) > 1 {
			return false
		}
		// The request is lost, and another's put, of equal content, is quicker.
		if _, err := other.Put(ctx, "o", []byte("same"), storage.Cond{}); err != nil {
			t.Error(err)
		}
		s3fake.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	}))
	if _, err := d.Put(ctx, "o", []byte("same"), storage.Cond{Absent: true}); !errors.Is(err, storage.ErrExist) || tries.Load() != 2 {
		t.Errorf("%v after %d tries", err, tries.Load())
	}
}

// A store that is down is given up in the end, and nothing is claimed of the put.
func TestPatienceEnds(t *testing.T) {
	s := startS3(t, s3fake.Options{})
	query := s.Query()
	d := open(t, query, cloud.Options{Patience: time.Millisecond})
	s.Wrap(instead(func(w http.ResponseWriter, _ *http.Request) bool {
		s3fake.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	}))
	_, err := d.Put(t.Context(), "o", nil, storage.Cond{Absent: true})
	if err == nil || errors.Is(err, storage.ErrExist) || errors.Is(err, storage.ErrChanged) {
		t.Error(err)
	}
	for _, says := range []string{"tried", "s3://" + bucket, query.Get("endpoint")} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not said: %v", says, err)
		}
	}
}

// A request that gets no answer is cut off and made again.
func TestTimeout(t *testing.T) {
	s := startS3(t, s3fake.Options{})
	query := s.Query()
	d := open(t, query, cloud.Options{Timeout: 50 * time.Millisecond})
	var seen atomic.Int64
	s.Wrap(instead(func(_ http.ResponseWriter, r *http.Request) bool {
		if seen.Add(1) > 1 {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	}))
	if _, err := d.Put(t.Context(), "o", []byte("x"), storage.Cond{Absent: true}); err != nil {
		t.Error(err)
	}
}

func TestSweepAbortsOldUploads(t *testing.T) {
	s := startS3(t, s3fake.Options{})
	query := s.Query()
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
	if err := again.Abort(); err != nil || s.Requests()[s3fake.Abort] != 2 {
		t.Errorf("%v, %v", err, s.Requests())
	}
}

// What a call costs.
func TestRequests(t *testing.T) {
	s := startS3(t, s3fake.Options{})
	b := storage.New(open(t, s.Query(), cloud.Options{}), nil)
	for _, c := range []struct {
		what string
		do   func() error
		want map[s3fake.Kind]int
	}{
		{"put", func() error { _, err := b.PutIfAbsent(t.Context(), "o", []byte("x")); return err }, map[s3fake.Kind]int{"put": 1}},
		{"small upload", func() error {
			up, err := b.Create(t.Context(), "u", storage.Cond{Absent: true})
			if err != nil {
				return err
			}
			_, err = up.Commit()
			return err
		}, map[s3fake.Kind]int{"put": 1}},
		{"read", func() error { _, err := b.ReadAll(t.Context(), "o", 9); return err }, map[s3fake.Kind]int{"get": 1}},
		{"list", func() error {
			for _, err := range b.List(t.Context(), "") {
				if err != nil {
					return err
				}
			}
			return nil
		}, map[s3fake.Kind]int{"list": 1}},
		{"delete", func() error { return b.Delete(t.Context(), "o") }, map[s3fake.Kind]int{"head": 1, "delete": 1}},
	} {
		s.Forget()
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := s.Requests(); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v", c.what, got)
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
