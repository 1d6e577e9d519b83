package commitmeta

import (
	"fmt"
	"math"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// CleanPolicy says what a clean keeps.
type CleanPolicy string

// The policies of Hudi.
const (
	KeepLatestCommits      CleanPolicy = "KEEP_LATEST_COMMITS"
	KeepLatestFileVersions CleanPolicy = "KEEP_LATEST_FILE_VERSIONS"
	KeepLatestByHours      CleanPolicy = "KEEP_LATEST_BY_HOURS"
)

// CleanPlan is the content of a clean's requested file, and of its inflight one
// as Hudi 0.15 writes it (docs/format/clean.md).
type CleanPlan struct {
	// Earliest is the oldest commit whose files are all kept; its Time is empty
	// when the policy does not count commits.
	Earliest InstantInfo
	// LastCompleted is the newest completed commit that the plan has seen.
	LastCompleted hudi.Time
	Policy        CleanPolicy
	// Files are the files to delete, by partition.
	Files map[string][]CleanFile
	// Partitions are to be deleted whole.
	Partitions []string
	Extra      map[string]string
}

// CleanFile is a file to delete.
type CleanFile struct {
	// Path is the file's address with its scheme in plans of version 2, and its
	// name in those of version 1.
	Path string
	// Bootstrap says that the file is not the table's own.
	Bootstrap bool
}

// CleanResult is the content of a completed clean.
type CleanResult struct {
	// Start is the clean's own instant.
	Start  hudi.Time
	Millis int64
	// Earliest and LastCompleted are the plan's.
	Earliest, LastCompleted hudi.Time
	Partitions              map[string]CleanedPartition
	Extra                   map[string]string
}

// CleanedPartition is what a clean did to one partition. Files are names.
type CleanedPartition struct {
	Policy CleanPolicy
	// Planned were to be deleted, Deleted are, Failed could not be.
	Planned, Deleted, Failed []string
	// Gone says that the whole partition was deleted.
	Gone bool
}

const (
	recordCleanPlan   = "HoodieCleanerPlan"
	recordCleanResult = "HoodieCleanMetadata"
	// cleanVersion is the version of plans with addresses and of results with
	// names.
	cleanVersion = 2
	// stateCompleted is the state of the instant that Earliest is.
	stateCompleted = "COMPLETED"
)

type actionInstantAvro struct {
	Time   string `avro:"timestamp"`
	Action string `avro:"action"`
	State  string `avro:"state"`
}

type cleanFileAvro struct {
	Path      *string `avro:"filePath"`
	Bootstrap *bool   `avro:"isBootstrapBaseFile"`
}

type cleanPlanAvro struct {
	Earliest      *actionInstantAvro          `avro:"earliestInstantToRetain"`
	LastCompleted string                      `avro:"lastCompletedCommitTimestamp"`
	Policy        string                      `avro:"policy"`
	Names         *map[string][]string        `avro:"filesToBeDeletedPerPartition"`
	Version       *int32                      `avro:"version"`
	Files         *map[string][]cleanFileAvro `avro:"filePathsToBeDeletedPerPartition"`
	Partitions    *[]string                   `avro:"partitionsToBeDeleted"`
	Extra         *map[string]string          `avro:"extraMetadata"`
}

type cleanedPartitionAvro struct {
	Partition string   `avro:"partitionPath"`
	Policy    string   `avro:"policy"`
	Planned   []string `avro:"deletePathPatterns"`
	Deleted   []string `avro:"successDeleteFiles"`
	Failed    []string `avro:"failedDeleteFiles"`
	Gone      *bool    `avro:"isPartitionDeleted"`
}

type cleanResultAvro struct {
	Start         string                           `avro:"startCleanTime"`
	Millis        int64                            `avro:"timeTakenInMillis"`
	Total         int32                            `avro:"totalFilesDeleted"`
	Earliest      string                           `avro:"earliestCommitToRetain"`
	LastCompleted string                           `avro:"lastCompletedCommitTimestamp"`
	Partitions    map[string]cleanedPartitionAvro  `avro:"partitionMetadata"`
	Version       *int32                           `avro:"version"`
	Bootstrap     *map[string]cleanedPartitionAvro `avro:"bootstrapPartitionMetadata"`
	Extra         *map[string]string               `avro:"extraMetadata"`
}

// EncodeCleanPlan is the plan as an Avro file of version 2.
func EncodeCleanPlan(p CleanPlan) ([]byte, error) {
	files := make(map[string][]cleanFileAvro, len(p.Files))
	for partition, planned := range p.Files {
		l := make([]cleanFileAvro, len(planned))
		for i := range planned {
			l[i] = cleanFileAvro{Path: &planned[i].Path, Bootstrap: &planned[i].Bootstrap}
		}
		files[partition] = l
	}
	a := cleanPlanAvro{LastCompleted: string(p.LastCompleted), Policy: string(p.Policy), Names: &map[string][]string{},
		Version: ptr(int32(cleanVersion)), Files: &files, Partitions: ptr(items(p.Partitions)), Extra: ptr(filled(p.Extra))}
	if p.Earliest.Time != "" {
		a.Earliest = &actionInstantAvro{Time: string(p.Earliest.Time), Action: string(p.Earliest.Action), State: stateCompleted}
	}
	return encodeFile(recordCleanPlan, a)
}

// DecodeCleanPlan reads a plan of any writer.
func DecodeCleanPlan(data []byte) (CleanPlan, error) {
	var a cleanPlanAvro
	if err := decodeFile(recordCleanPlan, data, &a); err != nil {
		return CleanPlan{}, err
	}
	return a.plan(), nil
}

func (a *cleanPlanAvro) plan() CleanPlan {
	p := CleanPlan{LastCompleted: hudi.Time(a.LastCompleted), Policy: CleanPolicy(a.Policy), Partitions: list(a.Partitions), Extra: some(a.Extra)}
	if a.Earliest != nil {
		p.Earliest = InstantInfo{Time: hudi.Time(a.Earliest.Time), Action: Action(a.Earliest.Action)}
	}
	names, files := some(a.Names), some(a.Files)
	if len(names)+len(files) == 0 {
		return p
	}
	p.Files = make(map[string][]CleanFile, len(names)+len(files))
	for partition, l := range names {
		for _, name := range l {
			p.Files[partition] = append(p.Files[partition], CleanFile{Path: name})
		}
	}
	for partition, l := range files {
		for _, f := range l {
			p.Files[partition] = append(p.Files[partition], CleanFile{Path: text(f.Path), Bootstrap: orZero(f.Bootstrap)})
		}
	}
	return p
}

// EncodeCleanResult is the metadata of a completed clean as an Avro file of
// version 2.
func EncodeCleanResult(r CleanResult) ([]byte, error) {
	a := cleanResultAvro{Start: string(r.Start), Millis: r.Millis, Earliest: string(r.Earliest), LastCompleted: string(r.LastCompleted),
		Partitions: make(map[string]cleanedPartitionAvro, len(r.Partitions)), Version: ptr(int32(cleanVersion)),
		Bootstrap: &map[string]cleanedPartitionAvro{}, Extra: ptr(filled(r.Extra))}
	total := 0
	for partition, c := range r.Partitions {
		total += len(c.Deleted)
		a.Partitions[partition] = cleanedPartitionAvro{Partition: partition, Policy: string(c.Policy), Planned: items(c.Planned),
			Deleted: items(c.Deleted), Failed: items(c.Failed), Gone: ptr(c.Gone)}
	}
	if total > math.MaxInt32 {
		return nil, fmt.Errorf("encode clean metadata: %d files are more than its count holds", total)
	}
	a.Total = int32(total)
	return encodeFile(recordCleanResult, a)
}

// DecodeCleanResult reads the metadata of a completed clean.
func DecodeCleanResult(data []byte) (CleanResult, error) {
	var a cleanResultAvro
	if err := decodeFile(recordCleanResult, data, &a); err != nil {
		return CleanResult{}, err
	}
	return a.result(), nil
}

func (a *cleanResultAvro) result() CleanResult {
	r := CleanResult{Start: hudi.Time(a.Start), Millis: a.Millis, Earliest: hudi.Time(a.Earliest), LastCompleted: hudi.Time(a.LastCompleted), Extra: some(a.Extra)}
	if len(a.Partitions) > 0 {
		r.Partitions = make(map[string]CleanedPartition, len(a.Partitions))
	}
	for partition, c := range a.Partitions {
		r.Partitions[partition] = CleanedPartition{Policy: CleanPolicy(c.Policy), Planned: list(&c.Planned), Deleted: list(&c.Deleted), Failed: list(&c.Failed), Gone: orZero(c.Gone)}
	}
	return r
}
