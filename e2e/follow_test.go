//go:build oracle

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// followPatience bounds how long streams may take to come to the newest state.
const followPatience = 3 * time.Minute

// TestStreamsFollowTheTable lets the binary follow a database in many small commits,
// with compaction, cleaning and archival on, into a table with tombstones and
// partitions that documents move between; it is started anew from time to time. Spark Structured Streaming (stopped once, and
// started again from its checkpoint) and Flink follow the table: every change arrives
// once, and Flink's upsert sink ends equal to the database.
func TestStreamsFollowTheTable(t *testing.T) {
	rounds := 150
	if os.Getenv("E2E_FULL") != "" {
		rounds = 500
	}
	f := newFollowed(t)
	spark, flinkEngine := mustEngine(t, spark015), mustEngine(t, flink)
	f.change(100)
	couch2hudi(t, "run", "--once", "--config", f.config)
	f.waitForCommit()
	start := question{Op: "start", Table: f.table, Checkpoint: t.TempDir(), Columns: streamed}
	bySpark := f.stream("spark", spark, start)
	byFlink := f.stream("flink", flinkEngine, flinkStream(f.table, streamed...))
	sink := f.sink(flinkEngine)
	f.run()
	for round := range rounds {
		f.change(5)
		f.waitForCommit()
		// Nobody falls behind what cleaning keeps: it begins with a start. Not at the end,
		// where a process that has just been started would be told to stop before it listens.
		if round%30 == 29 && round < rounds-1 {
			f.await(bySpark, byFlink)
			f.stop()
			f.run()
		}
		if round == rounds/2 {
			bySpark.restart(start)
		}
	}
	f.await(bySpark, byFlink)
	sink.await()
	f.stop()
	f.report(bySpark, byFlink)
}

// streamed are the columns that the streams are asked for.
var streamed = []string{"_id", "_rev", "_rev_order", "_deleted", "_hoodie_commit_time"}

// flinkStream is a question for all changes from the table's beginning on.
func flinkStream(table string, columns ...string) question {
	quoted := make([]string, 0, len(columns))
	for _, c := range columns {
		quoted = append(quoted, "`"+c+"`")
	}
	return question{Op: "start", Statements: []string{"SELECT " + strings.Join(quoted, ", ") + " FROM t"}, Tables: flinkTables(table)}
}

func flinkTables(table string) map[string]tableSource {
	return map[string]tableSource{"t": {Path: table, Options: map[string]string{
		"read.streaming.enabled": "true", "read.streaming.check-interval": "1", "read.start-commit": "earliest"}}}
}

// followed is a database, the table that follows it, and the process that writes it.
type followed struct {
	t      *testing.T
	db     *couchfake.Database
	random *rand.Rand
	ids    []string
	states int // that the database had, over all documents

	table, config string
	seen          map[string]bool // timeline files
	last          string          // the newest delta commit that was waited for
	cmd           *exec.Cmd
	said          bytes.Buffer
}

func newFollowed(t *testing.T) *followed {
	server, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	db, err := server.Create("docs")
	if err != nil {
		t.Fatal(err)
	}
	f := &followed{t: t, db: db, random: rand.New(rand.NewPCG(20261130, 7)), table: filepath.Join(t.TempDir(), "table"),
		config: filepath.Join(t.TempDir(), "couch2hudi.yaml"), seen: map[string]bool{}}
	settings := asJSON(map[string]any{"source": map[string]any{"url": server.URL() + "/docs"},
		"table":  map[string]any{"url": f.table, "index": "bucket", "buckets": 2, "partition": map[string]any{"field": "day"}},
		"commit": map[string]any{"interval": "100ms"}, "compaction": map[string]any{"max_delta_commits": 5, "max_age": "2s"},
		"clean": map[string]any{"policy": "commits", "keep": 110}, "timeline": map[string]any{"keep_min": 120, "keep_max": 130}})
	if err := os.WriteFile(f.config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// change makes n documents and gives as many others, each once, a new state: changed,
// moved to another day, deleted, or back.
func (f *followed) change(n int) {
	f.t.Helper()
	var others []string
	if old := len(f.ids); old > 0 {
		for _, i := range f.random.Perm(old)[:n] {
			others = append(others, f.ids[i])
		}
	}
	for range n {
		f.ids = append(f.ids, fmt.Sprintf("doc-%05d", len(f.ids)))
		others = append(others, f.ids[len(f.ids)-1])
	}
	for _, id := range others {
		body := fmt.Appendf(nil, `{"day":"2024-01-0%d","n":%d}`, 1+f.random.IntN(4), f.random.IntN(1000))
		var err error
		if d, ok := f.db.Doc(id); ok && !d.Deleted() && f.random.IntN(5) == 0 {
			_, err = f.db.Delete(id)
		} else {
			_, err = f.db.Put(id, body)
		}
		if err != nil {
			f.t.Fatal(err)
		}
		f.states++
	}
}

// state is what a reader is to show of each document: its revision.
func (f *followed) state() map[string]string {
	out := map[string]string{}
	for _, d := range documentsOf(f.db) {
		out[d.ID] = d.Leaves[0]
	}
	return out
}

// run starts the binary, which follows the database from now on.
func (f *followed) run() {
	f.t.Helper()
	path, err := binary()
	if err != nil {
		f.t.Fatal(err)
	}
	f.cmd = exec.Command(path, "run", "--config", f.config)
	f.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(path), "cache"))
	f.said.Reset()
	f.cmd.Stderr = &f.said
	if err := f.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = f.cmd.Process.Kill() })
}

// waitForCommit waits until there is a newer commit than the last time.
func (f *followed) waitForCommit() {
	f.t.Helper()
	until(f.t, "a commit after "+f.last, func() bool {
		files, err := os.ReadDir(filepath.Join(f.table, ".hoodie"))
		if err != nil {
			f.t.Fatal(err)
		}
		newest := f.last
		for _, file := range files {
			f.seen[file.Name()] = true
			if at, ok := strings.CutSuffix(file.Name(), ".deltacommit"); ok {
				newest = max(newest, at)
			}
		}
		moved := newest > f.last
		f.last = newest
		return moved
	}, func() string { return f.said.String() })
}

func (f *followed) stop() {
	f.t.Helper()
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
	if err := f.cmd.Wait(); err != nil {
		f.t.Errorf("run: %v\n%s", err, &f.said)
	}
}

// count is how many completed instants of an action the table had.
func (f *followed) count(action string) int {
	n := 0
	for name := range f.seen {
		if strings.HasSuffix(name, "."+action) {
			n++
		}
	}
	return n
}

// until asks again and again, for a bounded time.
func until(t *testing.T, what string, done func() bool, otherwise func() string) {
	t.Helper()
	for end := time.Now().Add(followPatience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s\n%s", what, followPatience, otherwise())
		}
	}
}

// differences tells the first documents that a reader shows otherwise than they are.
func differences(got, want map[string]string) string {
	var out []string
	for id := range want {
		if got[id] != want[id] {
			out = append(out, fmt.Sprintf("%s is %q; want %q", id, got[id], want[id]))
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			out = append(out, fmt.Sprintf("%s is %q; want none", id, got[id]))
		}
	}
	slices.Sort(out)
	return fmt.Sprintf("%d differences:\n%s", len(out), strings.Join(out[:min(len(out), toldDifferences)], "\n"))
}

// streamOf is what came of one stream.
type streamOf struct {
	f       *followed
	name    string
	e       *engine
	id      string
	rows    int
	deletes int               // delete messages, which know the key alone
	batches map[any]bool      // of Spark
	earlier map[any]bool      // of Spark, before it was started again
	orders  map[string]int64  // by document: of the last state that came
	state   map[string]string // by document: the last revision that came
}

func (f *followed) stream(name string, e *engine, q question) *streamOf {
	f.t.Helper()
	s := &streamOf{f: f, name: name, e: e, batches: map[any]bool{}, orders: map[string]int64{}, state: map[string]string{}}
	s.begin(q)
	f.t.Cleanup(s.stop) // before the folder of its checkpoint goes
	return s
}

func (s *streamOf) stop() {
	s.f.t.Helper()
	if _, err := s.e.ask(question{Op: "stop", ID: s.id}); err != nil {
		s.f.t.Errorf("stop of the stream of %s: %v", s.name, err)
	}
}

func (s *streamOf) begin(q question) {
	s.f.t.Helper()
	a, err := s.e.ask(q)
	if err != nil {
		s.f.t.Fatal(err)
	}
	s.id = a.ID
}

func (s *streamOf) restart(q question) {
	s.f.t.Helper()
	s.stop()
	s.fetch()
	s.earlier = maps.Clone(s.batches)
	s.begin(q)
}

// fetch takes what came: of each document newer states only, each once. A batch that
// was taken when Spark stopped, and not yet noted in its checkpoint, comes again under
// its number, by which a sink knows it.
func (s *streamOf) fetch() {
	s.f.t.Helper()
	rows, err := s.e.rows(question{Op: "fetch", ID: s.id})
	if err != nil {
		s.f.t.Fatal(err)
	}
	for _, r := range rows {
		id := r["_id"].(string)
		if s.earlier[r["batch"]] {
			continue
		}
		if r["op"] == "-D" {
			s.deletes++
			continue
		}
		order := r["_rev_order"].(int64)
		if before, known := s.orders[id]; known && order <= before {
			s.f.t.Errorf("%s: %s came in the order %d after %d, in commit %v, batch %v", s.name, id, order, before, r[colCommitTime], r["batch"])
		}
		s.orders[id], s.state[id] = order, r["_rev"].(string)
		s.batches[r["batch"]] = true
		s.rows++
	}
}

// await waits until the streams have come to the newest state of every document.
func (f *followed) await(streams ...*streamOf) {
	f.t.Helper()
	for _, s := range streams {
		until(f.t, s.name+" to come to the newest state", func() bool {
			s.fetch()
			return f.t.Failed() || maps.Equal(s.state, f.state())
		}, func() string { return differences(s.state, f.state()) })
	}
}

// sink is a table in an embedded database that Flink keeps equal to ours.
type sink struct {
	f       *followed
	e       *engine
	url, id string
}

// sink lets Flink follow the table into a database, by primary key. The delete
// messages are left out: they say only that a document left a partition, and may come
// after the row in its new one.
func (f *followed) sink(e *engine) *sink {
	f.t.Helper()
	s := &sink{f: f, e: e, url: "jdbc:derby:" + filepath.Join(f.t.TempDir(), "db") + ";create=true"}
	s.ask(question{Op: "jdbc", URL: s.url, Statements: []string{
		"CREATE TABLE docs (id VARCHAR(100) PRIMARY KEY, rev VARCHAR(100), rev_order BIGINT, deleted BOOLEAN)"}})
	s.id = s.ask(question{Op: "start", Tables: flinkTables(f.table), Statements: []string{
		"CREATE TABLE sink (id STRING, rev STRING, rev_order BIGINT, deleted BOOLEAN, PRIMARY KEY (id) NOT ENFORCED) WITH (" +
			"'connector' = 'jdbc', 'url' = '" + s.url + "', 'table-name' = 'docs', 'sink.buffer-flush.interval' = '200ms')",
		"INSERT INTO sink SELECT _id, _rev, _rev_order, _deleted FROM t WHERE _rev IS NOT NULL"}}).ID
	f.t.Cleanup(func() { s.ask(question{Op: "stop", ID: s.id}) })
	return s
}

func (s *sink) ask(q question) answer {
	s.f.t.Helper()
	a, err := s.e.ask(q)
	if err != nil {
		s.f.t.Fatal(err)
	}
	return a
}

// await waits until the sink equals the database.
func (s *sink) await() {
	s.f.t.Helper()
	got := map[string]string{}
	until(s.f.t, "the sink to equal the database", func() bool {
		s.ask(question{Op: "fetch", ID: s.id}) // fails when the job has
		clear(got)
		rows, err := s.e.rows(question{Op: "jdbc", URL: s.url, Statements: []string{"SELECT id, rev FROM docs"}})
		if err != nil {
			s.f.t.Fatal(err)
		}
		for _, r := range rows {
			got[r["ID"].(string)] = r["REV"].(string)
		}
		return maps.Equal(got, s.f.state())
	}, func() string { return differences(got, s.f.state()) })
}

// report logs figures and checks that services ran beside the streams.
func (f *followed) report(streams ...*streamOf) {
	f.t.Helper()
	for _, action := range []string{"deltacommit", "commit", "clean"} {
		if f.count(action) == 0 {
			f.t.Errorf("no %s in %s", action, f.table)
		}
	}
	f.t.Logf("%d delta commits, %d compactions, %d cleans", f.count("deltacommit"), f.count("commit"), f.count("clean"))
	for _, s := range streams {
		f.t.Logf("%s: %d of %d states of %d documents came, in %d batches; %d delete messages", s.name, s.rows, f.states, len(f.ids), len(s.batches), s.deletes)
	}
}
