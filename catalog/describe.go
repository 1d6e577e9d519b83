package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// What follows the name of a table: base files alone, base and log files merged, and
// the latter without tombstones.
const (
	SuffixOptimized = "_ro"
	SuffixRealtime  = "_rt"
	SuffixLive      = "_live"
)

// Keys of a table's parameters. All but the last are Hudi's and Spark's.
const (
	paramExternal  = "EXTERNAL"
	paramLast      = "last_commit_time_sync"
	paramCompleted = "last_commit_completion_time_sync"
	paramProvider  = "spark.sql.sources.provider"
	paramSchema    = "spark.sql.sources.schema."
	paramParts     = paramSchema + "numParts"
	paramPart      = paramSchema + "part."
	paramPartCols  = paramSchema + "numPartCols"
	paramPartCol   = paramSchema + "partCol."
	// paramOurs says that this program has synced the whole of a table, and which.
	paramOurs = "couch2hudi.table"

	provider = "hudi"
	// partLength is how much of Spark's schema one parameter holds; the column of a
	// metastore's database that holds it is 4,000 characters wide.
	partLength = 4000
)

// Java classes of Hudi and Hive that read the files.
const (
	inputOptimized = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
	inputRealtime  = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
	outputFormat   = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
	serDe          = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
	// inputView and outputView are what Hive gives a view.
	inputView  = "org.apache.hadoop.mapred.SequenceFileInputFormat"
	outputView = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
)

// State is what a metastore has to know of a table at one moment.
type State struct {
	// Database and Name are the metastore's for it.
	Database, Name string
	// Location is the table's address as engines write it (file:///data/docs,
	// s3a://bucket/docs), without a slash at its end.
	Location     string
	Schema       *hudi.Schema
	Partitioning hudi.Partitioning
	// Operation says that the files have hudi.MetaOperation, too.
	Operation bool
}

// Describe is what a metastore must say of a table: NAME_ro, NAME_rt and NAME, which
// is as NAME_rt, all as Hudi 0.15's HiveSyncTool has them, and NAME_live, a view of
// NAME_rt without tombstones, if rows say which are.
func Describe(s State) ([]Table, error) {
	columns, fields, err := describeColumns(s)
	if err != nil {
		return nil, err
	}
	var partitioned []Column
	if field := s.Partitioning.Field; field != "" {
		at := slices.IndexFunc(columns, func(c Column) bool { return c.Name == strings.ToLower(field) })
		if at < 0 { // folders that no column repeats
			columns, fields = append(columns, Column{Name: strings.ToLower(field), Type: "string"}), append(fields, sparkField{Name: field, Type: "string", Nullable: true})
			at = len(columns) - 1
		}
		partitioned = []Column{columns[at]}
		last := fields[at]
		columns, fields = slices.Delete(columns, at, at+1), append(slices.Delete(fields, at, at+1), last)
	}
	parameters, err := sparkParameters(fields, s.Partitioning.Field)
	if err != nil {
		return nil, err
	}
	parameters[paramExternal], parameters[paramOurs] = "TRUE", s.Location
	one := func(suffix, input string, optimized bool) Table {
		return Table{Name: s.Name + suffix, Columns: columns, Partitioned: partitioned, Location: s.Location,
			InputFormat: input, OutputFormat: outputFormat, SerDe: serDe, Parameters: maps.Clone(parameters),
			SerDeParameters: map[string]string{"hoodie.query.as.ro.table": strconv.FormatBool(optimized), "path": s.Location, "serialization.format": "1"}}
	}
	all := []Table{one(SuffixOptimized, inputOptimized, true), one(SuffixRealtime, inputRealtime, false), one("", inputRealtime, false)}
	if _, ok := s.Schema.Lookup(hudi.ColumnDeleted); ok {
		all = append(all, describeLive(s, append(slices.Clone(columns), partitioned...)))
	}
	return all, nil
}

// describeColumns are Hudi's columns and the table's, for Hive and for Spark.
func describeColumns(s State) (columns []Column, fields []sparkField, err error) {
	add := func(name string, n names, null bool) {
		columns = append(columns, Column{Name: strings.ToLower(name), Type: n.hive})
		fields = append(fields, sparkField{Name: name, Type: n.spark, Nullable: null})
	}
	for _, name := range hudi.MetaColumns() {
		add(name, names{"string", "string"}, true)
	}
	if s.Operation {
		add(hudi.MetaOperation, names{"string", "string"}, true)
	}
	types := typeReader{named: map[string]names{}}
	taken := map[string]string{}
	for i := range s.Schema.Columns() {
		c := &s.Schema.Columns()[i]
		if c.Name == hudi.MetaOperation && s.Operation {
			continue
		}
		lower := strings.ToLower(c.Name)
		if other, ok := taken[lower]; ok {
			return nil, nil, fmt.Errorf("%w: %s and %s differ only in case", ErrColumns, other, c.Name)
		}
		taken[lower] = c.Name
		n, err := types.column(c)
		if err != nil {
			return nil, nil, err
		}
		add(c.Name, n, !c.Required)
	}
	return columns, fields, nil
}

// sparkParameters are those by which Spark SQL knows a table of its own data sources.
func sparkParameters(fields []sparkField, partition string) (map[string]string, error) {
	schema, err := json.Marshal(sparkStruct{"struct", fields})
	if err != nil {
		return nil, err
	}
	p := map[string]string{paramProvider: provider}
	parts := 0
	for text := string(schema); text != ""; parts++ {
		n := min(partLength, len(text))
		p[paramPart+strconv.Itoa(parts)], text = text[:n], text[n:] // names of columns are ASCII
	}
	p[paramParts] = strconv.Itoa(parts)
	if partition != "" {
		p[paramPartCols], p[paramPartCol+"0"] = "1", partition
	}
	return p, nil
}

// describeLive is the view of rows that are no tombstones, in words that both Hive and
// Spark read.
func describeLive(s State, columns []Column) Table {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = quoted(c.Name)
	}
	query := "SELECT " + strings.Join(list, ", ") + " FROM " + quoted(s.Database) + "." + quoted(s.Name+SuffixRealtime) +
		" WHERE NOT COALESCE(" + quoted(hudi.ColumnDeleted) + ", FALSE)"
	return Table{Name: s.Name + SuffixLive, Query: query, Columns: columns, InputFormat: inputView, OutputFormat: outputView,
		Parameters: map[string]string{paramOurs: s.Location}}
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Folders are the partitions of folders.
func (s *State) folders(paths []string) ([]Partition, error) {
	list := make([]Partition, 0, len(paths))
	for _, path := range paths {
		value, null, err := s.Partitioning.Value(path)
		if err != nil {
			return nil, err
		}
		if null {
			value = hudi.DefaultPartition
		}
		list = append(list, Partition{Value: value, Location: s.Location + "/" + path})
	}
	return list, nil
}

// PartitionName is what metastores call a partition of a value: as its folder would be
// in Hive's style, escaped.
func PartitionName(column, value string) string {
	return hudi.PartitionPath(column, value, value == hudi.DefaultPartition)
}
