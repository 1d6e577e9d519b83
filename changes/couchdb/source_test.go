package couchdb_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
)

// untilRows waits for rows that do come, and takes those that come together.
var untilRows = changes.Limit{Idle: 10 * time.Second, Wait: 50 * time.Millisecond}

func TestIdentify(t *testing.T) {
	s := newServer(t)
	got, err := open(t, options(s)).Identify(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := changes.Identity{Kind: "couchdb", Name: "db", Incarnation: "1795999391", PurgeSeq: "3-p", Leaves: true}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNow(t *testing.T) {
	s := newServer(t, recordings(t)["couchdb/since_now"].replay)
	got, err := open(t, options(s)).Now(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(got), "5-g1AAAACX") {
		t.Errorf("got %q", got)
	}
}

func TestCatchUpThenEnd(t *testing.T) {
	s := newServer(t,
		normal("2-b", 1, row("", "a", "1-a"), row("", "b", "1-b")),
		normal("3-c", 0, row("3-c", "c", "2-c")))
	src := open(t, options(s))
	b := next(t, src, "", changes.Limit{})
	if ids(b) != "a b c" || !b.CaughtUp || b.Last != lastSeq {
		t.Errorf("got %q, caught up %v, last %q", ids(b), b.CaughtUp, b.Last)
	}
	if b.Bytes < 200 {
		t.Errorf("bytes = %d", b.Bytes)
	}
	want := []string{"0", "2-b", "3-c"}
	if got := sinces(s, "normal"); !slices.Equal(got, want) {
		t.Errorf("asked since %v, want %v", got, want)
	}
	c := b.Changes[2]
	if c.Rev.String() != "2-c" || c.Seq != "3-c" || string(c.Body) != `{"_id":"c","_rev":"2-c","n":1}` || c.Defect != "" || len(c.Leaves) != 1 {
		t.Errorf("got %+v", c)
	}
}

// sinces are the positions that feeds of one kind were asked from.
func sinces(s *server, feed string) []string {
	var out []string
	for _, r := range s.log() {
		if f := strings.Fields(r); len(f) == 4 && f[2] == feed {
			out = append(out, f[3])
		}
	}
	return out
}

func TestLiveRowsComeAndTheFeedStaysOpen(t *testing.T) {
	more := make(chan string)
	s := newServer(t, normal("1-a", 0), func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.Flush()
		for line := range more {
			_, _ = w.Write([]byte(line + "\n"))
			_ = c.Flush()
		}
	})
	src := open(t, options(s))
	defer close(more)
	b := next(t, src, "1-x", changes.Limit{Idle: 20 * time.Millisecond})
	if len(b.Changes) != 0 || !b.CaughtUp || b.Last != "1-a" {
		t.Fatalf("got %+v", b)
	}
	more <- row("2-b", "b", "1-b")
	more <- row("3-c", "c", "1-c")
	// The caller kept its old position: nothing was new after it.
	b = next(t, src, "1-x", changes.Limit{Rows: 2, Idle: 10 * time.Second})
	if ids(b) != "b c" || b.Last != "3-c" {
		t.Fatalf("got %q, last %q", ids(b), b.Last)
	}
	more <- row("4-d", "d", "1-d")
	b = next(t, src, b.Last, changes.Limit{Idle: 10 * time.Second, Wait: 20 * time.Millisecond})
	if ids(b) != "d" || b.Last != "4-d" || !b.CaughtUp {
		t.Fatalf("got %+v", b)
	}
	if got := sinces(s, "continuous"); len(got) != 1 {
		t.Errorf("continuous feeds opened from %v, want one", got)
	}
}

func TestLiveChunkLargerThanTheBatch(t *testing.T) {
	s := newServer(t, normal("1-a", 0), stay(row("2-b", "b", "1-b"), row("3-c", "c", "1-c"), row("4-d", "d", "1-d")))
	src := open(t, options(s))
	var got []string
	after := changes.Position("")
	for range 3 {
		b := next(t, src, after, changes.Limit{Rows: 1, Idle: 10 * time.Second})
		got = append(got, ids(b)+"@"+string(b.Last))
		after = b.Last
	}
	if want := []string{"b@2-b", "c@3-c", "d@4-d"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAnotherPositionReadsFromThere(t *testing.T) {
	s := newServer(t, normal("1-a", 0), stay(row("2-b", "b", "1-b")), normal("2-b", 0, row("2-b", "b", "1-b")))
	src := open(t, options(s))
	if b := next(t, src, "1-a", untilRows); ids(b) != "b" {
		t.Fatalf("got %q", ids(b))
	}
	// The caller's commit failed: it comes with the position before.
	if b := next(t, src, "1-a", untilRows); ids(b) != "b" || b.Last != lastSeq {
		t.Errorf("got %q, last %q", ids(b), b.Last)
	}
}

func TestDesignDocuments(t *testing.T) {
	script := func() http.HandlerFunc { return normal("2-b", 0, row("1-a", "_design/app", "1-a")) }
	s := newServer(t, script(), normal("2-b", 0), script())
	o := options(s)
	b := next(t, open(t, o), "", changes.Limit{})
	if len(b.Changes) != 0 || b.Last != "2-b" || !b.CaughtUp {
		t.Errorf("got %+v", b)
	}
	o.IncludeDesign = true
	if b = next(t, open(t, o), "", changes.Limit{}); ids(b) != "_design/app" {
		t.Errorf("got %q", ids(b))
	}
}

func TestCutResponseCountsUpToItsLastSequence(t *testing.T) {
	body := "{\"results\":[\n" + row("", "a", "1-a") + ",\r\n" + row("2-b", "b", "1-b") + ",\r\n" + row("", "c", "1-c") + ",\r\n" + `{"seq":null,"id":"d","ch`
	s := newServer(t, cutOff(body), normal("4-d", 0, row("", "c", "1-c"), row("", "d", "1-d")))
	src := open(t, options(s))
	b := next(t, src, "", changes.Limit{})
	if ids(b) != "a b" || b.Last != "2-b" || b.CaughtUp {
		t.Fatalf("got %q, last %q, caught up %v", ids(b), b.Last, b.CaughtUp)
	}
	b = next(t, src, b.Last, changes.Limit{})
	if ids(b) != "c d" {
		t.Errorf("got %q", ids(b))
	}
	if got, want := sinces(s, "normal"), []string{"0", "2-b", "4-d"}; !slices.Equal(got, want) {
		t.Errorf("asked since %v, want %v", got, want)
	}
}

func TestCutResponseWithoutSequenceIsReadAgain(t *testing.T) {
	var retried int
	for _, body := range []string{
		"", "{\"resul", "{\"results\":[\n", "{\"results\":[\n" + row("", "a", "1-a"),
		"{\"results\":[\n" + row("", "a", "1-a") + "\n],\n", "{\"results\":[\n" + row("", "a", "1-a") + "\n],\n\"last_seq\":\"1-",
		"{\"results\":[\n" + row("", "a", "1-a") + "\n{\"error\":\"timeout\",\"reason\":\"no shard\"}\n",
		"{\"results\":[" + row("", "a", "1-a") + "," + row("", "b", "1-b")[:30],
		"{\"results\":[" + row("", "a", "1-a") + ",",
		"<html>we will be back</html>",
		"{\"results\":[\n" + row("", "a", "1-a") + "\n],\n\"last_seq\":null,\"pending\":0}\n",
	} {
		s := newServer(t, cutOff(body), normal("2-b", 0, row("", "a", "1-a"), row("", "b", "1-b")))
		o := options(s)
		o.Events.Retried = func(couchdb.Retried) { retried++ }
		if b := next(t, open(t, o), "", changes.Limit{}); ids(b) != "a b" {
			t.Errorf("%q: got %q", body, ids(b))
		}
		if got, want := sinces(s, "normal"), []string{"0", "0", "2-b"}; !slices.Equal(got, want) {
			t.Errorf("%q: asked since %v, want %v", body, got, want)
		}
	}
	if retried != 11 {
		t.Errorf("retried %d times, want 11", retried)
	}
}

func TestByteLimit(t *testing.T) {
	var rows []string
	for i := range 20 {
		rows = append(rows, row("", fmt.Sprintf("d%02d", i), "1-a"))
	}
	// The server honours limit, but gives no sequences within a response.
	serve := func(w http.ResponseWriter, r *http.Request) {
		var from, limit int
		_, _ = fmt.Sscanf(r.URL.Query().Get("since"), "%d", &from)
		_, _ = fmt.Sscanf(r.URL.Query().Get("limit"), "%d", &limit)
		to := min(len(rows), from+limit)
		normal(fmt.Sprintf("%d-x", to), len(rows)-to, rows[from:to]...)(w, r)
	}
	script := make([]http.HandlerFunc, 60)
	for i := range script {
		script[i] = serve
	}
	src := open(t, options(newServer(t, script...)))
	var got []string
	after := changes.Position("")
	for {
		b := next(t, src, after, changes.Limit{Bytes: 400})
		if b.Bytes > 400+100 {
			t.Errorf("a batch of %d bytes", b.Bytes)
		}
		for _, c := range b.Changes {
			got = append(got, c.ID)
		}
		after = b.Last
		if b.CaughtUp {
			break
		}
	}
	if len(got) != len(rows) || !slices.IsSorted(got) {
		t.Errorf("got %v", got)
	}
}

func TestOneRowLargerThanTheBatch(t *testing.T) {
	big := strings.Replace(row("1-a", "big", "1-a"), `"n":1`, `"n":"`+strings.Repeat("x", 20<<20)+`"`, 1)
	s := newServer(t, normal("1-a", 0, big))
	b := next(t, open(t, options(s)), "", changes.Limit{Bytes: 1000})
	if ids(b) != "big" || len(b.Changes[0].Body) < 20<<20 {
		t.Errorf("got %q", ids(b))
	}
}

func TestRowTooLarge(t *testing.T) {
	big := strings.Replace(row("1-a", "big", "1-a"), `"n":1`, `"n":"`+strings.Repeat("x", 1<<20)+`"`, 1)
	for name, script := range map[string][]http.HandlerFunc{
		"normal": {normal("1-a", 0, big)},
		"live":   {normal("0-a", 0), stay(big)},
	} {
		o := options(newServer(t, script...))
		o.MaxRowBytes = 64 << 10
		_, err := tryNext(open(t, o), "", changes.Limit{Idle: 10 * time.Second})
		if !errors.Is(err, couchdb.ErrRowTooLarge) || !strings.Contains(err.Error(), `"big"`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCancelAndClose(t *testing.T) {
	src := open(t, options(newServer(t)))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, cancel)
	if _, err := src.Next(ctx, "", changes.Limit{Idle: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	time.AfterFunc(30*time.Millisecond, func() { _ = src.Close() })
	if _, err := src.Next(context.Background(), "", changes.Limit{Idle: time.Hour}); !errors.Is(err, couchdb.ErrClosed) {
		t.Errorf("got %v", err)
	}
	for range 2 {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := src.Next(context.Background(), "", changes.Limit{}); !errors.Is(err, couchdb.ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
	if _, err := src.Identify(context.Background()); !errors.Is(err, couchdb.ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
}
