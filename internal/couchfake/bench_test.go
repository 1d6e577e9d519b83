package couchfake_test

import (
	"fmt"
	"io"
	"iter"
	"net/http"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// orders makes documents of about 500 bytes.
func orders(n int) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		var body []byte
		for i := range n {
			body = fmt.Appendf(body[:0], `{"type":"order","n":%d,"amount":%d.5,"customer":"c%d","createdAt":"2024-01-05T10:11:12Z","text":"%0380d","ok":true}`, i, i%1000, i%777, i)
			if !yield(fmt.Sprintf("order-%08d", i), body) {
				return
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	s := couchfake.New(couchfake.Options{})
	db, err := s.Create("db")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	if err := db.Load(orders(b.N)); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "docs/s")
}

// BenchmarkChanges streams a feed into a sink without a network, so that the rate is that of one core of the fake.
func BenchmarkChanges(b *testing.B) {
	const n = 100_000
	s := couchfake.New(couchfake.Options{})
	db, err := s.Create("db")
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Load(orders(n)); err != nil {
		b.Fatal(err)
	}
	for _, q := range []string{"include_docs=true&style=all_docs", "include_docs=true&style=all_docs&seq_interval=1000", "style=all_docs"} {
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			bytes := int64(0)
			for range b.N {
				w := &sink{header: http.Header{}}
				r, err := http.NewRequest(http.MethodGet, "/db/_changes?"+q, nil)
				if err != nil {
					b.Fatal(err)
				}
				s.ServeHTTP(w, r)
				bytes += w.n
			}
			b.SetBytes(bytes / int64(b.N))
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkChangesOverHTTP adds the network and a client that throws all away.
func BenchmarkChangesOverHTTP(b *testing.B) {
	const n = 100_000
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	db, err := s.Create("db")
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Load(orders(n)); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		res, err := http.Get(s.URL() + "/db/_changes?include_docs=true&style=all_docs")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			b.Fatal(err)
		}
		res.Body.Close()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

type sink struct {
	header http.Header
	n      int64
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return len(p), nil
}
