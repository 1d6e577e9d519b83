package commitmeta

import (
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// InstantInfo names an instant in plans.
type InstantInfo struct {
	Time   hudi.Time
	Action Action
}

// RollbackPlan is the content of a rollback's requested file: what an
// interrupted rollback, ours or another engine's, still has to do.
type RollbackPlan struct {
	Target InstantInfo
	Files  []RollbackFile
}

// RollbackFile is one file that a rollback removes. Readers of a plan find
// both the files to delete and the log files of which only blocks are to be
// undone.
type RollbackFile struct {
	Partition string
	// Path is as the plan has it: absolute, with or without a scheme, or
	// relative to the table, or (some log files) a bare name.
	Path string
	// Log says that the plan wants blocks of this log file undone, not the
	// file deleted.
	Log bool
}

// RollbackResult is the content of a completed rollback.
type RollbackResult struct {
	// Start is the rollback's own instant.
	Start hudi.Time
	// Millis is how long it took.
	Millis int64
	Target InstantInfo
	// Deleted are the paths of the files that are gone, by partition.
	Deleted map[string][]string
}

const stringSchema = `{"type":"string","avro.java.string":"String"}`

const instantInfoSchema = `{"type":"record","name":"HoodieInstantInfo","fields":[` +
	`{"name":"commitTime","type":` + stringSchema + `},{"name":"action","type":` + stringSchema + `}]`

const rollbackPlanSchema = `{"type":"record","name":"HoodieRollbackPlan","namespace":"org.apache.hudi.avro.model","fields":[` +
	`{"name":"instantToRollback","type":["null",` + instantInfoSchema + `}],"default":null},` +
	`{"name":"RollbackRequests","type":["null",{"type":"array","items":{"type":"record","name":"HoodieRollbackRequest","fields":[` +
	`{"name":"partitionPath","type":` + stringSchema + `},` +
	`{"name":"fileId","type":["null",` + stringSchema + `],"default":null},` +
	`{"name":"latestBaseInstant","type":["null",` + stringSchema + `],"default":null},` +
	`{"name":"filesToBeDeleted","type":{"type":"array","items":` + stringSchema + `},"default":[]},` +
	`{"name":"logBlocksToBeDeleted","type":["null",{"type":"map","values":"long","avro.java.string":"String"}],"default":null}` +
	`]}}],"default":null},` +
	`{"name":"version","type":["int","null"],"default":1}]}`

const rollbackMetadataSchema = `{"type":"record","name":"HoodieRollbackMetadata","namespace":"org.apache.hudi.avro.model","fields":[` +
	`{"name":"startRollbackTime","type":` + stringSchema + `},` +
	`{"name":"timeTakenInMillis","type":"long"},` +
	`{"name":"totalFilesDeleted","type":"int"},` +
	`{"name":"commitsRollback","type":{"type":"array","items":` + stringSchema + `}},` +
	`{"name":"partitionMetadata","type":{"type":"map","avro.java.string":"String","values":{"type":"record","name":"HoodieRollbackPartitionMetadata","fields":[` +
	`{"name":"partitionPath","type":` + stringSchema + `},` +
	`{"name":"successDeleteFiles","type":{"type":"array","items":` + stringSchema + `}},` +
	`{"name":"failedDeleteFiles","type":{"type":"array","items":` + stringSchema + `}},` +
	`{"name":"rollbackLogFiles","type":["null",{"type":"map","values":"long","avro.java.string":"String"}],"default":null},` +
	`{"name":"logFilesFromFailedCommit","type":["null",{"type":"map","values":"long","avro.java.string":"String"}],"default":null}` +
	`]}}},` +
	`{"name":"version","type":["int","null"],"default":1},` +
	`{"name":"instantsRollback","type":{"type":"array","items":` + instantInfoSchema + `},"default":[]},"default":[]}]}`

type instantInfoAvro struct {
	Time   string `avro:"commitTime"`
	Action string `avro:"action"`
}

type rollbackRequestAvro struct {
	Partition  string            `avro:"partitionPath"`
	FileID     *string           `avro:"fileId"`
	BaseTime   *string           `avro:"latestBaseInstant"`
	Delete     []string          `avro:"filesToBeDeleted"`
	UndoBlocks *map[string]int64 `avro:"logBlocksToBeDeleted"`
}

type rollbackPlanAvro struct {
	Target   *instantInfoAvro       `avro:"instantToRollback"`
	Requests *[]rollbackRequestAvro `avro:"RollbackRequests"`
	Version  *int32                 `avro:"version"`
}

type rollbackPartitionAvro struct {
	Partition   string            `avro:"partitionPath"`
	Deleted     []string          `avro:"successDeleteFiles"`
	Failed      []string          `avro:"failedDeleteFiles"`
	CommandLogs *map[string]int64 `avro:"rollbackLogFiles"`
	FailedLogs  *map[string]int64 `avro:"logFilesFromFailedCommit"`
}

type rollbackMetadataAvro struct {
	Start      string                           `avro:"startRollbackTime"`
	Millis     int64                            `avro:"timeTakenInMillis"`
	Total      int32                            `avro:"totalFilesDeleted"`
	Commits    []string                         `avro:"commitsRollback"`
	Partitions map[string]rollbackPartitionAvro `avro:"partitionMetadata"`
	Version    *int32                           `avro:"version"`
	Targets    []instantInfoAvro                `avro:"instantsRollback"`
}

// planVersion is the version that Hudi gives to rollback plans and metadata.
const planVersion = 1

// EncodeRollbackPlan is the plan as an Avro file, one delete request a file.
func EncodeRollbackPlan(p RollbackPlan) ([]byte, error) {
	requests := make([]rollbackRequestAvro, len(p.Files))
	for i, f := range p.Files {
		if f.Log {
			return nil, fmt.Errorf("encode rollback plan: %s: we delete files and undo no blocks", f.Path)
		}
		// Plans that Hudi makes from listings name neither group nor instant.
		requests[i] = rollbackRequestAvro{Partition: f.Partition, FileID: new(string), BaseTime: new(string), Delete: []string{f.Path}}
	}
	version := int32(planVersion)
	return encodeFile(rollbackPlanSchema, rollbackPlanAvro{
		Target: &instantInfoAvro{Time: string(p.Target.Time), Action: string(p.Target.Action)}, Requests: &requests, Version: &version})
}

// DecodeRollbackPlan reads a plan of any writer.
func DecodeRollbackPlan(data []byte) (RollbackPlan, error) {
	var a rollbackPlanAvro
	if err := avro.DecodeFile(data, &a); err != nil {
		return RollbackPlan{}, fmt.Errorf("%w: rollback plan: %w", ErrDecode, err)
	}
	if a.Target == nil || a.Target.Time == "" {
		return RollbackPlan{}, fmt.Errorf("%w: rollback plan without an instant", ErrDecode)
	}
	p := RollbackPlan{Target: a.Target.info()}
	if a.Requests == nil {
		return p, nil
	}
	for _, r := range *a.Requests {
		for _, path := range r.Delete {
			p.Files = append(p.Files, RollbackFile{Partition: r.Partition, Path: path})
		}
		if r.UndoBlocks == nil {
			continue
		}
		for path := range *r.UndoBlocks {
			p.Files = append(p.Files, RollbackFile{Partition: r.Partition, Path: path, Log: true})
		}
	}
	return p, nil
}

// EncodeRollbackResult is the metadata of a completed rollback as an Avro file.
func EncodeRollbackResult(r RollbackResult) ([]byte, error) {
	version := int32(planVersion)
	a := rollbackMetadataAvro{Start: string(r.Start), Millis: r.Millis, Commits: []string{string(r.Target.Time)},
		Partitions: make(map[string]rollbackPartitionAvro, len(r.Deleted)), Version: &version,
		Targets: []instantInfoAvro{{Time: string(r.Target.Time), Action: string(r.Target.Action)}}}
	for partition, files := range r.Deleted {
		a.Total += int32(len(files))
		a.Partitions[partition] = rollbackPartitionAvro{Partition: partition, Deleted: files, Failed: []string{},
			CommandLogs: &map[string]int64{}, FailedLogs: &map[string]int64{}}
	}
	return encodeFile(rollbackMetadataSchema, a)
}

// DecodeRollbackResult reads the metadata of a completed rollback.
func DecodeRollbackResult(data []byte) (RollbackResult, error) {
	var a rollbackMetadataAvro
	if err := avro.DecodeFile(data, &a); err != nil {
		return RollbackResult{}, fmt.Errorf("%w: rollback metadata: %w", ErrDecode, err)
	}
	r := RollbackResult{Start: hudi.Time(a.Start), Millis: a.Millis}
	switch {
	case len(a.Targets) > 0:
		r.Target = a.Targets[0].info()
	case len(a.Commits) > 0:
		r.Target.Time = hudi.Time(a.Commits[0])
	}
	for partition, p := range a.Partitions {
		if r.Deleted == nil {
			r.Deleted = make(map[string][]string, len(a.Partitions))
		}
		r.Deleted[partition] = slices.Clone(p.Deleted)
	}
	return r, nil
}

func (i instantInfoAvro) info() InstantInfo {
	return InstantInfo{Time: hudi.Time(i.Time), Action: Action(i.Action)}
}

// encodeFile parses the schema each time: plans are rare, and a parsed schema
// kept would be state of the package.
func encodeFile(schema string, v any) ([]byte, error) {
	s, err := avro.Parse(schema)
	if err != nil {
		return nil, err
	}
	return s.EncodeFile(v)
}
