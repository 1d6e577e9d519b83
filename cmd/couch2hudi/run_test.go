package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// call runs one command line in the process.
func call(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return callCtx(context.Background(), args...)
}

func callCtx(ctx context.Context, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = execute(ctx, streams{out: &o, err: &e}, args)
	return code, o.String(), e.String()
}

// want fails unless a command ended with a code and said all of the words.
func want(t *testing.T, code int, words []string, args ...string) string {
	t.Helper()
	got, out, errs := call(t, args...)
	if got != code {
		t.Fatalf("couch2hudi %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, errs)
	}
	for _, w := range words {
		if !strings.Contains(errs+out, w) {
			t.Fatalf("couch2hudi %s: no %q in\n%s%s", strings.Join(args, " "), w, out, errs)
		}
	}
	if strings.Contains(errs+out, "s3cret") {
		t.Fatalf("a password was printed: %s", errs+out)
	}
	return out
}

// shop is a server with one database of n documents.
func shop(t *testing.T, o couchfake.Options, n int) (*couchfake.Server, *couchfake.Database, string) {
	t.Helper()
	s, err := couchfake.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db, err := s.Create("shop")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := db.Put(fmt.Sprintf("d%03d", i), fmt.Appendf(nil, `{"n":%d,"at":"2024-01-0%dT00:00:00Z"}`, i, 1+i%3)); err != nil {
			t.Fatal(err)
		}
	}
	return s, db, s.URL() + "/shop"
}

func TestRunOnceQueryTimeline(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 30)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", url, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd"}
	want(t, 0, []string{"committed", "last_seq"}, run...)
	if _, err := db.Delete("d003"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Put("d004", []byte(`{"n":400,"at":"2024-01-09T00:00:00Z","new":true}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run...)
	if out := want(t, 0, nil, "query", "--table", dir, "--count"); out != "29\n" {
		t.Fatalf("count: %q", out)
	}
	if out := want(t, 0, nil, "query", "--table", "file://"+dir, "--count", "--include-deleted"); out != "30\n" {
		t.Fatalf("count with tombstones: %q", out)
	}
	lines := strings.Split(strings.TrimSpace(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl")), "\n")
	if len(lines) != 2 {
		t.Fatalf("timeline: %s", lines)
	}
	var first, second instantLine
	for i, to := range []*instantLine{&first, &second} {
		if err := json.Unmarshal([]byte(lines[i]), to); err != nil {
			t.Fatal(err)
		}
	}
	if first.Inserts != 30 || second.LastSeq == "" || second.State != "COMPLETED" || second.Action != "deltacommit" {
		t.Fatalf("timeline: %s", lines)
	}
	out := want(t, 0, nil, "query", "--table", dir, "--since", first.Instant, "--columns", "_id,n,_op,new")
	for _, w := range []string{`"_id":"d003"`, `"_op":"d"`, `"_id":"d004"`, `"n":400`, `"new":true`, `"_hoodie_commit_time":"` + second.Instant + `"`} {
		if !strings.Contains(out, w) {
			t.Fatalf("incremental rows lack %s:\n%s", w, out)
		}
	}
	if strings.Count(out, "\n") != 2 {
		t.Fatalf("incremental: want 2 rows:\n%s", out)
	}
	// Each listing of the timeline looks into what stays here.
	if left, err := os.ReadDir(filepath.Join(dir, ".hoodie", ".temp")); err != nil || len(left) > 0 {
		t.Errorf("folders of markers stay: %v, %v", left, err)
	}
	want(t, 0, []string{"(29 rows)", "d004"}, "query", "--table", dir, "--format", "table")
	want(t, 0, []string{"INSTANT", "COMPLETED"}, "timeline", "--table", dir, "--format", "table")
}

func TestBadInput(t *testing.T) {
	s, _, url := shop(t, couchfake.Options{Admins: map[string]string{"admin": "s3cret"}}, 5)
	good := strings.Replace(url, "http://", "http://admin:s3cret@", 1)
	_ = s
	dir := t.TempDir()
	fresh := func() string { return filepath.Join(dir, strconv.FormatInt(time.Now().UnixNano(), 10)) }
	want(t, exitUsage, []string{"--since"}, "run", "--once", "--source", good, "--table", fresh(), "--since", "garbage")
	want(t, exitFailed, []string{"credentials", "shop"}, "run", "--once", "--source", strings.Replace(url, "http://", "http://admin:s3cretwrong@", 1), "--table", fresh())
	want(t, exitFailed, []string{"nowhere"}, "run", "--once", "--source", strings.TrimSuffix(good, "shop")+"nowhere", "--table", fresh())
	want(t, exitUsage, []string{"--help"}, "run", "--nonsense")
	want(t, exitUsage, nil, "run", "--once", "--table", fresh())
	want(t, exitUsage, nil, "nonsense")
	want(t, exitUsage, nil, "run", "--once", "--source", good, "--table", fresh(), "--deletes", "softly")
	want(t, exitUsage, []string{"--until"}, "query", "--table", fresh(), "--until", "2024")
	want(t, exitFailed, []string{"no table"}, "query", "--table", fresh())
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("source:\n  url: "+good+"\ntable:\n  url: "+fresh()+"\n  colour: red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitUsage, []string{"colour"}, "run", "-c", file, "--once")
}

// A failed start leaves no table behind, a table that is none of ours is not
// touched.
func TestRowTooLarge(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 3)
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	text := fmt.Sprintf("source: {url: %q, max_row_bytes: 64KiB}\ntable: {url: %q}\n", url, filepath.Join(dir, "table"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Put("d009", fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 70_000))); err != nil {
		t.Fatal(err)
	}
	want(t, exitFailed, []string{`document "d009" takes more than 65536 bytes`, url, "raise source.max_row_bytes"}, "run", "--once", "-c", file)
	if err := os.WriteFile(file, []byte(strings.Replace(text, "64KiB", "128KiB", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitDone, nil, "run", "--once", "-c", file)
	if out := want(t, exitDone, nil, "query", "--table", filepath.Join(dir, "table"), "--count"); out != "4\n" {
		t.Errorf("%s rows", out)
	}
}

func TestRefusedTables(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 5)
	dir := filepath.Join(t.TempDir(), "table")
	want(t, 0, nil, "run", "--once", "--source", url, "--table", dir)
	props := filepath.Join(dir, ".hoodie", "hoodie.properties")
	text, err := os.ReadFile(props)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, word string }{
		{"hoodie.table.version=6", "hoodie.table.version=5", "version"},
		{"hoodie.table.type=MERGE_ON_READ", "hoodie.table.type=COPY_ON_WRITE", "COPY_ON_WRITE"},
		{string(text), "\x00garbage", "hoodie.properties"},
	} {
		if err := os.WriteFile(props, bytes.Replace(text, []byte(c.from), []byte(c.to), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		want(t, exitFailed, []string{c.word}, "run", "--once", "--source", url, "--table", dir)
		if err := os.WriteFile(props, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want(t, exitUsage, []string{"pins"}, "run", "--once", "--source", url, "--table", dir, "--partition-field", "n")
	want(t, 0, nil, "run", "--once", "--source", url, "--table", dir)
}

// Following: a change appears without a restart; a second writer is refused;
// being stopped is exit 0.
func TestFollowAndStop(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 5)
	dir := filepath.Join(t.TempDir(), "table")
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int)
	go func() {
		c, _, _ := callCtx(ctx, "run", "--source", url, "--table", dir, "--commit-interval", "200ms")
		code <- c
	}()
	waitFor(t, "the first commit", func() bool { c, out, _ := call(t, "query", "--table", dir, "--count"); return c == 0 && out == "5\n" })
	want(t, exitHeld, []string{"another writer"}, "run", "--once", "--source", url, "--table", dir)
	if _, err := db.Put("later", []byte(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the change", func() bool { c, out, _ := call(t, "query", "--table", dir, "--count"); return c == 0 && out == "6\n" })
	cancel()
	if c := <-code; c != 0 {
		t.Fatalf("stopped with exit %d", c)
	}
}

// With --wait a second writer stands by, says once whose turn it is, can be
// stopped, and goes on where the first one ended.
func TestWaitForTheTable(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 5)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--source", url, "--table", dir, "--commit-interval", "100ms"}
	type ended struct {
		code int
		errs string
	}
	start := func(args ...string) (stop func(), end <-chan ended) {
		ctx, cancel := context.WithCancel(context.Background())
		c := make(chan ended, 1)
		go func() {
			code, _, errs := callCtx(ctx, args...)
			c <- ended{code, errs}
		}()
		return cancel, c
	}
	count := func(n string) func() bool {
		return func() bool { c, out, _ := call(t, "query", "--table", dir, "--count"); return c == 0 && out == n }
	}
	stopFirst, first := start(run...)
	waitFor(t, "the first commit", count("5\n"))
	stopIdle, idle := start(append(run, "--wait")...)
	_, standby := start(append(run, "--wait", "--once")...)
	time.Sleep(3 * leaseAskedEvery) // long enough to ask more than once
	stopIdle()
	if e := <-idle; e.code != 0 || strings.Count(e.errs, "waiting for the table") != 1 || !strings.Contains(e.errs, "held by pid") {
		t.Fatalf("stopped while waiting: exit %d\n%s", e.code, e.errs)
	}
	if _, err := db.Put("later", []byte(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the change", count("6\n"))
	stopFirst()
	if e := <-first; e.code != 0 {
		t.Fatalf("the first ended with %d\n%s", e.code, e.errs)
	}
	if e := <-standby; e.code != 0 || strings.Contains(e.errs, `"replayed":1`) || strings.Contains(e.errs, `"inserts":1`) {
		t.Fatalf("the second did the first one's work again, or ended with %d\n%s", e.code, e.errs)
	}
	if !count("6\n")() {
		t.Fatal("the table is not what the first left")
	}
}

// Stopped before the first answer of the source: exit 0 all the same.
func TestStoppedWhileStarting(t *testing.T) {
	s, _, url := shop(t, couchfake.Options{}, 5)
	s.Control(couchfake.Match{}, couchfake.Spoil{Stall: time.Hour}, -1)
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int)
	go func() {
		c, _, _ := callCtx(ctx, "run", "--source", url, "--table", filepath.Join(t.TempDir(), "table"))
		code <- c
	}()
	time.Sleep(100 * time.Millisecond)
	cancel()
	if c := <-code; c != 0 {
		t.Fatalf("stopped with exit %d", c)
	}
}

// waitFor polls until something is so, for as long as a slow machine may take.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s never came", what)
}

func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	out := want(t, 0, []string{"Documents in the table now", "order-00000", "Try next"}, "demo", "--table", dir, "--docs", "300")
	if !strings.Contains(out, "COMPLETED") {
		t.Fatalf("no timeline:\n%s", out)
	}
	want(t, 0, nil, "demo", "--table", dir, "--docs", "300")
	other := t.TempDir()
	want(t, exitFailed, []string{"not made by the demo"}, "demo", "--table", other)
}

func TestVersion(t *testing.T) {
	want(t, 0, []string{"couch2hudi", "table version 6"}, "version")
}

func TestParseInstant(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, c := range []struct {
		in   string
		pad  bound
		want string
	}{
		{"20240101", padDown, "20240101000000000"},
		{"20240101", padUp, "20240101999999999"},
		{"20240101020304005", padUp, "20240101020304005"},
		{"earliest", padDown, "00000000000000000"},
		{"-15m", padDown, "20260102024905006"},
		{"2024-01-01T02:00:00+02:00", padDown, "20240101000000000"},
	} {
		got, err := parseInstant(c.in, c.pad, now)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "x", "123", "202401010203040056", "-15", "2024-01-01"} {
		if got, err := parseInstant(bad, padDown, now); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
}

// Rows of the past come in the schema of their time, though the table has grown
// since.
func TestUntilBeforeNewColumns(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 3)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", url, "--table", dir}
	want(t, 0, nil, run...)
	var first instantLine
	if err := json.Unmarshal([]byte(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl")), &first); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Put("d000", []byte(`{"n":1,"later":"column"}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run...)
	if out := want(t, 0, nil, "query", "--table", dir, "--since", "earliest", "--until", first.Instant); strings.Count(out, "\n") != 3 || strings.Contains(out, "later") {
		t.Fatalf("until the first commit:\n%s", out)
	}
	if out := want(t, 0, nil, "query", "--table", dir, "--since", "earliest", "--until", "2001"); out != "" {
		t.Fatalf("before the first commit:\n%s", out)
	}
}
