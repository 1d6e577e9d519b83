package timeline_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

const at = hudi.Time("20261130004415181")

// The names of format §2.2, version 6; "" where the table has none.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		action                         commitmeta.Action
		requested, inflight, completed string
	}{
		{commitmeta.ActionCommit, "commit.requested", "inflight", "commit"},
		{commitmeta.ActionDeltaCommit, "deltacommit.requested", "deltacommit.inflight", "deltacommit"},
		{commitmeta.ActionCompaction, "compaction.requested", "compaction.inflight", ""},
		{commitmeta.ActionLogCompaction, "logcompaction.requested", "logcompaction.inflight", ""},
		{commitmeta.ActionReplaceCommit, "replacecommit.requested", "replacecommit.inflight", "replacecommit"},
		{commitmeta.ActionClean, "clean.requested", "clean.inflight", "clean"},
		{commitmeta.ActionRollback, "rollback.requested", "rollback.inflight", "rollback"},
		{commitmeta.ActionRestore, "restore.requested", "restore.inflight", "restore"},
		{commitmeta.ActionSavepoint, "", "savepoint.inflight", "savepoint"},
		{commitmeta.ActionIndexing, "indexing.requested", "indexing.inflight", "indexing"},
	} {
		for s, want := range []string{c.requested, c.inflight, c.completed} {
			i := timeline.Instant{Time: at, Action: c.action, State: timeline.State(s)}
			name, err := timeline.FileName(hudi.Version6, i)
			if want == "" {
				if !errors.Is(err, timeline.ErrName) {
					t.Errorf("%s: %q, %v", i, name, err)
				}
				continue
			}
			if err != nil || name != string(at)+"."+want {
				t.Errorf("%s: %q, %v", i, name, err)
			}
			if back, ok := timeline.ParseFileName(hudi.Version6, name); !ok || !back.Same(i) {
				t.Errorf("%q: %s, %v", name, back, ok)
			}
		}
	}
}

func TestNoNames(t *testing.T) {
	for _, name := range []string{"", "hoodie.properties", "hoodie.properties.backup", ".temp/", "archived/", string(at), string(at) + ".",
		string(at) + ".commit.inflight", string(at) + ".commit.done", string(at) + ".unknown", string(at) + ".compaction",
		string(at) + ".logcompaction", string(at) + ".savepoint.requested", string(at) + ".requested", string(at) + "_" + string(at) + ".commit",
		"2026113000441518x.commit", "2026.commit", "." + string(at) + ".commit.crc", string(at) + ".schemacommit", string(at) + ".commit/"} {
		if i, ok := timeline.ParseFileName(hudi.Version6, name); ok {
			t.Errorf("%q is %s", name, i)
		}
	}
	for _, i := range []timeline.Instant{{}, {Time: at}, {Time: at, Action: "unknown"}, {Action: commitmeta.ActionCommit}, {Time: at, Action: commitmeta.ActionCommit, State: 7}} {
		if name, err := timeline.FileName(hudi.Version6, i); !errors.Is(err, timeline.ErrName) {
			t.Errorf("%s: %q, %v", i, name, err)
		}
	}
}

func TestList(t *testing.T) {
	ctx, b := t.Context(), storage.New(teststore.New(t), nil)
	for _, name := range []string{
		"20260103000000000.deltacommit.requested", "20260103000000000.deltacommit.inflight", "20260103000000000.deltacommit",
		"20260101000000.commit", "20260101000000.inflight", // of an old release
		"20260104000000000.compaction.requested", "20260104000000000.compaction.inflight", "20260104000000000.commit",
		"20260105000000000.compaction.requested",
		"20260106000000000.logcompaction.requested", "20260106000000000.deltacommit",
		"20260107000000000.inflight",
		"20260103000000000.savepoint.inflight", "20260103000000000.savepoint",
		"20260108000000000.rollback.inflight",
		"hoodie.properties", "archived/.commits_.archive.1_1-0-1", ".temp/20260109000000000/x.marker.CREATE", "20260110000000000.nonsense",
		"metadata/.hoodie/20260111000000000.deltacommit",
	} {
		if _, err := b.Put(ctx, ".hoodie/"+name, nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err := timeline.List(ctx, b, hudi.Version6)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"20260101000000 commit completed",
		"20260103000000000 deltacommit completed",
		"20260103000000000 savepoint completed",
		"20260104000000000 commit completed",
		"20260105000000000 compaction requested",
		"20260106000000000 deltacommit completed",
		"20260107000000000 commit inflight",
		"20260108000000000 rollback inflight",
	}
	var text []string
	for _, i := range got {
		text = append(text, i.String())
		if i.Modified.IsZero() {
			t.Errorf("%s has no modification time", i)
		}
	}
	if !slices.Equal(text, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
	}
	if _, err := timeline.List(ctx, b, 7); !errors.Is(err, timeline.ErrVersion) {
		t.Errorf("version 7: %v", err)
	}
	if later, err := timeline.List(ctx, b, hudi.Version9); err != nil || len(later) != 0 {
		t.Errorf("as a table of version 9: %v, %v", later, err)
	}
	broken := storage.New(storagetest.Faults(teststore.New(t), storagetest.Fault{Kind: storagetest.List, N: 1}), nil)
	if _, err := timeline.List(context.Background(), broken, hudi.Version6); !errors.Is(err, storagetest.ErrFault) {
		t.Errorf("a listing that fails: %v", err)
	}
}

func TestWrites(t *testing.T) {
	for a, want := range map[commitmeta.Action]bool{"commit": true, "deltacommit": true, "compaction": true, "logcompaction": true, "replacecommit": true,
		"clean": false, "rollback": false, "restore": false, "savepoint": false, "indexing": false} {
		if got := (timeline.Instant{Time: at, Action: a}).Writes(); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
}

// A log file's writers, as appended to by several commits, and cut short.
func TestLogInstants(t *testing.T) {
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, at := range []hudi.Time{"20260102000000000", "20260101000000000", "20260102000000000"} {
		w, err := logfile.NewWriter(&b, s, logfile.WriterOptions{Stamp: hudi.Stamp{Instant: at}, File: "f-0"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Append(&hudi.Record{Key: hudi.Key{Record: "a"}, Row: hudi.Row{hudi.String("a")}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	data := b.Bytes()
	for _, c := range []struct {
		size  int
		want  []hudi.Time
		whole bool
	}{
		{len(data), []hudi.Time{"20260101000000000", "20260102000000000"}, true},
		{len(data) - 1, []hudi.Time{"20260101000000000", "20260102000000000"}, false},
		{len(data) / 3, []hudi.Time{"20260102000000000"}, true},
		{len(data)/3 - 1, nil, false},
		{0, nil, true},
	} {
		got, whole, err := timeline.LogInstants(bytes.NewReader(data[:c.size]), int64(c.size))
		if err != nil || whole != c.whole || !slices.Equal(got, c.want) {
			t.Errorf("%d bytes: %v, %v, %v", c.size, got, whole, err)
		}
	}
	if _, _, err := timeline.LogInstants(bytes.NewReader(nil), 100); err == nil {
		t.Error("a file shorter than said was read")
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"20261130004415181.deltacommit.requested", "20261130004415181.inflight", "20261130004415.commit", "x.y.z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		i, ok := timeline.ParseFileName(hudi.Version6, name)
		if !ok {
			return
		}
		back, err := timeline.FileName(hudi.Version6, i)
		if err != nil || back != name {
			t.Fatalf("%q: %s, back %q, %v", name, i, back, err)
		}
	})
}
