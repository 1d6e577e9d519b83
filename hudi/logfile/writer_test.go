package logfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

const (
	instant = "20260101000000000"
	fileID  = "0f1fc431-f37c-4ca0-94b7-d302faf35e8f-0"
	tagType = `{"type":"array","items":["null","string"]}`
)

// wideSchema has a column of each kind.
func wideSchema(t testing.TB) *hudi.Schema {
	t.Helper()
	s, err := hudi.NewSchema("docs",
		hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong},
		hudi.Column{Name: "b", Kind: hudi.KindBoolean}, hudi.Column{Name: "i", Kind: hudi.KindInt},
		hudi.Column{Name: "f", Kind: hudi.KindFloat}, hudi.Column{Name: "d", Kind: hudi.KindDouble},
		hudi.Column{Name: "raw", Kind: hudi.KindBytes},
		hudi.Column{Name: "fix", Kind: hudi.KindBytes, Type: `{"type":"fixed","name":"fix_t","size":3}`},
		hudi.Column{Name: "color", Kind: hudi.KindString, Type: `{"type":"enum","name":"color_t","symbols":["RED","BLUE"]}`},
		hudi.Column{Name: "tags", Kind: hudi.KindNested, Type: tagType},
		hudi.Column{Name: "must", Kind: hudi.KindString, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func nestedTags(tags ...string) hudi.Value {
	if len(tags) == 0 {
		return hudi.Nested([]byte{0})
	}
	b := avro.AppendLong(nil, int64(len(tags)))
	for _, s := range tags {
		b = avro.AppendText(append(b, 2), s)
	}
	return hudi.Nested(append(b, 0))
}

// randomRecord is a row of wideSchema, and what the Avro library takes for it.
func randomRecord(r *rand.Rand, n int) (hudi.Record, map[string]any) {
	id := fmt.Sprintf("id-%d-%s", n, strings.Repeat("é", r.IntN(80)))
	long := int64(r.Uint64()) >> r.IntN(64)
	d, f := math.Float64frombits(r.Uint64()), float32(r.NormFloat64())
	raw, fix := make([]byte, r.IntN(9)), []byte{1, byte(n), 0xff}
	tags := []string{"a", strings.Repeat("t", r.IntN(70))}[:r.IntN(3)]
	rec := hudi.Record{Key: hudi.Key{Record: id, Partition: "pt=1"}, Order: long, Row: hudi.Row{
		hudi.String(id), hudi.Long(long), hudi.Boolean(n%2 == 0), hudi.Int(int32(long)), hudi.Float(f), hudi.Double(d), hudi.Bytes(raw),
		hudi.Bytes(fix), hudi.String([]string{"RED", "BLUE"}[n%2]), nestedTags(tags...), hudi.String("m")}}
	items := []any{}
	for _, s := range tags {
		items = append(items, map[string]any{"string": s})
	}
	m := map[string]any{
		hudi.MetaCommitTime:    map[string]any{"string": instant},
		hudi.MetaCommitSeqno:   map[string]any{"string": fmt.Sprintf("%s_7_%d", instant, n)},
		hudi.MetaRecordKey:     map[string]any{"string": id},
		hudi.MetaPartitionPath: map[string]any{"string": "pt=1"},
		hudi.MetaFileName:      map[string]any{"string": fileID},
		"_id":                  map[string]any{"string": id}, "_rev_order": map[string]any{"long": long}, "b": map[string]any{"boolean": n%2 == 0},
		"i": map[string]any{"int": int(int32(long))}, "f": map[string]any{"float": f}, "d": map[string]any{"double": d},
		"raw": map[string]any{"bytes": raw}, "fix": map[string]any{"hoodie.docs.fix_t": [3]byte(fix)},
		"color": map[string]any{"hoodie.docs.color_t": []string{"RED", "BLUE"}[n%2]},
		"tags":  map[string]any{"array": items}, "must": "m"}
	for i, c := range []string{"_id", "_rev_order", "b", "i", "f", "d", "raw", "fix", "color", "tags"} {
		if r.IntN(4) == 0 {
			rec.Row[i], m[c] = hudi.Value{}, nil
		}
	}
	return rec, m
}

func write(t testing.TB, s *hudi.Schema, o logfile.WriterOptions, rs ...hudi.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := logfile.NewWriter(&b, s, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rs {
		if err := w.Append(&rs[i]); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := w.Close()
	if err != nil || stats.Bytes != int64(b.Len()) {
		t.Fatalf("%+v of %d bytes: %v", stats, b.Len(), err)
	}
	return b.Bytes()
}

func options() logfile.WriterOptions {
	return logfile.WriterOptions{Stamp: hudi.Stamp{Instant: instant, Task: 7}, File: fileID}
}

// readAll scans a file; a corrupt block is an error.
func readAll(data []byte, target *hudi.Schema, order string) (rs []hudi.Record, types []logfile.Type, err error) {
	s := logfile.NewScanner(bytes.NewReader(data), int64(len(data)))
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return rs, types, nil
		}
		if err != nil {
			return rs, types, err
		}
		types = append(types, b.Type)
		for r, err := range b.Records(target, order) {
			if err != nil {
				return rs, types, err
			}
			rs = append(rs, r.Clone())
		}
	}
}

// TestEncodingIsTheLibrarys: our encoder and the Avro library agree on every byte.
func TestEncodingIsTheLibrarys(t *testing.T) {
	s := wideSchema(t)
	schema, err := avro.Parse(s.AvroWithMeta())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var rs []hudi.Record
	content := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 3), 500)
	for n := range 500 {
		rec, m := randomRecord(r, n)
		rs = append(rs, rec)
		datum, err := schema.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		content = append(binary.BigEndian.AppendUint32(content, uint32(len(datum))), datum...)
	}
	data := write(t, s, options(), rs...)
	sc := logfile.NewScanner(bytes.NewReader(data), int64(len(data)))
	b, err := sc.Next()
	if err != nil {
		t.Fatal(err)
	}
	if b.Length != int64(len(data)) || b.Instant != instant || b.Schema != s.AvroWithMeta() || len(b.Header) != 2 {
		t.Fatalf("%+v", b)
	}
	got := data[b.ContentOffset : b.ContentOffset+b.ContentLength]
	if !bytes.Equal(got, content) {
		t.Fatalf("%d bytes of content, the library has %d", len(got), len(content))
	}
}

func TestRoundTrip(t *testing.T) {
	s := wideSchema(t)
	r := rand.New(rand.NewPCG(3, 4))
	var rs []hudi.Record
	want := map[string]hudi.Record{}
	for n := range 300 {
		rec, _ := randomRecord(r, n)
		if n == 299 { // a record that has its commit already keeps it
			rec.CommitTime, rec.CommitSeqno = "20250101000000000", "x_1_2"
		}
		rs = append(rs, rec)
		if n != 299 {
			rec.CommitTime, rec.CommitSeqno = instant, fmt.Sprintf("%s_7_%d", instant, n)
		}
		rec.Order = rec.Row[1].Long()
		want[rec.Key.Record] = rec
		d := hudi.Record{Key: hudi.Key{Record: fmt.Sprint("gone", n), Partition: "pt=1"}, Delete: true, Order: int64(n) << 40}
		rs, want[d.Key.Record] = append(rs, d), d
	}
	for _, c := range []struct{ size, blocks int }{{0, 2}, {1, 600}, {700, -1}, {5000, -1}} {
		o := options()
		o.BlockBytes = c.size
		got, types, err := readAll(write(t, s, o, rs...), s, "_rev_order")
		if err != nil {
			t.Fatal(err)
		}
		if c.blocks >= 0 && len(types) != c.blocks || len(got) != len(want) {
			t.Fatalf("block size %d: %d blocks, %d records", c.size, len(types), len(got))
		}
		if c.size == 0 && (types[0] != logfile.AvroData || types[1] != logfile.Delete) {
			t.Fatalf("blocks %v", types)
		}
		for _, g := range got {
			if !reflect.DeepEqual(g, want[g.Key.Record]) {
				t.Fatalf("block size %d: got %+v, want %+v", c.size, g, want[g.Key.Record])
			}
		}
	}
}

func TestEmptyFile(t *testing.T) {
	if data := write(t, wideSchema(t), options()); len(data) != 0 {
		t.Fatalf("%d bytes", len(data))
	}
	s := logfile.NewScanner(bytes.NewReader(nil), 0)
	if _, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// TestDeleteBlockBytes: the bytes that Hudi's own writer makes.
func TestDeleteBlockBytes(t *testing.T) {
	data := write(t, wideSchema(t), options(), hudi.Record{Key: hudi.Key{Record: "k1", Partition: "p=1"}, Delete: true, Order: 300})
	b, err := logfile.NewScanner(bytes.NewReader(data), int64(len(data))).Next()
	if err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x03\x00\x00\x00\x0e" + "\x02" + "\x02\x04k1" + "\x02\x06p=1" + "\x06\xd8\x04" + "\x00"
	if got := string(data[b.ContentOffset : b.ContentOffset+b.ContentLength]); got != want {
		t.Fatalf("%x, want %x", got, want)
	}
}

func TestAppendRefuses(t *testing.T) {
	s := wideSchema(t)
	good, _ := randomRecord(rand.New(rand.NewPCG(5, 6)), 1)
	change := func(i int, v hudi.Value) hudi.Record {
		c := good.Clone()
		c.Row[i] = v
		return c
	}
	short := good.Clone()
	short.Row = short.Row[:3]
	unkeyed := good.Clone()
	unkeyed.Key.Record = ""
	bad := map[string]hudi.Record{
		"wrong kind": change(0, hudi.Long(1)), "string for long": change(1, hudi.String("1")), "long for int": change(3, hudi.Long(1)),
		"unknown symbol": change(8, hudi.String("GREEN")), "size of fixed": change(7, hudi.Bytes([]byte{1})),
		"null in required": change(10, hudi.Value{}), "cells": short, "key": unkeyed,
		"natural delete": {Key: good.Key, Delete: true, Natural: true},
	}
	var b bytes.Buffer
	w, err := logfile.NewWriter(&b, s, options())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(&good); err != nil {
		t.Fatal(err)
	}
	for name, r := range bad {
		if err := w.Append(&r); !errors.Is(err, logfile.ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Append(&good); err != nil {
		t.Fatal(err)
	}
	stats, err := w.Close()
	if err != nil || stats.Writes != 2 || stats.Deletes != 0 {
		t.Fatalf("%+v %v", stats, err)
	}
	got, _, err := readAll(b.Bytes(), s, "")
	if err != nil || len(got) != 2 || !reflect.DeepEqual(got[0].Row, got[1].Row) {
		t.Fatalf("%v %v", got, err)
	}
	if err := w.Append(&good); err == nil {
		t.Fatal("append after close")
	}
	if _, err := logfile.NewWriter(&b, s, logfile.WriterOptions{}); !errors.Is(err, logfile.ErrRecord) {
		t.Fatal(err)
	}
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWriteErrorStays(t *testing.T) {
	s := wideSchema(t)
	rec, _ := randomRecord(rand.New(rand.NewPCG(5, 6)), 1)
	whole := write(t, s, options(), rec)
	for left := range whole {
		w, err := logfile.NewWriter(&failing{left}, s, options())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Append(&rec); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := w.Close(); !errors.Is(err, io.ErrClosedPipe) {
				t.Fatalf("after %d bytes: %v", left, err)
			}
		}
	}
}
