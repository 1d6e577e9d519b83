// Package logfile reads and writes Hudi's log files: blocks of rows, of
// deletes, and of commands, one after another (docs/format/logfile.md). It
// knows readers and writers, no files.
package logfile

import (
	"errors"
	"strconv"
)

var (
	// ErrCorrupt marks a block whose frame is sound and whose content is not.
	ErrCorrupt = errors.New("corrupt log block")
	// ErrUnsupported marks a block of a kind or version that is not read here.
	ErrUnsupported = errors.New("unsupported log block")
	// ErrOrder marks an ordering value that is no integer.
	ErrOrder = errors.New("ordering value is no integer")
	// ErrRecord marks a record that cannot be written.
	ErrRecord = errors.New("record does not fit the log file")
)

// Type is the kind of a block: its ordinal in files.
type Type int32

// The block types. Corrupt stands for a stretch of a file that is no block; it
// is never written.
const (
	Command Type = iota
	Delete
	Corrupt
	AvroData
	HFileData
	ParquetData
	CDCData
)

var typeNames = [...]string{"command", "delete", "corrupt", "avro data", "hfile data", "parquet data", "cdc data"}

// String names the type.
func (t Type) String() string {
	if t >= 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "type " + strconv.Itoa(int(t))
}

// HeaderKey is the ordinal of an entry in a block's header.
type HeaderKey int32

// The header keys.
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

var headerNames = [...]string{"instant time", "target instant time", "schema", "command type", "compacted block times",
	"record positions", "block identifier", "is partial", "base instant of positions"}

// String names the key.
func (k HeaderKey) String() string {
	if k >= 0 && int(k) < len(headerNames) {
		return headerNames[k]
	}
	return "key " + strconv.Itoa(int(k))
}

const (
	magic = "#HUDI#"
	// Bytes of the fields of a block's frame.
	sizeBytes    = 8
	versionBytes = 4
	typeBytes    = 4
	lengthBytes  = 8
	countBytes   = 4
	trailerBytes = 8
	// prefixBytes stand before the header map, and smallestBlock is a block
	// with empty maps and content.
	prefixBytes   = len(magic) + sizeBytes + versionBytes + typeBytes
	smallestBlock = prefixBytes + countBytes + lengthBytes + countBytes + trailerBytes
	// The trailer counts the whole block but itself, the size field all that
	// is after it: they differ by the magic.
	trailerExtra = int64(len(magic))

	formatVersion  = 1
	contentVersion = 3
	// Version and count, or version and length, at the start of the content.
	contentHead = 8
)
