package timeline_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

const goldenArchive = "../../testdata/golden/w015-v6-archive.zip"

// zipFiles are the files of an archive by name.
func zipFiles(t testing.TB, name string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// archives are the files of the golden archive in the order of their numbers.
func archives(t testing.TB, files map[string][]byte) [][]byte {
	t.Helper()
	byNumber := map[int][]byte{}
	for name, data := range files {
		if n, ok := timeline.ParseArchiveFileName(path.Base(name)); ok && strings.HasPrefix(name, "table/.hoodie/archived/") {
			byNumber[n] = data
		}
	}
	var list [][]byte
	for n := 1; byNumber[n] != nil; n++ {
		list = append(list, byNumber[n])
	}
	if len(list) < 2 || len(list) != len(byNumber) {
		t.Fatalf("%d of %d archives", len(list), len(byNumber))
	}
	return list
}

type archived struct {
	timeline.Instant
	commitmeta.ArchiveEntry
}

func readArchive(t testing.TB, data []byte) []archived {
	t.Helper()
	var all []archived
	for a, err := range timeline.ReadArchive(bytes.NewReader(data), int64(len(data))) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := a.Entry()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, archived{a.Instant, e})
	}
	return all
}

// expectedArchive is what Hudi itself read from the golden archive.
type expectedArchive struct {
	Archived []struct{ Requested, Action, State, Completed, Details string }
	Steps    []struct {
		Operation string
		Instants  []string
	}
}

// details are those of Hudi's JSON that the tests compare.
type details struct {
	Stats     map[string][]map[string]any `json:"partitionToWriteStats"`
	Extra     map[string]string           `json:"extraMetadata"`
	Operation string                      `json:"operationType"`
	Replaced  map[string][]hudi.FileID    `json:"partitionToReplaceFileIds"`
	Rollback  []hudi.Time                 `json:"commitsRollback"`
	Deleted   int                         `json:"totalFilesDeleted"`
	Earliest  hudi.Time                   `json:"earliestCommitToRetain"`
}

// TestGoldenArchive: what Hudi archived is read as Hudi reads it.
func TestGoldenArchive(t *testing.T) {
	files := zipFiles(t, goldenArchive)
	var want expectedArchive
	if err := json.Unmarshal(files["expected.json"], &want); err != nil {
		t.Fatal(err)
	}
	var got []archived
	for _, data := range archives(t, files) {
		got = append(got, readArchive(t, data)...)
	}
	// Hudi sorts what it read.
	slices.SortStableFunc(got, func(a, b archived) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.State, b.State))
	})
	if len(got) != len(want.Archived) || len(got) == 0 {
		t.Fatalf("%d entries, want %d", len(got), len(want.Archived))
	}
	seqs, kinds := 0, map[string]bool{}
	for i, w := range want.Archived {
		g := &got[i]
		if string(g.Time) != w.Requested || string(g.Action) != w.Action || strings.ToUpper(g.State.String()) != w.State ||
			string(g.Changed) != w.Completed || hudi.FormatTime(g.Modified) != g.Changed {
			t.Fatalf("entry %d: %+v, want %+v", i, g, w)
		}
		kinds[w.Action+" "+w.State] = true
		if w.Details == "" {
			continue
		}
		var d details
		if err := json.Unmarshal([]byte(w.Details), &d); err != nil {
			t.Fatal(err)
		}
		sameDetails(t, w.Action, &g.ArchiveEntry, &d)
		if g.Body != nil && g.Body.Extra[commitmeta.ExtraLastSeq] != "" {
			seqs++
		}
	}
	for _, k := range []string{"commit COMPLETED", "compaction REQUESTED", "replacecommit INFLIGHT", "clean COMPLETED", "rollback COMPLETED"} {
		if !kinds[k] {
			t.Errorf("no %s in the archive", k)
		}
	}
	if seqs < 5 {
		t.Errorf("%d commits with a last_seq", seqs)
	}
}

func sameDetails(t *testing.T, action string, e *commitmeta.ArchiveEntry, d *details) {
	t.Helper()
	switch action {
	case "clean":
		deleted := 0
		for _, p := range e.Clean.Partitions {
			deleted += len(p.Deleted)
		}
		if deleted != d.Deleted || e.Clean.Earliest != d.Earliest || deleted == 0 {
			t.Errorf("%+v, want %+v", e.Clean, d)
		}
	case "rollback":
		if len(d.Rollback) != 1 || e.Rollback.Target.Time != d.Rollback[0] || len(e.Rollback.Deleted) == 0 {
			t.Errorf("%+v, want %+v", e.Rollback, d)
		}
	default:
		delete(d.Extra, "ROLLING_STAT")
		b := e.Body
		if b.Operation != d.Operation || !reflect.DeepEqual(b.Extra, d.Extra) || !reflect.DeepEqual(b.Replaced, d.Replaced) || len(b.Stats) != len(d.Stats) ||
			b.Compacted != (action == "commit") {
			t.Errorf("%+v, want %+v", b, d)
		}
		if _, err := hudi.ParseSchema(b.Extra[commitmeta.ExtraSchema]); err != nil {
			t.Error(err)
		}
		for partition, stats := range d.Stats {
			for i, w := range stats {
				s := b.Stats[partition][i]
				_, notLog := hudi.ParseLogFileName(path.Base(s.Path))
				if string(s.File) != w["fileId"] || s.Path != w["path"] || s.Partition != w["partitionPath"] || float64(s.Bytes) != w["fileSizeInBytes"] ||
					float64(s.Writes) != w["numWrites"] || float64(s.Inserts) != w["numInserts"] || float64(s.Updates) != w["numUpdateWrites"] ||
					cmp.Or(string(s.PrevCommit), "null") != w["prevCommit"] || (s.Log == nil) != (notLog != nil) {
					t.Errorf("%+v, want %v", s, w)
				}
			}
		}
	}
}

// goldenTimelines calls f with every file of the timelines of the golden tables.
func goldenTimelines(t testing.TB, f func(i timeline.Instant, content []byte)) {
	t.Helper()
	names, err := filepath.Glob("../../testdata/golden/w015-v6-*.zip")
	if err != nil || len(names) == 0 {
		t.Fatalf("no golden tables: %v", err)
	}
	for _, name := range names {
		files := zipFiles(t, name)
		var all []timeline.Instant
		content := map[timeline.Instant][]byte{}
		for file, data := range files {
			rest, ok := strings.CutPrefix(file, "table/.hoodie/")
			i, isInstant := timeline.ParseFileName(hudi.Version6, rest)
			if !ok || !isInstant {
				continue
			}
			if clock, err := i.Time.Clock(); err == nil {
				i.Modified = clock.Add(time.Duration(i.State) * time.Second)
			}
			all = append(all, i)
			content[i] = data
		}
		slices.SortFunc(all, func(a, b timeline.Instant) int {
			return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Action, b.Action), cmp.Compare(a.State, b.State))
		})
		for _, i := range all {
			f(i, content[i])
		}
	}
}

// entryOf is what an archive must give back of a file of the timeline.
func entryOf(t *testing.T, i timeline.Instant, content []byte) commitmeta.ArchiveEntry {
	t.Helper()
	e := commitmeta.ArchiveEntry{ArchiveHead: commitmeta.ArchiveHead{Time: i.Time, Action: i.Action,
		State: commitmeta.ArchiveState(strings.ToUpper(i.State.String())), Changed: hudi.FormatTime(i.Modified)}}
	var err error
	switch {
	case i.Writes() && i.Action != commitmeta.ActionCompaction && (i.Action != commitmeta.ActionReplaceCommit || i.State != timeline.Requested && len(content) > 0):
		var b commitmeta.Body
		b, err = commitmeta.Decode(hudi.Version6, content)
		e.Body = lessened(&b)
	case len(content) == 0 || (i.Action == commitmeta.ActionRollback && !i.Done()):
	case i.Action == commitmeta.ActionCompaction:
		e.Compaction, err = pointer(commitmeta.DecodeCompactionPlan(content))
	case i.Action == commitmeta.ActionReplaceCommit:
		e.Replace, err = pointer(commitmeta.DecodeReplacePlan(content))
	case i.Action == commitmeta.ActionClean && i.Done():
		e.Clean, err = pointer(commitmeta.DecodeCleanResult(content))
	case i.Action == commitmeta.ActionClean:
		e.CleanPlan, err = pointer(commitmeta.DecodeCleanPlan(content))
	case i.Action == commitmeta.ActionRollback:
		e.Rollback, err = pointer(commitmeta.DecodeRollbackResult(content))
	case i.Action == commitmeta.ActionSavepoint:
		e.Savepoint, err = pointer(commitmeta.DecodeSavepoint(content))
	}
	if err != nil {
		t.Fatalf("%s: %v", i, err)
	}
	return e
}

func pointer[T any](v T, err error) (*T, error) { return &v, err }

// lessened is the body without what archives do not keep.
func lessened(b *commitmeta.Body) *commitmeta.Body {
	b.Operation = cmp.Or(b.Operation, "UNKNOWN")
	for _, stats := range b.Stats {
		for i := range stats {
			s := &stats[i]
			if s.CDC = nil; s.Log != nil {
				s.Log = &commitmeta.LogStat{Version: s.Log.Version}
			}
			s.Compaction.LogBytes = 0
		}
	}
	return b
}

// TestArchiveWhatHudiWrote: the timelines of all golden tables go into one
// archive of ours and come out as they were, by Hudi's own schema.
func TestArchiveWhatHudiWrote(t *testing.T) {
	var file bytes.Buffer
	w, err := timeline.NewArchiveWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	var want []commitmeta.ArchiveEntry
	restores := 0
	goldenTimelines(t, func(i timeline.Instant, content []byte) {
		err := w.Append(i, content)
		if i.Action == commitmeta.ActionRestore {
			if restores++; !errors.Is(err, commitmeta.ErrNotArchived) {
				t.Errorf("%s: %v", i, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, entryOf(t, i, content))
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := readArchive(t, file.Bytes())
	if len(got) != len(want) || len(want) < 100 || restores == 0 {
		t.Fatalf("%d entries, want %d; %d restores", len(got), len(want), restores)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i].ArchiveEntry, want[i]) {
			t.Errorf("got  %+v\nwant %+v", got[i].ArchiveEntry, want[i])
		}
	}
	if ours, hudis := schemaOf(t, file.Bytes()), schemaOf(t, archives(t, zipFiles(t, goldenArchive))[0]); ours != hudis {
		t.Errorf("schema\n%s\nwant\n%s", ours, hudis)
	}
}

// schemaOf is the schema of a log file's first block, whose only header it is.
func schemaOf(t *testing.T, data []byte) string {
	t.Helper()
	b, err := logfile.NewScanner(bytes.NewReader(data), int64(len(data))).Next()
	if err != nil || len(b.Header) != 1 || b.Type != logfile.AvroData {
		t.Fatalf("%+v, %v", b, err)
	}
	return b.Schema
}

// TestArchiveKeepsThePosition: what ingest goes on from survives.
func TestArchiveKeepsThePosition(t *testing.T) {
	body := commitmeta.Body{Operation: "UPSERT", Extra: map[string]string{commitmeta.ExtraLastSeq: "7-x", commitmeta.ExtraCheckpoint: `{"v":1,"sources":{"db":{"seq":"7-x"}}}`, "": "", "long": strings.Repeat("x", 40_000)},
		Stats: map[string][]commitmeta.WriteStat{"": {{File: "f-0", Path: ".f-0_20261130004415181.log.3_0-1-0", PrevCommit: at, Writes: 2, Deletes: 1, Bytes: 9, Log: &commitmeta.LogStat{Version: 3}}}}}
	content, err := commitmeta.Encode(hudi.Version6, body)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := timeline.NewArchiveWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	i := timeline.Instant{Time: at, Action: commitmeta.ActionDeltaCommit, State: timeline.Completed, Modified: time.Date(2026, 11, 30, 1, 2, 3, 4e6, time.UTC)}
	const many = 60 // more than a block
	for range many {
		if err := w.Append(i, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Append(i, []byte("[]")); !errors.Is(err, commitmeta.ErrDecode) {
		t.Errorf("no commit: %v", err)
	}
	if err := w.Append(timeline.Instant{Action: commitmeta.ActionCommit}, nil); err == nil {
		t.Error("an instant without a time was archived")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := readArchive(t, file.Bytes())
	if len(got) != many {
		t.Fatalf("%d entries", len(got))
	}
	for _, g := range got {
		if !g.Same(i) || !g.Modified.Equal(i.Modified) || !reflect.DeepEqual(*g.Body, body) {
			t.Fatalf("%+v", g)
		}
	}
}

// A torn append hides its own block and no other.
func TestArchiveTorn(t *testing.T) {
	for _, data := range archives(t, zipFiles(t, goldenArchive)) {
		whole := len(readArchive(t, data))
		for _, cut := range []int{1, 100, len(data) / 2, len(data) - 7} {
			if n := len(readArchive(t, data[:len(data)-cut])); n >= whole {
				t.Errorf("cut by %d: %d of %d entries", cut, n, whole)
			}
		}
		if n := len(readArchive(t, append(slices.Clone(data), data[:len(data)/2]...))); n < whole {
			t.Errorf("torn second block: %d of %d entries", n, whole)
		}
	}
}

func TestArchiveNames(t *testing.T) {
	for name, want := range map[string]int{".commits_.archive.1_1-0-1": 1, ".commits_.archive.12_0-1-0": 12, ".commits_.archive.3": 3,
		".commits_.archive.0_1-0-1": 0, ".commits_.archive.x_1": 0, "commits_.archive.1_1-0-1": 0, ".commits_.archive.": 0, "mergeArchivePlan": 0} {
		if n, ok := timeline.ParseArchiveFileName(name); ok != (want > 0) || (ok && n != want) {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
	if name := timeline.ArchiveFileName(4); name != ".commits_.archive.4_1-0-1" {
		t.Error(name)
	}
}

func FuzzReadArchive(f *testing.F) {
	var file bytes.Buffer
	w, err := timeline.NewArchiveWriter(&file)
	if err != nil {
		f.Fatal(err)
	}
	for _, state := range []timeline.State{timeline.Requested, timeline.Completed} {
		if err := w.Append(timeline.Instant{Time: at, Action: commitmeta.ActionDeltaCommit, State: state}, nil); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		for a, err := range timeline.ReadArchive(bytes.NewReader(data), int64(len(data))) {
			if err != nil {
				for _, known := range []error{commitmeta.ErrDecode, logfile.ErrCorrupt, logfile.ErrUnsupported, io.ErrUnexpectedEOF} {
					if errors.Is(err, known) {
						return
					}
				}
				t.Fatal(err)
			}
			if a.Time == "" {
				t.Fatal("an instant without a time")
			}
			if _, err := a.Entry(); err != nil && !errors.Is(err, commitmeta.ErrDecode) {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkReadArchive reads a day of commits: heads alone, and all of it.
func BenchmarkReadArchive(b *testing.B) {
	var file bytes.Buffer
	w, err := timeline.NewArchiveWriter(&file)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	goldenTimelines(b, func(i timeline.Instant, content []byte) {
		if i.Action != commitmeta.ActionRestore {
			n++
			if err := w.Append(i, content); err != nil {
				b.Fatal(err)
			}
		}
	})
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	for name, whole := range map[string]bool{"heads": false, "whole": true} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				for a, err := range timeline.ReadArchive(bytes.NewReader(file.Bytes()), int64(file.Len())) {
					if err == nil && whole {
						_, err = a.Entry()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/entry")
		})
	}
}
