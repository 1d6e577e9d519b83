package logfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// DefaultBlockBytes is the size at which a block is closed.
const DefaultBlockBytes = 16 << 20

// WriterOptions say what is not in the records.
type WriterOptions struct {
	// Stamp is given to records that have no commit time. Its instant is also
	// the one in the blocks' headers, and must be set.
	Stamp hudi.Stamp
	// File is the file group; rows carry it in their file name column.
	File hudi.FileID
	// BlockBytes is the size at which a block is closed and written, and so
	// what the writer holds in memory; 0 means DefaultBlockBytes.
	BlockBytes int
}

// Stats count what a Writer wrote. Bytes is the length of the file.
type Stats struct {
	Bytes, Writes, Deletes int64
}

// Writer writes one log file: the blocks of one commit for one file group.
// After an error it must not be used further; the file is then no good.
type Writer struct {
	w       io.Writer
	instant string
	schema  string
	limit   int
	rows    *rowEncoder
	// data and deletes are the contents of the blocks being filled, without
	// the end of the list of deletes.
	data, deletes           []byte
	dataCount, deletesCount int64
	stats                   Stats
	head                    []byte
	err                     error
}

// NewWriter makes a writer of rows of schema s. It does not close w.
func NewWriter(w io.Writer, s *hudi.Schema, o WriterOptions) (*Writer, error) {
	if o.Stamp.Instant == "" || o.File == "" {
		return nil, fmt.Errorf("%w: a log file needs an instant and a file group", ErrRecord)
	}
	rows, err := newRowEncoder(s, o)
	if err != nil {
		return nil, err
	}
	limit := o.BlockBytes
	if limit <= 0 {
		limit = DefaultBlockBytes
	}
	return &Writer{w: w, instant: string(o.Stamp.Instant), schema: s.AvroWithMeta(), limit: limit, rows: rows}, nil
}

// Append takes a record, a row or a delete, and encodes it at once: it may be
// reused afterwards. Rows come before deletes in the file. A record that does
// not fit gives an error that wraps ErrRecord and leaves the writer as it was.
func (w *Writer) Append(r *hudi.Record) error {
	if w.err != nil {
		return w.err
	}
	if r.Key.Record == "" {
		return fmt.Errorf("%w: empty record key", ErrRecord)
	}
	if r.Delete {
		return w.appendDelete(r)
	}
	if w.data == nil {
		w.data = make([]byte, contentHead, w.startBytes())
	}
	data, err := w.rows.append(w.data, r)
	w.data = data
	if err != nil {
		return fmt.Errorf("key %q: %w", r.Key.Record, err)
	}
	w.dataCount++
	w.stats.Writes++
	if len(w.data) >= w.limit {
		return w.fail(w.flushData())
	}
	return nil
}

// startBytes is what a block's buffer starts with: small files are common.
func (w *Writer) startBytes() int {
	const start = 64 << 10
	return min(w.limit, start) + contentHead
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// The branches of an ordering value that are written or have a meaning of
// their own when read.
const (
	orderNull = 0
	orderInt  = 2
	orderLong = 3
)

func (w *Writer) appendDelete(r *hudi.Record) error {
	if r.Natural {
		// Readers want one class of ordering value in a block, and ours is long.
		return fmt.Errorf("%w: key %q: a delete without an ordering value", ErrRecord, r.Key.Record)
	}
	d := w.deletes
	d = appendMetaText(d, r.Key.Record)
	d = appendMetaText(d, r.Key.Partition)
	d = avro.AppendLong(d, orderLong)
	w.deletes = avro.AppendLong(d, r.Order)
	w.deletesCount++
	w.stats.Deletes++
	if len(w.deletes) >= w.limit {
		return w.fail(w.flushDeletes())
	}
	return nil
}

// Close writes what is left. An empty file has no block and no bytes. A second
// Close returns an error.
func (w *Writer) Close() (Stats, error) {
	if w.err != nil {
		return w.stats, w.err
	}
	if err := w.flushData(); err != nil {
		return w.stats, w.fail(err)
	}
	if err := w.flushDeletes(); err != nil {
		return w.stats, w.fail(err)
	}
	w.err = errClosed
	return w.stats, nil
}

var errClosed = errors.New("log file writer is closed")

func (w *Writer) flushData() error {
	if w.dataCount == 0 {
		return nil
	}
	if w.dataCount > math.MaxInt32 {
		return fmt.Errorf("%w: %d rows in a block", ErrRecord, w.dataCount)
	}
	binary.BigEndian.PutUint32(w.data, contentVersion)
	binary.BigEndian.PutUint32(w.data[4:], uint32(w.dataCount))
	err := w.block(AvroData, w.data)
	w.data, w.dataCount = w.data[:contentHead], 0
	return err
}

func (w *Writer) flushDeletes() error {
	if w.deletesCount == 0 {
		return nil
	}
	count := avro.AppendLong(nil, w.deletesCount)
	payload := len(count) + len(w.deletes) + 1
	if payload > math.MaxInt32 {
		return fmt.Errorf("%w: %d bytes of deletes in a block", ErrRecord, payload)
	}
	var head [contentHead]byte
	binary.BigEndian.PutUint32(head[:], contentVersion)
	binary.BigEndian.PutUint32(head[4:], uint32(payload))
	err := w.block(Delete, append(head[:], count...), w.deletes, []byte{0})
	w.deletes, w.deletesCount = w.deletes[:0], 0
	return err
}

// block writes one block whose content is the parts together.
func (w *Writer) block(t Type, content ...[]byte) error {
	length := 0
	for _, c := range content {
		length += len(c)
	}
	head, tail := frame(w.head[:0], t, length, headerEntry{InstantTime, w.instant}, headerEntry{SchemaText, w.schema})
	w.head = head
	if err := w.write(head); err != nil {
		return err
	}
	for _, c := range content {
		if err := w.write(c); err != nil {
			return err
		}
	}
	return w.write(tail[:])
}

type headerEntry struct {
	key   HeaderKey
	value string
}

// frame is what stands before and behind a content of length bytes: the former
// appended to b, the latter with an empty map for a footer.
func frame(b []byte, t Type, length int, header ...headerEntry) (head []byte, tail [countBytes + trailerBytes]byte) {
	start := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, formatVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(t))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	for _, h := range header {
		b = appendHeader(b, h.key, h.value)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(length))
	size := uint64(len(b) - start + length + len(tail) - len(magic) - sizeBytes)
	binary.BigEndian.PutUint64(b[start+len(magic):], size)
	binary.BigEndian.PutUint64(tail[countBytes:], size+uint64(trailerExtra))
	return b, tail
}

func appendHeader(b []byte, k HeaderKey, v string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(k))
	b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
	return append(b, v...)
}

func (w *Writer) write(b []byte) error {
	n, err := w.w.Write(b)
	w.stats.Bytes += int64(n)
	if err != nil {
		return fmt.Errorf("write log block: %w", err)
	}
	return nil
}
