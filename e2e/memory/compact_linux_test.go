package memory

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

var sliceMB = flag.Int64("memory.slice", 64, "the size of the slice to compact, base file and log files, in megabytes")

// mostCompacting is what a compaction may have in memory, in bytes, whatever the
// size of the slice.
const mostCompacting = 512 << 20

// One slice, with a base file and five log files that have two thirds of its
// bytes, is compacted within bounds.
func TestCompactionIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "table")
	keys := startServer(t).ask("fill %d %s", *sliceMB, dir)
	before := size(t, dir)
	cmd := exec.Command(program, "compact", "--table", dir)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		t.Fatalf("compact: %v\n%s", err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("the system does not say what the binary used")
	}
	resident := usage.Maxrss << 10
	t.Logf("%s%.0f MB in one slice, compacted in %.1f s (%.0f MB/s), at most %.0f MB resident", out, float64(before)/1e6, took.Seconds(),
		float64(before)/1e6/took.Seconds(), float64(resident)/1e6)
	if resident >= mostCompacting {
		t.Errorf("%d bytes resident, and %d are allowed", resident, mostCompacting)
	}
	counted, err := exec.Command(program, "query", "--table", dir, "--read-optimized", "--count").Output()
	if err != nil || string(counted) != fmt.Sprintf("%d\n", keys) {
		t.Errorf("%q rows, want %d: %v", counted, keys, err)
	}
}

// fillSlice makes a table of one file group of so many megabytes, whose rows do
// not compress well, and says how many keys it has. Each of five log files has
// new versions of every fifteenth row or so, and as many rows of its own.
func fillSlice(dir string, megabytes int64) (keys int, err error) {
	ctx := context.Background()
	d, err := file.New(dir, nil)
	if err != nil {
		return 0, err
	}
	tb, err := table.Create(ctx, storage.New(d, nil), table.CreateOptions{Name: "docs"}, table.Options{})
	if err != nil {
		return 0, err
	}
	lease, err := tb.Lease(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lease.Close()) }()
	schema, err := hudi.NewSchema("docs", hudi.Column{Name: hudi.ColumnID, Kind: hudi.KindString},
		hudi.Column{Name: hudi.ColumnRevOrder, Kind: hudi.KindLong}, hudi.Column{Name: "v", Kind: hudi.KindString})
	if err != nil {
		return 0, err
	}
	const textBytes, logs, part = 2000, 5, 15
	f := filling{table: tb, schema: schema, rand: rand.New(rand.NewPCG(1, 2))}
	rows := int(megabytes << 20 * part / (part + 2*logs) / textBytes)
	for n := range rows {
		f.add(2*n, 1, textBytes)
	}
	if err := f.commit(ctx); err != nil {
		return 0, err
	}
	for l := range logs {
		for n := range rows / part {
			f.add(2*f.rand.IntN(rows), int64(l+2), textBytes)
			f.add(2*(n*logs+l)+1, 1, textBytes)
		}
		if err := f.commit(ctx); err != nil {
			return 0, err
		}
	}
	return rows + logs*(rows/part), nil
}

// filling is a table in the making: one file group at a place.
type filling struct {
	table  *table.Table
	schema *hudi.Schema
	rand   *rand.Rand
	at     hudi.Location
	batch  []hudi.Located
}

// add adds a row with a text of half a byte of entropy in each byte.
func (f *filling) add(n int, order int64, textBytes int) {
	noise := make([]byte, textBytes/2)
	for i := range noise {
		noise[i] = byte(f.rand.Uint32())
	}
	key := fmt.Sprintf("k%09d", n)
	f.batch = append(f.batch, hudi.Located{Location: f.at, Record: hudi.Record{Key: hudi.Key{Record: key}, Order: order,
		Row: hudi.Row{hudi.String(key), hudi.Long(order), hudi.String(hex.EncodeToString(noise))}}})
}

// commit writes what was added: the first time a base file, then log files.
func (f *filling) commit(ctx context.Context) error {
	x, err := f.table.Begin(ctx)
	if err != nil {
		return err
	}
	stats, err := writer.Write(ctx, x, f.schema, f.batch, writer.Options{FileBytes: 1 << 40, MaxRewrite: -1})
	if err != nil {
		return err
	}
	f.at, f.batch = f.batch[0].Location, f.batch[:0]
	return x.Commit(ctx, commitmeta.Body{Operation: "UPSERT", Stats: map[string][]commitmeta.WriteStat{"": stats},
		Extra: map[string]string{commitmeta.ExtraSchema: f.schema.Avro()}})
}
