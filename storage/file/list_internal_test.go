package file

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFolderGoneWhileItIsRead: a compaction removes the folder of its markers while
// a list looks into it.
func TestFolderGoneWhileItIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "20260101000000000")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if some, err := objectIn(t.Context(), f, path); some || err != nil {
		t.Errorf("objectIn of a folder that is gone = %v, %v; want false and no error", some, err)
	}
}
