package couchdb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// BenchmarkNext reads rows of 600 bytes over HTTP from a server that has the
// response ready: the follower's own speed, and the loopback's.
func BenchmarkNext(b *testing.B) {
	const n = 10_000
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"seq":null,"id":"order-%08d","changes":[{"rev":"1-917fa2381192822767f010b95b45325b"}],"doc":{"_id":"order-%08d",`+
			`"_rev":"1-917fa2381192822767f010b95b45325b","customer":"customer-%d","total":%d.25,"items":[{"sku":"A-1","n":2},{"sku":"B-22","n":1}],"note":"%s"}}`, i, i, i, i, strings.Repeat("long text ", 28)))
	}
	body := []byte(normalBody("1-x", 0, list...))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/db" {
			_, _ = w.Write([]byte(`{"db_name":"db","instance_start_time":"1"}`))
			return
		}
		_, _ = w.Write(body)
	}))
	defer s.Close()
	src, err := couchdb.Open(context.Background(), couchdb.Options{URL: s.URL + "/db"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		got, err := src.Next(context.Background(), "0", changes.Limit{Rows: n})
		if err != nil || len(got.Changes) != n {
			b.Fatal(len(got.Changes), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
	b.ReportMetric(float64(len(body)/n), "bytes/row")
}

// throttled answers at three megabytes a second and request, which is what a CouchDB
// of one core gave, with documents and without (docs/couchdb.md).
type throttled struct {
	http.ResponseWriter
	owed time.Duration
}

func (w *throttled) Write(p []byte) (int, error) {
	const perByte, tick = time.Second / 3_000_000, 5 * time.Millisecond
	if w.owed += time.Duration(len(p)) * perByte; w.owed > tick {
		time.Sleep(w.owed)
		w.owed = 0
	}
	return w.ResponseWriter.Write(p)
}

func (w *throttled) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// BenchmarkBacklog reads a backlog from a server that is slow for each request: what
// reading side by side gains where the server has the cores for it.
func BenchmarkBacklog(b *testing.B) {
	const n = 20_000
	fake, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = fake.Close() }()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fake.ServeHTTP(&throttled{ResponseWriter: w}, r) }))
	defer s.Close()
	db, err := fake.Create("db")
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if _, err := db.Put(fmt.Sprintf("order-%08d", i), fmt.Appendf(nil, `{"customer":"customer-%d","total":%d.25,"note":%q}`, i, i, strings.Repeat("long text ", 40))); err != nil {
			b.Fatal(err)
		}
	}
	for _, parallel := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			for b.Loop() {
				readBacklog(b, couchdb.Options{URL: s.URL + "/db", Parallel: parallel}, n)
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func readBacklog(b *testing.B, o couchdb.Options, want int) {
	b.Helper()
	src, err := couchdb.Open(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	var at changes.Position
	rows := 0
	for caughtUp := false; !caughtUp; {
		got, err := src.Next(context.Background(), at, changes.Limit{})
		if err != nil {
			b.Fatal(err)
		}
		at, caughtUp, rows = got.Last, got.CaughtUp, rows+len(got.Changes)
	}
	if rows != want {
		b.Fatal(rows)
	}
}
