package pipeline

import (
	"fmt"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
)

// follower is how far one source is followed.
type follower struct {
	identity changes.Identity
	// name is the source's in the checkpoint.
	name string
	// position is where the next batch begins, seq the database's sequence there, for
	// sources that have another position.
	position changes.Position
	seq      string
	// moved says that the checkpoint has something to say beside the position:
	// a purge sequence, or the end of a sweep.
	moved bool
	// purged are the documents of the last list of purges, which the server
	// bounds (1,000 unless its _purged_infos_limit says otherwise).
	purged map[string]bool
}

// enter puts the source's entry into a checkpoint.
func (f *follower) enter(c *commitmeta.Checkpoint) error {
	before := c.Sources[f.name]
	// A source may not know its incarnation before anything has come.
	s := commitmeta.Source{Kind: f.identity.Kind, Name: f.identity.Name,
		Incarnation: or(f.identity.Incarnation, before.Incarnation), Epoch: before.Epoch, PurgeSeq: f.identity.PurgeSeq, Sweep: before.Sweep}
	if err := s.SetPosition(string(f.position), f.seq); err != nil {
		return fmt.Errorf("checkpoint of %s %q: %w", s.Kind, s.Name, err)
	}
	c.Sources[f.name] = s
	return nil
}
