package keycache_test

import (
	"errors"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spoil changes a byte of one file of the folder, cuts it or removes it.
func spoil(t testing.TB, fs vfs.FS, r *rand.Rand) {
	t.Helper()
	names, err := fs.List(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return // it was removed before
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fs.PathJoin(dir, names[r.IntN(len(names))])
	spoilFile(t, fs, name, r)
}

func spoilFile(t testing.TB, fs vfs.FS, name string, r *rand.Rand) {
	t.Helper()
	if r.IntN(4) == 0 {
		if err := fs.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
		return
	}
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if len(data) == 0 {
		return
	}
	at := r.IntN(len(data))
	if r.IntN(2) == 0 {
		data = data[:at]
	} else {
		data[at] ^= byte(1 + r.IntN(255))
	}
	w, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
