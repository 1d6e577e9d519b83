//go:build oracle

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestCompactionWithSpark: we compact, and every engine reads the same rows of
// every view as before; Spark runs a plan of ours; we run a plan of Spark's; and
// each goes on after the other.
func TestCompactionWithSpark(t *testing.T) {
	for i, start := range []func() (*engine, error){spark015, spark12} {
		t.Run([]string{"spark-0.15", "spark-1.2"}[i], func(t *testing.T) {
			t.Parallel()
			compactInTurns(t, mustEngine(t, start), mustEngine(t, hudiRs), modelOptions{partition: "createdAt", layout: "20060102", hard: i == 1})
		})
	}
}

func compactInTurns(t *testing.T, e, rs *engine, o modelOptions) {
	w := newTableWriter(t, o)
	w.args = append(w.args, "--compaction", "off")
	c := &compacting{tableWriter: w, spark: e, rs: rs}
	for range 3 {
		c.step(30)
	}
	c.same("our compaction", true, func() {
		if out := couch2hudi(t, "compact", "--table", w.table); !strings.Contains(out, "compacted") {
			t.Errorf("nothing compacted: %s", out)
		}
	})
	c.optimized("after our compaction")
	c.step(30)

	c.same("our plan", false, func() {
		if out := couch2hudi(t, "compact", "--table", w.table, "--schedule"); !strings.Contains(out, "planned") {
			t.Errorf("nothing planned: %s", out)
		}
	})
	c.step(30)
	c.same("Spark runs our plan", false, func() { c.ask("run") })
	if out := couch2hudi(t, "compact", "--table", w.table, "--execute"); !strings.Contains(out, "nothing") {
		t.Errorf("Spark left our plan: %s", out)
	}
	c.rows("after Spark ran our plan", rs)
	c.step(30)

	c.same("Spark's plan", false, func() { c.ask("schedule") })
	c.step(30)
	c.same("we run Spark's plan", false, func() {
		if out := couch2hudi(t, "compact", "--table", w.table, "--execute"); !strings.Contains(out, "compacted") {
			t.Errorf("no plan of Spark's: %s", out)
		}
	})
	c.rows("after we ran Spark's plan", rs)
	c.step(30)
	c.rows("in the end", e, rs)
	c.ask("") // both at once: nothing of ours is in its way
	c.optimized("after Spark's compaction")
	c.step(30)
	c.rows("after all", e, rs)
}

// compacting is a table that is compacted in turns.
type compacting struct {
	*tableWriter
	spark, rs *engine
}

// step is a commit that leaves log files.
func (c *compacting) step(n int) {
	c.t.Helper()
	c.stepWithLogs(n)
}

// stepWithLogs is a commit that leaves log files: in a folder without new documents
// no base file is written again.
func (w *tableWriter) stepWithLogs(n int) {
	w.t.Helper()
	w.put("2019-05-05", "one", "two", "three")
	w.step(n)
}

// ask lets Spark schedule or run, or both.
func (c *compacting) ask(only string) {
	c.t.Helper()
	if _, err := c.spark.ask(question{Op: "compact", Table: c.table, Only: only}); err != nil {
		c.t.Fatal(err)
	}
}

// rows compares engines and our own reader with the model.
func (c *compacting) rows(what string, es ...*engine) {
	c.t.Helper()
	want := c.model.snapshot()
	for _, e := range es {
		got := mustRows(c.t, e, question{Op: "snapshot", Table: c.table})
		if d := diff(inSchemaOf(got, want), got); d != "" {
			c.t.Errorf("%s: %s: %s", what, e.name, d)
		}
	}
	got := ourRows(c.t, c.model, "query", "--table", c.table, "--include-deleted", "--format", "jsonl")
	if d := diff(inSchemaOf(got, want), got); d != "" {
		c.t.Errorf("%s: ours: %s", what, d)
	}
}

// optimized: all rows are in base files.
func (c *compacting) optimized(what string) {
	c.t.Helper()
	want := c.model.snapshot()
	for _, e := range []*engine{c.spark, c.rs} {
		got := mustRows(c.t, e, question{Op: "read-optimized", Table: c.table})
		if d := diff(inSchemaOf(got, want), got); d != "" {
			c.t.Errorf("%s: read-optimized by %s: %s", what, e.name, d)
		}
	}
}

// same compares snapshot, the past and increments before and after a step.
// hudi-rs is asked where it can answer: it misreads a table of version 6 while a
// compaction is pending.
func (c *compacting) same(what string, all bool, step func()) {
	c.t.Helper()
	n := len(c.model.commits)
	past := c.model.commits[n/2]
	spans := [][2]string{{"000", c.model.commits[n-1]}, {past, c.model.commits[n-1]}}
	es := []*engine{c.spark}
	if all {
		es = append(es, c.rs)
	}
	look := func(e *engine) [][]row {
		increments, err := e.increments(c.table, spans)
		if err != nil {
			c.t.Fatal(err)
		}
		return append(increments, mustRows(c.t, e, question{Op: "snapshot", Table: c.table}),
			mustRows(c.t, e, question{Op: "time-travel", Table: c.table, AsOf: past}))
	}
	before := make([][][]row, len(es))
	for i, e := range es {
		before[i] = look(e)
	}
	step()
	c.rows("after "+what, c.spark)
	for i, e := range es {
		after := look(e)
		for k := range after {
			if d := diff(before[i][k], after[k]); d != "" {
				view := "snapshot, or the past"
				if k < len(spans) {
					view = "increment " + strings.Join(slices.Clone(spans[k][:]), " to ")
				}
				c.t.Errorf("%s: %s of %s differs: %s", what, view, e.name, d)
			}
		}
	}
}
