package reader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
)

// distant is a store that takes 20 ms for each read, which it counts.
type distant struct {
	*mem.Driver
	block int64
	asked atomic.Int64
}

func (d *distant) BlockBytes() int64 { return d.block }

func (d *distant) wait(ctx context.Context) error {
	const latency = 20 * time.Millisecond
	d.asked.Add(1)
	select {
	case <-time.After(latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *distant) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	if err := d.wait(ctx); err != nil {
		return 0, err
	}
	return d.Driver.ReadAt(ctx, o, p, offset)
}

func (d *distant) ReadFirst(ctx context.Context, name string, offset, most int64) ([]byte, storage.Object, error) {
	if err := d.wait(ctx); err != nil {
		return nil, storage.Object{}, err
	}
	return d.Driver.ReadFirst(ctx, name, offset, most)
}

// noisy are rows that do not compress to nothing, of about a KB each.
func noisy(r *rand.Rand, from, n int, order int64) []hudi.Record {
	rs := make([]hudi.Record, n)
	for i := range rs {
		var text strings.Builder
		for range 64 {
			fmt.Fprintf(&text, "%016x", r.Uint64())
		}
		rs[i] = put(fmt.Sprintf("key-%08d", from+i), order, text.String())
	}
	return rs
}

// scanned is a table of base files, each of so many rows, of which the first has so many
// log files.
func scanned(t testing.TB, files, rows, logs, logRows int) *fixture {
	f, r := newFixtureIn(t, mem.New(nil)), rand.New(rand.NewPCG(3, 4))
	var base hudi.Time
	for i := range files {
		base = f.commit(baseOf("pt=a", hudi.FileID(fmt.Sprintf("g%d-0", i)), noisy(r, i*rows, rows, 1)...))
	}
	for i := range logs {
		f.commit(logOf("pt=a", hudi.FileID(fmt.Sprintf("g%d-0", files-1)), base, i+1, noisy(r, (files-1)*rows+i%rows, logRows, int64(i+2))...))
	}
	return f
}

// scan reads a table over a distant store, and says how many rows it has, how many
// requests it took and how long.
func (f *fixture) scan(t testing.TB, block, memory int64, ahead int) (rows int, asked int64, took time.Duration) {
	t.Helper()
	d, cache := &distant{Driver: f.driver.(*mem.Driver), block: block}, storage.NewCache(memory)
	v := openView(t, storage.New(d, &storage.Options{Cache: cache, Ahead: ahead}))
	if _, err := v.Schema(t.Context()); err != nil {
		t.Fatal(err)
	}
	start, before := time.Now(), d.asked.Load()
	for _, err := range reader.Snapshot(t.Context(), v, reader.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows++
	}
	if now, most := cache.Bytes(); now != 0 || most > memory {
		t.Errorf("%d bytes are held at the end, %d were at most, of %d", now, most, memory)
	}
	return rows, d.asked.Load() - before, time.Since(start)
}

// TestAhead: a scan of base and log files over a slow store asks for what comes next
// meanwhile, by no more requests.
func TestAhead(t *testing.T) {
	for _, c := range []struct{ files, rows, logs, logRows int }{{1, 8000, 0, 0}, {1, 1, 60, 2}, {1, 50, 2, 6000}} {
		f := scanned(t, c.files, c.rows, c.logs, c.logRows)
		synctest.Test(t, func(t *testing.T) {
			const block, memory = 256 << 10, 8 << 20
			rows, asked, took := f.scan(t, block, memory, 0)
			aheadRows, aheadAsked, aheadTook := f.scan(t, block, memory, 8)
			if aheadRows != rows || aheadAsked > asked || aheadTook*2 > took {
				t.Errorf("%+v: %d rows by %d requests in %s; ahead %d by %d in %s", c, rows, asked, took, aheadRows, aheadAsked, aheadTook)
			}
		})
	}
}

// BenchmarkAhead reads 240 MB of base files, and a slice with 200 log files of 100 KB,
// over a store that takes 20 ms for each request.
func BenchmarkAhead(b *testing.B) {
	for name, f := range map[string]*fixture{"base": scanned(b, 6, 60_000, 0, 0), "logs": scanned(b, 1, 20_000, 200, 100)} {
		for _, ahead := range []int{0, 8} {
			b.Run(fmt.Sprintf("%s/%d", name, ahead), func(b *testing.B) {
				for b.Loop() {
					_, asked, _ := f.scan(b, 512<<10, 32<<20, ahead)
					b.ReportMetric(float64(asked), "requests")
				}
			})
		}
	}
}
