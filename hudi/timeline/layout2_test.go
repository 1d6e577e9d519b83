package timeline_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

func TestLaterNames(t *testing.T) {
	const begun, done = "20260102030405006", "20260102030405999"
	for name, want := range map[string]timeline.Instant{
		begun + "_" + done + ".deltacommit":      {Time: begun, Completion: done, Action: commitmeta.ActionDeltaCommit, State: timeline.Completed},
		begun + "_" + done + ".commit":           {Time: begun, Completion: done, Action: commitmeta.ActionCommit, State: timeline.Completed},
		begun + "_" + done + ".replacecommit":    {Time: begun, Completion: done, Action: commitmeta.ActionReplaceCommit, State: timeline.Completed},
		begun + "_" + done + ".savepoint":        {Time: begun, Completion: done, Action: commitmeta.ActionSavepoint, State: timeline.Completed},
		begun + ".deltacommit":                   {Time: begun, Action: commitmeta.ActionDeltaCommit, State: timeline.Completed},
		begun + ".deltacommit.requested":         {Time: begun, Action: commitmeta.ActionDeltaCommit, State: timeline.Requested},
		begun + ".deltacommit.inflight":          {Time: begun, Action: commitmeta.ActionDeltaCommit, State: timeline.Inflight},
		begun + ".inflight":                      {Time: begun, Action: commitmeta.ActionCommit, State: timeline.Inflight},
		begun + ".clustering.requested":          {Time: begun, Action: commitmeta.ActionClustering, State: timeline.Requested},
		begun + ".clustering.inflight":           {Time: begun, Action: commitmeta.ActionClustering, State: timeline.Inflight},
		begun + ".replacecommit.inflight":        {Time: begun, Action: commitmeta.ActionReplaceCommit, State: timeline.Inflight},
		"20260102030405_20260102030406.rollback": {Time: "20260102030405", Completion: "20260102030406", Action: commitmeta.ActionRollback, State: timeline.Completed},
	} {
		for _, v := range []hudi.Version{hudi.Version8, hudi.Version9} {
			got, ok := timeline.ParseFileName(v, name)
			if !ok || got != want {
				t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
			}
			if back, err := timeline.FileName(v, want); err != nil || back != name {
				t.Errorf("%+v is named %q, %v, want %s", want, back, err, name)
			}
		}
		_, old := timeline.ParseFileName(hudi.Version6, name)
		if later := strings.Contains(name, "_") || want.Action == commitmeta.ActionClustering; old == later {
			t.Errorf("%s in a table of version 6: %v", name, old)
		}
	}
	for _, name := range []string{"", "x", begun, begun + "_.commit", "_" + done + ".commit", begun + "_x.commit", begun + "_" + done + "_1.commit", begun + "_" + done + ".clustering",
		begun + "_" + done + ".commit.requested", begun + "_" + done + ".inflight", begun + ".clustering", begun + ".clustering.x", begun + "_" + done + ".compaction",
		begun + ".commit.inflight", "history", "manifest_1", "_version_", begun + "_" + done + "_0.parquet"} {
		if i, ok := timeline.ParseFileName(hudi.Version9, name); ok {
			t.Errorf("%q is %s", name, i)
		}
	}
	// Whoever asks for an earlier state of a completed instant gets its name.
	if name, err := timeline.FileName(hudi.Version9, timeline.Instant{Time: begun, Completion: done, Action: commitmeta.ActionRestore}); err != nil || name != begun+".restore.requested" {
		t.Errorf("%q, %v", name, err)
	}
	for _, v := range []hudi.Version{0, 5, 7, 10} {
		if _, err := timeline.FileName(v, timeline.Instant{Time: begun, Action: commitmeta.ActionCommit}); !errors.Is(err, timeline.ErrVersion) {
			t.Errorf("version %s: %v", v, err)
		}
		if _, ok := timeline.ParseFileName(v, begun+".commit"); ok {
			t.Errorf("version %s has instants", v)
		}
	}
	if _, err := timeline.FileName(hudi.Version9, timeline.Instant{Time: begun, Action: commitmeta.ActionClustering, State: timeline.Completed}); !errors.Is(err, timeline.ErrName) {
		t.Errorf("a completed clustering has a name: %v", err)
	}
}

func TestMergeClustering(t *testing.T) {
	list := timeline.Merge([]timeline.Instant{{Time: "1", Action: commitmeta.ActionClustering}, {Time: "2", Action: commitmeta.ActionClustering},
		{Time: "2", Action: commitmeta.ActionReplaceCommit, State: timeline.Completed}, {Time: "2", Action: commitmeta.ActionClustering, State: timeline.Inflight}})
	if len(list) != 2 || list[0].Action != commitmeta.ActionClustering || list[1].Action != commitmeta.ActionReplaceCommit || !list[0].Writes() {
		t.Errorf("%v", list)
	}
}

// history are the files of the golden table's history, by name.
func history(t testing.TB) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader("../../testdata/golden/w120-v9-archive.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string][]byte{}
	for _, e := range z.File {
		if path.Dir(e.Name) != "table/.hoodie/timeline/history" {
			continue
		}
		r, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[path.Base(e.Name)], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestHistory(t *testing.T) {
	files := history(t)
	manifest, err := timeline.ParseManifest(files[timeline.ManifestName(7)])
	if err != nil || len(manifest) != 7 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	actions := map[commitmeta.Action]int{}
	for _, f := range manifest {
		data := files[f.Name]
		if f.Bytes != int64(len(data)) || f.Layer != 0 {
			t.Errorf("%+v has %d bytes", f, len(data))
		}
		var times []hudi.Time
		for a, err := range timeline.ReadHistory(hudi.Version9, bytes.NewReader(data), f.Bytes, true) {
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			times = append(times, a.Time)
			actions[a.Action]++
			e, err := a.Entry()
			if err != nil || !a.Done() || !a.Completion.After(a.Time) {
				t.Errorf("%s completed %s: %v", a, a.Completion, err)
			}
			switch a.Action {
			case commitmeta.ActionClean:
				if e.Clean == nil || e.Clean.Earliest == "" {
					t.Errorf("%s: %+v", a, e.Clean)
				}
			case commitmeta.ActionRollback:
				if e.Rollback == nil || e.Rollback.Target.Time == "" {
					t.Errorf("%s: %+v", a, e.Rollback)
				}
			default:
				if e.Body == nil || e.Body.Extra[commitmeta.ExtraSchema] == "" || !a.Mentions(commitmeta.ExtraSchema) {
					t.Errorf("%s: %+v", a, e.Body)
				}
			}
		}
		if len(times) == 0 || times[0] != f.First || times[len(times)-1] != f.Last {
			t.Errorf("%s holds %v", f.Name, times)
		}
		n := 0
		for a, err := range timeline.ReadHistory(hudi.Version9, bytes.NewReader(data), f.Bytes, false) {
			if err != nil || a.Time != times[n] || a.Bytes() != 0 {
				t.Errorf("without bodies: %v, %v", a, err)
			}
			n++
		}
	}
	if actions[commitmeta.ActionDeltaCommit] == 0 || actions[commitmeta.ActionCommit] == 0 || actions[commitmeta.ActionReplaceCommit] == 0 ||
		actions[commitmeta.ActionClean] == 0 || actions[commitmeta.ActionRollback] == 0 {
		t.Errorf("%v", actions)
	}
	for text, want := range map[string]int{"manifest_12": 12, "manifest_0": 0, "manifest_": -1, "manifest_-1": -1, "manifest_01": -1, "manifest_1.crc": -1, "_version_": -1} {
		if n, ok := timeline.ParseManifestName(text); ok != (want >= 0) || (ok && n != want) {
			t.Errorf("%q: %d, %v", text, n, ok)
		}
	}
}

func FuzzHistory(f *testing.F) {
	for name, data := range history(f) {
		if strings.HasSuffix(name, "_0.parquet") {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, bodies := range []bool{false, true} {
			for a, err := range timeline.ReadHistory(hudi.Version9, bytes.NewReader(data), int64(len(data)), bodies) {
				if err == nil && bodies {
					_, err = a.Entry()
				}
				if err != nil {
					if !errors.Is(err, commitmeta.ErrDecode) {
						t.Fatal(err)
					}
					break
				}
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"files":[{"fileName":"20260102030405006_20260102030405007_1.parquet","fileLen":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := timeline.ParseManifest(data)
		if err != nil && !errors.Is(err, commitmeta.ErrDecode) {
			t.Fatal(err)
		}
		for _, h := range files {
			if strings.ContainsAny(h.Name, "/\\") {
				t.Fatalf("%q", h.Name)
			}
		}
	})
}

func FuzzLaterNames(f *testing.F) {
	for _, seed := range []string{"20261130004415181_20261130004415182.deltacommit", "20261130004415181.clustering.requested", "20261130004415.commit", "x_y.z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		i, ok := timeline.ParseFileName(hudi.Version9, name)
		if !ok {
			return
		}
		if back, err := timeline.FileName(hudi.Version9, i); err != nil || back != name {
			t.Fatalf("%q: %s, back %q, %v", name, i, back, err)
		}
	})
}
