package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
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
)

// scanned is the timeline by a listing of all of it.
func scanned(t *testing.T, b *storage.Bucket) []timeline.Instant {
	t.Helper()
	var all []timeline.Instant
	for o, err := range b.ListFolders(t.Context(), ".hoodie/") {
		if err != nil {
			t.Fatal(err)
		}
		if i, ok := timeline.ParseFileName(hudi.Version6, strings.TrimPrefix(o.Name, ".hoodie/")); ok {
			i.Modified = o.Modified
			all = append(all, i)
		}
	}
	return timeline.Merge(all)
}

// A lister that is asked after every change, or now and then, gives what a listing
// of all gives, and earlier lists stay as they were.
func TestLister(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 7))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		d := teststore.At(t, func() time.Time { now = now.Add(time.Second); return now })
		ctx, b := t.Context(), storage.New(d, nil)
		l, err := timeline.NewLister(b, hudi.Version6)
		if err != nil {
			t.Fatal(err)
		}
		var before, kept []timeline.Instant
		for range 60 {
			for range r.IntN(4) * r.IntN(30) {
				name := ".hoodie/" + randomName(r)
				if r.IntN(3) == 0 {
					err = b.DeleteIfExists(ctx, name)
				} else if _, err = b.PutIfAbsent(ctx, name, nil); errors.Is(err, storage.ErrExist) {
					err = nil
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			got, err := l.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if want := scanned(t, b); !slices.Equal(got, want) {
				t.Fatalf("seed %d: got\n%v\nwant\n%v\ndifferent: %v", seed, got, want, timeline.Differences(got, want))
			}
			if !slices.Equal(before, kept) {
				t.Fatalf("seed %d: an earlier list was written to", seed)
			}
			before, kept = got, slices.Clone(got)
		}
	}
}

// randomName is one of a few hundred names of the folder. Completed files never
// come back, so that each has a time of its own.
func randomName(r *rand.Rand) string {
	at := fmt.Sprintf("202601010000%02d000", r.IntN(60))
	if r.IntN(9) == 0 {
		at = at[:14] // of an old release
	}
	if r.IntN(4) == 0 {
		return fmt.Sprintf("2026%06d%07d", r.IntN(1_000_000), r.IntN(10_000_000)) + ".deltacommit"
	}
	names := []string{".deltacommit.requested", ".deltacommit.inflight", ".compaction.requested", ".compaction.inflight", ".inflight",
		".commit.requested", ".savepoint.inflight", ".clean.requested", ".clean.inflight", ".nonsense", ".logcompaction.inflight"}
	return at + names[r.IntN(len(names))]
}

// What a lister knows it does not look at again, and after an error it knows
// nothing.
func TestListerLooksOnce(t *testing.T) {
	ctx, looked := t.Context(), 0
	d := &unknown{Driver: teststore.New(t), looked: &looked}
	b := storage.New(d, nil)
	l, err := timeline.NewLister(b, hudi.Version6)
	if err != nil {
		t.Fatal(err)
	}
	list := func(want, instants int) {
		t.Helper()
		looked = 0
		got, err := l.List(ctx)
		if err != nil || len(got) != instants || looked != want {
			t.Errorf("%d instants, looked at %d: want %d, %d; %v", len(got), looked, instants, want, err)
		}
	}
	for n := range 10 {
		for _, s := range []timeline.State{timeline.Requested, timeline.Inflight, timeline.Completed} {
			name, err := timeline.FileName(hudi.Version6, timeline.Instant{Time: hudi.Time(fmt.Sprintf("2026010100000%d000", n)), Action: commitmeta.ActionDeltaCommit, State: s})
			if err != nil {
				t.Fatal(err)
			}
			if n == 9 && s == timeline.Completed {
				break
			}
			if _, err := b.Put(ctx, ".hoodie/"+name, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	list(29, 10)
	list(2, 10) // those of the pending one
	if _, err := b.Put(ctx, ".hoodie/20260101000009000.deltacommit", nil); err != nil {
		t.Fatal(err)
	}
	list(1, 10)
	list(0, 10)
	d.Driver = storagetest.Faults(d.Driver, storagetest.Fault{Kind: storagetest.List, N: 1})
	if _, err := l.List(ctx); !errors.Is(err, storagetest.ErrFault) {
		t.Errorf("a listing that fails: %v", err)
	}
	list(30, 10)
}

// unknown is a store that must ask for each object, and counts how often.
type unknown struct {
	storage.Driver
	looked *int
}

func (u *unknown) ListUnknown(ctx context.Context, folder string, known func(string) bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		for o, err := range u.List(ctx, folder, true) {
			if err == nil && known(strings.TrimPrefix(o.Name, folder)) {
				continue
			}
			*u.looked++
			if !yield(o, err) {
				return
			}
		}
	}
}

func TestDifferencesAndHas(t *testing.T) {
	i := func(at string, a commitmeta.Action, s timeline.State) timeline.Instant {
		return timeline.Instant{Time: hudi.Time(at), Action: a, State: s}
	}
	a := []timeline.Instant{i("1", "commit", timeline.Completed), i("2", "compaction", timeline.Requested), i("3", "deltacommit", timeline.Inflight),
		i("4", "deltacommit", timeline.Completed), i("4", "savepoint", timeline.Completed)}
	b := []timeline.Instant{i("2", "commit", timeline.Completed), i("3", "deltacommit", timeline.Completed), i("4", "deltacommit", timeline.Completed),
		i("4", "savepoint", timeline.Completed), i("5", "clean", timeline.Completed)}
	var text []string
	for _, d := range timeline.Differences(a, b) {
		text = append(text, d.String())
	}
	slices.Sort(text)
	want := []string{"1 commit completed", "2 commit completed", "2 compaction requested", "3 deltacommit completed", "3 deltacommit inflight", "5 clean completed"}
	if !slices.Equal(text, want) {
		t.Errorf("%q", text)
	}
	for at, want := range map[hudi.Time][2]bool{"1": {true, true}, "2": {false, true}, "3": {false, true}, "4": {true, true}, "5": {}, "": {}} {
		if done, there := timeline.Has(a, at); done != want[0] || there != want[1] {
			t.Errorf("%q: %v, %v", at, done, there)
		}
	}
	if done, there := timeline.Has(b, "5"); done || there {
		t.Error("a clean is a write")
	}
}
