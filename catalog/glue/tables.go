package glue

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/glue/types"

	"github.com/couch2hudi/couch2hudi/catalog"
)

// input is a table in Glue's words.
func input(t *catalog.Table) *types.TableInput {
	d := descriptor(t)
	n := &types.TableInput{Name: aws.String(t.Name), Parameters: t.Parameters, PartitionKeys: fields(t.Partitioned), StorageDescriptor: d, TableType: aws.String(kindExternal)}
	if t.Location != "" {
		d.Location = aws.String(t.Location)
	}
	if t.Query != "" {
		n.TableType, n.ViewOriginalText, n.ViewExpandedText = aws.String(kindView), aws.String(t.Query), aws.String(t.Query)
	}
	return n
}

// descriptor says how the files of a table, or of a partition of it, are read.
func descriptor(t *catalog.Table) *types.StorageDescriptor {
	d := &types.StorageDescriptor{Columns: fields(t.Columns), InputFormat: aws.String(t.InputFormat), OutputFormat: aws.String(t.OutputFormat),
		SerdeInfo: &types.SerDeInfo{Parameters: t.SerDeParameters}}
	if t.SerDe != "" {
		d.SerdeInfo.SerializationLibrary = aws.String(t.SerDe)
	}
	return d
}

func partition(t *catalog.Table, p catalog.Partition) types.PartitionInput {
	d := descriptor(t)
	d.Location = aws.String(p.Location)
	return types.PartitionInput{Values: []string{p.Value}, StorageDescriptor: d}
}

func fields(columns []catalog.Column) []types.Column {
	list := make([]types.Column, len(columns))
	for i, c := range columns {
		list[i] = types.Column{Name: aws.String(c.Name), Type: aws.String(c.Type)}
		if c.Comment != "" {
			list[i].Comment = aws.String(c.Comment)
		}
	}
	return list
}

func plain(list []types.Column) []catalog.Column {
	columns := make([]catalog.Column, len(list))
	for i, c := range list {
		columns[i] = catalog.Column{Name: strings.ToLower(aws.ToString(c.Name)), Type: aws.ToString(c.Type), Comment: aws.ToString(c.Comment)}
	}
	return columns
}

func columns(d *types.StorageDescriptor) []catalog.Column {
	if d == nil {
		return nil
	}
	return plain(d.Columns)
}

func equalColumns(a, b []catalog.Column) bool {
	return slices.EqualFunc(a, b, func(a, b catalog.Column) bool { return a.Name == b.Name && strings.EqualFold(a.Type, b.Type) })
}

// tableOf is a table as catalog sees it.
func tableOf(t *types.Table) catalog.Table {
	kind := aws.ToString(t.TableType)
	n := catalog.Table{Name: aws.ToString(t.Name), Columns: columns(t.StorageDescriptor), Partitioned: plain(t.PartitionKeys),
		Parameters: t.Parameters, Managed: kind == kindManaged}
	if d := t.StorageDescriptor; d != nil {
		n.Location, n.InputFormat, n.OutputFormat = aws.ToString(d.Location), aws.ToString(d.InputFormat), aws.ToString(d.OutputFormat)
		if d.SerdeInfo != nil {
			n.SerDe, n.SerDeParameters = aws.ToString(d.SerdeInfo.SerializationLibrary), d.SerdeInfo.Parameters
		}
	}
	if kind == kindView {
		n.Query = aws.ToString(t.ViewExpandedText)
	}
	return n
}
