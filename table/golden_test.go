package table_test

import (
	"archive/zip"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// golden is a table that Spark wrote, in a store, with what Spark says of it.
type golden struct {
	driver   storage.Driver
	Timeline []struct {
		Action    commitmeta.Action `json:"action"`
		File      string            `json:"file"`
		Requested hudi.Time         `json:"requested"`
		Completed hudi.Time         `json:"completed"`
		State     string            `json:"state"`
	} `json:"timeline"`
	Files      [][2]json.RawMessage `json:"files"`
	Properties map[string]string    `json:"properties"`
}

func load(t *testing.T, name string) *golden {
	t.Helper()
	r := must[*zip.ReadCloser](t)(zip.OpenReader("../testdata/golden/" + name + ".zip"))
	defer func() { _ = r.Close() }()
	g := &golden{driver: teststore.New(t)}
	b := bucketOf(g.driver)
	for _, e := range r.File {
		if strings.HasSuffix(e.Name, "/") {
			continue
		}
		rc := must[io.ReadCloser](t)(e.Open())
		data := must[[]byte](t)(io.ReadAll(rc))
		if path, ok := strings.CutPrefix(e.Name, "table/"); ok {
			if _, err := b.Put(t.Context(), path, data); err != nil {
				t.Fatal(err)
			}
		} else if e.Name == "expected.json" {
			if err := json.Unmarshal(data, g); err != nil {
				t.Fatal(err)
			}
		}
	}
	return g
}

// files are name and size of the data files that Spark listed, by partition.
func (g *golden) files(t *testing.T) map[string][]hudi.File {
	t.Helper()
	byPartition := map[string][]hudi.File{}
	for _, f := range g.Files {
		var name string
		var size int64
		if err := cmp.Or(json.Unmarshal(f[0], &name), json.Unmarshal(f[1], &size)); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, ".hoodie/") || strings.Contains(name, ".hoodie_partition_metadata") {
			continue
		}
		i := strings.LastIndexByte(name, '/')
		partition := name[:max(i, 0)]
		byPartition[partition] = append(byPartition[partition], hudi.File{Name: name[i+1:], Size: size})
	}
	return byPartition
}

// view opens a golden table to be read, as some have a metadata table.
func (g *golden) view(t *testing.T) *table.View {
	t.Helper()
	tb := must[*table.Table](t)(table.Open(t.Context(), bucketOf(g.driver), table.Options{ReadOnly: true}))
	return must[*table.View](t)(tb.View(t.Context()))
}

func goldenNames() []string {
	return []string{"w015-v6-bloom", "w015-v6-bloom-nomdt", "w015-v6-nonpartitioned", "w015-v6-hive-style", "w015-v6-global-bloom-move",
		"w015-v6-default-payload", "w015-v6-compaction-pending", "w015-v6-failed-rollback", "w015-v6-failed-rollback-nomarkers",
		"w015-v6-failed-inflight", "w015-v6-compaction-clean"}
}

// laterNames are golden tables of later versions.
func laterNames() []string {
	return []string{"w120-v8-bloom", "w120-v8-bucket", "w120-v9-bloom", "w120-v9-bloom-nomdt", "w120-v9-bucket-compaction", "w120-v9-cdc-compaction",
		"w120-v9-cdc-cow", "w120-v9-clustering", "w120-v9-compaction-clean", "w120-v9-compaction-pending", "w120-v9-failed-inflight",
		"w120-v9-failed-rollback", "w120-v9-failed-rollback-nomarkers", "w120-v9-insert-overwrite", "w120-v9-savepoint-restore", "w120-v9-archive"}
}

func TestGoldenTimeline(t *testing.T) {
	for _, name := range slices.Concat(goldenNames(), laterNames()) {
		t.Run(name, func(t *testing.T) {
			g := load(t, name)
			v := g.view(t)
			got := v.Instants()
			var want []timeline.Instant
			for _, i := range g.Timeline {
				state := map[string]timeline.State{"REQUESTED": timeline.Requested, "INFLIGHT": timeline.Inflight, "COMPLETED": timeline.Completed}[i.State]
				want = append(want, timeline.Instant{Time: i.Requested, Action: i.Action, State: state})
				when := i.Requested
				if name > "w120-v8" && state == timeline.Completed {
					when = i.Completed
				}
				if n := len(want) - 1; n < len(got) && v.When(got[n]) != when {
					t.Errorf("%s stands at %s, want %s", got[n], v.When(got[n]), when)
				}
			}
			if len(want) == 0 || !slices.EqualFunc(got, want, timeline.Instant.Same) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestGoldenProperties(t *testing.T) {
	for _, name := range slices.Concat(goldenNames(), laterNames()) {
		g := load(t, name)
		p := g.view(t).Table().Properties()
		for k, v := range g.Properties {
			if p.Get(k) != v {
				t.Errorf("%s: %s is %q, want %q", name, k, p.Get(k), v)
			}
		}
		if len(g.Properties) == 0 || p.CheckSum() != nil {
			t.Errorf("%s: %d properties, %v", name, len(g.Properties), p.CheckSum())
		}
	}
}

// wantSlices is what Spark's files and commits say the slices are, found in
// another way than by the code under test: the completed commits' stats name
// the base file that is the latest of each group, and the log files are those
// with its instant, or that of a pending compaction, in their names.
func (g *golden) wantSlices(t *testing.T, v *table.View) []hudi.Slice {
	t.Helper()
	var compacting hudi.Time
	inPlan := map[hudi.FileID]bool{}
	latest := map[hudi.Location]string{}
	for _, i := range v.Instants() {
		if i.Action == commitmeta.ActionCompaction {
			compacting = i.Time
			data := must[[]byte](t)(bucketOf(g.driver).ReadAll(t.Context(), ".hoodie/"+string(i.Time)+".compaction.requested", 1<<20))
			for _, o := range must[commitmeta.CompactionPlan](t)(commitmeta.DecodeCompactionPlan(data)).Operations {
				inPlan[o.File] = true
			}
		}
	}
	for _, i := range v.Writes() {
		b := must[commitmeta.Body](t)(v.Body(t.Context(), i))
		for partition, stats := range b.Stats {
			for _, s := range stats {
				if s.Log == nil {
					latest[hudi.Location{Partition: partition, File: s.File}] = s.Path[strings.LastIndexByte(s.Path, '/')+1:]
				}
			}
		}
	}
	var want []hudi.Slice
	for l, base := range latest {
		s := hudi.Slice{Location: l}
		var older, newer []hudi.File
		for _, f := range g.files(t)[l.Partition] {
			if f.Name == base {
				s.Base = f
				s.Instant = must[hudi.BaseFileName](t)(hudi.ParseBaseFileName(base)).Instant
			}
		}
		if s.Base.Name == "" {
			t.Fatalf("the latest base file %s is not among Spark's files", base)
		}
		if inPlan[l.File] {
			s.Compacting = compacting
		}
		for _, f := range g.files(t)[l.Partition] {
			if strings.HasPrefix(f.Name, "."+string(l.File)+"_"+string(s.Instant)+".log.") {
				older = append(older, f)
			} else if s.Compacting != "" && strings.HasPrefix(f.Name, "."+string(l.File)+"_"+string(compacting)+".log.") {
				newer = append(newer, f)
			}
		}
		s.Logs = slices.Concat(older, newer) // versions are below 10: the order of names is that of versions
		want = append(want, s)
	}
	slices.SortFunc(want, func(a, b hudi.Slice) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.File, b.File))
	})
	return want
}

func allSlices(t *testing.T, v *table.View) []hudi.Slice {
	t.Helper()
	var all []hudi.Slice
	for _, p := range must[[]string](t)(v.Partitions(t.Context())) {
		all = append(all, must[[]hudi.Slice](t)(v.Slices(t.Context(), p))...)
	}
	return all
}

func sameSlice(a, b hudi.Slice) bool {
	return a.Location == b.Location && a.Instant == b.Instant && a.Base == b.Base && a.Compacting == b.Compacting && slices.Equal(a.Logs, b.Logs)
}

func TestGoldenSlices(t *testing.T) {
	merged := 0
	for _, name := range goldenNames() {
		t.Run(name, func(t *testing.T) {
			g := load(t, name)
			v := g.view(t)
			got, want := allSlices(t, v), g.wantSlices(t, v)
			if len(want) == 0 || !slices.EqualFunc(got, want, sameSlice) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			for _, s := range got {
				if s.Compacting != "" {
					merged++
				}
			}
			g.sparkAgrees(t, v, got)
		})
	}
	if merged == 0 {
		t.Error("no golden table has a slice with a pending compaction")
	}
}

// sparkAgrees checks slices against what Spark itself wrote of them: the last
// log file's stat of each group names the slice's base file and log files.
func (g *golden) sparkAgrees(t *testing.T, v *table.View, got []hudi.Slice) {
	t.Helper()
	stats := map[hudi.Location]commitmeta.WriteStat{}
	for _, i := range v.Writes() {
		for p, list := range must[commitmeta.Body](t)(v.Body(t.Context(), i)).Stats {
			for _, s := range list {
				stats[hudi.Location{Partition: p, File: s.File}] = s
			}
		}
	}
	for _, s := range got {
		stat, ok := stats[s.Location]
		if !ok || stat.Log == nil {
			continue
		}
		if stat.Log.BaseFile != s.Base.Name && s.Compacting == "" {
			t.Errorf("base file %q, Spark has %q", s.Base.Name, stat.Log.BaseFile)
		}
		for _, l := range stat.Log.LogFiles {
			if !slices.ContainsFunc(s.Logs, func(f hudi.File) bool { return f.Name == l }) {
				t.Errorf("slice %+v lacks %q, which Spark names", s, l)
			}
		}
		i := slices.IndexFunc(s.Logs, func(f hudi.File) bool { return strings.HasSuffix(stat.Path, f.Name) })
		if i < 0 || s.Logs[i].Size != stat.Bytes {
			t.Errorf("slice %+v, last log by Spark %s of %d bytes", s, stat.Path, stat.Bytes)
		}
	}
}

// Looking back, no slice is based on a later instant, and each group that
// existed then is there.
func TestGoldenAsOf(t *testing.T) {
	for _, name := range goldenNames() {
		if name == "w015-v6-compaction-clean" {
			continue // the files of earlier slices are cleaned away
		}
		v := load(t, name).view(t)
		groups := map[hudi.FileID]bool{}
		for _, i := range v.Writes() {
			for _, stats := range must[commitmeta.Body](t)(v.Body(t.Context(), i)).Stats {
				for _, s := range stats {
					groups[s.File] = true
				}
			}
			past := v.AsOf(i.Time)
			if past.Last() != i.Time || past.At() != i.Time {
				t.Errorf("%s: as of %s the last is %s", name, i.Time, past.Last())
			}
			got := map[hudi.FileID]bool{}
			for _, s := range allSlices(t, past) {
				got[s.File] = true
				if s.Instant.After(i.Time) || s.Compacting.After(i.Time) || s.Base.Name == "" {
					t.Errorf("%s: as of %s: %+v", name, i.Time, s)
				}
			}
			if !maps.Equal(got, groups) {
				t.Errorf("%s: as of %s groups %v, want %v", name, i.Time, got, groups)
			}
			if next, err := i.Time.Next(); err != nil || past.Committed(next) || !past.Committed(i.Time) {
				t.Errorf("%s: as of %s: what is committed", name, i.Time)
			}
		}
		if got := allSlices(t, v.AsOf("20200101000000000")); len(got) > 0 {
			t.Errorf("%s: before its beginning: %+v", name, got)
		}
	}
}
