package logfile_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

const vectors = "../../testdata/vectors/"

// vector is the file that a Java writer made.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(vectors + name)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.TrimSpace(line))
		}
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type vectorIndex struct {
	Blocks []struct {
		Name, File string
		Blocks     []struct {
			Type       string
			Start, End int64
			Header     map[string]string
			Records    []map[string]any
		}
	}
}

func loadIndex(t *testing.T) vectorIndex {
	t.Helper()
	text, err := os.ReadFile(vectors + "logblock_index.json")
	if err != nil {
		t.Fatal(err)
	}
	var ix vectorIndex
	if err := json.Unmarshal(text, &ix); err != nil {
		t.Fatal(err)
	}
	return ix
}

var vectorTypes = map[string]logfile.Type{"COMMAND": logfile.Command, "DELETE": logfile.Delete, "AVRO_DATA": logfile.AvroData,
	"HFILE_DATA": logfile.HFileData, "PARQUET_DATA": logfile.ParquetData, "CDC_DATA": logfile.CDCData}

var vectorKeys = map[string]logfile.HeaderKey{"INSTANT_TIME": logfile.InstantTime, "TARGET_INSTANT_TIME": logfile.TargetInstantTime,
	"SCHEMA": logfile.SchemaText, "COMMAND_BLOCK_TYPE": logfile.CommandType, "RECORD_POSITIONS": logfile.RecordPositions,
	"BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": logfile.PositionsBaseInstant, "COMPACTED_BLOCK_TIMES": logfile.CompactedBlockTimes,
	"IS_PARTIAL": logfile.IsPartial, "BLOCK_IDENTIFIER": logfile.BlockIdentifier}

func TestVectors(t *testing.T) {
	ix := loadIndex(t)
	if len(ix.Blocks) < 13 {
		t.Fatalf("only %d vectors", len(ix.Blocks))
	}
	for _, v := range ix.Blocks {
		t.Run(v.Name, func(t *testing.T) {
			data := vector(t, v.File)
			s := logfile.NewScanner(bytes.NewReader(data), int64(len(data)))
			for _, want := range v.Blocks {
				b, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				if b.Type != vectorTypes[want.Type] || b.Offset != want.Start || b.Offset+b.Length != want.End {
					t.Fatalf("%s at %d of %d bytes, want %+v", b.Type, b.Offset, b.Length, want)
				}
				header := map[logfile.HeaderKey]string{}
				for k, text := range want.Header {
					key, ok := vectorKeys[k]
					if !ok {
						t.Fatalf("header key %s", k)
					}
					header[key] = text
				}
				if !reflect.DeepEqual(b.Header, header) {
					t.Fatalf("header %v, want %v", b.Header, header)
				}
				if string(b.Instant) != want.Header["INSTANT_TIME"] || string(b.Target) != want.Header["TARGET_INSTANT_TIME"] {
					t.Fatalf("instant %s, target %s", b.Instant, b.Target)
				}
				checkVector(t, v.Name, b, want.Records)
			}
			if _, err := s.Next(); !errors.Is(err, io.EOF) {
				t.Fatalf("after the last block: %v", err)
			}
		})
	}
}

func checkVector(t *testing.T, name string, b *logfile.Block, want []map[string]any) {
	switch b.Type {
	case logfile.AvroData:
		checkRows(t, b, want)
	case logfile.CDCData:
		checkChanges(t, b, want)
	case logfile.Delete:
		checkDeletes(t, name, b, want)
	case logfile.Command:
		for range b.Records(emptySchema(t), "") {
			t.Fatal("a command block has no records")
		}
	default:
		err := firstError(b, emptySchema(t))
		if !errors.Is(err, logfile.ErrUnsupported) || !strings.Contains(err.Error(), b.Type.String()) {
			t.Fatalf("got %v", err)
		}
	}
}

func emptySchema(t testing.TB) *hudi.Schema {
	t.Helper()
	s, err := hudi.MakeSchema("r", "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func firstError(b *logfile.Block, target *hudi.Schema) error {
	for _, err := range b.Records(target, "") {
		if err != nil {
			return err
		}
	}
	return nil
}

// rowJSON is a row as JSON decoded into a map, numbers kept as text.
func rowJSON(t *testing.T, s *hudi.Schema, r *hudi.Record) map[string]any {
	t.Helper()
	datum := []byte{}
	for i, v := range r.Row {
		c := &s.Columns()[i]
		if v.IsNull() {
			datum = append(datum, 0)
			continue
		}
		if !c.Required {
			datum = append(datum, 2)
		}
		switch v.Kind() {
		case hudi.KindString:
			datum = avro.AppendText(datum, v.Text())
		case hudi.KindLong, hudi.KindInt:
			datum = avro.AppendLong(datum, v.Long())
		case hudi.KindDouble:
			datum = avro.AppendDouble(datum, v.Double())
		case hudi.KindNested:
			datum = append(datum, v.Text()...)
		case hudi.KindBoolean:
			datum = append(datum, map[bool]byte{true: 1}[v.Boolean()])
		default:
			t.Fatalf("column %s of kind %s", c.Name, v.Kind())
		}
	}
	schema, err := avro.Parse(s.Avro())
	if err != nil {
		t.Fatal(err)
	}
	text, err := avro.ToJSON(schema, datum)
	if err != nil {
		t.Fatal(err)
	}
	return decodeJSON(t, text)
}

func decodeJSON(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func checkRows(t *testing.T, b *logfile.Block, want []map[string]any) {
	target, err := hudi.ParseSchema(b.Schema)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range b.Records(target, "ts") {
		if err != nil {
			t.Fatal(err)
		}
		got := rowJSON(t, target, r)
		got[hudi.MetaCommitTime], got[hudi.MetaCommitSeqno] = string(r.CommitTime), r.CommitSeqno
		got[hudi.MetaRecordKey], got[hudi.MetaPartitionPath] = r.Key.Record, r.Key.Partition
		w := want[n]
		delete(w, hudi.MetaFileName)
		if !reflect.DeepEqual(got, w) {
			t.Fatalf("row %d: got %v, want %v", n, got, w)
		}
		if float64(r.Order) != w["ts"] {
			t.Fatalf("row %d: order %d", n, r.Order)
		}
		n++
	}
	if n != len(want) {
		t.Fatalf("%d rows, want %d", n, len(want))
	}
}

func checkChanges(t *testing.T, b *logfile.Block, want []map[string]any) {
	// The second of two columns of one record type refers to the first by
	// name, which a column's type of ours cannot: it is spelled out here.
	schema := b.Schema
	if i, j := strings.Index(schema, `{"type":"record","name":"demo_record"`), strings.LastIndex(schema, `"demo_record"]`); i >= 0 && j > i {
		inner := schema[i : i+strings.Index(schema[i:], "]}]")+2]
		schema = schema[:j] + strings.Replace(inner, "demo_record", "after_record", 1) + schema[j+len(`"demo_record"`):]
	}
	target, err := hudi.ParseSchema(schema)
	if err != nil {
		t.Fatalf("%v: %s", err, schema)
	}
	n := 0
	for r, err := range b.Records(target, "") {
		if err != nil {
			t.Fatal(err)
		}
		if got := rowJSON(t, target, r); !reflect.DeepEqual(got, want[n]) {
			t.Fatalf("change %d: got %v, want %v", n, got, want[n])
		}
		n++
	}
	if n != len(want) {
		t.Fatalf("%d changes, want %d", n, len(want))
	}
}

func checkDeletes(t *testing.T, name string, b *logfile.Block, want []map[string]any) {
	if name == "delete_v2_kryo" {
		if err := firstError(b, emptySchema(t)); !errors.Is(err, logfile.ErrUnsupported) {
			t.Fatalf("got %v", err)
		}
		return
	}
	n := 0
	for r, err := range b.Records(emptySchema(t), "") {
		order := want[n]["orderingVal"].([]any)
		class := order[0].(string)[strings.LastIndexByte(order[0].(string), '.')+1:]
		value, integer := order[1].(map[string]any)["value"].(float64)
		if !integer || class == "FloatWrapper" || class == "DoubleWrapper" {
			// The first value that is no integer ends what this reader can do.
			if !errors.Is(err, logfile.ErrOrder) || !strings.Contains(err.Error(), class) {
				t.Fatalf("delete %d of class %s: %v", n, class, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Key.Record != want[n]["recordKey"] || r.Key.Partition != want[n]["partitionPath"] || !r.Delete || r.Row != nil ||
			r.Order != int64(value) || r.Natural != (class == "IntWrapper" && value == 0) {
			t.Fatalf("delete %d: got %+v, want %v", n, r, want[n])
		}
		n++
	}
	if n != len(want) {
		t.Fatalf("%d deletes, want %d", n, len(want))
	}
}
