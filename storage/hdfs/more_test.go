package hdfs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/hdfsfake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/hdfs"
)

// TestPatience: what does not come back ends with what to look at, after the waits
// that were to be borne; and what comes back is not told to the caller.
func TestPatience(t *testing.T) {
	f := hdfsfake.New()
	left := 1000
	f.Before = func(hdfsfake.Call) error {
		if left--; left >= 0 {
			return hdfsfake.RemoteError{Class: "org.apache.hadoop.hdfs.server.namenode.SafeModeException", Text: "Cannot create. Name node is in safe mode."}
		}
		return nil
	}
	var waited time.Duration
	d, err := hdfs.New("/lake/t", f.Connect, &hdfs.Options{Patience: 40 * time.Second})
	must(t)(d, err)
	d.SetSleep(func(_ context.Context, wait time.Duration) error {
		waited += wait
		return nil
	})
	_, err = d.Put(t.Context(), "o", nil, storage.Cond{})
	if err == nil || !strings.Contains(err.Error(), "Name node is in safe mode") || !strings.Contains(err.Error(), "see that") {
		t.Errorf("Put: %v", err)
	}
	if waited < 40*time.Second || waited > 50*time.Second {
		t.Errorf("waited %v", waited)
	}
	left = 5
	if _, err := d.Put(t.Context(), "o", nil, storage.Cond{}); err != nil {
		t.Errorf("Put after safe mode: %v", err)
	}
}

// TestCancelledWhileWaiting: the caller does not wait for patience's end.
func TestCancelledWhileWaiting(t *testing.T) {
	f := hdfsfake.New()
	f.Before = func(hdfsfake.Call) error { return io.ErrUnexpectedEOF }
	ctx, cancel := context.WithCancel(t.Context())
	d, err := hdfs.New("/lake/t", f.Connect, &hdfs.Options{Retried: func(error, time.Duration) { cancel() }})
	must(t)(d, err)
	if _, err := d.Stat(ctx, "o"); !errors.Is(err, context.Canceled) {
		t.Errorf("Stat: %v", err)
	}
}

// TestDeniedIsSaidAtOnce, with what the name node said.
func TestDeniedIsSaidAtOnce(t *testing.T) {
	f := hdfsfake.New()
	f.Before = func(c hdfsfake.Call) error {
		if c.Op == "create" {
			return hdfsfake.RemoteError{Class: "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", Text: "The NameSpace quota of directory /lake is exceeded"}
		}
		return nil
	}
	d := open(t, f, hdfs.Options{Retried: func(err error, _ time.Duration) { t.Errorf("tried again: %v", err) }})
	if _, err := d.Put(t.Context(), "o", nil, storage.Cond{}); err == nil || !strings.Contains(err.Error(), "quota of directory /lake") {
		t.Errorf("Put: %v", err)
	}
}

// TestReadersSeeNothingEarly lists and reads at every call of a put.
func TestReadersSeeNothingEarly(t *testing.T) {
	f := hdfsfake.New()
	b := storage.New(open(t, f, hdfs.Options{}), nil)
	reader := storage.New(open(t, f, hdfs.Options{Hidden: ".~c2h"}), nil)
	want, looked := strings.Repeat("whole", 100), 0
	f.Before = func(hdfsfake.Call) error {
		hook := f.Before
		f.Before = nil
		defer func() { f.Before = hook }()
		for o, err := range reader.List(t.Context(), "") {
			must(t)(o, err)
			if o.Size != int64(len(want)) {
				t.Errorf("listed: %+v", o)
			}
		}
		if data, err := reader.ReadAll(t.Context(), "f/o", 1<<20); err == nil && string(data) != want || err != nil && !errors.Is(err, storage.ErrNotExist) {
			t.Errorf("read %q, %v", data, err)
		}
		looked++
		return nil
	}
	must(t)(b.PutIfAbsent(t.Context(), "f/o", []byte(want)))
	must(t)(b.Put(t.Context(), "f/o", []byte(want)))
	if looked < 15 {
		t.Errorf("looked %d times", looked)
	}
}

// TestNames: what HDFS cannot have, or has for itself, is refused by name.
func TestNames(t *testing.T) {
	d := open(t, hdfsfake.New(), hdfs.Options{Hidden: "a/hidden"})
	for _, name := range []string{"a:b", "x/.snapshot/y", "\xff", strings.Repeat("x", 256), "a/hidden", "a/hidden/x"} {
		if _, err := d.Put(t.Context(), name, nil, storage.Cond{}); !errors.Is(err, storage.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	must(t)(d.Put(t.Context(), "a/hidden-not", nil, storage.Cond{}))
	root, err := hdfs.New("/", hdfsfake.New().Connect, nil)
	must(t)(root, err)
	if _, err := root.Stat(t.Context(), ".reserved/x"); !errors.Is(err, storage.ErrName) {
		t.Errorf(".reserved: %v", err)
	}
	must(t)(root.Put(t.Context(), "x", nil, storage.Cond{}))
	if _, err := hdfs.New("relative", hdfsfake.New().Connect, nil); err == nil {
		t.Error("a relative root is taken")
	}
}

// TestSweptUnderneath: a put whose hidden file is swept away is done again.
func TestSweptUnderneath(t *testing.T) {
	for at := 1; at < 12; at++ {
		f := hdfsfake.New()
		d, other := open(t, f, hdfs.Options{}), open(t, f, hdfs.Options{})
		n := 0
		f.Before = func(hdfsfake.Call) error {
			if n++; n == at {
				f.Before = nil
				if _, err := other.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
			return nil
		}
		must(t)(d.Put(t.Context(), object, []byte("A"), storage.Cond{Absent: true}))
		if got := content(t, f); got != "A" {
			t.Errorf("swept at call %d: %q", at, got)
		}
	}
}

// TestPrune removes what is empty, and only that.
func TestPrune(t *testing.T) {
	f := hdfsfake.New()
	b := storage.New(open(t, f, hdfs.Options{}), nil)
	for i := range 3 {
		must(t)(b.Put(t.Context(), fmt.Sprintf("a/%d/b/o", i), nil))
	}
	for _, name := range []string{"a/0/b/o", "a/2/b/o"} {
		must(t)(nil, b.Delete(t.Context(), name))
	}
	for _, folder := range []string{"a/", "a/", "none/"} {
		must(t)(nil, b.Prune(t.Context(), folder))
	}
	for path, want := range map[string]bool{"/lake/t/a/0": false, "/lake/t/a/1/b": true, "/lake/t/a/2": false} {
		if there := f.Exists(path); there != want {
			t.Errorf("%s there = %v", path, there)
		}
	}
}

// TestNeverReported: a file whose data node stopped before it reported the last
// block is written anew.
func TestNeverReported(t *testing.T) {
	f := hdfsfake.New()
	f.Replicating = 1 << 20
	var told []string
	d := open(t, f, hdfs.Options{Retried: func(err error, _ time.Duration) {
		told = append(told, err.Error())
		f.Replicating = 0
	}})
	must(t)(d.Put(t.Context(), object, []byte("A"), storage.Cond{Absent: true}))
	if got := content(t, f); got != "A" || len(told) != 1 || !strings.Contains(told[0], "did not report") {
		t.Errorf("%q after %q", got, told)
	}
	if left := hidden(f); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}
