package commitmeta

import (
	"fmt"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// CompactionPlan is the content of a compaction's or log compaction's requested
// file (docs/format/compaction.md).
type CompactionPlan struct {
	Operations []CompactionOperation
	// Extra is extraMetadata: it goes into the commit that the plan becomes. Nil
	// is written as null, which plans of Hudi's procedures have.
	Extra map[string]string
	// Strategy says how the plan is to be run; nil is as Hudi 0.15 leaves it.
	Strategy *Strategy
	// KeepMeta is preserveHoodieMetadata. Rows keep their meta columns in a
	// compaction whatever it says.
	KeepMeta bool
}

// Strategy is the class that runs a plan, and its settings.
type Strategy struct {
	Class  string
	Params map[string]string
}

// CompactionOperation is the compaction of one slice.
type CompactionOperation struct {
	hudi.Location
	// Instant is the slice's base instant.
	Instant hudi.Time
	// Base is the base file's name, "" for a slice of logs alone.
	Base string
	// Logs are the names of the log files, in reading order.
	Logs []string
	// Metrics inform people and strategies; see the Metric constants.
	Metrics map[string]float64
	// Bootstrap is the path of the file that the base file was bootstrapped
	// from, "" if it was not.
	Bootstrap string
}

// The metrics that Hudi gives to an operation: a count, bytes, and megabytes.
const (
	MetricLogFiles    = "TOTAL_LOG_FILES"
	MetricLogBytes    = "TOTAL_LOG_FILES_SIZE"
	MetricReadMB      = "TOTAL_IO_READ_MB"
	MetricWriteMB     = "TOTAL_IO_WRITE_MB"
	MetricReadWriteMB = "TOTAL_IO_MB"
)

const (
	recordCompactionPlan = "HoodieCompactionPlan"
	// compactionPlanVersion is the version whose operations hold names of files.
	compactionPlanVersion = 2
	// strategyVersion is the one version of strategies that there is.
	strategyVersion = 1
)

type compactionOperationAvro struct {
	Instant   *string             `avro:"baseInstantTime"`
	Logs      *[]string           `avro:"deltaFilePaths"`
	Base      *string             `avro:"dataFilePath"`
	File      *string             `avro:"fileId"`
	Partition *string             `avro:"partitionPath"`
	Metrics   *map[string]float64 `avro:"metrics"`
	Bootstrap *string             `avro:"bootstrapFilePath"`
}

type compactionStrategyAvro struct {
	Class   *string            `avro:"compactorClassName"`
	Params  *map[string]string `avro:"strategyParams"`
	Version *int32             `avro:"version"`
}

type compactionPlanAvro struct {
	Operations *[]compactionOperationAvro `avro:"operations"`
	Extra      *map[string]string         `avro:"extraMetadata"`
	Version    *int32                     `avro:"version"`
	Strategy   *compactionStrategyAvro    `avro:"strategy"`
	KeepMeta   *bool                      `avro:"preserveHoodieMetadata"`
}

// EncodeCompactionPlan is the plan as an Avro file of version 2. An operation
// without a file id, an instant or log files is an error: no engine could run it.
func EncodeCompactionPlan(p CompactionPlan) ([]byte, error) {
	operations := make([]compactionOperationAvro, len(p.Operations))
	for i := range p.Operations {
		o := &p.Operations[i]
		if o.File == "" || o.Instant == "" || len(o.Logs) == 0 {
			return nil, fmt.Errorf("encode compaction plan: operation %d: a slice without file group, base instant or log files: %+v", i, o.Location)
		}
		operations[i] = compactionOperationAvro{Instant: ptr(string(o.Instant)), Logs: &o.Logs, Base: orNull(o.Base), File: ptr(string(o.File)),
			Partition: &o.Partition, Metrics: ptr(filled(o.Metrics)), Bootstrap: orNull(o.Bootstrap)}
	}
	a := compactionPlanAvro{Operations: &operations, Version: ptr(int32(compactionPlanVersion)), KeepMeta: &p.KeepMeta}
	if p.Extra != nil {
		a.Extra = &p.Extra
	}
	if p.Strategy != nil {
		a.Strategy = &compactionStrategyAvro{Class: &p.Strategy.Class, Params: ptr(filled(p.Strategy.Params)), Version: ptr(int32(strategyVersion))}
	}
	return encodeFile(recordCompactionPlan, a)
}

// DecodeCompactionPlan reads a plan of any writer. Version 1 of the plan holds
// whole paths where version 2 has names; names is what it returns.
func DecodeCompactionPlan(data []byte) (CompactionPlan, error) {
	var a compactionPlanAvro
	if err := decodeFile(recordCompactionPlan, data, &a); err != nil {
		return CompactionPlan{}, err
	}
	return a.plan()
}

func (a *compactionPlanAvro) plan() (CompactionPlan, error) {
	p := CompactionPlan{Extra: orZero(a.Extra), KeepMeta: orZero(a.KeepMeta)}
	if a.Strategy != nil {
		p.Strategy = &Strategy{Class: text(a.Strategy.Class), Params: some(a.Strategy.Params)}
	}
	for _, o := range orZero(a.Operations) {
		op := CompactionOperation{Location: hudi.Location{Partition: text(o.Partition), File: hudi.FileID(text(o.File))},
			Instant: hudi.Time(text(o.Instant)), Base: baseName(text(o.Base)), Metrics: some(o.Metrics), Bootstrap: text(o.Bootstrap)}
		if op.File == "" {
			return CompactionPlan{}, fmt.Errorf("%w: compaction plan: an operation without a file id", ErrDecode)
		}
		for _, l := range list(o.Logs) {
			op.Logs = append(op.Logs, baseName(l))
		}
		p.Operations = append(p.Operations, op)
	}
	return p, nil
}
