package catalog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// theirs is what Hudi 0.15's own HiveSyncTool told a Hive metastore of a table of ours,
// read back from there (testdata/README.md).
type theirs struct {
	Schema json.RawMessage
	Tables []struct {
		catalog.Table
		Partitions map[string]string
	}
}

func readTheirs(t *testing.T) theirs {
	t.Helper()
	data, err := os.ReadFile("testdata/hivesync-0.15.json")
	if err != nil {
		t.Fatal(err)
	}
	var all theirs
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func (h theirs) state(t *testing.T) catalog.State {
	t.Helper()
	s, err := hudi.ParseSchema(string(h.Schema))
	if err != nil {
		t.Fatal(err)
	}
	return catalog.State{Database: "theirs", Name: "trips", Location: "file:///data/trips", Schema: s, Partitioning: hudi.OurPartitioning("pt")}
}

// Property by property we say what Hudi's own tool says, but for what is listed here.
func TestAsHiveSyncTool(t *testing.T) {
	h := readTheirs(t)
	ours, err := catalog.Describe(h.state(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range h.Tables {
		at := slices.IndexFunc(ours, func(o catalog.Table) bool { return o.Name == want.Name })
		if at < 0 {
			t.Errorf("no table %s", want.Name)
			continue
		}
		got := ours[at]
		if !catalog.SameLocation(got.Location, want.Location) {
			t.Errorf("%s: location %s, theirs %s", want.Name, got.Location, want.Location)
		}
		// Ours to say which table it is; theirs of the program that ran, and of the last
		// commit, which Sync notes.
		delete(got.Parameters, "couch2hudi.table")
		for _, key := range []string{"spark.sql.create.version", "last_commit_time_sync", "last_commit_completion_time_sync"} {
			if want.Parameters[key] == "" {
				t.Errorf("%s: they have no %s any more", want.Name, key)
			}
			delete(want.Parameters, key)
		}
		const part = "spark.sql.sources.schema.part.0"
		compareSchemas(t, want.Name, got.Parameters[part], want.Parameters[part])
		delete(got.Parameters, part)
		delete(want.Parameters, part)
		got.Location = want.Location
		if !reflect.DeepEqual(got, want.Table) {
			t.Errorf("%s:\n%+v, theirs\n%+v", want.Name, got, want.Table)
		}
	}
}

// compareSchemas: arrays of ours may hold nulls, which HiveSyncTool denies of whatever
// it reads from the table's Parquet schema.
func compareSchemas(t *testing.T, table, ours, theirs string) {
	t.Helper()
	var got, want any
	if err := errors.Join(json.Unmarshal([]byte(ours), &got), json.Unmarshal([]byte(theirs), &want)); err != nil {
		t.Fatal(err)
	}
	var nullable func(any)
	nullable = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["type"] == "array" {
				v["containsNull"] = true
			}
			for _, inner := range v {
				nullable(inner)
			}
		case []any:
			for _, inner := range v {
				nullable(inner)
			}
		}
	}
	nullable(want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: Spark's schema:\n%s, theirs\n%s", table, ours, theirs)
	}
}

// column is one of an Avro type.
func column(name, avro string) hudi.Column {
	if strings.HasPrefix(avro, "{") {
		s, err := hudi.ParseSchema(`{"type":"record","name":"r","fields":[{"name":"` + name + `","type":["null",` + avro + `],"default":null}]}`)
		if err != nil {
			panic(err)
		}
		return s.Columns()[0]
	}
	s, err := hudi.ParseSchema(`{"type":"record","name":"r","fields":[{"name":"` + name + `","type":["null","` + avro + `"],"default":null}]}`)
	if err != nil {
		panic(err)
	}
	return s.Columns()[0]
}

func describe(t *testing.T, columns ...hudi.Column) ([]catalog.Table, error) {
	t.Helper()
	s, err := hudi.NewSchema("docs", columns...)
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Describe(catalog.State{Database: "d", Name: "n", Location: "file:///x", Schema: s})
}

func TestTypes(t *testing.T) {
	for _, c := range []struct{ avro, hive, spark string }{
		{"boolean", "boolean", `"boolean"`}, {"int", "int", `"integer"`}, {"long", "bigint", `"long"`}, {"float", "float", `"float"`},
		{"double", "double", `"double"`}, {"string", "string", `"string"`}, {"bytes", "binary", `"binary"`},
		{`{"type":"int","logicalType":"date"}`, "date", `"date"`},
		{`{"type":"long","logicalType":"timestamp-micros"}`, "timestamp", `"timestamp"`},
		{`{"type":"long","logicalType":"timestamp-millis"}`, "timestamp", `"timestamp"`},
		{`{"type":"bytes","logicalType":"decimal","precision":38,"scale":10}`, "decimal(38,10)", `"decimal(38,10)"`},
		{`{"type":"fixed","name":"f","size":4}`, "binary", `"binary"`},
		{`{"type":"enum","name":"e","symbols":["A"]}`, "string", `"string"`},
		{`{"type":"map","values":["null","long"]}`, "map<string,bigint>", `{"type":"map","keyType":"string","valueType":"long","valueContainsNull":true}`},
		{`{"type":"array","items":{"type":"array","items":["null","string"]}}`, "array<array<string>>",
			`{"type":"array","elementType":{"type":"array","elementType":"string","containsNull":true},"containsNull":false}`},
		{`{"type":"record","name":"p","fields":[{"name":"Lat","type":"double"},{"name":"next","type":["null",{"type":"record","name":"q","fields":[{"name":"n","type":"long"}]}]},{"name":"again","type":["null","q"]}]}`,
			"struct<lat:double,next:struct<n:bigint>,again:struct<n:bigint>>",
			`{"type":"struct","fields":[{"name":"Lat","type":"double","nullable":false,"metadata":{}},{"name":"next","type":{"type":"struct","fields":[{"name":"n","type":"long","nullable":false,"metadata":{}}]},"nullable":true,"metadata":{}},` +
				`{"name":"again","type":{"type":"struct","fields":[{"name":"n","type":"long","nullable":false,"metadata":{}}]},"nullable":true,"metadata":{}}]}`},
	} {
		all, err := describe(t, column("Col", c.avro))
		if err != nil {
			t.Errorf("%s: %v", c.avro, err)
			continue
		}
		last := all[0].Columns[len(all[0].Columns)-1]
		if last.Name != "col" || last.Type != c.hive {
			t.Errorf("%s: %+v, want %s", c.avro, last, c.hive)
		}
		if want := `{"name":"Col","type":` + c.spark + `,"nullable":true,"metadata":{}}]}`; !strings.HasSuffix(all[0].Parameters["spark.sql.sources.schema.part.0"], want) {
			t.Errorf("%s: %s, want %s", c.avro, all[0].Parameters["spark.sql.sources.schema.part.0"], want)
		}
	}
}

// Names that differ only in case are one name to a metastore.
func TestClashes(t *testing.T) {
	for _, columns := range [][]hudi.Column{
		{column("a", "string"), column("A", "long")},
		{column("s", `{"type":"record","name":"p","fields":[{"name":"x","type":"long"},{"name":"X","type":"long"}]}`)},
	} {
		if _, err := describe(t, columns...); !errors.Is(err, catalog.ErrColumns) || !strings.Contains(err.Error(), "differ only in case") {
			t.Errorf("%v", err)
		}
	}
}

// Spark's schema is cut into parts of 4,000 characters, which give it when put together.
func TestParts(t *testing.T) {
	columns := []hudi.Column{column(hudi.ColumnID, "string")}
	for i := range 300 {
		columns = append(columns, column(fmt.Sprintf("column_%d", i), "string"))
	}
	all, err := describe(t, columns...)
	if err != nil {
		t.Fatal(err)
	}
	p := all[1].Parameters
	var text strings.Builder
	n := 0
	for ; p[fmt.Sprintf("spark.sql.sources.schema.part.%d", n)] != ""; n++ {
		part := p[fmt.Sprintf("spark.sql.sources.schema.part.%d", n)]
		if len(part) > 4000 {
			t.Errorf("part %d has %d characters", n, len(part))
		}
		text.WriteString(part)
	}
	if n < 2 || p["spark.sql.sources.schema.numParts"] != strconv.Itoa(n) {
		t.Errorf("%d parts, numParts %s", n, p["spark.sql.sources.schema.numParts"])
	}
	var schema struct{ Fields []struct{ Name string } }
	if err := json.Unmarshal([]byte(text.String()), &schema); err != nil || len(schema.Fields) != 306 {
		t.Errorf("%d columns, %v", len(schema.Fields), err)
	}
	// Fewer parts than before leave none of the old.
	few, err := describe(t, columns[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	merged, changed := catalog.Merged(&all[1], &few[1])
	if !changed || !maps.Equal(merged.Parameters, few[1].Parameters) {
		t.Errorf("%t %v", changed, slices.Sorted(maps.Keys(merged.Parameters)))
	}
}

func TestForeign(t *testing.T) {
	all, err := catalog.Describe(readTheirs(t).state(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*catalog.Table)
		why    string
	}{
		"as it is":         {func(*catalog.Table) {}, ""},
		"other spelling":   {func(t *catalog.Table) { t.Location = "file:/data/trips/" }, ""},
		"other's property": {func(t *catalog.Table) { t.Parameters = nil }, ""},
		"grown":            {func(t *catalog.Table) { t.Columns = t.Columns[:7] }, ""},
		"elsewhere":        {func(t *catalog.Table) { t.Location = "s3a://data/trips" }, "its files are at"},
		"managed":          {func(t *catalog.Table) { t.Managed = true }, "managed"},
		"a view":           {func(t *catalog.Table) { t.Query = "select 1" }, "view"},
		"not Hudi":         {func(t *catalog.Table) { t.InputFormat = "org.apache.hadoop.mapred.TextInputFormat" }, "TextInputFormat"},
		"other partitions": {func(t *catalog.Table) { t.Partitioned = []catalog.Column{{Name: "day", Type: "date"}} }, "partitioned by [day date]"},
		"no partitions":    {func(t *catalog.Table) { t.Partitioned = nil }, "partitioned by []"},
	} {
		there := all[0]
		there.Parameters = maps.Clone(there.Parameters)
		c.change(&there)
		if got := catalog.Foreign(&there, &all[0]); (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: %q, want %q", name, got, c.why)
		}
	}
	live := all[3]
	for name, there := range map[string]catalog.Table{"a table": all[0], "another view": {Query: "select 1"}} {
		if catalog.Foreign(&there, &live) == "" {
			t.Errorf("%s passes as our view", name)
		}
	}
	if why := catalog.Foreign(&live, &live); why != "" {
		t.Error(why)
	}
}

func TestSameLocation(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"file:/data/t", "file:///data/t", true}, {"/data/t/", "file:///data/t", true}, {"s3://b/t", "s3a://b/t/", true}, {"s3n://b/t", "s3a://b/t", true},
		{"s3://b/t", "s3://b/u", false}, {"gs://b/t", "s3://b/t", false}, {"file:///data/t", "file:///data/t2", false}, {"hdfs://n:8020/t", "hdfs://n:8020/t", true},
	} {
		if got := catalog.SameLocation(c.a, c.b); got != c.same {
			t.Errorf("%s, %s: %t", c.a, c.b, got)
		}
	}
}
