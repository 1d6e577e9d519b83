package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

// readPurged bounds how many purged documents are read and committed at once.
const readPurged = 1000

// purges looks for documents that were purged since the checkpoint, reads them
// again and commits their present states, with the purge sequence. The position
// in the feed stays: a purge has no place in it. It is looked for before the
// first batch and whenever a batch has been applied.
func (p *Ingest) purges(ctx context.Context) error {
	purger, ok := p.o.Source.(changes.Purger)
	if !ok || p.o.Replay {
		return nil
	}
	ids, seq, err := purger.Purged(ctx, p.identity.PurgeSeq)
	if err != nil {
		return fmt.Errorf("read purges of %q: %w", p.identity.Name, err)
	}
	if seq == p.identity.PurgeSeq {
		return nil
	}
	p.purged = make(map[string]bool, len(ids))
	for _, id := range ids {
		p.purged[id] = true
	}
	for part := range slices.Chunk(ids, readPurged) {
		states, err := purger.Read(ctx, part)
		if err != nil {
			return fmt.Errorf("read purged documents of %q: %w", p.identity.Name, err)
		}
		for i := range states {
			states[i].Purged = true
		}
		if states, err = p.ours(states); err != nil {
			return err
		}
		p.uncommitted.Purged += int64(len(states))
		if err := p.applyStates(ctx, states); err != nil {
			return fmt.Errorf("apply purges of %q: %w", p.identity.Name, err)
		}
	}
	// Only now: had it travelled with the first part, a crash would have lost
	// the others. The next commit carries it.
	p.identity.PurgeSeq = seq
	p.moved = true
	return nil
}

// ours is what changes are to this table, of which a group has several.
func (p *Ingest) ours(states []changes.Change) ([]changes.Change, error) {
	if p.own == nil {
		return states, nil
	}
	return p.own(states)
}

// applyStates commits states that did not come from the feed, at the position
// where the feed stands.
func (p *Ingest) applyStates(ctx context.Context, states []changes.Change) error {
	g := gathered{batch: changes.Batch{Changes: states, Last: p.position}, forced: p.moved}
	progress, err := p.apply(ctx, g)
	if err != nil {
		return err
	}
	p.tell(progress)
	return nil
}

// reread replaces the rows of purged documents by the present states: the feed
// may have shown them before the purge, and in the era that the purge began
// they would win. A document that is not there is left to its purge.
func (p *Ingest) reread(ctx context.Context, b *changes.Batch) error {
	purger, ok := p.o.Source.(changes.Purger)
	if !ok || len(p.purged) == 0 {
		return nil
	}
	var ids []string
	asked := map[string]bool{}
	b.Changes = slices.DeleteFunc(b.Changes, func(c changes.Change) bool {
		if !p.purged[c.ID] || c.Defect != "" {
			return false
		}
		if !asked[c.ID] {
			asked[c.ID] = true
			ids = append(ids, c.ID)
		}
		return true
	})
	for part := range slices.Chunk(ids, readPurged) {
		states, err := purger.Read(ctx, part)
		if err != nil {
			return fmt.Errorf("read purged documents of %q: %w", p.identity.Name, err)
		}
		if states, err = p.ours(states); err != nil {
			return err
		}
		for _, c := range states {
			if !c.Absent {
				b.Changes = append(b.Changes, c)
			}
		}
	}
	return nil
}
