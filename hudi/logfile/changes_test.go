package logfile_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

// demoSchema is that of the rows in the vectors of change blocks.
func demoSchema(t *testing.T) *hudi.Schema {
	t.Helper()
	s, err := hudi.MakeSchema("demo_record", "hoodie.demo", hudi.Column{Name: "id", Kind: hudi.KindString},
		hudi.Column{Name: "ts", Kind: hudi.KindLong}, hudi.Column{Name: "val", Kind: hudi.KindDouble})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestChangeVectors: what Hudi's classes wrote is read, and writing it again gives
// the same bytes of content, whatever the size of blocks.
func TestChangeVectors(t *testing.T) {
	s := demoSchema(t)
	row := func(id string, ts int64, val hudi.Value) hudi.Row {
		return hudi.Row{hudi.String(id), hudi.Long(ts), val}
	}
	before1, after1 := row("k1", 100, hudi.Double(1.5)), row("k1", 200, hudi.Double(2.5))
	after3, before2 := row("k3", 5, hudi.Value{}), row("k2", 7, hudi.Double(9))
	for mode, want := range map[hudi.CDCMode][]logfile.Change{
		hudi.CDCOpKeyOnly:       {{Op: 'u', Key: "k1"}, {Op: 'i', Key: "k3"}, {Op: 'd', Key: "k2"}},
		hudi.CDCDataBefore:      {{Op: 'u', Key: "k1", Before: before1}, {Op: 'i', Key: "k3"}, {Op: 'd', Key: "k2", Before: before2}},
		hudi.CDCDataBeforeAfter: {{Op: 'u', Before: before1, After: after1}, {Op: 'i', After: after3}, {Op: 'd', Before: before2}},
	} {
		file := map[hudi.CDCMode]string{hudi.CDCOpKeyOnly: "logblock_cdc_op_key_only.hex", hudi.CDCDataBefore: "logblock_cdc_data_before.hex",
			hudi.CDCDataBeforeAfter: "logblock_cdc_data_before_after.hex"}[mode]
		hudis := vector(t, file)
		blocks := changeBlocks(t, hudis)
		if got := changesOf(t, s, mode, blocks); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %+v, want %+v", mode, got, want)
		}
		ours := writeChanges(t, s, mode, 0, want)
		mine := changeBlocks(t, ours)
		if len(mine) != 1 || !bytes.Equal(content(ours, mine[0]), content(hudis, blocks[0])) {
			t.Errorf("%s: other bytes than Hudi's", mode)
		}
		if mine[0].Schema != blocks[0].Schema && mode == hudi.CDCOpKeyOnly {
			t.Errorf("schema %s\nwant   %s", mine[0].Schema, blocks[0].Schema)
		}
		if none := changeBlocks(t, appendAll(t, s, mode, logfile.WriterOptions{Stamp: hudi.Stamp{Instant: "20240131120000123"}, File: fileID}, nil)); len(none) != 1 {
			t.Errorf("%s: a file without changes has %d blocks", mode, len(none))
		}
		small := changeBlocks(t, writeChanges(t, s, mode, 1, want))
		if got := changesOf(t, s, mode, small); len(small) != len(want) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s in %d blocks: %+v", mode, len(small), got)
		}
	}
}

func content(file []byte, b *logfile.Block) []byte {
	return file[b.ContentOffset : b.ContentOffset+b.ContentLength]
}

func writeChanges(t *testing.T, s *hudi.Schema, mode hudi.CDCMode, limit int, list []logfile.Change) []byte {
	t.Helper()
	var b bytes.Buffer
	o := logfile.WriterOptions{Stamp: hudi.Stamp{Instant: "20240131120000123"}, File: fileID, BlockBytes: limit}
	w, err := logfile.NewChangeWriter(&b, s, mode, o)
	if err != nil {
		t.Fatal(err)
	}
	bad := logfile.Change{Op: 'u', Key: "x", Before: hudi.Row{hudi.Long(1)}, After: hudi.Row{}}
	if err := w.Append(bad); mode != hudi.CDCOpKeyOnly && !errors.Is(err, logfile.ErrRecord) {
		t.Fatalf("%s: a row of one cell: %v", mode, err)
	} else if mode == hudi.CDCOpKeyOnly {
		return appendAll(t, s, mode, o, list)
	}
	for _, c := range list {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err == nil {
		t.Error("closed twice")
	}
	return b.Bytes()
}

func appendAll(t *testing.T, s *hudi.Schema, mode hudi.CDCMode, o logfile.WriterOptions, list []logfile.Change) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := logfile.NewChangeWriter(&b, s, mode, o)
	for _, c := range list {
		err = errors.Join(err, w.Append(c))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func changeBlocks(t *testing.T, data []byte) []*logfile.Block {
	t.Helper()
	var list []*logfile.Block
	s := logfile.NewScanner(bytes.NewReader(data), int64(len(data)))
	for {
		b, err := s.Next()
		if err != nil {
			return list
		}
		list = append(list, b)
	}
}

func changesOf(t *testing.T, s *hudi.Schema, mode hudi.CDCMode, blocks []*logfile.Block) []logfile.Change {
	t.Helper()
	var list []logfile.Change
	for _, b := range blocks {
		if got, err := b.ChangeMode(); err != nil || got != mode {
			t.Fatalf("mode %q, %v, want %q", got, err, mode)
		}
		for c, err := range b.Changes(s) {
			if err != nil {
				t.Fatal(err)
			}
			kept := *c
			kept.Before, kept.After = slices.Clone(c.Before), slices.Clone(c.After)
			list = append(list, kept)
		}
	}
	return list
}

// TestChangeBlocksThatAreNone: other blocks and other schemas give errors that say so.
func TestChangeBlocksThatAreNone(t *testing.T) {
	s := demoSchema(t)
	for _, b := range changeBlocks(t, vector(t, "logblock_avro_data.hex")) {
		for _, err := range b.Changes(s) {
			if !errors.Is(err, logfile.ErrUnsupported) {
				t.Errorf("an %s block: %v", b.Type, err)
			}
		}
	}
	for schema, want := range map[string]error{
		`{"type":"record","name":"CDC","fields":[{"name":"op","type":"string"}]}`:              logfile.ErrCorrupt,
		`{"type":"record","name":"CDC","fields":[{"name":"before","type":["null","string"]}]}`: logfile.ErrUnsupported,
		`"string"`: logfile.ErrCorrupt,
	} {
		b := *changeBlocks(t, vector(t, "logblock_cdc_data_before.hex"))[0]
		b.Schema = schema
		for _, err := range b.Changes(s) {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", schema, err)
			}
		}
	}
}
