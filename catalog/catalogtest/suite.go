package catalogtest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog"
)

// Many is how many partitions are more than any driver puts into a request.
const Many = 1100

// Run holds a driver to what catalog.Metastore says. open connects to one metastore,
// the same each time, which may keep what was there before. location is a folder that
// the metastore may look into, without a slash at its end. many is how many partitions
// are added at once.
func Run(t *testing.T, location string, many int, open func(t *testing.T) catalog.Metastore) {
	t.Helper()
	m := open(t)
	defer closed(t, m)
	s := suite{m: m, db: "c2h_suite", many: many}
	t.Run("database", s.database)
	t.Run("table", func(t *testing.T) { s.table(t, location) })
	t.Run("view", s.view)
	t.Run("partitions", func(t *testing.T) { s.partitions(t, location) })
	t.Run("twice", func(t *testing.T) {
		other := open(t)
		defer closed(t, other)
		s.twice(t, other, location)
	})
}

func closed(t *testing.T, m catalog.Metastore) {
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

type suite struct {
	m    catalog.Metastore
	db   string
	many int
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *suite) database(t *testing.T) {
	ctx := t.Context()
	if has, err := s.m.HasDatabase(ctx, "c2h_none"); has || err != nil {
		t.Errorf("%t, %v", has, err)
	}
	for range 2 {
		check(t, s.m.CreateDatabase(ctx, s.db))
	}
	if has, err := s.m.HasDatabase(ctx, s.db); !has || err != nil {
		t.Errorf("%t, %v", has, err)
	}
}

// Sample is a table with a long parameter and every type that tables have.
func Sample(name, location string) catalog.Table {
	return catalog.Table{Name: name, Location: location + "/" + name,
		Columns: []catalog.Column{{Name: "_id", Type: "string"}, {Name: "n", Type: "bigint", Comment: "a number"}, {Name: "at", Type: "timestamp"}, {Name: "day", Type: "date"},
			{Name: "price", Type: "decimal(10,2)"}, {Name: "tags", Type: "array<string>"}, {Name: "addr", Type: "struct<zip:string,geo:struct<lat:double>>"}},
		Partitioned: []catalog.Column{{Name: "pt", Type: "string"}},
		InputFormat: "org.apache.hudi.hadoop.HoodieParquetInputFormat", OutputFormat: "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
		SerDe: "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe", SerDeParameters: map[string]string{"path": location, "serialization.format": "1"},
		Parameters: map[string]string{"EXTERNAL": "TRUE", "long": strings.Repeat("x", 4000), "quote": `{"a":"b'c"}`}}
}

// same compares what a metastore says with what it was told; it may say more in
// parameters, and write a location another way.
func same(t *testing.T, got, want catalog.Table) {
	t.Helper()
	for k, v := range want.Parameters {
		if got.Parameters[k] != v {
			t.Errorf("%s: parameter %s: %q, want %q", want.Name, k, got.Parameters[k], v)
		}
	}
	if want.Location != "" && !catalog.SameLocation(got.Location, want.Location) {
		t.Errorf("%s: location %s, want %s", want.Name, got.Location, want.Location)
	}
	for k, v := range want.SerDeParameters {
		if got.SerDeParameters[k] != v {
			t.Errorf("%s: SerDe parameter %s: %q, want %q", want.Name, k, got.SerDeParameters[k], v)
		}
	}
	got.Parameters, got.Location, got.SerDeParameters = want.Parameters, want.Location, want.SerDeParameters
	if len(got.Partitioned) == 0 && len(want.Partitioned) == 0 {
		got.Partitioned = want.Partitioned
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n%+v, want\n%+v", want.Name, got, want)
	}
}

// fresh makes a table anew.
func (s *suite) fresh(t *testing.T, want catalog.Table) {
	t.Helper()
	check(t, s.m.Drop(t.Context(), s.db, want.Name))
	check(t, s.m.Create(t.Context(), s.db, want))
}

func (s *suite) table(t *testing.T, location string) {
	ctx := t.Context()
	want := Sample("kinds", location)
	s.fresh(t, want)
	got, err := s.m.Table(ctx, s.db, want.Name)
	check(t, err)
	same(t, got, want)
	if err := s.m.Create(ctx, s.db, want); !errors.Is(err, catalog.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	// A metastore keeps what others wrote, and lets go what is taken out.
	want = got
	want.Parameters = maps.Clone(got.Parameters)
	want.Columns = append(slices.Clone(got.Columns), catalog.Column{Name: "more", Type: "double"})
	want.Parameters["last"] = "1"
	delete(want.Parameters, "long")
	check(t, s.m.Alter(ctx, s.db, want))
	got, err = s.m.Table(ctx, s.db, want.Name)
	check(t, err)
	same(t, got, want)
	if v, ok := got.Parameters["long"]; ok {
		t.Errorf("a parameter that was taken out is %q", v)
	}
	for range 2 {
		check(t, s.m.Drop(ctx, s.db, want.Name))
	}
	if _, err := s.m.Table(ctx, s.db, want.Name); !errors.Is(err, catalog.ErrNotExist) {
		t.Errorf("dropped: %v", err)
	}
	if err := s.m.Alter(ctx, s.db, want); !errors.Is(err, catalog.ErrNotExist) {
		t.Errorf("altered what is not there: %v", err)
	}
	if _, err := s.m.Table(ctx, "c2h_none", want.Name); !errors.Is(err, catalog.ErrNotExist) {
		t.Errorf("no database: %v", err)
	}
}

func (s *suite) view(t *testing.T) {
	want := catalog.Table{Name: "live", Query: "SELECT `_id` FROM `x`.`y` WHERE NOT COALESCE(`_deleted`, FALSE)", Columns: []catalog.Column{{Name: "_id", Type: "string"}},
		InputFormat: "org.apache.hadoop.mapred.SequenceFileInputFormat", OutputFormat: "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat", Parameters: map[string]string{"a": "b"}}
	s.fresh(t, want)
	got, err := s.m.Table(t.Context(), s.db, want.Name)
	check(t, err)
	same(t, got, want)
	want.Query, want.Columns = "SELECT `_id`, `n` FROM `x`.`y`", append(want.Columns, catalog.Column{Name: "n", Type: "bigint"})
	check(t, s.m.Alter(t.Context(), s.db, want))
	got, err = s.m.Table(t.Context(), s.db, want.Name)
	check(t, err)
	same(t, got, want)
}

// values are what partitions are called: also what means something in paths, to
// Hive, or in JSON.
func values() []string {
	return []string{"2024-01-05", "New York", "a/b=c%d", "Zürich", "__HIVE_DEFAULT_PARTITION__", `q"'\`, "%41", "[x]{y}^", "日本"}
}

func (s *suite) partitions(t *testing.T, location string) {
	ctx := t.Context()
	table := Sample("parts", location)
	s.fresh(t, table)
	all := map[string]string{}
	var list []catalog.Partition
	for i, v := range values() {
		list = append(list, catalog.Partition{Value: v, Location: fmt.Sprintf("%s/p%%20 %d", table.Location, i)})
	}
	for i := range s.many {
		list = append(list, catalog.Partition{Value: fmt.Sprintf("v%04d", i), Location: fmt.Sprintf("%s/v%d", table.Location, i)})
	}
	for _, p := range list {
		all[p.Value] = p.Location
	}
	check(t, s.m.AddPartitions(ctx, s.db, table, list[:5]))
	check(t, s.m.AddPartitions(ctx, s.db, table, list)) // some are there
	s.has(t, table, all)
	got, err := s.m.Partitions(ctx, s.db, table, append(values(), "none", "v0007")...)
	check(t, err)
	some := map[string]string{"v0007": all["v0007"]}
	for _, v := range values() {
		some[v] = all[v]
	}
	compare(t, got, some)

	for _, v := range []string{"a/b=c%d", "v0003"} {
		all[v] = table.Location + "/moved-" + strings.NewReplacer("/", "", "%", "").Replace(v)
	}
	check(t, s.m.MovePartitions(ctx, s.db, table, []catalog.Partition{{Value: "a/b=c%d", Location: all["a/b=c%d"]}, {Value: "v0003", Location: all["v0003"]}, {Value: "none", Location: "file:///none"}}))
	s.has(t, table, all)

	table.Columns = append(table.Columns, catalog.Column{Name: "more", Type: "double"})
	check(t, s.m.Alter(ctx, s.db, table))
	s.has(t, table, all)

	gone := append(values(), "none")
	for i := range min(60, s.many) {
		gone = append(gone, fmt.Sprintf("v%04d", i))
	}
	for range 2 {
		check(t, s.m.DropPartitions(ctx, s.db, table, gone))
	}
	for _, v := range gone {
		delete(all, v)
	}
	s.has(t, table, all)
	check(t, s.m.Drop(ctx, s.db, table.Name))
}

func (s *suite) has(t *testing.T, table catalog.Table, want map[string]string) {
	t.Helper()
	got, err := s.m.Partitions(t.Context(), s.db, table)
	check(t, err)
	compare(t, got, want)
}

func compare(t *testing.T, got []catalog.Partition, want map[string]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range got {
		if seen[p.Value] = true; !catalog.SameLocation(p.Location, want[p.Value]) {
			t.Errorf("partition %q: %s, want %q", p.Value, p.Location, want[p.Value])
		}
	}
	for v := range want {
		if !seen[v] {
			t.Errorf("no partition %q", v)
		}
	}
}

// twice: what one connection made meanwhile is no error for another.
func (s *suite) twice(t *testing.T, other catalog.Metastore, location string) {
	ctx := t.Context()
	table := Sample("twice", location)
	s.fresh(t, table)
	list := []catalog.Partition{{Value: "a", Location: table.Location + "/a"}, {Value: "b", Location: table.Location + "/b"}}
	check(t, other.AddPartitions(ctx, s.db, table, list[:1]))
	check(t, s.m.AddPartitions(ctx, s.db, table, list))
	check(t, other.DropPartitions(ctx, s.db, table, []string{"a"}))
	check(t, s.m.DropPartitions(ctx, s.db, table, []string{"a", "b"}))
	s.has(t, table, map[string]string{})
	check(t, other.Drop(ctx, s.db, table.Name))
	check(t, s.m.Drop(ctx, s.db, table.Name))
}
