package table_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/table"
)

func TestExtra(t *testing.T) {
	ctx, d := t.Context(), start(t)
	tb := open(t, d)
	commit := func(extra map[string]string) hudi.Time {
		x := must[*table.Txn](t)(tb.Begin(ctx))
		b := body()
		for k, v := range extra {
			b.Extra[k] = v
		}
		if err := x.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
		return x.Instant()
	}
	extra := func(v *table.View, key string) (string, hudi.Time, bool, error) {
		value, i, ok, err := v.Extra(ctx, key)
		return value, i.Time, ok, err
	}
	v := must[*table.View](t)(tb.View(ctx))
	if _, _, ok, err := extra(v, "a"); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	one := commit(map[string]string{"a": "1", "b": "1"})
	two := commit(map[string]string{"a": "2"})
	commit(nil)
	v = must[*table.View](t)(tb.View(ctx))
	for _, c := range []struct {
		v     *table.View
		key   string
		value string
		at    hudi.Time
	}{{v, "a", "2", two}, {v, "b", "1", one}, {v.AsOf(one), "a", "1", one}, {v.AsOf(two), "a", "2", two}} {
		if value, at, ok, err := extra(c.v, c.key); value != c.value || at != c.at || !ok || err != nil {
			t.Errorf("%s: %q %s %v %v, want %q %s", c.key, value, at, ok, err, c.value, c.at)
		}
	}
	if _, _, ok, err := extra(v, "c"); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	putAll(t, d, map[string]string{".hoodie/archived/.commits_.archive.1_1-0-1": "x"})
	if value, _, ok, err := extra(v, "b"); value != "1" || !ok || err != nil {
		t.Errorf("with an archive: %v %v", ok, err)
	}
	v = must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), options())).View(ctx))
	_, _, _, err := extra(v, "c")
	wantErr(t, "none active, an archive there", err, table.ErrArchived)
}

func TestBody(t *testing.T) {
	ctx, d := t.Context(), start(t)
	putAll(t, d, map[string]string{".hoodie/20990101000000000.commit": `{"compacted":1}`, ".hoodie/20990101000000001.deltacommit.inflight": ""})
	v := must[*table.View](t)(open(t, d).View(ctx))
	for _, i := range v.Instants() {
		_, err := v.Body(ctx, i)
		switch i.Time {
		case "20990101000000000":
			wantErr(t, "broken", err, table.ErrCorrupt)
		case "20990101000000001":
			if err == nil {
				t.Error("the body of a pending instant")
			}
		default:
			if err != nil {
				t.Error(err)
			}
		}
	}
}

func TestCommitted(t *testing.T) {
	d := teststore.New(t)
	tb := create(t, d)
	v := must[*table.View](t)(tb.View(t.Context()))
	if v.Committed("20200101000000000") || v.Last() != "" {
		t.Error("something is committed in an empty table")
	}
	putAll(t, d, map[string]string{
		".hoodie/20260101000000000.deltacommit":          "",
		".hoodie/20260101000000000.savepoint":            "",
		".hoodie/20260103000000000.deltacommit":          "",
		".hoodie/20260102000000000.deltacommit.inflight": "",
		".hoodie/20260104000000000.commit":               "",
		".hoodie/20260105000000000.deltacommit.inflight": "",
		".hoodie/20260106000000000.clean":                "",
		".hoodie/20260107000000.deltacommit":             "",
	})
	v = must[*table.View](t)(tb.View(t.Context()))
	for at, want := range map[hudi.Time]bool{
		"20260101000000000": true,  // completed, and saved
		"20260101500000000": true,  // archived between the savepoint and the rest
		"20260102000000000": false, // pending, however old
		"20260103000000000": true,
		"20260103500000000": false, // rolled back
		"20260104000000000": true,
		"20260105000000000": false,
		"20260106000000000": false, // no write
		"20260107000000":    true,  // of an old release
		"20260107000001000": false,
		"00000000000001":    true, // bootstrap
	} {
		if got := v.Committed(at); got != want {
			t.Errorf("%s: %v", at, got)
		}
	}
	if past := v.AsOf("20260103000000000"); past.Committed("20260104000000000") || !past.Committed("20260103000000000") || past.AsOf("20990101000000000").At() != past.At() {
		t.Error("as of an earlier instant")
	}
}

// A replaced group is gone from its instant on.
func TestReplaced(t *testing.T) {
	ctx, d := t.Context(), start(t)
	data := must[[]byte](t)(commitmeta.Encode(hudi.Version6, commitmeta.Body{Replaced: map[string][]hudi.FileID{"pt=1": {groupID(1)}}}))
	putAll(t, d, map[string]string{".hoodie/20990101000000000.replacecommit": string(data)})
	v := must[*table.View](t)(open(t, d).View(ctx))
	if got := allSlices(t, v); len(got) != 1 || got[0].File != groupID(2) {
		t.Errorf("%+v", got)
	}
	if got := allSlices(t, v.AsOf("20980101000000000")); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// Files that are not of the table, or not of any commit, are no slices.
func TestSlicesLeaveOut(t *testing.T) {
	ctx, d := t.Context(), start(t)
	at := must[*table.View](t)(open(t, d).View(ctx)).Last()
	const dead = hudi.Time("20990101000000000")
	name := func(g int, at hudi.Time) string {
		return hudi.BaseFileName{File: groupID(g), Token: "0-1-0", Instant: at}.String()
	}
	putAll(t, d, map[string]string{
		"pt=1/" + name(1, dead):                        "a newer base of a dead instant",
		"pt=1/" + name(5, dead):                        "a new group of a dead instant",
		"pt=1/" + logName(6, dead, 1):                  "a new group of logs of a dead instant",
		"pt=1/" + logName(1, at, 10):                   "ten",
		"pt=1/" + logName(1, at, 9):                    "nine",
		"pt=1/" + logName(1, at, 2) + ".cdc":           "changes",
		"pt=1/" + logName(7, at, 1):                    "a group of logs alone",
		"pt=1/notes.txt":                               "x",
		"nopartition/" + name(8, at):                   "x",
		"deep/pt=1/" + name(8, at):                     "x",
		"deep/pt=1/.hoodie_partition_metadata.parquet": "x",
	})
	v := must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), options())).View(ctx))
	// One partition alone, then the whole table.
	for range 2 {
		s := must[[]hudi.Slice](t)(v.Slices(ctx, "pt=1"))
		if len(s) != 2 || s[0].File != groupID(1) || s[0].Base.Name != name(1, at) || s[1].File != groupID(7) || s[1].Base.Name != "" {
			t.Fatalf("%+v", s)
		}
		if l := s[0].Logs; len(l) != 2 || l[0].Name != logName(1, at, 9) || l[1].Size != 3 {
			t.Errorf("%+v", l)
		}
		if got := must[[]hudi.Slice](t)(v.Slices(ctx, "nopartition")); len(got) > 0 {
			t.Errorf("%+v", got)
		}
		if p := must[[]string](t)(v.Partitions(ctx)); fmt.Sprint(p) != "[deep/pt=1 pt=1 pt=2]" {
			t.Errorf("%q", p)
		}
		v = must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), options())).View(ctx))
		must[[]string](t)(v.Partitions(ctx))
	}
}

// Readers and one writer at once, for the race detector.
func TestConcurrentViews(t *testing.T) {
	ctx, d := t.Context(), start(t)
	tb := open(t, d)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			last := hudi.Time("")
			for {
				select {
				case <-stop:
					return
				default:
				}
				v, err := tb.View(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if v.Last().Before(last) {
					t.Errorf("%s after %s", v.Last(), last)
				}
				last = v.Last()
				ps, err := v.Partitions(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				bases := 0
				for _, p := range ps {
					s, err := v.Slices(ctx, p)
					if err != nil {
						t.Error(err)
						return
					}
					bases += len(s)
				}
				if want := len(v.Writes()) + 1; bases != want {
					t.Errorf("%d writes, %d slices", want-1, bases)
				}
			}
		})
	}
	for i := range 20 {
		if _, err := commitBases(ctx, tb, 100+i); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestInstantsOfView(t *testing.T) {
	v := must[*table.View](t)(open(t, start(t)).View(t.Context()))
	if i := v.Instants(); len(i) != 1 || i[0].State != timeline.Completed || i[0].Modified.IsZero() {
		t.Errorf("%v", i)
	}
}
