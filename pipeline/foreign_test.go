package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// unlocked is a store without locks, as other engines use ours.
type unlocked struct{ storage.Driver }

func (unlocked) Lock(context.Context, string) (storage.Lock, error) { return storage.NoLock{}, nil }

// Somebody without our lease commits between two commits that follow each other
// at once, the rows that come next among his: the next commit is on top of his,
// although it began on what the last one left.
func TestForeignCommitBetween(t *testing.T) {
	const rows, docs = 10, 60
	for _, find := range []string{"bloom", "bucket", "cache"} {
		for n := 1; n <= docs/rows; n++ {
			t.Run(fmt.Sprintf("%s after %d", find, n), func(t *testing.T) {
				w := newWorld(t, uint64(n))
				for i := range docs {
					w.must(w.db.Put(fmt.Sprintf("doc-%03d", (i*7)%docs), w.body()))
				}
				other := func() { w.must(w.ingest(unlocked{w.driver})) }
				commits := 0
				w.maxRows = rows
				w.tune = func(o *pipeline.Options) {
					if commits > 0 { // it is the other's
						if find == "bucket" {
							w.find(find, o)
						}
						return
					}
					w.find(find, o)
					tell := o.Events.Committed
					o.Events.Committed = func(p pipeline.Progress) {
						tell(p)
						if commits++; commits == n {
							other()
						}
					}
				}
				w.must(w.ingest(w.driver))
				w.check("in the end")
				w.nothingLeft()
			})
		}
	}
}

// find sets the index.
func (w *world) find(name string, o *pipeline.Options) {
	const buckets = 3
	switch name {
	case "bucket":
		o.Index, o.Writer.Buckets = index.NewBucket(index.BucketOptions{Buckets: buckets}), buckets
	case "cache":
		c, err := keycache.Open(w.t.Context(), keycache.Options{Dir: filepath.Join(w.t.TempDir(), "cache"), Identity: "docs"})
		w.must(c, err)
		w.t.Cleanup(func() { w.must(nil, c.Close()) })
		o.Index = c
	}
}

// Another engine commits the table's schema without the notes on the columns, as
// Spark does. What a column was made from must be known all the same, or
// documents would get new columns, and values be rescued that fit before.
func TestForeignCommitDropsNotes(t *testing.T) {
	w := newWorld(t, 23)
	w.must(w.db.Put("a", []byte(`{"odd name":1,"list":[1],"day":"2024-01-01"}`)))
	w.must(w.ingest(w.driver))
	ctx := context.Background()
	v := w.view()
	before, err := v.Schema(ctx)
	if err != nil {
		t.Fatal(err)
	}
	bare := regexp.MustCompile(`,"doc":"[^"\\]*(\\.[^"\\]*)*"`).ReplaceAllString(before.Avro(), "")
	if bare == before.Avro() {
		t.Fatalf("no notes in %s", bare)
	}
	next, err := v.Last().Next()
	if err != nil {
		t.Fatal(err)
	}
	data, err := commitmeta.Encode(hudi.Version6, commitmeta.Body{Operation: "UPSERT", Extra: map[string]string{commitmeta.ExtraSchema: bare}})
	if err != nil || !json.Valid(data) {
		t.Fatal(err)
	}
	bucket := storage.New(w.driver, nil)
	for _, suffix := range []string{".deltacommit.requested", ".deltacommit.inflight", ".deltacommit"} {
		if suffix != ".deltacommit" {
			w.must(bucket.Put(ctx, ".hoodie/"+string(next)+suffix, nil))
			continue
		}
		w.must(bucket.Put(ctx, ".hoodie/"+string(next)+suffix, data))
	}
	w.must(w.db.Put("a", []byte(`{"odd name":2,"list":[2],"day":"2024-01-01"}`)))
	done, err := w.ingest(w.driver)
	if err != nil {
		t.Fatal(err)
	}
	after, err := w.view().Schema(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !after.Same(before) {
		t.Fatalf("the schema became\n%s\nfrom\n%s", after.Avro(), before.Avro())
	}
	if len(done) != 1 || done[0].Stats.Rescued != 0 {
		t.Fatalf("%+v", done)
	}
}
