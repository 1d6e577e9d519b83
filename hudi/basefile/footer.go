package basefile

import "errors"

var (
	// ErrFormat marks bytes that are no base file.
	ErrFormat = errors.New("not a base file")
	// ErrUnsupported marks a column that is of a kind that is not read or written here.
	ErrUnsupported = errors.New("unsupported column")
	// ErrRecord marks a record that cannot be written.
	ErrRecord = errors.New("record does not fit the base file")
)

// Keys of the footer's key-values (docs/format/basefile.md).
const (
	keyBloom     = "org.apache.hudi.bloomfilter"
	keyBloomOld  = "com.uber.hoodie.bloomfilter"
	keyBloomCode = "hoodie_bloom_filter_type_code"
	keyMin       = "hoodie_min_record_key"
	keyMax       = "hoodie_max_record_key"
	keySchema    = "parquet.avro.schema"
)

// Footer is what a base file says of itself.
type Footer struct {
	Rows int64
	// Bytes is the length of the file.
	Bytes int64
	// MinKey and MaxKey are the least and greatest record keys, by UTF-16
	// units. Both are empty when the file has no rows or does not say.
	MinKey, MaxKey string
	// Schema is the Avro JSON of the rows, meta columns included; empty in
	// files that Spark's own writer made.
	Schema   string
	HasBloom bool
}
