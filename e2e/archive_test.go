//go:build oracle

package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// TestSparkReadsOurArchive archives the timelines of golden tables with our
// writer; Spark finds every state of every instant, with what it said, and reads
// the table on.
func TestSparkReadsOurArchive(t *testing.T) {
	for _, name := range []string{"w015-v6-compaction-clean", "w015-v6-insert-overwrite", "w015-v6-clustering", "w015-v6-failed-rollback"} {
		t.Run(name, func(t *testing.T) {
			e := mustEngine(t, spark015)
			dir := t.TempDir()
			unzip(t, "../testdata/golden/"+name+".zip", dir)
			table := filepath.Join(dir, "table")
			before := mustRows(t, e, question{Op: "snapshot", Table: table})
			want := archiveTimeline(t, filepath.Join(table, ".hoodie"))
			a, err := e.ask(question{Op: "archived", Table: table})
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Archived) != len(want) || len(want) == 0 {
				t.Fatalf("%d states, want %d: %+v", len(a.Archived), len(want), a.Archived)
			}
			for i, w := range want {
				g := a.Archived[i]
				if g.Requested != string(w.Time) || g.Action != string(w.Action) || !strings.EqualFold(g.State, w.State.String()) || g.Completed != string(hudi.FormatTime(w.Modified)) {
					t.Errorf("state %d is %+v; want %s", i, g, w)
				}
				checkDetails(t, g, w, filepath.Join(table, ".hoodie"))
			}
			if d := diff(before, mustRows(t, e, question{Op: "snapshot", Table: table})); d != "" {
				t.Errorf("with the archive: %s", d)
			}
		})
	}
}

// archiveTimeline copies the timeline in a folder into its archive, and says
// what is there in the order in which Hudi sorts it.
func archiveTimeline(t *testing.T, folder string) []timeline.Instant {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []timeline.Instant
	for _, e := range entries {
		i, ok := timeline.ParseFileName(hudi.Version6, e.Name())
		if !ok {
			continue
		}
		i.Modified = time.Date(2026, 12, 1, 0, 0, len(all), 0, time.UTC)
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b timeline.Instant) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.State, b.State))
	})
	var file bytes.Buffer
	w, err := timeline.NewArchiveWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if err := w.Append(i, instantFile(t, folder, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "archived"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "archived", timeline.ArchiveFileName(1)), file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return all
}

func instantFile(t *testing.T, folder string, i timeline.Instant) []byte {
	t.Helper()
	name, err := timeline.FileName(hudi.Version6, i)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkDetails holds what Spark says of a completed instant against its file.
func checkDetails(t *testing.T, g instant, w timeline.Instant, folder string) {
	t.Helper()
	if !w.Done() {
		return
	}
	var d struct {
		Extra     map[string]string           `json:"extraMetadata"`
		Operation string                      `json:"operationType"`
		Stats     map[string][]map[string]any `json:"partitionToWriteStats"`
		Replaced  map[string][]hudi.FileID    `json:"partitionToReplaceFileIds"`
		Rollback  []string                    `json:"commitsRollback"`
		Deleted   int                         `json:"totalFilesDeleted"`
	}
	if err := json.Unmarshal([]byte(g.Details), &d); err != nil {
		t.Errorf("%s: details %q: %v", w, g.Details, err)
		return
	}
	switch content := instantFile(t, folder, w); w.Action {
	case commitmeta.ActionClean:
		c, err := commitmeta.DecodeCleanResult(content)
		if err != nil || len(c.Partitions) == 0 || d.Deleted == 0 {
			t.Errorf("%s: %s, %v", w, g.Details, err)
		}
	case commitmeta.ActionRollback:
		if r, err := commitmeta.DecodeRollbackResult(content); err != nil || len(d.Rollback) != 1 || d.Rollback[0] != string(r.Target.Time) {
			t.Errorf("%s: %s, %v", w, g.Details, err)
		}
	default:
		b, err := commitmeta.Decode(hudi.Version6, content)
		if err != nil || d.Operation != b.Operation || d.Extra[commitmeta.ExtraSchema] != b.Extra[commitmeta.ExtraSchema] || len(d.Stats) != len(b.Stats) || len(d.Replaced) != len(b.Replaced) {
			t.Errorf("%s: %s, %v", w, g.Details, err)
		}
	}
}
