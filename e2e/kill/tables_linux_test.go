package kill

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/reader"
)

// flock is a database whose documents go to three tables by their day, which changes.
type flock struct {
	*world
	root string
}

func newFlock(t *testing.T, seed uint64) *flock {
	t.Helper()
	f := &flock{world: newWorld(t, seed, layout{}), root: t.TempDir()}
	text := fmt.Sprintf("source: {url: %q}\nroute: {field: day, others: rest}\ncommit: {interval: 100ms, max_rows: 25}\n", f.server.URL()+"/docs") +
		fmt.Sprintf("compaction: {max_delta_commits: 2, max_age: 1s}\ntable: {url: %q}\n", f.root+"/{table}") +
		"tables:\n- {name: early, values: [\"2024-01-01\", \"2024-01-02\"], table: {index: bucket, buckets: 3}}\n- {name: late, values: [\"2024-01-03\"]}\n- {name: rest}\n"
	f.must(nil, os.WriteFile(f.config, []byte(text), 0o600))
	return f
}

// tableOf is where a document of a day belongs.
func tableOf(day string) string {
	switch day {
	case "2024-01-01", "2024-01-02":
		return "early"
	case "2024-01-03":
		return "late"
	}
	return "rest"
}

// compareAll holds the live rows of each table against the documents that are for it.
func (f *flock) compareAll(what string) {
	f.t.Helper()
	want := map[string]map[string]state{"early": {}, "late": {}, "rest": {}}
	for d := range f.db.Docs() {
		if !d.Deleted() {
			want[tableOf(dayOf(f.t, d))][d.ID] = state{rev: d.Winner().Rev.String(), doc: string(d.Winner().Body), order: d.GenerationSum()}
		}
	}
	for name, docs := range want {
		f.dir = filepath.Join(f.root, name)
		v := f.view()
		got := f.rows(v, reader.Snapshot(context.Background(), v, reader.Options{}))
		if !maps.Equal(docs, got) {
			f.t.Fatalf("%s: table %s has %d rows, not those of its %d documents", what, name, len(got), len(docs))
		}
	}
}

// TestKillSeveralTables kills the binary with signal 9 while documents go from table to
// table: started again, each table must equal the documents that are for it.
func TestKillSeveralTables(t *testing.T) {
	kills := 6
	if *full {
		kills = 30
	}
	f := newFlock(t, 78)
	f.burst(40)
	apart := 0
	for n := range kills {
		p := f.run()
		calm := f.busy()
		time.Sleep(time.Duration(100+f.rand.IntN(400)) * time.Millisecond)
		p.send(syscall.SIGKILL)
		p.wait(patience)
		calm()
		if p.cmd.ProcessState.ExitCode() > 0 {
			t.Fatalf("it ended by itself: exit %d\n%s", p.cmd.ProcessState.ExitCode(), &p.out)
		}
		mend := f.run("--once")
		if code := mend.wait(patience); code != 0 {
			t.Fatalf("run --once: exit %d\n%s", code, &mend.out)
		}
		if strings.Contains(mend.out.String(), "different positions") {
			apart++
		}
		f.compareAll(fmt.Sprintf("kill %d", n))
	}
	t.Logf("%d kills, %d of them left tables apart", kills, apart)
}
