package pipeline_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/table"
)

var benchDocs = flag.Int("bench.docs", 200_000, "documents of the whole-pipeline benchmark")

// standInEnv makes the test binary be a CouchDB stand-in, so that the follower's
// CPU is measured and not the server's.
const standInEnv = "COUCH2HUDI_TEST_STANDIN"

func TestMain(m *testing.M) {
	if os.Getenv(standInEnv) != "" {
		standIn()
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// benchBody is a document of about 500 bytes.
func benchBody(i, version int) []byte {
	return fmt.Appendf(nil, `{"type":"order","createdAt":"2024-01-%02dT10:%02d:00Z","customer":"customer-%05d","status":"paid","total":%d.%02d,"items":%d,`+
		`"paid":%t,"version":%d,"address":{"street":"Rua das Flores %d","city":"Porto","zip":"4050-%03d"},"tags":["gift","express"],`+
		`"note":"%s"}`, 1+i%28, i%60, i%10_000, i%500, i%100, i%9, i%3 == 0, version, i%200, i%1000, strings.Repeat("lorem ipsum dolor ", 8))
}

// standIn serves documents until its input ends. Commands: "load N", "update N"
// (every second of the first N), "mix N M F D" (2,000 more changes, M of five of
// them new documents behind the N that there were, D of five deletions of the oldest,
// the others to F that there are; F new ones when there are none), "hash".
func standIn() {
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		panic(err)
	}
	db, err := s.Create("docs")
	if err != nil {
		panic(err)
	}
	fmt.Println(s.URL() + "/docs")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var verb string
		var n int
		var m mixing
		_, _ = fmt.Sscan(in.Text(), &verb, &n, &m.fresh, &m.first, &m.gone)
		step, version := 1, 1
		switch verb {
		case "update":
			step, version = 2, 2
		case "mix":
			m.change(db, n)
			fmt.Println("ok")
			continue
		case "hash":
			fmt.Println(hashModel(db))
			continue
		}
		for i := 0; i < n; i += step {
			if _, err := db.Put(fmt.Sprintf("order-%08d", i), benchBody(i, version)); err != nil {
				panic(err)
			}
		}
		fmt.Println("ok")
	}
}

// mixing makes mixed changes: of five, so many are new documents and so many deletions.
type mixing struct{ fresh, first, gone int }

// change makes them to a database that has had n documents, whose bodies have 300
// bytes that do not compress much. Where as many go as come, those that live
// form a window that moves.
func (m mixing) change(db *couchfake.Database, n int) {
	changes, oldest := mixed, 0
	if n == 0 {
		changes = m.first
	} else if m.gone > 0 {
		oldest = (n - m.first) * m.gone / m.fresh
	}
	for i, next := 0, n; i < changes; i++ {
		at := next
		switch {
		case n == 0 || i%mixEvery < m.fresh:
			next++
		case i%mixEvery >= mixEvery-m.gone:
			if _, err := db.Delete(fmt.Sprintf("order-%08d", oldest)); err != nil {
				panic(err)
			}
			oldest++
			continue
		default:
			at = oldest + (n+i*7919)%m.first
		}
		r := rand.New(rand.NewPCG(uint64(at), uint64(i)))
		note := make([]byte, 300)
		for k := range note {
			note[k] = byte('a' + r.IntN(26))
		}
		body := fmt.Appendf(nil, `{"type":"order","createdAt":"2024-01-%02dT10:%02d:00Z","customer":"customer-%05d","total":%d,"paid":%t,"note":"%s"}`,
			1+at%28, i%60, at%10_000, i%500, i%3 == 0, note)
		if _, err := db.Put(fmt.Sprintf("order-%08d", at), body); err != nil {
			panic(err)
		}
	}
}

const (
	// mixed is how many changes are made to a database with documents.
	mixed = 2000
	// mixEvery is of how many of them mixing speaks.
	mixEvery = 5
)

// sum is an order-free digest of documents.
type sum struct {
	n    int
	bits [4]uint64
}

func (s *sum) add(id, rev, doc string) {
	h := sha256.Sum256([]byte(id + "\x00" + rev + "\x00" + doc))
	for i := range s.bits {
		s.bits[i] += binary.LittleEndian.Uint64(h[8*i:])
	}
	s.n++
}

func (s *sum) String() string { return fmt.Sprintf("%d-%x", s.n, s.bits) }

func hashModel(db *couchfake.Database) string {
	var s sum
	for d := range db.Docs() {
		s.add(d.ID, d.Winner().Rev.String(), string(d.Winner().Body))
	}
	return s.String()
}

// server is the stand-in in a process of its own.
type server struct {
	b   testing.TB
	in  io.Writer
	out *bufio.Reader
	url string
}

func startServer(b testing.TB) *server {
	b.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), standInEnv+"=1")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	s := &server{b: b, in: in, out: bufio.NewReader(out)}
	s.url = s.line()
	return s
}

func (s *server) line() string {
	s.b.Helper()
	l, err := s.out.ReadString('\n')
	if err != nil {
		s.b.Fatal(err)
	}
	return strings.TrimSpace(l)
}

func (s *server) ask(format string, a ...any) string {
	s.b.Helper()
	if _, err := fmt.Fprintf(s.in, format+"\n", a...); err != nil {
		s.b.Fatal(err)
	}
	return s.line()
}

// BenchmarkWhole reads the feed to nowhere, ingests it, updates half of the
// documents and ingests those; each resulting table is counted and hashed.
func BenchmarkWhole(b *testing.B) {
	for b.Loop() {
		n := *benchDocs
		s := startServer(b)
		s.ask("load %d", n)
		dir := b.TempDir()
		nowhere := measure(func() int64 { return drain(b, s.url) })
		insert := measure(func() int64 { return ingestBench(b, s.url, dir) })
		same(b, s, dir)
		s.ask("update %d", n)
		update := measure(func() int64 { return ingestBench(b, s.url, dir) })
		same(b, s, dir)
		snapshot := measure(func() int64 { return int64(hashTable(b, dir).n) })
		for _, m := range []struct {
			what string
			cost
		}{{"feed-to-nowhere", nowhere}, {"insert", insert}, {"upsert", update}, {"snapshot", snapshot}} {
			b.ReportMetric(m.rate(), m.what+"-rows/s")
			b.ReportMetric(m.cpu.Seconds()*1e6/float64(m.rows), m.what+"-cpu-µs/row")
		}
		b.ReportMetric(nowhere.rate()/insert.rate(), "insert/feed-time")
		b.ReportMetric(nowhere.rate()/update.rate(), "upsert/feed-time")
	}
}

// cost is what a piece of work took in this process.
type cost struct {
	rows      int64
	wall, cpu time.Duration
}

func (c cost) rate() float64 { return float64(c.rows) / c.wall.Seconds() }

func measure(work func() int64) cost {
	began, cpu := time.Now(), cpuTime()
	rows := work()
	return cost{rows: rows, wall: time.Since(began), cpu: cpuTime() - cpu}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func openBench(b testing.TB, url string) changes.Source {
	b.Helper()
	s, err := couchdb.Open(b.Context(), couchdb.Options{URL: url})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func drain(b *testing.B, url string) (rows int64) {
	b.Helper()
	s := openBench(b, url)
	defer func() { _ = s.Close() }()
	at := changes.Position("")
	for {
		batch, err := s.Next(b.Context(), at, changes.Limit{})
		if err != nil {
			b.Fatal(err)
		}
		rows += int64(len(batch.Changes))
		if at = batch.Last; batch.CaughtUp {
			return rows
		}
	}
}

func openBenchTable(b *testing.B, dir string) *table.Table {
	b.Helper()
	ctx := b.Context()
	d, err := file.New(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	bucket := storage.New(d, nil)
	there, err := table.Exists(ctx, bucket)
	if err != nil {
		b.Fatal(err)
	}
	open := func() (*table.Table, error) { return table.Open(ctx, bucket, table.Options{Location: dir}) }
	if !there {
		open = func() (*table.Table, error) {
			return table.Create(ctx, bucket, table.CreateOptions{Name: "docs", PartitionField: "pt",
				OrderColumn: hudi.ColumnRevOrder, KeyColumn: hudi.ColumnID}, table.Options{Location: dir})
		}
	}
	t, err := open()
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func ingestBench(b *testing.B, url, dir string) (rows int64) {
	b.Helper()
	t := openBenchTable(b, dir)
	lease, err := t.Lease(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = lease.Close() }()
	s := openBench(b, url)
	defer func() { _ = s.Close() }()
	n, err := normalize.New(normalize.Options{Table: "docs", PartitionField: "createdAt", PartitionFormat: "yyyyMMdd", PartitionName: "pt"})
	if err != nil {
		b.Fatal(err)
	}
	p, err := pipeline.New(b.Context(), pipeline.Options{Source: s, Table: t, Normalizer: n, Once: true,
		Events: pipeline.Events{Committed: func(p pipeline.Progress) { rows += p.Stats.Rows }}})
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	return rows
}

func hashTable(b *testing.B, dir string) *sum {
	b.Helper()
	ctx := context.Background()
	v, err := openBenchTable(b, dir).View(ctx)
	if err != nil {
		b.Fatal(err)
	}
	schema, err := v.Schema(ctx)
	if err != nil {
		b.Fatal(err)
	}
	var s sum
	for r, err := range reader.Snapshot(ctx, v, reader.Options{}) {
		if err != nil {
			b.Fatal(err)
		}
		s.add(r.Key.Record, schema.At(r.Row, hudi.ColumnRev).Text(), schema.At(r.Row, hudi.ColumnDoc).Text())
	}
	return &s
}

func same(b *testing.B, s *server, dir string) {
	b.Helper()
	if want, got := s.ask("hash"), hashTable(b, dir).String(); got != want {
		b.Fatalf("the table differs from the database: %s, want %s", got, want)
	}
}
