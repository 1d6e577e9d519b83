package compaction_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// count counts objects under a prefix.
func (w *world) count(prefix string, match func(name string) bool) int {
	w.t.Helper()
	n := 0
	for o, err := range storage.New(w.store, nil).List(context.Background(), prefix) {
		w.must(err)
		if match(o.Name) {
			n++
		}
	}
	return n
}

// past is what a table was after a commit, and what the commit wrote.
type past struct {
	at              hudi.Time
	snapshot, wrote []string
}

// remember reads both.
func (w *world) remember() past {
	w.t.Helper()
	v := w.view()
	list := v.Writes()
	p := past{at: list[len(list)-1].Time, snapshot: w.snapshot(v)}
	before := hudi.Time("0")
	if len(list) > 1 {
		before = list[len(list)-2].Time
	}
	p.wrote = w.lines(reader.Incremental(context.Background(), v, before, p.at, reader.Options{}))
	return p
}

// recall checks that a process that knows nothing reads the same; v reaches as far
// back as need be.
func (w *world) recall(v *table.View, p past) {
	w.t.Helper()
	if got := w.lines(reader.Snapshot(context.Background(), v.AsOf(p.at), reader.Options{})); !slices.Equal(got, p.snapshot) {
		w.t.Fatalf("as of %s:\n got %q\nwant %q", p.at, got, p.snapshot)
	}
	clock, err := p.at.Clock()
	w.must(err)
	before := hudi.FormatTime(clock.Add(-time.Millisecond))
	if got := w.lines(reader.Incremental(context.Background(), v, before, p.at, reader.Options{})); !slices.Equal(got, p.wrote) {
		w.t.Fatalf("written by %s:\n got %q\nwant %q", p.at, got, p.wrote)
	}
}

// An ingest of five hours, a commit a minute, with an hour kept for readers and
// services beside it: files and timeline stay bounded, whatever is younger than an
// hour reads as it did then, and nothing is lost.
func TestServicesBound(t *testing.T) {
	const keepMin, keepMax = 20, 30
	const every, young = 150, 55 // minutes between two looks, and how far back each looks
	minutes := 300
	if testing.Short() {
		minutes = 180
	}
	w := newWorld(t, 9)
	var failed error
	cleans, archives := 0, 0
	s := compaction.New(compaction.Options{Table: w.table, Mode: compaction.Inline, Clock: w.clock.Now,
		Clean:   compaction.CleanPolicy{Retain: time.Hour},
		Archive: compaction.ArchivePolicy{KeepMin: keepMin, KeepMax: keepMax},
		Events: compaction.Events{Failed: failing(&failed), Cleaned: func(table.Cleaned) { cleans++ },
			Archived: func(table.Archived) { archives++ }}})
	var history []past
	files := map[int]int{}
	for n := range minutes {
		w.commit(6)
		if n%every >= every-young {
			history = append(history, w.remember())
		} else {
			history = append(history, past{at: w.view().Last()})
		}
		w.must(s.Due(t.Context()))
		if failed != nil {
			t.Fatal(failed)
		}
		w.clock.add(time.Minute)
		if n%60 == 59 {
			files[n] = w.count("pt=", func(string) bool { return true })
		}
		if n%every != every-1 {
			continue
		}
		v := w.fresh()
		if got := len(v.Writes()); got > keepMax+1 {
			t.Errorf("minute %d: %d writes on the timeline", n, got)
		}
		// A state file for each state, and cleans with their own.
		if got := w.count(".hoodie/2", func(string) bool { return true }); got > 6*keepMax {
			t.Errorf("minute %d: %d files of the timeline", n, got)
		}
		for _, p := range history[len(history)-young:] {
			w.recall(v, p)
		}
	}
	w.check("in the end")
	if cleans < minutes/15 || archives < minutes/30 {
		t.Errorf("%d cleans, %d archivals", cleans, archives)
	}
	if files[minutes-1] > files[119]+files[119]/5 {
		t.Errorf("files: %v", files)
	}
	v := w.fresh()
	for _, key := range []string{commitmeta.ExtraCheckpoint, commitmeta.ExtraSchema} {
		if _, _, ok, err := v.Extra(t.Context(), key); !ok || err != nil {
			t.Errorf("%s: %v %v", key, ok, err)
		}
	}
	whole, err := v.Reaching(t.Context(), "")
	w.must(err)
	if n := len(whole.Writes()); n < minutes {
		t.Errorf("%d writes in archive and timeline, want %d and compactions", n, minutes)
	}
	w.oldest(v, history)
}

// oldest checks what is said of a past that is gone: the instant that is named
// works, and the one before it does not.
func (w *world) oldest(v *table.View, history []past) {
	w.t.Helper()
	ctx := context.Background()
	first := func(read func(at hudi.Time) error) {
		w.t.Helper()
		err := read(history[0].at)
		var gone *reader.RangeError
		if !errors.As(err, &gone) || !errors.Is(err, reader.ErrCleaned) || !strings.Contains(gone.Hint(), string(gone.Oldest)) {
			w.t.Fatalf("%v", err)
		}
		if err := read(gone.Oldest); err != nil {
			w.t.Errorf("%s is named: %v", gone.Oldest, err)
		}
		whole, err := v.Reaching(ctx, "")
		w.must(err)
		before := hudi.Time("")
		for _, i := range whole.Writes() {
			if i.Time.Before(gone.Oldest) {
				before = i.Time
			}
		}
		if err := read(before); !errors.Is(err, reader.ErrCleaned) {
			w.t.Errorf("%s is named, and %s works too: %v (%v)", gone.Oldest, before, err, gone)
		}
	}
	first(func(at hudi.Time) error {
		return failure(reader.Incremental(ctx, v, at, history[100].at, reader.Options{}))
	})
	first(func(at hudi.Time) error { return failure(reader.Snapshot(ctx, v.AsOf(at), reader.Options{})) })
}

func failure(rows func(yield func(*hudi.Record, error) bool)) error {
	for _, err := range rows {
		if err != nil {
			return err
		}
	}
	return nil
}

// Reading is the same before and after a clean and an archival, for a reader that
// registered too, and the writer goes on.
func TestCleanKeepsWhatReadersNeed(t *testing.T) {
	for _, c := range []compaction.CleanPolicy{{Retain: 10 * time.Minute}, {By: compaction.ByCommits, Keep: 10}, {By: compaction.ByVersions, Keep: 2}} {
		t.Run(string(c.By), func(t *testing.T) {
			w := newWorld(t, 4)
			var history []past
			const stands = 12 // the commit at which a reader stands
			for n := range 30 {
				w.commit(10)
				if n >= stands {
					history = append(history, w.remember())
				}
				w.clock.add(time.Minute)
				if n%5 == 4 {
					at, err := w.table.Schedule(t.Context(), w.planAll())
					w.must(err)
					_, err = compaction.Run(t.Context(), w.table, at, compaction.RunOptions{Clock: w.clock.Now})
					w.must(err)
				}
			}
			w.must(w.table.RegisterReader(t.Context(), table.ReadLease{ID: "tail", Instant: history[0].at, Expires: w.clock.Now().Add(time.Hour)}))
			before := w.count("pt=", func(string) bool { return true })
			serve := func() {
				_, err := compaction.Clean(t.Context(), w.table, c)
				w.must(err)
				_, err = compaction.Archive(t.Context(), w.table, compaction.ArchivePolicy{KeepMin: 3, KeepMax: 4})
				w.must(err)
			}
			serve()
			if after := w.count("pt=", func(string) bool { return true }); after >= before {
				t.Errorf("%d files, then %d", before, after)
			}
			for _, p := range history {
				w.recall(w.fresh(), p)
			}
			w.must(w.table.ReleaseReader(t.Context(), "tail"))
			before = w.count("pt=", func(string) bool { return true })
			serve()
			if after := w.count("pt=", func(string) bool { return true }); after >= before {
				t.Errorf("without the reader: %d files, then %d", before, after)
			}
			if c.By != compaction.ByVersions {
				for _, p := range history[len(history)-8:] {
					w.recall(w.fresh(), p)
				}
			}
			w.check("cleaned")
			w.commit(10)
			w.check("after a commit on top")
			done, err := compaction.Clean(t.Context(), w.table, c)
			w.must(err)
			if len(done) > 0 {
				t.Errorf("an empty clean was written: %+v", done)
			}
		})
	}
}

// The process dies at each write of a clean and of an archival that services make.
// Rows and the young past are there at any time, and the next process finishes.
func TestCrashOfCleanAndArchive(t *testing.T) {
	policy := compaction.CleanPolicy{Retain: 3 * time.Minute}
	keep := compaction.ArchivePolicy{KeepMin: 3, KeepMax: 4}
	serve := func(ctx context.Context, d storage.Driver, o table.Options) error {
		tb, err := table.Open(ctx, storage.New(d, nil), o)
		if err != nil {
			return err
		}
		lease, err := tb.Lease(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = lease.Close() }()
		if _, err := tb.Recover(ctx); err != nil {
			return err
		}
		if _, err := compaction.Clean(ctx, tb, policy); err != nil {
			return err
		}
		_, err = compaction.Archive(ctx, tb, keep)
		return err
	}
	deaths, stride := 0, 1
	if testing.Short() {
		stride = 15
	}
	for _, after := range []bool{false, true} {
		for k := 1; ; k += stride {
			w := newWorld(t, 6)
			var history []past
			for n := range 9 {
				w.commit(8)
				if n >= 7 {
					history = append(history, w.remember())
				}
				w.clock.add(time.Minute)
				if n%4 == 3 {
					at, err := w.table.Schedule(t.Context(), w.planAll())
					w.must(err)
					_, err = compaction.Run(t.Context(), w.table, at, compaction.RunOptions{Clock: w.clock.Now})
					w.must(err)
				}
			}
			w.must(w.lease.Close())
			c := storagetest.NewCrasher(w.store, storagetest.Crash{At: k, After: after})
			err := serve(t.Context(), c, w.options())
			look := func(when string) {
				t.Helper()
				w.check(when)
				for _, p := range history {
					w.recall(w.fresh(), p)
				}
			}
			look(c.Where())
			if !c.Dead() {
				w.must(err)
				break
			}
			deaths++
			w.must(serve(t.Context(), w.store, w.options()))
			look(c.Where() + ", then finished")
			w.settled(c.Where())
			v := w.fresh()
			kinds := map[commitmeta.Action]int{}
			for _, i := range v.Instants() {
				kinds[i.Action]++
				if !i.Done() {
					t.Errorf("%s: %s", c.Where(), i)
				}
			}
			if kinds["deltacommit"]+kinds["commit"] > 4 || kinds["clean"] == 0 {
				t.Errorf("%s: %v", c.Where(), maps.Collect(maps.All(kinds)))
			}
			if t.Failed() {
				return
			}
		}
	}
	if deaths < 40/stride {
		t.Errorf("%d deaths", deaths)
	}
}
