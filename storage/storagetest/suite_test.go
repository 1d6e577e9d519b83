package storagetest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// brokenEnv names the defect of the driver that the suite is to be run on, in a
// process of its own: the suite must fail there.
const brokenEnv = "STORAGETEST_BROKEN"

func TestSuitePassesWrappers(t *testing.T) {
	for name, wrap := range map[string]func(storage.Driver) storage.Driver{
		"crash":  func(d storage.Driver) storage.Driver { return storagetest.NewCrasher(d, storagetest.Crash{}) },
		"faults": func(d storage.Driver) storage.Driver { return storagetest.Faults(d) },
		"trace":  func(d storage.Driver) storage.Driver { return storagetest.Trace(d, io.Discard, nil) },
		"flip":   func(d storage.Driver) storage.Driver { return storagetest.Flip(d, "other", 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, func(*testing.T) storage.Driver { return wrap(mem.New(nil)) })
		})
	}
}

// TestSuiteCatches runs the suite on drivers that each break one promise.
func TestSuiteCatches(t *testing.T) {
	if defect := os.Getenv(brokenEnv); defect != "" {
		storagetest.Run(t, func(*testing.T) storage.Driver { return &broken{Driver: mem.New(nil), defect: defect} })
		return
	}
	for defect, part := range map[string]string{
		"absent is check, then put": "race of creators",
		"absent is ignored":         "put if absent",
		"etag is ignored":           "put if match",
		"etag is check, then put":   "race of matchers",
		"etags repeat":              "etag of every version",
		"reads any version":         "versions never mix",
		"no EOF":                    "read at odd offsets",
		"order of folders":          "list",
		"no folders":                "list folders",
		"deletes nothing":           "delete",
		"delete of none succeeds":   "nothing there",
		"uploads show early":        "upload",
		"abort commits":             "upload aborted",
		"keeps the buffer":          "caller's buffer",
		"lock for all":              "lock",
	} {
		t.Run(defect, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuiteCatches$", "-test.v")
			cmd.Env = append(os.Environ(), brokenEnv+"="+defect)
			out, err := cmd.CombinedOutput()
			want := "--- FAIL: TestSuiteCatches/" + strings.ReplaceAll(part, " ", "_")
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("the suite does not say %q: %v\n%s", want, err, out)
			}
		})
	}
}

// broken is a driver with one defect.
type broken struct {
	*mem.Driver
	defect string
}

func (b *broken) is(defect string) bool { return b.defect == defect }

func (b *broken) Stat(ctx context.Context, name string) (storage.Object, error) {
	o, err := b.Driver.Stat(ctx, name)
	return b.spoil(o), err
}

func (b *broken) spoil(o storage.Object) storage.Object {
	if b.is("etags repeat") {
		o.ETag = "always"
	}
	return o
}

func (b *broken) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	if b.is("reads any version") {
		o.ETag = ""
	}
	n, err := b.Driver.ReadAt(ctx, o, p, offset)
	if b.is("no EOF") && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (b *broken) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	switch {
	case b.is("absent is ignored"):
		cond.Absent = false
	case b.is("etag is ignored"):
		cond.ETag = ""
	case b.is("absent is check, then put") && cond.Absent:
		if _, err := b.Driver.Stat(ctx, name); err == nil {
			return storage.Object{}, storage.ErrExist
		}
		wait()
		cond.Absent = false
	case b.is("etag is check, then put") && cond.ETag != "":
		if o, err := b.Driver.Stat(ctx, name); err != nil || o.ETag != cond.ETag {
			return storage.Object{}, storage.ErrChanged
		}
		wait()
		cond.ETag = ""
	}
	o, err := b.Driver.Put(ctx, name, data, cond)
	return b.spoil(o), err
}

// wait lets other goroutines come between.
func wait() { time.Sleep(50 * time.Microsecond) }

func (b *broken) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	up, err := b.Driver.Create(ctx, name, cond)
	if err != nil {
		return nil, err
	}
	return &brokenUpload{Upload: up, b: b, name: name}, nil
}

func (b *broken) List(ctx context.Context, prefix string, folders bool) iter.Seq2[storage.Object, error] {
	if b.is("no folders") {
		folders = false
	}
	if !b.is("order of folders") {
		return b.Driver.List(ctx, prefix, folders)
	}
	return func(yield func(storage.Object, error) bool) {
		var all []storage.Object
		for o, err := range b.Driver.List(ctx, prefix, folders) {
			if err != nil {
				yield(o, err)
				return
			}
			all = append(all, o)
		}
		slices.SortFunc(all, func(x, y storage.Object) int { // part by part, as a plain walk would
			return slices.Compare(strings.Split(x.Name, "/"), strings.Split(y.Name, "/"))
		})
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (b *broken) Delete(ctx context.Context, name string) error {
	if b.is("deletes nothing") {
		_, err := b.Driver.Stat(ctx, name)
		return err
	}
	err := b.Driver.Delete(ctx, name)
	if b.is("delete of none succeeds") {
		return nil
	}
	return err
}

func (b *broken) Lock(ctx context.Context, name string) (storage.Lock, error) {
	if b.is("lock for all") {
		return storage.NoLock{}, nil
	}
	return b.Driver.Lock(ctx, name)
}

type brokenUpload struct {
	storage.Upload
	b    *broken
	name string
	kept [][]byte
}

func (u *brokenUpload) Write(p []byte) (int, error) {
	switch {
	case u.b.is("keeps the buffer"):
		u.kept = append(u.kept, p)
		return len(p), nil
	case u.b.is("uploads show early"):
		if _, err := u.b.Driver.Put(context.Background(), u.name, p, storage.Cond{}); err != nil {
			return 0, err
		}
	}
	return u.Upload.Write(p)
}

func (u *brokenUpload) Commit() (storage.Object, error) {
	if _, err := u.Upload.Write(bytes.Join(u.kept, nil)); err != nil {
		return storage.Object{}, err
	}
	return u.Upload.Commit()
}

func (u *brokenUpload) Abort() error {
	if u.b.is("abort commits") {
		_, err := u.Upload.Commit()
		return err
	}
	return u.Upload.Abort()
}
