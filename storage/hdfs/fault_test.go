package hdfs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/hdfsfake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/hdfs"
)

// The object of these tests, and where it lies.
const object, objectPath = "pt=1/o", "/lake/t/pt=1/o"

// act is what one process does to the object; it says how it ended in a word.
type act struct {
	name string
	run  func(ctx context.Context, d *hdfs.Driver, seen storage.Object) error
}

func putAct(name, content string, cond func(seen storage.Object) storage.Cond) act {
	return act{name, func(ctx context.Context, d *hdfs.Driver, seen storage.Object) error {
		_, err := d.Put(ctx, object, []byte(content), cond(seen))
		return err
	}}
}

// acts, of a process of that name, which is what its puts contain.
func acts(who string) []act {
	return []act{
		putAct("absent", who, func(storage.Object) storage.Cond { return storage.Cond{Absent: true} }),
		putAct("match", who, func(seen storage.Object) storage.Cond { return storage.Cond{ETag: seen.ETag} }),
		putAct("over", who, func(storage.Object) storage.Cond { return storage.Cond{} }),
		{"delete", func(ctx context.Context, d *hdfs.Driver, _ storage.Object) error { return d.Delete(ctx, object) }},
		{"delete, absent", func(ctx context.Context, d *hdfs.Driver, _ storage.Object) error {
			_ = d.Delete(ctx, object)
			_, err := d.Put(ctx, object, []byte(who), storage.Cond{Absent: true})
			return err
		}},
		{"upload", func(ctx context.Context, d *hdfs.Driver, _ storage.Object) error {
			up, err := d.Create(ctx, object, storage.Cond{})
			if err != nil {
				return err
			}
			if _, err := io.WriteString(up, who); err != nil {
				return errors.Join(err, up.Abort())
			}
			_, err = up.Commit()
			return err
		}},
	}
}

// outcome is how an act ended.
func outcome(err error) string {
	for name, sentinel := range map[string]error{"exists": storage.ErrExist, "changed": storage.ErrChanged, "none": storage.ErrNotExist} {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	if err != nil {
		return "unknown: " + err.Error()
	}
	return "done"
}

// world is a file system in which the object has content, or is not there; seen is
// what a reader saw.
func world(t *testing.T, there bool) (f *hdfsfake.FS, seen storage.Object) {
	t.Helper()
	f = hdfsfake.New()
	d := open(t, f, hdfs.Options{})
	must(t)(d.Put(t.Context(), "pt=1/other", nil, storage.Cond{}))
	seen, err := d.Put(t.Context(), object, []byte("old"), storage.Cond{})
	must(t)(seen, err)
	if !there {
		must(t)(nil, d.Delete(t.Context(), object))
	}
	return f, seen
}

func must(t *testing.T) func(any, error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// content is what a reader reads, "-" for no object.
func content(t *testing.T, f *hdfsfake.FS) string {
	t.Helper()
	data, err := storage.New(open(t, f, hdfs.Options{}), nil).ReadAll(t.Context(), object, 1<<20)
	if errors.Is(err, storage.ErrNotExist) {
		return "-"
	}
	must(t)(data, err)
	return string(data)
}

// hidden are the files that are no objects.
func hidden(f *hdfsfake.FS) (all []string) {
	for p := range f.Files() {
		if strings.HasPrefix(p, "/lake/t/.~c2h/") {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// TestEveryCallFails has each call of each act fail once, before it does anything
// or when it has done it: the act ends as it does without, and nothing is left.
func TestEveryCallFails(t *testing.T) {
	lost := &net.OpError{Op: "read", Net: "tcp", Err: io.EOF}
	busy := hdfsfake.RemoteError{Class: "org.apache.hadoop.hdfs.server.namenode.SafeModeException", Text: "Name node is in safe mode."}
	eachAct(t, func(t *testing.T, a act, there bool) {
		f, seen := world(t, there)
		want := outcome(a.run(t.Context(), open(t, f, hdfs.Options{}), seen)) + " " + content(t, f)
		for _, failure := range []struct {
			name  string
			err   error
			after bool
		}{{"refused", busy, false}, {"lost before", lost, false}, {"lost after", lost, true}} {
			for at := 1; ; at++ {
				f, seen := world(t, there)
				n, where := 0, ""
				hook := func(c hdfsfake.Call) error {
					if n++; n != at {
						return nil
					}
					where = c.String()
					return failure.err
				}
				if f.Before = hook; failure.after {
					f.Before, f.After = nil, hook
				}
				told := 0
				err := a.run(t.Context(), open(t, f, hdfs.Options{Retried: func(error, time.Duration) { told++ }}), seen)
				f.Before, f.After = nil, nil
				if where == "" {
					break
				}
				// An object that is gone after the answer was lost is as the caller wants it.
				got := outcome(err) + " " + content(t, f)
				if got != want && (a.name != "delete" || got != "done -") {
					t.Errorf("%s at call %d, %s: %s, want %s", failure.name, at, where, got, want)
				}
				left := hidden(f)
				if len(left) > 1 { // of what was to be removed one may stay
					t.Errorf("%s at call %d, %s: left %q", failure.name, at, where, left)
				}
				if n, err := open(t, f, hdfs.Options{}).Sweep(t.Context()); n != len(left) || err != nil {
					t.Errorf("Sweep = %d, %v; left %q", n, err, left)
				}
			}
		}
	})
}

func eachAct(t *testing.T, test func(t *testing.T, a act, there bool)) {
	t.Helper()
	for _, a := range acts("A") {
		for _, there := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s there=%v", a.name, there), func(t *testing.T) { test(t, a, there) })
		}
	}
}

// TestProcessDies kills the process at each call of each act, before and after it
// takes effect. What readers see is old or new, whole; others can go on at once;
// and Sweep leaves nothing.
func TestProcessDies(t *testing.T) {
	death := context.Canceled // the driver tries nothing more
	eachAct(t, func(t *testing.T, a act, there bool) {
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				f, seen := world(t, there)
				n, where := 0, ""
				hook := func(c hdfsfake.Call) error {
					if n++; n < at {
						return nil
					}
					if where == "" {
						where = c.String()
					}
					return death
				}
				dead := false
				if f.Before = hook; after {
					f.After = hook
					f.Before = func(hdfsfake.Call) error {
						if dead {
							return death
						}
						dead = where != ""
						return nil
					}
					f.After = func(c hdfsfake.Call) error {
						err := hook(c)
						dead = dead || err != nil
						return err
					}
				}
				_ = a.run(t.Context(), open(t, f, hdfs.Options{}), seen)
				f.Before, f.After = nil, nil
				if where == "" {
					break
				}
				survive(t, f, fmt.Sprintf("at call %d, %s, after=%v", at, where, after))
			}
		}
	})
}

// survive goes on where a process died.
func survive(t *testing.T, f *hdfsfake.FS, where string) {
	t.Helper()
	got := content(t, f)
	if got != "old" && got != "A" && got != "-" {
		t.Errorf("%s: readers see %q", where, got)
	}
	d := open(t, f, hdfs.Options{})
	b := storage.New(d, nil)
	if got == "-" {
		must(t)(b.PutIfAbsent(t.Context(), object, []byte("B")))
	}
	// One more look is all it takes, when the dead left something to finish.
	for attempt := 1; ; attempt++ {
		o, err := b.Stat(t.Context(), object)
		must(t)(o, err)
		_, err = b.PutIfMatch(t.Context(), object, []byte("C"), o.ETag)
		if err == nil {
			break
		}
		if !errors.Is(err, storage.ErrChanged) || attempt == 2 {
			t.Fatalf("%s: match: %v", where, err)
		}
		if got := content(t, f); got != "A" {
			t.Errorf("%s: what was finished is %q", where, got)
		}
	}
	if got := content(t, f); got != "C" {
		t.Errorf("%s: %q after C was put", where, got)
	}
	if _, err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left := hidden(f); len(left) > 0 {
		t.Errorf("%s: left %q", where, left)
	}
}

// TestPaused has a process pause at each call of each act, while another does each
// act, from beginning to end: both must end, and leave the object, as if one had
// acted after the other. In a folder with snapshots deletions are left out, see
// the package's comment.
func TestPaused(t *testing.T) {
	for _, snapshots := range []bool{false, true} {
		for _, there := range []bool{true, false} {
			for _, a := range acts("A") {
				for _, b := range acts("B") {
					if snapshots && strings.HasPrefix(b.name, "delete") {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s, there=%v, snapshots=%v", a.name, b.name, there, snapshots), func(t *testing.T) {
						paused(t, a, b, there, snapshots)
					})
				}
			}
		}
	}
}

func paused(t *testing.T, a, b act, there, snapshots bool) {
	var allowed []string
	for _, first := range []bool{true, false} {
		f, seen := world(t, there)
		da, db := open(t, f, hdfs.Options{}), open(t, f, hdfs.Options{})
		var ra, rb string
		if first {
			ra = outcome(a.run(t.Context(), da, seen))
		}
		rb = outcome(b.run(t.Context(), db, seen))
		if !first {
			ra = outcome(a.run(t.Context(), da, seen))
		}
		allowed = append(allowed, strings.Join([]string{ra, rb, content(t, f)}, ", "))
	}
	// An act of two operations can have the other's between them.
	composed := a.name == "delete, absent" || b.name == "delete, absent"
	for at := 1; ; at++ {
		f, seen := world(t, there)
		f.Snapshots = snapshots
		da, db := open(t, f, hdfs.Options{}), open(t, f, hdfs.Options{})
		n, where, rb := 0, "", ""
		f.Before = func(c hdfsfake.Call) error {
			if n++; n == at {
				where = c.String()
				f.Before = nil
				rb = outcome(b.run(t.Context(), db, seen))
			}
			return nil
		}
		ra := outcome(a.run(t.Context(), da, seen))
		f.Before = nil
		if where == "" {
			return
		}
		got := strings.Join([]string{ra, rb, content(t, f)}, ", ")
		if !slices.Contains(allowed, got) && (!composed || strings.Contains(got, "unknown")) {
			t.Errorf("paused at call %d, %s: %s, want one of %q", at, where, got, allowed)
		}
		if left := hidden(f); len(left) > 0 {
			t.Errorf("paused at call %d, %s: left %q", at, where, left)
		}
	}
}
