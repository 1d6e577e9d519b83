package basefile

import (
	"io"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Codec is the compression of pages. The zero Codec is Snappy, which all
// readers have.
type Codec uint8

// The codecs.
const (
	Snappy Codec = iota
	Zstd
	Gzip
	Uncompressed
)

// WriterOptions say what is not in the records.
type WriterOptions struct {
	// Stamp is given to records that have no commit time.
	Stamp hudi.Stamp
	// FileName goes into the rows' file name column.
	FileName string
	Codec    Codec
	// RowGroupBytes bounds the data of a row group before compression; 0 means DefaultRowGroupBytes.
	RowGroupBytes int64
}

// DefaultRowGroupBytes bounds row groups.
const DefaultRowGroupBytes = 32 << 20

// Footer is what a base file says of itself.
type Footer struct {
	Rows int64
	// Bytes is the length of the file.
	Bytes int64
	// MinKey and MaxKey are the least and greatest record keys by UTF-16
	// units; both are empty when the file has no rows or does not tell.
	MinKey, MaxKey string
	// Schema is the Avro JSON of the rows, meta columns included; "" when the writer left none.
	Schema   string
	HasBloom bool
}

// Writer writes one base file.
type Writer struct{ err error }

// NewWriter makes a writer of rows of schema s. It does not close w.
func NewWriter(w io.Writer, s *hudi.Schema, o WriterOptions) (*Writer, error) { return &Writer{}, nil }

// Append takes a record, copying it: it may be reused afterwards.
func (w *Writer) Append(r *hudi.Record) error { return w.err }

// Size is about how many bytes the file would have if it were closed now.
func (w *Writer) Size() int64 { return 0 }

// Close writes what is left and the footer.
func (w *Writer) Close() (Footer, error) { return Footer{}, w.err }
