package changes

import (
	"context"
	"slices"
)

// ReadAtOnce bounds how many documents a Purger is asked for, and holds, at a time.
const ReadAtOnce = 1000

// Reread replaces the rows of purged documents in a batch by their present states:
// the feed may have shown them as they were before the purge, and in the era that the
// purge began they would win. A document that is not there is left to its purge. Read
// is a Purger's.
func Reread(ctx context.Context, read func(context.Context, []string) ([]Change, error), b *Batch, purged map[string]bool) error {
	if len(purged) == 0 {
		return nil
	}
	var ids []string
	asked := map[string]bool{}
	b.Changes = slices.DeleteFunc(b.Changes, func(c Change) bool {
		if !purged[c.ID] || c.Defect != "" {
			return false
		}
		if !asked[c.ID] {
			asked[c.ID] = true
			ids = append(ids, c.ID)
		}
		return true
	})
	for part := range slices.Chunk(ids, ReadAtOnce) {
		states, err := read(ctx, part)
		if err != nil {
			return err
		}
		b.Changes = append(b.Changes, slices.DeleteFunc(states, func(c Change) bool { return c.Absent })...)
	}
	return nil
}
