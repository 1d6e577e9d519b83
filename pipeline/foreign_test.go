package pipeline_test

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

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
