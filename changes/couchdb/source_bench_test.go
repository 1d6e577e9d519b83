package couchdb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
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
