package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// usersInOne is users, all of whose databases go into one table.
func usersInOne(t *testing.T, n int, more string) (s *couchfake.Server, file, table string) {
	t.Helper()
	s, file, dir := users(t, n, ", into: one"+more)
	table = filepath.Join(dir, "all")
	return s, rewrite(t, file, dir+"/{db}", table), table
}

// rowsIn counts the table's live rows of a database.
func rowsIn(t *testing.T, table, db string) int {
	t.Helper()
	code, out, _ := call(t, "query", "--table", table, "--count", "--where", "_db = '"+db+"'")
	n := -1
	if code == exitDone {
		_, _ = fmt.Sscan(out, &n)
	}
	return n
}

func TestOneTableOnce(t *testing.T) {
	s, file, table := usersInOne(t, 5, "")
	user(t, s, "user-a/b", 2) // its documents' keys would be those of user-a
	user(t, s, "user-a", 0)
	db, _ := s.Database("user-a")
	if _, err := db.Put("b/d0", []byte(`{"n":5}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{`"databases":7`, `"inserts":28`}, "run", "-c", file, "--once")
	for i := range 5 {
		if n := rowsIn(t, table, fmt.Sprint("user-", i)); n != 3+i {
			t.Errorf("user-%d has %d rows", i, n)
		}
	}
	if n := rowsIn(t, table, "other"); n != 0 {
		t.Errorf("a database that nobody named has %d rows", n)
	}
	want(t, 0, []string{`"_key":"user-a%2Fb/d0"`, `"_db":"user-a/b"`, `"_id":"d0"`}, "query", "--table", table, "--where", "_key = 'user-a%2Fb/d0'")
	want(t, 0, []string{`"_db":"user-3"`, `"_db":"user-a/b"`, `"_id":"d1"`}, "query", "--table", table, "--where", "_id = 'd1'")
	want(t, 0, []string{"_key", "the record key", "_db"}, "schema", "--table", table)
	want(t, 0, nil, "compact", "-c", file)
	if _, err := s.Recreate("user-2"); err != nil {
		t.Fatal(err)
	}
	want(t, exitRecreated, []string{"database user-2"}, "run", "-c", file, "--once")
	want(t, 0, nil, "run", "-c", file, "--once", "--accept-recreated")
	for db, rows := range map[string]int{"user-2": 0, "user-1": 4, "user-a": 1} {
		if n := rowsIn(t, table, db); n != rows {
			t.Errorf("%s has %d rows, want %d", db, n, rows)
		}
	}
	want(t, 0, nil, "run", "-c", file, "--replay")
	if n := rowsIn(t, table, "user-1"); n != 4 {
		t.Errorf("user-1 has %d rows after a backfill", n)
	}
	// A table of one database is none of many, and the other way round.
	want(t, exitUsage, []string{"the key column is _key", "source.into: one"}, "run", "--source", s.URL()+"/user-1", "--table", table, "--once")
	single := table + "-single"
	want(t, 0, nil, "run", "--source", s.URL()+"/user-1", "--table", single, "--once", "--state-dir", "off")
	want(t, exitUsage, []string{"the key column is _id", "another table"}, "run", "-c", rewrite(t, file, table, single), "--once")
}

// TestOneTable follows databases that change, come and go, into one table.
func TestOneTable(t *testing.T) {
	for _, gone := range []string{"keep", "delete"} {
		t.Run(gone, func(t *testing.T) {
			s, file, table := usersInOne(t, 4, ", deleted: "+gone)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var log watched
			done := make(chan int)
			go func() { done <- execute(ctx, streams{out: &log, err: &log}, []string{"run", "-c", file}) }()
			await := func(name string, rows int) {
				t.Helper()
				awaitRows(t, &log, name, rows, func() int { return rowsIn(t, table, name) })
			}
			for i := range 4 {
				await(fmt.Sprint("user-", i), 3+i)
			}
			db, _ := s.Database("user-1")
			if _, err := db.Put("new", []byte(`{"n":1}`)); err != nil {
				t.Fatal(err)
			}
			await("user-1", 5)
			if _, err := db.Delete("d0"); err != nil {
				t.Fatal(err)
			}
			await("user-1", 4)
			await("user-2", 5) // whose d0 is another one
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
				log.await(t, "its rows stay in the table")
				await("user-3", 6)
			}
			await("user-0", 3)
			cancel()
			if code := <-done; code != exitDone {
				t.Errorf("exit %d\n%s", code, log.String())
			}
		})
	}
}

// rewrite writes a config with another text in the place of one.
func rewrite(t *testing.T, file, old, with string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte(strings.Replace(string(text), old, with, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return other
}

// TestOneTableVerify: verify and its repairs, check and schema look at all databases.
func TestOneTableVerify(t *testing.T) {
	s, file, table := usersInOne(t, 3, "")
	user(t, s, "user-0/d", 2)
	late := rewrite(t, file, ", into: one", ", into: one, since: now")
	want(t, 0, []string{"user-2: ", "4 databases", "no table yet"}, "check", "-c", file)
	want(t, 0, []string{"_key", "_db", "long"}, "schema", "-c", file)
	want(t, 0, nil, "run", "-c", late, "--once") // what was there before is not in the table
	if n := rowsIn(t, table, "user-1"); n > 0 {
		t.Fatalf("user-1 has %d rows", n)
	}
	verify := []string{"verify", "-c", file, "--pause", "0"}
	want(t, exitDiffers, []string{"databases", "missing", "14", `"user-0%2Fd/d0"`, `"user-2/d4"`}, verify...)
	want(t, 0, []string{"repaired", "14"}, append(verify[:len(verify):len(verify)], "--repair")...)
	want(t, 0, []string{"equal", "14"}, verify...)
	for db, rows := range map[string]int{"user-0": 3, "user-0/d": 2, "user-1": 4, "user-2": 5} {
		if n := rowsIn(t, table, db); n != rows {
			t.Errorf("%s has %d rows, want %d", db, n, rows)
		}
	}
	// What a database has lost is the table's no more, and only there.
	db, _ := s.Database("user-2")
	if _, err := db.Put("d0", []byte(`{"n":7}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{"moving"}, verify...)
	want(t, 0, nil, "run", "-c", file, "--once")
	want(t, 0, []string{"equal", "14"}, verify...)
	want(t, 0, []string{"user-1: ", "goes on from commit", "table.pinned"}, "check", "-c", file)
	want(t, exitUsage, []string{"_key"}, "verify", "--source", s.URL()+"/user-1", "--table", table)
	want(t, 0, []string{"nothing in quarantine"}, "replay-quarantine", "-c", file)
	if err := s.Drop("user-1"); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{"equal", "10"}, verify...)
}

// BenchmarkDatabases reads databases of 20 documents each into one table, and into a
// table each, and reads them again without anything new.
func BenchmarkDatabases(b *testing.B) {
	for _, into := range []string{"one", "each"} {
		for _, n := range []int{200, 300} {
			b.Run(fmt.Sprintf("into=%s/databases=%d", into, n), func(b *testing.B) {
				s, err := couchfake.Start(couchfake.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				for i := range n {
					db, err := s.Create(fmt.Sprintf("user-%04d", i))
					for d := 0; d < 20 && err == nil; d++ {
						_, err = db.Put(fmt.Sprint("d", d), fmt.Appendf(nil, `{"n":%d}`, d))
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					dir := b.TempDir()
					table := map[string]string{"one": dir + "/all", "each": dir + "/{db}"}[into]
					file := filepath.Join(dir, "c.yaml")
					text := fmt.Sprintf("source: {url: %q, databases: [\"user-*\"], into: %s}\nstate_dir: off\ntable: {url: %q}\n", s.URL(), into, table)
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						b.Fatal(err)
					}
					var log watched
					for range 2 {
						if code := execute(b.Context(), streams{out: &log, err: &log}, []string{"run", "-c", file, "--once"}); code != exitDone {
							b.Fatal(log.String())
						}
					}
					b.ReportMetric(float64(strings.Count(log.String(), `"committed"`)), "commits/op")
				}
			})
		}
	}
}

// With a key cache, a filter and a mask: equal ids of several databases stay apart in
// all of them, over a further start.
func TestOneTableCached(t *testing.T) {
	s, file, table := usersInOne(t, 3, `, filter: "n < 3"`)
	file = rewrite(t, file, "state_dir: off", "state_dir: "+filepath.Join(t.TempDir(), "state")+"\ncolumns: {declare: [{name: secret, type: string, mask: redact}]}")
	put := func(db, id, body string) {
		t.Helper()
		d, ok := s.Database(db)
		if !ok {
			t.Fatalf("no database %s", db)
		}
		if _, err := d.Put(id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(rows ...int) {
		t.Helper()
		for i, n := range rows {
			if got := rowsIn(t, table, fmt.Sprint("user-", i)); got != n {
				t.Errorf("user-%d has %d rows, want %d", i, got, n)
			}
		}
	}
	for range 2 { // the second finds its cache
		want(t, 0, nil, "run", "-c", file, "--once")
		expect(3, 3, 3)
	}
	put("user-0", "d1", `{"n":7}`) // leaves
	put("user-1", "d1", `{"n":1,"secret":"told"}`)
	put("user-2", "d3", `{"n":0}`) // comes
	d, _ := s.Database("user-2")
	if _, err := d.Delete("d0"); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, "run", "-c", file, "--once")
	expect(2, 3, 3)
	code, out, errs := call(t, "query", "--table", table, "--where", "_id = 'd1'", "--columns", "_key,n,secret,_doc")
	if code != exitDone || strings.Contains(out, "told") || strings.Contains(out, "user-0/d1") || !strings.Contains(out, "user-1/d1") || !strings.Contains(out, "user-2/d1") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	want(t, 0, []string{`"_key":"user-2/d3"`, `"_key":"user-2/d0"`, `"_key":"user-1/d1"`, `"_key":"user-0/d1"`}, "query", "--table", table, "--since", "-1h", "--changes")
	want(t, 0, nil, "verify", "-c", file)
}
