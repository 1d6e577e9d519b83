package couchfake_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

func TestRecordedFeeds(t *testing.T) {
	script{
		file:   "b_feeds",
		before: map[string]func(*testing.T, *couchfake.Server){"": fillFeed},
		since: map[string]func(*testing.T, *couchfake.Server) string{
			"descending_since": func(t *testing.T, s *couchfake.Server) string { return database(t, s, "feed").Seq() },
		},
		rewrite: func(path string) string { // the wait is not what is compared
			for _, ms := range []string{"1500", "1000", "700"} {
				path = strings.ReplaceAll(path, "timeout="+ms, "timeout=40")
			}
			return path
		},
		only: []string{
			"normal", "include_docs", "limit_all_exact", "limit_more", "all_docs_style", "conflicts", "all_docs_incl", "doc_ids",
			"filter_design", "post_body_plain", "accept_text", "gzip", "etag", "descending_since", "longpoll_timeout",
		},
	}.play(t, testUsers())
}

// fillFeed makes the database of the recorded feeds.
func fillFeed(t *testing.T, s *couchfake.Server) {
	db := create(t, s, "feed", 2)
	numbered("feed", "doc%d", 6)(t, s)
	replicate(t, db, "withatt", `{"n":7,"_attachments":{
		"a.txt":{"content_type":"text/plain","revpos":1,"digest":"md5-ek6EXEllw5ysI6gVRknasw==","length":340,"stub":true},
		"b.bin":{"content_type":"application/octet-stream","revpos":1,"digest":"md5-stP1a8GX/ZhdWWUHm15xSA==","length":64,"stub":true}}}`,
		"1-afeb6f71e3ec5b6ecce813f866735c7f")
	replicate(t, db, "conf", `{"v":"a"}`, "1-aaa")
	replicate(t, db, "conf", `{"v":"b"}`, "1-bbb")
	replicate(t, db, "_design/app", `{"filters":{"even":"function(d,r){return d.n%2==0}"},"views":{"v":{"map":"function(d){emit(d.n)}"}}}`,
		"1-902ec3c45093de604c533a34da13e185")
}

// row is a line of a feed.
type row struct {
	Seq     *string
	ID      string
	Changes []struct{ Rev string }
	Deleted bool
	Doc     json.RawMessage
	LastSeq string `json:"last_seq"`
}

// list is an answer of the normal feed.
type list struct {
	Results []row
	LastSeq string `json:"last_seq"`
	Pending int
}

func get(t *testing.T, s *couchfake.Server, path string) *http.Response {
	t.Helper()
	res, err := http.Get(s.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func read(t *testing.T, s *couchfake.Server, path string) string {
	t.Helper()
	b, err := io.ReadAll(get(t, s, path).Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func changes(t *testing.T, s *couchfake.Server, path string) list {
	t.Helper()
	var l list
	body := read(t, s, path)
	if !strings.HasPrefix(body, `{"results"`) {
		t.Fatalf("%s: %s", path, body)
	}
	if err := json.Unmarshal([]byte(body), &l); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return l
}

// nulls tells which rows have no seq.
func nulls(rows []row) string {
	b := make([]byte, len(rows))
	for i, r := range rows {
		b[i] = 'S'
		if r.Seq == nil {
			b[i] = '-'
		}
	}
	return string(b)
}

func TestSeqIntervalAgreesWithTheRecordedServer(t *testing.T) {
	s := start(t, couchfake.Options{})
	fillFeed(t, s)
	for _, e := range recordings(t, "b_feeds") {
		if !strings.HasPrefix(e.Label, "seq_interval") {
			continue
		}
		var want list
		if err := json.Unmarshal([]byte(e.Response.Body.Text), &want); err != nil {
			t.Fatal(err)
		}
		got := changes(t, s, e.Request.Path)
		if nulls(got.Results) != nulls(want.Results) || got.Pending != want.Pending || got.LastSeq == "" {
			t.Errorf("%s: %s pending %d, recorded %s pending %d", e.Label, nulls(got.Results), got.Pending, nulls(want.Results), want.Pending)
		}
	}
	body := read(t, s, "/feed/_changes?feed=continuous&since=0&limit=5&seq_interval=3&timeout=1000")
	var rows []row
	for _, l := range strings.Split(strings.TrimSpace(body), "\n") {
		var r row
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if !strings.HasSuffix(body, `"pending":4}`+"\n\n") {
		t.Errorf("a continuous feed ended by its limit: %s", body)
	}
	if got := nulls(rows[:5]); got != "--S--" || rows[5].LastSeq == "" || len(rows) != 6 {
		t.Errorf("continuous: %s and %+v", got, rows[5:])
	}
}

func TestLimits(t *testing.T) {
	s := start(t, couchfake.Options{})
	fillFeed(t, s)
	for _, c := range []struct{ query, want string }{
		{"limit=0", "0 rows, pending 9"}, {"limit=3", "3 rows, pending 6"}, {"limit=-1", "9 rows, pending 0"}, {"limit=9", "9 rows, pending 0"},
		{"descending=true&limit=3", "3 rows, pending 6"}, {"filter=_doc_ids&doc_ids=%5B%22doc1%22%5D", "1 rows, pending 8"},
	} {
		l := changes(t, s, "/feed/_changes?"+c.query)
		if got := fmt.Sprintf("%d rows, pending %d", len(l.Results), l.Pending); got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
}

// stream reads the lines of an open feed.
type stream struct {
	t   *testing.T
	res *http.Response
	r   *bufio.Reader
}

func open(t *testing.T, s *couchfake.Server, path string) *stream {
	t.Helper()
	res := get(t, s, path)
	return &stream{t, res, bufio.NewReader(res.Body)}
}

// line reads one line, without its end.
func (st *stream) line() string {
	st.t.Helper()
	l, err := st.r.ReadString('\n')
	if err != nil {
		st.t.Fatalf("read line: %v after %q", err, l)
	}
	return l[:len(l)-1]
}

// rest reads to the end.
func (st *stream) rest() (string, error) {
	b, err := io.ReadAll(st.r)
	return string(b), err
}

func TestFramingOfStreams(t *testing.T) {
	text := map[string]string{}
	for _, e := range recordings(t, "b_feeds") {
		text[e.Label] = mask(e.Response.Body.Text)
	}
	s := start(t, couchfake.Options{})
	fillFeed(t, s)
	db := database(t, s, "feed")
	for _, c := range []struct{ label, query string }{
		{"cont_timeout_nothing", "feed=continuous&since=now&timeout=30"},
		{"live", "feed=live&since=now&timeout=30"},
		{"longpoll_timeout", "feed=longpoll&since=now&timeout=30"},
	} {
		if got := mask(read(t, s, "/feed/_changes?"+c.query)); got != text[c.label] {
			t.Errorf("%s: got %q, recorded %q", c.label, got, text[c.label])
		}
	}
	st := open(t, s, "/feed/_changes?feed=longpoll&since=now&timeout=10000")
	if head, beat := st.line(), st.line(); head != `{"results":[` || beat != "" {
		t.Errorf("longpoll begins with %q %q", head, beat)
	}
	put(t, db, "late", `{"n":50}`)
	rest, err := st.rest()
	if want := "\n" + `{"seq":*,"id":"late","changes":[{"rev":"1-e19c7f8f9535fc4c46cfa6a3bd44ca6a"}]}` + "\n],\n\"last_seq\":*,\"pending\":0}\n\n"; mask(rest) != want || err != nil {
		t.Errorf("longpoll goes on with %q, want %q (%v)", mask(rest), want, err)
	}
}

func TestContinuousBeatsAndEnds(t *testing.T) {
	s := start(t, couchfake.Options{})
	db := create(t, s, "db", 2)
	put(t, db, "old", `{}`)
	st := open(t, s, "/db/_changes?feed=continuous&since=0&heartbeat=20&timeout=30")
	if l := st.line(); !strings.Contains(l, `"id":"old"`) {
		t.Fatalf("first line %q", l)
	}
	for range 4 {
		if l := st.line(); l != "" {
			t.Fatalf("want a heartbeat, got %q", l)
		}
	}
	put(t, db, "new", `{}`)
	l := st.line()
	for l == "" {
		l = st.line()
	}
	if !strings.Contains(l, `"id":"new"`) {
		t.Fatalf("after the heartbeats %q", l)
	}
	if err := s.Drop("db"); err != nil {
		t.Fatal(err)
	}
	rest, err := st.rest()
	if err != nil || !strings.HasPrefix(strings.TrimLeft(rest, "\n"), `{"last_seq":"2-`) || !strings.HasSuffix(rest, `,"pending":0}`+"\n\n") {
		t.Errorf("a dropped database ends the feed with %q, %v", rest, err)
	}
	if res := get(t, s, "/db/_changes"); res.StatusCode != http.StatusNotFound {
		t.Errorf("afterwards %d", res.StatusCode)
	}
}

func TestEventsource(t *testing.T) {
	s := start(t, couchfake.Options{})
	db := create(t, s, "db", 1)
	put(t, db, "a", `{}`)
	st := open(t, s, "/db/_changes?feed=eventsource&since=0&heartbeat=20")
	data, id, blank := st.line(), st.line(), st.line()
	if !strings.HasPrefix(data, `data: {"seq":"1-`) || !strings.HasPrefix(id, `id: "1-`) || blank != "" {
		t.Errorf("got %q %q %q", data, id, blank)
	}
	if a, b, c := st.line(), st.line(), st.line(); a != "event: heartbeat" || b != "data: " || c != "" {
		t.Errorf("heartbeat %q %q %q", a, b, c)
	}
	req, err := http.NewRequest(http.MethodGet, s.URL()+"/db/_changes?feed=eventsource&timeout=20", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", strings.TrimPrefix(id, "id: "))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); strings.Contains(string(b), `"id":"a"`) || strings.Contains(string(b), "last_seq") || err != nil {
		t.Errorf("resumed by Last-Event-ID: %q %v", b, err)
	}
}

func TestCloseBreaksOpenFeeds(t *testing.T) {
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := create(t, s, "db", 2)
	put(t, db, "a", `{}`)
	st := open(t, s, "/db/_changes?feed=continuous&heartbeat=10000")
	st.line()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := st.rest(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v; want an unexpected end", rest, err)
	}
}

func TestResumeFromEachRowMissesNothing(t *testing.T) {
	for _, q := range []int{1, 2, 8} {
		t.Run(strconv.Itoa(q), func(t *testing.T) {
			s := start(t, couchfake.Options{Seed: uint64(q)})
			db := create(t, s, "db", q)
			want := map[string]bool{}
			for i := range 120 {
				id := fmt.Sprintf("d%03d", i%90) // some are written twice, and stand at their later place
				put(t, db, id, fmt.Sprintf(`{"n":%d}`, i))
				want[id] = true
			}
			all := changes(t, s, "/db/_changes")
			if len(all.Results) != len(want) {
				t.Fatalf("%d rows of %d", len(all.Results), len(want))
			}
			for i, r := range all.Results {
				rest := changes(t, s, "/db/_changes?since="+url.QueryEscape(*r.Seq))
				seen := map[string]bool{}
				for _, o := range slices.Concat(all.Results[:i+1], rest.Results) {
					if seen[o.ID] {
						t.Fatalf("row %d: %s twice", i, o.ID)
					}
					seen[o.ID] = true
				}
				if len(seen) != len(want) {
					t.Fatalf("row %d: %d documents of %d", i, len(seen), len(want))
				}
			}
			page(t, s, len(want))
		})
	}
}

// page reads the feed in small batches.
func page(t *testing.T, s *couchfake.Server, want int) {
	t.Helper()
	since, seen := "0", map[string]bool{}
	for left := want; ; {
		l := changes(t, s, "/db/_changes?limit=4&seq_interval=1000&since="+url.QueryEscape(since))
		if len(l.Results) == 0 {
			break
		}
		left -= len(l.Results)
		if l.Pending != left {
			t.Fatalf("pending %d, want %d", l.Pending, left)
		}
		for _, r := range l.Results {
			seen[r.ID] = true
		}
		since = l.LastSeq
	}
	if len(seen) != want {
		t.Fatalf("%d documents of %d", len(seen), want)
	}
}

func TestOrderOfShardsVaries(t *testing.T) {
	s := start(t, couchfake.Options{})
	db := create(t, s, "db", 2)
	for i := range 40 {
		put(t, db, fmt.Sprint("d", i), `{}`)
	}
	orders := map[string]bool{}
	for range 6 {
		var ids []string
		for _, r := range changes(t, s, "/db/_changes").Results {
			ids = append(ids, r.ID)
		}
		orders[strings.Join(ids, " ")] = true
	}
	if len(orders) < 2 {
		t.Error("six reads in one and the same order")
	}
}

func TestFeedTimeoutIsCapped(t *testing.T) {
	s := start(t, couchfake.Options{FeedTimeout: 20 * time.Millisecond})
	create(t, s, "db", 2)
	for _, q := range []string{"", "&timeout=90000"} {
		if b := read(t, s, "/db/_changes?feed=continuous&since=now"+q); !strings.HasPrefix(b, "\n{\"last_seq\"") {
			t.Errorf("%q: %q", q, b)
		}
	}
}

func TestPostedFeed(t *testing.T) {
	s, _ := filled(t, 3)
	walk(t, s, []step{
		{"POST", "/db/_changes", ``, 200, `{"results":[`},
		{"POST", "/db/_changes", `{}`, 200, `{"results":[`},
		{"POST", "/db/_changes", `x`, 400, `{"error":"bad_request","reason":"invalid UTF-8 JSON"}`},
		{"POST", "/db/_changes", `[]`, 400, `{"error":"bad_request"`},
		{"POST", "/db/_changes?filter=_doc_ids", `{"doc_ids":"x"}`, 400, `{"error":"bad_request"`},
		{"POST", "/db/_changes?filter=_doc_ids", `{}`, 400, `{"error":"bad_request"`},
		{"POST", "/db/_changes?filter=_selector", `{"selector":{}}`, 501, `{"error":"not_implemented"`},
		{"GET", "/db/_changes?timeout=x", ``, 500, `{"error":"unknown_error","reason":"badarg"`},
		{"GET", "/db/_changes?seq_interval=x", ``, 500, `{"error":"unknown_error","reason":"badarg"`},
		{"GET", "/db/_changes?filter=_doc_ids&doc_ids=%5B1%5D", ``, 400, `{"error":"bad_request"`},
	})
	if res, b := ask(t, http.MethodPost, s.URL()+"/db/_changes", `{}`); res.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("without a content type: %d %s", res.StatusCode, b)
	}
}
