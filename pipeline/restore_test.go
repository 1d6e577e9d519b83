package pipeline_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/rebucket"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// remembered is what a table was at an instant.
type remembered struct {
	at    hudi.Time
	rows  map[string]state
	lives map[string]string
	seq   string
}

// traveller is a world whose table goes back in time and forward again.
type traveller struct {
	*world
	fs   *vfs.MemFS
	past []remembered
	// cleaned says that changes cannot be read from the beginning any more.
	cleaned bool
	// built are the reasons for which the key cache was built.
	built []string
}

func newTraveller(t *testing.T, seed uint64, hard, cached bool) *traveller {
	w := &traveller{world: newWorld(t, seed), fs: vfs.NewMem()}
	w.partitioned, w.hard, w.maxRows = true, hard, 30
	if !cached {
		w.fs = nil
	}
	return w
}

// follow brings the table up to the database, as one process does, and checks it.
func (w *traveller) follow(what string) {
	w.t.Helper()
	w.must(nil, w.process(w.driver))
	w.equal(what, w.model(), w.snapshot())
	if !w.hard && !w.cleaned {
		w.equal(what+": incremental reads replayed", w.model(), w.replay())
	}
	w.past = append(w.past, remembered{w.view().Last(), w.snapshot(), maps.Clone(w.lives), w.lastSeq()})
}

func (w *traveller) process(d storage.Driver) error {
	var cache *keycache.Cache
	if w.fs != nil {
		var err error
		cache, err = keycache.Open(w.t.Context(), keycache.Options{Dir: "cache", FS: w.fs, Identity: "docs", Fallback: index.NewBloom(index.BloomOptions{}),
			Events: keycache.Events{Building: func(b keycache.Building) {
				if b.Done == 0 {
					w.built = append(w.built, b.Reason)
				}
			}}})
		if err != nil {
			return err
		}
	}
	w.tune = func(o *pipeline.Options) {
		w.serving(compaction.Inline, 3, time.Hour, compaction.Events{})(o)
		if cache != nil {
			o.Index = cache
		}
	}
	_, err := w.ingest(d)
	if cache != nil {
		err = errors.Join(err, cache.Close())
	}
	return err
}

// leased does something to the table, as a command does.
func (w *traveller) leased(d storage.Driver, f func(context.Context, *table.Table) error) error {
	ctx := context.Background()
	t, err := table.Open(ctx, storage.New(d, nil), table.Options{})
	if err != nil {
		return err
	}
	lease, err := t.Lease(ctx)
	if err != nil {
		return err
	}
	_, err = t.Recover(ctx)
	if err == nil {
		err = f(ctx, t)
	}
	return errors.Join(err, closeQuietly(lease))
}

func (w *traveller) restore(d storage.Driver, to hudi.Time) error {
	return w.leased(d, func(ctx context.Context, t *table.Table) error {
		_, err := t.Restore(ctx, to)
		return err
	})
}

// back holds the table against what it was, and goes on from there.
func (w *traveller) back(what string, to int) {
	w.t.Helper()
	was := w.past[to]
	w.equal(what, maps.Clone(was.rows), w.snapshot())
	if v := w.view(); v.Last() != was.at || w.lastSeq() != was.seq {
		w.t.Fatalf("%s: last commit %s of seq %s, want %s of %s", what, v.Last(), w.lastSeq(), was.at, was.seq)
	}
	w.past, w.lives = w.past[:to+1], maps.Clone(was.lives)
}

// TestTimeTravel: the table goes back to what it was and then forward again: the
// follower reads from the checkpoint of the restored state, and the table equals the
// database.
func TestTimeTravel(t *testing.T) {
	all := []bool{false, true}
	if testing.Short() {
		all = all[1:]
	}
	for _, hard := range all {
		for _, cached := range all {
			w := newTraveller(t, 71, hard, cached)
			for range 3 {
				w.round(70)
				w.follow("at first")
			}
			saved := len(w.past) - 1
			w.must(nil, w.leased(w.driver, func(ctx context.Context, t *table.Table) error {
				_, err := t.Save(ctx, "", "test", "before")
				return err
			}))
			for range 4 {
				w.round(70)
				w.follow("on")
			}
			// The past is cleaned, but for the savepoint's.
			w.must(nil, w.leased(w.driver, func(ctx context.Context, t *table.Table) error {
				done, err := compaction.Clean(ctx, t, compaction.CleanPolicy{By: compaction.ByCommits, Keep: 1})
				if err == nil && len(done) == 0 {
					err = errors.New("nothing was cleaned")
				}
				return err
			}))
			w.cleaned = true
			compactions := w.compactions()
			if err := w.restore(w.driver, w.past[saved+1].at); !errors.Is(err, table.ErrCleaned) {
				t.Fatalf("restore to what was cleaned: %v", err)
			}
			w.must(nil, w.restore(w.driver, w.past[saved].at))
			w.back("restored to the savepoint", saved)
			if w.compactions() >= compactions || compactions == 0 {
				t.Errorf("%d compactions of %d were taken back", compactions-w.compactions(), compactions)
			}
			was := w.instants()
			w.follow("and forward")
			if w.instants() == was {
				t.Error("nothing was read again")
			}
			w.round(50)
			w.follow("and on")
			w.checkBuilt()
		}
	}
}

func (w *traveller) checkBuilt() {
	w.t.Helper()
	if w.fs == nil {
		return
	}
	if !slices.ContainsFunc(w.built, func(why string) bool { return strings.Contains(why, "is no more") }) {
		w.t.Errorf("the key cache was built for %q", w.built)
	}
}

// TestTimeTravelAtRandom restores to any instant and rolls back what is newest, time
// and again.
func TestTimeTravelAtRandom(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		w := newTraveller(t, 80+seed, seed == 1, seed != 0)
		for range 14 {
			switch k := w.rand.IntN(4); {
			case len(w.past) < 2 || k < 2:
				w.round(20 + w.rand.IntN(60))
				w.follow("followed")
			case k == 2:
				to := w.rand.IntN(len(w.past) - 1)
				w.must(nil, w.restore(w.driver, w.past[to].at))
				w.back("restored", to)
			default:
				to := len(w.past) - 2
				for w.view().Last() != w.past[to].at {
					w.must(nil, w.leased(w.driver, func(ctx context.Context, t *table.Table) error {
						v, err := t.View(ctx)
						if err != nil {
							return err
						}
						if n := len(v.Compactions()); n > 0 { // it was rolled back, and its plan stands over the commits before
							_, err = t.Restore(ctx, v.Last())
						} else {
							_, err = t.Rollback(ctx, v.Last())
						}
						return err
					}))
				}
				w.back("rolled back", to)
			}
		}
		w.follow("the end")
	}
}

// A restore dies at any of its writes; whoever comes next, the follower or the same
// command, ends it, and the table equals the database.
func TestTimeTravelCrash(t *testing.T) {
	outcomes, crashes, stride := 0, 0, 7
	if testing.Short() {
		stride = 29
	}
	for _, again := range []bool{false, true} {
		for k := 1; ; k += stride {
			crashes++
			w := newTraveller(t, 90, false, true)
			for range 3 {
				w.round(40)
				w.follow("at first")
			}
			c := storagetest.NewCrasher(w.driver, storagetest.Crash{At: k, After: k%2 == 0})
			if err := w.restore(c, w.past[0].at); err != nil && !c.Dead() {
				t.Fatal(err)
			}
			if again || !c.Dead() {
				w.must(nil, w.restore(w.driver, w.past[0].at))
				w.back(c.Where(), 0)
			}
			w.round(10)
			w.must(nil, w.process(w.driver))
			if w.restored() {
				w.lives = maps.Clone(w.past[0].lives)
				outcomes++
			}
			w.equal(c.Where(), w.model(), w.snapshot())
			if !c.Dead() {
				break
			}
		}
	}
	if outcomes == 0 || outcomes == crashes {
		t.Errorf("%d of %d restores took place", outcomes, crashes)
	}
}

// restored says whether a restore was completed.
func (w *traveller) restored() bool {
	return slices.ContainsFunc(w.view().Instants(), func(i timeline.Instant) bool { return i.Action == commitmeta.ActionRestore && i.Done() })
}

// Back over a rebucketing: the number of buckets is the old one again.
func TestTimeTravelOverRebucketing(t *testing.T) {
	w := &traveller{world: bucketWorld(t, 91, 4, 2, 60, false)}
	w.past = append(w.past, remembered{w.view().Last(), w.snapshot(), maps.Clone(w.lives), w.lastSeq()})
	_, err := w.rebucket(w.driver, rebucket.Options{Buckets: 8, Memory: 1 << 16})
	w.must(nil, err)
	w.buckets(8)
	w.round(40)
	w.must(w.ingest(w.driver))
	w.check("with eight buckets")
	w.must(nil, w.restore(w.driver, w.past[0].at))
	w.back("restored", 0)
	if _, err := w.ingest(w.driver); !errors.Is(err, pipeline.ErrPinned) {
		t.Errorf("ingest with eight buckets: %v", err)
	}
	w.buckets(4)
	w.must(w.ingest(w.driver))
	w.check("with four again")
	w.stored(w.view(), 4)
}
