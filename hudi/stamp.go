package hudi

import "strconv"

// Stamp is what the writer of a file gives to records that have no commit time
// of their own: the commit's instant, and a sequence number
// "<instant>_<task>_<n>" where n counts the stamped records of the file
// (docs/format/basefile.md).
type Stamp struct {
	Instant Time
	// Task tells the files of one commit apart.
	Task int
}

// AppendSeqno appends the sequence number of the n-th stamped record to dst.
func (s Stamp) AppendSeqno(dst []byte, n int64) []byte {
	dst = append(dst, s.Instant...)
	dst = append(dst, '_')
	dst = strconv.AppendInt(dst, int64(s.Task), 10)
	dst = append(dst, '_')
	return strconv.AppendInt(dst, n, 10)
}
