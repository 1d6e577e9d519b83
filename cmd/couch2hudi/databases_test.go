package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// users is a server with a database a user, and a config for them.
func users(t *testing.T, n int, more string) (s *couchfake.Server, file, dir string) {
	t.Helper()
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for i := range n {
		user(t, s, fmt.Sprint("user-", i), 3+i)
	}
	user(t, s, "other", 3)
	dir = t.TempDir()
	file = filepath.Join(dir, "c.yaml")
	text := "source: {url: \"" + s.URL() + "\", databases: [\"user-*\"], max_connections: 2" + more + "}\ncommit: {interval: 100ms}\nstate_dir: off\n" +
		"table: {url: \"" + dir + "/{db}\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, file, dir
}

func user(t *testing.T, s *couchfake.Server, name string, docs int) {
	t.Helper()
	db, err := s.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range docs {
		if _, err := db.Put(fmt.Sprint("d", i), fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitRows waits until a table or a database in one has so many rows.
func awaitRows(t *testing.T, log *watched, name string, want int, rows func() int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); rows() != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s has %d rows, want %d\n%s", name, rows(), want, log.String())
		}
	}
}

// tableRows is how many rows a table has, -1 when there is none.
func tableRows(t *testing.T, dir, name string) int {
	t.Helper()
	code, out, _ := call(t, "query", "--table", filepath.Join(dir, name), "--count")
	n := -1
	if code == exitDone {
		_, _ = fmt.Sscan(out, &n)
	}
	return n
}

func TestRunDatabasesOnce(t *testing.T) {
	s, file, dir := users(t, 5, "")
	want(t, 0, []string{`"database":"user-3"`, `"databases":5`}, "run", "-c", file, "--once")
	for i := range 5 {
		if n := tableRows(t, dir, fmt.Sprint("user-", i)); n != 3+i {
			t.Errorf("user-%d has %d rows", i, n)
		}
	}
	if n := tableRows(t, dir, "other"); n != -1 {
		t.Errorf("a database that nobody named has %d rows", n)
	}
	want(t, 0, []string{"user-2: ", "5 databases"}, "check", "-c", file)
	want(t, 0, nil, "compact", "-c", file, "--table", "user-1")
	want(t, exitUsage, []string{"--table"}, "compact", "-c", file)
	if _, err := s.Recreate("user-2"); err != nil {
		t.Fatal(err)
	}
	want(t, exitRecreated, []string{"database user-2"}, "run", "-c", file, "--once")
	want(t, 0, nil, "run", "-c", file, "--once", "--accept-recreated")
	if n := tableRows(t, dir, "user-2"); n != 0 {
		t.Errorf("user-2 has %d rows after it was made again", n)
	}
}

// TestRunDatabases follows databases that change, come and go.
func TestRunDatabases(t *testing.T) {
	for _, gone := range []string{"keep", "delete"} {
		t.Run(gone, func(t *testing.T) {
			s, file, dir := users(t, 4, ", deleted: "+gone)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var log watched
			done := make(chan int)
			go func() { done <- execute(ctx, streams{out: &log, err: &log}, []string{"run", "-c", file}) }()
			await := func(name string, rows int) {
				t.Helper()
				awaitRows(t, &log, name, rows, func() int { return tableRows(t, dir, name) })
			}
			for i := range 4 {
				await(fmt.Sprint("user-", i), 3+i)
			}
			db, _ := s.Database("user-1")
			if _, err := db.Put("new", []byte(`{"n":1}`)); err != nil {
				t.Fatal(err)
			}
			await("user-1", 5)
			user(t, s, "user-new", 7)
			await("user-new", 7)
			if err := s.Drop("user-3"); err != nil {
				t.Fatal(err)
			}
			if gone == "delete" {
				await("user-3", 0)
				user(t, s, "user-3", 2)
				await("user-3", 2)
			} else {
				log.await(t, "its table stays as it is")
				await("user-3", 6)
			}
			cancel()
			if code := <-done; code != exitDone {
				t.Errorf("exit %d\n%s", code, log.String())
			}
		})
	}
}

// watched is a log that can be waited for.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *watched) await(t *testing.T, words string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(w.String(), words); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q in\n%s", words, w.String())
		}
	}
}

// TestRunDatabasesUntold: a server that does not tell what changed is asked again and
// again.
func TestRunDatabasesUntold(t *testing.T) {
	s, file, dir := users(t, 2, "")
	s.Control(couchfake.Match{Endpoint: couchfake.DBUpdates}, couchfake.Spoil{Status: 404}, -1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log watched
	done := make(chan int)
	go func() { done <- execute(ctx, streams{out: &log, err: &log}, []string{"run", "-c", file}) }()
	log.await(t, "every one is asked at each interval")
	user(t, s, "user-late", 4)
	for deadline := time.Now().Add(2 * time.Minute); tableRows(t, dir, "user-late") != 4; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not followed:\n%s", log.String())
		}
	}
	cancel()
	if code := <-done; code != exitDone {
		t.Errorf("exit %d\n%s", code, log.String())
	}
}

// TestRunDatabasesLostUpdates: what changed while the server did not tell is found
// when it tells again.
func TestRunDatabasesLostUpdates(t *testing.T) {
	s, file, dir := users(t, 2, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log watched
	done := make(chan int)
	go func() { done <- execute(ctx, streams{out: &log, err: &log}, []string{"run", "-c", file}) }()
	log.await(t, `"database":"user-1"`)
	broken := s.Control(couchfake.Match{Endpoint: couchfake.DBUpdates}, couchfake.Spoil{Status: 400}, -1)
	user(t, s, "user-unheard", 4) // it wakes the request that waits; the next fails
	user(t, s, "user-lost", 5)
	for _, name := range []string{"user-unheard", "user-lost"} {
		for deadline := time.Now().Add(2 * time.Minute); tableRows(t, dir, name) < 4; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not followed:\n%s", name, log.String())
			}
		}
	}
	broken.Cancel()
	cancel()
	if code := <-done; code != exitDone {
		t.Errorf("exit %d\n%s", code, log.String())
	}
}
