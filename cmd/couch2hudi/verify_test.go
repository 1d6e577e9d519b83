package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// verify tells what a table lacks, in words and in JSON, ends with 6, and repairs.
func TestVerify(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 30)
	dir := filepath.Join(t.TempDir(), "table")
	state := t.TempDir()
	run := []string{"run", "--once", "--source", url, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd", "--state-dir", state}
	verify := []string{"verify", "--source", url, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd", "--pause", "0"}
	want(t, 0, nil, run...)
	want(t, 0, []string{"equal", "30"}, verify...)
	if _, err := db.Put("d004", []byte(`{"n":400,"at":"2024-01-09T00:00:00Z","new":true}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{"moving"}, verify...)
	want(t, 0, nil, run...)

	// A table of the same database that began too late lacks what was there before.
	late := filepath.Join(t.TempDir(), "late")
	want(t, 0, nil, append(run[:len(run):len(run)], "--since", "now", "--table", late)...)
	late1 := slices.Concat(verify, []string{"--table", late, "--samples", "3"})
	want(t, exitDiffers, []string{"missing", "30", `"d000"`, "--repair", "nothing"}, late1...)
	out := want(t, exitDiffers, nil, append(late1[:len(late1):len(late1)], "--format", "json")...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Different["missing"] != 30 || r.Documents != 30 || r.Equal != 0 || len(r.Samples) != 3 || r.Samples[0].Source.Rev == "" {
		t.Errorf("%+v, %v", r, err)
	}
	want(t, 0, []string{"repaired", "30"}, append(late1[:len(late1):len(late1)], "--repair")...)
	want(t, 0, []string{"equal", "30"}, late1...)
	want(t, 0, nil, append(run[:len(run):len(run)], "--table", late)...)
	want(t, 0, nil, late1...)
	if got, want := statesOf(t, late), statesOf(t, dir); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}

	want(t, exitUsage, []string{"--format"}, append(verify[:len(verify):len(verify)], "--format", "xml")...)
	want(t, exitUsage, []string{"--pause"}, append(verify[:len(verify):len(verify)], "--pause", "-1s")...)
	want(t, exitUsage, []string{"table.partition.field"}, "verify", "--source", url, "--table", dir)
	want(t, exitFailed, []string{"no table"}, "verify", "--source", url, "--table", filepath.Join(dir, "none"))
	outbox, inbox := filepath.Join(t.TempDir(), "outbox"), t.TempDir()
	want(t, 0, nil, "export", "--once", "--source", url, "--to", "ndjson://"+outbox)
	carried(t, outbox, inbox)
	across := filepath.Join(t.TempDir(), "across")
	want(t, 0, nil, "run", "--once", "--source", "ndjson://"+inbox, "--table", across, "--state-dir", "off")
	want(t, 0, []string{"equal", "30"}, "verify", "--source", "ndjson://"+inbox, "--table", across)
}

// A feed that shows the past makes no difference, and a repair changes nothing.
func TestVerifyStaleFeed(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 30)
	past := db.Snapshot()
	for i := range 20 {
		if _, err := db.Put(fmt.Sprintf("d%03d", i), []byte(`{"n":-1}`)); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "table")
	want(t, 0, nil, "run", "--once", "--source", url, "--table", dir, "--state-dir", "off")
	before := statesOf(t, dir)
	db.ServeStale(past)
	db.FailOver()
	verify := []string{"verify", "--source", url, "--table", dir, "--pause", "1ms"}
	want(t, 0, []string{"settled", "20 (the feed"}, verify...)
	want(t, 0, []string{"settled"}, append(verify[:len(verify):len(verify)], "--repair")...)
	if after := statesOf(t, dir); after != before {
		t.Errorf("repaired\n%s\nwas\n%s", after, before)
	}
}

// A chain that is not whole here says nothing of what the table has of it.
func TestVerifyHalfABundle(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 30)
	dir := t.TempDir()
	outbox, table := filepath.Join(dir, "outbox"), filepath.Join(dir, "table")
	export := []string{"export", "--once", "--source", url, "--to", "ndjson://" + outbox}
	want(t, 0, nil, export...)
	if _, err := db.Put("late", []byte(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, export...)
	want(t, 0, nil, "run", "--once", "--source", "ndjson://"+outbox, "--table", table, "--state-dir", "off")
	verify := []string{"verify", "--source", "ndjson://" + outbox, "--table", table}
	want(t, 0, []string{"equal", "31"}, verify...)
	files, err := filepath.Glob(filepath.Join(outbox, "bundle-*2.ndjson*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range []int{0, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(files[0], whole[:half], 0o600); err != nil {
			t.Fatal(err)
		}
		want(t, exitGone, []string{filepath.Base(files[0])}, verify...)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	want(t, exitGone, []string{filepath.Base(files[0])}, verify...)
	if err := os.WriteFile(files[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, 0, []string{"equal", "31"}, verify...)
}
