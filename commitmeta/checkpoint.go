package commitmeta

import (
	"encoding/json"
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

// plainSource is Source without its methods.
type plainSource Source

// sourceKeys are the JSON keys that plainSource takes.
func sourceKeys() []string {
	return []string{"kind", "db", "incarnation", "epoch", "purge_seq", "seq"}
}

// MarshalJSON implements json.Marshaler.
func (s Source) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(plainSource(s))
	if err != nil || s.rest == "" {
		return data, err
	}
	return append(append(data[:len(data)-1], ','), s.rest[1:]...), nil
}

// UnmarshalJSON implements json.Unmarshaler. Keys that it does not know are
// kept: a commit copies the entries of other sources forward, and what another
// kind of source, or a later release, put there must survive that.
func (s *Source) UnmarshalJSON(data []byte) error {
	var plain plainSource
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	var rest map[string]json.RawMessage
	if err := json.Unmarshal(data, &rest); err != nil {
		return err
	}
	for _, k := range sourceKeys() {
		delete(rest, k)
	}
	*s = Source(plain)
	if len(rest) > 0 {
		text, err := json.Marshal(rest)
		if err != nil {
			return err
		}
		s.rest = string(text)
	}
	return nil
}
