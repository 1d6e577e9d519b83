package commitmeta

import (
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// archivedStatAvro is HoodieWriteStat as Hudi 0.15 archives it. The fields from
// logOffset on are those of Hudi 1.x, which has the record on the timeline, too.
type archivedStatAvro struct {
	File           *string           `avro:"fileId"`
	Path           *string           `avro:"path"`
	PrevCommit     *string           `avro:"prevCommit"`
	Writes         *int64            `avro:"numWrites"`
	Deletes        *int64            `avro:"numDeletes"`
	Updates        *int64            `avro:"numUpdateWrites"`
	WriteBytes     *int64            `avro:"totalWriteBytes"`
	WriteErrors    *int64            `avro:"totalWriteErrors"`
	Partition      *string           `avro:"partitionPath"`
	LogRecords     *int64            `avro:"totalLogRecords"`
	LogFiles       *int64            `avro:"totalLogFiles"`
	Updated        *int64            `avro:"totalUpdatedRecordsCompacted"`
	Inserts        *int64            `avro:"numInserts"`
	LogBlocks      *int64            `avro:"totalLogBlocks"`
	CorruptBlocks  *int64            `avro:"totalCorruptLogBlock"`
	RollbackBlocks *int64            `avro:"totalRollbackBlocks"`
	Bytes          *int64            `avro:"fileSizeInBytes"`
	LogOffset      *int64            `avro:"logOffset"`
	BaseFile       *string           `avro:"baseFile"`
	Logs           *[]string         `avro:"logFiles"`
	CDC            *map[string]int64 `avro:"cdcStats"`
	MergedFiles    *int64            `avro:"totalLogFilesCompacted"`
	MergedBytes    *int64            `avro:"totalLogSizeCompacted"`
}

type archivedCommitAvro struct {
	Stats     *map[string][]archivedStatAvro `avro:"partitionToWriteStats"`
	Extra     *map[string]string             `avro:"extraMetadata"`
	Version   *int32                         `avro:"version"`
	Operation *string                        `avro:"operationType"`
}

type archivedReplaceAvro struct {
	Stats     *map[string][]archivedStatAvro `avro:"partitionToWriteStats"`
	Extra     *map[string]string             `avro:"extraMetadata"`
	Version   *int32                         `avro:"version"`
	Operation *string                        `avro:"operationType"`
	Groups    *map[string][]string           `avro:"partitionToReplaceFileIds"`
	Compacted *bool                          `avro:"compacted"`
}

const (
	// rollingStat is a key that Hudi puts, with an empty value, into the extra
	// metadata of whatever it archives.
	rollingStat = "ROLLING_STAT"
	// operationUnknown stands for an operation that is not said.
	operationUnknown = "UNKNOWN"
	// The operations of commits whose compacted is true, which is not archived.
	operationCompact    = "COMPACT"
	operationLogCompact = "LOG_COMPACT"
)

func archiveBody(b *Body) *archivedCommitAvro {
	stats := make(map[string][]archivedStatAvro, len(b.Stats))
	for partition, l := range b.Stats {
		out := make([]archivedStatAvro, len(l))
		for i := range l {
			out[i] = archiveStat(partition, &l[i])
		}
		stats[partition] = out
	}
	operation := b.Operation
	if operation == "" {
		operation = operationUnknown
	}
	return &archivedCommitAvro{Stats: &stats, Extra: ptr(filled(b.Extra)), Operation: &operation}
}

func archiveStat(partition string, s *WriteStat) archivedStatAvro {
	prev := string(s.PrevCommit)
	if prev == "" {
		prev = noCommit
	}
	c := s.Compaction
	return archivedStatAvro{File: ptr(string(s.File)), Path: orNull(s.Path), PrevCommit: &prev, Writes: ptr(s.Writes), Deletes: ptr(s.Deletes),
		Updates: ptr(s.Updates), WriteBytes: ptr(s.Bytes), WriteErrors: new(int64), Partition: &partition, LogRecords: ptr(c.LogRecords),
		LogFiles: orNull(c.LogFiles), Updated: ptr(c.Updated), Inserts: ptr(s.Inserts), LogBlocks: ptr(c.LogBlocks),
		CorruptBlocks: ptr(c.CorruptBlocks), RollbackBlocks: ptr(c.RollbackBlocks), Bytes: ptr(s.Bytes)}
}

func (a *archivedCommitAvro) body() *Body {
	b := &Body{Operation: text(a.Operation), Extra: some(a.Extra)}
	b.Compacted = b.Operation == operationCompact || b.Operation == operationLogCompact
	if b.Extra[rollingStat] == "" {
		delete(b.Extra, rollingStat)
	}
	if len(b.Extra) == 0 {
		b.Extra = nil
	}
	for partition, l := range orZero(a.Stats) {
		out := make([]WriteStat, len(l))
		for i := range l {
			out[i] = l[i].stat(partition)
		}
		put(&b.Stats, partition, out)
	}
	return b
}

func (a *archivedReplaceAvro) body() *Body {
	b := (&archivedCommitAvro{Stats: a.Stats, Extra: a.Extra, Operation: a.Operation}).body()
	for partition, l := range orZero(a.Groups) {
		groups := make([]hudi.FileID, len(l))
		for i := range l {
			groups[i] = hudi.FileID(l[i])
		}
		put(&b.Replaced, partition, groups)
	}
	b.Compacted = b.Compacted || orZero(a.Compacted)
	return b
}

func (a *archivedStatAvro) stat(partition string) WriteStat {
	s := WriteStat{File: hudi.FileID(text(a.File)), Path: text(a.Path), Partition: partition, PrevCommit: hudi.Time(text(a.PrevCommit)),
		Writes: orZero(a.Writes), Deletes: orZero(a.Deletes), Updates: orZero(a.Updates), Inserts: orZero(a.Inserts), Bytes: orZero(a.Bytes), CDC: some(a.CDC),
		Compaction: CompactionStat{LogRecords: orZero(a.LogRecords), LogFiles: orZero(a.LogFiles), Updated: orZero(a.Updated),
			LogBlocks: orZero(a.LogBlocks), CorruptBlocks: orZero(a.CorruptBlocks), RollbackBlocks: orZero(a.RollbackBlocks)}}
	if s.PrevCommit == noCommit {
		s.PrevCommit = ""
	}
	if a.MergedFiles != nil {
		s.Compaction.LogFiles = *a.MergedFiles
	}
	s.Compaction.LogBytes = orZero(a.MergedBytes)
	// The name says that it is a log file where the stat does not.
	if n, err := hudi.ParseLogFileName(s.Path[strings.LastIndexByte(s.Path, '/')+1:]); err == nil {
		s.Log = &LogStat{Version: n.Version, Offset: orZero(a.LogOffset), BaseFile: text(a.BaseFile), LogFiles: list(a.Logs)}
	}
	return s
}
