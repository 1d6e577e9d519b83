package hms

import (
	"strings"

	"github.com/beltran/gohive/hive_metastore"

	"github.com/couch2hudi/couch2hudi/catalog"
)

// Kinds of tables in a metastore.
const (
	kindExternal = "EXTERNAL_TABLE"
	kindManaged  = "MANAGED_TABLE"
	kindView     = "VIRTUAL_VIEW"
)

// descriptor says how the files of a table, or of a partition of it, are read.
func descriptor(t *catalog.Table) *hive_metastore.StorageDescriptor {
	d := hive_metastore.NewStorageDescriptor()
	d.Cols, d.InputFormat, d.OutputFormat = schemas(t.Columns), t.InputFormat, t.OutputFormat
	d.BucketCols, d.SortCols, d.Parameters = []string{}, []*hive_metastore.Order{}, map[string]string{}
	d.SerdeInfo = hive_metastore.NewSerDeInfo()
	d.SerdeInfo.SerializationLib, d.SerdeInfo.Parameters = t.SerDe, t.SerDeParameters
	if d.SerdeInfo.Parameters == nil {
		d.SerdeInfo.Parameters = map[string]string{}
	}
	return d
}

// fill is what is not in the descriptor.
func fill(n *hive_metastore.Table, t *catalog.Table) {
	n.Parameters, n.PartitionKeys, n.TableType = t.Parameters, schemas(t.Partitioned), kindExternal
	if t.Query != "" {
		n.TableType, n.ViewOriginalText, n.ViewExpandedText = kindView, t.Query, t.Query
	}
}

func schemas(columns []catalog.Column) []*hive_metastore.FieldSchema {
	list := make([]*hive_metastore.FieldSchema, len(columns))
	for i, c := range columns {
		list[i] = &hive_metastore.FieldSchema{Name: c.Name, Type: c.Type, Comment: c.Comment}
	}
	return list
}

func columns(schemas []*hive_metastore.FieldSchema) []catalog.Column {
	list := make([]catalog.Column, len(schemas))
	for i, s := range schemas {
		list[i] = catalog.Column{Name: strings.ToLower(s.Name), Type: s.Type, Comment: s.Comment}
	}
	return list
}

// tableOf is a table as catalog sees it.
func tableOf(t *hive_metastore.Table) catalog.Table {
	n := catalog.Table{Name: t.TableName, Columns: columns(t.Sd.Cols), Partitioned: columns(t.PartitionKeys), Location: t.Sd.Location,
		InputFormat: t.Sd.InputFormat, OutputFormat: t.Sd.OutputFormat, Parameters: t.Parameters, Managed: t.TableType == kindManaged}
	if t.Sd.SerdeInfo != nil {
		n.SerDe, n.SerDeParameters = t.Sd.SerdeInfo.SerializationLib, t.Sd.SerdeInfo.Parameters
	}
	if t.TableType == kindView {
		n.Query = t.ViewExpandedText
	}
	return n
}
