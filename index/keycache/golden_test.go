package keycache_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/internal/golden"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestGolden: of tables of real Hudi the cache says what the Bloom says.
func TestGolden(t *testing.T) {
	for _, name := range golden.Names(t, "*-v6-*") {
		t.Run(name, func(t *testing.T) {
			v := goldenView(t, name)
			c, err := keycache.Open(t.Context(), keycache.Options{Dir: dir, FS: vfs.NewMem()})
			if err != nil {
				t.Fatal(err)
			}
			l := life{history: &history{t: t}}
			found := 0
			var keys []hudi.Key
			for i := range 100 {
				keys = append(keys, hudi.Key{Record: fmt.Sprintf("doc-%04d", i)})
			}
			want, err := bloom().Locate(t.Context(), v, keys, index.Global)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Locate(t.Context(), v, keys, index.Global)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%d answers, %v", len(got), err)
			}
			for i, k := range keys {
				if !l.agree(k.Record, want[i], got[i]) {
					t.Errorf("%s:\n got %+v\nwant %+v", k.Record, got[i], want[i])
				}
				if got[i].Found {
					found++
				}
			}
			if found == 0 {
				t.Error("no key was found")
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func goldenView(t *testing.T, name string) *table.View {
	t.Helper()
	bucket := golden.Load(t, storage.New(teststore.New(t), nil), name)
	tb, err := table.Open(t.Context(), bucket, table.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tb.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}
