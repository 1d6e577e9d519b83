package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/couch2hudi/couch2hudi/changes"
)

// listing is what the cluster says of a topic at one moment.
type listing struct {
	// id is the topic's, another one for a topic created again; empty on clusters
	// that have none.
	id string
	// start, stable and end are offsets by partition: of the first message, behind
	// the last one that is decided, and behind the last one.
	start, stable, end map[int32]int64
}

// topic asks one cluster about one topic.
type topic struct {
	name   string
	client *kgo.Client
	admin  *kadm.Client
}

func newTopic(c *Cluster, name string) (*topic, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return &topic{name: name, client: client, admin: kadm.NewClient(client)}, nil
}

// describe reads the topic's id and the numbers of its partitions, from a broker
// and not from the client's memory.
func (t *topic) describe(ctx context.Context) (id string, partitions []int32, err error) {
	ask := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &t.name
	ask.Topics = append(ask.Topics, one)
	found, err := ask.RequestWith(ctx, t.client)
	if err == nil && len(found.Topics) != 1 {
		err = kerr.UnknownTopicOrPartition
	}
	if err == nil {
		err = kerr.ErrorForCode(found.Topics[0].ErrorCode)
	}
	if err != nil {
		return "", nil, fmt.Errorf("describe topic %q: %w", t.name, err)
	}
	for _, p := range found.Topics[0].Partitions {
		partitions = append(partitions, p.Partition)
	}
	slices.Sort(partitions)
	if raw := found.Topics[0].TopicID; raw != [16]byte{} {
		id = uuid.UUID(raw).String()
	}
	return id, partitions, nil
}

// What ListOffsets takes for a time.
const (
	atStart = -2
	atEnd   = -1
)

// list reads all of a listing.
func (t *topic) list(ctx context.Context) (listing, error) {
	id, partitions, err := t.describe(ctx)
	l := listing{id: id}
	if err != nil {
		return l, err
	}
	if l.start, err = t.offsets(ctx, partitions, atStart, false); err != nil {
		return l, err
	}
	if l.stable, err = t.offsets(ctx, partitions, atEnd, true); err != nil {
		return l, err
	}
	l.end, err = t.offsets(ctx, partitions, atEnd, false)
	return l, err
}

// offsets asks each partition for one offset; decided leaves out what stands
// behind the first message of a transaction that is open.
func (t *topic) offsets(ctx context.Context, partitions []int32, when int64, decided bool) (map[int32]int64, error) {
	ask := kmsg.NewPtrListOffsetsRequest()
	ask.ReplicaID = -1
	if decided {
		ask.IsolationLevel = 1
	}
	one := kmsg.NewListOffsetsRequestTopic()
	one.Topic = t.name
	for _, part := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = part, when
		one.Partitions = append(one.Partitions, p)
	}
	ask.Topics = append(ask.Topics, one)
	found := make(map[int32]int64, len(partitions))
	for _, shard := range t.client.RequestSharded(ctx, ask) {
		if shard.Err != nil {
			return nil, fmt.Errorf("list the offsets of topic %q: %w", t.name, shard.Err)
		}
		answer, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if !ok {
			continue
		}
		for _, of := range answer.Topics {
			for _, p := range of.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("list the offsets of topic %q, partition %d: %w", t.name, p.Partition, err)
				}
				found[p.Partition] = p.Offset
			}
		}
	}
	if len(found) != len(partitions) {
		return nil, fmt.Errorf("list the offsets of topic %q: %w", t.name, errNoOffset)
	}
	return found, nil
}

var errNoOffset = errors.New("some partitions gave none")

// persist makes attempts until one succeeds or fails for good. A topic that is
// missing is believed to be after a while.
func persist(ctx context.Context, o Options, attempt func() error) error {
	var since time.Duration
	for n := 1; ; n++ {
		err := attempt()
		switch {
		case err == nil:
			return nil
		case final(err), missing(err) && since >= o.Patience:
			return named(o.Topic, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", gone(ctx), named(o.Topic, err))
		case errors.Is(err, kgo.ErrClientClosed):
			return ErrClosed
		}
		wait := pause(n)
		o.Events.retried(err, wait)
		if o.Sleep(ctx, wait) != nil {
			return fmt.Errorf("%w: %w", gone(ctx), named(o.Topic, err))
		}
		if missing(err) {
			since += wait
		}
	}
}

// shorter says that a partition ends before the place where p goes on.
func (l *listing) shorter(p *position) bool {
	for part, at := range p.Offsets {
		if end, there := l.end[part]; there && at.Next > end {
			return true
		}
	}
	return false
}

// compare says what was lost between a position and what the topic holds, as an
// ErrPosition; nil when nothing. It moves the position past what was lost.
func (l *listing) compare(name string, p *position, fresh bool) error {
	var all error
	for part, start := range l.start {
		at, known := p.Offsets[part]
		switch {
		case !known:
			if start > 0 && !fresh {
				all = errors.Join(all, lost("topic %q has a new partition %d, whose first %d messages are gone", name, part, start))
			}
			at = place{Next: start, Epoch: -1}
		case at.Next < start:
			all = errors.Join(all, lost("topic %q does not hold %d messages of partition %d any more, from offset %d to %d (its retention, or somebody, deleted them)",
				name, start-at.Next, part, at.Next, start-1))
			at.Next, at.Epoch = start, -1
		case at.Next > l.end[part]:
			all = errors.Join(all, lost("partition %d of topic %q ends at offset %d, and the table is at %d: the brokers lost messages, and others have their places now or soon",
				part, name, l.end[part], at.Next))
			at.Next, at.Epoch = l.end[part], -1
		}
		p.Offsets[part] = at
	}
	for part := range p.Offsets {
		if _, there := l.start[part]; !there {
			return fmt.Errorf("topic %q has no partition %d, which the position names: %w", name, part, changes.ErrPosition)
		}
	}
	return all
}

// cut asks the leaders whether they have the messages before a position, which
// another leader may have given: by its epoch. What they lost is an ErrPosition,
// and p goes on where they go on.
func (t *topic) cut(ctx context.Context, p *position) error {
	var ask kadm.OffsetForLeaderEpochRequest
	for part, at := range p.Offsets {
		if at.Epoch >= 0 && at.Next > 0 {
			ask.Add(t.name, part, at.Epoch)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found, err := t.admin.OffsetForLeaderEpoch(ctx, ask)
	if err != nil {
		return fmt.Errorf("ask for the leader epochs of topic %q: %w", t.name, err)
	}
	var all error
	for part, of := range found[t.name] {
		at := p.Offsets[part]
		if of.Err != nil || of.LeaderEpoch < 0 || of.EndOffset < 0 || of.EndOffset >= at.Next {
			continue
		}
		all = errors.Join(all, cutError(t.name, part, at.Next, at.Epoch, of.EndOffset))
		at.Next, at.Epoch = of.EndOffset, of.LeaderEpoch
		p.Offsets[part] = at
	}
	return all
}

func cutError(name string, part int32, next int64, epoch int32, end int64) error {
	return lost("partition %d of topic %q was cut: the table is at offset %d of leader epoch %d, and the brokers lost what is from %d on, "+
		"or have other messages there", part, name, next, epoch, end)
}
