package hudi

import "strconv"

// Version is a table version: which timeline layout, which commit encoding and
// which slice rules hold. It is stored as hoodie.table.version.
type Version int

// The table versions that can be read. Those between and before are not.
const (
	// Version6 is what Hudi 0.14 and 0.15 write, and we.
	Version6 Version = 6
	// Version8 and Version9 are those of Hudi 1.x. On disk they differ in
	// settings alone.
	Version8 Version = 8
	Version9 Version = 9
)

// String is the number as it stands in hoodie.properties.
func (v Version) String() string { return strconv.Itoa(int(v)) }

// Readable says whether tables of the version can be read.
func (v Version) Readable() bool { return v == Version6 || v.Completes() }

// Completes says whether instants of the version carry the time at which they
// completed, by which slices and ranges of changes then go.
func (v Version) Completes() bool { return v == Version8 || v == Version9 }
