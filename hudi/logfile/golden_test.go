package logfile_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

// goldenRow is one version of a row.
type goldenRow struct {
	key    string
	commit hudi.Time
}

// TestGolden: the log files that Spark wrote are read, block by block, and
// every row in them that Spark's own snapshot still shows is the one that
// Spark shows, nested columns included.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob("../../testdata/golden/*.zip")
	if err != nil || len(names) < 10 {
		t.Fatalf("%d golden tables: %v", len(names), err)
	}
	for _, name := range names {
		t.Run(path.Base(name), func(t *testing.T) { goldenTable(t, name) })
	}
}

func goldenTable(t *testing.T, name string) {
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var expected struct{ Snapshot []map[string]any }
	have := map[goldenRow]map[string]any{}
	deletes := 0
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(f.Name, "table/")
		switch {
		case f.Name == "expected.json":
			if err := json.Unmarshal(data, &expected); err != nil {
				t.Fatal(err)
			}
		case ok && !strings.HasPrefix(rest, ".hoodie/") && strings.Contains(path.Base(rest), ".log."):
			deletes += goldenLog(t, rest, data, have)
		}
	}
	seen := 0
	for _, want := range expected.Snapshot {
		got, ok := have[goldenRow{want[hudi.MetaRecordKey].(string), hudi.Time(want[hudi.MetaCommitTime].(string))}]
		if !ok {
			continue // it stands in a base file
		}
		if seen++; !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	t.Logf("%d rows in logs, %d of them in the snapshot, %d deletes", len(have), seen, deletes)
	if len(have) > 0 && seen == 0 {
		t.Fatal("no row of the logs is in the snapshot")
	}
}

// goldenLog reads one log file.
func goldenLog(t *testing.T, file string, data []byte, have map[goldenRow]map[string]any) (deletes int) {
	t.Helper()
	s := logfile.NewScanner(bytes.NewReader(data), int64(len(data)))
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return deletes
		}
		if err != nil || b.Type == logfile.Corrupt {
			t.Fatalf("%s: %v %v", file, b, err)
		}
		target := emptySchema(t)
		if b.Type == logfile.AvroData {
			if target, err = hudi.ParseSchema(b.Schema); err != nil {
				t.Fatal(err)
			}
		}
		for r, err := range b.Records(target, "_seq_order") {
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if b.Type == logfile.CDCData {
				continue // a change has no key and is no row of the table
			}
			kept := r.Clone()
			if kept.Key.Partition != strings.TrimPrefix(path.Dir(file), ".") || kept.Key.Record == "" {
				t.Fatalf("%s: key %+v", file, kept.Key)
			}
			if kept.Delete {
				deletes++
				continue
			}
			m := rowJSON(t, target, &kept)
			if float64(kept.Order) != m["_seq_order"] || kept.CommitTime != b.Instant {
				t.Fatalf("%s: order %d, commit %s: %v", file, kept.Order, kept.CommitTime, m)
			}
			m[hudi.MetaCommitTime], m[hudi.MetaRecordKey], m[hudi.MetaPartitionPath] = string(kept.CommitTime), kept.Key.Record, kept.Key.Partition
			have[goldenRow{kept.Key.Record, kept.CommitTime}] = m
		}
	}
}
