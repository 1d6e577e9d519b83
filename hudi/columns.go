package hudi

// Hudi's five meta columns, first in every file, all nullable strings
// (docs/format/basefile.md).
const (
	MetaCommitTime    = "_hoodie_commit_time"
	MetaCommitSeqno   = "_hoodie_commit_seqno"
	MetaRecordKey     = "_hoodie_record_key"
	MetaPartitionPath = "_hoodie_partition_path"
	MetaFileName      = "_hoodie_file_name"
	// MetaOperation is an optional sixth one that changelog writers add.
	MetaOperation = "_hoodie_operation"
)

// What MetaOperation says of a row in the files of a table with a changelog.
const (
	RowInsert       = "I"
	RowUpdateBefore = "-U"
	RowUpdateAfter  = "U"
	RowDelete       = "D"
)

// WithOperation is the schema of the files of a table with a changelog, in which
// MetaOperation stands between Hudi's other meta columns and the data's.
func (s *Schema) WithOperation() (*Schema, error) {
	columns := make([]Column, 0, s.Len()+1)
	columns = append(append(columns, Column{Name: MetaOperation, Kind: KindString}), s.columns...)
	return MakeSchema(s.Name, s.Namespace, columns...)
}

// MetaColumns are the names of the five meta columns in file order.
func MetaColumns() [5]string {
	return [5]string{MetaCommitTime, MetaCommitSeqno, MetaRecordKey, MetaPartitionPath, MetaFileName}
}

// The envelope: columns that every table of ours has, whatever the documents.
const (
	// ColumnKey and ColumnDB are those of a table of many databases alone: its record
	// key, and the database that the row is of.
	ColumnKey         = "_key"
	ColumnDB          = "_db"
	ColumnID          = "_id"
	ColumnRev         = "_rev"
	ColumnRevOrder    = "_rev_order"
	ColumnOp          = "_op"
	ColumnDeleted     = "_deleted"
	ColumnLeaves      = "_leaves"
	ColumnAttachments = "_attachments"
	ColumnRescued     = "_rescued"
	ColumnDoc         = "_doc"
)

// DefaultPartition is the value of a folder for a null or unusable partition
// value, as Hive and Hudi name it.
const DefaultPartition = "__HIVE_DEFAULT_PARTITION__"
