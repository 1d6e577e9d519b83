package commitmeta

// Savepoint is the content of a completed savepoint (docs/format/savepoint.md).
type Savepoint struct {
	By, Comment string
	// Millis is when it was made, in milliseconds since 1970.
	Millis int64
	// Files are the names of the files of the latest slices at the savepointed
	// instant, base and log files, by partition. A clean keeps them.
	Files map[string][]string
}

const (
	recordSavepoint  = "HoodieSavepointMetadata"
	savepointVersion = 1
)

type savepointPartitionAvro struct {
	Partition string   `avro:"partitionPath"`
	Files     []string `avro:"savepointDataFile"`
}

type savepointAvro struct {
	By         string                            `avro:"savepointedBy"`
	Millis     int64                             `avro:"savepointedAt"`
	Comment    string                            `avro:"comments"`
	Partitions map[string]savepointPartitionAvro `avro:"partitionMetadata"`
	Version    *int32                            `avro:"version"`
}

// EncodeSavepoint is the metadata of a completed savepoint as an Avro file.
func EncodeSavepoint(s Savepoint) ([]byte, error) {
	a := savepointAvro{By: s.By, Millis: s.Millis, Comment: s.Comment, Version: ptr(int32(savepointVersion)),
		Partitions: make(map[string]savepointPartitionAvro, len(s.Files))}
	for partition, files := range s.Files {
		a.Partitions[partition] = savepointPartitionAvro{Partition: partition, Files: items(files)}
	}
	return encodeFile(recordSavepoint, a)
}

// DecodeSavepoint reads the metadata of a completed savepoint.
func DecodeSavepoint(data []byte) (Savepoint, error) {
	var a savepointAvro
	if err := decodeFile(recordSavepoint, data, &a); err != nil {
		return Savepoint{}, err
	}
	return a.savepoint(), nil
}

func (a *savepointAvro) savepoint() Savepoint {
	s := Savepoint{By: a.By, Comment: a.Comment, Millis: a.Millis}
	if len(a.Partitions) > 0 {
		s.Files = make(map[string][]string, len(a.Partitions))
	}
	for partition, p := range a.Partitions {
		s.Files[partition] = list(&p.Files)
	}
	return s
}
