package commitmeta

import (
	"errors"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// ErrDecode marks bytes that are not what the timeline should hold.
var ErrDecode = errors.New("unreadable instant content")

// Encode is the content of a completed commit, deltacommit or replacecommit.
func Encode(v hudi.Version, b Body) ([]byte, error) { return nil, errors.ErrUnsupported }

// Decode reads what Encode or another writer wrote.
func Decode(v hudi.Version, data []byte) (Body, error) { return Body{}, errors.ErrUnsupported }

// Encode is the checkpoint as it stands in ExtraCheckpoint.
func (c Checkpoint) Encode() string { return "" }

// DecodeCheckpoint reads the value of ExtraCheckpoint.
func DecodeCheckpoint(s string) (Checkpoint, error) { return Checkpoint{}, errors.ErrUnsupported }

// Encode is the counts as they stand in ExtraStats.
func (s Stats) Encode() string { return "" }

// DecodeStats reads the value of ExtraStats.
func DecodeStats(s string) (Stats, error) { return Stats{}, errors.ErrUnsupported }
