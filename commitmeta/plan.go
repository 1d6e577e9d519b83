package commitmeta

import (
	"fmt"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// CompactionPlan is the content of a compaction's requested file.
type CompactionPlan struct{ Operations []CompactionOperation }

// CompactionOperation is the compaction of one slice.
type CompactionOperation struct {
	hudi.Location
	// Instant is the slice's base instant.
	Instant hudi.Time
	// Base is the base file's name, "" for a slice of logs alone.
	Base string
	// Logs are the names of the log files, in reading order.
	Logs []string
}

type compactionOperationAvro struct {
	Instant   *string   `avro:"baseInstantTime"`
	Logs      *[]string `avro:"deltaFilePaths"`
	Base      *string   `avro:"dataFilePath"`
	File      *string   `avro:"fileId"`
	Partition *string   `avro:"partitionPath"`
}

type compactionPlanAvro struct {
	Operations *[]compactionOperationAvro `avro:"operations"`
	Version    *int32                     `avro:"version"`
}

// DecodeCompactionPlan reads a plan of any writer. Version 1 of the plan holds
// whole paths where version 2 has names; names is what it returns.
func DecodeCompactionPlan(data []byte) (CompactionPlan, error) {
	var a compactionPlanAvro
	if err := avro.DecodeFile(data, &a); err != nil {
		return CompactionPlan{}, fmt.Errorf("%w: compaction plan: %w", ErrDecode, err)
	}
	var p CompactionPlan
	if a.Operations == nil {
		return p, nil
	}
	for _, o := range *a.Operations {
		op := CompactionOperation{Location: hudi.Location{Partition: text(o.Partition), File: hudi.FileID(text(o.File))},
			Instant: hudi.Time(text(o.Instant)), Base: baseName(text(o.Base))}
		if op.File == "" {
			return CompactionPlan{}, fmt.Errorf("%w: compaction plan: an operation without a file id", ErrDecode)
		}
		if o.Logs != nil {
			for _, l := range *o.Logs {
				op.Logs = append(op.Logs, baseName(l))
			}
		}
		p.Operations = append(p.Operations, op)
	}
	return p, nil
}

// ReplacePlan is the content of a replacecommit's requested file as far as it
// matters to a writer: which file groups a clustering is about to rewrite.
type ReplacePlan struct {
	Operation string
	// Clustering says that it is a clustering and not an insert overwrite.
	Clustering bool
	// Groups are the file groups that the clustering reads.
	Groups []hudi.Location
}

type replacePlanAvro struct {
	Operation  *string         `avro:"operationType"`
	Clustering *clusteringAvro `avro:"clusteringPlan"`
}

type clusteringAvro struct {
	Groups *[]clusteringGroupAvro `avro:"inputGroups"`
}

type clusteringGroupAvro struct {
	Slices *[]clusteringSliceAvro `avro:"slices"`
}

type clusteringSliceAvro struct {
	File      *string `avro:"fileId"`
	Partition *string `avro:"partitionPath"`
}

// DecodeReplacePlan reads the requested file of a replacecommit. An empty one
// is an insert overwrite.
func DecodeReplacePlan(data []byte) (ReplacePlan, error) {
	if len(data) == 0 {
		return ReplacePlan{}, nil
	}
	var a replacePlanAvro
	if err := avro.DecodeFile(data, &a); err != nil {
		return ReplacePlan{}, fmt.Errorf("%w: replace plan: %w", ErrDecode, err)
	}
	p := ReplacePlan{Operation: text(a.Operation), Clustering: a.Clustering != nil}
	if a.Clustering == nil || a.Clustering.Groups == nil {
		return p, nil
	}
	for _, g := range *a.Clustering.Groups {
		if g.Slices == nil {
			continue
		}
		for _, s := range *g.Slices {
			p.Groups = append(p.Groups, hudi.Location{Partition: text(s.Partition), File: hudi.FileID(text(s.File))})
		}
	}
	return p, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// baseName is the last part of a path. Object stores' paths have "/" too.
func baseName(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}
