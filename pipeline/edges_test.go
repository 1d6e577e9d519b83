package pipeline_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/reader"
)

// edges are values that bodies can have, by the id of their document.
func edges() map[string]func(version int) string {
	depth, large := 100_000, 20<<20
	if testing.Short() {
		depth, large = 20_000, 1<<20
	}
	return map[string]func(int) string{
		"large": func(version int) string { // in hex digits
			noise := make([]byte, large/2)
			_, _ = rand.NewChaCha8([32]byte{byte(version)}).Read(noise) // it never fails
			return `"` + hex.EncodeToString(noise) + `"`
		},
		"arrays": func(version int) string {
			return strings.Repeat("[", depth) + strconv.Itoa(version) + strings.Repeat("]", depth)
		},
		"objects": func(version int) string {
			return strings.Repeat(`{"a":`, depth) + strconv.Itoa(version) + strings.Repeat("}", depth)
		},
		"both": func(version int) string {
			return strings.Repeat(`[{"a":`, depth/2) + strconv.Itoa(version) + strings.Repeat("}]", depth/2)
		},
	}
}

// A document of 20 MB and documents nested 100,000 levels deep are rows like
// any other, byte for byte, and so are the ordinary ones beside them; they are
// updated and deleted, and come back, in either kind of table.
func TestLargeAndDeepDocuments(t *testing.T) {
	for _, partitioned := range []bool{true, false} {
		if testing.Short() && !partitioned {
			break
		}
		w := newWorld(t, 17)
		w.partitioned = partitioned
		w.round(200)
		for version := range 2 {
			w.round(20)
			want := map[string]string{}
			for id, value := range edges() {
				want[id] = value(version)
				w.must(w.db.Put(id, fmt.Appendf(nil, `{"day":"2024-01-0%d","n":%d,"value":%s}`, 1+version, version, want[id])))
			}
			w.must(w.ingest(w.driver))
			w.check(fmt.Sprintf("version %d", version))
			w.columnIs("value", want)
		}
		for id := range edges() {
			w.must(w.db.Delete(id))
		}
		w.round(20)
		w.must(w.ingest(w.driver))
		w.check("after the deletions")
		w.columnIs("value", nil)
		for id, value := range edges() {
			w.must(w.db.Put(id, fmt.Appendf(nil, `{"day":"2024-01-04","n":9,"value":%s}`, value(9))))
		}
		w.must(w.ingest(w.driver))
		w.check("after they came back")
	}
}

// columnIs compares a column of the live rows that have it; strings come
// without their quotes.
func (w *world) columnIs(column string, want map[string]string) {
	w.t.Helper()
	v, ctx := w.view(), context.Background()
	schema, err := v.Schema(ctx)
	w.must(nil, err)
	found := 0
	for r, err := range reader.Snapshot(ctx, v, reader.Options{}) {
		w.must(nil, err)
		value := schema.At(r.Row, column)
		if value.IsNull() {
			continue
		}
		if value.Text() != strings.Trim(want[r.Key.Record], `"`) {
			w.t.Fatalf("%q: %s differs from the document's", r.Key.Record, column)
		}
		found++
	}
	if found != len(want) {
		w.t.Fatalf("%d rows have a %s, want %d", found, column, len(want))
	}
}

// A row that is larger than the source may read ends the ingest with an error
// that names the document and the setting, and leaves the table as it was.
// Raising the limit, a smaller revision, or a deletion is the way on.
func TestRowTooLarge(t *testing.T) {
	const limit = 64 << 10
	large := fmt.Appendf(nil, `{"day":"2024-01-02","n":1,"text":"%s"}`, strings.Repeat("x", 2*limit))
	for name, mend := range map[string]func(*world){
		"a higher limit":     func(w *world) { w.maxRowBytes = 4 * limit },
		"a smaller revision": func(w *world) { w.must(w.db.Put("large", w.body())) },
		"a deletion":         func(w *world) { w.must(w.db.Delete("large")) },
	} {
		w := newWorld(t, 19)
		w.maxRowBytes = limit
		w.round(100)
		w.must(w.ingest(w.driver))
		before, commits := w.snapshot(), w.instants()
		w.must(w.db.Put("large", large))
		for range 2 { // the next start meets it again
			_, err := w.ingest(w.driver)
			if !errors.Is(err, couchdb.ErrRowTooLarge) {
				t.Fatalf("%s: a row of %d bytes gave %v", name, len(large), err)
			}
			for _, word := range []string{`"large"`, strconv.Itoa(limit), "source.max_row_bytes", w.server.URL() + "/docs"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: no %s in: %v", name, word, err)
				}
			}
		}
		if w.instants() != commits {
			t.Errorf("%s: the row that could not be read made a commit", name)
		}
		w.equal(name+": before it is mended", before, w.snapshot())
		mend(w)
		w.round(20)
		w.must(w.ingest(w.driver))
		w.check(name)
	}
}
