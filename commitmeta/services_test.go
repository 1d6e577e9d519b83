package commitmeta_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
)

func roundTrip[T any](t *testing.T, decode func([]byte) (T, error), encode func(T) ([]byte, error), values ...T) {
	t.Helper()
	for _, want := range values {
		data, err := encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
		if _, err := decode(data[:len(data)-20]); !errors.Is(err, commitmeta.ErrDecode) {
			t.Errorf("cut short: %v", err)
		}
	}
}

func TestServicesRoundTrip(t *testing.T) {
	group := hudi.Location{Partition: "pt=ä", File: "f-0"}
	strategy := &commitmeta.Strategy{Class: "a.B", Params: map[string]string{"k": "v"}}
	extra := map[string]string{"last_seq": "5-g1AAA"}
	roundTrip(t, commitmeta.DecodeCompactionPlan, commitmeta.EncodeCompactionPlan, commitmeta.CompactionPlan{}, commitmeta.CompactionPlan{
		Operations: []commitmeta.CompactionOperation{
			{Location: group, Instant: "20260101000000000", Base: "f-0_0-1-0_20260101000000000.parquet", Logs: []string{".f-0_20260101000000000.log.1_0-1-0"},
				Metrics: map[string]float64{commitmeta.MetricLogBytes: 1.5, commitmeta.MetricLogFiles: 1}, Bootstrap: "file:/x"},
			{Location: hudi.Location{File: "g-0"}, Instant: "20260101000000000", Logs: []string{"a", "b"}},
		}, Extra: extra, Strategy: strategy, KeepMeta: true})
	roundTrip(t, commitmeta.DecodeReplacePlan, commitmeta.EncodeReplacePlan, commitmeta.ReplacePlan{}, commitmeta.ReplacePlan{Operation: "CLUSTER", Extra: extra,
		Clustering: &commitmeta.ClusteringPlan{Strategy: strategy, Extra: extra, KeepMeta: true, Groups: []commitmeta.ClusteringGroup{{
			Slices:  []commitmeta.ClusteringSlice{{Location: group, Base: "file:/t/b", Logs: []string{"file:/t/l"}, Bootstrap: "x"}},
			Metrics: map[string]float64{"m": 1}, Outputs: 3, Extra: extra}}}})
	roundTrip(t, commitmeta.DecodeCleanPlan, commitmeta.EncodeCleanPlan, commitmeta.CleanPlan{Policy: commitmeta.KeepLatestFileVersions}, commitmeta.CleanPlan{
		Earliest:      commitmeta.InstantInfo{Time: "20260101000000000", Action: commitmeta.ActionDeltaCommit},
		LastCompleted: "20260101000000001", Policy: commitmeta.KeepLatestCommits, Partitions: []string{"p"}, Extra: extra,
		Files: map[string][]commitmeta.CleanFile{"": {{Path: "s3a://b/x"}, {Path: "y", Bootstrap: true}}, "pt=1": {{Path: "z"}}}})
	roundTrip(t, commitmeta.DecodeCleanResult, commitmeta.EncodeCleanResult, commitmeta.CleanResult{Start: "20260101000000000"}, commitmeta.CleanResult{
		Start: "20260101000000002", Millis: 7, Earliest: "20260101000000000", LastCompleted: "20260101000000001", Extra: extra,
		Partitions: map[string]commitmeta.CleanedPartition{"pt=1": {Policy: commitmeta.KeepLatestByHours, Planned: []string{"a", "b"}, Deleted: []string{"a"}, Failed: []string{"b"}, Gone: true}}})
	roundTrip(t, commitmeta.DecodeSavepoint, commitmeta.EncodeSavepoint, commitmeta.Savepoint{}, commitmeta.Savepoint{
		By: "me", Comment: "before", Millis: 1 << 40, Files: map[string][]string{"": {"a"}, "pt=1": {"b", "c"}}})
	instants := []commitmeta.InstantInfo{{Time: "20260101000000002", Action: "deltacommit"}, {Time: "20260101000000001", Action: "commit"}}
	roundTrip(t, commitmeta.DecodeRestorePlan, commitmeta.EncodeRestorePlan, commitmeta.RestorePlan{}, commitmeta.RestorePlan{Instants: instants, Savepoint: "20260101000000000"})
	roundTrip(t, commitmeta.DecodeRestoreResult, commitmeta.EncodeRestoreResult, commitmeta.RestoreResult{Start: "20260101000000009"}, commitmeta.RestoreResult{
		Start: "20260101000000009", Millis: 3, Instants: instants, Rollbacks: map[hudi.Time][]commitmeta.RollbackResult{instants[0].Time: {{Start: "20260101000000010", Millis: 1,
			Target: instants[0], Deleted: map[string][]string{"p": {"x"}}, Failed: map[string][]string{"p": {"y"}},
			CommandLogs: map[string]map[string]int64{"p": {"l": 105}}, FailedLogs: map[string]map[string]int64{"p": {"m": 7}}}}}})
}

// What no engine could run is not written.
func TestCompactionPlanRefuses(t *testing.T) {
	whole := commitmeta.CompactionOperation{Location: hudi.Location{File: "f-0"}, Instant: "20260101000000000", Logs: []string{"l"}}
	for name, spoil := range map[string]func(*commitmeta.CompactionOperation){
		"no group":   func(o *commitmeta.CompactionOperation) { o.File = "" },
		"no instant": func(o *commitmeta.CompactionOperation) { o.Instant = "" },
		"no logs":    func(o *commitmeta.CompactionOperation) { o.Logs = nil },
	} {
		o := whole
		spoil(&o)
		if _, err := commitmeta.EncodeCompactionPlan(commitmeta.CompactionPlan{Operations: []commitmeta.CompactionOperation{o}}); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func TestGoldenServices(t *testing.T) {
	goldenFiles(t, func(name string, data []byte) {
		p, err := commitmeta.DecodeReplacePlan(data)
		clustering := strings.Contains(name, "clustering")
		if err != nil || (p.Clustering != nil) != clustering || (len(p.Locations()) > 0) != clustering {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}, ".replacecommit.requested")
	goldenFiles(t, func(name string, data []byte) {
		r, err := commitmeta.DecodeCleanResult(data)
		if err != nil || len(r.Partitions) == 0 || r.Earliest == "" || r.Start.Compare(r.LastCompleted) <= 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}, ".clean")
	goldenFiles(t, func(name string, data []byte) {
		s, err := commitmeta.DecodeSavepoint(data)
		if err != nil || s.By != "golden" || s.Comment != "before trouble" || len(s.Files) != 3 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}, ".savepoint")
	goldenFiles(t, func(name string, data []byte) {
		r, err := commitmeta.DecodeRestoreResult(data)
		if err != nil || len(r.Instants) != 2 || len(r.Rollbacks) != 2 || r.Instants[0].Time.Compare(r.Instants[1].Time) <= 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}, ".restore")
}

// TestReplaceCommitAsHudi: the completed file of a replacecommit holds what
// Hudi's holds, key by key, but the statistics that we leave out.
func TestReplaceCommitAsHudi(t *testing.T) {
	goldenFiles(t, func(name string, data []byte) {
		b, err := commitmeta.Decode(hudi.Version6, data)
		if err != nil || len(b.Replaced) == 0 || len(b.Stats) == 0 {
			t.Fatalf("%s: %+v, %v", name, b, err)
		}
		ours, err := commitmeta.Encode(hudi.Version6, b)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		for into, text := range map[*map[string]any][]byte{&got: ours, &want: data} {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
			for _, stats := range (*into)["partitionToWriteStats"].(map[string]any) {
				for _, s := range stats.([]any) {
					delete(s.(map[string]any), "runtimeStats")
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, show(got), show(want))
		}
	}, ".replacecommit")
}

// FuzzServices: whatever a decoder takes comes out the same after another round.
func FuzzServices(f *testing.F) {
	seeds := []func() ([]byte, error){
		func() ([]byte, error) {
			return commitmeta.EncodeCleanPlan(commitmeta.CleanPlan{Files: map[string][]commitmeta.CleanFile{"p": {{Path: "x"}}}})
		},
		func() ([]byte, error) {
			return commitmeta.EncodeCleanResult(commitmeta.CleanResult{Partitions: map[string]commitmeta.CleanedPartition{"p": {Deleted: []string{"x"}}}})
		},
		func() ([]byte, error) {
			return commitmeta.EncodeSavepoint(commitmeta.Savepoint{Files: map[string][]string{"p": {"x"}}})
		},
		func() ([]byte, error) {
			return commitmeta.EncodeRestorePlan(commitmeta.RestorePlan{Instants: []commitmeta.InstantInfo{{Time: "1", Action: "commit"}}})
		},
		func() ([]byte, error) {
			return commitmeta.EncodeRestoreResult(commitmeta.RestoreResult{Rollbacks: map[hudi.Time][]commitmeta.RollbackResult{"1": {{}}}})
		},
		func() ([]byte, error) {
			return commitmeta.EncodeReplacePlan(commitmeta.ReplacePlan{Clustering: &commitmeta.ClusteringPlan{Groups: []commitmeta.ClusteringGroup{{Outputs: 1}}}})
		},
		func() ([]byte, error) {
			return commitmeta.EncodeCompactionPlan(commitmeta.CompactionPlan{Operations: []commitmeta.CompactionOperation{{Location: hudi.Location{File: "f"}, Instant: "1", Logs: []string{"l"}}}})
		},
	}
	for _, seed := range seeds {
		data, err := seed()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzRound(t, data, commitmeta.DecodeCleanPlan, commitmeta.EncodeCleanPlan)
		fuzzRound(t, data, commitmeta.DecodeCleanResult, commitmeta.EncodeCleanResult)
		fuzzRound(t, data, commitmeta.DecodeSavepoint, commitmeta.EncodeSavepoint)
		fuzzRound(t, data, commitmeta.DecodeRestorePlan, commitmeta.EncodeRestorePlan)
		fuzzRound(t, data, commitmeta.DecodeReplacePlan, commitmeta.EncodeReplacePlan)
		for _, err := range []error{second(commitmeta.DecodeRestoreResult(data)), second(commitmeta.DecodeCompactionPlan(data)), second(commitmeta.DecodeRollbackResult(data))} {
			if err != nil && !errors.Is(err, commitmeta.ErrDecode) {
				t.Fatal(err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func fuzzRound[T any](t *testing.T, data []byte, decode func([]byte) (T, error), encode func(T) ([]byte, error)) {
	t.Helper()
	v, err := decode(data)
	if err != nil {
		if !errors.Is(err, commitmeta.ErrDecode) {
			t.Fatal(err)
		}
		return
	}
	out, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	w, err := decode(out)
	if err != nil || show(w) != show(v) { // empty and missing are one here
		t.Fatalf("%+v\n%+v\n%v", v, w, err)
	}
}
