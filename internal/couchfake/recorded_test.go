package couchfake_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// recorded is one exchange with a real server.
type recorded struct {
	Label   string
	Request struct {
		Method, Path string
		Headers      map[string]string
		Body         *payload
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    payload
		End     string
	}
}

type payload struct {
	Text      string
	B64       string
	Truncated int `json:"truncated_from_bytes"`
}

// short says that only the beginning was kept.
func (p *payload) short() bool { return p != nil && p.Truncated > len(p.Text) }

func (p *payload) bytes(t *testing.T) []byte {
	t.Helper()
	if p == nil {
		return nil
	}
	if p.B64 != "" {
		b, err := base64.StdEncoding.DecodeString(p.B64)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return []byte(p.Text)
}

func recordings(t *testing.T, name string) []recorded {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "couchdb", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Exchanges []recorded }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	return file.Exchanges
}

// script says how to play a recording to the fake.
type script struct {
	file string
	// before does what was done unrecorded before an exchange; "" is before the first.
	before map[string]func(t *testing.T, s *couchfake.Server)
	// since gives the seq for an exchange whose own one no answer told.
	since map[string]func(t *testing.T, s *couchfake.Server) string
	// skip names exchanges that the fake does not answer alike, and why.
	skip map[string]string
	// rewrite changes the path that is asked for.
	rewrite func(string) string
	// only plays nothing but these, when it is not empty.
	only []string
}

// testUsers are those of the recorded server.
func testUsers() couchfake.Options {
	return couchfake.Options{Admins: map[string]string{"admin": "secret"}, Users: map[string]string{"reader": "r"}}
}

func start(t *testing.T, o couchfake.Options) *couchfake.Server {
	t.Helper()
	s, err := couchfake.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var (
	anySeq   = regexp.MustCompile(`"\d+-g1[A-Za-z0-9_-]+"`)
	anySince = regexp.MustCompile(`since=[^&]+`)
	masks    = []*regexp.Regexp{
		anySeq,
		regexp.MustCompile(`"instance_start_time":"\d+"`),
		regexp.MustCompile(`"sizes":\{[^}]*\}`),
		regexp.MustCompile(`955a4d8d07dd0c03b2754fd0[0-9a-f]{8}`),
	}
	randomID = regexp.MustCompile(`"id":"[0-9a-f]{32}"`)
)

// mask hides what differs from server to server.
func mask(s string) string {
	for _, m := range masks {
		s = m.ReplaceAllString(s, "*")
	}
	return randomID.ReplaceAllString(s, `"id":"*"`)
}

// lines sorts the rows of a feed: the order of shards is not told.
func lines(body string) string {
	l := strings.Split(strings.ReplaceAll(body, ",\r\n", "\n"), "\n")
	slices.Sort(l)
	return strings.Join(l, "\n")
}

// reorder puts the members of objects in the order of their names.
func reorder(t *testing.T, body string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// player plays one script.
type player struct {
	t    *testing.T
	s    *couchfake.Server
	seqs map[string]string // of the recorded server, and what the fake gave instead
}

func (sc script) play(t *testing.T, o couchfake.Options) {
	t.Helper()
	p := &player{t: t, s: start(t, o), seqs: map[string]string{}}
	if f := sc.before[""]; f != nil {
		f(t, p.s)
	}
	played := 0
	for _, e := range recordings(t, sc.file) {
		if f := sc.before[e.Label]; f != nil {
			f(t, p.s)
		}
		_, skipped := sc.skip[e.Label]
		if skipped || len(sc.only) > 0 && !slices.Contains(sc.only, e.Label) || e.Response.Body.short() || e.Request.Body.short() {
			continue
		}
		path := e.Request.Path
		if f := sc.since[e.Label]; f != nil {
			path = anySince.ReplaceAllLiteralString(path, "since="+url.QueryEscape(f(t, p.s)))
		}
		if sc.rewrite != nil {
			path = sc.rewrite(path)
		}
		t.Run(e.Label, func(t *testing.T) {
			p.t = t
			p.exchange(e, path)
		})
		played++
	}
	if played == 0 {
		t.Error("nothing played")
	}
}

func (p *player) exchange(e recorded, path string) {
	t := p.t
	t.Helper()
	res, body := p.send(e, p.translate(path))
	if res.StatusCode != e.Response.Status {
		t.Fatalf("%s %s: status %d, recorded %d: %s", e.Request.Method, path, res.StatusCode, e.Response.Status, body)
	}
	p.headers(res, e)
	want := e.Response.Body.Text
	p.learn(want, body)
	got, want := mask(body), mask(want)
	switch {
	case strings.Contains(path, "_changes"):
		got, want = lines(got), lines(want)
	case strings.HasSuffix(path, "_revs_diff"): // the ids come in no order
		got, want = reorder(t, got), reorder(t, want)
	}
	if got != want {
		t.Errorf("%s %s:\n got %s\nwant %s", e.Request.Method, path, got, want)
	}
}

func (p *player) send(e recorded, path string) (*http.Response, string) {
	t := p.t
	t.Helper()
	req, err := http.NewRequest(e.Request.Method, p.s.URL()+path, strings.NewReader(string(e.Request.Body.bytes(t))))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range e.Request.Headers {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// translate puts the fake's seq for a recorded one.
func (p *player) translate(path string) string {
	return anySince.ReplaceAllStringFunc(path, func(s string) string {
		old, err := url.QueryUnescape(s[len("since="):])
		if err != nil {
			return s
		}
		if seq, ok := p.seqs[old]; ok {
			return "since=" + url.QueryEscape(seq)
		}
		return s
	})
}

var lastSeq = regexp.MustCompile(`"(?:last_seq|update_seq)":"([^"]+)"`)

// learn notes which seq of the fake says what a recorded one said.
func (p *player) learn(want, got string) {
	w, g := lastSeq.FindStringSubmatch(want), lastSeq.FindStringSubmatch(got)
	if w != nil && g != nil {
		p.seqs[w[1]] = g[1]
	}
}

func (p *player) headers(res *http.Response, e recorded) {
	t := p.t
	t.Helper()
	for _, name := range []string{"Content-Type", "Allow", "X-Couch-Stack-Hash", "Location", "ETag"} {
		want, ok := e.Response.Headers[name]
		got := res.Header.Get(name)
		switch {
		case !ok && name == "ETag" && strings.Contains(e.Request.Path, "_local/"):
			continue
		case name == "Location":
			want, got = pathOf(t, want), pathOf(t, got)
			if strings.HasSuffix(want, "955a4d8d07dd0c03b2754fd041005df8") {
				continue
			}
		case name == "ETag" && !strings.Contains(want, "-"):
			continue // of a state, not of a revision
		}
		if got != want {
			t.Errorf("%s: %q, recorded %q", name, got, want)
		}
	}
	if chunked := e.Response.Headers["Transfer-Encoding"] == "chunked"; chunked && strings.Contains(e.Request.Path, "_changes") != slices.Contains(res.TransferEncoding, "chunked") && res.ContentLength < 0 {
		t.Errorf("chunked: %v, recorded %v", res.TransferEncoding, chunked)
	}
}

func pathOf(t *testing.T, location string) string {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return u.EscapedPath()
}

// create makes a database, and put a document, where the recorder did so off the record.
func create(t *testing.T, s *couchfake.Server, name string, q int) *couchfake.Database {
	t.Helper()
	db, err := s.CreateSharded(name, q)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func database(t *testing.T, s *couchfake.Server, name string) *couchfake.Database {
	t.Helper()
	db, ok := s.Database(name)
	if !ok {
		t.Fatalf("no database %s", name)
	}
	return db
}

func put(t *testing.T, db *couchfake.Database, id, body string) couchfake.Rev {
	t.Helper()
	r, err := db.Put(id, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func replicate(t *testing.T, db *couchfake.Database, id, body string, path ...string) {
	t.Helper()
	var revs []couchfake.Rev
	for _, s := range path {
		r, err := couchfake.ParseRev(s)
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, r)
	}
	if err := db.Replicate(id, revs, []byte(body)); err != nil {
		t.Fatal(err)
	}
}
