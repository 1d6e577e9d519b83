package keycache

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// group is a file group that entries name by its id. A group whose files were
// rewritten in a way that nobody told is read again under another id, and the
// entries of the old one are worth nothing from then on.
type group struct {
	id uint32
	// At is the file group.
	At hudi.Location
	// Base is the name of the slice's base file, "" for logs alone; Log that of
	// the last log file that was read.
	Base, Log string `json:",omitempty"`
	// Merged is the instant of a rewriting of the base file that had in it what
	// the entries up to then say.
	Merged hudi.Time `json:",omitempty"`
	// Scanned is the newest instant when entries of several instants were
	// written as if of one.
	Scanned hudi.Time `json:",omitempty"`
	// Loose says that it has a base file and rows that may stand in logs alone.
	Loose bool `json:",omitempty"`
	// Retired says that the file group is gone, or read again under another id.
	// Hard deletes in it are still remembered.
	Retired bool `json:",omitempty"`
}

// merged says whether the base file has in it what an entry says.
func (g *group) merged(e *entry) bool {
	return g.Merged != "" && e.instant != "" && !e.instant.After(g.Merged)
}

// hides says whether a hard delete hides a row of the base file.
func (g *group) hides(e *entry) bool {
	return e.hard && e.inBase && !g.Retired && !g.merged(e)
}

// inBase says whether a key stands in the base file, given its entry.
func (g *group) inBase(e *entry) bool {
	if g.merged(e) {
		return !e.hard
	}
	return e.inBase
}

// loosen notes a row that the base file does not have.
func (g *group) loosen(e *entry) {
	if g.Base != "" && !e.inBase && !e.hard {
		g.Loose = true
	}
}

// groups are all file groups with an id.
type groups struct {
	byID map[uint32]*group
	// active are those that are not retired.
	active map[hudi.Location]*group
	// next is the id that comes next, reserved the first that may not be given
	// out before a further stretch is reserved in the store. An id that was given
	// out is never given to another: after a crash entries may name it.
	next, reserved uint32
}

func newGroups() *groups {
	return &groups{byID: map[uint32]*group{}, active: map[hudi.Location]*group{}}
}

func groupKey(id uint32) []byte { return binary.BigEndian.AppendUint32([]byte{kindGroup}, id) }

// load reads the groups of a store.
func (gs *groups) load(s *store) error {
	err := s.each(kindGroup, []byte{kindGroup}, func(key, value []byte) (bool, error) {
		_, id, ok := groupOf(key)
		g := &group{id: id}
		if err := json.Unmarshal(value, g); err != nil || !ok {
			return false, fmt.Errorf("%w: group %q", errStore, key)
		}
		gs.put(g)
		return true, nil
	})
	if err != nil {
		return err
	}
	value, err := s.get([]byte{kindReserved})
	if err != nil {
		return err
	}
	if len(value) != idBytes {
		return fmt.Errorf("%w: no reserved ids", errStore)
	}
	gs.next = binary.BigEndian.Uint32(value)
	gs.reserved = gs.next
	return nil
}

func (gs *groups) put(g *group) {
	gs.byID[g.id] = g
	if !g.Retired {
		gs.active[g.At] = g
	}
}

// add gives a file group an id. Nobody sees the group before put.
func (gs *groups) add(s *store, at hudi.Location) (*group, error) {
	const stretch = 256
	if gs.next >= gs.reserved {
		gs.reserved = gs.next + stretch
		if err := s.db.Set([]byte{kindReserved}, binary.BigEndian.AppendUint32(nil, gs.reserved), pebble.NoSync); err != nil {
			return nil, damaged(err)
		}
	}
	g := &group{id: gs.next, At: at}
	gs.next++
	return g, nil
}

// save writes a group into a batch.
func (g *group) save(b *pebble.Batch) error {
	value, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return damaged(b.Set(groupKey(g.id), value, nil))
}
