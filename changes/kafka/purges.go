package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

// purges looks for documents that were purged since the last marker that told of
// purges, reads them again and writes their present states. The position in the
// feed stays: a purge has no place in it.
func (p *Producer) purges(ctx context.Context) error {
	purger, ok := p.source.(changes.Purger)
	if !ok {
		return nil
	}
	ids, seq, err := purger.Purged(ctx, p.at.PurgeSeq)
	if err != nil {
		return sourceError{fmt.Errorf("read purges of %q: %w", p.from.Name, err)}
	}
	if seq == p.at.PurgeSeq {
		return nil
	}
	p.purged = make(map[string]bool, len(ids))
	for _, id := range ids {
		p.purged[id] = true
	}
	var b changes.Batch
	for part := range slices.Chunk(ids, changes.ReadAtOnce) {
		b.Changes, err = purger.Read(ctx, part)
		if err != nil {
			return sourceError{fmt.Errorf("read purged documents of %q: %w", p.from.Name, err)}
		}
		for i := range b.Changes {
			b.Changes[i].Purged = true
		}
		if err := p.write(ctx, &b, marker{Seq: p.at.Seq, PurgeSeq: p.at.PurgeSeq}); err != nil {
			return err
		}
	}
	// Only now: had it travelled with the first part, a crash would have lost the
	// others.
	return p.write(ctx, &changes.Batch{}, marker{Seq: p.at.Seq, PurgeSeq: seq})
}

// reread gives purged documents in a batch their present states.
func (p *Producer) reread(ctx context.Context, b *changes.Batch) error {
	purger, ok := p.source.(changes.Purger)
	if !ok {
		return nil
	}
	if err := changes.Reread(ctx, purger.Read, b, p.purged); err != nil {
		return sourceError{fmt.Errorf("read purged documents of %q: %w", p.from.Name, err)}
	}
	return nil
}
