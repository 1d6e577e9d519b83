//go:build oracle

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestIncrementsAcrossServices reads the changes of fixed ranges of one table of ours, by
// Spark with both releases and by us, before and after our compaction, Spark's
// clustering, our clean, our archival and our next commit: they are the same each time. Of
// ranges that the clean did not keep ours says so, or reads the same.
func TestIncrementsAcrossServices(t *testing.T) {
	const commits = 22
	w := newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102"})
	w.args = append(w.args, "--compaction", "off")
	for range commits {
		w.put("2019-05-05", "one", "two", "three") // a folder without new documents gets log files
		w.step(4)
	}
	s := &ranges{tableWriter: w}
	s.see("before", commits-5, commits-3, commits-1)
	couch2hudi(t, "compact", "--table", w.table)
	s.see("after our compaction", commits-5, commits-3, commits-1)
	if _, err := mustEngine(t, spark015).ask(question{Op: "call", Table: w.table, Procedure: "run_clustering", Arguments: map[string]string{"order": "_id"}}); err != nil {
		t.Fatal(err)
	}
	if n := clusterings(t, w.table); n != 1 {
		t.Fatalf("Spark clustered %d times", n)
	}
	s.see("after Spark's clustering", commits-5, commits-3, commits-1)
	w.step(4)
	s.see("after our commit on top of it", commits-3, commits-1, commits)
	couch2hudi(t, "clean", "--table", w.table, "--policy", "commits", "--keep", "4")
	s.see("after our clean", commits-1, commits)
	s.cleanedAway()
	couch2hudi(t, "archive", "--table", w.table, "--keep-min", "20", "--keep-max", "21")
	s.see("after our archival", commits-1, commits)
}

// ranges are read again and again.
type ranges struct{ *tableWriter }

// see compares the changes between each two of the commits, given by their number, with
// the model.
func (s *ranges) see(when string, commits ...int) {
	s.t.Helper()
	var spans [][2]string
	for k, i := range commits {
		for _, j := range commits[k+1:] {
			spans = append(spans, [2]string{s.model.commits[i], s.model.commits[j]})
		}
	}
	for _, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(s.t, start)
		got, err := e.increments(s.table, spans)
		if err != nil {
			s.t.Fatalf("%s, %s: %v", e.name, when, err)
		}
		for i, span := range spans {
			want := s.model.incremental(span[0], span[1])
			if e.name == "spark-1.2" {
				want = withFolderNames(want)
			}
			if d := diff(inSchemaOf(got[i], want), got[i]); d != "" {
				s.t.Errorf("%s, %s: (%s, %s]: %s", e.name, when, span[0], span[1], d)
			}
		}
	}
	for _, span := range spans {
		got := ourRows(s.t, s.model, "query", "--table", s.table, "--format", "jsonl", "--since", span[0], "--until", span[1])
		want := s.model.incremental(span[0], span[1])
		if len(want) == 0 {
			s.t.Errorf("%s: nothing changes in (%s, %s]", when, span[0], span[1])
		}
		if d := diff(inSchemaOf(got, want), got); d != "" {
			s.t.Errorf("ours, %s: (%s, %s]: %s", when, span[0], span[1], d)
		}
	}
}

// cleanedAway reads each range from commit to commit that the clean did not keep.
func (s *ranges) cleanedAway() {
	s.t.Helper()
	gone := 0
	for i := range len(s.model.commits) - 1 {
		begin, end := s.model.commits[i], s.model.commits[i+1]
		const cleaned = 4
		code := exitOf(s.t, "query", "--table", s.table, "--since", begin, "--until", end)
		switch code {
		case cleaned:
			gone++
		case 0:
			got, want := ourRows(s.t, s.model, "query", "--table", s.table, "--format", "jsonl", "--since", begin, "--until", end), s.model.incremental(begin, end)
			if d := diff(inSchemaOf(got, want), got); d != "" {
				s.t.Errorf("ours, after the clean: (%s, %s]: %s", begin, end, d)
			}
		default:
			s.t.Errorf("query (%s, %s] ended with %d", begin, end, code)
		}
	}
	if gone == 0 {
		s.t.Error("the clean has taken nothing")
	}
	s.t.Logf("%d of %d ranges are cleaned away", gone, len(s.model.commits)-1)
}

// clusterings counts the completed replacecommits of a table.
func clusterings(t *testing.T, table string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(table, ".hoodie", "*.replacecommit"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// exitOf runs the binary and gives its exit code.
func exitOf(t *testing.T, args ...string) int {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}
