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
	for part := range slices.Chunk(ids, readPurged) {
		states, err := purger.Read(ctx, part)
		if err != nil {
			return fmt.Errorf("read purged documents of %q: %w", p.identity.Name, err)
		}
		for i := range states {
			states[i].Purged = true
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
