package ndjson

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

// readError is an error of the source: what was written before stands.
type readError struct{ error }

// Unwrap implements errors.
func (e readError) Unwrap() error { return e.error }

// purges looks for documents that were purged since the last purge sequence, reads them
// again and writes their present states, marked as purged. The position in the feed
// stays: a purge has no place in it. A bundle carries the purge sequence once all that
// it names is in the chain.
func (e *Exporter) purges(ctx context.Context) error {
	purger, ok := e.source.(changes.Purger)
	if !ok {
		return nil
	}
	ids, seq, err := purger.Purged(ctx, e.purgeSeq)
	if err != nil {
		return readError{fmt.Errorf("read purges of %q: %w", e.last.Database, err)}
	}
	if seq == e.purgeSeq {
		return nil
	}
	e.purged = make(map[string]bool, len(ids))
	for _, id := range ids {
		e.purged[id] = true
	}
	for part := range slices.Chunk(ids, changes.ReadAtOnce) {
		states, err := purger.Read(ctx, part)
		if err != nil {
			return readError{fmt.Errorf("read purged documents of %q: %w", e.last.Database, err)}
		}
		for i := range states {
			states[i].Purged = true
		}
		if err := e.take(&changes.Batch{Changes: states, Last: e.position}); err != nil {
			return err
		}
		if e.open != nil && e.open.plain >= e.o.Bytes {
			if err := e.finish(); err != nil {
				return err
			}
		}
	}
	// Only now: had it travelled with the first part, a crash would have lost the
	// others.
	e.purgeSeq = seq
	return nil
}

// reread gives purged documents in a batch their present states.
func (e *Exporter) reread(ctx context.Context, b *changes.Batch) error {
	purger, ok := e.source.(changes.Purger)
	if !ok {
		return nil
	}
	if err := changes.Reread(ctx, purger.Read, b, e.purged); err != nil {
		return readError{fmt.Errorf("read purged documents of %q: %w", e.last.Database, err)}
	}
	return nil
}

// step reads a batch into the open bundle, and what was purged meanwhile.
func (e *Exporter) step(ctx context.Context) (changes.Batch, error) {
	b, err := e.source.Next(ctx, e.position, e.limit())
	if err != nil {
		return b, readError{fmt.Errorf("read %q: %w", e.last.Database, err)}
	}
	if err := e.reread(ctx, &b); err != nil {
		return b, err
	}
	if err := e.take(&b); err != nil {
		return b, err
	}
	return b, e.purges(ctx)
}

// full says that there is no room for a bundle, which only its user can mend.
func (e *Exporter) full(name string, err error) error {
	return fmt.Errorf("write %s: %w; make room and start again: nothing is lost", filepath.Join(e.o.Folder, name), err)
}
