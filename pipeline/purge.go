package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

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
	for part := range slices.Chunk(ids, changes.ReadAtOnce) {
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

// reread gives purged documents in a batch their present states.
func (p *Ingest) reread(ctx context.Context, b *changes.Batch) error {
	purger, ok := p.o.Source.(changes.Purger)
	if !ok {
		return nil
	}
	return changes.Reread(ctx, func(ctx context.Context, ids []string) ([]changes.Change, error) {
		states, err := purger.Read(ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("read purged documents of %q: %w", p.identity.Name, err)
		}
		return p.ours(states)
	}, b, p.purged)
}
