package hudi

import "strconv"

// Version is a table version: which timeline layout, which commit encoding and
// which slice rules hold. It is stored as hoodie.table.version.
type Version int

// Version6 is what Hudi 0.14 and 0.15 write.
const Version6 Version = 6

// String is the number as it stands in hoodie.properties.
func (v Version) String() string { return strconv.Itoa(int(v)) }
