package table_test

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// named are the files that completed writes name.
func named(t *testing.T, v *table.View) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	for _, i := range v.Writes() {
		for _, stats := range must[commitmeta.Body](t)(v.Body(t.Context(), i)).Stats {
			for _, s := range stats {
				files[s.Path] = true
			}
		}
	}
	return files
}

func dataFiles(t *testing.T, d storage.Driver) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	for _, name := range names(t, d, "") {
		if !strings.HasPrefix(name, ".hoodie/") && !strings.HasSuffix(name, ".hoodie_partition_metadata") {
			files[name] = true
		}
	}
	return files
}

func putAll(t *testing.T, d storage.Driver, files map[string]string) {
	t.Helper()
	for name, content := range files {
		must[storage.Object](t)(bucketOf(d).Put(t.Context(), name, []byte(content)))
	}
}

// What Spark left of a commit, with its markers gone: a base file, which names
// its instant, and log files, which do not.
func TestRecoverSparkByListing(t *testing.T) {
	g := load(t, "w015-v6-failed-inflight")
	want := named(t, g.view(t))
	if got := dataFiles(t, g.driver); len(got) <= len(want) {
		t.Fatalf("%d files, %d named: nothing to roll back", len(got), len(want))
	}
	tb := open(t, g.driver)
	_, err := tb.Begin(t.Context())
	wantErr(t, "begin before recovery", err, table.ErrRecover)
	dead := g.Timeline[len(g.Timeline)-1].Requested
	rolled := must[[]timeline.Instant](t)(tb.Recover(t.Context()))
	if len(rolled) != 1 || rolled[0].Time != dead {
		t.Errorf("rolled back %v, want %s", rolled, dead)
	}
	if got := dataFiles(t, g.driver); !maps.Equal(got, want) {
		t.Errorf("left  %v\nnamed %v", got, want)
	}
	v := must[*table.View](t)(tb.View(t.Context()))
	last := v.Instants()[len(v.Instants())-1]
	if last.Action != commitmeta.ActionRollback || !last.Done() {
		t.Errorf("last instant %s", last)
	}
	data := must[[]byte](t)(bucketOf(g.driver).ReadAll(t.Context(), ".hoodie/"+string(last.Time)+".rollback", 1<<20))
	r := must[commitmeta.RollbackResult](t)(commitmeta.DecodeRollbackResult(data))
	if r.Target.Time != dead || len(r.Deleted) == 0 || r.Start != last.Time {
		t.Errorf("rollback metadata %+v", r)
	}
	if again := must[[]timeline.Instant](t)(tb.Recover(t.Context())); len(again) > 0 {
		t.Errorf("rolled back again: %v", again)
	}
	x := must[*table.Txn](t)(tb.Begin(t.Context()))
	if !x.Instant().After(last.Time) {
		t.Errorf("%s is not after the rollback %s", x.Instant(), last.Time)
	}
}

// Markers as Spark's timeline server writes them, many in one file, and one
// for a file that was never made.
func TestRecoverMarkersOfTimelineServer(t *testing.T) {
	d := start(t)
	const dead = hudi.Time("20990101000000000")
	lone := "." + string(groupID(9)) + "_" + string(dead) + ".log.1_0-1-0"
	torn := logName(1, "20260102030405000", 1)
	putAll(t, d, map[string]string{
		".hoodie/" + string(dead) + ".commit.requested":   "",
		".hoodie/" + string(dead) + ".inflight":           "",
		".hoodie/.temp/" + string(dead) + "/MARKERS.type": "TIMELINE_SERVER_BASED",
		".hoodie/.temp/" + string(dead) + "/MARKERS0":     "pt=1/" + torn + ".marker.APPEND\npt=9/x_0-1-0_" + string(dead) + ".parquet.marker.CREATE\n",
		".hoodie/.temp/" + string(dead) + "/MARKERS1":     "pt=9/never_0-1-0_" + string(dead) + ".parquet.marker.MERGE",
		"pt=9/x_0-1-0_" + string(dead) + ".parquet":       "x",
		"pt=9/" + lone: "no whole block",
		"pt=1/" + torn: "#HUDI# cut sho",
		".hoodie/couch2hudi/quarantine/" + string(dead) + ".ndjson":              "{}",
		".hoodie/couch2hudi/quarantine/README":                                   "not an instant's",
		".hoodie/.temp/20200101000000000/pt=1/old_0-1-0_2.parquet.marker.CREATE": "",
		// Taken off the timeline by hand, its markers and files forgotten.
		".hoodie/.temp/20980101000000000/pt=1/y_0-1-0_20980101000000000.parquet.marker.CREATE": "",
		"pt=1/y_0-1-0_20980101000000000.parquet":                                               "y",
		".hoodie/.temp/notes/kept":                                                             "",
	})
	want := named(t, must[*table.View](t)(must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), options())).View(t.Context())))
	tb := open(t, d)
	rolled := must[[]timeline.Instant](t)(tb.Recover(t.Context()))
	if len(rolled) != 1 || rolled[0].Action != commitmeta.ActionCommit {
		t.Errorf("rolled back %v", rolled)
	}
	if got := dataFiles(t, d); !maps.Equal(got, want) {
		t.Errorf("left  %v\nnamed %v", got, want)
	}
	if got := names(t, d, ".hoodie/.temp/"); !slices.Equal(got, []string{".hoodie/.temp/notes/kept"}) {
		t.Errorf("markers %q", got)
	}
	if got := names(t, d, ".hoodie/couch2hudi/quarantine/"); !slices.Equal(got, []string{".hoodie/couch2hudi/quarantine/README"}) {
		t.Errorf("put aside %q", got)
	}
	x := must[*table.Txn](t)(tb.Begin(t.Context()))
	if !x.Instant().After("20990101000000000") {
		t.Errorf("%s goes back behind a time that was used", x.Instant())
	}
}

// A base file that was written again and not committed goes alone: the slice
// that it was to replace is the latest again, logs and all.
func TestRecoverRewrittenBase(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	tb := must[*table.Table](t)(table.Create(ctx, bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, options()))
	held := must[io.Closer](t)(tb.Lease(ctx))
	first := must[hudi.Time](t)(commitBases(ctx, tb, 1))
	x := must[*table.Txn](t)(tb.Begin(ctx))
	log := must[commitmeta.WriteStat](t)(put(ctx, x, "pt=1", logName(1, first, 1), table.MarkAppend, logContent(t, x.Instant())))
	if err := x.Commit(ctx, body(log)); err != nil {
		t.Fatal(err)
	}
	want := must[[]hudi.Slice](t)(must[*table.View](t)(tb.View(ctx)).Slices(ctx, "pt=1"))
	rewrite := func() (*table.Txn, commitmeta.WriteStat) {
		x := must[*table.Txn](t)(tb.Begin(ctx))
		s := must[commitmeta.WriteStat](t)(put(ctx, x, "pt=1", base(x, 1), table.MarkMerge, "base and log of "+string(first)))
		s.PrevCommit = first
		return x, s
	}
	x, _ = rewrite()
	if got := names(t, d, ".hoodie/.temp/"); len(got) != 1 || !strings.HasSuffix(got[0], ".parquet.marker.MERGE") {
		t.Fatalf("markers %q", got)
	}
	if got := must[[]hudi.Slice](t)(must[*table.View](t)(tb.View(ctx)).Slices(ctx, "pt=1")); !reflect.DeepEqual(got, want) {
		t.Fatalf("before the commit %+v", got)
	}
	held.Close() // its process dies
	tb = open(t, d)
	if rolled := must[[]timeline.Instant](t)(tb.Recover(ctx)); len(rolled) != 1 || rolled[0].Time != x.Instant() {
		t.Fatalf("rolled back %v", rolled)
	}
	if got := must[[]hudi.Slice](t)(must[*table.View](t)(tb.View(ctx)).Slices(ctx, "pt=1")); !reflect.DeepEqual(got, want) {
		t.Fatalf("after the rollback %+v\nwant %+v", got, want)
	}
	x, s := rewrite()
	if err := x.Commit(ctx, body(s)); err != nil {
		t.Fatal(err)
	}
	v := must[*table.View](t)(tb.View(ctx))
	got := must[[]hudi.Slice](t)(v.Slices(ctx, "pt=1"))
	if len(got) != 1 || got[0].Instant != x.Instant() || len(got[0].Logs) != 0 {
		t.Fatalf("after the commit %+v", got)
	}
	if got := must[[]hudi.Slice](t)(v.AsOf(log.PrevCommit).Slices(ctx, "pt=1")); !reflect.DeepEqual(got, want) {
		t.Fatalf("before it %+v\nwant %+v", got, want)
	}
}

// A log file to which Hudi appended holds blocks of a living commit too: that
// needs a command block, which we do not write.
func TestRecoverRefusesSharedLog(t *testing.T) {
	for _, marked := range []bool{true, false} {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			d := start(t)
			v := must[*table.View](t)(must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), options())).View(t.Context()))
			writers := [2]hudi.Time{v.Last(), "20990101000000000"}
			dead := string(writers[1])
			shared := "pt=1/" + logName(1, v.Last(), 1)
			content := logContent(t, writers[order[0]]) + logContent(t, writers[order[1]])
			putAll(t, d, map[string]string{shared: content, ".hoodie/" + dead + ".deltacommit.requested": ""})
			if marked {
				putAll(t, d, map[string]string{".hoodie/.temp/" + dead + "/" + shared + ".marker.APPEND": ""})
			}
			_, err := open(t, d).Recover(t.Context())
			wantErr(t, "recover", err, table.ErrForeign)
			if got := must[[]byte](t)(bucketOf(d).ReadAll(t.Context(), shared, 1<<20)); string(got) != content {
				t.Error("the file was touched")
			}
		}
	}
}

// A log file with blocks of two dead instants goes with them.
func TestRecoverLogOfTwoDead(t *testing.T) {
	d := start(t)
	want := dataFiles(t, d)
	content := logContent(t, "20990101000000000") + logContent(t, "20990101000000001")
	putAll(t, d, map[string]string{
		"pt=1/" + logName(1, "20260102030405000", 1):      content,
		".hoodie/20990101000000000.deltacommit.requested": "",
		".hoodie/20990101000000001.deltacommit.requested": "",
	})
	if rolled := must[[]timeline.Instant](t)(open(t, d).Recover(t.Context())); len(rolled) != 2 || rolled[0].Time < rolled[1].Time {
		t.Errorf("rolled back %v", rolled)
	}
	if got := dataFiles(t, d); !maps.Equal(got, want) {
		t.Errorf("left %v", got)
	}
}

// Spark died after it had written its rollback plan, and after it had begun to
// follow it.
func TestRecoverFinishesSparksRollback(t *testing.T) {
	g := load(t, "w015-v6-failed-rollback")
	ctx, b := t.Context(), bucketOf(g.driver)
	var at hudi.Time
	for _, i := range g.Timeline {
		if i.Action == commitmeta.ActionRollback {
			at = i.Requested
		}
	}
	plan := must[commitmeta.RollbackPlan](t)(commitmeta.DecodeRollbackPlan(must[[]byte](t)(b.ReadAll(ctx, ".hoodie/"+string(at)+".rollback.requested", 1<<20))))
	if err := b.Delete(ctx, ".hoodie/"+string(at)+".rollback"); err != nil {
		t.Fatal(err)
	}
	tb := open(t, g.driver)
	before := dataFiles(t, g.driver)
	rolled := must[[]timeline.Instant](t)(tb.Recover(ctx))
	if len(rolled) != 1 || rolled[0].Time != plan.Target.Time {
		t.Errorf("rolled back %v, want %s", rolled, plan.Target.Time)
	}
	i, ok := findInstant(must[*table.View](t)(tb.View(ctx)).Instants(), at)
	if !ok || !i.Done() {
		t.Errorf("rollback %s", i)
	}
	// Of the log files the plan names only the groups: their second ones, with
	// the target's blocks, go; the command blocks and what came later stay.
	v := must[*table.View](t)(tb.View(ctx))
	keep := named(t, v)
	gone := 0
	for name := range before {
		switch left := dataFiles(t, g.driver)[name]; {
		case keep[name] || strings.Contains(name, ".log.3_"):
			if !left {
				t.Errorf("%s is gone", name)
			}
		case left:
			t.Errorf("%s is still there", name)
		default:
			gone++
		}
	}
	logs := 0
	for _, f := range plan.Files {
		if f.Log {
			logs++
		}
	}
	if gone != logs || gone == 0 {
		t.Errorf("%d files gone; the plan: %+v", gone, plan)
	}
}

func findInstant(list []timeline.Instant, at hudi.Time) (timeline.Instant, bool) {
	i := slices.IndexFunc(list, func(i timeline.Instant) bool { return i.Time == at })
	if i < 0 {
		return timeline.Instant{}, false
	}
	return list[i], true
}

// A plan cut short was never followed: it goes, and the rollback begins anew.
func TestRecoverBrokenPlan(t *testing.T) {
	d := start(t)
	putAll(t, d, map[string]string{
		".hoodie/20990101000000000.deltacommit.requested": "",
		".hoodie/20990101000000001.rollback.requested":    "Obj\x01",
		".hoodie/20990101000000002.rollback.inflight":     "",
	})
	tb := open(t, d)
	_, err := tb.Begin(t.Context())
	wantErr(t, "begin", err, table.ErrRecover)
	if rolled := must[[]timeline.Instant](t)(tb.Recover(t.Context())); len(rolled) != 1 {
		t.Errorf("rolled back %v", rolled)
	}
	settled(t, d)
}

// What only its own engine can finish is left alone and said.
func TestRecoverForeignWork(t *testing.T) {
	plan := func(target commitmeta.InstantInfo) string {
		return string(must[[]byte](t)(commitmeta.EncodeRollbackPlan(commitmeta.RollbackPlan{Target: target})))
	}
	done := commitmeta.InstantInfo{Time: "20260102030405000", Action: commitmeta.ActionDeltaCommit}
	for what, files := range map[string]map[string]string{
		"a restore":                        {".hoodie/20990101000000000.restore.requested": ""},
		"a rollback of a completed commit": {".hoodie/20990101000000001.rollback.requested": plan(done)},
		"a rollback of a compaction": {".hoodie/20990101000000001.rollback.requested": plan(commitmeta.InstantInfo{Time: "20990101000000000", Action: "compaction"}),
			".hoodie/20990101000000000.compaction.requested": ""},
	} {
		d := start(t)
		putAll(t, d, files)
		before := names(t, d, "")
		_, err := open(t, d).Recover(t.Context())
		wantErr(t, what, err, table.ErrForeign)
		isLock := func(s string) bool {
			return strings.HasPrefix(s, ".hoodie/couch2hudi/") && strings.HasSuffix(s, "lock")
		}
		after := slices.DeleteFunc(names(t, d, ""), isLock)
		before = slices.DeleteFunc(before, isLock)
		if !slices.Equal(before, after) {
			t.Errorf("%s: touched: %q", what, after)
		}
	}
}

// A commit of another engine whose heartbeat is fresh is left alone; when that is old,
// its writer is dead. A commit of ours has one, as long as it is open.
func TestRecoverLeavesLiveWriters(t *testing.T) {
	const at = "20990101000000000"
	d, c := start(t), newClock()
	heartbeat := ".hoodie/.heartbeat/" + at
	putAll(t, d, map[string]string{".hoodie/" + at + ".deltacommit.requested": "", ".hoodie/" + at + ".deltacommit.inflight": "", heartbeat: ""})
	modified := must[storage.Object](t)(bucketOf(d).Stat(t.Context(), heartbeat)).Modified
	tb := must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), table.Options{Clock: c.Now}))
	lease(t, tb)
	for _, age := range []time.Duration{0, 119 * time.Second} {
		c.now = modified.Add(age)
		_, err := tb.Recover(t.Context())
		wantErr(t, fmt.Sprintf("recover, %s after its last beat", age), err, table.ErrBusy)
		_, err = tb.Begin(t.Context())
		wantErr(t, "begin beside it", err, table.ErrRecover)
	}
	c.now = modified.Add(121 * time.Second)
	if rolled := must[[]timeline.Instant](t)(tb.Recover(t.Context())); len(rolled) != 1 || rolled[0].Time != at {
		t.Errorf("rolled back %v", rolled)
	}
	settled(t, d)
	x := must[*table.Txn](t)(tb.Begin(t.Context()))
	must[storage.Object](t)(bucketOf(d).Stat(t.Context(), ".hoodie/.heartbeat/"+string(x.Instant())))
	must[any](t)(nil, x.Commit(t.Context(), body()))
	if left := names(t, d, ".hoodie/.heartbeat/"); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// Pending compactions stay, with their markers, and new commits go on top.
func TestRecoverLeavesCompaction(t *testing.T) {
	g := load(t, "w015-v6-compaction-pending")
	tb := open(t, g.driver)
	before := must[*table.View](t)(tb.View(t.Context())).Instants()
	var at hudi.Time
	for _, i := range before {
		if i.Action == commitmeta.ActionCompaction {
			at = i.Time
		}
	}
	mark := ".hoodie/.temp/" + string(at) + "/p/x_0-1-0_" + string(at) + ".parquet.marker.CREATE"
	putAll(t, g.driver, map[string]string{mark: ""})
	if rolled := must[[]timeline.Instant](t)(tb.Recover(t.Context())); len(rolled) > 0 {
		t.Errorf("rolled back %v", rolled)
	}
	if !slices.Contains(names(t, g.driver, ".hoodie/.temp/"), mark) {
		t.Error("the compaction's marker is gone")
	}
	x := must[*table.Txn](t)(tb.Begin(t.Context()))
	s := allSlices(t, x.View())
	if i := slices.IndexFunc(s, func(s hudi.Slice) bool { return s.Compacting == at }); i < 0 {
		t.Errorf("no slice under compaction %s: %+v", at, s)
	}
	if err := x.Commit(t.Context(), body()); err == nil || !strings.Contains(err.Error(), "lacks the table's column") {
		t.Errorf("a narrower schema was committed: %v", err)
	}
	if err := x.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRecoverProperties(t *testing.T) {
	for what, spoil := range map[string]func(b *storage.Bucket, good []byte){
		"missing": func(b *storage.Bucket, _ []byte) { _ = b.Delete(t.Context(), ".hoodie/hoodie.properties") },
		"empty":   func(b *storage.Bucket, _ []byte) { _, _ = b.Put(t.Context(), ".hoodie/hoodie.properties", nil) },
		"cut short": func(b *storage.Bucket, good []byte) {
			_, _ = b.Put(t.Context(), ".hoodie/hoodie.properties", good[:200])
		},
		"left a copy": func(*storage.Bucket, []byte) {},
		"not Java's": func(b *storage.Bucket, _ []byte) {
			_, _ = b.Put(t.Context(), ".hoodie/hoodie.properties", []byte(`a=\u12`))
		},
		"wrong number": func(b *storage.Bucket, _ []byte) {
			_, _ = b.Put(t.Context(), ".hoodie/hoodie.properties", []byte("hoodie.table.name=x\nhoodie.table.checksum=1\n"))
		},
	} {
		d := start(t)
		b := bucketOf(d)
		good := must[[]byte](t)(b.ReadAll(t.Context(), ".hoodie/hoodie.properties", 1<<20))
		putAll(t, d, map[string]string{".hoodie/hoodie.properties.backup": string(good)})
		spoil(b, good)
		tb := open(t, d)
		if tb.Name() != "docs" {
			t.Errorf("%s: name %q", what, tb.Name())
		}
		must[[]timeline.Instant](t)(tb.Recover(t.Context()))
		is := must[[]byte](t)(b.ReadAll(t.Context(), ".hoodie/hoodie.properties", 1<<20))
		if p, err := hudi.ParseProperties(is); err != nil || p.CheckSum() != nil || p.Get(hudi.PropOrdering) != hudi.ColumnRevOrder {
			t.Errorf("%s: %v %s", what, err, is)
		}
		if ok := must[bool](t)(b.Exists(t.Context(), ".hoodie/hoodie.properties.backup")); ok {
			t.Errorf("%s: the backup is still there", what)
		}
	}
}

func TestRecoverNeedsLease(t *testing.T) {
	tb := must[*table.Table](t)(table.Create(t.Context(), bucketOf(teststore.New(t)), table.CreateOptions{Name: "docs"}, options()))
	_, err := tb.Recover(t.Context())
	wantErr(t, "recover", err, table.ErrNoLease)
	_, err = tb.Begin(t.Context())
	wantErr(t, "begin", err, table.ErrNoLease)
}
