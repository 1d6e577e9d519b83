package commitmeta_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
)

func TestRollbackPlanRoundTrip(t *testing.T) {
	for _, want := range []commitmeta.RollbackPlan{
		{Target: commitmeta.InstantInfo{Time: "20260101000000000", Action: commitmeta.ActionDeltaCommit}},
		{Target: commitmeta.InstantInfo{Time: "20260101000000000", Action: commitmeta.ActionCommit},
			Files: []commitmeta.RollbackFile{{Partition: "pt=ä", Path: "file:/t/pt=ä/x.parquet"}, {Path: "y.parquet"}}},
	} {
		data, err := commitmeta.EncodeRollbackPlan(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := commitmeta.DecodeRollbackPlan(data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		if _, err := commitmeta.DecodeRollbackPlan(data[:len(data)-20]); !errors.Is(err, commitmeta.ErrDecode) {
			t.Errorf("cut short: %v", err)
		}
	}
	if _, err := commitmeta.EncodeRollbackPlan(commitmeta.RollbackPlan{Files: []commitmeta.RollbackFile{{Log: true}}}); err == nil {
		t.Error("a plan that undoes blocks was encoded")
	}
}

func TestRollbackResultRoundTrip(t *testing.T) {
	want := commitmeta.RollbackResult{Start: "20260101000000001", Millis: 12,
		Target:  commitmeta.InstantInfo{Time: "20260101000000000", Action: commitmeta.ActionDeltaCommit},
		Deleted: map[string][]string{"": {"a", "b"}, "pt=1": {"c"}}}
	data, err := commitmeta.EncodeRollbackResult(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := commitmeta.DecodeRollbackResult(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestGoldenPlans(t *testing.T) {
	goldenFiles(t, func(name string, data []byte) {
		p, err := commitmeta.DecodeRollbackPlan(data)
		if err != nil || len(p.Target.Time) != 17 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		if p.Target.Action == commitmeta.ActionCompaction {
			return // in the table with the archive: base files to delete, and no logs
		}
		// The table whose markers were gone has an empty plan, the other names
		// a base file to delete and three log files with blocks to undo.
		logs, files := 0, 0
		for _, f := range p.Files {
			if f.Log {
				logs++
			} else if files++; !strings.HasSuffix(f.Path, string(p.Target.Time)+".parquet") {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if nomarkers := strings.Contains(name, "nomarkers"); nomarkers != (files == 0) || nomarkers != (logs == 0) {
			t.Errorf("%s: %d files, %d logs", name, files, logs)
		}
	}, ".rollback.requested")
	goldenFiles(t, func(name string, data []byte) {
		r, err := commitmeta.DecodeRollbackResult(data)
		if err != nil || r.Target.Time == "" || r.Start.Compare(r.Target.Time) <= 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}, ".rollback")
	goldenFiles(t, func(name string, data []byte) {
		p, err := commitmeta.DecodeCompactionPlan(data)
		if err != nil || len(p.Operations) == 0 {
			t.Fatalf("%s: %+v, %v", name, p, err)
		}
		for _, o := range p.Operations {
			n, err := hudi.ParseBaseFileName(o.Base)
			if err != nil || n.File != o.File || n.Instant != o.Instant || len(o.Logs) == 0 || o.Partition == "" {
				t.Errorf("%s: %+v, %v", name, o, err)
			}
			for _, l := range o.Logs {
				if n, err := hudi.ParseLogFileName(l); err != nil || n.File != o.File {
					t.Errorf("%s: %q: %v", name, l, err)
				}
			}
		}
	}, ".compaction.requested")
}

func TestReplacePlan(t *testing.T) {
	if p, err := commitmeta.DecodeReplacePlan(nil); err != nil || p.Clustering != nil {
		t.Errorf("empty: %+v, %v", p, err)
	}
	if _, err := commitmeta.DecodeReplacePlan([]byte("Obj\x01nonsense")); !errors.Is(err, commitmeta.ErrDecode) {
		t.Errorf("nonsense: %v", err)
	}
}

func FuzzPlans(f *testing.F) {
	seed, err := commitmeta.EncodeRollbackPlan(commitmeta.RollbackPlan{
		Target: commitmeta.InstantInfo{Time: "20260101000000000", Action: "commit"},
		Files:  []commitmeta.RollbackFile{{Partition: "p", Path: "p/x"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("Obj\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := commitmeta.DecodeCompactionPlan(data)
		if err != nil && !errors.Is(err, commitmeta.ErrDecode) {
			t.Fatal(err)
		}
		if _, err := commitmeta.DecodeReplacePlan(data); err != nil && !errors.Is(err, commitmeta.ErrDecode) {
			t.Fatal(err)
		}
		p, err := commitmeta.DecodeRollbackPlan(data)
		if err != nil {
			return
		}
		for _, file := range p.Files {
			if file.Log {
				return
			}
		}
		again, err := commitmeta.EncodeRollbackPlan(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := commitmeta.DecodeRollbackPlan(again)
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v, %+v, %v", p, q, err)
		}
	})
}
