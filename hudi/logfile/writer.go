package logfile

import (
	"io"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// DefaultBlockBytes bounds the content of one block.
const DefaultBlockBytes = 16 << 20

// WriterOptions say what is not in the records.
type WriterOptions struct {
	// Stamp is given to records that have no commit time.
	Stamp hudi.Stamp
	// File is the file group; rows carry it in their file name column.
	File hudi.FileID
	// BlockBytes bounds the content of one block, and so the memory of the
	// writer; 0 means DefaultBlockBytes.
	BlockBytes int
}

// Stats count what a Writer wrote. Bytes is the length of the file.
type Stats struct {
	Bytes, Writes, Deletes int64
}

// Writer writes one log file of one commit.
type Writer struct{ err error }

// NewWriter makes a writer of rows of schema s. It does not close w.
func NewWriter(w io.Writer, s *hudi.Schema, o WriterOptions) (*Writer, error) {
	return &Writer{}, nil
}

// Append takes a record, encoding it at once: it may be reused afterwards.
func (w *Writer) Append(r *hudi.Record) error { return w.err }

// Close writes what is left.
func (w *Writer) Close() (Stats, error) { return Stats{}, w.err }
