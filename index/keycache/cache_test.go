package keycache_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
)

var (
	seeds = flag.Int("keycache.seeds", 3, "how many random histories are lived through")
	steps = flag.Int("keycache.steps", 70, "how many steps each has")
)

const dir = "/state/keys"

// life is a random history with a cache that follows it, and a Bloom that looks
// everything up anew.
type life struct {
	*history
	fs    vfs.FS
	mem   *vfs.MemFS
	cache *keycache.Cache
	// told are the reasons of buildings, caught counts catchings up.
	told   []string
	caught int
	failed []error
	keys   []string
	// deletes is the greatest order of a hard delete of each key.
	deletes map[string]int64
	// late are commits that are still open.
	late []*act
	// lastSteps are what was done, for messages.
	done []string
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{history: newHistory(t, seed), mem: vfs.NewCrashableMem(), deletes: map[string]int64{}}
	l.fs = l.mem
	for i := range 40 {
		key := fmt.Sprintf("key-%02d", i)
		if i%7 == 0 {
			key += "\x00\U0001F600\uFFFD"
		}
		l.keys = append(l.keys, key)
	}
	l.open()
	t.Cleanup(func() { _ = l.cache.Close() })
	return l
}

func (l *life) options() keycache.Options {
	return keycache.Options{Dir: dir, FS: l.fs, Memory: 4 << 20, Parallel: 2, Identity: "mem", Layout: "bloom", Clock: func() time.Time { return l.now },
		TempDir: l.t.TempDir(), Events: keycache.Events{
			Building: func(b keycache.Building) {
				if b.Done == 0 {
					l.told = append(l.told, b.Reason)
				}
			},
			Caught: func(int, int) { l.caught++ },
			Failed: func(err error) { l.failed = append(l.failed, err) },
		}}
}

func (l *life) open() {
	l.t.Helper()
	c, err := keycache.Open(l.t.Context(), l.options())
	if err != nil {
		l.t.Fatal(err)
	}
	l.cache = c
}

// bloom is an index without a memory.
func bloom() index.Index { return index.NewBloom(index.BloomOptions{ScanLogs: true}) }

func (l *life) asked() (keys []hudi.Key) {
	for i, k := range l.keys {
		keys = append(keys, hudi.Key{Record: k, Partition: fmt.Sprintf("pt=%d", i%3)}, hudi.Key{Record: k + "x"})
	}
	return append(keys, hudi.Key{Record: ""}, hudi.Key{Record: l.keys[3], Partition: "pt=nowhere"})
}

// check compares the cache's answers with the Bloom's.
func (l *life) check() {
	l.t.Helper()
	v := l.view()
	for _, scope := range []index.Scope{index.Global, index.Partition} {
		keys := l.asked()
		want, err := bloom().Locate(l.t.Context(), v, keys, scope)
		if err != nil {
			l.t.Fatal(err)
		}
		got, err := l.cache.Locate(l.t.Context(), v, keys, scope)
		if err != nil || len(got) != len(want) {
			l.t.Fatalf("%d answers, %v", len(got), err)
		}
		for i := range want {
			if !l.agree(keys[i].Record, want[i], got[i]) {
				l.t.Fatalf("after %q, builds %q: %s of %+v:\n got %+v\nwant %+v", tail(l.done), tail(l.told), scope, keys[i], got[i], want[i])
			}
		}
	}
}

// agree: the same, but that a hard delete may be remembered longer.
func (l *life) agree(key string, want, got hudi.Stored) bool {
	if !want.Found {
		if got.Order < want.Order || got.Order > max(want.Order, l.deletes[key]) {
			return false
		}
		got.Order = want.Order
		// What a delete with an order hides is of no interest to anybody.
		got.Rev, want.Rev = "", ""
	}
	for _, s := range []*hudi.Stored{&got, &want} {
		if len(s.Others) == 0 {
			s.Others = nil
		}
		if len(s.Hidden) == 0 {
			s.Hidden = nil
		}
	}
	return reflect.DeepEqual(want, got)
}

func tail(list []string) []string { return list[max(0, len(list)-6):] }

// stored is what the table holds of a key.
func (l *life) stored(key string) hudi.Stored {
	l.t.Helper()
	s, err := bloom().Locate(l.t.Context(), l.view(), []hudi.Key{{Record: key}}, index.Global)
	l.must(nil, err)
	return s[0]
}

func (l *life) fresh(partition string) hudi.Location {
	l.files++
	return hudi.Location{Partition: partition, File: hudi.FileID(fmt.Sprintf("g%04d-0", l.files))}
}

func (l *life) partition() string { return fmt.Sprintf("pt=%d", l.rand.IntN(3)) }

// batch is random new versions of random keys, placed as Tag would, or, of
// another writer's, anywhere and in any order.
func (l *life) batch(foreign bool) (placed []hudi.Located) {
	fresh := map[string]hudi.Location{}
	for _, k := range l.rand.Perm(len(l.keys))[:1+l.rand.IntN(8)] {
		key := l.keys[k]
		s := l.stored(key)
		order := max(s.Order, l.deletes[key]) + 1 + int64(l.rand.IntN(3))
		if foreign {
			order = max(1, order-int64(l.rand.IntN(5)))
		}
		r := live(key, order)
		switch l.rand.IntN(6) {
		case 0:
			r = buried(key, order)
		case 1, 2:
			r = removed(key, order)
		}
		at := s.Location
		if at.File == "" || (foreign && l.rand.IntN(8) == 0) {
			p := l.partition()
			if fresh[p].File == "" {
				fresh[p] = l.fresh(p)
			}
			at = fresh[p]
			if list := l.slices(); foreign && len(list) > 0 && l.rand.IntN(2) == 0 {
				at = list[l.rand.IntN(len(list))].Location // into a log, where no base row is
			}
		} else if !r.Delete && s.Found && l.rand.IntN(5) == 0 { // it moves
			placed = append(placed, hudi.Located{Record: removed(key, order), Location: at})
			l.deletes[key] = max(l.deletes[key], order)
			at = l.fresh(l.partition())
		}
		if r.Delete {
			if _, there := l.slice(at); !there {
				continue
			}
			l.deletes[key] = max(l.deletes[key], order)
		}
		placed = append(placed, hudi.Located{Record: r, Location: at})
	}
	return placed
}

func (l *life) pick(f func(hudi.Slice) bool) (hudi.Slice, bool) {
	list := slices.DeleteFunc(l.slices(), func(s hudi.Slice) bool { return !f(s) })
	if len(list) == 0 {
		return hudi.Slice{}, false
	}
	return list[l.rand.IntN(len(list))], true
}

func (l *life) own() {
	placed := l.batch(false)
	c := l.write(placed)
	l.complete(c)
	if l.rand.IntN(4) == 0 {
		return // killed before it could tell the cache
	}
	l.must(nil, l.cache.Committed(l.t.Context(), c.at, placed))
}

func (l *life) other() { l.complete(l.write(l.batch(true))) }

func (l *life) compact() {
	s, ok := l.pick(func(s hudi.Slice) bool { return len(s.Logs) > 0 })
	if !ok || len(l.late) > 0 {
		return // no compaction is planned beside open commits
	}
	rows := l.rows(s)
	c := l.begin(commitmeta.ActionCommit)
	l.base(c, s.Location, rows)
	l.complete(c)
}

// pack rewrites a base file with new keys in it.
func (l *life) pack() {
	s, ok := l.pick(func(s hudi.Slice) bool { return s.Base.Name != "" })
	if !ok || len(l.late) > 0 {
		return
	}
	rows := l.rows(s)
	have := map[string]bool{}
	for i := range rows {
		have[rows[i].Key.Record] = true
	}
	var placed []hudi.Located
	for _, key := range l.keys {
		switch st := l.stored(key); {
		case have[key] && l.rand.IntN(4) == 0 && st.Location == s.Location:
			r := live(key, st.Order+1)
			if l.rand.IntN(2) == 0 {
				r = removed(key, st.Order+1)
				l.deletes[key] = max(l.deletes[key], st.Order+1)
			}
			placed = append(placed, hudi.Located{Record: r, Location: s.Location})
			rows = slices.DeleteFunc(rows, func(r hudi.Record) bool { return r.Key.Record == key })
		case !st.Found && st.File == "" && l.rand.IntN(4) == 0:
			placed = append(placed, hudi.Located{Record: live(key, max(st.Order, l.deletes[key])+1), Location: s.Location})
		}
	}
	for i := range placed {
		if !placed[i].Delete {
			rows = append(rows, placed[i].Record)
		}
	}
	c := l.begin(commitmeta.ActionDeltaCommit)
	l.base(c, s.Location, rows)
	l.complete(c)
	if l.rand.IntN(2) == 0 {
		l.must(nil, l.cache.Committed(l.t.Context(), c.at, placed))
	}
}

// replace clusters the groups of a partition, overwrites them or removes them.
func (l *life) replace() {
	if len(l.late) > 0 {
		return
	}
	p := l.partition()
	var rows []hudi.Record
	c := l.begin(commitmeta.ActionReplaceCommit)
	c.body.Replaced = map[string][]hudi.FileID{}
	have := map[string]bool{}
	for _, s := range l.slices() {
		if s.Partition != p {
			continue
		}
		for _, r := range l.rows(s) {
			if !have[r.Key.Record] {
				rows = append(rows, r)
			}
			have[r.Key.Record] = true
		}
		c.body.Replaced[p] = append(c.body.Replaced[p], s.File)
	}
	switch l.rand.IntN(3) {
	case 0:
		rows = nil
	case 1:
		rows = rows[:len(rows)/2]
	}
	if len(rows) > 0 {
		l.base(c, l.fresh(p), rows)
	}
	l.complete(c)
}

// linger begins a commit that is completed later, or completes one.
func (l *life) linger() {
	if len(l.late) > 0 {
		l.complete(l.late[0])
		l.late = l.late[1:]
		return
	}
	l.late = append(l.late, l.write(l.batch(true)))
}

// takeBack undoes the newest commit and restores the table.
func (l *life) takeBack() {
	v := l.view()
	if len(l.late) > 0 || v.Last() == "" {
		return
	}
	writes := v.Writes()
	last := writes[len(writes)-1]
	if last.Action == commitmeta.ActionReplaceCommit || len(writes) < 2 {
		return
	}
	body, err := v.Body(l.t.Context(), last)
	l.must(nil, err)
	for _, stats := range body.Stats {
		for _, s := range stats {
			l.must(nil, l.bucket.Delete(l.t.Context(), s.Path))
		}
	}
	l.erase(last)
	at := l.instant()
	l.mark(at, commitmeta.ActionRestore, timeline.Inflight, nil)
	l.mark(at, commitmeta.ActionRestore, timeline.Completed, nil)
}

func (l *life) reopen() {
	l.must(nil, l.cache.Close())
	l.open()
}

// crash loses what was not synced.
func (l *life) crash() {
	clone := l.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: l.rand.IntN(101), RNG: rand.New(rand.NewPCG(l.rand.Uint64(), 2))})
	_ = l.cache.Close()
	l.mem, l.fs = clone, clone
	l.open()
}

func (l *life) deleteFolder() { l.must(nil, l.fs.RemoveAll("/state")) }

func (l *life) deleteClosed() {
	l.must(nil, l.cache.Close())
	l.deleteFolder()
	l.open()
}

// spoil changes or cuts a file of the closed cache.
func (l *life) spoil() {
	l.must(nil, l.cache.Close())
	spoil(l.t, l.fs, l.rand)
	l.open()
}

func (l *life) step() {
	all := []struct {
		weight int
		name   string
		do     func()
	}{
		{40, "own commit", l.own}, {15, "foreign commit", l.other}, {8, "compaction", l.compact}, {8, "packing", l.pack}, {4, "replace", l.replace},
		{8, "late commit", l.linger}, {2, "restore", l.takeBack}, {4, "archive", func() { l.archive(l.rand.IntN(4)) }}, {4, "reopen", l.reopen},
		{3, "crash", l.crash}, {2, "folder deleted", l.deleteFolder}, {1, "folder deleted while closed", l.deleteClosed}, {3, "spoiled", l.spoil},
		{2, "a day passes", func() { l.now = l.now.Add(25 * time.Hour) }},
	}
	total := 0
	for _, s := range all {
		total += s.weight
	}
	n := l.rand.IntN(total)
	for _, s := range all {
		if n -= s.weight; n < 0 {
			l.done = append(l.done, s.name)
			s.do()
			return
		}
	}
}

// TestAnswersAreThoseOfBloom: whatever is done to the table, by whomever, and to
// the cache, it gives the answers of a Bloom that looks into every file.
func TestAnswersAreThoseOfBloom(t *testing.T) {
	n, long := *seeds, *steps
	if testing.Short() {
		n, long = 1, long/2
	}
	for seed := range uint64(n) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, seed)
			for range long {
				l.step()
				if l.rand.IntN(3) > 0 {
					l.check()
				}
			}
			l.check()
			if len(l.failed) > 0 {
				t.Errorf("the fallback was used: %v", l.failed)
			}
			t.Logf("built %d times, caught up %d times, failed %v: %q", len(l.told), l.caught, l.failed, l.told)
		})
	}
}
