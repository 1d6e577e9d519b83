package commitmeta

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Encode is the checkpoint as it stands in ExtraCheckpoint. Equal checkpoints
// give equal text.
func (c Checkpoint) Encode() string {
	if c.Version == 0 {
		c.Version = checkpointVersion
	}
	if c.Sources == nil {
		c.Sources = map[string]Source{}
	}
	return marshal(c)
}

// DecodeCheckpoint reads the value of ExtraCheckpoint. One of a later version
// is an error: going on from a position half understood would lose rows.
func DecodeCheckpoint(s string) (Checkpoint, error) {
	var c Checkpoint
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %s: %w", ErrDecode, ExtraCheckpoint, err)
	}
	if c.Version != checkpointVersion {
		return Checkpoint{}, fmt.Errorf("%w: %s has version %d, this release knows %d", ErrDecode, ExtraCheckpoint, c.Version, checkpointVersion)
	}
	return c, nil
}

// Encode is the counts as they stand in ExtraStats.
func (s Stats) Encode() string { return marshal(s) }

// DecodeStats reads the value of ExtraStats.
func DecodeStats(s string) (Stats, error) {
	var st Stats
	if err := json.Unmarshal([]byte(s), &st); err != nil {
		return Stats{}, fmt.Errorf("%w: %s: %w", ErrDecode, ExtraStats, err)
	}
	return st, nil
}

func marshal(v any) string {
	data, err := json.Marshal(v)
	if err != nil { // numbers, strings and maps of them always marshal
		panic(err)
	}
	return string(data)
}

// checkpointVersion is the version of the checkpoint's JSON.
const checkpointVersion = 1

// sourceEntry is a Source as it stands in the checkpoint.
type sourceEntry struct {
	Kind        string `json:"kind"`
	DB          string `json:"db,omitempty"`
	Topic       string `json:"topic,omitempty"`
	Folder      string `json:"folder,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	Epoch       int64  `json:"epoch,omitempty"`
	PurgeSeq    string `json:"purge_seq,omitempty"`
	Sweep       bool   `json:"sweep,omitempty"`
	Seq         string `json:"seq"`
}

// sourceKeys are the JSON keys that sourceEntry takes.
func sourceKeys() []string {
	return []string{"kind", "db", "topic", "folder", "incarnation", "epoch", "purge_seq", "sweep", "seq"}
}

// name is where the name of a source of e's kind stands.
func (e *sourceEntry) name() *string {
	switch e.Kind {
	case KindKafka:
		return &e.Topic
	case KindNDJSON:
		return &e.Folder
	}
	return &e.DB
}

// ErrPosition marks a position that an entry cannot hold.
var ErrPosition = errors.New("not a position for a checkpoint")

// SetPosition says where to go on: for KindCouchDB a sequence, for other kinds a
// JSON object without the keys of the entry itself, or "", and the database's
// sequence, which may be empty. What is no such object is an ErrPosition.
func (s *Source) SetPosition(position, seq string) error {
	if s.Kind == KindCouchDB {
		s.Seq = position
		return nil
	}
	s.Seq, s.At = seq, ""
	if position == "" {
		return nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(position), &keys); err != nil {
		return fmt.Errorf("%w: of kind %q, no JSON object: %w", ErrPosition, s.Kind, err)
	}
	for _, k := range sourceKeys() {
		if _, taken := keys[k]; taken {
			return fmt.Errorf("%w: of kind %q, it has the key %q of the entry itself", ErrPosition, s.Kind, k)
		}
	}
	if len(keys) > 0 {
		s.At = marshal(keys)
	}
	return nil
}

// Position is what SetPosition took, in JSON with sorted keys.
func (s *Source) Position() string {
	if s.Kind == KindCouchDB {
		return s.Seq
	}
	return s.At
}

// MarshalJSON implements json.Marshaler.
func (s Source) MarshalJSON() ([]byte, error) {
	e := sourceEntry{Kind: s.Kind, Incarnation: s.Incarnation, Epoch: s.Epoch, PurgeSeq: s.PurgeSeq, Sweep: s.Sweep, Seq: s.Seq}
	*e.name() = s.Name
	data, err := json.Marshal(e)
	if err != nil || s.At == "" {
		return data, err
	}
	return append(append(data[:len(data)-1], ','), s.At[1:]...), nil
}

// UnmarshalJSON implements json.Unmarshaler. Keys that it does not know are
// kept: a commit copies the entries of other sources forward, and what another
// kind of source, or a later release, put there must survive that.
func (s *Source) UnmarshalJSON(data []byte) error {
	var e sourceEntry
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	var rest map[string]json.RawMessage
	if err := json.Unmarshal(data, &rest); err != nil {
		return err
	}
	for _, k := range sourceKeys() {
		delete(rest, k)
	}
	*s = Source{Kind: e.Kind, Name: *e.name(), Incarnation: e.Incarnation, Epoch: e.Epoch, PurgeSeq: e.PurgeSeq, Sweep: e.Sweep, Seq: e.Seq}
	if len(rest) > 0 {
		s.At = marshal(rest)
	}
	return nil
}
