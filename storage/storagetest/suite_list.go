package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
)

// listed are names whose byte order is not that of a walk which sorts names
// within their folder: "-" and "." come before "/", letters after.
func listed() []string {
	return []string{
		"a", "b", "b-c", "b.d/x", "b!", "b0", "bb/c/d", "bb/c-d", "bb/c.d", "bb/c0", "bb/d",
		"pt=1/f1", "pt=1/f2", "pt=1/sub/f", "pt=10/f1", "pt=2/f1", "Z", "ä/x", "ä0", "\U0001F600", "\uffee",
	}
}

func testList(t *testing.T, d storage.Driver) {
	b := storage.New(d, nil)
	names := listed()
	for _, name := range names {
		must[storage.Object](t)(b.Put(t.Context(), name, []byte(name)))
	}
	slices.Sort(names)
	wantNames(t, b, "", names...)
	wantNames(t, b, "b", "b", "b!", "b-c", "b.d/x", "b0", "bb/c-d", "bb/c.d", "bb/c/d", "bb/c0", "bb/d")
	wantNames(t, b, "bb/", "bb/c-d", "bb/c.d", "bb/c/d", "bb/c0", "bb/d")
	wantNames(t, b, "bb/c", "bb/c-d", "bb/c.d", "bb/c/d", "bb/c0")
	wantNames(t, b, "pt=1", "pt=1/f1", "pt=1/f2", "pt=1/sub/f", "pt=10/f1")
	wantNames(t, b, "pt=1/", "pt=1/f1", "pt=1/f2", "pt=1/sub/f")
	wantNames(t, b, "ä", "ä/x", "ä0")
	wantNames(t, b, "Z", "Z")
	wantNames(t, b, "Z/")
	wantNames(t, b, "nothing")
	wantNames(t, b, "..")
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Size != int64(len(o.Name)) {
			t.Errorf("%q: Size = %d", o.Name, o.Size)
		}
	}
}

func wantFolders(t *testing.T, b *storage.Bucket, prefix string, want ...string) {
	t.Helper()
	var got []string
	for o, err := range b.ListFolders(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("list folders of %q: %v", prefix, err)
		}
		got = append(got, o.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("folders of %q:\n got %q\nwant %q", prefix, got, want)
	}
}

func testFolders(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	for _, name := range listed() {
		must[storage.Object](t)(b.Put(ctx, name, []byte(name)))
	}
	wantFolders(t, b, "", "Z", "a", "b", "b!", "b-c", "b.d/", "b0", "bb/", "pt=1/", "pt=10/", "pt=2/", "ä/", "ä0", "\uffee", "\U0001F600")
	wantFolders(t, b, "bb/", "bb/c-d", "bb/c.d", "bb/c/", "bb/c0", "bb/d")
	wantFolders(t, b, "pt=", "pt=1/", "pt=10/", "pt=2/")
	wantFolders(t, b, "pt=1/", "pt=1/f1", "pt=1/f2", "pt=1/sub/")
	wantFolders(t, b, "pt=1/sub/", "pt=1/sub/f")
	wantFolders(t, b, "nothing/")
	// A folder is there while it holds objects, also deeper ones, and an
	// upload is none.
	up := must[storage.Upload](t)(b.Create(ctx, "pt=3/f", storage.Cond{}))
	if err := b.Delete(ctx, "pt=2/f1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pt=1/f1", "pt=1/f2"} {
		if err := b.Delete(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	wantFolders(t, b, "pt=", "pt=1/", "pt=10/")
	must[storage.Object](t)(up.Commit())
	wantFolders(t, b, "pt=", "pt=1/", "pt=10/", "pt=3/")
}

// testListUnknown lists a folder to who knows a part of it.
func testListUnknown(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	for _, name := range listed() {
		must[storage.Object](t)(b.Put(ctx, name, []byte(name)))
	}
	for _, c := range []struct {
		folder       string
		known        []string
		asked, yield []string
	}{
		{"", []string{"a", "bb", "pt=2"}, []string{"Z", "a", "b", "b!", "b-c", "b.d", "b0", "bb", "pt=1", "pt=10", "pt=2", "ä", "ä0", "\uffee", "\U0001F600"},
			[]string{"Z", "b", "b!", "b-c", "b.d/", "b0", "pt=1/", "pt=10/", "ä/", "ä0", "\uffee", "\U0001F600"}},
		{"pt=1/", []string{"f1", "gone"}, []string{"f1", "f2", "sub"}, []string{"pt=1/f2", "pt=1/sub/"}},
		{"pt=1/sub/", []string{"f"}, []string{"f"}, nil},
		{"nothing/", nil, nil, nil},
	} {
		var asked, yielded []string
		known := func(name string) bool {
			asked = append(asked, name)
			return slices.Contains(c.known, name)
		}
		for o, err := range b.ListUnknown(ctx, c.folder, known) {
			if err != nil {
				t.Fatal(err)
			}
			yielded = append(yielded, o.Name)
			if !strings.HasSuffix(o.Name, "/") && (o.Size != int64(len(o.Name)) || o.Modified.IsZero()) {
				t.Errorf("%+v", o)
			}
		}
		slices.Sort(asked)
		slices.Sort(yielded)
		if !slices.Equal(asked, c.asked) || !slices.Equal(yielded, c.yield) {
			t.Errorf("%q: asked for %q, yielded %q", c.folder, asked, yielded)
		}
	}
	for _, err := range b.ListUnknown(ctx, "", func(string) bool { return false }) {
		if err != nil {
			t.Fatal(err)
		}
		break // and no more is yielded
	}
}

// testListStops deletes, puts and leaves in the middle of a list.
func testListStops(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	const n = 40
	for i := range n {
		must[storage.Object](t)(b.Put(ctx, fmt.Sprintf("f%d/o%02d", i/8, i), nil))
	}
	seen := 0
	for _, err := range b.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 5 {
			break
		}
	}
	if seen != 5 {
		t.Errorf("saw %d objects, left after 5", seen)
	}
	last := ""
	for o, err := range b.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Name <= last {
			t.Errorf("%q after %q", o.Name, last)
		}
		last = o.Name
		if err := b.Delete(ctx, o.Name); err != nil && !errors.Is(err, storage.ErrNotExist) {
			t.Error(err)
		}
	}
	wantNames(t, b, "")
}
