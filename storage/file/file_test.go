package file_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

func open(t *testing.T, root string, o *file.Options) *file.Driver {
	t.Helper()
	d, err := file.New(root, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func bucket(t *testing.T, root string) *storage.Bucket {
	t.Helper()
	return storage.New(open(t, root, &file.Options{NoSync: true}), nil)
}

func put(t *testing.T, b *storage.Bucket, name, content string) {
	t.Helper()
	if _, err := b.Put(t.Context(), name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, b *storage.Bucket) []string {
	t.Helper()
	var all []string
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o.Name)
	}
	return all
}

// onDisk is every file below root, hidden ones too.
func onDisk(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestConformance(t *testing.T) {
	for name, o := range map[string]*file.Options{"synced": nil, "not synced": {NoSync: true}} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, func(t *testing.T) storage.Driver { return open(t, t.TempDir()+"/not/yet/there", o) })
		})
	}
}

// TestConformanceOfTwoHandles runs every operation through one of two drivers
// over one folder, in turn: what one does the other must see at once.
func TestConformanceOfTwoHandles(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Driver {
		root := t.TempDir()
		a, b := open(t, root, &file.Options{NoSync: true}), open(t, root, &file.Options{NoSync: true})
		return &turns{Driver: a, other: b}
	})
}

// turns gives reading and the conditional puts to different handles.
type turns struct {
	*file.Driver // writes
	other        *file.Driver
}

func (d *turns) Stat(ctx context.Context, name string) (storage.Object, error) {
	return d.other.Stat(ctx, name)
}

func (d *turns) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	return d.other.ReadAt(ctx, o, p, offset)
}

func (d *turns) Delete(ctx context.Context, name string) error { return d.other.Delete(ctx, name) }

func (d *turns) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	if len(data)%2 == 0 {
		return d.other.Put(ctx, name, data, cond)
	}
	return d.Driver.Put(ctx, name, data, cond)
}

func TestNothingIsMadeBeforeTheFirstPut(t *testing.T) {
	root := t.TempDir() + "/a/b"
	b := bucket(t, root)
	if ok, err := b.Exists(t.Context(), "o"); ok || err != nil {
		t.Errorf("Exists = %v, %v", ok, err)
	}
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	if got := names(t, b); got != nil {
		t.Errorf("List = %q", got)
	}
	if err := b.Delete(t.Context(), "o"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Delete: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(root)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made %s: %v", filepath.Dir(root), err)
	}
}

func TestRootMustBeAFolder(t *testing.T) {
	path := t.TempDir() + "/file"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"", path, path + "/below"} {
		if _, err := file.New(root, nil); err == nil {
			t.Errorf("New(%q) succeeds", root)
		}
	}
}

// TestOtherProgramsCanRead: the rights are what the umask leaves of 0644, as
// for files of any other writer, not those of a private temporary file.
func TestOtherProgramsCanRead(t *testing.T) {
	root := t.TempDir()
	plain := filepath.Join(root, "plain")
	f, err := os.OpenFile(plain, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	want, err := os.Stat(plain)
	if err != nil {
		t.Fatal(err)
	}
	b := bucket(t, root)
	put(t, b, "pt=1/o", "x")
	got, err := os.Stat(filepath.Join(root, "pt=1/o"))
	if err != nil || got.Mode() != want.Mode() {
		t.Errorf("mode %v, want %v (%v)", got.Mode(), want.Mode(), err)
	}
}

func TestTemporaryFilesAreHiddenAndSwept(t *testing.T) {
	root := t.TempDir()
	dead, alive := bucket(t, root), bucket(t, root)
	put(t, dead, "pt=1/kept", "kept")
	for _, name := range []string{"pt=1/a", "pt=1/deep/b", "c"} { // never finished
		up, err := dead.Create(t.Context(), name, storage.Cond{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := up.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
	}
	up, err := alive.Create(t.Context(), "mine", storage.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, alive); !slices.Equal(got, []string{"pt=1/kept"}) {
		t.Errorf("List = %q", got)
	}
	var folders []string
	for o, err := range alive.ListFolders(t.Context(), "pt=1/") {
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, o.Name)
	}
	if !slices.Equal(folders, []string{"pt=1/kept"}) {
		t.Errorf("ListFolders = %q", folders)
	}
	hidden := slices.DeleteFunc(onDisk(t, root), func(s string) bool { return !strings.Contains(s, "~") })
	if len(hidden) != 4 {
		t.Fatalf("hidden files: %q", hidden)
	}
	for _, name := range hidden {
		if !strings.HasPrefix(filepath.Base(name), ".") {
			t.Errorf("%q is not hidden from Hadoop's readers", name)
		}
		if _, err := alive.Stat(t.Context(), name); !errors.Is(err, storage.ErrName) {
			t.Errorf("Stat %q: %v", name, err)
		}
		if _, err := alive.Put(t.Context(), name, nil); !errors.Is(err, storage.ErrName) {
			t.Errorf("Put %q: %v", name, err)
		}
	}
	for _, want := range []int{3, 0} {
		if n, err := alive.Sweep(t.Context()); n != want || err != nil {
			t.Errorf("Sweep = %d, %v, want %d", n, err, want)
		}
	}
	if _, err := up.Commit(); err != nil {
		t.Errorf("Sweep took an upload of its own: %v", err)
	}
	if got := onDisk(t, root); !slices.Equal(got, []string{"mine", "pt=1/kept"}) {
		t.Errorf("on disk: %q", got)
	}
}

func TestNothingIsLeftInHiding(t *testing.T) {
	root := t.TempDir()
	b := bucket(t, root)
	put(t, b, "f/o", "1")
	if _, err := b.PutIfAbsent(t.Context(), "f/o", nil); !errors.Is(err, storage.ErrExist) {
		t.Error(err)
	}
	if _, err := b.PutIfMatch(t.Context(), "f/o", nil, "other"); !errors.Is(err, storage.ErrChanged) {
		t.Error(err)
	}
	if _, err := b.PutIfAbsent(t.Context(), "f/p", []byte("2")); err != nil {
		t.Error(err)
	}
	put(t, b, "f/o", "3")
	up, err := b.Create(t.Context(), "f/q", storage.Cond{})
	if err == nil {
		err = up.Abort()
	}
	if err != nil {
		t.Error(err)
	}
	if got := onDisk(t, root); !slices.Equal(got, []string{"f/o", "f/p"}) {
		t.Errorf("on disk: %q", got)
	}
}

func TestNamesBeyondTheSuites(t *testing.T) {
	b := bucket(t, t.TempDir())
	for _, name := range []string{"\xff\xfe", "new\nline/\r", "\x01\x7f", "a/.~other/x", "x.~c2h-"} {
		put(t, b, name, name)
		if got, err := b.ReadAll(t.Context(), name, 100); string(got) != name || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	long := strings.Repeat("n", 256)
	for _, name := range []string{long, long + "/o", ".~c2h-x", "f/.~c2h-x", ".~c2h-x/o"} {
		if _, err := b.Put(t.Context(), name, nil); !errors.Is(err, storage.ErrName) {
			t.Errorf("Put %.20q…: %v", name, err)
		}
		if _, err := b.Stat(t.Context(), name); !errors.Is(err, storage.ErrName) {
			t.Errorf("Stat %.20q…: %v", name, err)
		}
		if _, err := b.Lock(t.Context(), name); !errors.Is(err, storage.ErrName) {
			t.Errorf("Lock %.20q…: %v", name, err)
		}
	}
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
}

// TestObjectAndFolderOfOneName cannot both be: it must be said, and nothing lost.
func TestObjectAndFolderOfOneName(t *testing.T) {
	b := bucket(t, t.TempDir())
	put(t, b, "a", "object")
	put(t, b, "f/o", "in a folder")
	_, below := b.Put(t.Context(), "a/b", nil)
	_, over := b.Put(t.Context(), "f", nil)
	_, absent := b.PutIfAbsent(t.Context(), "f", nil)
	for what, err := range map[string]error{"below an object": below, "over a folder": over, "absent over a folder": absent} {
		if err == nil || errors.Is(err, storage.ErrExist) {
			t.Errorf("put %s: %v", what, err)
		}
	}
	if _, err := b.Stat(t.Context(), "a/b"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Stat below an object: %v", err)
	}
	if got := names(t, b); !slices.Equal(got, []string{"a", "f/o"}) {
		t.Errorf("List = %q", got)
	}
}

func TestFolderRemovedByOthersIsMadeAgain(t *testing.T) {
	root := t.TempDir() + "/table"
	b := bucket(t, root)
	for _, gone := range []string{root + "/a/b", root + "/a", root} {
		put(t, b, "a/b/o", "x")
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		put(t, b, "a/b/o", "y")
		if got, err := b.ReadAll(t.Context(), "a/b/o", 10); string(got) != "y" || err != nil {
			t.Errorf("after %s was removed: %q, %v", gone, got, err)
		}
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		held, err := b.Lock(t.Context(), "a/b/lock")
		if err != nil {
			t.Fatalf("Lock after %s was removed: %v", gone, err)
		}
		held.Close()
	}
}

func TestLinksAndOddFiles(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	b := bucket(t, root)
	put(t, bucket(t, elsewhere), "f/o", "far")
	for name, target := range map[string]string{"folder": elsewhere, "file": elsewhere + "/f/o", "dangling": elsewhere + "/none"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, b); !slices.Equal(got, []string{"file", "folder/f/o"}) {
		t.Errorf("List = %q", got)
	}
	put(t, b, "folder/f/p", "written through a link")
	if got, err := os.ReadFile(elsewhere + "/f/p"); err != nil || len(got) == 0 {
		t.Errorf("%q, %v", got, err)
	}
	// A link that leads in a circle must end in an error, not in a hang.
	if err := os.Symlink(root, filepath.Join(root, "circle")); err != nil {
		t.Fatal(err)
	}
	var last error
	n := 0
	for _, err := range b.List(t.Context(), "") {
		if last, n = err, n+1; n > 1000 {
			break
		}
	}
	if n > 1000 {
		t.Errorf("a circle yields %d objects and more; %v", n, last)
	}
}

func TestListOrderIsThatOfNames(t *testing.T) {
	b := bucket(t, t.TempDir())
	want := []string{"a!", "a-b/c", "a.b", "a/z", "a0", "aa/b", "aa/b.c"}
	for _, name := range want {
		put(t, b, name, "")
	}
	if got := names(t, b); !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
}

// TestHadoopsChecksums: Spark wrote x and its checksum; once x is another, the
// checksum is gone, and not before.
func TestHadoopsChecksums(t *testing.T) {
	root := t.TempDir()
	b, ctx := bucket(t, root), t.Context()
	crc := filepath.Join(root, "f", ".x.crc")
	steps := []struct {
		name string
		do   func() error
		kept bool
	}{
		{"put", func() error { _, err := b.Put(ctx, "f/x", []byte("1")); return err }, false},
		{"losing put-if-absent", func() error { _, err := b.PutIfAbsent(ctx, "f/x", nil); return err }, true},
		{"losing put-if-match", func() error { _, err := b.PutIfMatch(ctx, "f/x", nil, "other"); return err }, true},
		{"put of another", func() error { _, err := b.Put(ctx, "f/y", nil); return err }, true},
		{"put-if-match", func() error {
			o, err := b.Stat(ctx, "f/x")
			if err == nil {
				_, err = b.PutIfMatch(ctx, "f/x", nil, o.ETag)
			}
			return err
		}, false},
		{"delete", func() error { return b.Delete(ctx, "f/x") }, false},
		{"delete of none", func() error { return b.Delete(ctx, "f/x") }, true},
		{"put-if-absent", func() error { _, err := b.PutIfAbsent(ctx, "f/x", nil); return err }, false},
	}
	if err := os.Mkdir(filepath.Dir(crc), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if err := os.WriteFile(crc, []byte("crc"), 0o600); err != nil {
			t.Fatal(err)
		}
		stepErr := step.do()
		_, err := os.Stat(crc)
		if kept := err == nil; kept != step.kept {
			t.Errorf("%s (%v): checksum kept = %v, want %v", step.name, stepErr, kept, step.kept)
		}
	}
}

func TestModificationTimeIsNow(t *testing.T) {
	b := bucket(t, t.TempDir())
	before := time.Now()
	put(t, b, "o", "x")
	o, err := b.Stat(t.Context(), "o")
	if err != nil || o.Modified.Before(before) || o.Modified.After(time.Now()) {
		t.Errorf("Modified = %v, put after %v (%v)", o.Modified, before, err)
	}
}

// TestETagOfFilesByOthers: what another program writes has versions too.
func TestETagOfFilesByOthers(t *testing.T) {
	root := t.TempDir()
	b := bucket(t, root)
	put(t, b, "o", "one")
	o, err := b.Stat(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "o"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutIfMatch(t.Context(), "o", nil, o.ETag); !errors.Is(err, storage.ErrChanged) {
		t.Errorf("PutIfMatch: %v", err)
	}
}

func TestLockFileIsReplaced(t *testing.T) {
	root := t.TempDir()
	b := bucket(t, root)
	held, err := b.Lock(t.Context(), "l/lock")
	if err != nil {
		t.Fatal(err)
	}
	// Somebody cleans up. The kernel's lock is on a file nobody can find any
	// more; the next one must not be fooled into sharing it.
	if err := os.Remove(filepath.Join(root, "l/lock")); err != nil {
		t.Fatal(err)
	}
	next, err := b.Lock(t.Context(), "l/lock")
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Lock(t.Context(), "l/lock"); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("Lock: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

func TestLockSaysWhoHoldsIt(t *testing.T) {
	root := t.TempDir()
	b := bucket(t, root)
	held, err := b.Lock(t.Context(), "lock")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Lock(t.Context(), "lock")
	host, hostErr := os.Hostname()
	if hostErr != nil {
		t.Fatal(hostErr)
	}
	if err == nil || !strings.Contains(err.Error(), "held by pid ") || !strings.Contains(err.Error(), " on "+host+" since 2") {
		t.Errorf("Lock: %v", err)
	}
	// What the file says is not to be trusted, or printed without end.
	for _, content := range []string{"", "no end of line", strings.Repeat("x", 1<<20), "\xff\xfe\n", "\n"} {
		if err := os.WriteFile(filepath.Join(root, "lock"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Lock(t.Context(), "lock"); !errors.Is(err, storage.ErrLocked) || len(err.Error()) > 1000 {
			t.Errorf("Lock: %.200v", err)
		}
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "lock")); err != nil {
		t.Errorf("the lock's file was deleted: %v", err)
	}
}
