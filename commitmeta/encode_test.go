package commitmeta_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
)

var update = flag.Bool("update", false, "write golden files anew")

func someBody() commitmeta.Body {
	return commitmeta.Body{
		Operation: "UPSERT",
		Extra:     map[string]string{"schema": `{"type":"record"}`, "last_seq": "5-g1AAA<&>"},
		Stats: map[string][]commitmeta.WriteStat{
			"pt=1": {
				{File: "f-0", Path: "pt=1/f-0_0-1-0_20260101000000000.parquet", Partition: "pt=1", Writes: 5, Inserts: 3, Updates: 2, Deletes: 1,
					Bytes: 1 << 40, PrevCommit: "20250101000000000", CDC: map[string]int64{"pt=1/.f-0.cdc": 7}},
				{File: "f-1", Path: "pt=1/.f-1_20250101000000000.log.2_0-1-0", Partition: "pt=1", Writes: 1, Updates: 1, Bytes: 9,
					PrevCommit: "20250101000000000", Log: &commitmeta.LogStat{Version: 2, BaseFile: "f-1_0-1-0_20250101000000000.parquet",
						LogFiles: []string{".f-1_20250101000000000.log.1_0-1-0", ".f-1_20250101000000000.log.2_0-1-0"}}},
			},
			"": {{File: "g-0", Path: "g", Compaction: commitmeta.CompactionStat{LogRecords: 1, LogFiles: 2, LogBytes: 3, Updated: 4, LogBlocks: 5, CorruptBlocks: 6, RollbackBlocks: 7}}},
		},
		Compacted: true,
		Replaced:  map[string][]hudi.FileID{"pt=1": {"a-0", "b-0"}},
	}
}

func TestRoundTrip(t *testing.T) {
	for _, want := range []commitmeta.Body{someBody(), {Operation: "UNKNOWN"}} {
		data, err := commitmeta.Encode(hudi.Version6, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := commitmeta.Decode(hudi.Version6, data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
		again, err := commitmeta.Encode(hudi.Version6, got)
		if err != nil || !bytes.Equal(data, again) {
			t.Errorf("encoded again it differs: %v\n%s", err, again)
		}
	}
}

// The bytes are pinned: what stands here is what readers were seen to read.
func TestEncodedText(t *testing.T) {
	data, err := commitmeta.Encode(hudi.Version6, someBody())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/commit.json", data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/commit.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("got\n%s", data)
	}
}

// keysOf are the keys of a JSON object with the JSON types of their values.
func keysOf(t *testing.T, raw json.RawMessage) map[string]string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for k, v := range m {
		switch v.(type) {
		case nil:
			types[k] = "null"
		case float64:
			types[k] = "number"
		case string:
			types[k] = "string"
		case bool:
			types[k] = "boolean"
		case []any:
			types[k] = "array"
		default:
			types[k] = "object"
		}
	}
	return types
}

type rawCommit struct {
	Stats map[string][]json.RawMessage `json:"partitionToWriteStats"`
}

// Our stats have the keys and types that Spark's have.
func TestSameKeysAsSpark(t *testing.T) {
	data, err := commitmeta.Encode(hudi.Version6, commitmeta.Body{Operation: "UPSERT", Stats: map[string][]commitmeta.WriteStat{"p": {
		{File: "f", Path: "p/f"}, {File: "f", Path: "p/l", Log: &commitmeta.LogStat{Version: 1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var ours rawCommit
	if err := json.Unmarshal(data, &ours); err != nil {
		t.Fatal(err)
	}
	top := keysOf(t, data)
	base, log := keysOf(t, ours.Stats["p"][0]), keysOf(t, ours.Stats["p"][1])
	bases, logs := 0, 0
	goldenFiles(t, func(name string, data []byte) {
		if !maps.Equal(keysOf(t, data), top) {
			t.Errorf("%s: %v, we have %v", name, keysOf(t, data), top)
		}
		var c rawCommit
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		for _, stats := range c.Stats {
			for _, s := range stats {
				keys := keysOf(t, s)
				want := base
				if _, ok := keys["logVersion"]; ok {
					want = log
					logs++
				} else {
					bases++
				}
				ours := maps.Clone(want)
				for _, k := range []string{"runtimeStats", "cdcStats"} { // an object, where we have null
					delete(keys, k)
					delete(ours, k)
				}
				if !maps.Equal(keys, ours) {
					t.Errorf("%s: %v, we have %v", name, keys, ours)
				}
			}
		}
	}, ".deltacommit", ".commit")
	if bases == 0 || logs == 0 {
		t.Errorf("%d base files, %d log files", bases, logs)
	}
}

func TestGoldenCommits(t *testing.T) {
	goldenFiles(t, func(name string, data []byte) {
		b, err := commitmeta.Decode(hudi.Version6, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if _, err := hudi.ParseSchema(b.Extra[commitmeta.ExtraSchema]); err != nil || b.Operation == "" || len(b.Stats) == 0 {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
		if b.Compacted != strings.HasSuffix(name, ".commit") && !strings.Contains(name, "-cow.") {
			t.Errorf("%s: compacted %v", name, b.Compacted)
		}
		for partition, stats := range b.Stats {
			for _, s := range stats {
				base := s.Path[strings.LastIndexByte(s.Path, '/')+1:]
				_, notBase := hudi.ParseBaseFileName(base)
				l, notLog := hudi.ParseLogFileName(base)
				switch {
				case s.Bytes == 0 || s.Partition != partition || !strings.HasPrefix(s.Path, partition) || s.File == "":
					t.Errorf("%s: %+v", name, s)
				case s.Log == nil && notBase != nil, s.Log != nil && notLog != nil:
					t.Errorf("%s: %+v is neither base nor log", name, s)
				case s.Log != nil && (l.Version != s.Log.Version || l.Instant != s.PrevCommit || !slices.Contains(s.Log.LogFiles, base)):
					t.Errorf("%s: %+v, %+v", name, s, s.Log)
				case s.Log == nil && s.PrevCommit != "" && len(s.PrevCommit) != 17:
					t.Errorf("%s: previous commit %q", name, s.PrevCommit)
				}
			}
		}
		again, err := commitmeta.Encode(hudi.Version6, b)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := commitmeta.Decode(hudi.Version6, again); err != nil || !reflect.DeepEqual(b, c) {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, b, c)
		}
	}, ".deltacommit", ".commit")
	// What stands in inflight files is of the same form.
	goldenFiles(t, func(name string, data []byte) {
		if _, err := commitmeta.Decode(hudi.Version6, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}, ".deltacommit.inflight")
}

func TestDecodeTolerates(t *testing.T) {
	for text, want := range map[string]commitmeta.Body{
		"":   {},
		"{}": {},
		`{"partitionToWriteStats":null,"extraMetadata":null,"compacted":null,"operationType":null,"partitionToReplaceFileIds":null,"x":[1]}`: {},
		`{"extraMetadata":{"a":null,"b":"1"}}`: {Extra: map[string]string{"b": "1"}},
		`{"partitionToWriteStats":{"p":[{"fileId":null,"path":null,"cdcStats":null,"prevCommit":null,"numWrites":null,"partitionPath":null,"runtimeStats":{"x":1},"new":{}}]}}`: {Stats: map[string][]commitmeta.WriteStat{"p": {{Partition: "p"}}}},
		`{"partitionToWriteStats":{"p":[{"prevCommit":"null","logVersion":3}]}}`:                                                                                                {Stats: map[string][]commitmeta.WriteStat{"p": {{Partition: "p", Log: &commitmeta.LogStat{Version: 3}}}}},
	} {
		got, err := commitmeta.Decode(hudi.Version6, []byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "null", "[]", `{"compacted":1}`, `{"extraMetadata":{"a":1}}`, `{"partitionToWriteStats":{"p":[{"numWrites":"1"}]}}`,
		`{"partitionToWriteStats":{"p":[{"numWrites":1.5}]}}`, `{"partitionToWriteStats":{"p":{}}}`, `{}{}`, `{"compacted":true`} {
		if _, err := commitmeta.Decode(hudi.Version6, []byte(text)); !errors.Is(err, commitmeta.ErrDecode) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOtherVersions(t *testing.T) {
	if _, err := commitmeta.Encode(8, commitmeta.Body{}); !errors.Is(err, commitmeta.ErrVersion) {
		t.Error(err)
	}
	if _, err := commitmeta.Decode(7, nil); !errors.Is(err, commitmeta.ErrVersion) {
		t.Error(err)
	}
}

func TestCheckpoint(t *testing.T) {
	c := commitmeta.Checkpoint{Sources: map[string]commitmeta.Source{"db": {Kind: "couchdb", Name: "db", Incarnation: "i", Epoch: 2, PurgeSeq: "3-x", Seq: "9-g1AAA"}, "empty": {}}}
	const want = `{"v":1,"sources":{"db":{"kind":"couchdb","db":"db","incarnation":"i","epoch":2,"purge_seq":"3-x","seq":"9-g1AAA"},"empty":{"kind":"","seq":""}}}`
	if got := c.Encode(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, err := commitmeta.DecodeCheckpoint(want)
	c.Version = 1
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("%+v, %v", back, err)
	}
	// Another kind of source: copied forward whole, what a later release added too.
	const kafka = `{"v":1,"sources":{"topic":{"kind":"kafka","topic":"t","seq":"9-g1AAA","later":[1],"offsets":{"0":{"epoch":1,"next":9007199254740993}}}}}`
	back, err = commitmeta.DecodeCheckpoint(kafka)
	if err != nil || back.Encode() != kafka {
		t.Errorf("%s, %v", back.Encode(), err)
	}
	topic := back.Sources["topic"]
	if topic.Name != "t" || topic.Seq != "9-g1AAA" || topic.Position() != `{"later":[1],"offsets":{"0":{"epoch":1,"next":9007199254740993}}}` {
		t.Errorf("%+v", topic)
	}
	if got := (commitmeta.Checkpoint{}).Encode(); got != `{"v":1,"sources":{}}` {
		t.Error(got)
	}
	for _, text := range []string{"", "{}", `{"v":2,"sources":{}}`, `{"v":1,"sources":[]}`, `{"v":1,"sources":{"a":{"epoch":"x"}}}`, `{"v":1,"sources":{"a":1}}`} {
		if _, err := commitmeta.DecodeCheckpoint(text); !errors.Is(err, commitmeta.ErrDecode) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Each kind of source has its own position in its entry, under its own name's key.
func TestSourcePosition(t *testing.T) {
	for _, c := range []struct{ kind, position, want string }{
		{"couchdb", "9-g", `{"kind":"couchdb","db":"n","seq":"9-g"}`},
		{"kafka", `{"offsets": {"1":{"next":7}}}`, `{"kind":"kafka","topic":"n","seq":"5-x","offsets":{"1":{"next":7}}}`},
		{"ndjson", `{"row":12,"bundle":3}`, `{"kind":"ndjson","folder":"n","seq":"5-x","bundle":3,"row":12}`},
		{"ndjson", "{}", `{"kind":"ndjson","folder":"n","seq":"5-x"}`},
		{"kafka", "", `{"kind":"kafka","topic":"n","seq":"5-x"}`},
	} {
		s := commitmeta.Source{Kind: c.kind, Name: "n", At: ""}
		if err := s.SetPosition(c.position, "5-x"); err != nil {
			t.Errorf("%s: %v", c.position, err)
			continue
		}
		data, err := json.Marshal(s)
		var back commitmeta.Source
		if err != nil || string(data) != c.want || json.Unmarshal(data, &back) != nil || back != s {
			t.Errorf("%s %s: %s, %+v, %v", c.kind, c.position, data, back, err)
		}
		if c.kind == "couchdb" && back.Position() != c.position {
			t.Errorf("position %s", back.Position())
		}
	}
	for _, position := range []string{"9-g", "[1]", `{"a":1`, `{"seq":"9"}`, `{"folder":1}`} {
		s := commitmeta.Source{Kind: "ndjson"}
		if err := s.SetPosition(position, ""); !errors.Is(err, commitmeta.ErrPosition) {
			t.Errorf("%s: %v", position, err)
		}
	}
}

func TestStats(t *testing.T) {
	s := commitmeta.Stats{Rows: 1, Collapsed: 2, Replayed: 3, Quarantined: 4, Upserts: 5, Inserts: 6, Deletes: 7, Moved: 8, Rescued: 9, Unplaced: 10}
	back, err := commitmeta.DecodeStats(s.Encode())
	if err != nil || back != s || !strings.Contains(s.Encode(), `"default_partition":10`) {
		t.Errorf("%s, %+v, %v", s.Encode(), back, err)
	}
	if _, err := commitmeta.DecodeStats("x"); !errors.Is(err, commitmeta.ErrDecode) {
		t.Error(err)
	}
}

func FuzzCommit(f *testing.F) {
	seed, err := commitmeta.Encode(hudi.Version6, someBody())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"partitionToWriteStats":{"p":[{"prevCommit":"null","logVersion":3,"logFiles":["a"]}]},"extraMetadata":{"a":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := commitmeta.Decode(hudi.Version6, data)
		if err != nil {
			if !errors.Is(err, commitmeta.ErrDecode) {
				t.Fatal(err)
			}
			return
		}
		again, err := commitmeta.Encode(hudi.Version6, b)
		if err != nil {
			t.Fatal(err)
		}
		c, err := commitmeta.Decode(hudi.Version6, again)
		if err != nil {
			t.Fatal(err)
		}
		third, err := commitmeta.Encode(hudi.Version6, c)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%v\n%s\n%s", err, again, third)
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	f.Add(`{"v":1,"sources":{"topic":{"kind":"kafka","seq":"","offsets":{"0":{"epoch":1}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := commitmeta.DecodeCheckpoint(text)
		if err != nil {
			return
		}
		again, err := commitmeta.DecodeCheckpoint(c.Encode())
		if err != nil || again.Encode() != c.Encode() {
			t.Fatalf("%v\n%s\n%s", err, c.Encode(), again.Encode())
		}
	})
}
