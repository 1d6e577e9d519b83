//go:build oracle

package e2e

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// verified is what verify prints as JSON.
type verified struct {
	Different map[string]int64 `json:"different"`
	Repaired  int64            `json:"repaired"`
	Samples   []struct {
		Difference, ID string
	} `json:"samples"`
}

// verify runs the command and checks its exit code.
func verify(t *testing.T, code int, config string, args ...string) (v verified) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatalf("build couch2hudi: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"verify", "-c", config, "--format", "json"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(path), "cache"))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || json.Unmarshal(out, &v) != nil {
		t.Errorf("verify %v: exit %d, want %d: %s %v", args, got, code, out, err)
	}
	return v
}

// TestVerifyFindsWhatSparkPlanted lets Spark change, delete, revive, invent and double
// rows of a table of ours: verify names each, in log files and compacted, and repairs
// it for Spark, too.
func TestVerifyFindsWhatSparkPlanted(t *testing.T) {
	const changed, gone, back, moved = "changed by Spark", "deleted by Spark", "brought back by Spark", "doubled by Spark"
	e := mustEngine(t, spark015)
	w := newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102"})
	config := w.args[3]
	w.put("2024-01-01", changed, gone, back, moved)
	w.step(30)
	if _, err := w.db.Delete(back); err != nil {
		t.Fatal(err)
	}
	w.step(30)
	verify(t, 0, config)

	s := &turns{tableWriter: w, e: e, options: map[string]string{"hoodie.index.type": "BLOOM"}, edits: map[string]row{}}
	rows := s.rowsOf(changed, back, moved)
	for _, r := range rows {
		switch r["_id"] {
		case changed:
			r["name"], r["_rev_order"] = "by Spark", r["_rev_order"].(int64)+1000
			invented := maps.Clone(r)
			invented["_id"] = "invented by Spark"
			rows = append(rows, invented)
		case back:
			r["_deleted"], r["_op"], r["_rev_order"] = false, "u", r["_rev_order"].(int64)+1000
		case moved:
			r["pt"] = "20300101"
		}
	}
	s.write("upsert", rows)
	s.write("delete", s.rowsOf(gone))
	want := map[string]string{changed: "wrong", gone: "missing", back: "resurrected", moved: "wrong_partition", "invented by Spark": "extra"}
	find := func(when string) {
		t.Helper()
		v := verify(t, 6, config)
		for _, sample := range v.Samples {
			if want[sample.ID] != sample.Difference {
				t.Errorf("%s: %q is %s, want %q", when, sample.ID, sample.Difference, want[sample.ID])
			}
		}
		if len(v.Samples) != len(want) {
			t.Errorf("%s: %v, want %v", when, v.Samples, want)
		}
	}
	find("log files")
	if _, err := e.ask(question{Op: "compact", Table: w.table}); err != nil {
		t.Fatal(err)
	}
	find("compacted")
	if v := verify(t, 0, config, "--repair"); v.Repaired != int64(len(want)) {
		t.Errorf("%d repaired", v.Repaired)
	}
	if d := diff(ourRows(t, w.model, "query", "--table", w.table, "--include-deleted", "--format", "jsonl"), mustRows(t, e, question{Op: "snapshot", Table: w.table})); d != "" {
		t.Errorf("Spark after the repair: %s", d)
	}
	w.put("2024-01-02", changed, gone, back, moved)
	couch2hudi(t, w.args...)
	verify(t, 0, config)
}

// TestVerifyWhatSparkCompacted: values of every type are equal when Spark has written
// them again.
func TestVerifyWhatSparkCompacted(t *testing.T) {
	c := newColumnsTable(t, "index: bloom", true)
	c.run()
	for i := range c.docs {
		if i%2 == 0 {
			c.put(i)
		}
	}
	c.run()
	if _, err := mustEngine(t, spark015).ask(question{Op: "compact", Table: c.table}); err != nil {
		t.Fatal(err)
	}
	verify(t, 0, c.config)
}
