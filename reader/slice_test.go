package reader_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/reader"
)

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestMergeOfBaseAndLogs(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1"), put("b", 5, "b5"), put("c", 1, "c1"), put("d", 1, "d1"), put("e", 4, "e4"), put("f", 1, "f1")))
	f.commit(logOf("pt=a", "g-0", t1, 1, put("a", 2, "a2"), put("b", 4, "late"), remove("c", 2), put("n", 1, "n1"), remove("e", 3), put("f", 2, "f2")))
	f.commit(logOf("pt=a", "g-0", t1, 2, put("a", 3, "a3"), put("n", 1, "n1 again"), put("c", 3, "c3"), remove("x", 9), remove("f", 3), tombstone("d", 2)))
	for _, memory := range []int64{0, 1} {
		wantLines(t, f.snapshot(reader.Options{Memory: memory, TempDir: t.TempDir()}),
			"pt=a/a 3 a3", "pt=a/b 5 b5", "pt=a/c 3 c3", "pt=a/e 4 e4", "pt=a/n 1 n1 again")
	}
	wantLines(t, f.snapshot(reader.Options{IncludeDeletes: true}),
		"pt=a/a 3 a3", "pt=a/b 5 b5", "pt=a/c 3 c3", "†pt=a/d 2", "pt=a/e 4 e4", "pt=a/n 1 n1 again")
	list, err := f.view().Slices(t.Context(), "pt=a")
	if err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	o := reader.Options{HardDeletes: true, Keys: basefile.NewKeySet([]string{"b", "c", "d", "e", "f", "x"})}
	wantLines(t, seen(t, f.schema, reader.Slice(t.Context(), f.view(), list[0], f.schema, o)),
		"pt=a/b 5 b5", "pt=a/c 3 c3", "†pt=a/d 2", "pt=a/e 4 e4", "-pt=a/f 3 f2")
	wantLines(t, f.snapshot(reader.Options{HardDeletes: true}), f.snapshot(reader.Options{})...)
	wantLines(t, f.changes("", "", reader.Options{HardDeletes: true}), f.changes("", "", reader.Options{})...)
	wantLines(t, seen(t, f.schema, reader.ReadOptimized(t.Context(), f.view(), reader.Options{})),
		"pt=a/a 1 a1", "pt=a/b 5 b5", "pt=a/c 1 c1", "pt=a/d 1 d1", "pt=a/e 4 e4", "pt=a/f 1 f1")
}

// TestNaturalDeletes: a delete without an ordering value wins over all before it, and
// whoever asks is told what it hides: the place must not get a row that is older,
// since the next merge with the base file would bring that one's row back.
func TestNaturalDeletes(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 5, "a5"), put("b", 5, "b5"), put("c", 5, "c5"), put("d", 5, "d5"), put("e", 9, "e9"), put("f", 5, "f5")))
	f.commit(logOf("pt=a", "g-0", t1, 1, put("b", 7, "b7"), put("c", 6, "c6"), remove("d", 8), put("e", 6, "late")))
	others := logOf("pt=a", "g-0", t1, 2, remove("a", 0), remove("b", 0), remove("c", 0), remove("d", 0), remove("e", 0), remove("x", 0))
	others.spoil = natural
	f.commit(others)
	again := logOf("pt=a", "g-0", t1, 3, put("c", 8, "c8"), remove("b", 0))
	again.spoil = natural
	f.commit(again)
	wantLines(t, f.snapshot(reader.Options{}), "pt=a/c 8 c8", "pt=a/f 5 f5")
	list, err := f.view().Slices(t.Context(), "pt=a")
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, seen(t, f.schema, reader.Slice(t.Context(), f.view(), list[0], f.schema, reader.Options{HardDeletes: true})),
		"-pt=a/a 5 a5", "-pt=a/b 7 b7", "pt=a/c 8 c8", "-pt=a/d 8 d5", "-pt=a/e 9 e9", "pt=a/f 5 f5")
}

func TestGroupsOfLogsAlone(t *testing.T) {
	f := newFixture(t)
	x, body := f.begin()
	w := logOf("", "g-0", x.Instant(), 1, put("b", 1, "b1"), put("a", 1, "a1"), remove("c", 1))
	w.partition = "pt=a"
	stat, err := f.store(t.Context(), x, w)
	if err != nil {
		t.Fatal(err)
	}
	body.Stats["pt=a"] = append(body.Stats["pt=a"], stat)
	if err := x.Commit(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	wantLines(t, f.snapshot(reader.Options{}), "pt=a/a 1 a1", "pt=a/b 1 b1")
}

// TestUnfinishedCommit: what a dead writer left is not there, even torn.
func TestUnfinishedCommit(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1")))
	torn := logOf("pt=a", "g-0", t1, 1, put("a", 2, "never"))
	torn.spoil = func(b []byte) []byte { return b[:len(b)-9] }
	f.begin(baseOf("pt=b", "h-0", put("b", 1, "never")), torn, logOf("pt=a", "g-0", t1, 2, put("a", 3, "never")))
	wantLines(t, f.snapshot(reader.Options{}), "pt=a/a 1 a1")
}

// TestDamage: every fault in a committed file is reported with the file's name.
func TestDamage(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"cut short":       func(b []byte) []byte { return b[:len(b)-9] },
		"a flipped magic": func(b []byte) []byte { b[1] ^= 1; return b },
		"bytes behind":    func(b []byte) []byte { return append(b, "more"...) },
		"cut to its head": func(b []byte) []byte { return b[:10] },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1")))
			bad := logOf("pt=a", "g-0", t1, 1, put("a", 2, "a2"))
			bad.spoil = spoil
			f.commit(bad)
			err := failure(reader.Snapshot(t.Context(), f.view(), reader.Options{}))
			if !errors.Is(err, reader.ErrCorrupt) || !strings.Contains(err.Error(), ".g-0_") || !strings.Contains(err.Error(), "offset") {
				t.Fatalf("%v", err)
			}
		})
	}
	t.Run("base file", func(t *testing.T) {
		f := newFixture(t)
		bad := baseOf("pt=a", "g-0", put("a", 1, "a1"))
		bad.spoil = func(b []byte) []byte { return b[:len(b)-3] }
		f.commit(bad)
		if err := failure(reader.Snapshot(t.Context(), f.view(), reader.Options{})); err == nil || !strings.Contains(err.Error(), "g-0_") {
			t.Fatalf("%v", err)
		}
	})
}

// TestNothingStaysOnDisk: the temporary file goes whether the reader reads to
// the end, stops, fails or is cancelled.
func TestNothingStaysOnDisk(t *testing.T) {
	f := newFixture(t)
	var first, second []hudi.Record
	for i := range 2000 {
		first = append(first, put(fmt.Sprintf("k%04d", i), 1, "one"))
		second = append(second, put(fmt.Sprintf("k%04d", i), 2, strings.Repeat("two", 50)))
	}
	t1 := f.commit(baseOf("pt=a", "g-0", first...))
	f.commit(logOf("pt=a", "g-0", t1, 1, second...))
	view := f.view()
	for _, stop := range []int{1, 1000, 4000} {
		dir := t.TempDir()
		n := 0
		for r, err := range reader.Snapshot(t.Context(), view, reader.Options{Memory: 1, TempDir: dir}) {
			if err != nil || r.Order != 2 {
				t.Fatalf("%+v %v", r, err)
			}
			if n++; n == stop {
				break
			}
		}
		if n != min(stop, len(first)) {
			t.Fatalf("%d rows", n)
		}
		empty(t, dir)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range reader.Snapshot(ctx, view, reader.Options{Memory: 1, TempDir: dir}) {
		if n++; n == 10 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || n > 1500 {
		t.Fatalf("after %d rows: %v", n, last)
	}
	empty(t, dir)
	if err := failure(reader.Snapshot(t.Context(), view, reader.Options{Memory: 1, TempDir: dir + "/missing"})); err == nil {
		t.Fatal("without a folder for temporary files the rows were lost")
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Fatalf("left on disk: %v %v", left, err)
	}
}

func TestColumnsAreCut(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1"), put("b", 1, "b1"), put("c", 1, "c1")))
	f.commit(logOf("pt=a", "g-0", t1, 1, put("a", 2, "a2"), tombstone("b", 2), put("n", 1, "n1")))
	o := reader.Options{Columns: []string{"v"}}
	s, err := reader.Target(t.Context(), f.view(), o)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range reader.Snapshot(t.Context(), f.view(), o) {
		if err != nil || len(r.Row) != 1 {
			t.Fatalf("%+v %v", r, err)
		}
	}
	wantLines(t, seen(t, s, reader.Snapshot(t.Context(), f.view(), o)), "pt=a/a 2 a2", "pt=a/c 1 c1", "pt=a/n 1 n1")
}

// TestForeignMarks: a column _deleted of a table that is not ours is a column
// like any other.
func TestForeignMarks(t *testing.T) {
	f := newFixture(t)
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong},
		hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean})
	if err != nil {
		t.Fatal(err)
	}
	f.schema = s
	f.commit(baseOf("pt=a", "g-0", hudi.Record{Key: hudi.Key{Record: "a"}, Order: 1, Row: hudi.Row{hudi.String("a"), hudi.Long(1), hudi.Boolean(true)}}))
	wantLines(t, f.snapshot(reader.Options{}), "†pt=a/a 1")
}

func TestEmptyTable(t *testing.T) {
	f := newFixture(t)
	if got := f.view().Last(); got != "" {
		t.Fatal(got)
	}
	if err := failure(reader.Snapshot(t.Context(), f.view(), reader.Options{})); err != nil {
		t.Fatalf("a table without commits: %v", err)
	}
	if err := failure(reader.Incremental(t.Context(), f.view(), "", "", reader.Options{})); err != nil {
		t.Fatal(err)
	}
}
