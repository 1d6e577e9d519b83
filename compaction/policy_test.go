package compaction_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// sliceWith is a slice of a base file of so many bytes and log files of some.
func sliceWith(name string, base int64, logs ...int64) hudi.Slice {
	s := hudi.Slice{Location: hudi.Location{Partition: "pt=1", File: hudi.FileID(name)}, Instant: "20260101000000000"}
	if base > 0 {
		s.Base = hudi.File{Name: name + "_0-0-0_20260101000000000.parquet", Size: base}
	}
	for i, n := range logs {
		s.Logs = append(s.Logs, hudi.File{Name: fmt.Sprintf(".%s_20260101000000000.log.%d_0-0-0", name, i+1), Size: n})
	}
	return s
}

func times(n int, each int64) []int64 { return slices.Repeat([]int64{each}, n) }

func TestPlanCompact(t *testing.T) {
	const mb = 1 << 20
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	pending := sliceWith("pending", mb, times(20, 1)...)
	pending.Compacting = "20260101100000000"
	age := func(ages ...any) map[hudi.Location]time.Time {
		m := map[hudi.Location]time.Time{}
		for i := 0; i < len(ages); i += 2 {
			m[hudi.Location{Partition: "pt=1", File: hudi.FileID(ages[i].(string))}] = now.Add(-ages[i+1].(time.Duration))
		}
		return m
	}
	for name, c := range map[string]struct {
		slices  []hudi.Slice
		history compaction.History
		policy  compaction.Policy
		want    []string
	}{
		"nothing": {},
		"no logs": {slices: []hudi.Slice{sliceWith("a", mb)}},
		"few and young": {slices: []hudi.Slice{sliceWith("a", mb, times(9, 10)...)},
			history: compaction.History{Oldest: age("a", 9*time.Minute)}},
		"many": {slices: []hudi.Slice{sliceWith("a", mb, times(10, 10)...), sliceWith("b", mb, 10)},
			history: compaction.History{Oldest: age("a", time.Minute, "b", time.Minute)}, want: []string{"a"}},
		"old": {slices: []hudi.Slice{sliceWith("a", mb, 10), sliceWith("b", mb, 10)},
			history: compaction.History{Oldest: age("a", time.Minute, "b", 10*time.Minute)}, want: []string{"b"}},
		"of an age not known": {slices: []hudi.Slice{sliceWith("a", mb, 10)}, want: []string{"a"}},
		"logs alone": {slices: []hudi.Slice{sliceWith("a", 0, 10)},
			history: compaction.History{Oldest: age("a", 11*time.Minute)}, want: []string{"a"}},
		"large logs": {slices: []hudi.Slice{sliceWith("a", 1000*mb, 256*mb)},
			history: compaction.History{Oldest: age("a", time.Second)}, want: []string{"a"}},
		"logs that are half of the base": {slices: []hudi.Slice{sliceWith("a", 40*mb, 20*mb), sliceWith("b", 100*mb, 20*mb)},
			history: compaction.History{Oldest: age("a", time.Second, "b", time.Second)}, want: []string{"a"}},
		"small logs on a small base": {slices: []hudi.Slice{sliceWith("a", 100, 200)},
			history: compaction.History{Oldest: age("a", time.Second)}},
		"pending": {slices: []hudi.Slice{pending}},
		"being clustered": {slices: []hudi.Slice{sliceWith("a", mb, times(20, 1)...)},
			history: compaction.History{Busy: map[hudi.Location]bool{{Partition: "pt=1", File: "a"}: true}}},
		"a moment after the last plan": {slices: []hudi.Slice{sliceWith("a", mb, times(20, 1)...)},
			history: compaction.History{Last: now.Add(-59 * time.Second)}},
		"a minute after the last plan": {slices: []hudi.Slice{sliceWith("a", mb, times(20, 1)...)},
			history: compaction.History{Last: now.Add(-time.Minute)}, want: []string{"a"}},
		"the worst first, as far as one plan goes": {
			slices: []hudi.Slice{sliceWith("a", mb, times(11, 1)...), sliceWith("b", mb, times(30, 1)...), sliceWith("c", mb, times(20, 1)...)},
			policy: compaction.Policy{MaxIO: 5 * mb}, history: compaction.History{Oldest: age("a", 0*time.Second, "b", 0*time.Second, "c", 0*time.Second)},
			want: []string{"b", "c"}},
		"one in any case": {slices: []hudi.Slice{sliceWith("a", 100*mb, times(11, 1)...), sliceWith("b", mb, times(10, 1)...)},
			policy: compaction.Policy{MaxIO: mb}, history: compaction.History{Oldest: age("a", 0*time.Second, "b", 0*time.Second)}, want: []string{"a"}},
		"a policy of one's own": {slices: []hudi.Slice{sliceWith("a", mb, 1, 1), sliceWith("b", mb, 1)},
			history: compaction.History{Oldest: age("a", 0*time.Second, "b", time.Second)},
			policy:  compaction.Policy{MaxDeltaCommits: 2, MaxAge: time.Second}, want: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.slices)
			plan, ok := compaction.PlanCompact(c.slices, c.history, c.policy, now)
			var got []string
			for _, o := range plan.Operations {
				got = append(got, string(o.File))
			}
			if !slices.Equal(got, c.want) || ok != (len(c.want) > 0) {
				t.Errorf("got %v %v, want %v", got, ok, c.want)
			}
			if !slices.EqualFunc(before, c.slices, func(a, b hudi.Slice) bool { return a.File == b.File }) {
				t.Error("the slices were moved")
			}
		})
	}
}

func TestPlanCompactOperation(t *testing.T) {
	s := sliceWith("a", 3<<20, times(10, 1<<20)...)
	plan, ok := compaction.PlanCompact([]hudi.Slice{s}, compaction.History{}, compaction.Policy{}, time.Now())
	if !ok || len(plan.Operations) != 1 {
		t.Fatal(plan)
	}
	o := plan.Operations[0]
	if o.Base != s.Base.Name || o.Instant != s.Instant || len(o.Logs) != 10 || o.Logs[9] != s.Logs[9].Name {
		t.Errorf("%+v", o)
	}
	want := map[string]float64{commitmeta.MetricLogFiles: 10, commitmeta.MetricLogBytes: 10 << 20, commitmeta.MetricReadMB: 13,
		commitmeta.MetricWriteMB: 3, commitmeta.MetricReadWriteMB: 16}
	if !maps.Equal(o.Metrics, want) {
		t.Errorf("%v, want %v", o.Metrics, want)
	}
	if _, err := commitmeta.EncodeCompactionPlan(plan); err != nil {
		t.Error(err)
	}
}
