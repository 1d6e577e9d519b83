//go:build oracle

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/kafka"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// made is a source of documents of about 500 bytes, for filling a topic fast.
type made struct{ rows int }

func (m made) Identify(context.Context) (changes.Identity, error) {
	return changes.Identity{Kind: "couchdb", Name: "made", Incarnation: "1", Leaves: true}, nil
}

func (m made) Next(_ context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	from, _ := strconv.Atoi(string(after))
	to := min(m.rows, from+limit.Rows)
	b := changes.Batch{Last: changes.Position(strconv.Itoa(to)), CaughtUp: to == m.rows}
	random := rand.New(rand.NewPCG(uint64(from), 1))
	for i := from; i < to; i++ {
		id := fmt.Sprintf("%016x%08d", random.Uint64(), i) // random, as CouchDB's own ids
		rev := changes.Rev{Generation: 1, Hash: fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64())}
		body := fmt.Appendf(nil, `{"_id":"%s","_rev":"%s","n":%d,"price":%.2f,"name":"customer %d","createdAt":"2024-01-01T00:00:00Z","active":true,"tags":["a","b"],"address":{"city":"Sofia","zip":%d},"text":"%0240x"}`,
			id, rev, i, float64(i)/7, i%1000, i%9999, random.Uint64())
		b.Changes = append(b.Changes, changes.Change{ID: id, Rev: rev, Leaves: []changes.Rev{rev}, Body: body})
		b.Bytes += int64(len(body))
	}
	return b, nil
}

func (m made) Now(context.Context) (changes.Position, error) {
	return changes.Position(strconv.Itoa(m.rows)), nil
}

func (m made) Close() error { return nil }

// BenchmarkKafkaConsumer fills a topic of a real broker with documents of 500
// bytes, reads it to nowhere, and lets the binary take it into a bloom table: rows a
// second of each, broker included, and their ratio.
func BenchmarkKafkaConsumer(b *testing.B) {
	rows := 400_000
	if text := os.Getenv("KAFKA_ROWS"); text != "" {
		rows, _ = strconv.Atoi(text)
	}
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	node := newBroker(b)
	cluster := kafka.Cluster{Brokers: []string{node.address}}
	p, err := kafka.NewProducer(made{rows}, kafka.ProducerOptions{Cluster: cluster, Topic: "made", Partition: hudi.Bucket, Partitions: 4, Once: true})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := p.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
	produced := float64(rows) / time.Since(began).Seconds()
	perSecond := func(since time.Time) float64 { return float64(rows) / time.Since(since).Seconds() }
	for b.Loop() {
		began = time.Now()
		nowhere(b, cluster, rows)
		read := perSecond(began)
		began = time.Now()
		cmd := exec.CommandContext(b.Context(), path, "run", "--once", "--source", "kafka://"+node.address+"/made", "--table", filepath.Join(b.TempDir(), "table"), "--state-dir", b.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		applied := perSecond(began)
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		b.ReportMetric(produced, "produced/s")
		b.ReportMetric(float64(rows)/cpu.Seconds(), "rows/cpu-s") // on a machine that others use this says more
		if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			b.ReportMetric(float64(used.Maxrss)/1024, "peak-MB")
		}
		b.ReportMetric(read, "read/s")
		b.ReportMetric(applied, "rows/s")
		b.ReportMetric(applied/read, "of-reading")
	}
}

// nowhere reads the topic to its end.
func nowhere(b *testing.B, cluster kafka.Cluster, rows int) {
	b.Helper()
	src, err := kafka.Open(kafka.Options{Cluster: cluster, Topic: "made", Leaves: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	n := 0
	for after, done := changes.Position(""), false; !done; {
		batch, err := src.Next(b.Context(), after, changes.Limit{})
		if err != nil {
			b.Fatal(err)
		}
		n, after, done = n+len(batch.Changes), batch.Last, batch.CaughtUp
	}
	if n != rows {
		b.Fatalf("%d rows, want %d", n, rows)
	}
}
