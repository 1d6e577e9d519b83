package main

import (
	"encoding/json"
	"strings"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// engine is how well an engine reads tables of version 6.
type engine struct {
	name, reads string
	// next is what to do about what it does not read; empty when it reads all.
	next string
}

// engines are what was seen with real engines on tables like ours.
func engines() []engine {
	return []engine{
		{"Spark 3.5 with Hudi 0.15.0", "everything", ""},
		{"Spark 3.5 with Hudi 1.2.0", "everything, while the timeline's files keep their times", ""},
		{"Flink 1.17 with Hudi 0.14.0", "batch, incremental, streaming", ""},
		{"Hive with Hudi 0.15.0 or 1.0.2", "read-optimized, real-time, incremental", ""},
		{"hudi-rs 0.5.0", "everything, unless a compaction is pending", ""},
		{"Flink 1.20 with Hudi 1.2.0", "snapshots only, neither incremental nor streaming", "stream with Flink 1.17 and Hudi 0.14"},
		{"Trino 476", "base files only: its _rt table shows old rows without a word", "query the _ro table knowing its age, or compact often"},
	}
}

// readers says which engines read the table how well.
func (c *checker) readers(t *checkedTable) {
	compacting := false
	for _, i := range t.view.Instants() {
		compacting = compacting || i.Action == commitmeta.ActionCompaction && i.State != timeline.Completed
	}
	var full []string
	for _, e := range engines() {
		switch {
		case e.next != "":
			c.warn("reader", e.next, "%s reads of version 6: %s", e.name, e.reads)
		case compacting && strings.HasPrefix(e.name, "hudi-rs"):
			c.warn("reader", "couch2hudi compact --execute", "%s misreads the table now", e.name)
		case t.table.Changelog() && strings.HasPrefix(e.name, "hudi-rs"):
			c.warn("reader", "compact often, or read with another engine", "%s shows rows that were deleted hard or moved until they are compacted: the table has a changelog", e.name)
		default:
			full = append(full, e.name)
		}
	}
	c.ok("reader", "version 6 is read in every way by %s", strings.Join(full, "; "))
}

// composites says which columns cost which reader.
func (c *checker) composites(s *hudi.Schema) {
	costs := map[string][]string{}
	for _, column := range s.Columns() {
		if cost := columnCost(&column); cost != "" {
			costs[cost] = append(costs[cost], column.Name)
		}
	}
	for _, cost := range []string{costTimestamp, costStruct, costList, costLists, costDecimal, costOther} {
		if names := costs[cost]; len(names) > 0 {
			c.warn("table.composites", "keep to booleans, numbers and strings where these readers matter",
				"columns that are no plain values: %s; %s", few(names), cost)
		}
	}
}

const (
	costTimestamp = "Hive's real-time reader fails on timestamps in log files, and shows those of base files in milliseconds"
	costStruct    = "Flink 1.17 reads a struct whose members are all null as null; hudi-rs fails while rows of log files have fewer members than the struct has by now, until compaction"
	costList      = "Flink 1.17 reads an empty list as [null]"
	costLists     = "Flink 1.17 fails on every query of a table with lists of structs or of lists, Hive's real-time reader on an update of a row with a list of lists; hudi-rs as with structs"
	costDecimal   = "Flink fails on decimals that are stored as INT64"
	costOther     = "not every engine reads them alike"
)

// nestedCost is what a list or struct costs; one that we would not make may cost more.
func nestedCost(c *hudi.Column) string {
	switch words := normalize.TypeOf(c); {
	case words == c.Type:
		return costOther
	case strings.Contains(words, "array<array<"), strings.Contains(words, "array<struct<"):
		return costLists
	case strings.Contains(words, "array<"):
		return costList
	}
	return costStruct
}

// columnCost is what a column's type costs, "" for a plain one.
func columnCost(c *hudi.Column) string {
	if c.Type == "" && c.Kind != hudi.KindBytes && c.Kind != hudi.KindNested {
		return ""
	}
	var t struct {
		Type    any    `json:"type"`
		Logical string `json:"logicalType"`
	}
	if json.Unmarshal([]byte(c.AvroType()), &t) != nil {
		return costOther
	}
	switch {
	case strings.Contains(t.Logical, "timestamp"):
		return costTimestamp
	case t.Logical == "date", t.Logical == "decimal" && t.Type == "fixed":
		return ""
	case t.Logical == "decimal":
		return costDecimal
	case t.Type == "array" || t.Type == "record":
		return nestedCost(c)
	}
	return costOther
}
