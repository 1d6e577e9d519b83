package storagetest_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// drivers are the stores that the wrappers are tried on.
func drivers(t *testing.T) map[string]func() storage.Driver {
	return map[string]func() storage.Driver{
		"mem": func() storage.Driver { return mem.New(nil) },
		"file": func() storage.Driver {
			d, err := file.New(t.TempDir(), &file.Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
	}
}

// script is what dies: an upload between two puts, and a delete.
func script(ctx context.Context, b *storage.Bucket) error {
	held, err := b.Lock(ctx, "lease")
	if err != nil {
		return err
	}
	if _, err := b.PutIfAbsent(ctx, "begun", []byte("1")); err != nil {
		return err
	}
	up, err := b.Create(ctx, "data/file", storage.Cond{})
	if err != nil {
		return err
	}
	for _, s := range []string{"first half, ", "second half"} {
		if _, err := io.WriteString(up, s); err != nil {
			return errors.Join(err, up.Abort())
		}
	}
	if _, err := up.Commit(); err != nil {
		return err
	}
	if _, err := b.Put(ctx, "done", []byte("2")); err != nil {
		return err
	}
	if err := b.Delete(ctx, "begun"); err != nil {
		return err
	}
	return held.Close()
}

// state is all that a store holds, less the lock's own object.
func state(t *testing.T, d storage.Driver) map[string]string {
	t.Helper()
	b, all := storage.New(d, nil), map[string]string{}
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Name == "lease" {
			continue
		}
		data, err := b.ReadAll(t.Context(), o.Name, 100)
		if err != nil {
			t.Fatal(err)
		}
		all[o.Name] = string(data)
	}
	return all
}

// states are what the store must hold after each write-like operation of script.
func states() []map[string]string {
	begun, file := map[string]string{"begun": "1"}, "first half, second half"
	return []map[string]string{
		{},
		begun, // put begun
		begun, // create
		begun, // write
		begun, // write
		{"begun": "1", "data/file": file},
		{"begun": "1", "data/file": file, "done": "2"},
		{"data/file": file, "done": "2"},
	}
}

func TestCrashAtEveryOperation(t *testing.T) {
	want := states()
	for name, open := range drivers(t) {
		counting := storagetest.NewCrasher(open(), storagetest.Crash{})
		if err := script(t.Context(), storage.New(counting, nil)); err != nil || counting.Dead() {
			t.Fatalf("%s: without a crash: %v", name, err)
		}
		if n := len(counting.Ops()); n != len(want)-1 {
			t.Fatalf("%s: %d operations: %v", name, n, counting.Ops())
		}
		if where := counting.Where(); where != "alive after 7 operations" {
			t.Errorf("Where = %q", where)
		}
		for at := 1; at < len(want); at++ {
			for _, after := range []bool{false, true} {
				d := open()
				c := storagetest.NewCrasher(d, storagetest.Crash{At: at, After: after})
				err := script(t.Context(), storage.New(c, nil))
				if !errors.Is(err, storagetest.ErrCrashed) || !c.Dead() || len(c.Ops()) != at {
					t.Fatalf("%s: %s: err = %v", name, c.Where(), err)
				}
				landed := want[at-1]
				if after {
					landed = want[at]
				}
				if got := state(t, d); !maps.Equal(got, landed) {
					t.Errorf("%s: %s: the store holds %v, want %v", name, c.Where(), got, landed)
				}
				checkDead(t, c)
				held, err := d.Lock(t.Context(), "lease")
				if err != nil {
					t.Errorf("%s: %s: the lock outlives its holder: %v", name, c.Where(), err)
				} else if err := held.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// checkDead tries everything on a dead driver.
func checkDead(t *testing.T, c *storagetest.Crasher) {
	t.Helper()
	ctx, b := t.Context(), storage.New(c, nil)
	_, statErr := b.Stat(ctx, "begun")
	_, readErr := c.ReadAt(ctx, storage.Object{Name: "data/file"}, make([]byte, 1), 0)
	_, putErr := b.Put(ctx, "late", nil)
	_, createErr := b.Create(ctx, "late", storage.Cond{})
	_, lockErr := b.Lock(ctx, "other")
	_, sweepErr := b.Sweep(ctx)
	var listErr error
	for _, err := range b.List(ctx, "") {
		listErr = err
	}
	for op, err := range map[string]error{
		"stat": statErr, "read": readErr, "put": putErr, "create": createErr, "lock": lockErr, "sweep": sweepErr, "list": listErr, "delete": b.Delete(ctx, "done"),
	} {
		if !errors.Is(err, storagetest.ErrCrashed) {
			t.Errorf("%s after %s: %v", op, c.Where(), err)
		}
	}
}

func TestCrashSaysWhere(t *testing.T) {
	c := storagetest.NewCrasher(mem.New(nil), storagetest.Crash{At: 1, After: true})
	if _, err := c.Put(t.Context(), "x/y", nil, storage.Cond{Absent: true}); !errors.Is(err, storagetest.ErrCrashed) {
		t.Error(err)
	}
	if got := c.Where(); got != "after operation 1, put x/y if absent" {
		t.Errorf("Where = %q", got)
	}
}

// TestCrashLeavesWhatSweepRemoves: the file store keeps a dead upload's hidden
// file, as a real death does.
func TestCrashLeavesWhatSweepRemoves(t *testing.T) {
	root := t.TempDir()
	open := func() storage.Driver {
		d, err := file.New(root, &file.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	c := storagetest.NewCrasher(open(), storagetest.Crash{At: 5})
	if err := script(t.Context(), storage.New(c, nil)); !errors.Is(err, storagetest.ErrCrashed) {
		t.Fatal(err)
	}
	next := open()
	for _, want := range []int{1, 0} {
		if n, err := next.Sweep(t.Context()); n != want || err != nil {
			t.Errorf("Sweep = %d, %v, want %d", n, err, want)
		}
	}
}

func TestFaultsFailOnceAndGoOn(t *testing.T) {
	custom := errors.New("custom")
	for name, open := range drivers(t) {
		d := storagetest.Faults(open(),
			storagetest.Fault{Kind: storagetest.Put, N: 2},
			storagetest.Fault{Kind: storagetest.Put, N: 3, After: true, Err: custom},
			storagetest.Fault{Kind: storagetest.Commit, N: 1},
			storagetest.Fault{Kind: storagetest.Delete, N: 9},
		)
		var errs []error
		for _, o := range []string{"1", "2", "3", "4"} {
			_, err := d.Put(t.Context(), o, []byte(o), storage.Cond{})
			errs = append(errs, err)
		}
		if errs[0] != nil || !errors.Is(errs[1], storagetest.ErrFault) || !errors.Is(errs[2], custom) || errs[3] != nil {
			t.Errorf("%s: puts: %v", name, errs)
		}
		if err := script(t.Context(), storage.New(d, nil)); !errors.Is(err, storagetest.ErrFault) {
			t.Errorf("%s: script: %v", name, err)
		}
		if got, want := state(t, d), map[string]string{"1": "1", "3": "3", "4": "4", "begun": "1"}; !maps.Equal(got, want) {
			t.Errorf("%s: the store holds %v, want %v", name, got, want)
		}
		if d.Hit() != 3 {
			t.Errorf("%s: %d faults came to pass, want 3", name, d.Hit())
		}
	}
}

func TestFlipChangesOneByteForReaders(t *testing.T) {
	const content = "0123456789"
	for name, open := range drivers(t) {
		for offset := range int64(len(content)) {
			under := open()
			d := storagetest.Flip(under, "f/o", offset, 0x01)
			b := storage.New(d, nil)
			for _, o := range []string{"f/o", "f/other"} {
				if _, err := b.Put(t.Context(), o, []byte(content)); err != nil {
					t.Fatal(err)
				}
			}
			want := []byte(content)
			want[offset] ^= 0x01
			r, err := b.Open(t.Context(), "f/o")
			if err != nil {
				t.Fatal(err)
			}
			for size := 1; size <= len(content); size++ {
				var got []byte
				for at := 0; at < len(content); at += size {
					p := make([]byte, size)
					n, _ := r.ReadAt(p, int64(at))
					got = append(got, p[:n]...)
				}
				if string(got) != string(want) {
					t.Errorf("%s: read in pieces of %d: %q, want %q", name, size, got, want)
				}
			}
			if got := state(t, d)["f/other"]; got != content {
				t.Errorf("%s: the other object reads %q", name, got)
			}
			if got := state(t, under)["f/o"]; got != content {
				t.Errorf("%s: stored %q", name, got)
			}
		}
	}
}

func TestTraceIsGolden(t *testing.T) {
	const writes = `lock lease
put begun if absent (1 bytes)
create data/F
commit data/F (23 bytes)
put done (1 bytes)
delete begun
unlock lease
`
	const rest = `put begun if absent (1 bytes)
put begun if absent (1 bytes): object exists already
put done (0 bytes)
put done if match (1 bytes)
put done if match (1 bytes): object was changed by somebody else
stat gone: object does not exist
read done 0+1
list everything
list data/ folders
sweep
`
	for name, open := range drivers(t) {
		var trace strings.Builder
		o := &storagetest.TraceOptions{Bytes: true, Rename: func(name string) string { return strings.ReplaceAll(name, "file", "F") }}
		d := storagetest.Trace(open(), &trace, o)
		if err := script(t.Context(), storage.New(d, nil)); err != nil {
			t.Fatal(err)
		}
		if trace.String() != writes {
			t.Errorf("%s: trace\n%swant\n%s", name, trace.String(), writes)
		}
		trace.Reset()
		tour(t, d)
		if trace.String() != strings.Join(slices.DeleteFunc(strings.SplitAfter(rest, "\n"), isRead), "") {
			t.Errorf("%s: trace without reads\n%s", name, trace.String())
		}
		under := open()
		if err := script(t.Context(), storage.New(under, nil)); err != nil {
			t.Fatal(err)
		}
		trace.Reset()
		tour(t, storagetest.Trace(under, &trace, &storagetest.TraceOptions{Bytes: true, Reads: true}))
		if trace.String() != rest {
			t.Errorf("%s: trace with reads\n%swant\n%s", name, trace.String(), rest)
		}
	}
}

func isRead(line string) bool {
	return strings.HasPrefix(line, "stat") || strings.HasPrefix(line, "read") || strings.HasPrefix(line, "list")
}

// tour does one of each thing that script leaves out.
func tour(t *testing.T, d storage.Driver) {
	ctx := t.Context()
	_, _ = d.Put(ctx, "begun", []byte("1"), storage.Cond{Absent: true})
	_, _ = d.Put(ctx, "begun", []byte("1"), storage.Cond{Absent: true})
	done, _ := d.Put(ctx, "done", nil, storage.Cond{})
	_, _ = d.Put(ctx, "done", []byte("3"), storage.Cond{ETag: done.ETag})
	_, _ = d.Put(ctx, "done", []byte("3"), storage.Cond{ETag: done.ETag})
	_, _ = d.Stat(ctx, "gone")
	_, _ = d.ReadAt(ctx, storage.Object{Name: "done"}, make([]byte, 1), 0)
	for range d.List(ctx, "", false) {
		break
	}
	for range d.List(ctx, "data/", true) {
		break
	}
	_, _ = d.Sweep(ctx)
}
