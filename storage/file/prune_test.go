package file_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPrune: empty folders go, with what is in others left alone, and an object
// can be put where they were.
func TestPrune(t *testing.T) {
	root := t.TempDir()
	b := bucket(t, root)
	for _, name := range []string{"temp/1/a/x", "temp/1/b/x", "temp/2/x"} {
		put(t, b, name, "")
	}
	if err := b.Delete(t.Context(), "temp/1/a/x"); err != nil {
		t.Fatal(err)
	}
	gone := func(folder string) bool {
		_, err := os.Stat(filepath.Join(root, folder))
		return os.IsNotExist(err)
	}
	if err := b.Prune(t.Context(), "temp/1/"); err != nil {
		t.Fatal(err)
	}
	if !gone("temp/1/a") || gone("temp/1/b") || !slices.Equal(names(t, b), []string{"temp/1/b/x", "temp/2/x"}) {
		t.Fatal(names(t, b))
	}
	if err := b.Delete(t.Context(), "temp/1/b/x"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing
		if err := b.Prune(t.Context(), "temp/1/"); err != nil {
			t.Fatal(err)
		}
	}
	if !gone("temp/1") || gone("temp/2") {
		t.Error("the wrong folders went")
	}
	put(t, b, "temp/1/a/x", "again")
	if !slices.Equal(names(t, b), []string{"temp/1/a/x", "temp/2/x"}) {
		t.Error(names(t, b))
	}
}
