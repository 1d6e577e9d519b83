// Package golden gives tests the tables that real Hudi wrote. What they are, and
// who wrote them, stands in testdata/golden/README.md.
package golden

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Names are the tables whose name matches a pattern of filepath.Match, such as
// "*-v6-*"; at least one.
func Names(t testing.TB, pattern string) (names []string) {
	t.Helper()
	zips, err := filepath.Glob(filepath.Join(folder(t), pattern+".zip"))
	if err != nil || len(zips) == 0 {
		t.Fatalf("no golden table is named %s: %v", pattern, err)
	}
	for _, z := range zips {
		names = append(names, strings.TrimSuffix(filepath.Base(z), ".zip"))
	}
	return names
}

// Load puts a table's files into a bucket, and returns it.
func Load(t testing.TB, b *storage.Bucket, name string) *storage.Bucket {
	t.Helper()
	z, err := zip.OpenReader(filepath.Join(folder(t), name+".zip"))
	if err != nil {
		t.Fatalf("golden table: %v", err)
	}
	defer func() { _ = z.Close() }()
	for _, f := range z.File {
		object, ok := strings.CutPrefix(f.Name, "table/")
		if !ok || strings.HasSuffix(f.Name, "/") {
			continue
		}
		data, err := content(f)
		if err == nil {
			_, err = b.Put(t.Context(), object, data)
		}
		if err != nil {
			t.Fatalf("%s of the golden table %s: %v", f.Name, name, err)
		}
	}
	return b
}

func content(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

// folder is testdata/golden of the module whose package is tested.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		here := filepath.Join(dir, "testdata", "golden")
		if _, missing := os.Stat(here); missing == nil {
			return here
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	t.Fatalf("no folder testdata/golden above %s: %v", dir, err)
	return ""
}
