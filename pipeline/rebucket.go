package pipeline

import (
	"context"
	"fmt"
	"maps"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/rebucket"
	"github.com/couch2hudi/couch2hudi/table"
)

// Rebucketed is what Rebucket did. From is the number of buckets before; the
// rest is empty when the table had the number already.
type Rebucketed struct {
	From int
	rebucket.Result
}

// Rebucket gives a table of the bucket index another number of buckets: it
// rolls back what a dead writer left, rewrites the table in one replacecommit,
// which carries the checkpoint on, and then changes the pin in
// hoodie.properties. The commit is what counts: whatever dies, the table has the
// old number or the new one, and New or another Rebucket mends the properties.
// It needs the lease. Extra of the options is set here.
func Rebucket(ctx context.Context, t *table.Table, o rebucket.Options) (Rebucketed, error) {
	var done Rebucketed
	if _, err := t.Recover(ctx); err != nil {
		return done, fmt.Errorf("recover table: %w", err)
	}
	v, err := t.View(ctx)
	if err != nil {
		return done, fmt.Errorf("view table: %w", err)
	}
	have, err := ReadPins(ctx, v)
	if err != nil {
		return done, err
	}
	switch {
	case !have.Known:
		return done, fmt.Errorf("%w: it says nothing of its index, another engine made it; run couch2hudi on it once, which holds its files against --buckets", ErrPinned)
	case have.Index != indexBucket:
		return done, fmt.Errorf("%w: %s is %s in %s, and only a table of buckets can be given another number of them; make a new table with --index bucket",
			ErrPinned, settingIndex, or(have.Index, indexBloom), have.Where)
	}
	done.From = have.Buckets
	want := have.Pins
	want.Buckets = o.Buckets
	if have.Buckets != o.Buckets && v.Last() != "" {
		if o.Extra, err = carried(ctx, v, want); err != nil {
			return done, err
		}
		o.HashField = have.Key
		if done.Result, err = rebucket.Run(ctx, t, o); err != nil {
			return done, err
		}
	}
	if other := stale(t.Properties(), want.Properties()); len(other) > 0 {
		if err := t.UpdateProperties(ctx, other); err != nil {
			return done, fmt.Errorf("the table has %d buckets now, but hoodie.properties says otherwise until the next start: %w", o.Buckets, err)
		}
	}
	return done, nil
}

// carried is what the newest commits say that the next one must say too, with
// the new layout.
func carried(ctx context.Context, v *table.View, p Pins) (map[string]string, error) {
	extra := map[string]string{}
	for _, key := range []string{commitmeta.ExtraCheckpoint, commitmeta.ExtraLastSeq} {
		value, _, found, err := v.Extra(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", key, err)
		}
		if found {
			extra[key] = value
		}
	}
	for _, key := range []string{commitmeta.ExtraMasks, commitmeta.ExtraFilter} {
		value, _, err := ownNote(ctx, v, key)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", key, err)
		}
		if value != "" {
			extra[key] = value
		}
	}
	maps.Copy(extra, map[string]string{commitmeta.ExtraOrdering: or(p.Ordering, OrderingLeafSum), commitmeta.ExtraLayout: p.encode()})
	return extra, nil
}
