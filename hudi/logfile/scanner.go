// Package logfile reads and writes Hudi's log files (docs/format/logfile.md).
package logfile

import (
	"io"
	"iter"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Type is the kind of a block.
type Type int32

// The block types, with their ordinals in files. Corrupt is never written.
const (
	Command Type = iota
	Delete
	Corrupt
	AvroData
	HFileData
	ParquetData
	CDCData
)

// HeaderKey is the ordinal of a header entry.
type HeaderKey int32

// Header keys.
const (
	InstantTime HeaderKey = iota
	TargetInstantTime
	SchemaText
	CommandType
	CompactedBlockTimes
	RecordPositions
	BlockIdentifier
	IsPartial
	PositionsBaseInstant
)

// Scanner reads the blocks of a log file in order.
type Scanner struct{}

// NewScanner makes a scanner of a file of that many bytes.
func NewScanner(r io.ReaderAt, size int64) *Scanner { return &Scanner{} }

// Next is the next block, io.EOF after the last.
func (s *Scanner) Next() (*Block, error) { return nil, io.EOF }

// Block is one block of a log file.
type Block struct {
	Type Type
	// Instant wrote the block; Target is the one that a command block rolls back.
	Instant, Target hudi.Time
	// Schema is the Avro JSON of the block's rows, meta columns included.
	Schema string
	Header map[HeaderKey]string
	// Offset and Length are the place of the whole block in the file.
	Offset, Length int64
	// ContentOffset and ContentLength are the place of its content.
	ContentOffset, ContentLength int64
}

// Records are the block's rows, resolved onto target, and its deletes.
func (b *Block) Records(target *hudi.Schema, orderColumn string) iter.Seq2[*hudi.Record, error] {
	return func(func(*hudi.Record, error) bool) {}
}
