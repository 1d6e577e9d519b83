package reader_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
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
)

// fixture is a table whose files a test writes one by one.
type fixture struct {
	t      testing.TB
	driver storage.Driver
	bucket *storage.Bucket
	table  *table.Table
	schema *hudi.Schema
	files  int
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureIn(t, teststore.New(t))
}

func newFixtureIn(t testing.TB, d storage.Driver) *fixture {
	t.Helper()
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong},
		hudi.Column{Name: "_op", Kind: hudi.KindString}, hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean}, hudi.Column{Name: "v", Kind: hudi.KindString})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	f := &fixture{t: t, driver: d, schema: s}
	f.bucket = storage.New(f.driver, nil)
	if f.table, err = table.Create(t.Context(), f.bucket, table.CreateOptions{Name: "docs", PartitionField: "pt"}, table.Options{Clock: clock}); err != nil {
		t.Fatal(err)
	}
	lease, err := f.table.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lease.Close() })
	return f
}

// put is a row of the fixture's schema.
func put(key string, order int64, v string) hudi.Record {
	return hudi.Record{Key: hudi.Key{Record: key}, Order: order,
		Row: hudi.Row{hudi.String(key), hudi.Long(order), hudi.String("u"), hudi.Boolean(false), hudi.String(v)}}
}

func tombstone(key string, order int64) hudi.Record {
	r := put(key, order, "")
	r.Row[2], r.Row[3], r.Row[4] = hudi.String("d"), hudi.Boolean(true), hudi.Value{}
	return r
}

// natural makes of the deletes of a log file that have the order 0 what Hudi's own
// delete has, an int 0. Our writer has no such delete.
func natural(b []byte) []byte {
	return bytes.ReplaceAll(b, []byte("\x08pt=a\x06\x00"), []byte("\x08pt=a\x04\x00"))
}

func remove(key string, order int64) hudi.Record {
	return hudi.Record{Key: hudi.Key{Record: key}, Order: order, Delete: true}
}

// write is one file of a commit.
type write struct {
	partition string
	group     hudi.FileID
	// base is the base instant of a log file, empty for a base file.
	base    hudi.Time
	version int
	records []hudi.Record
	// spoil changes the bytes before they are stored.
	spoil func([]byte) []byte
}

func baseOf(partition string, group hudi.FileID, rs ...hudi.Record) write {
	return write{partition: partition, group: group, records: rs}
}

func logOf(partition string, group hudi.FileID, base hudi.Time, version int, rs ...hudi.Record) write {
	return write{partition: partition, group: group, base: base, version: version, records: rs}
}

// begin begins a commit and writes its files.
func (f *fixture) begin(writes ...write) (*table.Txn, commitmeta.Body) {
	f.t.Helper()
	x, err := f.table.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	body := commitmeta.Body{Stats: map[string][]commitmeta.WriteStat{}, Operation: "UPSERT",
		Extra: map[string]string{commitmeta.ExtraSchema: f.schema.Avro()}}
	for _, w := range writes {
		stat, err := f.store(f.t.Context(), x, w)
		if err != nil {
			f.t.Fatal(err)
		}
		body.Stats[w.partition] = append(body.Stats[w.partition], stat)
	}
	return x, body
}

// commit writes files and commits them.
func (f *fixture) commit(writes ...write) hudi.Time {
	f.t.Helper()
	x, body := f.begin(writes...)
	if err := x.Commit(f.t.Context(), body); err != nil {
		f.t.Fatal(err)
	}
	return x.Instant()
}

// pieces lets a file be spoilt before it is stored.
type pieces struct{ data []byte }

func (p *pieces) Write(b []byte) (int, error) {
	p.data = append(p.data, b...)
	return len(b), nil
}

func (f *fixture) store(ctx context.Context, x *table.Txn, w write) (commitmeta.WriteStat, error) {
	f.files++
	for i := range w.records {
		w.records[i].Key.Partition = w.partition
	}
	token := fmt.Sprintf("%d-0-0", f.files)
	stamp := hudi.Stamp{Instant: x.Instant(), Task: f.files}
	marker, n := table.MarkCreate, int64(len(w.records))
	stat := commitmeta.WriteStat{File: w.group, Partition: w.partition, Writes: n, Inserts: n}
	var p pieces
	var name string
	var err error
	if w.base == "" {
		name = hudi.BaseFileName{File: w.group, Token: token, Instant: x.Instant()}.String()
		err = f.encodeBase(&p, name, stamp, w.records)
	} else {
		marker = table.MarkAppend
		name = hudi.LogFileName{File: w.group, Instant: w.base, Version: w.version, Token: token}.String()
		stat.PrevCommit, stat.Log = w.base, &commitmeta.LogStat{Version: w.version, LogFiles: []string{name}}
		stat.Inserts, stat.Updates = 0, n
		err = f.encodeLog(&p, w.group, stamp, w.records)
	}
	if err != nil {
		return stat, err
	}
	if w.spoil != nil {
		p.data = w.spoil(p.data)
	}
	stat.Path, stat.Bytes = path.Join(w.partition, name), int64(len(p.data))
	up, err := x.Create(ctx, w.partition, name, marker)
	if err != nil {
		return stat, err
	}
	if _, err := up.Write(p.data); err != nil {
		return stat, err
	}
	_, err = up.Commit()
	return stat, err
}

func (f *fixture) encodeBase(to io.Writer, name string, stamp hudi.Stamp, rs []hudi.Record) error {
	slices.SortFunc(rs, func(a, b hudi.Record) int { return hudi.CompareUTF16(a.Key.Record, b.Key.Record) })
	w, err := basefile.NewWriter(to, f.schema, basefile.WriterOptions{Stamp: stamp, FileName: name})
	if err != nil {
		return err
	}
	for i := range rs {
		if err := w.Append(&rs[i]); err != nil {
			return err
		}
	}
	_, err = w.Close()
	return err
}

func (f *fixture) encodeLog(to io.Writer, group hudi.FileID, stamp hudi.Stamp, rs []hudi.Record) error {
	w, err := logfile.NewWriter(to, f.schema, logfile.WriterOptions{Stamp: stamp, File: group})
	if err != nil {
		return err
	}
	for i := range rs {
		if err := w.Append(&rs[i]); err != nil {
			return err
		}
	}
	_, err = w.Close()
	return err
}

func (f *fixture) view() *table.View {
	f.t.Helper()
	v, err := f.table.View(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

// seen is a sequence as lines "partition/key order value", sorted; "-" before
// deletes and what they hide, "†" before tombstones.
func seen(t testing.TB, s *hudi.Schema, seq iter.Seq2[*hudi.Record, error]) []string {
	t.Helper()
	var out []string
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s/%s %d", r.Key.Partition, r.Key.Record, r.Order)
		switch {
		case r.Delete:
			line = "-" + line
			if r.Row != nil {
				line += " " + s.At(r.Row, "v").Text()
			}
		case s.At(r.Row, "_deleted").Boolean():
			line = "†" + line
		default:
			line += " " + s.At(r.Row, "v").Text()
		}
		out = append(out, line)
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}

// failure is the error with which a sequence ends.
func failure(seq iter.Seq2[*hudi.Record, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fixture) snapshot(o reader.Options) []string {
	f.t.Helper()
	return seen(f.t, f.schema, reader.Snapshot(f.t.Context(), f.view(), o))
}

func printer(t *testing.T, s *hudi.Schema) *reader.Printer {
	t.Helper()
	p, err := reader.NewPrinter(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
