package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// TestMain keeps the key caches of all tests here out of the user's own.
// asProgram makes this test binary the program itself: for tests that kill it.
const asProgram = "COUCH2HUDI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(mainCode())
	}
	dir, err := os.MkdirTemp("", "couch2hudi-test")
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// TestStateDir: the cache lives below the folder named, is built anew when it is
// gone or damaged, and nothing of the table depends on it.
func TestStateDir(t *testing.T) {
	for _, kind := range []string{"bloom", "bucket"} {
		t.Run(kind, func(t *testing.T) { testStateDir(t, kind) })
	}
}

func testStateDir(t *testing.T, kind string) {
	t.Helper()
	_, db, url := shop(t, couchfake.Options{}, 30)
	dir, state := filepath.Join(t.TempDir(), "table"), t.TempDir()
	run := func(state string) (errs string) {
		t.Helper()
		code, out, errs := call(t, "run", "--once", "--source", url, "--table", dir, "--index", kind, "--state-dir", state, "--log-level", "debug")
		if code != 0 {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
		return errs
	}
	count := func(want string) {
		t.Helper()
		if got := strings.TrimSpace(want1(t, "query", "--table", dir, "--count")); got != want {
			t.Fatalf("%s documents, want %s", got, want)
		}
	}
	edit := func(i int) {
		t.Helper()
		if _, err := db.Put(fmt.Sprintf("fresh-%d", i), []byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	run(state)
	count("30")
	found, err := filepath.Glob(filepath.Join(state, "shop-*", "keys"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	edit(1)
	if errs := run(state); strings.Contains(errs, "key cache") {
		t.Errorf("a cache that stood before the commit was built or caught up: %s", errs)
	}
	count("31")
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	edit(2)
	if errs := run(state); !strings.Contains(errs, "key cache built") {
		t.Errorf("a cache that is gone was not built: %s", errs)
	}
	count("32")
	edit(3)
	off := t.TempDir()
	t.Chdir(off)
	if errs := run("off"); strings.Contains(errs, "key cache") {
		t.Errorf("turned off: %s", errs)
	}
	if left, err := os.ReadDir(off); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	edit(4)
	if errs := run(state); !strings.Contains(errs, "key cache caught up") {
		t.Errorf("a cache that missed a commit was not caught up: %s", errs)
	}
	count("34")
	// The whole feed again: nothing is newer than what is known.
	code, out, errs := call(t, "run", "--replay", "--since", "0", "--source", url, "--table", dir, "--index", kind, "--state-dir", state)
	if code != 0 || !strings.Contains(errs, `"replayed":34`) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// want1 is want without words.
func want1(t *testing.T, args ...string) string {
	t.Helper()
	return want(t, 0, nil, args...)
}

// TestNoStateDir: a folder that was named must be there to have, the default need
// not.
func TestNoStateDir(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 3)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, 1, []string{"key cache", "--state-dir off"}, "run", "--once", "--source", url, "--table", filepath.Join(t.TempDir(), "a"), "--state-dir", file)
	t.Setenv("XDG_CACHE_HOME", file)
	want(t, 0, []string{"no key cache"}, "run", "--once", "--source", url, "--table", filepath.Join(t.TempDir(), "b"))
}
