package reader_test

import (
	"context"
	"errors"
	"testing"

	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestEveryFaultIsReported fails each read, stat and list in turn: a reading
// that goes on without it would have lost rows.
func TestEveryFaultIsReported(t *testing.T) {
	f := newFixture(t)
	t1 := f.commit(baseOf("pt=a", "g-0", put("a", 1, "a1"), put("b", 1, "b1")), baseOf("pt=b", "h-0", put("c", 1, "c1")))
	f.commit(logOf("pt=a", "g-0", t1, 1, put("a", 2, "a2"), remove("b", 2)), logOf("pt=b", "h-0", t1, 1, put("c", 2, "c2")))
	ways := map[string]func(context.Context, *table.View) error{
		"snapshot": func(ctx context.Context, v *table.View) error {
			return failure(reader.Snapshot(ctx, v, reader.Options{}))
		},
		"read optimized": func(ctx context.Context, v *table.View) error {
			return failure(reader.ReadOptimized(ctx, v, reader.Options{}))
		},
		"incremental": func(ctx context.Context, v *table.View) error {
			return failure(reader.Incremental(ctx, v, t1, "", reader.Options{}))
		},
		"the past": func(ctx context.Context, v *table.View) error {
			return failure(reader.Snapshot(ctx, v.AsOf(t1), reader.Options{}))
		},
	}
	for name, read := range ways {
		for _, kind := range []storagetest.Kind{storagetest.Read, storagetest.List} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				n := 1
				for ; f.faultAt(kind, n, read); n++ {
				}
				if n == 1 {
					t.Fatal("no operation of the kind was seen")
				}
			})
		}
	}
}

// faultAt fails the n-th operation of a kind and says whether there was one.
func (f *fixture) faultAt(kind storagetest.Kind, n int, read func(context.Context, *table.View) error) bool {
	f.t.Helper()
	faulty := storagetest.Faults(f.driver, storagetest.Fault{Kind: kind, N: n})
	tb, err := table.Open(f.t.Context(), storage.New(faulty, nil), table.Options{ReadOnly: true})
	var v *table.View
	if err == nil {
		v, err = tb.View(f.t.Context())
	}
	if err == nil {
		err = read(f.t.Context(), v)
	}
	switch {
	case faulty.Hit() > 0 && !errors.Is(err, storagetest.ErrFault):
		f.t.Fatalf("%s %d failed and nobody said so: %v", kind, n, err)
	case faulty.Hit() == 0 && err != nil:
		f.t.Fatal(err)
	}
	return faulty.Hit() > 0
}
