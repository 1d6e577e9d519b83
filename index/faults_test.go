package index_test

import (
	"errors"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestEveryFaultIsReported fails each read, stat and list in turn: a key that
// is not found because of it would be inserted a second time.
func TestEveryFaultIsReported(t *testing.T) {
	s := newStore(t)
	t1 := s.commit(part{at: at("pt=a", "a-0"), records: []hudi.Record{live("k1", 1, "1-a"), live("k2", 1, "1-b")}},
		part{at: at("pt=b", "b-0"), records: []hudi.Record{live("k3", 1, "1-a")}})
	s.commit(part{at: at("pt=a", "a-0"), base: t1, version: 1, records: []hudi.Record{live("k1", 2, "2-a")}})
	for _, kind := range []storagetest.Kind{storagetest.Read, storagetest.List} {
		n := 1
		for ; s.faultAt(kind, n); n++ {
		}
		if n == 1 {
			t.Fatalf("no %s was seen", kind)
		}
	}
}

// faultAt fails the n-th operation of a kind and says whether there was one.
func (s *store) faultAt(kind storagetest.Kind, n int) bool {
	s.t.Helper()
	faulty := storagetest.Faults(s.driver, storagetest.Fault{Kind: kind, N: n})
	tb, err := table.Open(s.t.Context(), storage.New(faulty, nil), table.Options{ReadOnly: true})
	var v *table.View
	if err == nil {
		v, err = tb.View(s.t.Context())
	}
	var got []hudi.Stored
	if err == nil {
		got, err = index.NewBloom(index.BloomOptions{Parallel: 1}).Locate(s.t.Context(), v, []hudi.Key{{Record: "k1"}, {Record: "k3"}}, index.Global)
	}
	switch {
	case faulty.Hit() > 0 && !errors.Is(err, storagetest.ErrFault):
		s.t.Fatalf("%s %d failed and nobody said so: %v", kind, n, err)
	case faulty.Hit() == 0 && (err != nil || answer(got[0]) != "pt=a/a-0 2 2-a" || answer(got[1]) != "pt=b/b-0 1 1-a"):
		s.t.Fatalf("%v %v", got, err)
	}
	return faulty.Hit() > 0
}
