package commitmeta_test

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"io"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// avroCommits calls f with every completed write of golden tables, of later
// versions, and with the sizes of the files that the table has.
func avroCommits(t testing.TB, tables string, f func(name string, data []byte, sizes map[string]int64)) {
	t.Helper()
	zips, err := filepath.Glob("../testdata/golden/" + tables + ".zip")
	if err != nil || len(zips) == 0 {
		t.Fatalf("no golden tables: %v", err)
	}
	for _, name := range zips {
		z, err := zip.OpenReader(name)
		if err != nil {
			t.Fatal(err)
		}
		sizes := map[string]int64{}
		for _, e := range z.File {
			sizes[strings.TrimPrefix(e.Name, "table/")] = int64(e.UncompressedSize64)
		}
		for _, e := range z.File {
			if path.Dir(e.Name) != "table/.hoodie/timeline" || !strings.HasSuffix(e.Name, "commit") || !strings.Contains(path.Base(e.Name), "_") {
				continue
			}
			r, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			f(filepath.Base(name)+" "+path.Base(e.Name), data, sizes)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAvroCommits(t *testing.T) {
	commits, logs, replaced, cdc := 0, 0, 0, 0
	avroCommits(t, "w120-v[89]-*", func(name string, data []byte, sizes map[string]int64) {
		commits++
		b, err := commitmeta.Decode(hudi.Version9, data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := hudi.ParseSchema(b.Extra[commitmeta.ExtraSchema]); err != nil || b.Operation == "" {
			t.Errorf("%s: operation %q, schema: %v", name, b.Operation, err)
		}
		if compaction := strings.HasSuffix(name, ".commit") && b.Operation == "COMPACT"; b.Compacted != compaction {
			t.Errorf("%s: %s, compacted %v", name, b.Operation, b.Compacted)
		}
		if b.Replaced != nil != strings.HasSuffix(name, ".replacecommit") {
			t.Errorf("%s replaced %v", name, b.Replaced)
		}
		replaced += len(b.Replaced)
		for partition, stats := range b.Stats {
			for _, s := range stats {
				if size, there := sizes[s.Path]; there && size != s.Bytes {
					t.Errorf("%s: %s has %d bytes, by its stat %d", name, s.Path, size, s.Bytes)
				}
				if isLog := strings.HasPrefix(path.Base(s.Path), "."); isLog != (s.Log != nil) || s.Partition != partition || !strings.Contains(s.Path, string(s.File)) {
					t.Errorf("%s: %+v", name, s)
				}
				if s.Log != nil {
					logs++
					if last := s.Log.LogFiles; len(last) == 0 || last[len(last)-1] != path.Base(s.Path) || s.Log.Version != 1 {
						t.Errorf("%s: %s: %+v", name, s.Path, s.Log)
					}
				}
				cdc += len(s.CDC)
			}
		}
	})
	if commits < 100 || logs == 0 || replaced == 0 || cdc == 0 {
		t.Errorf("%d commits, %d log files, %d replacing, %d change files: the golden tables hold too little", commits, logs, replaced, cdc)
	}
}

// statRecord is HoodieWriteStat as far as we read it.
type statRecord struct {
	File           *string           `avro:"fileId"`
	Path           *string           `avro:"path"`
	Prev           *string           `avro:"prevCommit"`
	Writes         *int64            `avro:"numWrites"`
	Deletes        *int64            `avro:"numDeletes"`
	Updates        *int64            `avro:"numUpdateWrites"`
	WriteBytes     *int64            `avro:"totalWriteBytes"`
	Errors         *int64            `avro:"totalWriteErrors"`
	Partition      *string           `avro:"partitionPath"`
	LogRecords     *int64            `avro:"totalLogRecords"`
	LogFiles       *int64            `avro:"totalLogFiles"`
	UpdatedMerged  *int64            `avro:"totalUpdatedRecordsCompacted"`
	Inserts        *int64            `avro:"numInserts"`
	Blocks         *int64            `avro:"totalLogBlocks"`
	Corrupt        *int64            `avro:"totalCorruptLogBlock"`
	Rollbacks      *int64            `avro:"totalRollbackBlocks"`
	Size           *int64            `avro:"fileSizeInBytes"`
	LogVersion     *int32            `avro:"logVersion"`
	Offset         *int64            `avro:"logOffset"`
	Base           *string           `avro:"baseFile"`
	Logs           *[]string         `avro:"logFiles"`
	CDC            *map[string]int64 `avro:"cdcStats"`
	PrevBase       *string           `avro:"prevBaseFile"`
	MinTime        *int64            `avro:"minEventTime"`
	MaxTime        *int64            `avro:"maxEventTime"`
	Runtime        *struct{}         `avro:"runtimeStats"`
	FilesMerged    *int64            `avro:"totalLogFilesCompacted"`
	ReadTime       *int64            `avro:"totalLogReadTimeMs"`
	BytesMerged    *int64            `avro:"totalLogSizeCompacted"`
	TempPath       *string           `avro:"tempPath"`
	UpdatesCounted *int64            `avro:"numUpdates"`
}

type commitRecord struct {
	Stats     *map[string][]statRecord `avro:"partitionToWriteStats"`
	Compacted *bool                    `avro:"compacted"`
	Extra     *map[string]string       `avro:"extraMetadata"`
	Version   *int32                   `avro:"version"`
	Operation *string                  `avro:"operationType"`
}

// statNumbers has another number in each field.
func statNumbers() statRecord {
	return statRecord{File: ptr("f-0"), Path: ptr("p/.f-0_1.log.3_0-1-0"), Prev: ptr("null"), Partition: ptr("p"), Base: ptr("b"), Logs: ptr([]string{"l"}),
		CDC: ptr(map[string]int64{"c": 40}), LogVersion: ptr(int32(3)), Offset: ptr(int64(41)), Writes: ptr(int64(1)), Deletes: ptr(int64(2)), Updates: ptr(int64(3)),
		Inserts: ptr(int64(4)), Size: ptr(int64(5)), LogRecords: ptr(int64(6)), FilesMerged: ptr(int64(7)), BytesMerged: ptr(int64(8)),
		UpdatedMerged: ptr(int64(9)), Blocks: ptr(int64(10)), Corrupt: ptr(int64(11)), Rollbacks: ptr(int64(12)), WriteBytes: ptr(int64(50)), Errors: ptr(int64(51)),
		ReadTime: ptr(int64(52)), MinTime: ptr(int64(53)), MaxTime: ptr(int64(54)), UpdatesCounted: ptr(int64(55))}
}

// A stat's fields go where they belong.
func TestAvroStat(t *testing.T) {
	var text string
	avroCommits(t, "w120-v[89]-*", func(_ string, data []byte, _ map[string]int64) {
		if text == "" {
			_, rest, _ := strings.Cut(string(data), `{"type":"record"`)
			var schema json.RawMessage
			if err := json.NewDecoder(strings.NewReader(`{"type":"record"` + rest)).Decode(&schema); err != nil {
				t.Fatal(err)
			}
			text = string(schema)
		}
	})
	schema, err := avro.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	datum := commitRecord{Stats: ptr(map[string][]statRecord{"p": {statNumbers()}}), Compacted: ptr(true),
		Extra: ptr(map[string]string{"k": "v"}), Operation: ptr("COMPACT")}
	data, err := schema.EncodeFile(datum)
	if err != nil {
		t.Fatal(err)
	}
	want := commitmeta.Body{Compacted: true, Operation: "COMPACT", Extra: map[string]string{"k": "v"}, Stats: map[string][]commitmeta.WriteStat{"p": {{
		File: "f-0", Path: "p/.f-0_1.log.3_0-1-0", Partition: "p", Writes: 1, Deletes: 2, Updates: 3, Inserts: 4, Bytes: 5, CDC: map[string]int64{"c": 40},
		Log:        &commitmeta.LogStat{Version: 3, Offset: 41, BaseFile: "b", LogFiles: []string{"l"}},
		Compaction: commitmeta.CompactionStat{LogRecords: 6, LogFiles: 7, LogBytes: 8, Updated: 9, LogBlocks: 10, CorruptBlocks: 11, RollbackBlocks: 12}}}}}
	for _, v := range []hudi.Version{hudi.Version8, hudi.Version9} {
		if got, err := commitmeta.Decode(v, data); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("version %s: %v\n%+v\nwant\n%+v", v, err, got, want)
		}
	}
	// A table's upgrade may leave a commit as it was, and an inflight file may be empty.
	old, err := commitmeta.Encode(hudi.Version6, someBody())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := commitmeta.Decode(hudi.Version8, old); err != nil || !reflect.DeepEqual(got, someBody()) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := commitmeta.Decode(hudi.Version9, nil); err != nil || got.Stats != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, v := range []hudi.Version{0, 5, 7, 10} {
		if _, err := commitmeta.Decode(v, data); !errors.Is(err, commitmeta.ErrVersion) {
			t.Errorf("version %s: %v", v, err)
		}
	}
	if _, err := commitmeta.Decode(hudi.Version6, data); !errors.Is(err, commitmeta.ErrDecode) {
		t.Errorf("an Avro file in a table of version 6: %v", err)
	}
	if _, err := commitmeta.Encode(hudi.Version9, want); !errors.Is(err, commitmeta.ErrVersion) {
		t.Errorf("encoded for version 9: %v", err)
	}
}

func FuzzAvroCommit(f *testing.F) {
	avroCommits(f, "w120-v9-clustering", func(_ string, data []byte, _ map[string]int64) { f.Add(data) })
	f.Add([]byte("Obj\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := commitmeta.Decode(hudi.Version9, data); err != nil && !errors.Is(err, commitmeta.ErrDecode) {
			t.Fatal(err)
		}
	})
}
