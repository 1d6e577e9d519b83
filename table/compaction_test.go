package table_test

import (
	"context"
	"errors"
	"io"
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

// logged is a store whose group 1 has a base file and one log file. Its clock
// and the table's are the same.
func logged(t *testing.T) (storage.Driver, *table.Table, *clock) {
	t.Helper()
	d, tb, c, l := leasedLogged(t)
	t.Cleanup(func() { _ = l.Close() })
	return d, tb, c
}

// leasedLogged is logged with the lease for the caller to close.
func leasedLogged(t *testing.T) (storage.Driver, *table.Table, *clock, io.Closer) {
	t.Helper()
	c := newClock()
	d := teststore.At(t, c.Now)
	tb := must[*table.Table](t)(table.Create(t.Context(), bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, table.Options{Clock: c.Now}))
	l := must[io.Closer](t)(tb.Lease(t.Context()))
	must[hudi.Time](t)(commitBases(t.Context(), tb, 1, 2))
	c.add(time.Minute)
	appendLog(t, tb, 1)
	c.add(time.Minute)
	return d, tb, c, l
}

// appendLog commits a log file to the latest slice of a group, as the writer
// names it.
func appendLog(t *testing.T, tb *table.Table, group int) {
	t.Helper()
	x := must[*table.Txn](t)(tb.Begin(t.Context()))
	s := sliceOf(t, x.View(), group)
	on := s.Instant
	if s.Compacting != "" {
		on = s.Compacting
	}
	version := 1
	for _, f := range s.Logs {
		if n := must[hudi.LogFileName](t)(hudi.ParseLogFileName(f.Name)); n.Instant == on {
			version = max(version, n.Version+1)
		}
	}
	stat := must[commitmeta.WriteStat](t)(put(t.Context(), x, s.Partition, logName(group, on, version), table.MarkAppend, logContent(t, x.Instant())))
	if err := x.Commit(t.Context(), body(stat)); err != nil {
		t.Fatal(err)
	}
}

func sliceOf(t *testing.T, v *table.View, group int) hudi.Slice {
	t.Helper()
	list := must[[]hudi.Slice](t)(v.Slices(t.Context(), "pt="+string(rune('0'+group))))
	if len(list) != 1 {
		t.Fatalf("group %d has %d slices", group, len(list))
	}
	return list[0]
}

func viewOf(t *testing.T, tb *table.Table) *table.View {
	t.Helper()
	return must[*table.View](t)(tb.View(t.Context()))
}

// planOf is the plan of the slice's compaction.
func planOf(s hudi.Slice) commitmeta.CompactionPlan {
	o := commitmeta.CompactionOperation{Location: s.Location, Instant: s.Instant, Base: s.Base.Name}
	for _, f := range s.Logs {
		o.Logs = append(o.Logs, f.Name)
	}
	return commitmeta.CompactionPlan{Operations: []commitmeta.CompactionOperation{o}}
}

// compacted writes what a run writes, but does not complete it.
func compacted(ctx context.Context, c *table.Compaction, token string) (commitmeta.Body, error) {
	s := c.Slices()[0]
	name := hudi.BaseFileName{File: s.File, Token: token, Instant: c.Instant()}.String()
	up, err := c.Create(ctx, s.Partition, name, table.MarkMerge)
	if err != nil {
		return commitmeta.Body{}, err
	}
	if _, err := up.Write([]byte("merged")); err != nil {
		return commitmeta.Body{}, errors.Join(err, up.Abort())
	}
	o, err := up.Commit()
	b := body(commitmeta.WriteStat{File: s.File, Path: o.Name, Partition: s.Partition, PrevCommit: s.Instant, Bytes: o.Size, Writes: 1})
	b.Operation, b.Compacted = "COMPACT", true
	return b, err
}

func TestCompaction(t *testing.T) {
	d, tb, c := logged(t)
	before := sliceOf(t, viewOf(t, tb), 1)
	at := must[hudi.Time](t)(tb.Schedule(t.Context(), planOf(before)))
	if got := sliceOf(t, viewOf(t, tb), 1); got.Compacting != at || got.Base != before.Base {
		t.Fatalf("planned: %+v", got)
	}
	run := must[*table.Compaction](t)(tb.BeginCompaction(t.Context(), at))
	appendLog(t, tb, 1) // a commit beside the run
	b := must[commitmeta.Body](t)(compacted(t.Context(), run, "0-1-0"))
	appendLog(t, tb, 2)
	if err := run.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for what, tb := range map[string]*table.Table{"the same process": tb, "another": must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), table.Options{ReadOnly: true}))} {
		v := viewOf(t, tb)
		got := sliceOf(t, v, 1)
		if got.Instant != at || got.Compacting != "" || len(got.Logs) != 1 || got.Base.Size != int64(len("merged")) {
			t.Errorf("%s sees %+v", what, got)
		}
		i := slices.IndexFunc(v.Instants(), func(i timeline.Instant) bool { return i.Time == at })
		if s := v.Instants()[i].String(); s != string(at)+" commit completed" {
			t.Errorf("%s sees %q", what, s)
		}
	}
	for _, name := range names(t, d, ".hoodie/.") {
		t.Errorf("left over: %s", name)
	}
	c.add(time.Minute)
	appendLog(t, tb, 1)
}

// The plan's instant is later than the completed files' times, which Hudi 1.x
// takes for the times of completion, though the store's clock is ahead of ours.
func TestScheduleIsLaterThanFiles(t *testing.T) {
	ours, store := newClock(), newClock()
	d := teststore.At(t, store.Now)
	tb := must[*table.Table](t)(table.Create(t.Context(), bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, table.Options{Clock: ours.Now}))
	lease(t, tb)
	must[hudi.Time](t)(commitBases(t.Context(), tb, 1))
	store.add(time.Hour)
	appendLog(t, tb, 1)
	at := must[hudi.Time](t)(tb.Schedule(t.Context(), planOf(sliceOf(t, viewOf(t, tb), 1))))
	if !at.After(hudi.FormatTime(store.Now())) {
		t.Errorf("planned at %s, files were completed at %s", at, hudi.FormatTime(store.Now()))
	}
}

func TestScheduleRefuses(t *testing.T) {
	_, tb, _ := logged(t)
	s := sliceOf(t, viewOf(t, tb), 1)
	schedule := func(p commitmeta.CompactionPlan) error {
		_, err := tb.Schedule(t.Context(), p)
		return err
	}
	x := must[*table.Txn](t)(tb.Begin(t.Context()))
	wantErr(t, "while a commit is open", schedule(planOf(s)), table.ErrBusy)
	if err := x.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "no operation", schedule(commitmeta.CompactionPlan{}), table.ErrBody)
	fewer := planOf(s)
	fewer.Operations[0].Logs = []string{logName(1, s.Instant, 9)}
	wantErr(t, "other logs", schedule(fewer), table.ErrConflict)
	twice := planOf(s)
	twice.Operations = append(twice.Operations, twice.Operations[0])
	wantErr(t, "a group twice", schedule(twice), table.ErrConflict)
	if err := schedule(planOf(s)); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "planned already", schedule(planOf(s)), table.ErrConflict)
}

// A second executor does not touch what a living one does; a dead one's files
// go, and the plan is run again.
func TestCompactionOfTheDead(t *testing.T) {
	for name, c := range map[string]struct {
		// heartbeat is what is in the file, if there; age how old all is.
		heartbeat *string
		age       time.Duration
		lives     bool
	}{
		"ours":                  {heartbeat: ptr("couch2hudi\n")},
		"another's, fresh":      {heartbeat: ptr(""), age: time.Minute, lives: true},
		"another's, old":        {heartbeat: ptr(""), age: 3 * time.Minute},
		"no heartbeat, at work": {age: time.Minute, lives: true},
		"no heartbeat, silent":  {age: 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			d, tb, clock := logged(t)
			at := must[hudi.Time](t)(tb.Schedule(t.Context(), planOf(sliceOf(t, viewOf(t, tb), 1))))
			appendLog(t, tb, 1)
			file := "pt=1/" + hudi.BaseFileName{File: groupID(1), Token: "7-7-7", Instant: at}.String()
			unmarked := "pt=1/" + hudi.BaseFileName{File: groupID(1), Token: "8-8-8", Instant: at}.String()
			left := map[string]string{".hoodie/" + string(at) + ".compaction.inflight": "", file: "torn", unmarked: "torn",
				".hoodie/.temp/" + string(at) + "/" + file + ".marker.MERGE": ""}
			if c.heartbeat != nil {
				left[".hoodie/.heartbeat/"+string(at)] = *c.heartbeat
			}
			putAll(t, d, left)
			clock.add(c.age)
			other := must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), table.Options{Clock: clock.Now}))
			run, err := other.BeginCompaction(t.Context(), at)
			if c.lives {
				wantErr(t, "begin", err, table.ErrBusy)
				must[[]timeline.Instant](t)(tb.Recover(t.Context()))
				if !dataFiles(t, d)[file] {
					t.Error("a living executor's file is gone")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b := must[commitmeta.Body](t)(compacted(t.Context(), run, "0-1-0"))
			if err := run.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if got := dataFiles(t, d); got[file] || got[unmarked] {
				t.Errorf("the dead executor's files are there: %v", got)
			}
			if got := sliceOf(t, viewOf(t, tb), 1); got.Instant != at || got.Base.Size != int64(len("merged")) || len(got.Logs) != 1 {
				t.Errorf("the other process sees %+v", got)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// Two processes of ours: the second is told, and sees the first's end.
func TestCompactionBusy(t *testing.T) {
	d, tb, clock := logged(t)
	at := must[hudi.Time](t)(tb.Schedule(t.Context(), planOf(sliceOf(t, viewOf(t, tb), 1))))
	other := must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), table.Options{Clock: clock.Now}))
	run := must[*table.Compaction](t)(other.BeginCompaction(t.Context(), at))
	_, err := tb.BeginCompaction(t.Context(), at)
	wantErr(t, "beside a run", err, table.ErrBusy)
	must[[]timeline.Instant](t)(tb.Recover(t.Context()))
	b := must[commitmeta.Body](t)(compacted(t.Context(), run, "0-1-0"))
	if err := run.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "commit after abort", run.Commit(t.Context(), b), table.ErrFinished)
	if got := dataFiles(t, d); len(got) != 3 {
		t.Errorf("after an abort: %v", got)
	}
	run = must[*table.Compaction](t)(tb.BeginCompaction(t.Context(), at))
	b = must[commitmeta.Body](t)(compacted(t.Context(), run, "0-1-0"))
	if err := run.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	_, err = other.BeginCompaction(t.Context(), at)
	wantErr(t, "completed", err, table.ErrNotPending)
}

// Another engine completes the compaction, or rolls our run of it back: ours
// takes itself back and leaves the other's alone.
func TestCompactionByAnother(t *testing.T) {
	for _, done := range []bool{true, false} {
		d, tb, _ := logged(t)
		at := must[hudi.Time](t)(tb.Schedule(t.Context(), planOf(sliceOf(t, viewOf(t, tb), 1))))
		run := must[*table.Compaction](t)(tb.BeginCompaction(t.Context(), at))
		b := must[commitmeta.Body](t)(compacted(t.Context(), run, "0-1-0"))
		theirs := "pt=1/" + hudi.BaseFileName{File: groupID(1), Token: "7-7-7", Instant: at}.String()
		inflight := ".hoodie/" + string(at) + ".compaction.inflight"
		putAll(t, d, map[string]string{theirs: "by another"})
		if done {
			other := body(commitmeta.WriteStat{File: groupID(1), Path: theirs, Partition: "pt=1", Bytes: 10, Writes: 1})
			putAll(t, d, map[string]string{".hoodie/" + string(at) + ".commit": string(must[[]byte](t)(commitmeta.Encode(hudi.Version6, other)))})
		} else if err := bucketOf(d).Delete(t.Context(), inflight); err != nil {
			t.Fatal(err)
		} else {
			// Not empty: on S3 an empty one put within the same second is the same file.
			putAll(t, d, map[string]string{inflight: "{}"})
		}
		wantErr(t, "commit", run.Commit(t.Context(), b), table.ErrConflict)
		if err := run.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		var merged []string
		for name := range dataFiles(t, d) {
			if strings.HasSuffix(name, string(at)+".parquet") {
				merged = append(merged, name)
			}
		}
		if len(merged) != 1 || merged[0] != theirs {
			t.Errorf("done %v: left %v", done, merged)
		}
		if there := must[bool](t)(bucketOf(d).Exists(t.Context(), inflight)); !there {
			t.Errorf("done %v: the other's inflight file is gone", done)
		}
		if got := sliceOf(t, viewOf(t, tb), 1); done != (got.Base.Name == strings.TrimPrefix(theirs, "pt=1/")) {
			t.Errorf("done %v: %+v", done, got)
		}
	}
}

// A compaction covers its plan or is refused.
func TestCompactionIncomplete(t *testing.T) {
	_, tb, _ := logged(t)
	at := must[hudi.Time](t)(tb.Schedule(t.Context(), planOf(sliceOf(t, viewOf(t, tb), 1))))
	run := must[*table.Compaction](t)(tb.BeginCompaction(t.Context(), at))
	wantErr(t, "commit", run.Commit(t.Context(), body()), table.ErrBody)
	_, err := run.Create(t.Context(), "pt=1", logName(1, at, 1), table.MarkAppend)
	wantErr(t, "a log file", err, table.ErrUnsupported)
	if err := run.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
}
