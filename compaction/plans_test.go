package compaction_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// at is the instant of an hour of a day.
func at(hour int) hudi.Time { return hudi.Time(fmt.Sprintf("20260101%02d0000000", hour)) }

func clockAt(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }

// writes are completed delta commits of those hours.
func writes(hours ...int) []compaction.Write {
	var list []compaction.Write
	for _, h := range hours {
		list = append(list, compaction.Write{At: at(h), Action: commitmeta.ActionDeltaCommit, Done: at(h)})
	}
	return list
}

// groupOf has a slice, of one file named after its hour, for each hour; those of
// negative hours are not committed.
func groupOf(name string, hours ...int) table.Group {
	g := table.Group{Location: hudi.Location{Partition: "p", File: hudi.FileID(name)}}
	for _, h := range hours {
		g.Slices = append(g.Slices, table.GroupSlice{Instant: at(max(h, -h)), Committed: h >= 0, Files: []hudi.File{{Name: fmt.Sprintf("%s%d", name, max(h, -h))}}})
	}
	return g
}

func replacedAt(g table.Group, hour int) table.Group {
	g.Replaced = at(hour)
	return g
}

func TestPlanClean(t *testing.T) {
	all := writes(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	hours := func(n int) compaction.CleanPolicy {
		return compaction.CleanPolicy{Retain: time.Duration(n) * time.Hour}
	}
	commits := func(n int) compaction.CleanPolicy { return compaction.CleanPolicy{By: compaction.ByCommits, Keep: n} }
	versions := func(n int) compaction.CleanPolicy { return compaction.CleanPolicy{By: compaction.ByVersions, Keep: n} }
	late := slices.Clone(all)
	late[3].Done = at(8) // a compaction planned at 4 that took until 8
	g := groupOf("g", 1, 4, 7, 9)
	for _, c := range []struct {
		name   string
		groups []table.Group
		state  compaction.CleanState
		policy compaction.CleanPolicy
		now    int
		want   string
		// earliest is an hour, 0 for none.
		earliest int
	}{
		{name: "hours", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: hours(2), now: 10, want: "g1 g4", earliest: 8},
		{name: "the slice that the earliest kept instant sees stays", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: hours(3), now: 10, want: "g1", earliest: 7},
		{name: "a compaction that was long on its way keeps what readers saw meanwhile", groups: []table.Group{g}, state: compaction.CleanState{Writes: late}, policy: hours(3), now: 10, want: "", earliest: 4},
		{name: "of a quiet table the newest stays", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: hours(1), now: 23, want: "g1 g4 g7", earliest: 10},
		{name: "a day by default", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, now: 23, want: "", earliest: 1},
		{name: "commits", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: commits(2), now: 10, want: "g1 g4", earliest: 9},
		{name: "one commit", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: commits(1), now: 10, want: "g1 g4 g7", earliest: 10},
		{name: "fewer commits than kept", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: commits(11), now: 10},
		{name: "versions", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: versions(2), now: 10, want: "g1 g4"},
		{name: "one version", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: versions(1), now: 10, want: "g1 g4 g7"},
		{name: "off", groups: []table.Group{g}, state: compaction.CleanState{Writes: all}, policy: compaction.CleanPolicy{By: compaction.CleanOff}, now: 23},
		{name: "nothing written", groups: []table.Group{g}, policy: hours(1), now: 10},
		{name: "a slice that is not committed counts for nothing and stays", groups: []table.Group{groupOf("g", 1, 2, -3, -7)},
			state: compaction.CleanState{Writes: all}, policy: hours(1), now: 10, want: "g1", earliest: 9},
		{name: "what pending writes may have read stays", groups: []table.Group{g}, state: compaction.CleanState{Writes: all, Pending: []hudi.Time{at(6)}},
			policy: hours(1), now: 10, want: "g1", earliest: 5},
		{name: "pending before all", groups: []table.Group{g}, state: compaction.CleanState{Writes: all, Pending: []hudi.Time{at(1)}}, policy: hours(1), now: 10},
		{name: "a reader keeps what it sees", groups: []table.Group{g}, state: compaction.CleanState{Writes: all, Leases: []hudi.Time{at(9), at(6)}},
			policy: hours(1), now: 10, want: "g1", earliest: 6},
		{name: "between two commits, too", groups: []table.Group{g}, state: compaction.CleanState{Writes: all, Leases: []hudi.Time{"20260101063000000"}},
			policy: hours(1), now: 10, want: "g1", earliest: 6},
		{name: "and against versions", groups: []table.Group{g}, state: compaction.CleanState{Writes: all, Leases: []hudi.Time{at(6)}},
			policy: versions(1), now: 10, want: "g1"},
		{name: "a reader before all", groups: []table.Group{g}, state: compaction.CleanState{Writes: all, Leases: []hudi.Time{at(0)}}, policy: hours(1), now: 10},
		{name: "a savepoint holds its slices", groups: []table.Group{g}, state: compaction.CleanState{Writes: all, Saved: map[string]map[string]bool{"p": {"g4": true}}},
			policy: hours(1), now: 10, want: "g1", earliest: 9},
		{name: "another partition's savepoint does not", groups: []table.Group{g}, state: compaction.CleanState{Writes: all, Saved: map[string]map[string]bool{"q": {"g4": true}}},
			policy: hours(1), now: 10, want: "g1 g4", earliest: 9},
		{name: "a group that is being clustered", groups: []table.Group{g, groupOf("h", 1, 2, 3)}, state: compaction.CleanState{Writes: all, Busy: map[hudi.Location]bool{g.Location: true}},
			policy: hours(1), now: 10, want: "h1 h2", earliest: 9},
		{name: "replaced groups go whole", groups: []table.Group{replacedAt(groupOf("r", 1, 3, -4), 5), replacedAt(groupOf("s", 1, 3), 9), groupOf("t", 2)},
			state: compaction.CleanState{Writes: all}, policy: hours(1), now: 10, want: "r1 r3 s1", earliest: 9},
		{name: "unless a savepoint holds them", groups: []table.Group{replacedAt(groupOf("r", 1, 3), 5)}, state: compaction.CleanState{Writes: all,
			Saved: map[string]map[string]bool{"p": {"r3": true}}}, policy: hours(1), now: 10, want: "r1", earliest: 9},
		{name: "replaced groups by versions", groups: []table.Group{replacedAt(groupOf("r", 1, 3), 5), replacedAt(groupOf("s", 1), 10)},
			state: compaction.CleanState{Writes: all}, policy: versions(2), now: 10, want: "r1 r3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, ok := compaction.PlanClean(c.groups, c.state, c.policy, clockAt(c.now))
			var got []string
			for _, f := range plan.Files["p"] {
				got = append(got, f.Path)
			}
			if text := strings.Join(got, " "); text != c.want || ok != (c.want != "") {
				t.Errorf("%v %q, want %q", ok, text, c.want)
			}
			if !ok {
				return
			}
			want := hudi.Time("")
			if c.earliest > 0 {
				want = at(c.earliest)
			}
			if plan.Earliest.Time != want || plan.LastCompleted != at(10) || len(plan.Files) != 1 {
				t.Errorf("%+v", plan)
			}
		})
	}
}

// timelineOf is a timeline as text: an hour, a letter for the action, "?" when it
// is pending: d deltacommit, c commit, p compaction, r replacecommit, n clean,
// b rollback, s savepoint, e restore, i indexing.
func timelineOf(text string) []timeline.Instant {
	actions := map[byte]commitmeta.Action{'d': "deltacommit", 'c': "commit", 'p': "compaction", 'r': "replacecommit", 'n': "clean",
		'b': "rollback", 's': "savepoint", 'e': "restore", 'i': "indexing"}
	var list []timeline.Instant
	for _, word := range strings.Fields(text) {
		i := timeline.Instant{State: timeline.Completed}
		if w, ok := strings.CutSuffix(word, "?"); ok {
			word, i.State = w, timeline.Inflight
		}
		var hour int
		if _, err := fmt.Sscanf(word[:len(word)-1], "%d", &hour); err != nil {
			panic(err)
		}
		i.Time, i.Action = at(hour), actions[word[len(word)-1]]
		list = append(list, i)
	}
	return list
}

func TestPlanArchive(t *testing.T) {
	for _, c := range []struct {
		name, timeline, want string
		replaced             []int
		unsettled            hudi.Time
		min, max             int
	}{
		{name: "few enough", timeline: "1d 2d 3d 4d", min: 2, max: 4},
		{name: "the oldest go", timeline: "1d 2d 3c 4d 5d", min: 2, max: 4, want: "1d 2d 3c"},
		{name: "cleans and rollbacks are not counted, and go along", timeline: "1d 2b 3n 4d 5d 6n 7d 8d 9n", min: 2, max: 4, want: "1d 2b 3n 4d 5d"},
		{name: "the last clean stays", timeline: "1d 2n 3n 4d 5d 6d 7d", min: 2, max: 4, want: "1d 2n 4d 5d"},
		{name: "restores and indexing stay", timeline: "1d 2e 3i 4d 5d 6d 7d", min: 2, max: 4, want: "1d 4d 5d"},
		{name: "nothing from a savepoint on", timeline: "1d 2d 3d 3s 4d 5d 6d", min: 2, max: 4, want: "1d 2d"},
		{name: "a savepoint of the first", timeline: "1d 1s 2d 3d 4d 5d 6d", min: 2, max: 4},
		{name: "nothing from the last write before a pending one on", timeline: "1d 2d 3d 4p? 5d 6d 7d", min: 2, max: 4, want: "1d 2d"},
		{name: "nor before a pending clean", timeline: "1d 2n? 3d 4d 5d 6d 7d", min: 2, max: 4},
		{name: "the first is pending", timeline: "1d? 2d 3d 4d 5d 6d", min: 2, max: 4},
		{name: "nothing from the last write before an unsettled one on", timeline: "1d 2d 4b 5d 6d 7d 8d", unsettled: at(3), min: 2, max: 4, want: "1d"},
		{name: "all are younger than the unsettled one", timeline: "4b 5d 6d 7d 8d 9d 10d", unsettled: at(3), min: 2, max: 4},
		{name: "all are older than the unsettled one", timeline: "1d 2d 3d 4d 5d 6d", unsettled: at(9), min: 2, max: 4, want: "1d 2d 3d 4d"},
		{name: "a replacecommit that hides files", timeline: "1d 2r 3d 4d 5d 6d", replaced: []int{2}, min: 2, max: 4, want: "1d"},
		{name: "one that hides none", timeline: "1d 2r 3d 4d 5d 6d", min: 2, max: 4, want: "1d 2r 3d 4d"},
		{name: "a max below the min is the min", timeline: "1d 2d 3d", min: 2, max: 1, want: "1d"},
		{name: "the defaults keep a lot", timeline: "1d 2d 3d 4d 5d 6d 7d 8d 9d 10d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			replaced := map[hudi.Time]bool{}
			for _, h := range c.replaced {
				replaced[at(h)] = true
			}
			got := compaction.PlanArchive(timelineOf(c.timeline), replaced, c.unsettled, compaction.ArchivePolicy{KeepMin: c.min, KeepMax: c.max})
			if want := timelineOf(c.want); !slices.EqualFunc(got, want, timeline.Instant.Same) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
	if got := compaction.PlanArchive(timelineOf("1d 2d 3d"), nil, "", compaction.ArchivePolicy{KeepMin: 1, KeepMax: 1, Off: true}); got != nil {
		t.Errorf("off: %v", got)
	}
}

// Whatever the timeline, an archival leaves KeepMin writes, no hole, and nothing
// pending that is older than all completed writes.
func TestPlanArchiveBounds(t *testing.T) {
	for seed := range 300 {
		var words []string
		for h := range 30 {
			kind := "dddddddcrnbs"[(seed*7+h*h*13+h*seed)%12:][:1]
			if kind == "d" && (seed+h)%17 == 0 {
				kind = "d?"
			}
			words = append(words, strconv.Itoa(h)+kind)
		}
		if seed%3 > 0 {
			words = slices.DeleteFunc(words, func(w string) bool { return strings.HasSuffix(w, "s") })
		}
		all := timelineOf(strings.Join(words, " "))
		old := compaction.PlanArchive(all, nil, "", compaction.ArchivePolicy{KeepMin: 5, KeepMax: 8})
		gone := map[hudi.Time]bool{}
		for _, i := range old {
			gone[i.Time] = true
		}
		left, first := map[hudi.Time]bool{}, hudi.Time("")
		for _, i := range all {
			if gone[i.Time] {
				continue
			}
			if i.Writes() && i.Done() {
				left[i.Time] = true
				if first == "" {
					first = i.Time
				}
			}
			if !i.Done() && first == "" && len(old) > 0 {
				t.Errorf("%v: %s is pending before all completed writes", words, i)
			}
		}
		for at := range gone {
			if i := slices.IndexFunc(all, func(i timeline.Instant) bool { return i.Time == at }); all[i].Writes() && at.After(first) {
				t.Errorf("%v: %s leaves a hole", words, at)
			}
		}
		if n := len(slices.Collect(maps.Keys(left))); len(old) > 0 && n < 5 {
			t.Errorf("%v: %d left", words, n)
		}
	}
}
