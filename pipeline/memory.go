package pipeline

import "sync/atomic"

// What a batch costs is bounded by the memory budget: two batches are held at a
// time, one being read and one being written, and the one that is written also
// as cells. The rest of the budget is for the writers' buffers, the index and
// the collector's slack.
const (
	defaultMemory = 256 << 20
	// batchShare is the part of the budget that the documents of a batch may
	// take, cellShare the part for their cells.
	batchShare = 16
	cellShare  = 8
	// writerShare is the part that all files being written may take.
	writerShare = 4
	// rowBytes and cellBytes are what a row and each of its cells take beside
	// the document.
	rowBytes  = 512
	cellBytes = 32
	// likelyColumns is assumed of a table that has none yet.
	likelyColumns = 64
	leastRows     = 100
)

// budget bounds batches. Columns are told by the goroutine that writes and read
// by the one that reads ahead.
type budget struct {
	memory  int64
	columns atomic.Int64
}

// bytes is how large a batch may be, given what it was configured to.
func (b *budget) bytes(configured int64) int64 {
	return max(1, min(configured, b.memory/batchShare))
}

// rows is how many rows a batch may have, given what it was configured to.
func (b *budget) rows(configured int) int {
	columns := b.columns.Load()
	if columns == 0 {
		columns = likelyColumns
	}
	affordable := b.memory / cellShare / (rowBytes + cellBytes*columns)
	return min(configured, max(int(affordable), leastRows))
}
