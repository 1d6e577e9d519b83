// Package storagetest holds what every store is tested with: Run, the suite
// that says whether a driver keeps storage.Driver's contract, and wrappers over
// any driver that die, fail, lie or tell on purpose.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Run tests a driver against the contract. open is called once by every part
// and returns an empty store; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) storage.Driver) {
	RunWith(t, open, Options{})
}

// Options are for stores that cannot do all, or not as fast; the zero value is the
// default.
type Options struct {
	// Refuses says which names the store cannot have: with those every operation
	// must fail with ErrName.
	Refuses func(name string) bool
	// Rounds is how many names are raced for; 20 by default.
	Rounds int
}

// RunWith is Run with options.
func RunWith(t *testing.T, open func(t *testing.T) storage.Driver, o Options) {
	if o.Refuses == nil {
		o.Refuses = func(string) bool { return false }
	}
	if o.Rounds == 0 {
		o.Rounds = 20
	}
	parts := []struct {
		name string
		run  func(*testing.T, storage.Driver)
	}{
		{"nothing there", testMissing},
		{"put and read", testPutRead},
		{"describe", testDescribe},
		{"read at odd offsets", testReadAt},
		{"read before asking", testReadFirst},
		{"open with a size", testOpenKnown},
		{"hostile names", func(t *testing.T, d storage.Driver) { testNames(t, d, o.Refuses) }},
		{"put if absent", testPutIfAbsent},
		{"put if match", testPutIfMatch},
		{"etag of every version", testETags},
		{"upload", testUpload},
		{"upload under a condition", testUploadCond},
		{"upload aborted", testAbort},
		{"upload of 7 MB", testLarge},
		{"upload cancelled", testCancelled},
		{"caller's buffer", testBufferReuse},
		{"list", testList},
		{"list folders", testFolders},
		{"list unknown", testListUnknown},
		{"list stops", testListStops},
		{"delete", testDelete},
		{"lock", testLock},
		{"sweep", testSweep},
		{"race of creators", func(t *testing.T, d storage.Driver) { testRaceAbsent(t, d, o.Rounds) }},
		{"race of uploads", func(t *testing.T, d storage.Driver) { testRaceUploads(t, d, o.Rounds) }},
		{"race of matchers", testRaceMatch},
		{"matchers against overwriters", testRaceMixed},
		{"versions never mix", testNoMixing},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			d := open(t)
			defer closeAll(t, d)
			part.run(t, d)
		})
	}
}

// racers is how many goroutines race for one name.
const racers = 16

// limit is enough for everything the suite reads whole.
const limit = 16 << 20

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func closeAll(t *testing.T, closers ...io.Closer) {
	t.Helper()
	for _, c := range closers {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func wantContent(t *testing.T, b *storage.Bucket, name, want string) {
	t.Helper()
	got, err := b.ReadAll(t.Context(), name, limit)
	if err != nil {
		t.Errorf("read %q: %v", name, err)
	} else if string(got) != want {
		t.Errorf("%q holds %q, want %q", name, clip(string(got)), clip(want))
	}
}

func clip(s string) string { return s[:min(len(s), 60)] }

func wantNames(t *testing.T, b *storage.Bucket, prefix string, want ...string) {
	t.Helper()
	var got []string
	for o, err := range b.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("list %q: %v", prefix, err)
		}
		got = append(got, o.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("list %q:\n got %q\nwant %q", prefix, got, want)
	}
}

func testMissing(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	for _, name := range []string{"nothing", "no/folder/either"} {
		_, err := b.Stat(ctx, name)
		wantErr(t, "Stat", err, storage.ErrNotExist)
		_, err = b.ReadAll(ctx, name, limit)
		wantErr(t, "ReadAll", err, storage.ErrNotExist)
		_, err = d.ReadAt(ctx, storage.Object{Name: name}, make([]byte, 1), 0)
		wantErr(t, "ReadAt", err, storage.ErrNotExist)
		wantErr(t, "Delete", b.Delete(ctx, name), storage.ErrNotExist)
		_, err = b.PutIfMatch(ctx, name, nil, "some version")
		wantErr(t, "PutIfMatch", err, storage.ErrChanged)
		if ok, err := b.Exists(ctx, name); ok || err != nil {
			t.Errorf("Exists = %v, %v", ok, err)
		}
	}
	wantNames(t, b, "")
	wantNames(t, b, "no/folder/")
}

func testPutRead(t *testing.T, d storage.Driver) {
	b := storage.New(d, nil)
	for _, content := range []string{"", "x", "hello", strings.Repeat("0123456789abcdef", 8192), "\x00\xff\n\r\n"} {
		for _, name := range []string{"at-the-root", "in/a/deep/folder"} {
			must[storage.Object](t)(b.Put(t.Context(), name, []byte(content)))
			wantContent(t, b, name, content)
		}
	}
	wantNames(t, b, "", "at-the-root", "in/a/deep/folder")
	if _, err := d.Stat(t.Context(), "in/a"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Stat of a folder: %v, want %v", err, storage.ErrNotExist)
	}
}

func testDescribe(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	// A server's clock may not be ours: allow for an hour.
	earliest, latest := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	put := must[storage.Object](t)(b.Put(ctx, "d/a", []byte("12345")))
	stat := must[storage.Object](t)(b.Stat(ctx, "d/a"))
	var listed storage.Object
	for o, err := range b.List(ctx, "") {
		listed = must[storage.Object](t)(o, err)
	}
	for how, o := range map[string]storage.Object{"Put": put, "Stat": stat, "List": listed} {
		if o.Name != "d/a" || o.Size != 5 || o.ETag == "" || o.ETag != stat.ETag {
			t.Errorf("%s says %+v, Stat %+v", how, o, stat)
		}
		if o.Modified.Before(earliest) || o.Modified.After(latest) {
			t.Errorf("%s says it was modified at %v", how, o.Modified)
		}
	}
	up := must[storage.Upload](t)(b.Create(ctx, "d/b", storage.Cond{}))
	must[int](t)(up.Write([]byte("123")))
	committed := must[storage.Object](t)(up.Commit())
	if stat = must[storage.Object](t)(b.Stat(ctx, "d/b")); committed.ETag != stat.ETag || committed.Size != 3 || committed.Name != "d/b" {
		t.Errorf("Commit says %+v, Stat %+v", committed, stat)
	}
}

func testReadAt(t *testing.T, d storage.Driver) {
	ctx := t.Context()
	content := []byte("0123456789")
	o := must[storage.Object](t)(d.Put(ctx, "o", content, storage.Cond{}))
	r := must[*storage.Reader](t)(storage.New(d, nil).Open(ctx, "o"))
	defer closeAll(t, r)
	if r.Size() != 10 {
		t.Errorf("Size = %d", r.Size())
	}
	model := bytes.NewReader(content)
	for offset := range int64(13) {
		for size := range 13 {
			want := make([]byte, size)
			wantN, wantEOF := model.ReadAt(want, offset)
			raw := func(p []byte, offset int64) (int, error) { return d.ReadAt(ctx, o, p, offset) }
			for how, readAt := range map[string]func([]byte, int64) (int, error){"Driver": raw, "Reader": r.ReadAt} {
				got := make([]byte, size)
				n, err := readAt(got, offset)
				if n != wantN || !bytes.Equal(got[:n], want[:n]) {
					t.Errorf("%s: %d bytes at %d: %q, want %q", how, size, offset, got[:n], want[:wantN])
				}
				if n == size && err != nil && err != io.EOF || n < size && err != io.EOF { //nolint:errorlint // readers compare io.EOF with ==
					t.Errorf("%s: %d bytes at %d: n = %d, err = %v, model says %v", how, size, offset, n, err, wantEOF)
				}
			}
		}
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read at -1: %v", err)
	}
	if all, err := io.ReadAll(io.NewSectionReader(r, 3, 4)); string(all) != "3456" || err != nil {
		t.Errorf("section = %q, %v", all, err)
	}
}

// hostileNames are legal and have broken programs.
func hostileNames() []string {
	return []string{
		" leading", "trailing ", "a b", "a%20b", "a%2Fb", "100%", "a+b", "a&b=c", "a?b#c", "a:b", "a;b", "a\\b", "a*b", `"quoted"`, "'q'", "a|b<c>", "$HOME", "~", "-rf", "%s%d",
		".hidden", "..two", "...", "a..b", "a.", "CON", "_under", "pt=__HIVE_DEFAULT_PARTITION__/f.parquet", "pt=2024-01-05 10:00/f", "=", "a=b=c/d",
		"grün/ß", "日本語/ファイル", "e\u0301", "é", "😀/😀", "\u200bzero", "\ufeffbom", "ك", strings.Repeat("n", 255), strings.Repeat("ü", 127), strings.Repeat("d/", 100) + "x",
	}
}

func testNames(t *testing.T, d storage.Driver, refuses func(name string) bool) {
	b, ctx := storage.New(d, nil), t.Context()
	for _, name := range slices.DeleteFunc(hostileNames(), func(name string) bool { return !refuses(name) }) {
		_, err := b.PutIfAbsent(ctx, name, nil)
		wantErr(t, fmt.Sprintf("PutIfAbsent %q", name), err, storage.ErrName)
		_, err = b.Create(ctx, name, storage.Cond{})
		wantErr(t, fmt.Sprintf("Create %q", name), err, storage.ErrName)
		_, err = b.ReadAll(ctx, name, limit)
		wantErr(t, fmt.Sprintf("ReadAll %q", name), err, storage.ErrName)
		wantErr(t, fmt.Sprintf("Delete %q", name), b.Delete(ctx, name), storage.ErrName)
	}
	names := slices.DeleteFunc(hostileNames(), refuses)
	for _, name := range names {
		must[storage.Object](t)(b.PutIfAbsent(ctx, name, []byte("content of "+name)))
	}
	for _, name := range names {
		wantContent(t, b, name, "content of "+name)
		_, err := b.PutIfAbsent(ctx, name, nil)
		wantErr(t, fmt.Sprintf("PutIfAbsent %q again", name), err, storage.ErrExist)
	}
	slices.Sort(names)
	wantNames(t, b, "", names...)
	for _, name := range names {
		if err := b.Delete(ctx, name); err != nil {
			t.Error(err)
		}
	}
	wantNames(t, b, "")
}

func testPutIfAbsent(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	must[storage.Object](t)(b.PutIfAbsent(ctx, "f/once", []byte("first")))
	_, err := b.PutIfAbsent(ctx, "f/once", []byte("second"))
	wantErr(t, "second PutIfAbsent", err, storage.ErrExist)
	wantContent(t, b, "f/once", "first")
	wantNames(t, b, "", "f/once")
	if err := b.Delete(ctx, "f/once"); err != nil {
		t.Fatal(err)
	}
	must[storage.Object](t)(b.PutIfAbsent(ctx, "f/once", []byte("again")))
	wantContent(t, b, "f/once", "again")
}

func testPutIfMatch(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	v1 := must[storage.Object](t)(b.Put(ctx, "f/o", []byte("one")))
	v2 := must[storage.Object](t)(b.PutIfMatch(ctx, "f/o", []byte("two"), v1.ETag))
	_, err := b.PutIfMatch(ctx, "f/o", []byte("lost"), v1.ETag)
	wantErr(t, "PutIfMatch of an old version", err, storage.ErrChanged)
	wantContent(t, b, "f/o", "two")
	if err := b.Delete(ctx, "f/o"); err != nil {
		t.Fatal(err)
	}
	_, err = b.PutIfMatch(ctx, "f/o", []byte("risen"), v2.ETag)
	wantErr(t, "PutIfMatch of a deleted object", err, storage.ErrChanged)
	wantNames(t, b, "")
}

func testETags(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	seen := map[string]int{}
	for i := range 100 { // other content of the same size, as fast as it goes
		o := must[storage.Object](t)(b.Put(ctx, "o", fmt.Appendf(nil, "%03d", i)))
		if before, dup := seen[o.ETag]; dup {
			t.Fatalf("versions %d and %d share the ETag %q", before, i, o.ETag)
		}
		seen[o.ETag] = i
	}
}

func testUpload(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	up := must[storage.Upload](t)(b.Create(ctx, "pt=1/f", storage.Cond{}))
	for i := range 100 {
		must[int](t)(fmt.Fprintf(up, "%02d", i))
	}
	must[int](t)(up.Write(nil))
	_, err := b.Stat(ctx, "pt=1/f")
	wantErr(t, "Stat before Commit", err, storage.ErrNotExist)
	wantNames(t, b, "")
	o := must[storage.Object](t)(up.Commit())
	if o.Size != 200 {
		t.Errorf("Size = %d, want 200", o.Size)
	}
	if err := up.Abort(); err != nil {
		t.Errorf("Abort after Commit: %v", err)
	}
	if _, err := up.Commit(); err == nil {
		t.Error("a second Commit succeeds")
	}
	if _, err := up.Write([]byte("late")); err == nil {
		t.Error("a Write after Commit succeeds")
	}
	if got := must[[]byte](t)(b.ReadAll(ctx, "pt=1/f", 200)); string(got[:6]) != "000102" || len(got) != 200 {
		t.Errorf("content %q", got)
	}
	empty := must[storage.Upload](t)(b.Create(ctx, "empty", storage.Cond{}))
	must[storage.Object](t)(empty.Commit())
	wantContent(t, b, "empty", "")
	wantNames(t, b, "", "empty", "pt=1/f")
}

func testUploadCond(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	absent := must[storage.Upload](t)(b.Create(ctx, "o", storage.Cond{Absent: true}))
	must[int](t)(absent.Write([]byte("upload")))
	v1 := must[storage.Object](t)(b.Put(ctx, "o", []byte("one"))) // came first after all
	_, err := absent.Commit()
	wantErr(t, "Commit of an absent upload", err, storage.ErrExist)
	wantContent(t, b, "o", "one")

	match := must[storage.Upload](t)(b.Create(ctx, "o", storage.Cond{ETag: v1.ETag}))
	must[int](t)(match.Write([]byte("two")))
	must[storage.Object](t)(match.Commit())
	wantContent(t, b, "o", "two")

	late := must[storage.Upload](t)(b.Create(ctx, "o", storage.Cond{ETag: v1.ETag}))
	must[int](t)(late.Write([]byte("three")))
	_, err = late.Commit()
	wantErr(t, "Commit over another version", err, storage.ErrChanged)
	wantContent(t, b, "o", "two")

	over := must[storage.Upload](t)(b.Create(ctx, "o", storage.Cond{}))
	must[int](t)(over.Write([]byte("four")))
	must[storage.Object](t)(over.Commit())
	wantContent(t, b, "o", "four")
	wantNames(t, b, "", "o")
}

func testAbort(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	must[storage.Object](t)(b.Put(ctx, "f/there", []byte("before")))
	for _, name := range []string{"f/there", "f/new"} {
		up := must[storage.Upload](t)(b.Create(ctx, name, storage.Cond{}))
		must[int](t)(up.Write([]byte("half")))
		for range 2 {
			if err := up.Abort(); err != nil {
				t.Errorf("Abort: %v", err)
			}
		}
		if _, err := up.Commit(); err == nil {
			t.Error("a Commit after Abort succeeds")
		}
	}
	wantNames(t, b, "", "f/there")
	wantContent(t, b, "f/there", "before")
}

func testLarge(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	content := make([]byte, 7<<20+13) // more than one part of S3's, and odd
	chacha := rand.NewChaCha8([32]byte{7})
	if _, err := chacha.Read(content); err != nil {
		t.Fatal(err)
	}
	up := must[storage.Upload](t)(b.Create(ctx, "large", storage.Cond{Absent: true}))
	for rest := content; len(rest) > 0; {
		n := min(len(rest), 100_003)
		must[int](t)(up.Write(rest[:n]))
		rest = rest[n:]
	}
	must[storage.Object](t)(up.Commit())
	if got := must[[]byte](t)(b.ReadAll(ctx, "large", limit)); !bytes.Equal(got, content) {
		t.Errorf("read %d bytes that are not the %d written", len(got), len(content))
	}
	r := must[*storage.Reader](t)(b.Open(ctx, "large"))
	defer closeAll(t, r)
	for _, offset := range []int{0, 1, 4095, 5<<20 - 1, 5 << 20, 7 << 20} {
		p := make([]byte, 13)
		if n, err := r.ReadAt(p, int64(offset)); n != 13 || err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(p, content[offset:offset+13]) {
			t.Errorf("read at %d: %d, %v", offset, n, err)
		}
	}
}

func testCancelled(t *testing.T, d storage.Driver) {
	b := storage.New(d, nil)
	ctx, cancel := context.WithCancel(t.Context())
	up := must[storage.Upload](t)(b.Create(ctx, "o", storage.Cond{}))
	must[int](t)(up.Write([]byte("half")))
	raw := must[storage.Upload](t)(d.Create(ctx, "raw", storage.Cond{}))
	cancel()
	_, err := up.Commit()
	wantErr(t, "Commit", err, context.Canceled)
	_, err = raw.Commit()
	wantErr(t, "the driver's Commit", err, context.Canceled)
	_, err = b.Put(ctx, "o", nil)
	wantErr(t, "Put", err, context.Canceled)
	for _, err := range b.List(ctx, "") {
		wantErr(t, "List", err, context.Canceled)
	}
	wantNames(t, b, "")
}

func testBufferReuse(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	buf := []byte("right")
	up := must[storage.Upload](t)(b.Create(ctx, "upload", storage.Cond{}))
	must[int](t)(up.Write(buf))
	must[storage.Object](t)(b.Put(ctx, "put", buf))
	copy(buf, "wrong")
	must[storage.Object](t)(up.Commit())
	wantContent(t, b, "upload", "right")
	wantContent(t, b, "put", "right")
}

func testDelete(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	for _, name := range []string{"f/a", "f/b", "g"} {
		must[storage.Object](t)(b.Put(ctx, name, nil))
	}
	if err := b.Delete(ctx, "f/a"); err != nil {
		t.Error(err)
	}
	wantErr(t, "second Delete", b.Delete(ctx, "f/a"), storage.ErrNotExist)
	if err := b.DeleteIfExists(ctx, "f/a"); err != nil {
		t.Error(err)
	}
	wantErr(t, "Delete of a folder", b.Delete(ctx, "f"), storage.ErrNotExist)
	wantNames(t, b, "", "f/b", "g")
	if err := b.Delete(ctx, "f/b"); err != nil {
		t.Error(err)
	}
	wantErr(t, "Delete of an empty folder", b.Delete(ctx, "f"), storage.ErrNotExist)
	must[storage.Object](t)(b.Put(ctx, "f/b", []byte("again")))
	wantContent(t, b, "f/b", "again")
}

func testLock(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	held := must[storage.Lock](t)(b.Lock(ctx, "locks/table"))
	other := must[storage.Lock](t)(b.Lock(ctx, "locks/other"))
	for range 3 {
		_, err := b.Lock(ctx, "locks/table")
		wantErr(t, "second Lock", err, storage.ErrLocked)
	}
	closeAll(t, held, held)
	again := must[storage.Lock](t)(b.Lock(ctx, "locks/table"))
	closeAll(t, held) // the first holder's: must not free the second's
	_, err := b.Lock(ctx, "locks/table")
	wantErr(t, "Lock after a stale unlock", err, storage.ErrLocked)
	closeAll(t, again, other)
	var mu sync.Mutex
	won := 0
	race(racers, func(int) {
		if _, err := b.Lock(ctx, "locks/race"); err == nil {
			mu.Lock()
			won++
			mu.Unlock()
		} else if !errors.Is(err, storage.ErrLocked) {
			t.Error(err)
		}
	})
	if won != 1 {
		t.Errorf("%d of %d hold the lock", won, racers)
	}
}

func testSweep(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	must[storage.Object](t)(b.Put(ctx, "f/kept", []byte("kept")))
	up := must[storage.Upload](t)(b.Create(ctx, "f/new", storage.Cond{}))
	must[int](t)(up.Write([]byte("alive")))
	if n, err := b.Sweep(ctx); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v; nobody died", n, err)
	}
	must[storage.Object](t)(up.Commit())
	wantContent(t, b, "f/kept", "kept")
	wantContent(t, b, "f/new", "alive")
}

// race runs f n times at once and waits.
func race(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}
