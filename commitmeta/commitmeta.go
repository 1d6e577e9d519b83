// Package commitmeta says what an instant says: the write stats, the schema
// and the position of the source that travels with the rows. It encodes the
// files of the timeline (JSON for commits of table version 6, Avro for plans).
package commitmeta

import "github.com/couch2hudi/couch2hudi/hudi"

// Keys of extraMetadata.
const (
	// ExtraSchema holds the table's schema as Avro JSON without meta columns.
	ExtraSchema = "schema"
	// ExtraLastSeq holds the last_seq as CouchDB gave it.
	ExtraLastSeq = "last_seq"
	// ExtraCheckpoint holds the Checkpoint as JSON.
	ExtraCheckpoint = "couch2hudi.checkpoint"
	// ExtraOrdering and ExtraLayout hold what the table pins.
	ExtraOrdering = "couch2hudi.ordering"
	ExtraLayout   = "couch2hudi.layout"
	// ExtraLine holds where the table stands among those of its group, as JSON.
	ExtraLine = "couch2hudi.line"
	// ExtraSource holds, in a table of several databases, the name of the one that
	// ExtraLastSeq is of: the last of those that the commit has changes of.
	ExtraSource = "couch2hudi.source"
	// ExtraReplay holds where a backfill stands, as JSON.
	ExtraReplay = "couch2hudi.replay"
	// ExtraFilter holds the filter through which documents came, as JSON.
	ExtraFilter = "couch2hudi.filter"
	// ExtraStats holds the Stats of a batch as JSON.
	ExtraStats = "couch2hudi.stats"
	// ExtraMasks holds the masks that no column tells of, a JSON object from path
	// to mask.
	ExtraMasks = "couch2hudi.masks"
)

// Body is the content of a completed commit, deltacommit or replacecommit.
type Body struct {
	// Stats are the write stats, one a file written, by partition path ("" for
	// a table without partitions).
	Stats map[string][]WriteStat
	// Compacted says that the commit is a compaction.
	Compacted bool
	// Extra is extraMetadata.
	Extra map[string]string
	// Operation is operationType, such as "UPSERT" or "COMPACT".
	Operation string
	// Replaced are the file groups that a replacecommit replaced, by partition.
	Replaced map[string][]hudi.FileID
}

// WriteStat is what a commit says of one file that it wrote. Counts are rows,
// sizes bytes.
type WriteStat struct {
	File      hudi.FileID
	Path      string // relative to the table, "/"-separated
	Partition string
	// PrevCommit is the replaced base file's instant, for a log file the base
	// instant of its slice, and empty for a new file group (written "null").
	PrevCommit hudi.Time
	Writes     int64
	Deletes    int64
	Updates    int64
	Inserts    int64
	Bytes      int64
	// Log is set for log files.
	Log *LogStat
	// CDC are the change files of a rewritten base file: path to bytes.
	CDC map[string]int64
	// Compaction counts are set by compactions alone.
	Compaction CompactionStat
}

// LogStat is the part of a WriteStat that only log files have.
type LogStat struct {
	Version int
	Offset  int64
	// BaseFile is the name of the slice's base file, "" if there is none.
	BaseFile string
	// LogFiles are the names of the slice's log files, the new one included.
	LogFiles []string
}

// CompactionStat counts what a compaction merged.
type CompactionStat struct {
	LogRecords, LogFiles, LogBytes, Updated, LogBlocks, CorruptBlocks, RollbackBlocks int64
}

// Checkpoint is the position of every source that feeds the table. It is the
// only store of progress there is.
type Checkpoint struct {
	Version int               `json:"v"`
	Sources map[string]Source `json:"sources"`
}

// Source is where one source is to go on. Kind says under which key its Name
// stands: db, topic or folder.
type Source struct {
	Kind        string
	Name        string
	Incarnation string
	Epoch       int64
	PurgeSeq    string
	// Sweep says that rows of earlier epochs may still have to be marked as
	// deleted.
	Sweep bool
	// Seq is the database's sequence: of KindCouchDB the place to go on, of
	// others what a person looks for.
	Seq string
	// At is where to go on in a source of another kind than KindCouchDB: the text
	// of a JSON object whose keys stand beside those above. Of a KindCouchDB entry
	// it holds the keys that this release does not know. Empty for none.
	At string
}

// Kinds of Source, by which its name and its position are written.
const (
	KindCouchDB = "couchdb"
	KindKafka   = "kafka"
	KindNDJSON  = "ndjson"
)

// Stats counts what became of the rows of a batch.
type Stats struct {
	Rows        int64 `json:"rows"`
	Collapsed   int64 `json:"collapsed"`
	Replayed    int64 `json:"replayed"`
	Quarantined int64 `json:"quarantined"`
	Upserts     int64 `json:"upserts"`
	Inserts     int64 `json:"inserts"`
	Deletes     int64 `json:"deletes"`
	Moved       int64 `json:"moved"`
	Rescued     int64 `json:"rescued"`
	Unplaced    int64 `json:"default_partition"`
	// Retried counts quarantined changes that a retry settled.
	Retried int64 `json:"retried,omitempty"`
	// Elsewhere counts changes of documents that are not for the table and that it
	// did not hold, Left those that it held and deleted.
	Elsewhere int64 `json:"elsewhere,omitempty"`
	Left      int64 `json:"left,omitempty"`
	// Purged counts documents that were read again because a purge named them.
	Purged int64 `json:"purged,omitempty"`
}
