package table_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// rewritten is a store with a table in which each of two groups was written n
// times, in a base file each.
func rewritten(t *testing.T, n int) (storage.Driver, []hudi.Time) {
	t.Helper()
	d := teststore.New(t)
	tb := must[*table.Table](t)(table.Create(t.Context(), bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, options()))
	l := must[interface{ Close() error }](t)(tb.Lease(t.Context()))
	var all []hudi.Time
	for range n {
		all = append(all, must[hudi.Time](t)(commitBases(t.Context(), tb, 1, 2)))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return d, all
}

// cleanOf plans to delete the base files of an instant.
func cleanOf(at, earliest hudi.Time) commitmeta.CleanPlan {
	p := commitmeta.CleanPlan{Earliest: commitmeta.InstantInfo{Time: earliest, Action: commitmeta.ActionDeltaCommit}, LastCompleted: earliest,
		Policy: commitmeta.KeepLatestByHours, Files: map[string][]commitmeta.CleanFile{}}
	for _, g := range []int{1, 2} {
		name := hudi.BaseFileName{File: groupID(g), Token: "0-1-0", Instant: at}.String()
		p.Files[fmt.Sprintf("pt=%d", g)] = []commitmeta.CleanFile{{Path: name}}
	}
	return p
}

func clean(ctx context.Context, d storage.Driver, p commitmeta.CleanPlan) error {
	tb, err := table.Open(ctx, bucketOf(d), options())
	if err != nil {
		return err
	}
	l, err := tb.Lease(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	if _, err := tb.Recover(ctx); err != nil {
		return err
	}
	if done, err := tb.FinishCleans(ctx); err != nil || len(done) > 0 {
		return err
	}
	v, err := tb.View(ctx)
	if err != nil {
		return err
	}
	// The plan is that of a table which was not cleaned yet.
	if g, err := v.Groups(ctx, "pt=1"); err != nil || len(g[0].Slices) < 3 {
		return err
	}
	_, err = tb.Clean(ctx, p, nil)
	return err
}

// A process dies at each write of a clean; the next one finishes it with the same
// plan, also when that dies at each write of its own.
func TestCleanCrashSweep(t *testing.T) {
	deaths, stride := 0, 1
	if testing.Short() {
		stride = 4
	}
	for _, after := range []bool{false, true} {
		for k := 1; ; k += stride {
			crashed := false
			for j := 1; ; j += stride {
				d, at := rewritten(t, 3)
				p := cleanOf(at[0], at[2])
				c := storagetest.NewCrasher(d, storagetest.Crash{At: k, After: after})
				err := clean(t.Context(), c, p)
				if !c.Dead() {
					wantErr(t, "clean", err, nil)
					cleaned(t, d, at, c.Where())
					break
				}
				crashed = true
				deaths++
				r := storagetest.NewCrasher(d, storagetest.Crash{At: j, After: after})
				err = clean(t.Context(), r, p)
				if r.Dead() {
					err = clean(t.Context(), d, p)
				}
				wantErr(t, c.Where()+", then "+r.Where(), err, nil)
				cleaned(t, d, at, c.Where()+", then "+r.Where())
				if t.Failed() || !r.Dead() {
					break
				}
			}
			if !crashed || t.Failed() {
				break
			}
		}
	}
	if deaths < 20/stride {
		t.Errorf("%d deaths", deaths)
	}
}

// cleaned checks that the files of the first instant are gone, and those alone,
// and what the one clean says.
func cleaned(t *testing.T, d storage.Driver, at []hudi.Time, when string) {
	t.Helper()
	ctx := context.Background()
	for _, name := range names(t, d, "pt=") {
		if strings.Contains(name, string(at[0])) {
			t.Errorf("%s: %s is there", when, name)
		}
	}
	v := must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{ReadOnly: true})).View(ctx))
	cleans := 0
	for _, i := range v.Instants() {
		if !i.Done() {
			t.Errorf("%s: %s", when, i)
		}
		if i.Action != commitmeta.ActionClean {
			continue
		}
		cleans++
		data := must[[]byte](t)(bucketOf(d).ReadAll(ctx, ".hoodie/"+string(i.Time)+".clean", 1<<20))
		r := must[commitmeta.CleanResult](t)(commitmeta.DecodeCleanResult(data))
		if r.Earliest != at[2] || r.Start != i.Time || len(r.Partitions) != 2 || len(r.Partitions["pt=1"].Deleted) != 1 || len(r.Partitions["pt=1"].Failed) != 0 {
			t.Errorf("%s: %+v", when, r)
		}
	}
	if cleans != 1 {
		t.Errorf("%s: %d cleans", when, cleans)
	}
	for _, p := range []string{"pt=1", "pt=2"} {
		if s := must[[]hudi.Slice](t)(v.Slices(ctx, p)); len(s) != 1 || s[0].Instant != at[2] {
			t.Errorf("%s: %+v", when, s)
		}
		if g := must[[]table.Group](t)(v.Groups(ctx, p)); len(g) != 1 || len(g[0].Slices) != 2 {
			t.Errorf("%s: %+v", when, g)
		}
	}
	if reach := must[table.Reach](t)(v.Cleaned(ctx)); reach.Earliest != at[2] || reach.Unbounded || reach.Pending {
		t.Errorf("%s: %+v", when, reach)
	}
}

// A clean that Hudi planned is finished as planned: addresses with a scheme, files
// that are gone, a partition that goes whole.
func TestFinishForeignClean(t *testing.T) {
	ctx := t.Context()
	d, at := rewritten(t, 2)
	p := cleanOf(at[0], at[1])
	for partition, files := range p.Files {
		files[0].Path = "file:/somewhere/docs/" + partition + "/" + files[0].Path
	}
	gone := hudi.BaseFileName{File: groupID(7), Token: "0-1-0", Instant: at[0]}.String()
	p.Files["pt=7"] = []commitmeta.CleanFile{{Path: "file:/somewhere/docs/pt=7/" + gone}}
	p.Partitions = []string{"pt=7", "pt=1"} // into the second somebody has written
	putAll(t, d, map[string]string{"pt=7/.hoodie_partition_metadata": "x", ".hoodie/20990101000000000.clean.requested": string(must[[]byte](t)(commitmeta.EncodeCleanPlan(p))),
		".hoodie/20990101000000001.clean.requested": "torn"})
	tb := open(t, d)
	before := must[[]string](t)(must[*table.View](t)(tb.View(ctx)).Partitions(ctx))
	_, err := tb.Clean(ctx, cleanOf(at[0], at[1]), nil)
	wantErr(t, "a second clean", err, table.ErrRecover)
	done := must[[]table.Cleaned](t)(tb.FinishCleans(ctx))
	if len(done) != 1 || done[0].Instant != "20990101000000000" || done[0].Files != 3 {
		t.Errorf("%+v", done)
	}
	v := must[*table.View](t)(tb.View(ctx))
	if after := must[[]string](t)(v.Partitions(ctx)); len(before) != 3 || !slices.Equal(after, []string{"pt=1", "pt=2"}) {
		t.Errorf("%q, then %q", before, after)
	}
	if s := must[[]hudi.Slice](t)(v.Slices(ctx, "pt=1")); len(s) != 1 || s[0].Instant != at[1] {
		t.Errorf("%+v", s)
	}
	for _, i := range v.Instants() {
		if !i.Done() {
			t.Errorf("%s", i)
		}
	}
	p = commitmeta.CleanPlan{Files: map[string][]commitmeta.CleanFile{"pt=1": {{Path: "file:/elsewhere/hoodie.properties"}}}}
	putAll(t, d, map[string]string{".hoodie/20990101000000002.clean.requested": string(must[[]byte](t)(commitmeta.EncodeCleanPlan(p)))})
	_, err = tb.FinishCleans(ctx)
	wantErr(t, "a plan to delete what is no data", err, table.ErrForeign)
}

func TestReadLeases(t *testing.T) {
	ctx := t.Context()
	d, at := rewritten(t, 3)
	c := newClock()
	o := options()
	o.Clock = c.Now
	tb := must[*table.Table](t)(table.Open(ctx, bucketOf(d), o))
	lease(t, tb)
	reader := must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{ReadOnly: true, Clock: c.Now}))
	in := func(id string, at hudi.Time, d time.Duration) error {
		return reader.RegisterReader(ctx, table.ReadLease{ID: id, Instant: at, Expires: c.Now().Add(d)})
	}
	for _, id := range []string{"", "../x", "a.b", "20260101000000000"} {
		wantErr(t, id, in(id, at[0], time.Hour), hudi.ErrName)
	}
	wantErr(t, "no instant", in("tail", "x", time.Hour), hudi.ErrTime)
	for id, i := range map[string]hudi.Time{"tail-1": at[0], "tail-2": at[1]} {
		if err := in(id, i, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	seen := must[[]table.ReadLease](t)(tb.ReadLeases(ctx))
	if len(seen) != 2 || seen[0].Instant != at[0] || seen[1].ID != "tail-2" {
		t.Errorf("%+v", seen)
	}
	// One that the plan did not see.
	_, err := tb.Clean(ctx, cleanOf(at[0], at[2]), nil)
	wantErr(t, "with a reader that came meanwhile", err, table.ErrConflict)
	if list := names(t, d, "pt=1/"); len(list) != 4 {
		t.Errorf("%q", list)
	}
	if v := must[*table.View](t)(tb.View(ctx)); len(v.Instants()) != 3 {
		t.Errorf("%v", v.Instants())
	}
	// Leases outlive a recovery, expire, and go with the next clean.
	if _, err := tb.Recover(ctx); err != nil {
		t.Fatal(err)
	}
	if len(must[[]table.ReadLease](t)(tb.ReadLeases(ctx))) != 2 {
		t.Error("a recovery took a lease")
	}
	if err := in("tail-2", at[2], 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	c.add(90 * time.Minute)
	if l := must[[]table.ReadLease](t)(tb.ReadLeases(ctx)); len(l) != 1 || l[0].Instant != at[2] {
		t.Errorf("%+v", l)
	}
	must[table.Cleaned](t)(tb.Clean(ctx, cleanOf(at[0], at[2]), nil))
	if list := names(t, d, ".hoodie/couch2hudi/readers/"); len(list) != 1 {
		t.Errorf("%q", list)
	}
	err = in("late", at[1], time.Hour)
	wantErr(t, "before what was cleaned", err, table.ErrCleaned)
	if err == nil || !strings.Contains(err.Error(), string(at[2])) {
		t.Errorf("%v does not say where to begin", err)
	}
	if err := reader.ReleaseReader(ctx, "tail-2"); err != nil {
		t.Error(err)
	}
	if l := must[[]table.ReadLease](t)(tb.ReadLeases(ctx)); len(l) != 0 {
		t.Errorf("%+v", l)
	}
}

// archive archives all but the last two instants of the timeline.
func archive(ctx context.Context, d storage.Driver) (table.Archived, error) {
	tb, err := table.Open(ctx, bucketOf(d), options())
	if err != nil {
		return table.Archived{}, err
	}
	l, err := tb.Lease(ctx)
	if err != nil {
		return table.Archived{}, err
	}
	defer func() { _ = l.Close() }()
	v, err := tb.View(ctx)
	if err != nil {
		return table.Archived{}, err
	}
	done := v.Instants()
	if len(done) <= 2 {
		return table.Archived{}, nil
	}
	return tb.Archive(ctx, done[:len(done)-2])
}

// A process dies at each write of an archival, and the next at each of its own. No
// instant is ever nowhere or pending again, and in the end none is in two places.
func TestArchiveCrashSweep(t *testing.T) {
	deaths, stride := 0, 1
	if testing.Short() {
		stride = 5
	}
	for _, after := range []bool{false, true} {
		for k := 1; ; k += stride {
			crashed := false
			for j := 1; ; j += stride {
				d, at := rewritten(t, 4)
				c := storagetest.NewCrasher(d, storagetest.Crash{At: k, After: after})
				_, err := archive(t.Context(), c)
				if !c.Dead() {
					wantErr(t, "archive", err, nil)
					archived(t, d, at, true, c.Where())
					break
				}
				crashed = true
				deaths++
				archived(t, d, at, false, c.Where())
				r := storagetest.NewCrasher(d, storagetest.Crash{At: j, After: after})
				_, err = archive(t.Context(), r)
				if r.Dead() {
					archived(t, d, at, false, c.Where()+", then "+r.Where())
					_, err = archive(t.Context(), d)
				}
				wantErr(t, c.Where()+", then "+r.Where(), err, nil)
				archived(t, d, at, true, c.Where()+", then "+r.Where())
				if t.Failed() || !r.Dead() {
					break
				}
			}
			if !crashed || t.Failed() {
				break
			}
		}
	}
	if deaths < 30/stride {
		t.Errorf("%d deaths", deaths)
	}
}

func archived(t *testing.T, d storage.Driver, at []hudi.Time, finished bool, when string) {
	t.Helper()
	ctx := context.Background()
	v := must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{ReadOnly: true})).View(ctx))
	for n, i := range v.Instants() {
		if !i.Done() {
			t.Errorf("%s: %s", when, i)
		}
		if len(v.Instants())-n > len(at) || i.Time != at[len(at)-len(v.Instants())+n] {
			t.Errorf("%s: the timeline has a hole: %v", when, v.Instants())
		}
	}
	if finished && len(v.Instants()) != 2 {
		t.Errorf("%s: %v", when, v.Instants())
	}
	whole := must[*table.View](t)(v.Reaching(ctx, ""))
	if w := whole.Writes(); len(w) != len(at) {
		t.Errorf("%s: %v", when, w)
	}
	for n, i := range whole.Writes() {
		b, err := whole.Body(ctx, i)
		if err != nil || i.Time != at[n] || len(b.Stats["pt=1"]) != 1 || !strings.Contains(b.Stats["pt=1"][0].Path, string(at[n])) {
			t.Errorf("%s: %s: %+v %v", when, i, b, err)
		}
	}
	states := map[string]int{}
	for _, name := range names(t, d, ".hoodie/archived/") {
		r := must[*storage.Reader](t)(bucketOf(d).Open(ctx, name))
		for a, err := range timeline.ReadArchive(r, r.Size()) {
			if err != nil {
				t.Fatal(err)
			}
			if states[a.String()]++; states[a.String()] > 1 {
				t.Errorf("%s: %s is in the archive twice", when, a)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if finished && len(states) != 3*(len(at)-2) {
		t.Errorf("%s: %v", when, states)
	}
	for _, p := range []string{"pt=1", "pt=2"} {
		if s := must[[]hudi.Slice](t)(v.Slices(ctx, p)); len(s) != 1 || s[0].Instant != at[len(at)-1] {
			t.Errorf("%s: %+v", when, s)
		}
	}
}

// An archival in the process that reads does not make it list the table's files
// again, and reading reaches as far back as before.
func TestArchiveInProcess(t *testing.T) {
	ctx := t.Context()
	d, at := rewritten(t, 6)
	var trace strings.Builder
	tb := open(t, storagetest.Trace(d, &trace, &storagetest.TraceOptions{Reads: true}))
	v := must[*table.View](t)(tb.View(ctx))
	must[[]hudi.Slice](t)(v.Slices(ctx, "pt=1"))
	if r := must[*table.View](t)(v.Reaching(ctx, at[0])); r != v {
		t.Error("a view that goes back far enough was made anew")
	}
	done := must[table.Archived](t)(tb.Archive(ctx, v.Instants()[:3]))
	if done.Instants != 3 || done.Last != at[2] || done.File == "" {
		t.Errorf("%+v", done)
	}
	trace.Reset()
	now := must[*table.View](t)(tb.View(ctx))
	must[[]hudi.Slice](t)(now.Slices(ctx, "pt=1"))
	if strings.Contains(trace.String(), "list pt=") || !strings.Contains(trace.String(), "list .hoodie/") {
		t.Errorf("%s", trace.String())
	}
	if len(now.Instants()) != 3 || now.AsOf(at[2]).Last() != "" {
		t.Errorf("%v", now.Instants())
	}
	for _, c := range []struct {
		view  *table.View
		after hudi.Time
		want  int
	}{{now, "", 6}, {now, at[0], 5}, {now, at[1], 4}, {now, at[4], 3}, {now.AsOf(at[1]), "", 2}, {now.AsOf(at[1]), at[0], 1}} {
		r := must[*table.View](t)(c.view.Reaching(ctx, c.after))
		if w := r.Writes(); len(w) != c.want || r.Archived(w[0]) != (c.want != 3) {
			t.Errorf("after %s: %v", c.after, w)
		}
	}
	r := must[*table.View](t)(must[*table.View](t)(now.Reaching(ctx, at[1])).Reaching(ctx, ""))
	for _, i := range r.Writes() {
		if b, err := r.Body(ctx, i); err != nil || len(b.Stats) != 2 {
			t.Errorf("%s: %+v %v", i, b, err)
		}
	}
	if s := must[[]hudi.Slice](t)(r.AsOf(at[1]).Slices(ctx, "pt=2")); len(s) != 1 || s[0].Instant != at[1] || r.Last() != at[5] {
		t.Errorf("%+v", s)
	}
	_, err := tb.Archive(ctx, []timeline.Instant{{Time: "20990101000000000", Action: commitmeta.ActionDeltaCommit}})
	wantErr(t, "pending", err, table.ErrBody)
	ro := must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{ReadOnly: true}))
	_, err = ro.Archive(ctx, v.Instants()[:3])
	wantErr(t, "without a lease", err, table.ErrNoLease)
	_, err = ro.FinishCleans(ctx)
	wantErr(t, "without a lease", err, table.ErrNoLease)
}

// What commits carry is found in the archive, the newest first.
func TestExtraInArchive(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	tb := create(t, d)
	var at []hudi.Time
	for n, extra := range []map[string]string{{"a": "1", "b": "1"}, {"a": "2"}, {"c": "b"}, {}, {}} {
		x := must[*table.Txn](t)(tb.Begin(ctx))
		b := body()
		for k, value := range extra {
			b.Extra[k] = value
		}
		if err := x.Commit(ctx, b); err != nil {
			t.Fatal(n, err)
		}
		at = append(at, x.Instant())
	}
	for n := 1; n <= 3; n++ {
		v := must[*table.View](t)(tb.View(ctx))
		must[table.Archived](t)(tb.Archive(ctx, v.Instants()[:1]))
		other := must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{ReadOnly: true}))
		for _, tb := range []*table.Table{tb, other, tb} {
			v := must[*table.View](t)(tb.View(ctx))
			for _, c := range []struct {
				v          *table.View
				key, value string
				at         hudi.Time
			}{{v, "a", "2", at[1]}, {v, "b", "1", at[0]}, {v, "c", "b", at[2]}, {v, "d", "", ""}, {v.AsOf(at[0]), "a", "1", at[0]}, {v.AsOf(at[1]), "c", "", ""}} {
				value, i, ok, err := c.v.Extra(ctx, c.key)
				if value != c.value || i.Time != c.at || ok != (c.value != "") || err != nil {
					t.Errorf("%d archived: %s as of %q: %q of %s, %v", n, c.key, c.v.At(), value, i, err)
				}
			}
			if _, err := v.AsOf(at[0]).Schema(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	damage(t, d, ".hoodie/archived/.commits_.archive.1_1-0-1")
	v := must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{ReadOnly: true})).View(ctx))
	_, _, _, err := v.Extra(ctx, "b")
	wantErr(t, "a key that may be in the damaged part", err, table.ErrArchived)
	_, err = v.Reaching(ctx, "")
	wantErr(t, "instants that may be in the damaged part", err, table.ErrArchived)
	if value, _, _, err := v.Extra(ctx, "a"); value != "2" || err != nil {
		t.Errorf("%q %v", value, err)
	}
}

// damage takes the end off an object.
func damage(t *testing.T, d storage.Driver, name string) {
	t.Helper()
	b := bucketOf(d)
	data := must[[]byte](t)(b.ReadAll(t.Context(), name, 1<<20))
	if _, err := b.Put(t.Context(), name, data[:len(data)-9]); err != nil {
		t.Fatal(err)
	}
}

// What Hudi archived is found as what we did.
func TestGoldenArchive(t *testing.T) {
	ctx := t.Context()
	v := load(t, "w015-v6-archive").view(t)
	r := must[*table.View](t)(v.Reaching(ctx, ""))
	if len(r.Writes()) <= len(v.Writes()) {
		t.Fatalf("%v", r.Writes())
	}
	files := 0
	for _, i := range r.Writes() {
		b, err := r.Body(ctx, i)
		if err != nil || b.Extra[commitmeta.ExtraSchema] == "" && !errors.Is(err, table.ErrCorrupt) {
			t.Errorf("%s: %+v %v", i, b, err)
		}
		for _, stats := range b.Stats {
			files += len(stats)
		}
	}
	if files < len(r.Writes()) {
		t.Errorf("%d files of %d writes", files, len(r.Writes()))
	}
	first := r.Writes()[0]
	if !r.Archived(first) || v.AsOf(first.Time).Last() != "" || r.AsOf(first.Time).Last() != first.Time {
		t.Errorf("%v", first)
	}
}

// An archival that follows another of the process does not read what that one wrote,
// and finds its way when another engine has archived in between.
func TestArchiveAgain(t *testing.T) {
	ctx := t.Context()
	d, at := rewritten(t, 7)
	var trace strings.Builder
	tb := open(t, storagetest.Trace(d, &trace, &storagetest.TraceOptions{Reads: true}))
	next := func(n int) string {
		t.Helper()
		trace.Reset()
		done := must[table.Archived](t)(tb.Archive(ctx, must[*table.View](t)(tb.View(ctx)).Instants()[:n]))
		if done.Instants != n {
			t.Errorf("%+v", done)
		}
		return done.File
	}
	first := next(1)
	if second := next(1); second == first || strings.Contains(trace.String(), first) {
		t.Errorf("%s after %s:\n%s", second, first, trace.String())
	}
	b := bucketOf(d)
	theirs := must[[]byte](t)(b.ReadAll(ctx, first, 1<<20))
	taken := ".hoodie/archived/" + timeline.ArchiveFileName(3)
	must[storage.Object](t)(b.PutIfAbsent(ctx, taken, theirs))
	if file := next(2); file != ".hoodie/archived/"+timeline.ArchiveFileName(4) || !strings.Contains(trace.String(), taken) {
		t.Errorf("%s\n%s", file, trace.String())
	}
	whole := must[*table.View](t)(must[*table.View](t)(tb.View(ctx)).Reaching(ctx, ""))
	if w := whole.Writes(); len(w) != len(at) {
		t.Errorf("%v", w)
	}
}
