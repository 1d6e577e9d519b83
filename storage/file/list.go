//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/couch2hudi/couch2hudi/storage"
)

// List implements storage.Driver.
func (d *Driver) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		cut := strings.LastIndexByte(prefix, '/') + 1
		w := walk{driver: d, yield: yield, folders: folders}
		w.folder(ctx, prefix[:cut], prefix[cut:])
	}
}

// ListUnknown implements storage.UnknownLister: names cost one reading of the
// folder, and what is known of them no more.
func (d *Driver) ListUnknown(ctx context.Context, folder string, known func(name string) bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		w := walk{driver: d, yield: yield, folders: true}
		path := filepath.Join(d.root, folder)
		names, err := readNames(path)
		if err != nil {
			w.fail(err)
			return
		}
		for _, name := range names {
			if isTemp(name) || known(name) {
				continue
			}
			if err := ctx.Err(); err != nil {
				w.fail(err)
				return
			}
			fi, err := os.Stat(filepath.Join(path, name))
			if err != nil {
				continue // deleted since, or a link that leads nowhere
			}
			if e, ok := classify(path, fs.FileInfoToDirEntry(fi)); ok && !w.entry(ctx, folder, e) {
				return
			}
		}
	}
}

// readNames are the names in a folder, in the order of the file system; none when
// it is gone.
func readNames(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(translate(err), storage.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading: nothing can be lost
	// As Readdirnames does, with fewer calls of the system.
	const buffer = 64 << 10
	buf := make([]byte, buffer)
	var names []string
	for {
		n, err := unix.ReadDirent(int(f.Fd()), buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOENT):
			return nil, nil
		case err != nil:
			return nil, &fs.PathError{Op: "readdir", Path: path, Err: err}
		case n <= 0:
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// walk yields the objects of one list.
type walk struct {
	driver  *Driver
	yield   func(storage.Object, error) bool
	folders bool
}

// folder walks dir, which is empty or ends in "/", for names that begin with
// base there; false when the list is over.
func (w *walk) folder(ctx context.Context, dir, base string) bool {
	entries, err := readFolder(filepath.Join(w.driver.root, dir))
	if err != nil {
		return w.fail(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.key, base) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return w.fail(err)
		}
		if !w.entry(ctx, dir, e) {
			return false
		}
	}
	return true
}

func (w *walk) entry(ctx context.Context, dir string, e entry) bool {
	name := dir + e.key
	path := filepath.Join(w.driver.root, name)
	switch {
	case e.folder && !w.folders:
		return w.folder(ctx, name, "")
	case e.folder:
		some, err := holdsObject(ctx, path)
		if err != nil {
			return w.fail(err)
		}
		return !some || w.yield(storage.Object{Name: name}, nil)
	}
	fi, err := os.Stat(path)
	if err != nil {
		// Deleted since: that is none of this list's concern.
		return errors.Is(translate(err), storage.ErrNotExist) || w.fail(err)
	}
	o, err := describe(name, fi)
	return err != nil || w.yield(o, nil)
}

func (w *walk) fail(err error) bool {
	w.yield(storage.Object{}, err)
	return false
}

// entry is a folder, or a file that may be an object.
type entry struct {
	// key is the entry's name, with "/" behind it when it is a folder: as it
	// stands in names of objects, and so in their order.
	key    string
	folder bool
}

// readFolder is what lies in the folder, in the order of names; nothing when it
// is gone.
func readFolder(path string) ([]entry, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(translate(err), storage.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading: nothing can be lost
	des, err := f.ReadDir(-1)
	if err != nil {
		if errors.Is(translate(err), storage.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	entries := make([]entry, 0, len(des))
	for _, de := range des {
		if e, ok := classify(path, de); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	return entries, nil
}

// classify says what a directory entry is to us, symbolic links followed.
func classify(dir string, de fs.DirEntry) (entry, bool) {
	if isTemp(de.Name()) {
		return entry{}, false
	}
	mode := de.Type()
	if mode&fs.ModeSymlink != 0 {
		fi, err := os.Stat(filepath.Join(dir, de.Name()))
		if err != nil { // leads nowhere
			return entry{}, false
		}
		mode = fi.Mode()
	}
	switch {
	case mode.IsDir():
		return entry{key: de.Name() + "/", folder: true}, true
	case mode.IsRegular():
		return entry{key: de.Name()}, true
	}
	return entry{}, false
}

// holdsObject says whether there is an object in the folder or below it. It
// reads no further than it must.
func holdsObject(ctx context.Context, path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(translate(err), storage.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	defer f.Close() //nolint:errcheck // opened for reading: nothing can be lost
	return objectIn(ctx, f, path)
}

// objectIn is holdsObject of an open folder.
func objectIn(ctx context.Context, f *os.File, path string) (bool, error) {
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		const some = 64
		des, err := f.ReadDir(some)
		if errors.Is(err, io.EOF) || errors.Is(translate(err), storage.ErrNotExist) {
			return false, nil // at its end, or gone since it was opened
		}
		if err != nil {
			return false, err
		}
		for _, de := range des {
			e, ok := classify(path, de)
			if !ok {
				continue
			}
			if !e.folder {
				return true, nil
			}
			below, err := holdsObject(ctx, filepath.Join(path, de.Name()))
			if below || err != nil {
				return below, err
			}
		}
	}
}
