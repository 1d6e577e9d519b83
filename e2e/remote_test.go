//go:build oracle

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
)

// remote is a table that does not lie on a local disk.
type remote struct {
	// url is its name for us, with name another that Spark has for it, if it does.
	url, name string
	bucket    *storage.Bucket
	engines   []*engine
}

// check has the binary write the table, which is read there by us and by the engines,
// the first of which writes into it in turn.
func (r remote) check(t *testing.T) {
	t.Helper()
	name := r.name
	if name == "" {
		name = r.url
	}
	w := newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102"})
	w.table, w.model.told = r.url, false
	w.args = []string{"run", "--once", "--config", w.config()}
	step := func() string {
		t.Helper()
		if err := w.data.next(100); err != nil {
			t.Fatal(err)
		}
		couch2hudi(t, w.args...)
		commit := lastCommit(t, r.bucket)
		if err := w.model.apply(commit, documentsOf(w.db)); err != nil {
			t.Fatal(err)
		}
		return commit
	}
	step()
	step()
	edits := map[string]row{}
	read := func(when string) {
		t.Helper()
		want := w.model.snapshot()
		for i, was := range want {
			if edit, ok := edits[was["_id"].(string)]; ok {
				want[i] = w.model.complete([]row{edit})[0]
			}
		}
		got := ourRows(t, w.model, "query", "--table", w.table, "--include-deleted", "--format", "jsonl")
		if d := diff(inSchemaOf(got, want), got); d != "" {
			t.Errorf("we, %s: %s", when, d)
		}
		for _, e := range r.engines {
			if d := diff(want, mustRows(t, e, question{Op: "snapshot", Table: name})); d != "" {
				t.Errorf("%s, %s: %s", e.name, when, d)
			}
		}
	}
	read("after two commits")
	e := r.engines[0]
	sent := sparkEdits(mustRows(t, e, question{Op: "snapshot", Table: name}))
	a, err := e.ask(question{Op: "upsert", Table: name, Rows: sent, Options: map[string]string{"hoodie.index.type": "BLOOM"}})
	if err != nil {
		t.Fatal(err)
	}
	edits = editedRows(w.model.snapshot(), sent, a.Timeline[len(a.Timeline)-1].Requested)
	step()
	read("after Spark's upsert and our next commit")
}

// timelineOf are the files of a table's timeline that end so.
func timelineOf(t *testing.T, b *storage.Bucket, suffix string) (names []string) {
	t.Helper()
	for o, err := range b.ListFolders(t.Context(), ".hoodie/") {
		if err != nil {
			t.Fatal(err)
		}
		if name, ok := strings.CutSuffix(o.Name, suffix); ok {
			names = append(names, strings.TrimPrefix(name, ".hoodie/"))
		}
	}
	return names
}

// lastCommit is the newest completed delta commit, "" when there is none.
func lastCommit(t *testing.T, b *storage.Bucket) string {
	t.Helper()
	all := timelineOf(t, b, ".deltacommit")
	if len(all) == 0 {
		return ""
	}
	return slices.Max(all)
}
