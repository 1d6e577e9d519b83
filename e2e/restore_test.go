//go:build oracle

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestRestoreAmongEngines lets us restore a table to a savepoint of ours, over a
// compaction, and Spark restore it to the same: all engines read what was there, and
// our next run goes on from the position of then.
func TestRestoreAmongEngines(t *testing.T) {
	for _, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(t, start)
		t.Run(e.name, func(t *testing.T) {
			// Tombstones of documents that no commit saw alive have no partition.
			w := newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102", hard: true, buckets: 2})
			s := &turns{tableWriter: w, e: e, edits: map[string]row{}}
			s.step(60)
			s.step(60)
			var saved []row
			for _, r := range s.model.snapshot() {
				saved = append(saved, maps.Clone(r)) // columns that come later are put into the model's rows
			}
			const comment = "before the import"
			couch2hudi(t, "savepoint", "create", "--table", s.table, "--comment", comment)
			point := s.known[len(s.known)-1]
			a, err := e.ask(question{Op: "call", Table: s.table, Procedure: "show_savepoints"})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(a.Result, func(r map[string]any) bool { return strings.Contains(fmt.Sprint(r), point) }) {
				t.Errorf("%s sees the savepoints %v, not %s", e.name, a.Result, point)
			}
			s.step(60)
			couch2hudi(t, "compact", "--table", s.table)
			s.step(60)
			s.readBy("before", s.model.snapshot())

			if out := couch2hudi(t, "restore", "--table", s.table, "--to", comment); strings.Count(out, "taken back") != 3 {
				t.Errorf("restore: %s", out)
			}
			s.readBy("restored by us", saved)
			s.forward("after our restore")

			if _, err := e.ask(question{Op: "call", Table: s.table, Procedure: "rollback_to_savepoint", Arguments: map[string]string{"instant_time": point}}); err != nil {
				t.Fatal(err)
			}
			s.readBy("restored by "+e.name, saved)
			s.forward("after " + e.name + "'s restore")
		})
	}
}

// forward changes some documents and runs: the table equals the database, under new
// commit times.
func (s *turns) forward(when string) {
	s.t.Helper()
	if err := s.data.next(20); err != nil {
		s.t.Fatal(err)
	}
	couch2hudi(s.t, s.args...)
	s.model.told = false // many commits' rows are in the files of one
	now := deltaCommits(s.t, s.table)
	if err := s.model.apply(now[len(now)-1], documentsOf(s.db)); err != nil {
		s.t.Fatal(err)
	}
	s.readBy(when, s.model.snapshot(), "_hoodie_commit_time")
}
