package writer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// world is a table and what must be in it.
type world struct {
	t      *testing.T
	r      *rand.Rand
	bucket *storage.Bucket
	table  *table.Table
	schema *hudi.Schema
	o      writer.Options
	// rows are the model: key to row, and places where each key lives.
	rows   map[string]string
	places map[string]hudi.Location
	orders map[string]int64
	ticks  atomic.Int64
	lease  io.Closer
	// rewrites counts base files that replaced one.
	rewrites int
	// cdc is what change files a table has that reopen makes.
	cdc hudi.CDCMode
}

func newWorld(t *testing.T, seed uint64, partitioned bool) *world {
	t.Helper()
	return newWorldOf(t, seed, partitioned, hudi.CDCOff)
}

func newWorldOf(t *testing.T, seed uint64, partitioned bool, cdc hudi.CDCMode) *world {
	t.Helper()
	return newWorldWith(t, seed, partitioned, table.CreateOptions{CDC: cdc})
}

func newWorldWith(t *testing.T, seed uint64, partitioned bool, c table.CreateOptions) *world {
	t.Helper()
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev", Kind: hudi.KindString},
		hudi.Column{Name: "_rev_order", Kind: hudi.KindLong}, hudi.Column{Name: "_op", Kind: hudi.KindString},
		hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean}, hudi.Column{Name: "v", Kind: hudi.KindString})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 7))
	w := &world{t: t, r: r, bucket: storage.New(teststore.New(t), nil), schema: s, o: writer.Options{NewID: ids(seed), FileBytes: 4000, BlockBytes: 2000},
		rows: map[string]string{}, places: map[string]hudi.Location{}, orders: map[string]int64{}, cdc: c.CDC}
	c.Name = "docs"
	if partitioned {
		c.PartitionField = "pt"
	}
	if w.table, err = table.Create(t.Context(), w.bucket, c, table.Options{Clock: w.tick}); err != nil {
		t.Fatal(err)
	}
	if w.lease, err = w.table.Lease(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.lease.Close() })
	return w
}

// tick is a clock that goes on by a second whenever somebody looks.
func (w *world) tick() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(w.ticks.Add(1)) * time.Second)
}

// ids are UUIDs that differ between worlds only by their seed.
func ids(seed uint64) func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("%08d-0000-4000-8000-%012d", seed, n)
	}
}

func (w *world) partition() string {
	if w.table.PartitionField() == "" {
		return ""
	}
	return fmt.Sprintf("pt=%d", w.r.IntN(3))
}

// batch is random records for known and new keys, with the model's answer to
// where they go, and what to call when they are committed.
func (w *world) batch(n int) ([]hudi.Located, func()) {
	var rs []hudi.Located
	rows, places, orders := maps.Clone(w.rows), maps.Clone(w.places), maps.Clone(w.orders)
	used := map[string]bool{}
	tails := []string{"", ":a,b", "\U0001F600", "\uFFFD"}
	for range n {
		key := fmt.Sprint(w.r.IntN(100), tails[w.r.IntN(len(tails))])
		if used[key] {
			continue
		}
		used[key] = true
		at, known := places[key]
		if !known {
			at = hudi.Location{Partition: w.partition()}
		}
		orders[key]++
		rec := hudi.Record{Key: hudi.Key{Record: key, Partition: at.Partition}, Order: orders[key]}
		if known && w.r.IntN(4) == 0 {
			rec.Delete = true
			rs = append(rs, hudi.Located{Record: rec, Location: at})
			delete(rows, key)
			delete(places, key)
			continue
		}
		value := fmt.Sprintf("%d %s", orders[key], strings.Repeat("v", w.r.IntN(200)))
		rec.Row = hudi.Row{hudi.String(key), hudi.String("1-x"), hudi.Long(rec.Order), hudi.String("u"), hudi.Boolean(false), hudi.String(value)}
		rs = append(rs, hudi.Located{Record: rec, Location: at})
		rows[key] = at.Partition + " " + value
	}
	return rs, func() { w.rows, w.places, w.orders = rows, places, orders }
}

func (w *world) write(rs []hudi.Located) (*table.Txn, commitmeta.Body) {
	w.t.Helper()
	x, err := w.table.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := w.files(x, rs)
	if err != nil {
		w.t.Fatal(err)
	}
	return x, body
}

// files writes the files of a transaction and says what its commit says.
func (w *world) files(x *table.Txn, rs []hudi.Located) (commitmeta.Body, error) {
	stats, err := writer.Write(w.t.Context(), x, w.schema, rs, w.o)
	if err != nil {
		return commitmeta.Body{}, err
	}
	body := commitmeta.Body{Stats: map[string][]commitmeta.WriteStat{}, Operation: "UPSERT",
		Extra: map[string]string{commitmeta.ExtraSchema: w.schema.Avro()}}
	for _, s := range stats {
		body.Stats[s.Partition] = append(body.Stats[s.Partition], s)
	}
	w.checkStats(x, rs, stats)
	return body, nil
}

// checkStats compares what the writer says with the batch and with storage.
func (w *world) checkStats(x *table.Txn, rs []hudi.Located, stats []commitmeta.WriteStat) {
	w.t.Helper()
	var rows, deletes int64
	for _, s := range stats {
		o, err := w.bucket.Stat(w.t.Context(), s.Path)
		if err != nil || o.Size != s.Bytes {
			w.t.Fatalf("%+v: stored %d bytes, %v", s, o.Size, err)
		}
		rows, deletes = rows+s.Inserts+s.Updates, deletes+s.Deletes
		switch {
		case s.Log != nil:
			w.checkLogStat(x, s)
		case s.PrevCommit != "":
			w.checkRewriteStat(x, s)
		case s.Updates+s.Deletes > 0:
			w.t.Fatalf("%+v", s)
		}
		if s.Writes < s.Inserts+s.Updates || s.Writes > s.Inserts+s.Updates && (s.Log != nil || s.PrevCommit == "") {
			w.t.Fatalf("%+v", s)
		}
	}
	for i := range rs {
		if !slices.ContainsFunc(stats, func(s commitmeta.WriteStat) bool {
			return s.File == rs[i].File && s.Partition == rs[i].Partition
		}) {
			w.t.Fatalf("%q is said to be in %+v, which was not written", rs[i].Key.Record, rs[i].Location)
		}
	}
	if want := int64(len(rs)); rows+deletes != want {
		w.t.Fatalf("%d rows and %d deletes of %d records", rows, deletes, want)
	}
}

// checkRewriteStat compares with the slice that was rewritten and the new file.
func (w *world) checkRewriteStat(x *table.Txn, s commitmeta.WriteStat) {
	w.t.Helper()
	list, err := x.View().Slices(w.t.Context(), s.Partition)
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(l hudi.Slice) bool { return l.File == s.File })
	if i < 0 || s.PrevCommit != list[i].Instant || s.Inserts == 0 {
		w.t.Fatalf("%+v\nslice %+v", s, list)
	}
	was := len(contents(w.t, reader.Slice(w.t.Context(), x.View(), list[i], w.schema, reader.Options{})))
	if int64(was)+s.Inserts-s.Deletes != s.Writes {
		w.t.Fatalf("%d rows before, %+v", was, s)
	}
	w.rewrites++
	w.checkBase(s)
}

// checkBase holds that a base file is in the order of keys, and that its rows
// say which file they are in.
func (w *world) checkBase(s commitmeta.WriteStat) {
	w.t.Helper()
	r, err := w.bucket.Open(w.t.Context(), s.Path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	f, err := basefile.Open(r, r.Size())
	if err != nil {
		w.t.Fatal(err)
	}
	meta, err := hudi.MakeSchema("m", "", hudi.Column{Name: hudi.MetaFileName, Kind: hudi.KindString})
	if err != nil {
		w.t.Fatal(err)
	}
	rows, last := int64(0), ""
	for r, err := range f.Records(meta, "") {
		if err != nil || hudi.CompareUTF16(last, r.Key.Record) >= 0 || r.Row[0].Text() != path.Base(s.Path) || r.CommitTime == "" {
			w.t.Fatalf("%q after %q in %q: %v %+v", r.Key.Record, last, s.Path, err, r)
		}
		rows, last = rows+1, strings.Clone(r.Key.Record)
	}
	if rows != s.Writes {
		w.t.Fatalf("%d rows, %+v", rows, s)
	}
}

func (w *world) checkLogStat(x *table.Txn, s commitmeta.WriteStat) {
	w.t.Helper()
	list, err := x.View().Slices(w.t.Context(), s.Partition)
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(l hudi.Slice) bool { return l.File == s.File })
	if i < 0 {
		w.t.Fatalf("log for a group that was not there: %+v", s)
	}
	var names []string
	for _, l := range list[i].Logs {
		names = append(names, l.Name)
	}
	names = append(names, path.Base(s.Path))
	if !slices.Equal(s.Log.LogFiles, names) || s.Log.BaseFile != list[i].Base.Name ||
		s.PrevCommit != list[i].Instant || s.Log.Version != len(names) || s.Log.Offset != 0 {
		w.t.Fatalf("%+v %+v\nslice %+v", s, s.Log, list[i])
	}
}

// locate learns from the table where keys went.
func (w *world) locate() {
	w.t.Helper()
	v, err := w.table.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	partitions, err := v.Partitions(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range partitions {
		list, err := v.Slices(w.t.Context(), p)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, s := range list {
			for r, err := range reader.Slice(w.t.Context(), v, s, w.schema, reader.Options{}) {
				if err != nil {
					w.t.Fatal(err)
				}
				w.places[strings.Clone(r.Key.Record)] = s.Location
			}
		}
	}
}

func contents(t *testing.T, seq iter.Seq2[*hudi.Record, error]) map[string]string {
	t.Helper()
	got := map[string]string{}
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		key := strings.Clone(r.Key.Record)
		if _, twice := got[key]; twice {
			t.Fatalf("%q twice", key)
		}
		got[key] = r.Key.Partition + " " + r.Row[5].Text()
	}
	return got
}

func (w *world) snapshot(o reader.Options) map[string]string {
	w.t.Helper()
	v, err := w.table.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return contents(w.t, reader.Snapshot(w.t.Context(), v, o))
}

// TestSnapshotEqualsModel writes random batches, some of which die before they
// commit; after each the table is the model, whatever the reader's memory.
func TestSnapshotEqualsModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			w := newWorld(t, seed, seed%2 == 0)
			if seed >= 4 {
				w.o.FileBytes, w.o.MaxRewrite = 60_000, []int64{0, 30_000}[seed%2]
			}
			w.o.Parallel = int(seed)
			for range 6 {
				rs, committed := w.batch(1 + w.r.IntN(60))
				x, body := w.write(rs)
				switch w.r.IntN(4) {
				case 0:
					if err := x.Abort(t.Context()); err != nil {
						t.Fatal(err)
					}
				default:
					if err := x.Commit(t.Context(), body); err != nil {
						t.Fatal(err)
					}
					committed()
					w.locate()
				}
				for _, o := range []reader.Options{{}, {Memory: 1, TempDir: t.TempDir()}} {
					if got := w.snapshot(o); !maps.Equal(got, w.rows) {
						t.Fatalf("got %d rows\n%v\nwant %d\n%v", len(got), got, len(w.rows), w.rows)
					}
				}
			}
			if (w.rewrites > 0) != (seed >= 4) {
				t.Fatalf("%d base files were rewritten", w.rewrites)
			}
		})
	}
}

// TestIncrementalReplaysToSnapshot: without hard deletes, the changes of every
// commit put on top of each other are the table.
func TestIncrementalReplaysToSnapshot(t *testing.T) {
	w := newWorld(t, 3, true)
	replay := map[string]string{}
	last := hudi.Time("")
	for range 10 {
		rs, committed := w.batch(1 + w.r.IntN(60))
		if slices.ContainsFunc(rs, func(l hudi.Located) bool { return l.Delete }) {
			continue
		}
		x, body := w.write(rs)
		if err := x.Commit(t.Context(), body); err != nil {
			t.Fatal(err)
		}
		committed()
		w.locate()
		v, err := w.table.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		changed := contents(t, reader.Incremental(t.Context(), v, last, "", reader.Options{}))
		if len(changed) != len(rs) {
			t.Fatalf("%d changes of %d", len(changed), len(rs))
		}
		maps.Copy(replay, changed)
		last = v.Last()
		if got := w.snapshot(reader.Options{}); !maps.Equal(got, replay) || !maps.Equal(got, w.rows) {
			t.Fatalf("%v\n%v\n%v", got, replay, w.rows)
		}
	}
	v, err := w.table.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, reader.Incremental(t.Context(), v, "", "", reader.Options{})); len(got) == 0 || !maps.Equal(got, w.rows) {
		t.Fatalf("%v\n%v", got, w.rows)
	}
}

// TestFileNames: names, tokens and stamps are what readers and rollbacks go by.
func TestFileNames(t *testing.T) {
	w := newWorld(t, 1, true)
	row := func(key string) hudi.Located {
		return hudi.Located{Record: hudi.Record{Key: hudi.Key{Record: key, Partition: "pt=a"}, Order: 1,
			Row: hudi.Row{hudi.String(key), {}, hudi.Long(1), {}, {}, hudi.String("x")}}, Location: hudi.Location{Partition: "pt=a"}}
	}
	x, body := w.write([]hudi.Located{row("b"), row("a")})
	want := fmt.Sprintf("pt=a/00000001-0000-4000-8000-000000000001-0_0-0-0_%s.parquet", x.Instant())
	if got := body.Stats["pt=a"][0].Path; got != want {
		t.Fatalf("got %s want %s", got, want)
	}
	if err := x.Commit(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	first := x.Instant()
	r := row("a")
	r.File, r.Order, r.Row[2] = body.Stats["pt=a"][0].File, 2, hudi.Long(2)
	x, body = w.write([]hudi.Located{r})
	want = fmt.Sprintf("pt=a/.00000001-0000-4000-8000-000000000001-0_%s.log.1_0-0-0", first)
	if got := body.Stats["pt=a"][0].Path; got != want {
		t.Fatalf("got %s want %s", got, want)
	}
	if err := x.Commit(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	v, err := w.table.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r, err := range reader.Snapshot(t.Context(), v, reader.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(r.Key.Record, " ", r.CommitSeqno, " ", r.CommitTime))
	}
	slices.Sort(got)
	if want := []string{fmt.Sprintf("a %s_0_0 %[1]s", x.Instant()), fmt.Sprintf("b %s_0_1 %[1]s", first)}; !slices.Equal(got, want) {
		t.Fatalf("%v\nwant %v", got, want)
	}
	log, err := v.Open(t.Context(), "pt=a", hudi.File{Name: path.Base(body.Stats["pt=a"][0].Path)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := logfile.NewScanner(log, log.Size()).Next()
	if err != nil || b.Type != logfile.AvroData || b.Instant != x.Instant() {
		t.Fatalf("%+v %v", b, err)
	}
}

// TestWriteReportsFaults: a full disk or a cancelled context is an error, and
// leaves nothing that a reader sees.
func TestWriteReportsFaults(t *testing.T) {
	w := newWorld(t, 2, true)
	rs, _ := w.batch(40)
	x, err := w.table.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := writer.Write(ctx, x, w.schema, rs, w.o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	astray := slices.Clone(rs[:1])
	astray[0].File = "gone-0"
	if _, err := writer.Write(t.Context(), x, w.schema, astray, w.o); !errors.Is(err, writer.ErrLocation) {
		t.Fatalf("%v", err)
	}
	short := slices.Clone(rs[:1])
	short[0].Row = short[0].Row[:2]
	if _, err := writer.Write(t.Context(), x, w.schema, short, w.o); err == nil || !strings.Contains(err.Error(), short[0].Key.Record) {
		t.Fatalf("a row that does not fit the schema: %v", err)
	}
	if err := x.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.snapshot(reader.Options{}); len(got) > 0 {
		t.Fatalf("%v", got)
	}
}
