package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/table"
)

// findings runs check and returns its lines by status and check.
func findings(t *testing.T, code int, args ...string) map[string][]finding {
	t.Helper()
	out := want(t, code, nil, append([]string{"check", "--format", "jsonl"}, args...)...)
	all := map[string][]finding{}
	for _, raw := range jsonLines(out) {
		var f finding
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		if strings.Contains(f.Message+f.Next, "\n") || f.Message == "" {
			t.Fatalf("no single line: %+v", f)
		}
		key := f.Status + " " + f.Check
		all[key] = append(all[key], f)
	}
	return all
}

// has fails unless one of the findings of a kind says a word, and the next step
// too when it is no ok.
func has(t *testing.T, all map[string][]finding, key, word string) {
	t.Helper()
	for _, f := range all[key] {
		if strings.Contains(f.Message+" → "+f.Next, word) {
			if f.Status != statusOK && f.Next == "" {
				t.Errorf("%s says no next step: %s", key, f.Message)
			}
			return
		}
	}
	t.Errorf("no %q with %q among %+v", key, word, all)
}

// hasNot fails if there is a finding of a kind.
func hasNot(t *testing.T, all map[string][]finding, prefix string) {
	t.Helper()
	for key, list := range all {
		if strings.HasPrefix(key, prefix) {
			t.Errorf("unexpected: %+v", list)
		}
	}
}

// state is every file of a folder with its content and time.
func state(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %s %x\n", path, info.ModTime(), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A healthy pair, before and after the first run: no failure, nothing written,
// and the same words as text.
func TestCheckHealthy(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 8)
	parent := t.TempDir()
	dir := filepath.Join(parent, "table")
	flags := []string{"--source", url, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd"}
	before := findings(t, 0, flags...)
	has(t, before, "ok table", "run creates it")
	has(t, before, "ok resume", "begins at 0")
	has(t, before, "ok source", `"shop"`)
	has(t, before, "ok source.version", "3.5")
	has(t, before, "ok source.read", "about 8")
	if left := state(t, parent); left != "" {
		t.Fatalf("check wrote %s", left)
	}
	want(t, 0, nil, append([]string{"run", "--once"}, flags...)...)
	if _, err := db.Put("new", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	written := state(t, dir)
	after := findings(t, 0, flags...)
	if state(t, dir) != written {
		t.Fatal("check changed the table")
	}
	for key, word := range map[string]string{
		"ok table": "version 6", "ok table.metadata": "", "ok table.timezone": "UTC", "ok table.lease": "no other",
		"ok table.timeline": "nothing left", "ok table.reach": "from the beginning", "ok table.pinned": "", "ok table.columns": "", "ok resume": "goes on from",
		"ok source.read": "about 1", "ok source.leaves": "leaf", "ok table.files": "3 partitions", "ok table.logs": "",
		"ok table.times": "", "ok table.base": "key filters", "ok reader": "Spark 3.5", "warn reader": "Trino", "ok config": "",
	} {
		has(t, after, key, word)
	}
	hasNot(t, after, "FAIL")
	hasNot(t, after, "warn table")
	hasNot(t, after, "warn source")
	want(t, 0, []string{"ok    config", "warn  reader", "→", "0 FAIL"}, append([]string{"check"}, flags...)...)
	want(t, 0, []string{"nothing new"}, append([]string{"check", "--since", "now", "--source", url, "--table"}, filepath.Join(parent, "other"))...)
}

// What run would end with is what check ends with.
func TestCheckConfig(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{Admins: map[string]string{"admin": "s3cret"}}, 2)
	good := strings.Replace(url, "http://", "http://admin:s3cret@", 1)
	dir := t.TempDir()
	fresh := filepath.Join(dir, "fresh")
	both := findings(t, exitUsage, "--table", "", "--deletes", "softly")
	has(t, both, "FAIL config", "source.url")
	has(t, both, "FAIL config", "table.url")
	has(t, both, "FAIL config", "softly")
	has(t, findings(t, exitUsage, "--source", good, "--table", fresh, "--partition-field", "at", "--partition-format", "yyyy/MM"), "FAIL config", "slash")
	has(t, findings(t, exitUsage, "--source", good, "--table", fresh, "--since", "garbage"), "FAIL source.read", "--since takes")
	wrong := findings(t, exitFailed, "--source", strings.Replace(url, "http://", "http://admin:s3cretwrong@", 1), "--table", fresh)
	has(t, wrong, "FAIL source", "credentials")
	has(t, wrong, "warn config.password", "${COUCHDB_PASSWORD}")
	has(t, findings(t, exitFailed, "--source", strings.TrimSuffix(good, "shop")+"nowhere", "--table", fresh), "FAIL source", "nowhere")
	file := filepath.Join(dir, "c.yaml")
	t.Setenv("SHOP_PASSWORD", "s3cret")
	text := "source:\n  url: " + strings.Replace(url, "http://", "http://admin:${SHOP_PASSWORD}@", 1) + "\ntable:\n  url: " + fresh + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile := findings(t, 0, "-c", file)
	has(t, fromFile, "ok source", "shop")
	hasNot(t, fromFile, "warn config")
	if err := os.WriteFile(file, []byte(text+"  colour: red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, findings(t, exitUsage, "-c", file), "FAIL config", "colour")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "SHOP_PASSWORD", "SHOP_PASSWORD_NOT_SET")), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, findings(t, exitUsage, "-c", file), "FAIL config", "SHOP_PASSWORD_NOT_SET")
	want(t, exitUsage, []string{"--format"}, "check", "--format", "xml")
	want(t, exitUsage, []string{"reasons"}, "check")
	if left := state(t, fresh); left != "" {
		t.Fatalf("check wrote %s", left)
	}
}

// A user who may not read the changes, and a server that is not there.
func TestCheckSource(t *testing.T) {
	s, db, url := shop(t, couchfake.Options{Admins: map[string]string{"admin": "s3cret"}, Users: map[string]string{"bob": "s3cretbob"}}, 2)
	db.SetMembers("alice")
	dir := filepath.Join(t.TempDir(), "table")
	bob := strings.Replace(url, "http://", "http://bob:s3cretbob@", 1)
	has(t, findings(t, exitFailed, "--source", bob, "--table", dir), "FAIL source", "member")
	admin := strings.Replace(url, "http://", "http://admin:s3cret@", 1)
	s.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{Status: 403}, -1)
	has(t, findings(t, exitFailed, "--source", admin, "--table", dir), "FAIL source.read", "member")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	has(t, findings(t, exitFailed, "--source", admin, "--table", dir, "--timeout", "300ms"), "FAIL source", "server is up")
}

// A proxy that shows no version, an old server, one that moves elsewhere.
func TestCheckVersion(t *testing.T) {
	s, _, url := shop(t, couchfake.Options{}, 1)
	dir := filepath.Join(t.TempDir(), "table")
	for _, status := range []int{404, 302, 500} {
		order := s.Control(couchfake.Match{Endpoint: couchfake.Welcome}, couchfake.Spoil{Status: status}, 1)
		has(t, findings(t, 0, "--source", url, "--table", dir), "ok source.version", "not known")
		order.Cancel()
	}
	s.Control(couchfake.Match{Endpoint: couchfake.Welcome}, couchfake.Spoil{Cut: true}, 1)
	has(t, findings(t, 0, "--source", url, "--table", dir), "ok source.version", "not known")
}

// The checkpoint of another incarnation, other pins, and a table of somebody
// else.
func TestCheckResume(t *testing.T) {
	s, _, url := shop(t, couchfake.Options{}, 3)
	dir := filepath.Join(t.TempDir(), "table")
	flags := []string{"--source", url, "--table", dir}
	want(t, 0, nil, append([]string{"run", "--once"}, flags...)...)
	has(t, findings(t, exitUsage, append(flags, "--partition-field", "n")...), "FAIL table.pinned", "use the table's settings")
	has(t, findings(t, 0, append(flags, "--table-name", "other")...), "warn table.name", "shop")
	if _, err := s.Create("second"); err != nil {
		t.Fatal(err)
	}
	has(t, findings(t, 0, "--source", strings.TrimSuffix(url, "shop")+"second", "--table", dir), "warn resume", "no checkpoint")
	// A server that is not there hides nothing of the table.
	down := findings(t, exitFailed, "--source", "http://127.0.0.1:1/shop", "--table", dir, "--timeout", "200ms")
	has(t, down, "FAIL source", "server is up")
	has(t, down, "ok table.files", "file groups")
	has(t, down, "warn resume", "check again")
	if err := s.Drop("shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create("shop"); err != nil {
		t.Fatal(err)
	}
	recreated := findings(t, exitRecreated, flags...)
	has(t, recreated, "FAIL resume", "another table")
	golden, _ := goldenFolder(t, "w015-v6-bloom-nomdt")
	has(t, findings(t, exitFailed, "--source", url, "--table", golden), "FAIL table.columns", "a table of its own")
}

// Tables that run refuses, with what is there nevertheless.
func TestCheckRefusedTables(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 3)
	mdt, _ := goldenFolder(t, "w015-v6-bloom")
	got := findings(t, exitFailed, "--source", url, "--table", mdt)
	has(t, got, "FAIL table", "metadata table")
	has(t, got, "ok table.files", "file groups")
	has(t, got, "warn table.timezone", "local time")
	has(t, got, "warn table.composites", "tags")
	dir := filepath.Join(t.TempDir(), "table")
	want(t, 0, nil, "run", "--once", "--source", url, "--table", dir)
	props := filepath.Join(dir, ".hoodie", "hoodie.properties")
	text, err := os.ReadFile(props)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, word string }{
		{"hoodie.table.version=6", "hoodie.table.version=9", "version 9"},
		{"hoodie.table.type=MERGE_ON_READ", "hoodie.table.type=COPY_ON_WRITE", "COPY_ON_WRITE"},
		{string(text), "\x00garbage", "hoodie.properties"},
	} {
		if err := os.WriteFile(props, bytes.Replace(text, []byte(c.from), []byte(c.to), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		has(t, findings(t, exitFailed, "--source", url, "--table", dir), "FAIL table", c.word)
	}
	if err := os.WriteFile(props, text, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, findings(t, exitFailed, "--source", url, "--table", file), "FAIL table", "not a folder")
}

// TestCheckChangelog: a changelog costs a reader.
func TestCheckChangelog(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 3)
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("table: {changelog: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-c", file, "--source", url, "--table", filepath.Join(dir, "table")}
	want(t, 0, nil, append([]string{"run", "--once"}, flags...)...)
	has(t, findings(t, 0, flags...), "warn reader", "the table has a changelog")
}

// What dead writers leave, a writer that lives, pending services.
func TestCheckPending(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 3)
	dead, _ := goldenFolder(t, "w015-v6-failed-inflight")
	has(t, findings(t, exitFailed, "--source", url, "--table", dead), "warn table.pending", "rolls back")
	compacting, _ := goldenFolder(t, "w015-v6-compaction-pending")
	got := findings(t, exitFailed, "--source", url, "--table", compacting)
	has(t, got, "warn table.pending", "hudi-rs")
	has(t, got, "warn reader", "misreads")

	dir := filepath.Join(t.TempDir(), "table")
	flags := []string{"--source", url, "--table", dir}
	want(t, 0, nil, append([]string{"run", "--once"}, flags...)...)
	touch := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, ".hoodie", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	touch("29990101000000000.replacecommit.requested")
	has(t, findings(t, 0, flags...), "warn table.pending", "29990101000000000 replacecommit")
	touch(".heartbeat/29990101000000000") // empty, as another engine's is
	has(t, findings(t, exitHeld, flags...), "FAIL table.pending", "another engine writes")
	want(t, exitHeld, []string{"another engine writes"}, append([]string{"run", "--once"}, flags...)...)
	if err := os.Remove(filepath.Join(dir, ".hoodie", ".heartbeat", "29990101000000000")); err != nil {
		t.Fatal(err)
	}
	touch("29990101000000001.restore.inflight")
	has(t, findings(t, exitFailed, flags...), "FAIL table.pending", "began the restore")
	ours := filepath.Join(dir, ".hoodie", "couch2hudi", "restore")
	if err := errors.Join(os.MkdirAll(ours, 0o755), os.WriteFile(filepath.Join(ours, "29990101000000001.ours"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	has(t, findings(t, exitDone, flags...), "warn table.pending", "restore")
	if err := os.Remove(filepath.Join(dir, ".hoodie", "29990101000000001.restore.inflight")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".hoodie", "29990101000000000.replacecommit.requested"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, findings(t, exitFailed, flags...), "FAIL table.pending", "29990101000000000")
}

func TestCheckLease(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 3)
	dir := filepath.Join(t.TempDir(), "table")
	flags := []string{"--source", url, "--table", dir}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	code := make(chan int)
	go func() {
		c, _, _ := callCtx(ctx, append([]string{"run"}, flags...)...)
		code <- c
	}()
	waitFor(t, "the first commit", func() bool { c, out, _ := call(t, "query", "--table", dir, "--count"); return c == 0 && out == "3\n" })
	has(t, findings(t, exitHeld, flags...), "FAIL table.lease", fmt.Sprintf("pid %d", os.Getpid()))
	cancel()
	if c := <-code; c != 0 {
		t.Fatalf("run ended with %d: check disturbed it", c)
	}
	has(t, findings(t, 0, flags...), "ok table.lease", "no other")
	// Killed: its name is there, its lock is not.
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(table.LeaseName)), []byte("held by pid 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, findings(t, 0, flags...), "ok table.lease", "no other")
}

// Files: old times, many logs, hidden folders, groups without a base file,
// a damaged base file.
func TestCheckFiles(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 3)
	dir := filepath.Join(t.TempDir(), "table")
	flags := []string{"--source", url, "--table", dir}
	run := append([]string{"run", "--once", "--compaction", "off"}, flags...)
	want(t, 0, nil, run...)
	for i := range manyLogs + 1 {
		if _, err := db.Put("d001", fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
			t.Fatal(err)
		}
		want(t, 0, nil, run...)
	}
	first := firstInstant(t, dir)
	old := time.Now().Add(-3 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, ".hoodie", first+".deltacommit"), old, old); err != nil {
		t.Fatal(err)
	}
	got := findings(t, 0, flags...)
	has(t, got, "warn table.logs", fmt.Sprintf("up to %d log files", manyLogs+1))
	has(t, got, "warn table.logs", "couch2hudi compact")
	has(t, got, "warn table.times", first)
	has(t, got, "warn table.times", "rsync -a")
	bases, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil || len(bases) == 0 {
		t.Fatal(bases, err)
	}
	for _, b := range bases {
		if err := os.Truncate(b, 100); err != nil {
			t.Fatal(err)
		}
	}
	has(t, findings(t, exitFailed, flags...), "FAIL table.base", "restore the file")
}

func TestCensus(t *testing.T) {
	var n census
	n.add(&hudi.Slice{Location: hudi.Location{Partition: "p", File: "a"}, Base: hudi.File{Name: "a.parquet", Size: 10}, Logs: []hudi.File{{Size: 1}, {Size: 2}}})
	n.add(&hudi.Slice{Location: hudi.Location{Partition: "p", File: "b"}, Logs: []hudi.File{{Size: 4}}})
	if n.groups != 2 || n.bases != 1 || n.bare != 1 || n.logs != 3 || n.baseBytes != 10 || n.logBytes != 7 || n.most != 2 || n.worst.File != "a" {
		t.Fatalf("%+v", n)
	}
}

func TestCheckWords(t *testing.T) {
	for in, want := range map[int64]string{0: "0B", 1023: "1023B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 3 << 50: "3072.0 TiB"} {
		if got := size(in); got != want {
			t.Errorf("%d bytes: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]bool{
		"http://localhost:5984": true, "http://127.0.0.1": true, "http://[::1]:5984/proxy": true, "http://couchdb:5984": false, "http://192.0.2.1": false,
	} {
		if loopback(in) != want {
			t.Errorf("%s: loopback %v", in, !want)
		}
	}
	for in, want := range map[string]string{"": "unknown", "0": "0", "1750000000": "2025-06-15", "x": "x", "1750000000000000": "1750000000000000"} {
		if got := created(in); !strings.Contains(got, want) {
			t.Errorf("created %q: %s", in, got)
		}
	}
	if got := few([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more" {
		t.Error(got)
	}
	for _, c := range []struct {
		column hudi.Column
		cost   string
	}{
		{hudi.Column{Kind: hudi.KindLong}, ""},
		{hudi.Column{Kind: hudi.KindBytes}, costOther},
		{hudi.Column{Kind: hudi.KindInt, Type: `{"type":"int","logicalType":"date"}`}, ""},
		{hudi.Column{Kind: hudi.KindBytes, Type: `{"type":"fixed","name":"f","size":4,"logicalType":"decimal","precision":9,"scale":2}`}, ""},
		{hudi.Column{Kind: hudi.KindLong, Type: `{"type":"long","logicalType":"timestamp-micros"}`}, costTimestamp},
		{hudi.Column{Kind: hudi.KindBytes, Type: `{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`}, costDecimal},
		{hudi.Column{Kind: hudi.KindNested, Type: `{"type":"array","items":["null","string"]}`}, costList},
		{hudi.Column{Kind: hudi.KindNested, Type: `{"type":"map","values":"long"}`}, costOther},
		{hudi.Column{Kind: hudi.KindNested, Type: `{"type":"array","items":["null",{"type":"array","items":["null","long"]}]}`}, costLists},
		{hudi.Column{Kind: hudi.KindNested, Type: `{"type":"record","name":"s","fields":[{"name":"a","type":["null","long"]}]}`}, costStruct},
		{hudi.Column{Kind: hudi.KindNested, Type: `{"type":"record","name":"s","fields":[{"name":"a","type":["null",{"type":"array","items":["null","long"]}]}]}`}, costList},
		{hudi.Column{Kind: hudi.KindNested, Type: `{"type":"record","name":"s","fields":[{"name":"a","type":"long"}]}`}, costOther},
	} {
		if got := columnCost(&c.column); got != c.cost {
			t.Errorf("%+v: %q, want %q", c.column, got, c.cost)
		}
	}
}
