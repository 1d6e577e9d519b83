package couchfake_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// filled is a server with one database of n documents.
func filled(t *testing.T, n int) (*couchfake.Server, *couchfake.Database) {
	t.Helper()
	s := start(t, couchfake.Options{})
	db := create(t, s, "db", 2)
	for i := range n {
		put(t, db, fmt.Sprintf("d%03d", i), fmt.Sprintf(`{"n":%d}`, i))
	}
	return s, db
}

var feedOf = couchfake.Match{Endpoint: couchfake.Changes}

func TestCutAfterRows(t *testing.T) {
	s, _ := filled(t, 50)
	o := s.Control(feedOf, couchfake.Spoil{Rows: 7, Cut: true}, 1)
	b, err := io.ReadAll(get(t, s, "/db/_changes").Body)
	if n := strings.Count(string(b), `"id"`); n != 7 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d rows, then %v", n, err)
	}
	if o.Taken() != 1 || o.Fired() != 1 {
		t.Errorf("taken %d, fired %d", o.Taken(), o.Fired())
	}
	if l := changes(t, s, "/db/_changes"); len(l.Results) != 50 {
		t.Errorf("the next request has %d rows", len(l.Results))
	}
}

func TestCutWithinALine(t *testing.T) {
	s, _ := filled(t, 50)
	for _, k := range []int64{1, 14, 100, 1001} {
		s.Control(feedOf, couchfake.Spoil{Bytes: k, Cut: true}, 1)
		b, err := io.ReadAll(get(t, s, "/db/_changes").Body)
		if int64(len(b)) != k || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %d bytes, then %v", k, len(b), err)
		}
	}
}

func TestCutBeforeTheAnswer(t *testing.T) {
	s, _ := filled(t, 1)
	s.Control(couchfake.Match{Endpoint: couchfake.Info}, couchfake.Spoil{Cut: true}, 1)
	req, err := http.NewRequest(http.MethodPost, s.URL()+"/db", strings.NewReader(`{}`)) // a GET would be repeated by the client
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Error("an answer in spite of the cut")
	}
}

func TestStatus(t *testing.T) {
	s, _ := filled(t, 1)
	s.Control(couchfake.Match{Database: "db"}, couchfake.Spoil{Status: 429, RetryAfter: 7}, 2)
	for i, want := range []int{429, 429, 200} {
		res := get(t, s, "/db")
		if res.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i, res.StatusCode, want)
		}
		if want == 429 && res.Header.Get("Retry-After") != "7" {
			t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
		}
	}
	s.Control(feedOf, couchfake.Spoil{Status: 500}, 1)
	if b := read(t, s, "/db/_changes"); b != `{"error":"nodedown","reason":"progress not possible"}`+"\n" {
		t.Errorf("500 says %q", b)
	}
}

func TestPoliteEnd(t *testing.T) {
	s, _ := filled(t, 50)
	for _, feed := range []string{"normal", "continuous"} {
		s.Control(couchfake.Match{Feed: feed}, couchfake.Spoil{Rows: 9, Finish: true}, 1)
		body := read(t, s, "/db/_changes?heartbeat=1000&feed="+feed)
		last := lastSeq.FindStringSubmatch(body)
		if strings.Count(body, `"id"`) != 9 || last == nil || !strings.HasSuffix(body, `"pending":0}`+"\n\n") {
			t.Fatalf("%s: %s", feed, body)
		}
		if l := changes(t, s, "/db/_changes?since="+url.QueryEscape(last[1])); len(l.Results) != 41 {
			t.Errorf("%s: %d rows after the end", feed, len(l.Results))
		}
	}
	s.Control(feedOf, couchfake.Spoil{Finish: true}, 1)
	if l := changes(t, s, "/db/_changes"); len(l.Results) != 0 || l.LastSeq == "" {
		t.Errorf("an end at once has %d rows, last_seq %q", len(l.Results), l.LastSeq)
	}
}

func TestStall(t *testing.T) {
	s, _ := filled(t, 5)
	release := make(chan struct{})
	s.Control(feedOf, couchfake.Spoil{Rows: 2, Until: release}, 1)
	st := open(t, s, "/db/_changes?feed=continuous&timeout=10")
	st.line()
	st.line()
	third := make(chan string)
	go func() {
		l, err := st.r.ReadString('\n')
		third <- fmt.Sprint(l, err)
	}()
	select {
	case l := <-third:
		t.Fatalf("a line during the stall: %q", l)
	case <-time.After(30 * time.Millisecond):
	}
	close(release)
	if l := <-third; !strings.Contains(l, `"id"`) {
		t.Errorf("after the stall %q", l)
	}
	began := time.Now()
	s.Control(feedOf, couchfake.Spoil{Stall: 40 * time.Millisecond}, 1)
	changes(t, s, "/db/_changes")
	if d := time.Since(began); d < 40*time.Millisecond {
		t.Errorf("stalled for %v only", d)
	}
}

func TestStallEndsWithTheServer(t *testing.T) {
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "db", 1)
	o := s.Control(feedOf, couchfake.Spoil{Stall: time.Hour}, 1)
	done := make(chan error)
	go func() {
		res, err := http.Get(s.URL() + "/db/_changes")
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	for o.Taken() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("an answer from a server that was closed")
	}
}

func TestStopAndRestart(t *testing.T) {
	s, db := filled(t, 10)
	url, last := s.URL(), changes(t, s, "/db/_changes").LastSeq
	st := open(t, s, "/db/_changes?feed=continuous&heartbeat=10000&since="+last)
	st.line()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if rest, err := st.rest(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the open feed got %q, %v", rest, err)
	}
	if res, err := http.Get(url + "/db"); err == nil {
		res.Body.Close()
		t.Error("an answer from a stopped server")
	}
	put(t, db, "meanwhile", `{}`)
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("restarted at %s, not %s", s.URL(), url)
	}
	if l := changes(t, s, "/db/_changes?since="+last); len(l.Results) != 1 || l.Results[0].ID != "meanwhile" {
		t.Errorf("the old seq gives %+v", l.Results)
	}
}

func TestNullDocAndNullSeq(t *testing.T) {
	s, _ := filled(t, 5)
	s.Control(feedOf, couchfake.Spoil{Rows: 1000, NullDoc: "d003", NullSeq: true}, 1)
	l := changes(t, s, "/db/_changes?include_docs=true&style=all_docs")
	if nulls(l.Results) != "-----" || l.LastSeq == "" {
		t.Errorf("seqs %s", nulls(l.Results))
	}
	for _, r := range l.Results {
		if null := string(r.Doc) == "null"; null != (r.ID == "d003") {
			t.Errorf("%s has doc %s", r.ID, r.Doc)
		}
	}
}

func TestOrdersComeInTurnAndCanBeCancelled(t *testing.T) {
	s, _ := filled(t, 1)
	all := s.Control(couchfake.Match{Endpoint: couchfake.Info}, couchfake.Spoil{Status: 503}, -1)
	s.Control(couchfake.Match{Endpoint: couchfake.Info}, couchfake.Spoil{Status: 502}, 1)
	for range 3 {
		if c := get(t, s, "/db").StatusCode; c != 503 {
			t.Fatalf("status %d", c)
		}
	}
	all.Cancel()
	if a, b := get(t, s, "/db").StatusCode, get(t, s, "/db").StatusCode; a != 502 || b != 200 || all.Taken() != 3 {
		t.Errorf("then %d, %d; taken %d", a, b, all.Taken())
	}
	if c := get(t, s, "/db/_changes").StatusCode; c != 200 {
		t.Errorf("another endpoint: %d", c)
	}
}

func TestRewind(t *testing.T) {
	s, db := filled(t, 60)
	all := changes(t, s, "/db/_changes")
	updates := db.Updates()
	db.Rewind(0, updates[0]-5)
	again := changes(t, s, "/db/_changes?since="+url.QueryEscape(all.LastSeq))
	if len(again.Results) != 5 {
		t.Fatalf("%d rows again, want 5", len(again.Results))
	}
	old := map[string]string{}
	for _, r := range all.Results {
		old[r.ID] = *r.Seq
	}
	for _, r := range again.Results {
		if old[r.ID] == "" || old[r.ID] == *r.Seq {
			t.Errorf("%s comes again with seq %s, first %s", r.ID, *r.Seq, old[r.ID])
		}
	}
	if l := changes(t, s, "/db/_changes?since="+url.QueryEscape(again.LastSeq)); len(l.Results) != 0 {
		t.Errorf("a new seq replays %d rows", len(l.Results))
	}
	db.FailOver()
	if l := changes(t, s, "/db/_changes?since="+url.QueryEscape(again.LastSeq)); len(l.Results) != 60 {
		t.Errorf("after a fail-over %d rows of 60", len(l.Results))
	}
}

func TestRewindTwiceKeepsTheLowerBound(t *testing.T) {
	s, db := filled(t, 60)
	first := changes(t, s, "/db/_changes").LastSeq
	db.Rewind(0, db.Updates()[0]-5)
	db.Rewind(0, db.Updates()[0]-2)
	if l := changes(t, s, "/db/_changes?since="+url.QueryEscape(first)); len(l.Results) != 5 {
		t.Errorf("%d rows again, want 5", len(l.Results))
	}
}

func TestRecreateDuringAnOpenFeed(t *testing.T) {
	s, db := filled(t, 20)
	born := db.StartTime()
	s.Control(feedOf, couchfake.Spoil{Rows: 5, Call: func() {
		again, err := s.Recreate("db")
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := again.Put("other", []byte(`{}`)); err != nil {
			t.Error(err)
		}
	}}, 1)
	body := read(t, s, "/db/_changes?feed=continuous&heartbeat=50")
	last := lastSeq.FindStringSubmatch(body)
	if last == nil {
		t.Fatalf("no polite end: %q", body)
	}
	l := changes(t, s, "/db/_changes?since="+url.QueryEscape(last[1]))
	if len(l.Results) != 1 || l.Results[0].ID != "other" {
		t.Errorf("the old seq gives %+v", l.Results)
	}
	var info struct {
		Start string `json:"instance_start_time"`
	}
	if err := json.Unmarshal([]byte(read(t, s, "/db")), &info); err != nil || info.Start == born {
		t.Errorf("instance_start_time %q then %q, %v", born, info.Start, err)
	}
}

func TestStaleCopyShowsThePast(t *testing.T) {
	s, db := filled(t, 10)
	past := db.Snapshot()
	put(t, db, "d001", `{"n":"newer"}`)
	put(t, db, "new", `{}`)
	if _, err := db.Delete("d002"); err != nil {
		t.Fatal(err)
	}
	now := changes(t, s, "/db/_changes?include_docs=true")
	db.ServeStale(past)
	db.FailOver()
	l := changes(t, s, "/db/_changes?include_docs=true&since="+url.QueryEscape(now.LastSeq))
	if len(l.Results) != 10 || l.Pending != 0 {
		t.Fatalf("%d rows, pending %d", len(l.Results), l.Pending)
	}
	for _, r := range l.Results {
		if r.Deleted || r.ID == "new" || r.Changes[0].Rev[:2] != "1-" {
			t.Errorf("%+v is not of the past", r)
		}
	}
	db.Heal()
	healed := map[string]bool{}
	for _, r := range changes(t, s, "/db/_changes?since="+url.QueryEscape(l.LastSeq)).Results {
		healed[r.ID] = true
	}
	if len(healed) != 3 || !healed["new"] || !healed["d001"] || !healed["d002"] {
		t.Errorf("healed: %v", healed)
	}
}
