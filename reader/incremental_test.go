package reader_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

func (f *fixture) changes(begin, end hudi.Time, o reader.Options) []string {
	f.t.Helper()
	return seen(f.t, f.schema, reader.Incremental(f.t.Context(), f.view(), begin, end, o))
}

func TestIncremental(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1"), put("b", 5, "b5"), put("c", 1, "c1")), baseOf("pt=b", "h-0", put("z", 1, "z1")))
	t2 := f.commit(logOf("pt=a", "g-0", t1, 1, put("a", 2, "a2"), put("b", 4, "late"), remove("c", 2)))
	t3 := f.commit(logOf("pt=a", "g-0", t1, 2, put("a", 3, "a3"), tombstone("b", 6)), baseOf("pt=b", "i-0", put("y", 1, "y1")))
	t4 := f.commit()
	for _, o := range []reader.Options{{}, {Memory: 1, TempDir: t.TempDir()}} {
		wantLines(t, f.changes("", t1, o), "pt=a/a 1 a1", "pt=a/b 5 b5", "pt=a/c 1 c1", "pt=b/z 1 z1")
		// What lost against an older row shows; the hard delete does not.
		wantLines(t, f.changes(t1, t2, o), "pt=a/a 2 a2", "pt=a/b 4 late")
		wantLines(t, f.changes(t2, t3, o), "pt=a/a 3 a3", "†pt=a/b 6", "pt=b/y 1 y1")
		wantLines(t, f.changes(t1, t3, o), "pt=a/a 3 a3", "†pt=a/b 6", "pt=b/y 1 y1")
		wantLines(t, f.changes("000", "", o), "pt=a/a 3 a3", "†pt=a/b 6", "pt=b/y 1 y1", "pt=b/z 1 z1")
		wantLines(t, f.changes(t1, "99999999999999999", o), "pt=a/a 3 a3", "†pt=a/b 6", "pt=b/y 1 y1")
		wantLines(t, f.changes(t3, t4, o))
		wantLines(t, f.changes(t4, "", o))
		wantLines(t, f.changes(t3, t2, o))
	}
	o := reader.Options{Columns: []string{"v"}}
	s, err := reader.Target(t.Context(), f.view(), o)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, seen(t, s, reader.Incremental(t.Context(), f.view(), t1, t2, o)), "pt=a/a 2 a2", "pt=a/b 4 late")
}

// TestCleanedRange: a file of the range that is gone is an error that names
// where to begin, not a range that looks empty.
func TestCleanedRange(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1")), baseOf("pt=a", "h-0", put("b", 1, "b1")))
	t2 := f.commit(logOf("pt=a", "g-0", t1, 1, put("a", 2, "a2")))
	for o, err := range f.bucket.List(t.Context(), "pt=a/") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(o.Name, "h-0") {
			if err := f.bucket.Delete(t.Context(), o.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	v := openView(t, f.bucket)
	err := failure(reader.Incremental(t.Context(), v, "", "", reader.Options{}))
	var gone *reader.RangeError
	if !errors.Is(err, reader.ErrCleaned) || !errors.As(err, &gone) || gone.Commit != t1 || !strings.Contains(gone.Hint(), string(t1)) {
		t.Fatalf("%v", err)
	}
	wantLines(t, seen(t, f.schema, reader.Incremental(t.Context(), v, t1, t2, reader.Options{})), "pt=a/a 2 a2")
	if begin, err := reader.OldestBegin(t.Context(), v); err != nil || begin != "" {
		t.Errorf("no clean says so: changes from %q on, %v", begin, err)
	}
	for name, earliest := range map[string]hudi.Time{"by versions": "", "by commits": t2} {
		data, err := commitmeta.EncodeCleanResult(commitmeta.CleanResult{Earliest: earliest})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.bucket.Put(t.Context(), ".hoodie/29990101000000000.clean", data); err != nil {
			t.Fatal(err)
		}
		want := cmp.Or(earliest, t1)
		if begin, err := reader.OldestBegin(t.Context(), openView(t, f.bucket)); err != nil || begin != want {
			t.Errorf("%s: changes from %q on, want %q, %v", name, begin, want, err)
		}
	}
	if err := failure(reader.Snapshot(t.Context(), v.AsOf(t1), reader.Options{})); !errors.Is(err, reader.ErrCleaned) {
		t.Fatalf("a past that is gone: %v", err)
	}
}
