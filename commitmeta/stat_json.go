package commitmeta

import "github.com/couch2hudi/couch2hudi/hudi"

// commitJSON is HoodieCommitMetadata and HoodieReplaceCommitMetadata, which
// differ by one key. S is deltaStatJSON for reading; what is written mixes both
// kinds of stats.
type commitJSON[S any] struct {
	Stats     map[string][]S           `json:"partitionToWriteStats"`
	Compacted bool                     `json:"compacted"`
	Extra     map[string]*string       `json:"extraMetadata"`
	Operation string                   `json:"operationType"`
	Replaced  map[string][]hudi.FileID `json:"partitionToReplaceFileIds,omitempty"`
}

// statJSON is HoodieWriteStat.
// Fields of the type any are always null in what we write.
type statJSON struct {
	FileID            hudi.FileID      `json:"fileId"`
	Path              string           `json:"path"`
	CDC               map[string]int64 `json:"cdcStats"`
	PrevCommit        string           `json:"prevCommit"`
	Writes            int64            `json:"numWrites"`
	Deletes           int64            `json:"numDeletes"`
	UpdateWrites      int64            `json:"numUpdateWrites"`
	Inserts           int64            `json:"numInserts"`
	TotalWriteBytes   int64            `json:"totalWriteBytes"`
	TotalWriteErrors  int64            `json:"totalWriteErrors"`
	TempPath          any              `json:"tempPath"`
	Partition         *string          `json:"partitionPath"`
	LogRecords        int64            `json:"totalLogRecords"`
	LogFilesCompacted int64            `json:"totalLogFilesCompacted"`
	LogSizeCompacted  int64            `json:"totalLogSizeCompacted"`
	UpdatedCompacted  int64            `json:"totalUpdatedRecordsCompacted"`
	LogBlocks         int64            `json:"totalLogBlocks"`
	CorruptLogBlocks  int64            `json:"totalCorruptLogBlock"`
	RollbackBlocks    int64            `json:"totalRollbackBlocks"`
	FileSize          int64            `json:"fileSizeInBytes"`
	MinEventTime      any              `json:"minEventTime"`
	MaxEventTime      any              `json:"maxEventTime"`
	RuntimeStats      any              `json:"runtimeStats"`
}

// deltaStatJSON is HoodieDeltaWriteStat, of a log file. Readers tell the two
// kinds apart by the presence of the further keys.
type deltaStatJSON struct {
	statJSON
	LogVersion   *int     `json:"logVersion"`
	LogOffset    int64    `json:"logOffset"`
	BaseFile     string   `json:"baseFile"`
	LogFiles     []string `json:"logFiles"`
	RecordsStats any      `json:"recordsStats"`
}

// noCommit is how Hudi writes "no previous commit": the text, not a JSON null.
const noCommit = "null"

// makeStat is a statJSON or, for a log file, a deltaStatJSON.
func makeStat(partition string, s *WriteStat) any {
	j := statJSON{
		FileID:            s.File,
		Path:              s.Path,
		CDC:               s.CDC,
		PrevCommit:        string(s.PrevCommit),
		Writes:            s.Writes,
		Deletes:           s.Deletes,
		UpdateWrites:      s.Updates,
		Inserts:           s.Inserts,
		TotalWriteBytes:   s.Bytes,
		Partition:         &partition,
		LogRecords:        s.Compaction.LogRecords,
		LogFilesCompacted: s.Compaction.LogFiles,
		LogSizeCompacted:  s.Compaction.LogBytes,
		UpdatedCompacted:  s.Compaction.Updated,
		LogBlocks:         s.Compaction.LogBlocks,
		CorruptLogBlocks:  s.Compaction.CorruptBlocks,
		RollbackBlocks:    s.Compaction.RollbackBlocks,
		FileSize:          s.Bytes,
	}
	if s.PrevCommit == "" {
		j.PrevCommit = noCommit
	}
	if s.Log == nil {
		return j
	}
	files := s.Log.LogFiles
	if files == nil {
		files = []string{}
	}
	return deltaStatJSON{statJSON: j, LogVersion: &s.Log.Version, LogOffset: s.Log.Offset,
		BaseFile: s.Log.BaseFile, LogFiles: files, RecordsStats: map[string]any{"val": nil}}
}

func (j *deltaStatJSON) stat(partition string) WriteStat {
	s := WriteStat{
		File:       j.FileID,
		Path:       j.Path,
		Partition:  partition,
		PrevCommit: hudi.Time(j.PrevCommit),
		Writes:     j.Writes,
		Deletes:    j.Deletes,
		Updates:    j.UpdateWrites,
		Inserts:    j.Inserts,
		Bytes:      j.FileSize,
		CDC:        j.CDC,
		Compaction: CompactionStat{
			LogRecords: j.LogRecords, LogFiles: j.LogFilesCompacted, LogBytes: j.LogSizeCompacted,
			Updated: j.UpdatedCompacted, LogBlocks: j.LogBlocks, CorruptBlocks: j.CorruptLogBlocks,
			RollbackBlocks: j.RollbackBlocks,
		},
	}
	if j.PrevCommit == noCommit {
		s.PrevCommit = ""
	}
	if j.LogVersion != nil {
		s.Log = &LogStat{Version: *j.LogVersion, Offset: j.LogOffset, BaseFile: j.BaseFile, LogFiles: j.LogFiles}
	}
	return s
}
