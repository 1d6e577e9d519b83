package index_test

import (
	"archive/zip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// truth is a row of a golden table as Hudi reads it.
type truth struct {
	Key       string `json:"_hoodie_record_key"`
	Partition string `json:"_hoodie_partition_path"`
	Rev       string `json:"_rev"`
	Order     int64  `json:"_seq_order"`
}

func golden(t *testing.T, name string) (*table.View, []truth) {
	t.Helper()
	z, err := zip.OpenReader("../testdata/golden/" + name + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	bucket := storage.New(teststore.New(t), nil)
	var want struct {
		Snapshot []truth `json:"snapshot"`
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if object, ok := strings.CutPrefix(f.Name, "table/"); err == nil && ok && !strings.HasSuffix(f.Name, "/") {
			_, err = bucket.Put(t.Context(), object, data)
		} else if err == nil && f.Name == "expected.json" {
			err = json.Unmarshal(data, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tb, err := table.Open(t.Context(), bucket, table.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tb.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v, want.Snapshot
}

// TestGolden finds in tables of real Hudi, by filters that Spark wrote, every
// row that Hudi reads, in its partition and version, and no deleted one.
func TestGolden(t *testing.T) {
	for _, name := range []string{"bloom-nomdt", "bloom", "nonpartitioned", "hive-style", "global-bloom-move", "compaction-clean", "compaction-pending", "failed-rollback-nomarkers"} {
		t.Run(name, func(t *testing.T) {
			v, want := golden(t, "w015-v6-"+name)
			if len(want) == 0 {
				t.Fatal("the golden table expects nothing")
			}
			alive := map[string]truth{}
			for _, w := range want {
				alive[w.Key] = w
			}
			var keys []hudi.Key
			for i := range 60 {
				keys = append(keys, hudi.Key{Record: "doc-" + string([]byte{'0', '0', byte('0' + i/10), byte('0' + i%10)})})
			}
			got, err := index.NewBloom(index.BloomOptions{}).Locate(t.Context(), v, keys, index.Global)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for i, f := range got {
				w, lives := alive[keys[i].Record]
				if f.Found != lives {
					t.Errorf("%s: %+v, want %+v", keys[i].Record, f, w)
				}
				if !f.Found {
					continue
				}
				found++
				if f.Partition != w.Partition || f.Rev != w.Rev || f.Order != w.Order || f.File == "" || len(f.Others) > 0 {
					t.Errorf("%s: %+v, want %+v", keys[i].Record, f, w)
				}
			}
			if found != len(want) {
				t.Errorf("%d keys found, want %d", found, len(want))
			}
		})
	}
}
