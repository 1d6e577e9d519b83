package logfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// DatumWriter writes data blocks of rows that are encoded already and belong to
// no table, as archives are made of. The blocks' only header is their schema.
// After an error it must not be used further.
type DatumWriter struct {
	w      io.Writer
	schema string
	limit  int
	data   []byte
	count  int64
	err    error
}

// NewDatumWriter makes a writer of datums of a schema in Avro JSON. A block is
// closed at blockBytes, which is what the writer holds in memory; 0 means
// DefaultBlockBytes. It does not close w.
func NewDatumWriter(w io.Writer, schema string, blockBytes int) *DatumWriter {
	if blockBytes <= 0 {
		blockBytes = DefaultBlockBytes
	}
	return &DatumWriter{w: w, schema: schema, limit: blockBytes, data: make([]byte, contentHead)}
}

// Append takes a datum, which may be reused afterwards.
func (w *DatumWriter) Append(datum []byte) error {
	if w.err != nil {
		return w.err
	}
	if len(datum) > math.MaxInt32 {
		return fmt.Errorf("%w: a row of %d bytes", ErrRecord, len(datum))
	}
	w.data = binary.BigEndian.AppendUint32(w.data, uint32(len(datum)))
	w.data = append(w.data, datum...)
	w.count++
	if len(w.data) >= w.limit {
		w.err = w.flush()
	}
	return w.err
}

// Close writes what is left. A second Close returns an error.
func (w *DatumWriter) Close() error {
	if w.err != nil {
		return w.err
	}
	if err := w.flush(); err != nil {
		w.err = err
		return err
	}
	w.err = errClosed
	return nil
}

func (w *DatumWriter) flush() error {
	if w.count == 0 {
		return nil
	}
	if w.count > math.MaxInt32 {
		return fmt.Errorf("%w: %d rows in a block", ErrRecord, w.count)
	}
	binary.BigEndian.PutUint32(w.data, contentVersion)
	binary.BigEndian.PutUint32(w.data[4:], uint32(w.count))
	head, tail := frame(nil, AvroData, len(w.data), headerEntry{SchemaText, w.schema})
	for _, part := range [][]byte{head, w.data, tail[:]} {
		if _, err := w.w.Write(part); err != nil {
			return fmt.Errorf("write log block: %w", err)
		}
	}
	w.data, w.count = w.data[:contentHead], 0
	return nil
}
