package reader_test

import (
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// vector is a log file that Hudi wrote, in place of what a write would store.
func vector(t *testing.T, name string) func([]byte) []byte {
	t.Helper()
	text, err := os.ReadFile("../testdata/vectors/logblock_" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.TrimSpace(line))
		}
	}
	data, err := hex.DecodeString(digits.String())
	if err != nil || len(data) == 0 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	return func([]byte) []byte { return data }
}

// TestForeignBlocks reads blocks of an instant that left the timeline long ago:
// without a rollback it counts as committed, with one it never was.
func TestForeignBlocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks []string
		keys   int
		bad    bool
	}{
		{"Avro rows", []string{"avro_data"}, 2, false},
		{"Parquet rows", []string{"parquet_data"}, 2, false},
		{"rows and deletes", []string{"data_then_delete"}, 2, false},
		{"the same rows twice", []string{"avro_data", "parquet_data"}, 2, false},
		{"rolled back", []string{"parquet_data", "command_rollback"}, 0, false},
		{"rolled back, all of them", []string{"parquet_data", "avro_data", "command_rollback"}, 0, false},
		{"written again after the rollback", []string{"parquet_data", "command_rollback", "parquet_data"}, 2, false},
		{"a block of a metadata table", []string{"hfile_mdt_NONE"}, 0, true},
		{"deletes of a release that is too old", []string{"delete_v2_kryo"}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			t1 := f.commit(baseOf("pt=a", "g-0", put("mine", 1, "v")))
			for i, name := range c.blocks {
				w := logOf("pt=a", "g-0", t1, i+1)
				w.spoil = vector(t, name)
				f.commit(w)
			}
			keys := map[string]bool{}
			var last error
			for r, err := range reader.Snapshot(t.Context(), f.view(), reader.Options{}) {
				if last = err; err == nil {
					keys[strings.Clone(r.Key.Record)] = true
				}
			}
			if c.bad {
				if last == nil || !strings.Contains(last.Error(), ".g-0_") {
					t.Fatalf("read what cannot be read: %v", last)
				}
				return
			}
			if last != nil || len(keys) != c.keys+1 || !keys["mine"] {
				t.Fatalf("%v %v", keys, last)
			}
		})
	}
}

// TestTornLogOfUnknownOrigin: no commit on the active timeline names the file,
// but one that was archived may have: its bytes are not skipped.
func TestTornLogOfUnknownOrigin(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1")))
	torn := logOf("pt=a", "g-0", t1, 1, put("a", 2, "a2"))
	torn.spoil = func(b []byte) []byte { return b[:len(b)-9] }
	t2 := f.commit(torn)
	f.commit(logOf("pt=a", "g-0", t1, 2, put("a", 3, "a3")))
	for _, old := range []hudi.Time{t1, t2} {
		for o, err := range f.bucket.List(t.Context(), ".hoodie/"+string(old)) {
			if err != nil {
				t.Fatal(err)
			}
			if err := f.bucket.Delete(t.Context(), o.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := failure(reader.Snapshot(t.Context(), openView(t, f.bucket), reader.Options{})); !errors.Is(err, reader.ErrCorrupt) {
		t.Fatalf("%v", err)
	}
}

// TestArchivedRange: a range which begins before the active timeline is an error
// when the archive cannot be read.
func TestArchivedRange(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1")))
	t2 := f.commit(baseOf("pt=a", "h-0", put("b", 1, "b1")))
	if _, err := f.bucket.Put(t.Context(), ".hoodie/archived/.commits_.archive.1_1-0-1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := failure(reader.Incremental(t.Context(), f.view(), "", "", reader.Options{})); err == nil {
		t.Fatal("a range that may reach into the archive was read")
	}
	wantLines(t, f.changes(t1, t2, reader.Options{}), "pt=a/b 1 b1")
}
