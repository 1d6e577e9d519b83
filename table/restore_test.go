package table_test

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// past is a store with a long history, and what its table was at each write.
type past struct {
	d      storage.Driver
	clock  *clock
	at     map[string]hudi.Time
	states map[string]string
}

const (
	pastSaved       = "a savepoint"
	pastQuarantined = "a commit with a file put aside"
	pastCompacted   = "a compaction"
	pastLogged      = "a log file on the compaction"
	pastReplaced    = "a replacecommit"
)

// newPast writes the history: a commit, a log file, a savepoint; a commit with a
// new group and a quarantine; a compaction, planned and run; a commit on its slice; a
// replacecommit.
func newPast(t *testing.T) *past {
	t.Helper()
	ctx := t.Context()
	d, tb, c, held := leasedLogged(t)
	p := &past{d: d, clock: c, at: map[string]hudi.Time{}, states: map[string]string{}}
	note := func(what string) {
		v := viewOf(t, tb)
		p.at[what], p.states[what] = v.Last(), describe(t, v)
		c.add(time.Minute)
	}
	must[table.Savepoint](t)(tb.Save(ctx, "", "me", "before all that"))
	note(pastSaved)

	x := must[*table.Txn](t)(tb.Begin(ctx))
	s := sliceOf(t, x.View(), 1)
	made := must[commitmeta.WriteStat](t)(put(ctx, x, "pt=3", base(x, 3), table.MarkCreate, "base"))
	grown := must[commitmeta.WriteStat](t)(put(ctx, x, "pt=1", logName(1, s.Instant, 2), table.MarkAppend, logContent(t, x.Instant())))
	errs := errors.Join(x.PutAside(ctx, "quarantine/"+string(x.Instant())+".ndjson", []byte("{}\n")), x.Commit(ctx, body(made, grown)))
	if errs != nil {
		t.Fatal(errs)
	}
	note(pastQuarantined)

	at := must[hudi.Time](t)(tb.Schedule(ctx, planOf(sliceOf(t, viewOf(t, tb), 1))))
	run := must[*table.Compaction](t)(tb.BeginCompaction(ctx, at))
	if err := run.Commit(ctx, must[commitmeta.Body](t)(compacted(ctx, run, "0-1-0"))); err != nil {
		t.Fatal(err)
	}
	note(pastCompacted)
	appendLog(t, tb, 1)
	note(pastLogged)

	x = must[*table.Txn](t)(tb.BeginReplace(ctx))
	made = must[commitmeta.WriteStat](t)(put(ctx, x, "pt=2", base(x, 4), table.MarkCreate, "instead"))
	b := body(made)
	b.Operation, b.Replaced = "INSERT_OVERWRITE", map[string][]hudi.FileID{"pt=2": {groupID(2)}}
	if err := x.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	note(pastReplaced)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

// describe is all that a view shows, one line a slice, behind the completed writes.
func describe(t *testing.T, v *table.View) string {
	t.Helper()
	var lines []string
	for _, i := range v.Writes() {
		lines = append(lines, i.String())
	}
	for _, p := range must[[]string](t)(v.Partitions(t.Context())) {
		for _, s := range must[[]hudi.Slice](t)(v.Slices(t.Context(), p)) {
			line := []string{p, string(s.File), s.Base.Name}
			for _, f := range s.Logs {
				line = append(line, f.Name)
			}
			lines = append(lines, strings.Join(line, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// leased runs f with a table opened anew, recovered, under the lease.
func (p *past) leased(ctx context.Context, d storage.Driver, f func(*table.Table) error) error {
	tb, err := table.Open(ctx, bucketOf(d), table.Options{Clock: p.clock.Now})
	if err != nil {
		return err
	}
	l, err := tb.Lease(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	if _, err = tb.Recover(ctx); err == nil && f != nil {
		err = f(tb)
	}
	return err
}

// state is what a reader that has just come sees.
func (p *past) state(t *testing.T) string {
	t.Helper()
	tb := must[*table.Table](t)(table.Open(t.Context(), bucketOf(p.d), table.Options{ReadOnly: true}))
	return describe(t, viewOf(t, tb))
}

// tidy says that nothing is left over, and that the files are those that commits name.
func (p *past) tidy(t *testing.T) {
	t.Helper()
	for _, name := range names(t, p.d, ".hoodie/") {
		for _, bad := range []string{"/.temp/", "/.heartbeat/", "/couch2hudi/restore/"} {
			if strings.Contains(name, bad) {
				t.Errorf("left over: %s", name)
			}
		}
	}
	v := viewOf(t, must[*table.Table](t)(table.Open(t.Context(), bucketOf(p.d), table.Options{ReadOnly: true})))
	got, want := dataFiles(t, p.d), named(t, v)
	if lends(t, p.d) { // what may be a stopped run's stays until the compaction is completed
		pending := slices.ContainsFunc(v.Instants(), func(i timeline.Instant) bool { return i.Time == p.at[pastCompacted] && !i.Done() })
		maps.DeleteFunc(got, func(name string, _ bool) bool {
			n, err := hudi.ParseBaseFileName(path.Base(name))
			return err == nil && pending && n.Instant == p.at[pastCompacted]
		})
	}
	if !maps.Equal(got, want) {
		t.Errorf("files\n%v\nnamed\n%v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	aside := len(names(t, p.d, ".hoodie/couch2hudi/quarantine/"))
	if _, there := find(v, p.at[pastQuarantined]); there != (aside == 1) {
		t.Errorf("%d quarantine files, their commit is there: %v", aside, there)
	}
}

func find(v *table.View, at hudi.Time) (timeline.Instant, bool) {
	k := slices.IndexFunc(v.Writes(), func(i timeline.Instant) bool { return i.Time == at })
	if k < 0 {
		return timeline.Instant{}, false
	}
	return v.Writes()[k], true
}

func TestRestore(t *testing.T) {
	for _, to := range []string{pastSaved, pastQuarantined, pastCompacted, pastLogged, pastReplaced} {
		t.Run(to, func(t *testing.T) {
			ctx, p := t.Context(), newPast(t)
			p.clock.add(time.Hour)
			tb := must[*table.Table](t)(table.Open(ctx, bucketOf(p.d), table.Options{Clock: p.clock.Now}))
			_, err := tb.Restore(ctx, p.at[to])
			wantErr(t, "without the lease", err, table.ErrNoLease)
			plan := must[table.Restored](t)(tb.PlanRestore(ctx, p.at[to]))
			if got := p.state(t); got != p.states[pastReplaced] {
				t.Errorf("a plan did something:\n%s", got)
			}
			lease(t, tb)
			before := viewOf(t, tb)
			done := must[table.Restored](t)(tb.Restore(ctx, p.at[to]))
			if !slices.EqualFunc(plan.Undone, done.Undone, timeline.Instant.Same) || plan.Files != done.Files || (done.Instant == "") != (to == pastReplaced) {
				t.Errorf("planned %+v\ndone    %+v", plan, done)
			}
			for what, got := range map[string]string{"another process": p.state(t), "the same": describe(t, viewOf(t, tb))} {
				if got != p.states[to] {
					t.Errorf("%s\ngot\n%s\nwant\n%s", what, got, p.states[to])
				}
			}
			p.tidy(t)
			if done.Instant != "" {
				p.checkRestored(t, before, done)
			}
			// The table goes on.
			appendLog(t, tb, 1)
			if v := viewOf(t, tb); !v.Last().After(done.Instant) || v.Last().Before(p.at[pastReplaced]) {
				t.Errorf("the next commit %s is not after the restore %s", v.Last(), done.Instant)
			}
		})
	}
}

// checkRestored holds the instant of a restore against what it did.
func (p *past) checkRestored(t *testing.T, before *table.View, done table.Restored) {
	t.Helper()
	read := func(ext string) []byte {
		return must[[]byte](t)(bucketOf(p.d).ReadAll(t.Context(), ".hoodie/"+string(done.Instant)+ext, 1<<20))
	}
	plan := must[commitmeta.RestorePlan](t)(commitmeta.DecodeRestorePlan(read(".restore.requested")))
	result := must[commitmeta.RestoreResult](t)(commitmeta.DecodeRestoreResult(read(".restore")))
	if plan.Savepoint != done.To || len(plan.Instants) != len(done.Undone) || !slices.Equal(plan.Instants, result.Instants) || len(read(".restore.inflight")) > 0 {
		t.Errorf("plan %+v\nresult %+v", plan, result)
	}
	var files int
	var last hudi.Time
	for k, i := range plan.Instants {
		was, ok := find(before, i.Time)
		if !ok || was.Action != i.Action || (last != "" && !i.Time.Before(last)) {
			t.Errorf("instant %d of the plan is %+v, was %s", k, i, was)
		}
		last = i.Time
		for _, r := range result.Rollbacks[i.Time] {
			for _, list := range r.Deleted {
				files += len(list)
			}
		}
	}
	if files != done.Files || files == 0 {
		t.Errorf("the result names %d files, deleted were %d", files, done.Files)
	}
}

// The newest write, one after the other, until the savepoint.
func TestRollback(t *testing.T) {
	ctx, p := t.Context(), newPast(t)
	tb := must[*table.Table](t)(table.Open(ctx, bucketOf(p.d), table.Options{Clock: p.clock.Now}))
	lease(t, tb)
	roll := func(what string) error {
		_, err := tb.Rollback(ctx, p.at[what])
		return err
	}
	wantErr(t, "one that is not there", func() error { _, err := tb.Rollback(ctx, "20200101000000000"); return err }(), table.ErrNoInstant)
	wantErr(t, "an older one", roll(pastLogged), table.ErrNotNewest)
	for _, step := range [][2]string{{pastReplaced, pastLogged}, {pastLogged, pastCompacted}} {
		must[any](t)(nil, roll(step[0]))
		if got := p.state(t); got != p.states[step[1]] {
			t.Errorf("%s rolled back\ngot\n%s\nwant\n%s", step[0], got, p.states[step[1]])
		}
		p.tidy(t)
	}
	// A compaction is planned again, and can be run again in the same process.
	must[any](t)(nil, roll(pastCompacted))
	v := viewOf(t, tb)
	if pending := v.Compactions(); len(pending) != 1 || pending[0].State != timeline.Requested || v.Last() != p.at[pastQuarantined] {
		t.Fatalf("pending %v, last %s", pending, v.Last())
	}
	if s := sliceOf(t, v, 1); len(s.Logs) != 2 || s.Compacting != p.at[pastCompacted] {
		t.Errorf("slice %+v", s)
	}
	wantErr(t, "the commit under the plan", roll(pastQuarantined), table.ErrNotNewest)
	wantErr(t, "the plan", roll(pastCompacted), table.ErrNotPlain)
	run := must[*table.Compaction](t)(tb.BeginCompaction(ctx, p.at[pastCompacted]))
	if err := run.Commit(ctx, must[commitmeta.Body](t)(compacted(ctx, run, "0-2-0"))); err != nil {
		t.Fatal(err)
	}
	if s := sliceOf(t, viewOf(t, tb), 1); !strings.Contains(s.Base.Name, "_0-2-0_") || len(named(t, viewOf(t, tb))) != len(dataFiles(t, p.d)) {
		t.Errorf("run again: %+v", s)
	}
	must[table.Restored](t)(tb.Restore(ctx, p.at[pastQuarantined]))
	must[any](t)(nil, roll(pastQuarantined))
	if got := p.state(t); got != p.states[pastSaved] {
		t.Errorf("got\n%s\nwant\n%s", got, p.states[pastSaved])
	}
	p.tidy(t)
	wantErr(t, "under a savepoint", roll(pastSaved), table.ErrSaved)
	must[any](t)(nil, tb.DeleteSavepoint(ctx, p.at[pastSaved]))
	must[any](t)(nil, roll(pastSaved))
	if v := viewOf(t, tb); len(v.Writes()) != 1 || len(sliceOf(t, v, 1).Logs) != 0 {
		t.Errorf("writes %v", v.Writes())
	}
}

// A process dies at each write of a restore and of a rollback; then Recover dies at
// some of its own writes, others each time; then it runs once more. The table is as
// before or as after, and the same command then comes to its end.
func TestCrashRestore(t *testing.T) {
	type act struct {
		do            func(context.Context, *past, *table.Table) error
		before, after string
		// from is the write that the history is taken back to first.
		from string
		// again says that the act can be done once more when it was done.
		again error
	}
	restore := func(to string) func(context.Context, *past, *table.Table) error {
		return func(ctx context.Context, p *past, tb *table.Table) error {
			_, err := tb.Restore(ctx, p.at[to])
			return err
		}
	}
	roll := func(ctx context.Context, p *past, tb *table.Table) error {
		_, err := tb.Rollback(ctx, p.at[pastReplaced])
		return err
	}
	uncompact := func(ctx context.Context, p *past, tb *table.Table) error {
		_, err := tb.Rollback(ctx, p.at[pastCompacted])
		return err
	}
	acts := map[string]act{
		"roll a compaction back":   {do: uncompact, from: pastCompacted, before: pastCompacted, after: pastQuarantined, again: table.ErrNotPlain},
		"restore to the savepoint": {do: restore(pastSaved), before: pastReplaced, after: pastSaved},
		"restore by one":           {do: restore(pastLogged), before: pastReplaced, after: pastLogged},
		"roll back":                {do: roll, before: pastReplaced, after: pastLogged, again: table.ErrNoInstant},
	}
	for name, a := range acts {
		t.Run(name, func(t *testing.T) {
			outcomes := map[string]int{}
			for _, after := range []bool{false, true} {
				for k := 1; ; k++ {
					crash := storagetest.Crash{At: k, After: after}
					crashed := func() (*past, *storagetest.Crasher) {
						p := newPast(t)
						if a.from != "" {
							err := p.leased(t.Context(), p.d, func(tb *table.Table) error { return restore(a.from)(t.Context(), p, tb) })
							must[any](t)(nil, err)
							p.clock.add(-3 * time.Minute) // what was written by it was written a moment ago
						}
						c := storagetest.NewCrasher(p.d, crash)
						err := p.leased(t.Context(), c, func(tb *table.Table) error { return a.do(t.Context(), p, tb) })
						if !c.Dead() && err != nil {
							t.Fatal(err)
						}
						return p, c
					}
					p, c := crashed()
					const step = 9
					for j := 1 + k%step; ; j += step {
						r := storagetest.NewCrasher(p.d, storagetest.Crash{At: j, After: after})
						err := p.leased(t.Context(), r, nil)
						if r.Dead() {
							err = p.leased(t.Context(), p.d, nil)
						}
						if err != nil {
							t.Fatalf("%s, then recovery %s: %v", c.Where(), r.Where(), err)
						}
						got := p.state(t)
						if got != p.states[a.before] && got != p.states[a.after] {
							t.Fatalf("%s, then recovery %s\n%s", c.Where(), r.Where(), got)
						}
						p.tidy(t)
						if got == p.states[a.after] {
							outcomes["after"]++
						} else {
							outcomes["before"]++
						}
						err = p.leased(t.Context(), p.d, func(tb *table.Table) error { return a.do(t.Context(), p, tb) })
						if err != nil && (got == p.states[a.before] || !errors.Is(err, a.again)) {
							t.Fatalf("%s, then recovery %s, then: %v", c.Where(), r.Where(), err)
						}
						if got := p.state(t); got != p.states[a.after] {
							t.Fatalf("%s, then recovery %s, then\n%s", c.Where(), r.Where(), got)
						}
						if p.tidy(t); t.Failed() {
							t.Fatalf("%s, then recovery %s\n%s", c.Where(), r.Where(), strings.Join(names(t, p.d, ""), "\n"))
						}
						if !r.Dead() {
							break
						}
						p, c = crashed()
					}
					if !c.Dead() {
						break
					}
				}
			}
			if outcomes["before"] == 0 || outcomes["after"] == 0 {
				t.Errorf("outcomes %v", outcomes)
			}
			t.Logf("%v", outcomes)
		})
	}
}

func TestRestoreRefuses(t *testing.T) {
	ctx := t.Context()
	cleaned := func(p *past, t *testing.T, state, partition, file string) {
		t.Helper()
		at := hudi.Time("20270101000000000")
		files := map[string]string{}
		if state == "done" {
			r := commitmeta.CleanResult{Start: at, Partitions: map[string]commitmeta.CleanedPartition{
				partition: {Policy: commitmeta.KeepLatestCommits, Planned: []string{file}, Deleted: []string{file}}}}
			files[".hoodie/"+string(at)+".clean"] = string(must[[]byte](t)(commitmeta.EncodeCleanResult(r)))
			if err := bucketOf(p.d).Delete(ctx, partition+"/"+file); err != nil {
				t.Fatal(err)
			}
		} else {
			plan := commitmeta.CleanPlan{Policy: commitmeta.KeepLatestCommits, Files: map[string][]commitmeta.CleanFile{partition: {{Path: "file:/t/" + partition + "/" + file}}}}
			files[".hoodie/"+string(at)+".clean.requested"] = string(must[[]byte](t)(commitmeta.EncodeCleanPlan(plan)))
		}
		putAll(t, p.d, files)
	}
	old := func(p *past, t *testing.T) string {
		tb := must[*table.Table](t)(table.Open(ctx, bucketOf(p.d), table.Options{ReadOnly: true}))
		return must[[]hudi.Slice](t)(viewOf(t, tb).AsOf(p.at[pastSaved]).Slices(ctx, "pt=1"))[0].Base.Name
	}
	compactedBase := func(p *past, t *testing.T) string {
		tb := must[*table.Table](t)(table.Open(ctx, bucketOf(p.d), table.Options{ReadOnly: true}))
		return sliceOf(t, viewOf(t, tb), 1).Base.Name
	}
	for name, c := range map[string]struct {
		to   string
		roll bool
		make func(p *past, t *testing.T)
		want error
	}{
		"an instant that is not there": {to: "20200101000000000", want: table.ErrNoInstant},
		"files were cleaned":           {to: pastSaved, make: func(p *past, t *testing.T) { cleaned(p, t, "done", "pt=1", old(p, t)) }, want: table.ErrCleaned},
		"files are about to be":        {to: pastSaved, make: func(p *past, t *testing.T) { cleaned(p, t, "pending", "pt=1", old(p, t)) }, want: table.ErrCleaned},
		"a rollback: what was replaced was cleaned": {to: pastReplaced, roll: true, make: func(p *past, t *testing.T) {
			cleaned(p, t, "done", "pt=2", hudi.BaseFileName{File: groupID(2), Token: "0-1-0", Instant: "20260102030405000"}.String())
		}, want: table.ErrCleaned},
		"cleaned below what is needed": {to: pastCompacted, make: func(p *past, t *testing.T) { cleaned(p, t, "done", "pt=1", old(p, t)) }},
		"a cleaned file of the future": {to: pastSaved, make: func(p *past, t *testing.T) { cleaned(p, t, "pending", "pt=1", compactedBase(p, t)) }},
		"a later savepoint": {to: pastSaved, make: func(p *past, t *testing.T) {
			must[any](t)(nil, p.leased(ctx, p.d, func(tb *table.Table) error { _, err := tb.Save(ctx, p.at[pastLogged], "", ""); return err }))
		}, want: table.ErrSaved},
		"another engine's restore": {to: pastSaved, make: func(p *past, t *testing.T) {
			plan := commitmeta.RestorePlan{Savepoint: p.at[pastSaved]}
			putAll(t, p.d, map[string]string{".hoodie/20270101000000000.restore.requested": string(must[[]byte](t)(commitmeta.EncodeRestorePlan(plan)))})
		}, want: table.ErrForeign},
		"later commits archived": {to: pastSaved, make: archiveBeyond, want: table.ErrCleaned},
		"an archiver that died":  {to: pastSaved, make: func(p *past, t *testing.T) { archiveQuarantined(p, t) }, want: table.ErrCleaned},
		"a compaction under way": {to: pastSaved, make: func(p *past, t *testing.T) {
			must[storage.Lock](t)(bucketOf(p.d).Lock(ctx, ".hoodie/couch2hudi/compaction.lock"))
		}, want: table.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPast(t)
			if c.make != nil {
				c.make(p, t)
			}
			before := names(t, p.d, "")
			to := p.at[c.to]
			if to == "" {
				to = hudi.Time(c.to)
			}
			err := p.leased(ctx, p.d, func(tb *table.Table) (err error) {
				if c.roll {
					_, err = tb.Rollback(ctx, to)
				} else {
					_, err = tb.Restore(ctx, to)
				}
				return err
			})
			if c.want == nil {
				must[any](t)(nil, err)
				return
			}
			wantErr(t, "restore", err, c.want)
			if after := names(t, p.d, ""); !slices.Equal(before, after) {
				t.Errorf("it did something:\n%s\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		})
	}
}

// archiveQuarantined puts a commit after the savepoint into the archive, and gives the
// name of its completed file, which stays.
func archiveQuarantined(p *past, t *testing.T) string {
	t.Helper()
	var b strings.Builder
	w := must[*timeline.ArchiveWriter](t)(timeline.NewArchiveWriter(&b))
	at := timeline.Instant{Time: p.at[pastQuarantined], Action: commitmeta.ActionDeltaCommit, State: timeline.Completed}
	name := ".hoodie/" + string(at.Time) + ".deltacommit"
	content := must[[]byte](t)(bucketOf(p.d).ReadAll(t.Context(), name, 1<<20))
	if err := errors.Join(w.Append(at, content), w.Close()); err != nil {
		t.Fatal(err)
	}
	putAll(t, p.d, map[string]string{".hoodie/archived/" + timeline.ArchiveFileName(1): b.String()})
	return name
}

// archiveBeyond moves the oldest commits into the archive, but for the one that a
// savepoint holds: Hudi can be told so.
func archiveBeyond(p *past, t *testing.T) {
	t.Helper()
	forgetOldest(p, t)
	name := archiveQuarantined(p, t)
	for _, s := range []string{"", ".requested", ".inflight"} {
		must[any](t)(nil, bucketOf(p.d).Delete(t.Context(), name+s))
	}
}

// A restore to a savepoint reaches below what was cleaned, and from then on the table
// can be read from there.
func TestRestoreReach(t *testing.T) {
	ctx, p := t.Context(), newPast(t)
	const at = hudi.Time("20260601000000000")
	clean := commitmeta.CleanResult{Start: at, Earliest: p.at[pastLogged], Partitions: map[string]commitmeta.CleanedPartition{}}
	putAll(t, p.d, map[string]string{".hoodie/" + string(at) + ".clean": string(must[[]byte](t)(commitmeta.EncodeCleanResult(clean)))})
	tb := must[*table.Table](t)(table.Open(ctx, bucketOf(p.d), table.Options{Clock: p.clock.Now}))
	lease(t, tb)
	register := func() error {
		return tb.RegisterReader(ctx, table.ReadLease{ID: "r", Instant: p.at[pastSaved], Expires: p.clock.Now().Add(time.Hour)})
	}
	wantErr(t, "before the restore", register(), table.ErrCleaned)
	must[table.Restored](t)(tb.Restore(ctx, p.at[pastSaved]))
	if reach := must[table.Reach](t)(viewOf(t, tb).Cleaned(ctx)); reach.Earliest != p.at[pastSaved] || reach.Unbounded || reach.Pending {
		t.Errorf("reach %+v", reach)
	}
	must[any](t)(nil, register())
}

// What is older than a table of savepoints alone was archived, and counts.
func TestRestoreToArchived(t *testing.T) {
	ctx, p := t.Context(), newPast(t)
	oldest := forgetOldest(p, t)
	must[any](t)(nil, p.leased(ctx, p.d, func(tb *table.Table) error { _, err := tb.Restore(ctx, p.at[pastSaved]); return err }))
	if got, want := p.state(t), strings.TrimPrefix(p.states[pastSaved], oldest.String()+"\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// forgetOldest takes the oldest commit off the timeline.
func forgetOldest(p *past, t *testing.T) timeline.Instant {
	t.Helper()
	oldest := viewOf(t, must[*table.Table](t)(table.Open(t.Context(), bucketOf(p.d), table.Options{ReadOnly: true}))).Writes()[0]
	for _, s := range []string{"", ".requested", ".inflight"} {
		must[any](t)(nil, bucketOf(p.d).Delete(t.Context(), ".hoodie/"+string(oldest.Time)+".deltacommit"+s))
	}
	return oldest
}
