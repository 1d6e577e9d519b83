package table_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/table"
)

// moment is a time of the tests: the seconds of one minute.
func moment(s int) hudi.Time { return hudi.Time(fmt.Sprintf("202601010000%02d000", s)) }

// tableOf is a table of version 9 made of names: instants as "1_4.deltacommit" with
// seconds for times, and the files of its one partition, as "g 3" for a base file
// and "g 3 log" for a log file.
func tableOf(t *testing.T, instants, files []string) *table.View {
	t.Helper()
	d := teststore.New(t)
	p := hudi.MakeProperties(map[string]string{hudi.PropName: "docs", hudi.PropType: "MERGE_ON_READ", hudi.PropVersion: "9", hudi.PropLayout: "2",
		hudi.PropKeyFields: "_id", hudi.PropOrdering: "o", hudi.PropMergeMode: "EVENT_TIME_ORDERING"})
	objects := map[string]string{".hoodie/hoodie.properties": string(p.With(hudi.PropChecksum, p.Checksum()).Encode(time.Now())), ".hoodie_partition_metadata": ""}
	for _, i := range instants {
		var begun, done int
		times, rest, _ := strings.Cut(i, ".")
		_, err := fmt.Sscanf(times, "%d_%d", &begun, &done)
		name := string(moment(begun))
		if err == nil {
			name += "_" + string(moment(done))
		} else if begun == 0 {
			t.Fatal(err)
		}
		objects[".hoodie/timeline/"+name+"."+rest] = ""
	}
	for _, f := range files {
		objects[fileNamed(t, f)] = ""
	}
	putAll(t, d, objects)
	tb := must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), table.Options{ReadOnly: true}))
	return must[*table.View](t)(tb.View(t.Context()))
}

func fileNamed(t *testing.T, f string) string {
	t.Helper()
	var group, kind string
	var at int
	if n, err := fmt.Sscan(f, &group, &at, &kind); n < 2 {
		t.Fatal(f, err)
	}
	if kind == "log" {
		return hudi.LogFileName{File: hudi.FileID(group), Instant: moment(at), Version: 1, Token: "0-0-0"}.String()
	}
	return hudi.BaseFileName{File: hudi.FileID(group), Token: "0-0-0", Instant: moment(at)}.String()
}

func seconds(t hudi.Time) string { return strings.TrimLeft(string(t[12:14]), "0") }

// layoutOf says which files the slices have, as tableOf takes them.
func layoutOf(t *testing.T, v *table.View) []string {
	t.Helper()
	var out []string
	for _, s := range must[[]hudi.Slice](t)(v.Slices(t.Context(), "")) {
		parts := []string{string(s.File)}
		if s.Base.Name != "" {
			n := must[hudi.BaseFileName](t)(hudi.ParseBaseFileName(s.Base.Name))
			parts = append(parts, seconds(n.Instant))
		}
		for _, l := range s.Logs {
			n := must[hudi.LogFileName](t)(hudi.ParseLogFileName(l.Name))
			parts = append(parts, "+"+seconds(n.Instant))
		}
		if s.Compacting != "" {
			parts = append(parts, "compacting "+seconds(s.Compacting))
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

// A log file belongs to the latest base file that was begun before its commit
// completed, however commits and compactions overlap.
func TestSlicesByCompletion(t *testing.T) {
	// What is looked back on: the commits that stand before, or those begun before.
	until := func(s int) func(*table.View) *table.View {
		return func(v *table.View) *table.View { return v.Until(moment(s)) }
	}
	asOf := func(s int) func(*table.View) *table.View {
		return func(v *table.View) *table.View { return v.AsOf(moment(s)) }
	}
	now := func(v *table.View) *table.View { return v }
	for what, c := range map[string]struct {
		instants, files []string
		look            map[string]func(*table.View) *table.View
		want            map[string]string
	}{
		"one after the other": {[]string{"1_2.deltacommit", "3_4.deltacommit", "5_6.commit", "7_8.deltacommit"}, []string{"g 1", "g 3 log", "g 5", "g 7 log"},
			map[string]func(*table.View) *table.View{"now": now, "until 8": until(8), "until 7": until(7), "until 6": until(6), "until 5": until(5), "until 3": until(3),
				"until 1": until(1), "as of 7": asOf(7), "as of 6": asOf(6), "as of 5": asOf(5), "as of 4": asOf(4), "as of 1": asOf(1)},
			map[string]string{"now": "g 5 +7", "until 8": "g 5 +7", "until 7": "g 5", "until 6": "g 5", "until 5": "g 1 +3", "until 3": "g 1",
				"until 1": "", "as of 7": "g 5 +7", "as of 6": "g 5", "as of 5": "g 5", "as of 4": "g 1 +3", "as of 1": "g 1"}},
		// The commit of 3 was begun before the compaction and completed while it ran.
		"a commit across a compaction": {[]string{"1_2.deltacommit", "3_6.deltacommit", "5_9.commit"}, []string{"g 1", "g 3 log", "g 5"},
			map[string]func(*table.View) *table.View{"now": now, "until 6": until(6), "until 8": until(8), "until 5": until(5), "as of 4": asOf(4)},
			map[string]string{"now": "g 5 +3", "until 6": "g 1 +3", "until 8": "g 1 +3", "until 5": "g 1", "as of 4": "g 1 +3"}},
		"a commit that completed before a compaction was begun": {[]string{"1_2.deltacommit", "3_4.deltacommit", "5_9.commit"}, []string{"g 1", "g 3 log", "g 5"},
			map[string]func(*table.View) *table.View{"now": now, "until 8": until(8)}, map[string]string{"now": "g 5", "until 8": "g 1 +3"}},
		"a commit that completed when a compaction was begun": {[]string{"1_2.deltacommit", "3_5.deltacommit", "5_9.commit"}, []string{"g 1", "g 3 log", "g 5"},
			map[string]func(*table.View) *table.View{"now": now}, map[string]string{"now": "g 5 +3"}},
		"two writers": {[]string{"1_2.deltacommit", "3_8.deltacommit", "4_5.deltacommit"}, []string{"g 1", "g 3 log", "g 4 log"},
			map[string]func(*table.View) *table.View{"now": now, "until 7": until(7), "as of 3": asOf(3)},
			map[string]string{"now": "g 1 +3 +4", "until 7": "g 1 +4", "as of 3": "g 1 +3"}},
		"what is pending is not seen": {[]string{"1_2.deltacommit", "3.deltacommit.requested", "3.deltacommit.inflight", "4_5.deltacommit", "6.deltacommit.inflight"},
			[]string{"g 1", "g 3 log", "g 4 log", "g 6", "h 3", "k 6 log"},
			map[string]func(*table.View) *table.View{"now": now}, map[string]string{"now": "g 1 +4"}},
		"logs alone": {[]string{"1_4.deltacommit", "2_3.deltacommit", "5_6.deltacommit"}, []string{"g 1 log", "g 2 log", "g 5 log", "h 5 log"},
			map[string]func(*table.View) *table.View{"now": now, "until 3": until(3)}, map[string]string{"now": "g +1 +2 +5, h +5", "until 3": "g +2"}},
		"logs, compacted": {[]string{"1_2.deltacommit", "3_4.commit", "5_6.deltacommit"}, []string{"g 1 log", "g 3", "g 5 log"},
			map[string]func(*table.View) *table.View{"now": now, "until 2": until(2)}, map[string]string{"now": "g 3 +5", "until 2": "g +1"}},
		"what is older than the timeline counts": {[]string{"5_6.deltacommit"}, []string{"g 1", "g 2 log", "g 5 log", "h 9"},
			map[string]func(*table.View) *table.View{"now": now, "until 6": until(6)}, map[string]string{"now": "g 1 +2 +5", "until 6": "g 1 +2 +5"}},
	} {
		v := tableOf(t, c.instants, c.files)
		for look, from := range c.look {
			if got := strings.Join(layoutOf(t, from(v)), ", "); got != c.want[look] {
				t.Errorf("%s, %s: %q, want %q", what, look, got, c.want[look])
			}
		}
	}
}

// Where a write stands is when it completed, and Until is all that stands there.
func TestUntil(t *testing.T) {
	v := tableOf(t, []string{"1_9.deltacommit", "2_3.deltacommit", "4_5.commit", "6.deltacommit.inflight", "7_8.clean"}, nil)
	if v.Latest() != moment(9) || v.Last() != moment(4) || v.Until(moment(8)).Latest() != moment(5) || v.Until(moment(2)).Latest() != "" {
		t.Errorf("latest %s, last %s, until 8 %s, until 2 %s", v.Latest(), v.Last(), v.Until(moment(8)).Latest(), v.Until(moment(2)).Latest())
	}
	for until, want := range map[int][]hudi.Time{9: {moment(1), moment(2), moment(4)}, 8: {moment(2), moment(4)}, 5: {moment(2), moment(4)}, 4: {moment(2)}, 2: nil} {
		past := v.Until(moment(until))
		var got []hudi.Time
		for _, i := range past.Writes() {
			got = append(got, i.Time)
		}
		if !slices.Equal(got, want) {
			t.Errorf("until %d: %v, want %v", until, got, want)
		}
		for s := 1; s < 10; s++ {
			if past.Committed(moment(s)) != slices.Contains(want, moment(s)) {
				t.Errorf("until %d, the write of %d: committed %v", until, s, past.Committed(moment(s)))
			}
		}
		if again := past.Until(moment(9)); len(again.Writes()) != len(want) || again.Uncut() != v {
			t.Errorf("until %d and then 9: %v", until, again.Writes())
		}
	}
	// Before version 8 a write stands at its own time.
	old := load(t, "w015-v6-bloom-nomdt").view(t)
	if old.Latest() != old.Last() || old.Until(old.Last()).At() != old.Last() {
		t.Errorf("latest %s, last %s", old.Latest(), old.Last())
	}
}

// The history says when a write of long ago completed.
func TestSlicesByHistory(t *testing.T) {
	const base, before, across = "20261130100345633", "20261130100340785", "20261130100343891" // completed ..347768, ..342702, ..349366
	add := func(g *golden) {
		for _, name := range []string{hudi.BaseFileName{File: "x", Token: "0-0-0", Instant: base}.String(),
			hudi.LogFileName{File: "x", Instant: before, Version: 1, Token: "0-0-0"}.String(), hudi.LogFileName{File: "x", Instant: across, Version: 1, Token: "0-0-0"}.String()} {
			putAll(t, g.driver, map[string]string{"20240101/" + name: ""})
		}
	}
	logs := func(v *table.View) (found []hudi.Time) {
		for _, s := range must[[]hudi.Slice](t)(v.Slices(t.Context(), "20240101")) {
			for _, l := range s.Logs {
				if s.File == "x" {
					found = append(found, must[hudi.LogFileName](t)(hudi.ParseLogFileName(l.Name)).Instant)
				}
			}
		}
		return found
	}
	const folder = ".hoodie/timeline/history/"
	for what, c := range map[string]struct {
		change func(*golden)
		want   []hudi.Time
	}{
		"as it is":          {func(*golden) {}, []hudi.Time{across}},
		"no version file":   {func(g *golden) { remove(t, g, folder+"_version_") }, []hudi.Time{across}},
		"a version too new": {func(g *golden) { putAll(t, g.driver, map[string]string{folder + "_version_": "8"}) }, []hudi.Time{across}},
		"a version of words": {func(g *golden) {
			putAll(t, g.driver, map[string]string{folder + "_version_": "x"})
			remove(t, g, folder+"manifest_5")
			remove(t, g, folder+"manifest_6")
		}, []hudi.Time{across}},
		// Nobody knows when they completed: then they belong to the latest slice.
		"no manifest": {func(g *golden) {
			for _, n := range []string{"_version_", "manifest_5", "manifest_6", "manifest_7"} {
				remove(t, g, folder+n)
			}
		}, []hudi.Time{before, across}},
	} {
		g := load(t, "w120-v9-archive")
		add(g)
		c.change(g)
		if got := logs(g.view(t)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	for _, broken := range []map[string]string{{folder + "manifest_7": "{"}, {folder + "manifest_7": `{"files":[{"fileName":"../x"}]}`},
		{folder + "20261130100335424_20261130100340785_0.parquet": "PAR1"}} {
		g := load(t, "w120-v9-archive")
		add(g)
		putAll(t, g.driver, broken)
		_, err := g.view(t).Slices(t.Context(), "20240101")
		wantErr(t, fmt.Sprint(broken), err, table.ErrCorrupt)
	}
}

// A view reaches into the history as far as asked, by when instants completed.
func TestReachingHistory(t *testing.T) {
	g := load(t, "w120-v9-archive")
	v := g.view(t)
	whole := must[*table.View](t)(v.Reaching(t.Context(), ""))
	if got := len(whole.Instants()) - len(v.Instants()); got != 31 {
		t.Errorf("%d archived instants", got)
	}
	archived := 0
	for _, i := range whole.Instants() {
		if !whole.Archived(i) {
			continue
		}
		archived++
		if whole.When(i) != i.Completion || !i.Completion.After(i.Time) {
			t.Errorf("%s stands at %s", i, whole.When(i))
		}
		if !i.Writes() {
			continue
		}
		b, err := whole.Body(t.Context(), i)
		if err != nil || b.Extra["schema"] == "" || b.Operation == "" {
			t.Errorf("%s: %+v, %v", i, b, err)
		}
	}
	if archived != 31 {
		t.Errorf("%d are archived", archived)
	}
	// The compaction of ..343891 completed after the commits that were begun later.
	const compaction, after = "20261130100343891", "20261130100349000"
	late := must[*table.View](t)(v.Reaching(t.Context(), after))
	if w := late.Writes(); w[0].Time != compaction || w[0].Completion != "20261130100349366" {
		t.Errorf("the first after %s is %v", after, w[0])
	}
	if n := len(late.Until("20261130100349366").Writes()); n != 1 {
		t.Errorf("%d writes until the first", n)
	}
	if same := must[*table.View](t)(v.Reaching(t.Context(), v.Latest())); same != v {
		t.Error("nothing is archived that late")
	}
	if _, i, ok, err := v.Extra(t.Context(), "last_seq"); err != nil || !ok || whole.Archived(i) {
		t.Errorf("last_seq of %s, %v", i, err)
	}
	seq, i, ok, err := v.Until("20261130100349366").Extra(t.Context(), "last_seq")
	if err != nil || !ok || seq == "" || i.Completion.After("20261130100349366") {
		t.Errorf("last_seq %q of %s, %v", seq, i, err)
	}
	_, err = v.Until("20200101000000000").Schema(t.Context())
	wantErr(t, "the schema before the beginning", err, table.ErrNoSchema)
}

func remove(t *testing.T, g *golden, name string) {
	t.Helper()
	if err := bucketOf(g.driver).Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}
