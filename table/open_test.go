package table_test

import (
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

func TestCreate(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	b := bucketOf(d)
	if ok := must[bool](t)(table.Exists(ctx, b)); ok {
		t.Error("a table in an empty store")
	}
	_, err := table.Open(ctx, b, table.Options{})
	wantErr(t, "open", err, table.ErrNoTable)
	s := must[*hudi.Schema](t)(hudi.ParseSchema(someSchema))
	c := table.CreateOptions{Name: "täble", PartitionField: "pt", Schema: s, Extra: map[string]string{"couch2hudi.ordering": "leaf-sum"}}
	made := must[*table.Table](t)(table.Create(ctx, b, c, options()))
	_, err = table.Create(ctx, b, c, options())
	wantErr(t, "create again", err, table.ErrExists)
	if ok := must[bool](t)(table.Exists(ctx, b)); !ok {
		t.Error("no table after Create")
	}
	for _, tb := range []*table.Table{made, must[*table.Table](t)(table.Open(ctx, b, options()))} {
		if tb.Name() != "täble" || tb.PartitionField() != "pt" || tb.OrderColumn() != "_rev_order" || tb.KeyColumn() != "_id" {
			t.Errorf("%q %q %q %q", tb.Name(), tb.PartitionField(), tb.OrderColumn(), tb.KeyColumn())
		}
		if got := tb.Partitioning().Path("a/b", false); got != "pt=a%2Fb" {
			t.Errorf("folder %q", got)
		}
		v := must[*table.View](t)(tb.View(ctx))
		if got := must[*hudi.Schema](t)(v.Schema(ctx)); !got.Same(s) {
			t.Errorf("schema %s", got.Avro())
		}
		if tb.Properties().Get("couch2hudi.ordering") != "leaf-sum" {
			t.Error("the further property is lost")
		}
	}
	// What format §1.4 asks of version 6, and the newer names of the same.
	want := map[string]string{
		"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1",
		"hoodie.table.recordkey.fields": "_id", "hoodie.table.partition.fields": "pt", "hoodie.table.precombine.field": "_rev_order",
		"hoodie.table.ordering.fields": "_rev_order", "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
		"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator", "hoodie.datasource.write.hive_style_partitioning": "true",
		"hoodie.datasource.write.partitionpath.urlencode": "true", "hoodie.datasource.write.drop.partition.columns": "false",
		"hoodie.archivelog.folder": "archived", "hoodie.table.timeline.timezone": "UTC", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
		"hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
	}
	for k, v := range want {
		if got := made.Properties().Get(k); got != v {
			t.Errorf("%s=%s, want %s", k, got, v)
		}
	}
	if v, ok := made.Properties().Lookup(hudi.PropMetadata); ok {
		t.Errorf("%s=%s", hudi.PropMetadata, v)
	}
}

func TestCreateNonPartitioned(t *testing.T) {
	ctx := t.Context()
	tb := must[*table.Table](t)(table.Create(ctx, bucketOf(teststore.New(t)), table.CreateOptions{Name: "x", OrderColumn: "ts", KeyColumn: "id"}, options()))
	p := tb.Properties()
	if _, ok := p.Lookup(hudi.PropPartitionFields); ok || p.Get(hudi.PropKeyGenerator) != "org.apache.hudi.keygen.NonpartitionedKeyGenerator" ||
		tb.OrderColumn() != "ts" || tb.KeyColumn() != "id" || tb.PartitionField() != "" {
		t.Errorf("%s", p.Encode(time.Now()))
	}
	lease(t, tb)
	x := must[*table.Txn](t)(tb.Begin(ctx))
	s, err := put(ctx, x, "", base(x, 1), table.MarkCreate, "base")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Commit(ctx, body(s)); err != nil {
		t.Fatal(err)
	}
	v := must[*table.View](t)(tb.View(ctx))
	if got := allSlices(t, v); len(got) != 1 || got[0].Partition != "" || got[0].Base.Size != 4 {
		t.Errorf("%+v", got)
	}
	r, err := v.Open(ctx, "", hudi.File{Name: base(x, 1)})
	if err != nil || r.Size() != 4 {
		t.Errorf("open: %v", err)
	}
	_, err = v.Open(ctx, "", hudi.File{Name: "gone"})
	var hint *table.Error
	if !errors.Is(err, storage.ErrNotExist) || !errors.As(err, &hint) {
		t.Errorf("open what is gone: %v", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	for what, c := range map[string]table.CreateOptions{
		"no name":        {},
		"contradiction":  {Name: "x", Extra: map[string]string{hudi.PropType: "COPY_ON_WRITE"}},
		"checksum":       {Name: "x", Extra: map[string]string{hudi.PropChecksum: "1"}},
		"metadata table": {Name: "x", Extra: map[string]string{hudi.PropMetadata: "files"}},
		"bootstrapped":   {Name: "x", Extra: map[string]string{hudi.PropBootstrapBase: "/x"}},
		"two keys":       {Name: "x", KeyColumn: "a,b"},
		"two partitions": {Name: "x", PartitionField: "a,b"},
		"two orderings":  {Name: "x", OrderColumn: "a,b"},
	} {
		d := teststore.New(t)
		if _, err := table.Create(t.Context(), bucketOf(d), c, options()); err == nil {
			t.Errorf("%s: created", what)
		}
		if left := names(t, d, ""); len(left) > 0 {
			t.Errorf("%s: left %q", what, left)
		}
	}
}

func TestCreateRace(t *testing.T) {
	d := teststore.New(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = table.Create(t.Context(), bucketOf(d), table.CreateOptions{Name: "x"}, options())
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, table.ErrExists) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d creators won", won)
	}
}

// later are the properties of a later version, and others in pairs.
func later(version string, more ...string) map[string]string {
	set := map[string]string{hudi.PropVersion: version, hudi.PropLayout: "2"}
	for i := 0; i < len(more); i += 2 {
		set[more[i]] = more[i+1]
	}
	return set
}

// What Open refuses, for writing and for reading, each with a hint.
func TestOpenRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		set         map[string]string
		write, read error
	}{
		"as it is":              {},
		"version 7":             {map[string]string{hudi.PropVersion: "7"}, table.ErrVersion, table.ErrVersion},
		"version 8":             {later("8"), table.ErrVersion, nil},
		"version 9":             {later("9"), table.ErrVersion, nil},
		"version 9, layout 1":   {later("9", hudi.PropLayout, "1"), table.ErrVersion, table.ErrVersion},
		"timeline elsewhere":    {later("9", hudi.PropTimeline, "t"), table.ErrUnsupported, table.ErrUnsupported},
		"by commit time":        {later("9", hudi.PropMergeMode, "COMMIT_TIME_ORDERING"), table.ErrVersion, nil},
		"custom merging":        {later("9", hudi.PropMergeMode, "custom"), table.ErrUnsupported, table.ErrUnsupported},
		"custom strategy":       {later("8", hudi.PropMergeMode, "", hudi.PropMergeStrategy, "x"), table.ErrUnsupported, table.ErrUnsupported},
		"custom payload":        {later("9", hudi.PropMergeMode, "", hudi.PropMergeStrategy, "", hudi.PropPayload, "a.B"), table.ErrUnsupported, table.ErrUnsupported},
		"partial updates":       {later("9", hudi.PropPartialUpdate, "FILL_UNAVAILABLE"), table.ErrUnsupported, table.ErrUnsupported},
		"no partial updates":    {later("9", hudi.PropPartialUpdate, "NONE"), table.ErrVersion, nil},
		"a mark of deletes":     {later("9", hudi.PropDeleteField, "op"), table.ErrUnsupported, table.ErrUnsupported},
		"two orderings":         {later("9", hudi.PropOrdering, "a,b"), table.ErrUnsupported, table.ErrUnsupported},
		"orderings unused":      {later("9", hudi.PropOrdering, "a,b", hudi.PropMergeMode, "COMMIT_TIME_ORDERING"), table.ErrVersion, nil},
		"custom, no logs":       {later("9", hudi.PropMergeMode, "CUSTOM", hudi.PropType, "COPY_ON_WRITE"), table.ErrVersion, nil},
		"version of words":      {map[string]string{hudi.PropVersion: "six"}, table.ErrCorrupt, table.ErrCorrupt},
		"layout 2":              {map[string]string{hudi.PropLayout: "2"}, table.ErrVersion, table.ErrVersion},
		"copy on write":         {map[string]string{hudi.PropType: "COPY_ON_WRITE"}, table.ErrType, nil},
		"no type":               {map[string]string{hudi.PropType: ""}, table.ErrType, table.ErrType},
		"bootstrapped":          {map[string]string{hudi.PropBootstrapBase: "/x"}, table.ErrBootstrapped, table.ErrBootstrapped},
		"no meta columns":       {map[string]string{hudi.PropMetaFields: "false"}, table.ErrUnsupported, table.ErrUnsupported},
		"partition dropped":     {map[string]string{hudi.PropDropPartition: "true"}, table.ErrUnsupported, table.ErrUnsupported},
		"orc":                   {map[string]string{hudi.PropBaseFormat: "ORC"}, table.ErrUnsupported, table.ErrUnsupported},
		"several formats":       {map[string]string{hudi.PropMultipleBaseFormat: "true"}, table.ErrUnsupported, table.ErrUnsupported},
		"wrong checksum":        {map[string]string{hudi.PropChecksum: "1"}, table.ErrCorrupt, table.ErrCorrupt},
		"metadata table":        {map[string]string{hudi.PropMetadata: "files,column_stats"}, table.ErrMetadataTable, nil},
		"metadata being built":  {map[string]string{hudi.PropMetadataInflight: "files"}, table.ErrMetadataTable, nil},
		"complex keys":          {map[string]string{hudi.PropKeyGenerator: "org.apache.hudi.keygen.ComplexKeyGenerator"}, table.ErrUnsupported, nil},
		"complex by type":       {map[string]string{hudi.PropKeyGenerator: "", hudi.PropKeyGeneratorType: "COMPLEX"}, table.ErrUnsupported, nil},
		"simple by type":        {map[string]string{hudi.PropKeyGenerator: "", hudi.PropKeyGeneratorType: "SIMPLE_AVRO"}, nil, nil},
		"simple Avro":           {map[string]string{hudi.PropKeyGenerator: "org.apache.hudi.keygen.SimpleAvroKeyGenerator"}, nil, nil},
		"two keys":              {map[string]string{hudi.PropKeyFields: "a,b"}, table.ErrUnsupported, nil},
		"no key":                {map[string]string{hudi.PropKeyFields: ""}, table.ErrUnsupported, nil},
		"two partition fields":  {map[string]string{hudi.PropPartitionFields: "a,b"}, table.ErrUnsupported, nil},
		"no ordering":           {map[string]string{hudi.PropPrecombine: "", hudi.PropOrdering: ""}, table.ErrUnsupported, nil},
		"overwrite with latest": {map[string]string{hudi.PropPayload: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}, table.ErrUnsupported, nil},
		"payload not said":      {map[string]string{hudi.PropPayload: ""}, table.ErrUnsupported, nil},
		"event time payload":    {map[string]string{hudi.PropPayload: "org.apache.hudi.common.model.EventTimeAvroPayload"}, nil, nil},
		"change data capture":   {map[string]string{hudi.PropCDC: "true", hudi.PropCDCMode: "everything"}, table.ErrUnsupported, nil},
	} {
		d := start(t)
		p := must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), options())).Properties()
		for k, v := range c.set {
			p = p.With(k, v)
		}
		putAll(t, d, map[string]string{".hoodie/hoodie.properties": string(p.Encode(time.Now()))})
		for readOnly, want := range map[bool]error{false: c.write, true: c.read} {
			_, err := table.Open(t.Context(), bucketOf(d), table.Options{ReadOnly: readOnly})
			if want == nil && err != nil || !errors.Is(err, want) {
				t.Errorf("%s, read only %v: %v, want %v", what, readOnly, err, want)
			}
			var hint *table.Error
			if want != nil && (!errors.As(err, &hint) || hint.Hint == "") {
				t.Errorf("%s: no hint: %v", what, err)
			}
		}
	}
}

func TestOpenRefusesFiles(t *testing.T) {
	d := start(t)
	putAll(t, d, map[string]string{".hoodie/.schema/20260101000000000.schemacommit": "{}"})
	_, err := table.Open(t.Context(), bucketOf(d), options())
	wantErr(t, "schema history", err, table.ErrUnsupported)
	must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), table.Options{ReadOnly: true}))

	for what, content := range map[string]string{"empty": "", "comments": "# x\n", "a bad escape": `hoodie.table.name=\u00`} {
		d := teststore.New(t)
		putAll(t, d, map[string]string{".hoodie/hoodie.properties": content})
		_, err := table.Open(t.Context(), bucketOf(d), options())
		wantErr(t, what, err, table.ErrCorrupt)
	}
}

// A file without a checksum may be one that was cut short: enough to be read,
// not to be written.
func TestOpenWithoutChecksum(t *testing.T) {
	d := start(t)
	p := must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), options())).Properties()
	values := map[string]string{}
	for _, k := range p.Keys() {
		values[k] = p.Get(k)
	}
	short := maps.Clone(values)
	delete(short, hudi.PropChecksum)
	putAll(t, d, map[string]string{".hoodie/hoodie.properties": string(hudi.MakeProperties(short).Encode(time.Now()))})
	_, err := table.Open(t.Context(), bucketOf(d), options())
	wantErr(t, "to write", err, table.ErrCorrupt)
	must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), table.Options{ReadOnly: true}))
}

func TestReadOnlyWritesNothing(t *testing.T) {
	d := start(t)
	tb := must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), table.Options{ReadOnly: true}))
	lease(t, tb)
	_, err := tb.Begin(t.Context())
	wantErr(t, "begin", err, table.ErrUnsupported)
	_, err = tb.Recover(t.Context())
	wantErr(t, "recover", err, table.ErrUnsupported)

	g := load(t, "w120-v9-bloom-nomdt")
	later := must[*table.Table](t)(table.Open(t.Context(), bucketOf(g.driver), table.Options{ReadOnly: true}))
	_, err = later.Lease(t.Context())
	wantErr(t, "lease of a later version", err, table.ErrVersion)
}
