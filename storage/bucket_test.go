package storage_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

func badNames() []string {
	return []string{
		"", "/", "/a", "a/", "a//b", "//", ".", "..", "./a", "a/.", "a/./b", "../a", "a/..", "a/../b", "a/b/../../..", "a\x00b", "\x00",
		strings.Repeat("n", storage.MaxNameBytes+1), strings.Repeat("ü", storage.MaxNameBytes/2+1),
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range badNames() {
		err := storage.CheckName(name)
		if !errors.Is(err, storage.ErrName) {
			t.Errorf("%q: %v, want %v", name, err, storage.ErrName)
		} else if len(err.Error()) > 1200 {
			t.Errorf("the message has %d bytes", len(err.Error()))
		}
	}
	for _, name := range []string{"a", "a/b", ".a", "..a", "a..", "...", "a b", "a%2Fb", "\xff", "\\", " ", strings.Repeat("n", storage.MaxNameBytes)} {
		if err := storage.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzCheckName: a name that passes stays below any folder it is joined to.
func FuzzCheckName(f *testing.F) {
	for _, name := range badNames() {
		f.Add(name)
	}
	f.Add(".hoodie/.temp/a b%3D=ü")
	f.Fuzz(func(t *testing.T, name string) {
		if storage.CheckName(name) != nil {
			return
		}
		if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." || strings.ContainsRune(name, 0) || len(name) > 1024 {
			t.Errorf("%q passes", name)
		}
	})
}

// TestNamesAreCheckedByEveryMethod: a bad name never reaches a driver, and the
// error says what was tried.
func TestNamesAreCheckedByEveryMethod(t *testing.T) {
	var trace strings.Builder
	b := storage.New(storagetest.Trace(mem.New(nil), &trace, &storagetest.TraceOptions{Reads: true}), nil)
	methods := map[string]func(ctx context.Context, name string) error{
		"stat": func(ctx context.Context, name string) error { _, err := b.Stat(ctx, name); return err },
		"put":  func(ctx context.Context, name string) error { _, err := b.PutIfAbsent(ctx, name, nil); return err },
		"create": func(ctx context.Context, name string) error {
			_, err := b.Create(ctx, name, storage.Cond{})
			return err
		},
		"delete": b.DeleteIfExists,
		"lock":   func(ctx context.Context, name string) error { _, err := b.Lock(ctx, name); return err },
	}
	for op, method := range methods {
		for _, name := range badNames() {
			err := method(t.Context(), name)
			if !errors.Is(err, storage.ErrName) || !strings.HasPrefix(err.Error(), op+" \"") {
				t.Errorf("%s %q: %v", op, name, err)
			}
		}
	}
	for _, prefix := range []string{"/", "/a", "a//", "../", "./", "a/../b", "a\x00"} {
		n := 0
		for _, err := range b.List(t.Context(), prefix) {
			if n++; !errors.Is(err, storage.ErrName) {
				t.Errorf("list %q: %v", prefix, err)
			}
		}
		if n != 1 {
			t.Errorf("list %q yields %d times", prefix, n)
		}
	}
	if trace.Len() > 0 {
		t.Errorf("the driver was asked:\n%s", trace.String())
	}
}

func TestErrorsSayWhatWasTried(t *testing.T) {
	b := storage.New(mem.New(nil), nil)
	_, err := b.Stat(t.Context(), "a/ b")
	if !errors.Is(err, storage.ErrNotExist) || err.Error() != `stat "a/ b": object does not exist` {
		t.Errorf("Stat: %v", err)
	}
	if _, err := b.PutIfMatch(t.Context(), "o", nil, ""); err == nil {
		t.Error("PutIfMatch takes an empty ETag")
	}
	if _, err := b.Create(t.Context(), "o", storage.Cond{Absent: true, ETag: "1"}); err == nil {
		t.Error("Create takes two conditions at once")
	}
	boom := errors.New("disk on fire")
	f := storagetest.Faults(mem.New(nil), storagetest.Fault{Kind: storagetest.List, N: 1, Err: boom})
	for _, err := range storage.New(f, nil).ListFolders(t.Context(), "p/") {
		if !errors.Is(err, boom) || err.Error() != `list "p/": disk on fire` {
			t.Errorf("List: %v", err)
		}
	}
	f = storagetest.Faults(mem.New(nil), storagetest.Fault{Kind: storagetest.Stat, N: 1, Err: boom})
	if ok, err := storage.New(f, nil).Exists(t.Context(), "o"); ok || !errors.Is(err, boom) {
		t.Errorf("Exists = %v, %v; a fault is not an absence", ok, err)
	}
}

func TestReadAllHasALimit(t *testing.T) {
	b := storage.New(mem.New(nil), nil)
	if _, err := b.Put(t.Context(), "o", []byte("12345")); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]error{-1: storage.ErrTooLarge, 0: storage.ErrTooLarge, 4: storage.ErrTooLarge, 5: nil, 6: nil} {
		data, err := b.ReadAll(t.Context(), "o", limit)
		if !errors.Is(err, want) || err == nil && string(data) != "12345" {
			t.Errorf("limit %d: %q, %v", limit, data, err)
		}
	}
}

// restless overwrites the object before each of the next reads.
type restless struct {
	storage.Driver
	left int
}

func (r *restless) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	if r.left > 0 {
		r.left--
		if _, err := r.Put(ctx, o.Name, []byte(strings.Repeat("n", r.left)), storage.Cond{}); err != nil {
			return 0, err
		}
	}
	return r.Driver.ReadAt(ctx, o, p, offset)
}

func TestReadVersionReadsAgainWhenOverwritten(t *testing.T) {
	for overwrites, want := range map[int]error{0: nil, 1: nil, 7: nil, 8: storage.ErrChanged} {
		d := &restless{Driver: mem.New(nil), left: overwrites}
		b := storage.New(d, nil)
		if _, err := b.Put(t.Context(), "o", []byte("first")); err != nil {
			t.Fatal(err)
		}
		data, o, err := b.ReadVersion(t.Context(), "o", 10)
		if !errors.Is(err, want) {
			t.Fatalf("%d overwrites: %v", overwrites, err)
		}
		if err != nil {
			continue
		}
		if overwrites > 0 && len(data) != 0 || o.Size != int64(len(data)) {
			t.Errorf("%d overwrites: read %q of %+v", overwrites, data, o)
		}
		if _, err := b.PutIfMatch(t.Context(), "o", nil, o.ETag); err != nil {
			t.Errorf("%d overwrites: PutIfMatch of what was read: %v", overwrites, err)
		}
	}
}

func TestReaderOfOneVersion(t *testing.T) {
	b := storage.New(mem.New(&mem.Options{Block: -1}), nil)
	put := func() {
		t.Helper()
		if _, err := b.Put(t.Context(), "o", []byte("content")); err != nil {
			t.Fatal(err)
		}
	}
	put()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := b.Open(ctx, "o")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 7)
	if _, err := r.ReadAt(p, 0); err != nil || string(p) != "content" || r.Object().Name != "o" {
		t.Errorf("read %q, %v", p, err)
	}
	put()
	if _, err := r.ReadAt(p, 0); !errors.Is(err, storage.ErrChanged) {
		t.Errorf("overwritten: %v", err)
	}
	if err := b.Delete(t.Context(), "o"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadAt(p, 0); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("deleted: %v", err)
	}
	cancel()
	if _, err := r.ReadAt(p, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.ReadAt(p, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// shrunk claims more bytes than it has, as after a truncation behind our back.
type shrunk struct{ storage.Driver }

func (s shrunk) Stat(ctx context.Context, name string) (storage.Object, error) {
	o, err := s.Driver.Stat(ctx, name)
	o.Size += 10
	return o, err
}

func TestShortObjectIsNotItsEnd(t *testing.T) {
	b := storage.New(shrunk{mem.New(nil)}, nil)
	if _, err := b.Put(t.Context(), "o", []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if data, err := b.ReadAll(t.Context(), "o", 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ReadAll = %q, %v", data, err)
	}
}

func TestUploadWithAFailedWriteIsNotCommitted(t *testing.T) {
	for _, after := range []bool{false, true} {
		m := mem.New(nil)
		b := storage.New(storagetest.Faults(m, storagetest.Fault{Kind: storagetest.Write, N: 2, After: after}), nil)
		up, err := b.Create(t.Context(), "o", storage.Cond{})
		if err != nil {
			t.Fatal(err)
		}
		var errs []error
		for _, s := range []string{"one", "two", "three"} {
			_, err := io.WriteString(up, s)
			errs = append(errs, err)
		}
		if errs[0] != nil || !errors.Is(errs[1], storagetest.ErrFault) || !errors.Is(errs[2], storagetest.ErrFault) {
			t.Errorf("writes: %v", errs)
		}
		if _, err := up.Commit(); !errors.Is(err, storagetest.ErrFault) {
			t.Errorf("Commit: %v", err)
		}
		if _, err := up.Commit(); !errors.Is(err, storage.ErrFinished) {
			t.Errorf("second Commit: %v", err)
		}
		if ok, err := b.Exists(t.Context(), "o"); ok || err != nil {
			t.Errorf("Exists = %v, %v", ok, err)
		}
	}
}

func TestAbortWorksWhenCancelled(t *testing.T) {
	var trace strings.Builder
	b := storage.New(storagetest.Trace(mem.New(nil), &trace, nil), nil)
	ctx, cancel := context.WithCancel(t.Context())
	up, err := b.Create(ctx, "o", storage.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := up.Write([]byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	if err := up.Abort(); err != nil {
		t.Errorf("Abort: %v", err)
	}
	if want := "create o\nabort o\n"; trace.String() != want {
		t.Errorf("the driver saw\n%swant\n%s", trace.String(), want)
	}
}

func TestObserve(t *testing.T) {
	var ops []string
	var bytes int64
	b := storage.New(mem.New(nil), &storage.Options{Observe: func(e storage.Event) {
		s := e.Op + " " + e.Name
		if e.Err != nil {
			s += "!"
		}
		if e.Took < 0 {
			t.Errorf("%s took %v", s, e.Took)
		}
		ops = append(ops, s)
		bytes += e.Bytes
	}})
	ctx := t.Context()
	up, err := b.Create(ctx, "u", storage.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	_, writeErr := io.WriteString(up, "123")
	_, commitErr := up.Commit()
	_, putErr := b.Put(ctx, "p", []byte("4567"))
	_, readErr := b.ReadAll(ctx, "u", 10)
	_, missing := b.Stat(ctx, "gone")
	for range b.List(ctx, "") {
		break
	}
	_, sweepErr := b.Sweep(ctx)
	if err := errors.Join(writeErr, commitErr, putErr, readErr, b.Delete(ctx, "p"), sweepErr); err != nil || missing == nil {
		t.Fatal(err, missing)
	}
	want := []string{"create u", "write u", "commit u", "put p", "read u", "stat gone!", "list ", "delete p", "sweep "}
	slices.Sort(ops)
	slices.Sort(want)
	if !slices.Equal(ops, want) || bytes != 3+4+3 {
		t.Errorf("observed %q and %d bytes,\nwant %q", ops, bytes, want)
	}
}

// A connection that ends is an error of its own, and the end of nothing that is read
// through it.
func TestLostConnectionIsNoEnd(t *testing.T) {
	d := mem.New(nil)
	lost := &net.OpError{Op: "read", Net: "tcp", Err: io.EOF}
	for kind, call := range map[storagetest.Kind]func(b *storage.Bucket) error{
		storagetest.Read: func(b *storage.Bucket) error {
			_, err := b.ReadAll(t.Context(), "o", 100)
			return err
		},
		storagetest.Stat: func(b *storage.Bucket) error {
			_, err := b.Stat(t.Context(), "o")
			return err
		},
		storagetest.List: func(b *storage.Bucket) error {
			for _, err := range b.List(t.Context(), "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		if _, err := storage.New(d, nil).Put(t.Context(), "o", []byte("content")); err != nil {
			t.Fatal(err)
		}
		err := call(storage.New(storagetest.Faults(d, storagetest.Fault{Kind: kind, N: 1, Err: lost}), nil))
		var network *net.OpError
		if err == nil || errors.Is(err, io.EOF) || !errors.As(err, &network) || !strings.Contains(err.Error(), lost.Error()) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
