package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

// readPurged bounds how many purged documents are read and written at once.
const readPurged = 1000

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
	for part := range slices.Chunk(ids, readPurged) {
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

// reread replaces the rows of purged documents by the present states: the feed
// may show them as they were before the purge, and in the era that the purge
// began they would win. A document that is not there is left to its purge.
func (p *Producer) reread(ctx context.Context, b *changes.Batch) error {
	purger, ok := p.source.(changes.Purger)
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
			return sourceError{fmt.Errorf("read purged documents of %q: %w", p.from.Name, err)}
		}
		for _, c := range states {
			if !c.Absent {
				b.Changes = append(b.Changes, c)
			}
		}
	}
	return nil
}
