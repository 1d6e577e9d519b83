package hudi

import "strings"

// Key names one record: the record key (the raw _id with the simple key
// generator) and the partition path as in the folder's name ("" for a table
// without partitions).
type Key struct{ Record, Partition string }

// FileID names a file group: a UUID and a counter, "…-0".
type FileID string

// Location is a file group of a partition. An empty File means that the record
// has no place yet.
type Location struct {
	Partition string
	File      FileID
}

// Record is one version of a row, or a hard delete of one. A tombstone is a
// row like any other as far as Hudi is concerned.
type Record struct {
	Key Key
	// Order is the ordering value: what decides between two versions of a key.
	Order int64
	// Delete says that this is a hard delete: Row is nil, or, of those that
	// reader.Slice yields, what the delete hides.
	Delete bool
	// Natural says that a delete has no ordering value (Hudi's own int 0): it
	// wins over all before it. We never write one, others do.
	Natural bool
	// AnyPartition says that the record does not know its partition: it
	// belongs where its key lives, or to Key.Partition when it lives nowhere.
	AnyPartition bool
	// NewEra says that the record may be older by its sum than what is stored
	// and must win all the same, in a new era: a purge named its document.
	NewEra bool
	// OnlyHeld says that the record, a tombstone or a hard delete, is for a table
	// that holds a live row of the key: another one has no use for it.
	OnlyHeld bool
	// CommitTime, CommitSeqno are Hudi's meta columns of a stored record;
	// empty for an incoming one, which gets its commit's.
	CommitTime  Time
	CommitSeqno string
	// Row holds the data columns.
	Row Row
}

// Size is about how many bytes the record holds, for memory budgets.
func (r *Record) Size() int {
	const fixed = 160
	n := fixed + len(r.Key.Record)
	for i := range r.Row {
		n += r.Row[i].Size()
	}
	return n
}

// Merge decides between two versions of one key by Hudi's event-time ordering:
// a natural delete on either side lets the later arrival win, otherwise the
// incoming version wins unless its ordering value is lower. It is the one
// place that decides who wins.
func Merge(stored, incoming Record) Record {
	if IncomingWins(&stored, &incoming) {
		return incoming
	}
	return stored
}

// IncomingWins is Merge's decision without moving the records.
func IncomingWins(stored, incoming *Record) bool {
	if stored.Natural || incoming.Natural {
		return true
	}
	return incoming.Order >= stored.Order
}

// Stored is what an index knows of a key in the table. A key that is not Found
// may still have a Location and an Order: those of the hard delete that hides
// it, until compaction forgets it. An Order alone is that of a hard delete that
// an index remembers beyond that.
type Stored struct {
	Found bool
	Location
	// Order and Rev are the stored version's ordering value and revision; of a
	// key that is not Found, Rev is the hidden version's.
	Order int64
	Rev   string
	// Natural says that the delete that hides the key has no ordering value:
	// Order is the hidden version's, below which no row would win in the place.
	Natural bool
	// Deleted says that the stored version is a tombstone.
	Deleted bool
	// Others are further file groups that hold the key, in older versions:
	// another writer, or a fault, left them there.
	Others []Location
	// Hidden are further places where a hard delete hides the key, in base
	// files that other engines' indexes find: the key must return there and
	// nowhere else in the partition.
	Hidden []Hidden
}

// Hidden is a place where a hard delete hides a key, and the ordering value that
// a row needs there to be seen again.
type Hidden struct {
	Location
	Order int64
}

// Located is a record with its place: a known file group for an update or a
// delete, or an empty File for an insert into Location.Partition.
type Located struct {
	Record
	Location
}

// EraShift is the number of bits that a sum of leaf generations may take in an
// ordering value; the era stands above them.
const EraShift = 40

// Order is the ordering value of a state: the era, and below it the sum of the
// generations of all leaf revisions.
func Order(era, sum int64) int64 { return era<<EraShift + sum }

// Era is the era of an ordering value.
func Era(order int64) int64 { return order >> EraShift }

// Clone is a copy that shares no memory with r: records that readers yield are
// valid only until the next one.
func (r *Record) Clone() Record {
	c := *r
	c.Key.Record = strings.Clone(r.Key.Record)
	c.Key.Partition = strings.Clone(r.Key.Partition)
	c.CommitTime = Time(strings.Clone(string(r.CommitTime)))
	c.CommitSeqno = strings.Clone(r.CommitSeqno)
	if r.Row != nil {
		c.Row = make(Row, len(r.Row))
		for i, v := range r.Row {
			v.text = strings.Clone(v.text)
			c.Row[i] = v
		}
	}
	return c
}
