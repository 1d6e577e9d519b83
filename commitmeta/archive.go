package commitmeta

import (
	"errors"
	"fmt"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// ErrNotArchived marks an instant that the archive has no place for.
var ErrNotArchived = errors.New("instants of this kind stay on the active timeline")

// ArchiveState is the state of an instant as the archive spells it.
type ArchiveState string

// The states.
const (
	StateRequested ArchiveState = "REQUESTED"
	StateInflight  ArchiveState = "INFLIGHT"
	StateCompleted ArchiveState = "COMPLETED"
)

// ArchiveHead names one state of an instant in the archive.
type ArchiveHead struct {
	Time   hudi.Time
	Action Action
	State  ArchiveState
	// Changed is when the instant came into the state, "" when the archive does
	// not say.
	Changed hudi.Time
}

// ArchiveEntry is one state of an instant with what its file said: one of the
// pointers, or none for a file that said nothing.
type ArchiveEntry struct {
	ArchiveHead
	// Body is what a commit, deltacommit or replacecommit says, in any state.
	// The archive keeps less of it than the timeline: of log files their number
	// alone, of change files nothing. extraMetadata is whole.
	Body       *Body
	Compaction *CompactionPlan
	CleanPlan  *CleanPlan
	Clean      *CleanResult
	Rollback   *RollbackResult
	Savepoint  *Savepoint
	Replace    *ReplacePlan
}

const recordArchive = "HoodieArchivedMetaEntry"

// ArchiveSchema is the schema of archives, as Hudi 0.15 writes it.
func ArchiveSchema() string { return schemaText(recordArchive) }

// archiveAvro is HoodieArchivedMetaEntry. Hudi leaves version null.
type archiveAvro struct {
	Commit     *archivedCommitAvro   `avro:"hoodieCommitMetadata"`
	Clean      *cleanResultAvro      `avro:"hoodieCleanMetadata"`
	Rollback   *rollbackMetadataAvro `avro:"hoodieRollbackMetadata"`
	Savepoint  *savepointAvro        `avro:"hoodieSavePointMetadata"`
	Time       *string               `avro:"commitTime"`
	Action     *string               `avro:"actionType"`
	Version    *int32                `avro:"version"`
	Compaction *compactionPlanAvro   `avro:"hoodieCompactionPlan"`
	CleanPlan  *cleanPlanAvro        `avro:"hoodieCleanerPlan"`
	State      *string               `avro:"actionState"`
	Replaced   *archivedReplaceAvro  `avro:"hoodieReplaceCommitMetadata"`
	Replace    *replacePlanAvro      `avro:"hoodieRequestedReplaceMetadata"`
	Inflight   *archivedCommitAvro   `avro:"HoodieInflightReplaceMetadata"`
	Changed    *string               `avro:"stateTransitionTime"`
	// The fields that nobody fills.
	OldCompaction *emptyAvro `avro:"hoodieCompactionMetadata"`
	Index         *emptyAvro `avro:"hoodieIndexCommitMetadata"`
}

// emptyAvro stands for a record that is not read and, being null, not written.
type emptyAvro struct{}

// Archiver encodes states of instants for the archive.
type Archiver struct{ schema *avro.Schema }

// NewArchiver parses ArchiveSchema.
func NewArchiver() (*Archiver, error) {
	s, err := avro.Parse(ArchiveSchema())
	return &Archiver{schema: s}, err
}

// Encode is the entry of one state as a datum of ArchiveSchema. Content is what
// the state's file on the timeline holds, by any writer. Content that cannot be
// read is an ErrDecode: nothing may leave the timeline unread.
func (a *Archiver) Encode(h ArchiveHead, content []byte) ([]byte, error) {
	if h.Time == "" {
		return nil, errors.New("archive: an instant without a time")
	}
	e := archiveAvro{Time: ptr(string(h.Time)), Action: ptr(string(h.Action)), State: ptr(string(h.State)), Changed: orNull(string(h.Changed))}
	if err := e.fill(h, content); err != nil {
		return nil, fmt.Errorf("archive %s %s %s: %w", h.Time, h.Action, h.State, err)
	}
	return a.schema.Marshal(&e)
}

// fill puts the content where Hudi puts it.
func (e *archiveAvro) fill(h ArchiveHead, content []byte) error {
	done := h.State == StateCompleted
	switch h.Action {
	case ActionCommit, ActionDeltaCommit:
		b, err := Decode(hudi.Version6, content)
		e.Commit = archiveBody(&b)
		return err
	case ActionReplaceCommit:
		return e.fillReplace(h, content)
	case ActionCompaction, ActionLogCompaction:
		if h.State == StateRequested {
			return fillRecord(&e.Compaction, recordCompactionPlan, content)
		}
		return nil
	case ActionClean:
		if done {
			return fillRecord(&e.Clean, recordCleanResult, content)
		}
		return fillRecord(&e.CleanPlan, recordCleanPlan, content)
	case ActionRollback:
		if done {
			return fillRecord(&e.Rollback, recordRollbackResult, content)
		}
		return nil
	case ActionSavepoint:
		if done {
			return fillRecord(&e.Savepoint, recordSavepoint, content)
		}
		return nil
	case ActionRestore, ActionIndexing, ActionClustering:
	}
	return fmt.Errorf("%w: %s", ErrNotArchived, h.Action)
}

func (e *archiveAvro) fillReplace(h ArchiveHead, content []byte) error {
	if h.State == StateRequested {
		return fillRecord(&e.Replace, recordReplacePlan, content)
	}
	if h.State == StateInflight && len(content) == 0 {
		return nil // a clustering's
	}
	b, err := Decode(hudi.Version6, content)
	if err != nil {
		return err
	}
	if h.State == StateInflight {
		e.Inflight = archiveBody(&b)
		return nil
	}
	commit := archiveBody(&b)
	replaced := make(map[string][]string, len(b.Replaced))
	for partition, groups := range b.Replaced {
		for _, g := range groups {
			replaced[partition] = append(replaced[partition], string(g))
		}
	}
	e.Replaced = &archivedReplaceAvro{Stats: commit.Stats, Extra: commit.Extra, Operation: commit.Operation, Groups: &replaced}
	return nil
}

// fillRecord takes a record over from a file of the timeline; an empty file
// says nothing.
func fillRecord[T any](into **T, record string, content []byte) error {
	if len(content) == 0 {
		return nil
	}
	v := new(T)
	if err := decodeFile(record, content, v); err != nil {
		return err
	}
	*into = v
	return nil
}

// ArchiveReader decodes what archives of one schema hold.
type ArchiveReader struct {
	schema *avro.Schema
	fields []avro.Field
}

// NewArchiveReader makes a reader of archives of a schema, Hudi's own of
// whatever release.
func NewArchiveReader(schema string) (*ArchiveReader, error) {
	s, err := avro.Parse(schema)
	if err != nil {
		return nil, fmt.Errorf("%w: archive: %w", ErrDecode, err)
	}
	if s.Type().Kind != avro.Record {
		return nil, fmt.Errorf("%w: archive: the schema is no record", ErrDecode)
	}
	return &ArchiveReader{schema: s, fields: s.Type().Fields}, nil
}

// Head reads only which instant an entry is about, which is far less work than
// Decode.
func (r *ArchiveReader) Head(datum []byte) (ArchiveHead, error) {
	var h ArchiveHead
	for i := range r.fields {
		rest, err := avro.Skip(r.fields[i].Type, datum)
		if err != nil {
			return ArchiveHead{}, fmt.Errorf("%w: archive: %s: %w", ErrDecode, r.fields[i].Name, err)
		}
		value := datum[:len(datum)-len(rest)]
		switch r.fields[i].Name {
		case "commitTime":
			h.Time = hudi.Time(textField(r.fields[i].Type, value))
		case "actionType":
			h.Action = Action(textField(r.fields[i].Type, value))
		case "actionState":
			h.State = ArchiveState(textField(r.fields[i].Type, value))
		case "stateTransitionTime":
			h.Changed = hudi.Time(textField(r.fields[i].Type, value))
		}
		datum = rest
	}
	if len(datum) != 0 {
		return ArchiveHead{}, fmt.Errorf("%w: archive: %d bytes behind the entry", ErrDecode, len(datum))
	}
	if h.Time == "" || h.Action == "" {
		return ArchiveHead{}, fmt.Errorf("%w: archive: an entry without a time or an action", ErrDecode)
	}
	if h.State == "" { // archives of old releases hold completed instants alone
		h.State = StateCompleted
	}
	return h, nil
}

// textField is the string in a field of the type string or null|string, "" if
// there is none.
func textField(t *avro.Type, value []byte) string {
	if inner, null, ok := t.Optional(); ok {
		branch, rest, err := avro.ReadBranch(t, value)
		if err != nil || branch == null {
			return ""
		}
		t, value = inner, rest
	}
	if t.Kind != avro.String {
		return ""
	}
	s, _, err := avro.ReadText(value)
	if err != nil {
		return ""
	}
	return string(s)
}

// Decode reads an entry whole.
func (r *ArchiveReader) Decode(datum []byte) (ArchiveEntry, error) {
	h, err := r.Head(datum)
	if err != nil {
		return ArchiveEntry{}, err
	}
	var a archiveAvro
	if err := r.schema.Unmarshal(datum, &a); err != nil {
		return ArchiveEntry{}, fmt.Errorf("%w: archive: %s %s: %w", ErrDecode, h.Time, h.Action, err)
	}
	e := ArchiveEntry{ArchiveHead: h}
	switch {
	case a.Commit != nil:
		e.Body = a.Commit.body()
	case a.Inflight != nil:
		e.Body = a.Inflight.body()
	case a.Replaced != nil:
		e.Body = a.Replaced.body()
	case a.Clean != nil:
		e.Clean = ptr(a.Clean.result())
	case a.CleanPlan != nil:
		e.CleanPlan = ptr(a.CleanPlan.plan())
	case a.Rollback != nil:
		e.Rollback = ptr(a.Rollback.result())
	case a.Savepoint != nil:
		e.Savepoint = ptr(a.Savepoint.savepoint())
	case a.Replace != nil:
		e.Replace = ptr(a.Replace.plan())
	case a.Compaction != nil:
		p, err := a.Compaction.plan()
		if err != nil {
			return ArchiveEntry{}, err
		}
		e.Compaction = &p
	}
	return e, nil
}

// DecodeArchived reads a completed instant that the archive holds as its file
// was, as archives are from table version 8 on. Of actions without a field in an
// ArchiveEntry it reads nothing.
func DecodeArchived(v hudi.Version, h ArchiveHead, content []byte) (ArchiveEntry, error) {
	e := ArchiveEntry{ArchiveHead: h}
	var err error
	switch h.Action {
	case ActionCommit, ActionDeltaCommit, ActionReplaceCommit:
		e.Body, err = pointed(Decode(v, content))
	case ActionClean:
		e.Clean, err = pointed(DecodeCleanResult(content))
	case ActionRollback:
		e.Rollback, err = pointed(DecodeRollbackResult(content))
	case ActionSavepoint:
		e.Savepoint, err = pointed(DecodeSavepoint(content))
	default:
	}
	if err != nil {
		return ArchiveEntry{}, fmt.Errorf("archive: %s %s: %w", h.Time, h.Action, err)
	}
	return e, nil
}

func pointed[T any](v T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &v, nil
}
