package hdfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// List implements storage.Driver. One level of each folder on its way is held in
// memory.
func (d *Driver) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		cut := strings.LastIndexByte(prefix, '/') + 1
		w := walk{driver: d, yield: yield, folders: folders}
		w.folder(ctx, prefix[:cut], func(name string) bool { return !strings.HasPrefix(name, prefix[cut:]) })
	}
}

// ListUnknown implements storage.UnknownLister: a listing has all that is to be
// said of files, but each folder costs a listing of its own.
func (d *Driver) ListUnknown(ctx context.Context, folder string, known func(name string) bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		w := walk{driver: d, yield: yield, folders: true}
		w.folder(ctx, folder, func(name string) bool { return known(strings.TrimSuffix(name, "/")) })
	}
}

// walk yields the objects of one list.
type walk struct {
	driver  *Driver
	yield   func(storage.Object, error) bool
	folders bool
}

// folder walks dir, which is empty or ends in "/", but for what skip says yes to;
// false when the list is over.
func (w *walk) folder(ctx context.Context, dir string, skip func(name string) bool) bool {
	entries, err := w.driver.read(ctx, dir)
	if err != nil {
		w.yield(storage.Object{}, err)
		return false
	}
	for _, e := range entries {
		if !skip(e.Name) && !w.entry(ctx, dir, e) {
			return false
		}
	}
	return true
}

func (w *walk) entry(ctx context.Context, dir string, e Info) bool {
	name := dir + e.Name
	switch {
	case !e.Folder:
		return w.yield(describe(name, e), nil)
	case !w.folders:
		return w.folder(ctx, name, func(string) bool { return false })
	}
	some, err := w.driver.holdsObject(ctx, name)
	if err != nil {
		w.yield(storage.Object{}, err)
		return false
	}
	return !some || w.yield(storage.Object{Name: name}, nil)
}

// read is what lies in a folder, in the order of names: folders have a "/" behind
// theirs, as in names of objects. Nothing when it is gone.
func (d *Driver) read(ctx context.Context, dir string) ([]Info, error) {
	at := path.Join(d.root, dir)
	var entries []Info
	err := d.try(ctx, func(c Cluster, _ bool) (err error) {
		entries, err = c.List(at)
		return err
	})
	if err != nil {
		if errors.Is(translate(err), storage.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e Info) bool { return path.Join(at, e.Name) == d.hidden })
	for i := range entries {
		if entries[i].Folder {
			entries[i].Name += "/"
		}
	}
	slices.SortFunc(entries, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return entries, nil
}

// holdsObject says whether there is an object in the folder or below it.
func (d *Driver) holdsObject(ctx context.Context, dir string) (bool, error) {
	entries, err := d.read(ctx, dir)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(entries, func(e Info) bool { return !e.Folder }) {
		return true, nil
	}
	for _, e := range entries {
		if some, err := d.holdsObject(ctx, dir+e.Name); some || err != nil {
			return some, err
		}
	}
	return false, nil
}

// Prune implements storage.Pruner.
func (d *Driver) Prune(ctx context.Context, folder string) error {
	at, err := d.path(strings.TrimSuffix(folder, "/"))
	if err != nil {
		return err
	}
	return d.try(ctx, func(c Cluster, _ bool) error { return prune(ctx, c, at) })
}

func prune(ctx context.Context, c Cluster, at string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := c.List(at)
	if errors.Is(translate(err), storage.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	left := len(entries)
	for _, e := range entries {
		if !e.Folder {
			continue
		}
		if err := prune(ctx, c, path.Join(at, e.Name)); err != nil {
			return err
		}
		left--
	}
	if left > 0 {
		return nil
	}
	err = c.Remove(at)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// graceOfSuccessors is how long a decided successor stays that follows nothing any
// more: its writer may be about to look whether it was finished, and would take it
// for that if it were gone.
const graceOfSuccessors = time.Hour

// Sweep implements storage.Driver: it removes hidden files that are not this
// Driver's own. The successor of a version that still is there stays: it is
// decided, and whoever overwrites the object next finishes it.
func (d *Driver) Sweep(ctx context.Context) (int, error) {
	removed := 0
	err := d.try(ctx, func(c Cluster, _ bool) error {
		folder, err := c.Stat(d.hidden) // something changed there at its time: a clock that is late at most
		if errors.Is(translate(err), storage.ErrNotExist) {
			return nil
		}
		var entries []Info
		if err == nil {
			entries, err = c.List(d.hidden)
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			gone, err := d.sweep(ctx, c, e, folder.Modified)
			if err != nil {
				return err
			}
			if gone {
				removed++
			}
		}
		return nil
	})
	return removed, err
}

func (d *Driver) sweep(ctx context.Context, c Cluster, e Info, now time.Time) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if e.Folder || strings.HasPrefix(e.Name, d.token) {
		return false, nil
	}
	if id, ok := strings.CutPrefix(e.Name, nextPrefix); ok {
		stays, err := stands(c, id)
		if stays || err != nil || now.Sub(e.Modified) < graceOfSuccessors {
			return false, err
		}
	}
	switch err := c.Remove(path.Join(d.hidden, e.Name)); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return err == nil, err
	}
}

// stands says whether the version with that number is still there.
func stands(c Cluster, number string) (bool, error) {
	inode, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return false, nil //nolint:nilerr // not a file of ours
	}
	i, err := c.Stat(byInode(Info{Inode: inode}))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return i.Inode == inode, err
}
