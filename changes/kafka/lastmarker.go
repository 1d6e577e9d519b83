package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lastMarker finds the newest marker that was committed, and whose it is. All
// partitions have it, so the first is read: from its end, in windows that grow.
func (p *Producer) lastMarker(ctx context.Context) (m marker, from origin, found bool, err error) {
	l, err := p.topic.list(ctx)
	if err != nil || len(p.partitions) == 0 {
		return m, from, false, err
	}
	part := p.partitions[0]
	const first, grow = 256, 16
	end := l.stable[part]
	for window := int64(first); ; window *= grow {
		begin := max(l.start[part], end-window)
		if err := p.scan(ctx, part, begin, end, func(r *kgo.Record) {
			k, err := kindOf(r)
			var one marker
			if err == nil && k.ours && k.kind == typeMarker && json.Unmarshal(r.Value, &one) == nil && one.N > m.N {
				m, from, found = one, k.from, true
			}
		}); err != nil {
			return m, from, false, err
		}
		if found || begin == l.start[part] {
			return m, from, found, nil
		}
	}
}

// scan reads one partition from begin up to end.
func (p *Producer) scan(ctx context.Context, part int32, begin, end int64, see func(*kgo.Record)) error {
	if begin >= end {
		return nil
	}
	const wait = 100 * time.Millisecond
	seen := &answers{}
	c, err := p.o.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.o.Topic: {part: kgo.NewOffset().At(begin)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(wait), kgo.FetchMaxBytes(leastFetch),
		kgo.FetchMaxPartitionBytes(leastFetch), kgo.MaxConcurrentFetches(1), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.WithHooks(seen))
	if err != nil {
		return err
	}
	defer c.Close()
	const rounds = 3 // answers with nothing: what stood at the end was compacted away
	for at, quiet := begin, seen.n.Load(); at < end && seen.n.Load()-quiet < rounds; {
		short, cancel := context.WithTimeout(ctx, wait)
		fetched := c.PollRecords(short, defaultRows)
		cancel()
		if ctx.Err() != nil {
			return gone(ctx)
		}
		for _, e := range fetched.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
				return fmt.Errorf("look for the last marker of topic %q: %w", p.o.Topic, e.Err)
			}
		}
		fetched.EachRecord(func(r *kgo.Record) {
			if at = r.Offset + 1; r.Offset < end && !r.Attrs.IsControl() {
				see(r)
			}
			quiet = seen.n.Load()
		})
	}
	return nil
}
