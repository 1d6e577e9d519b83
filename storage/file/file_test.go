package file_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

func open(t *testing.T, root string, o *file.Options) *file.Driver {
	t.Helper()
	d, err := file.New(root, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	for _, o := range []*file.Options{nil, {NoSync: true}} {
		name := "synced"
		if o != nil {
			name = "not synced"
		}
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, func(t *testing.T) storage.Driver { return open(t, t.TempDir()+"/not/yet/there", o) })
		})
	}
}
