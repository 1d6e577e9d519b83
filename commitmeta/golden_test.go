package commitmeta_test

import (
	"archive/zip"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// goldenFiles calls f with every file of every golden table whose name ends in
// one of the suffixes, and says how many there were.
func goldenFiles(t *testing.T, f func(name string, data []byte), suffixes ...string) {
	t.Helper()
	zips, err := filepath.Glob("../testdata/golden/w015-v6-*.zip")
	if err != nil || len(zips) == 0 {
		t.Fatalf("no golden tables: %v", err)
	}
	n := 0
	for _, z := range zips {
		r, err := zip.OpenReader(z)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.File {
			for _, s := range suffixes {
				if !strings.HasPrefix(e.Name, "table/.hoodie/2") || !strings.HasSuffix(e.Name, s) {
					continue
				}
				rc, err := e.Open()
				if err != nil {
					t.Fatal(err)
				}
				data, err := io.ReadAll(rc)
				if err != nil {
					t.Fatal(err)
				}
				f(filepath.Base(z)+"/"+e.Name, data)
				n++
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		t.Fatalf("no golden file ends in %q", suffixes)
	}
}
