package commitmeta

import (
	"fmt"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
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
	// Deleted are the paths of the files that are gone, by partition; Failed
	// those that are not.
	Deleted, Failed map[string][]string
	// CommandLogs are the log files written to undo blocks, and FailedLogs the
	// log files that hold the undone blocks: by partition, path to bytes.
	CommandLogs, FailedLogs map[string]map[string]int64
}

const (
	recordRollbackPlan   = "HoodieRollbackPlan"
	recordRollbackResult = "HoodieRollbackMetadata"
)

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
	return encodeFile(recordRollbackPlan, rollbackPlanAvro{
		Target: &instantInfoAvro{Time: string(p.Target.Time), Action: string(p.Target.Action)}, Requests: &requests, Version: ptr(int32(planVersion))})
}

// DecodeRollbackPlan reads a plan of any writer.
func DecodeRollbackPlan(data []byte) (RollbackPlan, error) {
	var a rollbackPlanAvro
	if err := decodeFile(recordRollbackPlan, data, &a); err != nil {
		return RollbackPlan{}, err
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
	return encodeFile(recordRollbackResult, makeRollback(&r))
}

func makeRollback(r *RollbackResult) *rollbackMetadataAvro {
	a := &rollbackMetadataAvro{Start: string(r.Start), Millis: r.Millis, Commits: []string{string(r.Target.Time)},
		Partitions: make(map[string]rollbackPartitionAvro, len(r.Deleted)), Version: ptr(int32(planVersion)),
		Targets: makeInfos([]InstantInfo{r.Target})}
	for _, partition := range r.partitions() {
		deleted := r.Deleted[partition]
		a.Total += int32(len(deleted))
		a.Partitions[partition] = rollbackPartitionAvro{Partition: partition, Deleted: items(deleted), Failed: items(r.Failed[partition]),
			CommandLogs: ptr(filled(r.CommandLogs[partition])), FailedLogs: ptr(filled(r.FailedLogs[partition]))}
	}
	return a
}

// partitions are those that the result says anything of.
func (r *RollbackResult) partitions() []string {
	all := map[string]bool{}
	for _, files := range []map[string][]string{r.Deleted, r.Failed} {
		for p := range files {
			all[p] = true
		}
	}
	for _, logs := range []map[string]map[string]int64{r.CommandLogs, r.FailedLogs} {
		for p := range logs {
			all[p] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// DecodeRollbackResult reads the metadata of a completed rollback.
func DecodeRollbackResult(data []byte) (RollbackResult, error) {
	var a rollbackMetadataAvro
	if err := decodeFile(recordRollbackResult, data, &a); err != nil {
		return RollbackResult{}, err
	}
	return a.result(), nil
}

func (a *rollbackMetadataAvro) result() RollbackResult {
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
		if len(p.Failed) > 0 {
			put(&r.Failed, partition, p.Failed)
		}
		if logs := some(p.CommandLogs); logs != nil {
			put(&r.CommandLogs, partition, logs)
		}
		if logs := some(p.FailedLogs); logs != nil {
			put(&r.FailedLogs, partition, logs)
		}
	}
	return r
}

// put makes the map that it puts into.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

func (i instantInfoAvro) info() InstantInfo {
	return InstantInfo{Time: hudi.Time(i.Time), Action: Action(i.Action)}
}
