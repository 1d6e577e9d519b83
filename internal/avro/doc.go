// Package avro is the one door to the Avro library. It parses schemas without
// sharing names between them, reads and writes the one-record container files
// of the timeline, and walks the binary encoding of composite columns: to copy
// them from one schema to another, to skip them, to show them as JSON.
//
// The hot path (flat rows) has no library in it: it uses the varint functions
// here and the type tree, nothing else.
package avro

import "errors"

var (
	// ErrSchema marks a schema that cannot be used, or two that do not fit.
	ErrSchema = errors.New("bad avro schema")
	// ErrData marks bytes that are not a datum of their schema.
	ErrData = errors.New("bad avro data")
)
