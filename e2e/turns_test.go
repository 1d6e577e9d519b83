//go:build oracle

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSparkDeletesAndWeGoOn lets Spark delete rows of a table of ours, in both
// ways that it has, and goes on after it: what Spark deleted is gone for all
// readers, our next run begins where our last one ended, and a document comes
// back once when it changes again, and only then. Each Spark meets one kind of
// table, with E2E_FULL both.
func TestSparkDeletesAndWeGoOn(t *testing.T) {
	for i, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(t, start)
		for j, name := range []string{"tombstones", "hard"} {
			if i != j && os.Getenv("E2E_FULL") == "" {
				continue
			}
			t.Run(e.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				sparkDeletes(t, e, modelOptions{partition: "createdAt", layout: "20060102", hard: j == 1})
			})
		}
	}
}

// The documents of the test, beside those of the stream.
const (
	inBase    = "in a base file"
	inLog     = "updated in a log"
	updated   = "updated since"
	comesBack = "deleted, then changed"
	ending    = "deleted, then deleted by its owner"
	wanders   = "moved there and back"
	marked    = "deleted beside upserts"
	returns   = "deleted beside upserts, then changed"
	raced     = "deleted beside upserts, in a later order"
	edited    = "edited by Spark, beside deletes"
)

func sparkDeletes(t *testing.T, e *engine, o modelOptions) {
	w := newTableWriter(t, o)
	ids := []string{inBase, inLog, updated, comesBack, ending, wanders, marked, returns, raced, edited}
	w.put("2024-01-01", ids...)
	w.step(30)
	w.put("2024-01-01", inLog, updated, marked)
	w.put("2024-01-02", wanders)
	w.step(30)
	w.put("2024-01-01", updated, wanders)
	w.step(30)

	s := &turns{tableWriter: w, e: e, options: map[string]string{"hoodie.index.type": "BLOOM"}, edits: map[string]row{}}
	s.deleteKeys(inBase, inLog, updated, comesBack, ending)
	s.readAll("after Spark's delete")
	s.deleteBesideUpserts()
	s.readAll("after Spark's deletes beside upserts")
	s.upsert(wanders)
	s.readAll("after Spark's upsert of a document that moved there and back")

	s.goOn()
	s.replay()
	if _, err := e.ask(question{Op: "compact", Table: w.table}); err != nil {
		t.Fatal(err)
	}
	s.readAll("after Spark's compaction")
	s.step(30)
	s.readAll("after our commit on top of it")
	s.commands()
}

// put changes documents, all to one day.
func (w *tableWriter) put(day string, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if _, err := w.db.Put(id, fmt.Appendf(nil, `{"createdAt":%q,"n":%d,"name":%q}`, day, len(w.known), id)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// turns is a table that Spark and we write in turn.
type turns struct {
	*tableWriter
	e       *engine
	options map[string]string // of Spark's writer
	// edits are the rows as Spark wrote them.
	edits map[string]row
	last  string // last_seq of the follower's last commit
}

// rowsOf are the rows that Spark reads of some documents, as it could write them.
func (s *turns) rowsOf(ids ...string) []row {
	s.t.Helper()
	var out []row
	for _, r := range mustRows(s.t, s.e, question{Op: "snapshot", Table: s.table}) {
		if slices.Contains(ids, r["_id"].(string)) {
			maps.DeleteFunc(r, func(c string, _ any) bool { return strings.HasPrefix(c, "_hoodie_") })
			out = append(out, r)
		}
	}
	if len(out) != len(ids) {
		s.t.Fatalf("Spark reads %d rows of %q", len(out), ids)
	}
	return out
}

// write lets Spark write rows, and gives the commit's instant.
func (s *turns) write(operation string, rows []row) string {
	s.t.Helper()
	a, err := s.e.ask(question{Op: "upsert", Operation: operation, Table: s.table, Rows: rows, Options: s.options})
	if err != nil {
		s.t.Fatal(err)
	}
	// What base files hold now is not for the model to know.
	s.known, s.model.told = deltaCommits(s.t, s.table), false
	return a.Timeline[len(a.Timeline)-1].Requested
}

// deleteKeys is Spark's delete operation: a delete without an ordering value, of
// some documents and of a key that is not there.
func (s *turns) deleteKeys(ids ...string) {
	s.t.Helper()
	rows := s.rowsOf(ids...)
	absent := maps.Clone(rows[0])
	absent["_id"] = "was never there"
	for _, r := range rows {
		if r["_id"] == updated {
			r["_rev_order"] = int64(1) // Spark read it long ago
		}
	}
	s.write("delete", append(rows, absent))
	for _, id := range ids {
		s.model.erase(id, s.model.rows[id]["_rev_order"].(int64))
	}
}

// deleteBesideUpserts is one upsert of Spark's with rows that say they are deleted,
// by the mark that Hudi has for it, and others: deletes with an ordering value.
func (s *turns) deleteBesideUpserts() {
	s.t.Helper()
	rows := s.rowsOf(marked, returns, raced, edited)
	for _, r := range rows {
		r["_hoodie_is_deleted"] = r["_id"] != edited
		switch r["_id"] {
		case raced:
			r["_rev_order"] = r["_rev_order"].(int64) + 1000
		case edited:
			r["_rev"], r["_rev_order"], r["name"] = "999-spark", r["_rev_order"].(int64)+1000, "by Spark"
		}
	}
	instant := s.write("upsert", rows)
	for _, r := range rows {
		if id := r["_id"].(string); id == edited {
			s.keep(r, instant)
		} else {
			s.model.erase(id, r["_rev_order"].(int64))
		}
	}
}

// upsert lets Spark write a newer state of a document.
func (s *turns) upsert(id string) {
	s.t.Helper()
	rows := s.rowsOf(id)
	rows[0]["_rev"], rows[0]["_rev_order"], rows[0]["name"] = "999-spark", rows[0]["_rev_order"].(int64)+1000, "by Spark"
	s.keep(rows[0], s.write("upsert", rows))
}

// keep notes a row as Spark wrote it.
func (s *turns) keep(r row, instant string) {
	folder := defaultPartition
	if value, ok := r["pt"].(string); ok {
		folder = value
	}
	r[colKey], r[colPartition], r[colCommitTime] = r["_id"], s.model.options.folder(folder), instant
	delete(r, "_hoodie_is_deleted")
	s.edits[r["_id"].(string)] = r
}

// want is what the table has to show: the model's rows and those of Spark.
func (s *turns) want() []row {
	want := s.model.snapshot()
	for i, r := range want {
		if edit, ok := s.edits[r["_id"].(string)]; ok {
			want[i] = s.model.complete([]row{edit})[0]
		}
	}
	return want
}

// readAll compares what each engine and we read with the model.
func (s *turns) readAll(when string) {
	s.t.Helper()
	s.readBy(when, s.want())
}

// readBy compares what each engine and we read with the rows.
func (s *turns) readBy(when string, want []row, ignore ...string) {
	s.t.Helper()
	// Spark's mark of deletes became a column of the table with its first row.
	ignore = append(ignore, "_hoodie_is_deleted")
	for _, start := range engines() {
		e := mustEngine(s.t, start)
		if d := diff(want, mustRows(s.t, e, question{Op: "snapshot", Table: s.table}), ignore...); d != "" {
			s.t.Errorf("%s, %s: %s", e.name, when, d)
		}
	}
	ours := ourRows(s.t, s.model, "query", "--table", s.table, "--include-deleted", "--format", "jsonl")
	if d := diff(want, ours, ignore...); d != "" {
		s.t.Errorf("couch2hudi, %s: %s", when, d)
	}
}

// instantSaid is what `timeline` says of one instant.
type instantSaid struct {
	Instant, State string
	LastSeq        string            `json:"last_seq"`
	Extra          map[string]string `json:"extra"`
}

func (s *turns) timeline() []instantSaid {
	s.t.Helper()
	var out []instantSaid
	for line := range strings.Lines(couch2hudi(s.t, "timeline", "--table", s.table, "--format", "jsonl")) {
		var i instantSaid
		if err := json.Unmarshal([]byte(line), &i); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, i)
	}
	return out
}

// goOn is our next run: it reads what changed since our own last commit, past the
// commits of Spark, and nothing else.
func (s *turns) goOn() {
	s.t.Helper()
	before := s.timeline()
	if last := before[len(before)-1]; last.LastSeq != "" {
		s.t.Errorf("Spark's commit %s has a last_seq", last.Instant)
	}
	s.put("2024-01-01", comesBack, returns, raced)
	if _, err := s.db.Delete(ending); err != nil {
		s.t.Fatal(err)
	}
	s.run(4, s.args...)
	said := s.timeline()
	s.last = said[len(said)-1].LastSeq
	// The same position has several spellings; the number before is the count of changes.
	if count, _, _ := strings.Cut(s.db.Seq(), "-"); !strings.HasPrefix(s.last, count+"-") {
		s.t.Errorf("our commit has last_seq %q; the database is at %q", s.last, s.db.Seq())
	}
	if err := s.model.apply(s.known[len(s.known)-1], documentsOf(s.db)); err != nil {
		s.t.Fatal(err)
	}
	s.readAll("after our next run")
	if s.model.rows[comesBack] == nil || s.model.rows[returns] == nil || (s.model.rows[ending] == nil) != s.model.options.hard ||
		s.model.rows[raced] != nil || s.model.rows[inBase] != nil {
		s.t.Error("the model does not say what the test is about")
	}
}

// replay reads all again: that alone leaves deleted what Spark deleted, and with
// --rewrite brings it back, but for what Spark made newer than the database is.
func (s *turns) replay() {
	s.t.Helper()
	all := int64(len(documentsOf(s.db)))
	s.run(all, append(slices.Clone(s.args), "--replay")...)
	s.readAll("after a replay")

	s.run(all, append(slices.Clone(s.args), "--replay", "--rewrite")...)
	for id := range s.model.lost {
		if id != raced {
			delete(s.model.lost, id)
		}
	}
	for id, r := range s.model.rows {
		if s.edits[id] == nil {
			r = maps.Clone(r)
			r["_rev"] = "" // as if it were not there
			s.model.rows[id] = r
		}
	}
	if err := s.model.apply(s.known[len(s.known)-1], documentsOf(s.db)); err != nil {
		s.t.Fatal(err)
	}
	s.readAll("after a replay that rewrites")
	if said := s.timeline(); said[len(said)-1].LastSeq != s.last {
		s.t.Errorf("the replay has last_seq %q; the follower was at %q", said[len(said)-1].LastSeq, s.last)
	}
	couch2hudi(s.t, s.args...)
	if now := deltaCommits(s.t, s.table); len(now) != len(s.known) {
		s.t.Errorf("a run with nothing new made the commits %v; want %v", now, s.known)
	}
}

// commands are those that look at a table: they take Spark's commits as they are.
func (s *turns) commands() {
	s.t.Helper()
	said := couch2hudi(s.t, append([]string{"check"}, s.args[2:]...)...)
	if !strings.Contains(said, " 0 FAIL") {
		s.t.Errorf("check says\n%s", said)
	}
	if n := len(s.timeline()); n < len(s.known) {
		s.t.Errorf("timeline names %d instants of %d and more", n, len(s.known))
	}
}

// run runs couch2hudi and expects one commit, of so many changes.
func (s *turns) run(rows int64, args ...string) {
	s.t.Helper()
	couch2hudi(s.t, args...)
	now := deltaCommits(s.t, s.table)
	if len(now) != len(s.known)+1 {
		s.t.Fatalf("a run made the commits %v; want one more than %v", now, s.known)
	}
	s.known = now
	said := s.timeline()
	var stats struct{ Rows int64 }
	if err := json.Unmarshal([]byte(said[len(said)-1].Extra["couch2hudi.stats"]), &stats); err != nil {
		s.t.Fatal(err)
	}
	if stats.Rows != rows {
		s.t.Errorf("our commit read %d changes; want %d", stats.Rows, rows)
	}
}
