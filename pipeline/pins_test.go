package pipeline_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/internal/golden"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

// bucketPins are pins that have a value in every setting.
func bucketPins() pipeline.Pins {
	return pipeline.Pins{Ordering: pipeline.OrderingLeafSum, BareFolders: true, PlainFolders: true,
		Layout: pipeline.Layout{Index: "bucket", Buckets: 16, Scope: "partition", Key: "_id", PartitionField: "at",
			PartitionFormat: "yyyyMMdd", Timezone: "Europe/Madrid", PartitionName: "day", Moves: "stay"}}
}

func bloomPins() pipeline.Pins {
	return pipeline.Pins{Ordering: pipeline.OrderingLeafSum, Layout: pipeline.Layout{Index: "bloom", Key: "_id"}}
}

// created is an empty table with pins.
func created(t *testing.T, p pipeline.Pins, extra map[string]string) *table.Table {
	t.Helper()
	c := table.CreateOptions{Name: "docs", PartitionField: p.PartitionName, BareFolders: p.BareFolders, PlainFolders: p.PlainFolders, Extra: extra}
	tb, err := table.Create(t.Context(), storage.New(teststore.New(t), nil), c, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

func pinned(t *testing.T, tb *table.Table) pipeline.Pinned {
	t.Helper()
	v, err := tb.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.ReadPins(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A table that was created and never committed to is pinned.
func TestPinsOfEmptyTable(t *testing.T) {
	for _, p := range []pipeline.Pins{bucketPins(), bloomPins(), {Ordering: pipeline.OrderingLeafSum, Layout: pipeline.Layout{Index: "bloom", Key: "_id",
		PartitionField: "kind", Timezone: "UTC", PartitionName: "pt"}}} {
		got := pinned(t, created(t, p, p.Properties()))
		if got.Pins != p || !got.Known || got.Where != "hoodie.properties" {
			t.Errorf("got %+v\nwant %+v", got, p)
		}
		if err := got.Check(p); err != nil {
			t.Error(err)
		}
	}
	if got := pinned(t, created(t, bloomPins(), nil)); got.Known || got.Check(bucketPins()) != nil {
		t.Errorf("a table that says nothing: %+v", got)
	}
}

// The names are Hudi's where it has some: its writers take them from there.
func TestPinsByHudisNames(t *testing.T) {
	props := created(t, bucketPins(), bucketPins().Properties()).Properties()
	for key, want := range map[string]string{"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "16", "hoodie.bucket.index.hash.field": "_id",
		"hoodie.datasource.write.recordkey.field": "_id",
		"couch2hudi.index.scope":                  "partition", "couch2hudi.partition.moves": "stay", "couch2hudi.ordering": "leaf-sum"} {
		if got := props.Get(key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	if err := props.CheckSum(); err != nil {
		t.Error(err)
	}
}

// Every setting is held to, and named with both values.
func TestPinsNameTheSetting(t *testing.T) {
	have := pinned(t, created(t, bucketPins(), bucketPins().Properties()))
	for name, c := range map[string]struct {
		change func(*pipeline.Pins)
		values []string
	}{
		"table.index":                {func(p *pipeline.Pins) { p.Index, p.Buckets = "bloom", 0 }, []string{"bucket", "bloom"}},
		"table.buckets":              {func(p *pipeline.Pins) { p.Buckets = 32 }, []string{"16", "32"}},
		"index.scope":                {func(p *pipeline.Pins) { p.Scope = "" }, []string{"partition", "global"}},
		"the key column":             {func(p *pipeline.Pins) { p.Key = "id" }, []string{"_id", "id"}},
		"table.ordering":             {func(p *pipeline.Pins) { p.Ordering = "seq" }, []string{"leaf-sum", "seq"}},
		"table.partition.field":      {func(p *pipeline.Pins) { p.PartitionField = "on" }, []string{"at", "on"}},
		"table.partition.format":     {func(p *pipeline.Pins) { p.PartitionFormat = "yyyy" }, []string{"yyyyMMdd", "yyyy"}},
		"table.partition.timezone":   {func(p *pipeline.Pins) { p.Timezone = "UTC" }, []string{"Europe/Madrid", "UTC"}},
		"table.partition.name":       {func(p *pipeline.Pins) { p.PartitionName = "pt" }, []string{"day", "pt"}},
		"table.partition.moves":      {func(p *pipeline.Pins) { p.Moves = "" }, []string{"stay", "move"}},
		"table.partition.hive_style": {func(p *pipeline.Pins) { p.BareFolders = false }, []string{"false", "true"}},
		"table.partition.url_encode": {func(p *pipeline.Pins) { p.PlainFolders = false }, []string{"false", "true"}},
	} {
		want := bucketPins()
		c.change(&want)
		err := have.Check(want)
		var all *pipeline.PinsError
		if !errors.Is(err, pipeline.ErrPinned) || !errors.As(err, &all) || len(all.All) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		e := all.All[0]
		if e.Setting != name || e.Have != c.values[0] || e.Want != c.values[1] || e.Where != "hoodie.properties" || e.Hint() == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// Without a partition field there is nothing to say of how it is used.
	err := have.Check(pipeline.Pins{Ordering: pipeline.OrderingLeafSum, Layout: pipeline.Layout{Index: "bucket", Buckets: 8, Scope: "partition", Key: "_id"}})
	if err == nil || err.Error() != "the table pins another setting: table.buckets is 16 in hoodie.properties, the configuration says 8; "+
		"table.partition.field is at in hoodie.properties, the configuration says none" {
		t.Error(err)
	}
}

// layoutOf makes the ingests of a world keep a layout.
func (w *world) layoutOf(p pipeline.Pins) {
	w.tune = func(o *pipeline.Options) {
		o.Layout, o.Ordering = p.Layout, p.Ordering
		if p.Index == "bucket" {
			o.Index, o.Writer = index.NewBucket(index.BucketOptions{Buckets: p.Buckets}), writer.Options{Buckets: p.Buckets}
		}
	}
}

// A table from before the pins stood in its properties goes on by its commits.
func TestPinsOfOldTable(t *testing.T) {
	w := newWorld(t, 31)
	w.must(w.db.Put("a", []byte(`{"n":1,"day":"2024-01-01"}`)))
	w.layoutOf(bloomPins())
	w.must(w.ingest(w.driver))
	got := w.view().Table()
	if p := pinned(t, got); !p.Known || p.Pins != bloomPins() || !strings.HasPrefix(p.Where, "commit 20") {
		t.Fatalf("%+v", p)
	}
	w.must(w.db.Put("b", []byte(`{"n":2,"day":"2024-01-01"}`)))
	w.must(w.ingest(w.driver))
	w.check("after the second start")
	other := bucketPins()
	w.layoutOf(other)
	_, err := w.ingest(w.driver)
	if !errors.Is(err, pipeline.ErrPinned) || !strings.Contains(err.Error(), "table.index is bloom in commit 20") {
		t.Fatal(err)
	}
	if p := w.view().Table().Properties(); p.Get(hudi.PropIndexType) != "" {
		t.Error("a setting was added to an old table")
	}
}

// A rebucketing that died after its commit leaves the old number in
// hoodie.properties: the commit counts, and the next start mends the file.
func TestPinsMendProperties(t *testing.T) {
	w := newWorld(t, 32)
	pins := pipeline.Pins{Ordering: pipeline.OrderingLeafSum, Layout: pipeline.Layout{Index: "bucket", Buckets: 8, Key: "_id"}}
	was := pins
	was.Buckets = 4
	w.must(table.Create(t.Context(), storage.New(w.driver, nil), table.CreateOptions{Name: "docs", Extra: was.Properties()}, table.Options{}))
	w.must(w.db.Put("a", []byte(`{"n":1,"day":"2024-01-01"}`)))
	w.layoutOf(pins)
	if _, err := w.ingest(w.driver); !errors.Is(err, pipeline.ErrPinned) {
		t.Fatalf("8 buckets in a table of 4: %v", err)
	}
	w.layoutOf(was)
	w.must(w.ingest(w.driver))
	w.must(w.commitLayout(`{"index":"bucket","buckets":8,"key":"_id"}`))
	if _, err := w.ingest(w.driver); !errors.Is(err, pipeline.ErrPinned) || !strings.Contains(err.Error(), "table.buckets is 8 in commit") {
		t.Fatalf("4 buckets after a commit of 8: %v", err)
	}
	if got := w.view().Table().Properties().Get(hudi.PropBuckets); got != "4" {
		t.Fatalf("a refused start changed the properties to %s", got)
	}
	w.layoutOf(pins)
	w.must(w.ingest(w.driver))
	if got := w.view().Table().Properties(); got.Get(hudi.PropBuckets) != "8" || got.CheckSum() != nil || got.Get(hudi.PropZone) != "UTC" {
		t.Fatalf("not mended: %v", got)
	}
	w.must(w.commitLayout(`{"index":"bucket","buckets":8,"key":"_id","shards":3}`))
	if _, err := w.ingest(w.driver); !errors.Is(err, pipeline.ErrPinned) || !strings.Contains(err.Error(), "shards") {
		t.Fatalf("a layout of a later release: %v", err)
	}
}

// commitLayout makes an empty commit whose layout is the text.
func (w *world) commitLayout(text string) (struct{}, error) {
	ctx := context.Background()
	v := w.view()
	var extra map[string]string
	for _, i := range slices.Backward(v.Writes()) {
		b, err := v.Body(ctx, i)
		w.must(nil, err)
		extra = maps.Clone(b.Extra)
		break
	}
	extra[commitmeta.ExtraLayout] = text
	tb := v.Table()
	lease, err := tb.Lease(ctx)
	w.must(nil, err)
	defer func() { w.must(nil, lease.Close()) }()
	x, err := tb.Begin(ctx)
	w.must(nil, err)
	return struct{}{}, x.Commit(ctx, commitmeta.Body{Operation: "UPSERT", Extra: extra})
}

// foreign is a golden table of another engine.
func foreign(t *testing.T, name string) *table.View {
	t.Helper()
	b := golden.Load(t, storage.New(teststore.New(t), nil), name)
	tb, err := table.Open(t.Context(), b, table.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tb.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Spark leaves no number of buckets in its tables: the files show it.
func TestPinsOfForeignTables(t *testing.T) {
	for _, c := range []struct {
		table   string
		buckets int
		says    string
	}{
		{"w015-v6-bucket-nomdt", 4, ""},
		{"w120-v6-bucket", 4, ""},
		{"w015-v6-bucket-compaction", 3, "is of none of 3 buckets"},
		{"w015-v6-bucket-nomdt", 8, "of 8"},
		{"w015-v6-bucket-nomdt", 5, "of 5"},
		{"w015-v6-bucket-nomdt", 0, "the ids of the file groups are those of a bucket index"},
		{"w015-v6-bloom-nomdt", 0, ""},
		{"w015-v6-bloom-nomdt", 4, "is of none of 4 buckets"},
	} {
		want := bloomPins()
		if c.buckets > 0 {
			want.Index, want.Buckets = "bucket", c.buckets
		}
		v := foreign(t, c.table)
		have, err := pipeline.ReadPins(t.Context(), v)
		if err != nil || have.Known || have.Check(want) != nil {
			t.Fatalf("%s: %+v, %v", c.table, have, err)
		}
		err = have.CheckFiles(t.Context(), v, want)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, pipeline.ErrPinned) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s as %d buckets: %v", c.table, c.buckets, err)
		}
	}
}
