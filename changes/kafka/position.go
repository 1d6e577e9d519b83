package kafka

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/couch2hudi/couch2hudi/changes"
)

// position is where a reader goes on, as it stands in the commits of its table:
// JSON with sorted keys.
type position struct {
	// Database is the one that the messages are of; nil before the first of ours.
	Database *origin `json:"database,omitempty"`
	// Markers are the sequences of the markers that Offsets name.
	Markers map[string]string `json:"markers,omitempty"`
	// Offsets are by partition.
	Offsets map[int32]place `json:"offsets"`
}

// place is where one partition goes on.
type place struct {
	// Epoch is the leader's when the message before Next was read, by which a
	// log that was cut and written anew is told; -1 when it is not known.
	Epoch int32 `json:"epoch"`
	// Marker is the number of the last marker before Next; 0 for none.
	Marker int64 `json:"marker,omitempty"`
	// Next is the offset of the next message.
	Next int64 `json:"next"`
}

// parsePosition reads what text said; "" and "0" are the beginning.
func parsePosition(text changes.Position) (position, error) {
	p := position{Offsets: map[int32]place{}, Markers: map[string]string{}}
	if text == "" || text == "0" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("%w: it is no JSON object with the offsets of a topic: %w", changes.ErrPosition, err)
	}
	if len(p.Offsets) == 0 {
		return p, fmt.Errorf("%w: it names no offsets", changes.ErrPosition)
	}
	for part, at := range p.Offsets {
		if part < 0 || at.Next < 0 {
			return p, fmt.Errorf("%w: partition %d, offset %d", changes.ErrPosition, part, at.Next)
		}
	}
	if p.Markers == nil {
		p.Markers = map[string]string{}
	}
	return p, nil
}

func (p *position) text() changes.Position {
	data, err := json.Marshal(p)
	if err != nil { // numbers, strings and maps of them always marshal
		panic(err)
	}
	return changes.Position(data)
}

// pass notes a marker of a partition, which may come twice or late.
func (p *position) pass(part int32, m marker) {
	at := p.Offsets[part]
	if m.N <= at.Marker {
		return
	}
	at.Marker = m.N
	p.Offsets[part] = at
	p.Markers[strconv.FormatInt(m.N, 10)] = m.Seq
	needed := map[string]bool{}
	for _, at := range p.Offsets {
		needed[strconv.FormatInt(at.Marker, 10)] = true
	}
	maps.DeleteFunc(p.Markers, func(n, _ string) bool { return !needed[n] })
}

// seq is the sequence of the newest marker that every partition has passed; ""
// when one has passed none.
func (p *position) seq() string {
	if len(p.Offsets) == 0 {
		return ""
	}
	least := int64(-1)
	for _, at := range p.Offsets {
		if least < 0 || at.Marker < least {
			least = at.Marker
		}
	}
	return p.Markers[strconv.FormatInt(least, 10)]
}

// partitions are sorted.
func (p *position) partitions() []int32 { return slices.Sorted(maps.Keys(p.Offsets)) }
