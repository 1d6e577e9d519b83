package pipeline_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

var (
	seeds  = flag.Int("sim.seeds", 2, "how many seeds the simulation runs")
	rounds = flag.Int("sim.rounds", 6, "how many rounds of edits and ingests each seed runs")
)

// The invariants: after every ingest the snapshot equals the revision trees,
// and the incremental reads, replayed, equal the snapshot.
func TestSimulation(t *testing.T) {
	seeds, rounds := *seeds, *rounds
	if testing.Short() {
		seeds, rounds = 1, 3
	}
	for seed := range uint64(seeds) {
		for _, partitioned := range []bool{false, true} {
			for _, hard := range []bool{false, true} {
				t.Run(fmt.Sprintf("seed=%d,partitioned=%t,hard=%t", seed, partitioned, hard), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, seed)
					w.partitioned, w.hard, w.maxRows = partitioned, hard, 60
					w.tune = smallFiles
					for r := range rounds {
						w.round(20 + w.rand.IntN(120))
						w.must(w.ingest(w.driver))
						w.check(fmt.Sprintf("round %d", r))
					}
					if n := w.rewritten(); n < rounds/2 {
						t.Errorf("%d base files were rewritten", n)
					}
				})
			}
		}
	}
}

// smallFiles makes base files full after a few commits, so that some are written
// again and others are new.
func smallFiles(o *pipeline.Options) {
	o.Writer.FileBytes, o.Writer.MaxRewrite = 40_000, 50_000
}

// rewritten counts the base files of the timeline's commits that replaced one.
func (w *world) rewritten() int {
	w.t.Helper()
	n, v := 0, w.view()
	for _, i := range v.Writes() {
		body, err := v.Body(context.Background(), i)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, stats := range body.Stats {
			for k := range stats {
				if stats[k].Log == nil && stats[k].PrevCommit != "" {
					n++
				}
			}
		}
	}
	return n
}

// TestCrashSweep dies at each storage write of a run of several commits, before
// and after its effect, starts again and compares.
func TestCrashSweep(t *testing.T) {
	steps, stride := map[string]int{}, 1
	if testing.Short() {
		stride = 23
	}
	for _, after := range []bool{false, true} {
		for k := 1; ; k += stride {
			alive := crashAt(t, k, after, steps)
			if alive {
				break
			}
		}
	}
	for _, step := range []string{"begin: requested", "begin: inflight", "marker", "partition metadata", "base file", "log file",
		"marker of a rewritten base file", "quarantine", "completed"} {
		if steps[step] < 2 && stride == 1 {
			t.Errorf("no crash fell into %q", step)
		}
		t.Logf("%4d crashes in %s", steps[step], step)
		delete(steps, step)
	}
	t.Logf("elsewhere: %v", steps)
}

// crashAt runs three rounds whose storage dies at the k-th write and says
// whether it never came to that.
func crashAt(t *testing.T, k int, after bool, steps map[string]int) (alive bool) {
	t.Helper()
	w := newWorld(t, 42)
	w.partitioned, w.tune = true, smallFiles
	crasher := storagetest.NewCrasher(w.driver, storagetest.Crash{At: k, After: after})
	for r := range 3 {
		w.round(25)
		heal := func() {}
		if r == 1 {
			heal = w.withhold("doc-0001")
		}
		if !crasher.Dead() {
			_, err := w.ingest(crasher)
			if crasher.Dead() {
				ops := crasher.Ops()
				steps[stepOf(ops[len(ops)-1])]++
			} else if err != nil {
				t.Fatalf("round %d, alive: %v", r, err)
			}
		}
		if crasher.Dead() {
			if _, err := w.ingest(w.driver); err != nil {
				t.Fatalf("start again after a crash %s: %v", crasher.Where(), err)
			}
		}
		w.check("after a crash " + crasher.Where())
		heal()
	}
	w.nothingLeft()
	return !crasher.Dead()
}

// withhold changes a document and lets its row come without a body, which is
// not to be had by asking again either; heal ends that, with a further change.
func (w *world) withhold(id string) (heal func()) {
	w.t.Helper()
	w.must(w.db.Put(id, w.body()))
	row := w.server.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{NullDoc: id}, -1)
	doc := w.server.Control(couchfake.Match{Endpoint: couchfake.Document}, couchfake.Spoil{Status: 404}, -1)
	w.ignore = id
	return func() {
		row.Cancel()
		doc.Cancel()
		w.ignore = ""
		w.must(w.db.Put(id, w.body()))
	}
}

// nothingLeft reads on from last_seq: there must be no row.
func (w *world) nothingLeft() {
	w.t.Helper()
	ctx := context.Background()
	source, err := couchdb.Open(ctx, couchdb.Options{URL: w.server.URL() + "/docs"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { w.must(nil, source.Close()) }()
	b, err := source.Next(ctx, changes.Position(w.lastSeq()), changes.Limit{})
	if err != nil || len(b.Changes) != 0 {
		w.t.Fatalf("reading on from last_seq gave %d rows, %v", len(b.Changes), err)
	}
}

// stepOf names the step of the walk that a storage operation belongs to.
func stepOf(op storagetest.Op) string {
	n := op.Name
	switch {
	case op.Kind == storagetest.Delete:
		return "clean-up"
	case strings.HasSuffix(n, ".deltacommit.requested"):
		return "begin: requested"
	case strings.HasSuffix(n, ".deltacommit.inflight"):
		return "begin: inflight"
	case strings.HasSuffix(n, ".deltacommit"):
		return "completed"
	case strings.HasSuffix(n, ".marker.MERGE"):
		return "marker of a rewritten base file"
	case strings.Contains(n, ".hoodie/.temp/"):
		return "marker"
	case strings.Contains(n, ".hoodie/.heartbeat/"):
		return "begin: heartbeat"
	case strings.Contains(n, "quarantine/"):
		return "quarantine"
	case strings.HasSuffix(n, ".hoodie_partition_metadata"):
		return "partition metadata"
	case strings.HasSuffix(n, ".parquet"):
		return "base file"
	case strings.Contains(n, ".log."):
		return "log file"
	}
	return "table: " + n
}

// A table never falls behind in time even when the clock does; a replay of the
// whole feed with new seqs writes nothing.
func TestRewind(t *testing.T) {
	w := newWorld(t, 7)
	w.partitioned = true
	w.round(200)
	w.must(w.ingest(w.driver))
	w.round(100)
	w.must(w.ingest(w.driver))
	before := w.snapshot()
	w.db.FailOver()
	done, err := w.ingest(w.driver)
	if err != nil {
		t.Fatal(err)
	}
	var rows, replayed, written int64
	for _, p := range done {
		rows += p.Stats.Rows
		replayed += p.Stats.Replayed
		written += p.Stats.Inserts + p.Stats.Upserts + p.Stats.Deletes
	}
	if rows == 0 || replayed != rows || written != 0 {
		t.Fatalf("a rewind read %d rows, dropped %d, wrote %d", rows, replayed, written)
	}
	w.equal("after the rewind", before, w.snapshot())
}

// The winner of a conflict is deleted: the survivor, of a lower generation, is
// the document; and 10-… beats 9-….
func TestOrdering(t *testing.T) {
	w := newWorld(t, 9)
	rev, err := w.db.Put("a", []byte(`{"day":"2024-01-01","n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 9; n++ {
		rev, err = w.db.Edit("a", rev, fmt.Appendf(nil, `{"day":"2024-01-01","n":%d}`, n))
		if err != nil {
			t.Fatal(err)
		}
	}
	w.must(w.ingest(w.driver))
	if got := w.snapshot()["a"]; got.N != 9 || !strings.HasPrefix(got.Rev, "9-") {
		t.Fatalf("9th: %+v", got)
	}
	if _, err = w.db.Edit("a", rev, []byte(`{"day":"2024-01-01","n":10}`)); err != nil {
		t.Fatal(err)
	}
	w.must(w.ingest(w.driver))
	if got := w.snapshot()["a"]; got.N != 10 || !strings.HasPrefix(got.Rev, "10-") {
		t.Fatalf("10-… must beat 9-…: %+v", got)
	}
	loser, err := w.db.Put("b", []byte(`{"day":"2024-01-01","n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if loser, err = w.db.Edit("b", loser, []byte(`{"day":"2024-01-01","n":22}`)); err != nil {
		t.Fatal(err)
	}
	w.must(nil, w.db.Replicate("b", []couchfake.Rev{{Gen: 3, Hash: "aaa"}, {Gen: 2, Hash: "x"}, {Gen: 1, Hash: "x"}}, []byte(`{"day":"2024-01-01","n":33}`)))
	w.must(w.ingest(w.driver))
	if got := w.snapshot()["b"]; got.N != 33 {
		t.Fatalf("3-aaa should win: %+v", got)
	}
	w.must(w.db.Delete("b"))
	w.must(w.ingest(w.driver))
	if got := w.snapshot()["b"]; got.N != 22 || got.Rev != loser.String() || got.Deleted {
		t.Fatalf("the surviving leaf %s should be the document: %+v", loser, got)
	}
	w.check("ordering")
}

// Instants grow although the wall clock went back.
func TestInstantsGrow(t *testing.T) {
	w := newWorld(t, 3)
	var last hudi.Time
	for range 4 {
		w.round(10)
		done, err := w.ingest(w.driver)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range done {
			if !p.Instant.After(last) {
				t.Fatalf("%s after %s", p.Instant, last)
			}
			last = p.Instant
		}
	}
	at, err := last.Clock()
	if err != nil || time.Since(at) > time.Hour {
		t.Fatalf("instant %s is not of now: %v", last, err)
	}
}
