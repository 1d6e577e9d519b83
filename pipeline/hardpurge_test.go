package pipeline_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// A document that was deleted hard, purged and made anew counts from its first revision
// on, though the delete that hides its key was of a later one.
func TestPurgeAfterHardDelete(t *testing.T) {
	w := newWorld(t, 13)
	w.hard = true
	w.round(20)
	for range 5 {
		w.must(w.db.Put("ghost", w.body()))
	}
	w.must(w.ingest(w.driver))
	w.must(w.db.Delete("ghost"))
	w.must(w.ingest(w.driver))
	w.db.Purge("ghost")
	w.must(w.ingest(w.driver))
	w.check("purged")
	w.must(w.db.Put("ghost", w.body()))
	w.must(w.ingest(w.driver))
	got, want := w.snapshot(), w.model()
	for id := range got { // the new life is of a new era
		r := got[id]
		r.Order -= hudi.Order(hudi.Era(r.Order), 0)
		got[id] = r
	}
	w.equal("made anew", want, got)
}
