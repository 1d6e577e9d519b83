package reader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestByArrival reads a table whose late updates lose by event time, as if its
// merge mode were commit time: then all that came later wins.
func TestByArrival(t *testing.T) {
	bucket, want := golden(t, "w120-v9-bloom-nomdt")
	revisions := func(v *table.View) map[string]string {
		s, err := v.Schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, r := range collect(t, s, reader.Snapshot(t.Context(), v, reader.Options{})) {
			out[r["_id"].(string)] = r["_rev"].(string)
		}
		return out
	}
	eventTime := revisions(openView(t, bucket))
	replay := map[string]string{}
	for _, step := range want.Steps {
		for _, row := range step.Rows {
			if row["_hoodie_is_deleted"] == true || step.Operation == "delete" {
				delete(replay, row["_id"].(string))
			} else {
				replay[row["_id"].(string)] = row["_rev"].(string)
			}
		}
	}
	tb, err := table.Open(t.Context(), bucket, table.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	p := tb.Properties().With(hudi.PropMergeMode, "COMMIT_TIME_ORDERING")
	if _, err := bucket.Put(t.Context(), ".hoodie/hoodie.properties", p.Encode(time.Now())); err != nil {
		t.Fatal(err)
	}
	got := revisions(openView(t, bucket))
	late := 0
	for key, rev := range replay {
		if got[key] != rev {
			t.Errorf("%s is at %q, the last that came is %q", key, got[key], rev)
		}
		if eventTime[key] != rev {
			late++
		}
	}
	if len(got) != len(replay) || late == 0 {
		t.Errorf("%d rows, want %d; %d that lose by event time", len(got), len(replay), late)
	}
}

// withHeader puts an entry into the header of the one block of a log file.
func withHeader(t *testing.T, key logfile.HeaderKey, value string) func([]byte) []byte {
	return func(file []byte) []byte {
		b, err := logfile.NewScanner(bytes.NewReader(file), int64(len(file))).Next()
		if err != nil || b.Length != int64(len(file)) {
			t.Fatalf("%+v, %v", b, err)
		}
		content, err := io.ReadAll(b.Content())
		if err != nil {
			t.Fatal(err)
		}
		header := map[logfile.HeaderKey]string{key: value}
		for k, v := range b.Header {
			header[k] = v
		}
		body := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1), uint32(b.Type))
		body = binary.BigEndian.AppendUint32(body, uint32(len(header)))
		for k, v := range header {
			body = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(body, uint32(k)), uint32(len(v)))
			body = append(body, v...)
		}
		body = append(binary.BigEndian.AppendUint64(body, uint64(len(content))), content...)
		body = binary.BigEndian.AppendUint32(body, 0)
		size := uint64(len(body) + 8)
		out := binary.BigEndian.AppendUint64([]byte("#HUDI#"), size)
		return binary.BigEndian.AppendUint64(append(out, body...), size+6)
	}
}

// TestLogCompaction: a block that a log compaction made stands for those that it
// names, and what came between them and it stays.
func TestLogCompaction(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1"), put("b", 1, "b1")))
	t2 := f.commit(logOf("pt=a", "g-0", t1, 1, put("a", 9, "not this"), put("c", 9, "nor this")))
	t3 := f.commit(logOf("pt=a", "g-0", t1, 2, put("b", 9, "nor that")))
	f.commit(logOf("pt=a", "g-0", t1, 3, put("d", 4, "d4")))
	merged := logOf("pt=a", "g-0", t1, 4, put("a", 2, "a2"), put("b", 3, "b3"))
	merged.spoil = withHeader(t, logfile.CompactedBlockTimes, string(t2)+","+string(t3))
	f.commit(merged)
	wantLines(t, f.snapshot(reader.Options{}), "pt=a/a 2 a2", "pt=a/b 3 b3", "pt=a/d 4 d4")
}

// TestPartialRows: rows of some columns only are not taken for whole ones.
func TestPartialRows(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1")))
	whole := logOf("pt=a", "g-0", t1, 1, put("a", 2, "a2"))
	whole.spoil = withHeader(t, logfile.IsPartial, "false")
	f.commit(whole)
	wantLines(t, f.snapshot(reader.Options{}), "pt=a/a 2 a2")
	partial := logOf("pt=a", "g-0", t1, 2, put("a", 3, "a3"))
	partial.spoil = withHeader(t, logfile.IsPartial, "true")
	f.commit(partial)
	err := failure(reader.Snapshot(t.Context(), f.view(), reader.Options{}))
	if !errors.Is(err, logfile.ErrUnsupported) || !strings.Contains(err.Error(), "some columns") {
		t.Fatal(err)
	}
}

// TestLaterChain: the ranges of a table of a later version, commit by commit, played
// into a map, end at the snapshot's versions, but for hard deletes, which do not show.
func TestLaterChain(t *testing.T) {
	for _, name := range []string{"w120-v9-bucket-compaction", "w120-v9-compaction-clean", "w120-v8-bucket", "w120-v9-archive"} {
		bucket, want := golden(t, name)
		v := openView(t, bucket)
		s, err := v.Schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ends []hudi.Time
		for _, i := range v.Writes() {
			ends = append(ends, v.When(i))
		}
		slices.SortFunc(ends, hudi.Time.Compare)
		byKey := map[any]map[string]any{}
		order := func(r map[string]any) float64 { return number(r["_seq_order"]).(float64) }
		begin := hudi.Time("")
		for _, end := range ends {
			changes := reader.Incremental(t.Context(), v, begin, end, reader.Options{})
			begin = end
			if errors.Is(failure(changes), reader.ErrCleaned) {
				continue
			}
			for _, r := range collect(t, s, changes) {
				// What loses against an older row shows in its own range.
				if was := byKey[r[hudi.MetaRecordKey]]; was == nil || order(r) >= order(was) {
					byKey[r[hudi.MetaRecordKey]] = r
				}
			}
		}
		snapshot := map[any]any{}
		for _, r := range want.Snapshot {
			snapshot[r["_id"]] = r["_rev"]
		}
		fresh := 0
		for key, r := range byKey {
			if rev, there := snapshot[key]; there && rev == r["_rev"] {
				fresh++
			} else if there {
				t.Errorf("%s: %v is at %v after all ranges, want %v", name, key, r["_rev"], rev)
			}
		}
		if fresh == 0 {
			t.Errorf("%s: the ranges hold nothing", name)
		}
	}
}

// stepsOf are the batches that a golden table was made of.
type stepsOf []struct {
	Operation string `json:"operation"`
	Rows      rows   `json:"rows"`
}
