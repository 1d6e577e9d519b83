package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Source reads one topic. Its methods may be called from several goroutines;
// calls of Next wait for each other.
type Source struct {
	opts  Options
	topic *topic

	// mu is held for the whole of a Next. If taking both, take mu first.
	mu      sync.Mutex
	reading *reading
	decode  decoder
	// doubts counts looks at a topic that seems to end before the position.
	doubts int
	// usual is how many changes the last batch had.
	usual int

	calls changes.Calls

	// state guards what other calls share with a Next that is running.
	state  sync.Mutex
	id     string // the topic's, once seen
	warned bool   // that the group cannot be told
}

var _ changes.Source = (*Source)(nil)

// Open prepares to read a topic. It checks the options and leaves talking to the
// brokers to the first call, which repeats what fails.
func Open(o Options) (*Source, error) {
	if err := o.validate(o.Topic); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	t, err := newTopic(&o.Cluster, o.Topic)
	if err != nil {
		return nil, err
	}
	return &Source{opts: o, topic: t}, nil
}

// String is the topic, without credentials.
func (s *Source) String() string { return fmt.Sprintf("kafka topic %q", s.opts.Topic) }

// GoString is String.
func (s *Source) GoString() string { return s.String() }

// Identify implements changes.Source: the incarnation is the topic's id. It
// retries until ctx is done, or until a missing topic has been missing for
// Options.Patience. Leaves is Options.Leaves: messages without leaf revisions
// are refused then.
func (s *Source) Identify(ctx context.Context) (changes.Identity, error) {
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return changes.Identity{}, err
	}
	defer leave()
	id := changes.Identity{Kind: "kafka", Name: s.opts.Topic, Leaves: s.opts.Leaves}
	err = persist(ctx, s.opts, func() (err error) {
		id.Incarnation, _, err = s.topic.describe(ctx)
		return err
	})
	if err == nil {
		s.pin(id.Incarnation)
	}
	return id, err
}

// pin notes the topic's id unless one is known, and returns the one that is.
func (s *Source) pin(found string) string {
	s.state.Lock()
	defer s.state.Unlock()
	if s.id == "" {
		s.id = found
	}
	return s.id
}

// same says whether a topic is the one that was read before.
func (s *Source) same(found string) error {
	if want := s.pin(found); want != found {
		return fmt.Errorf("%w: topic %q has the id %s and had %s", changes.ErrRecreated, s.opts.Topic, found, want)
	}
	return nil
}

// Now implements changes.Source: behind all that is decided.
func (s *Source) Now(ctx context.Context) (changes.Position, error) {
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	var l listing
	err = persist(ctx, s.opts, func() (err error) {
		l, err = s.topic.list(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	p := position{Offsets: map[int32]place{}}
	for part, at := range l.stable {
		p.Offsets[part] = place{Next: at, Epoch: -1}
	}
	return p.text(), nil
}

// Committed tells the group, if there is one, that the table holds everything up
// to a position. A failure is reported once and is no error: the offsets that
// count are in the table.
func (s *Source) Committed(ctx context.Context, at changes.Position) error {
	if s.opts.Group == "" {
		return nil
	}
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	p, err := parsePosition(at)
	if err == nil {
		offsets := kadm.Offsets{}
		for part, at := range p.Offsets {
			offsets.AddOffset(s.opts.Topic, part, at.Next, at.Epoch)
		}
		err = s.topic.admin.CommitAllOffsets(ctx, s.opts.Group, offsets)
	}
	s.state.Lock()
	first := err != nil && !s.warned && !s.calls.Ended()
	s.warned = err != nil
	s.state.Unlock()
	if first {
		s.opts.Events.warned(fmt.Sprintf("group %q cannot be told the offsets, which only tools that show the lag need: %v", s.opts.Group, err))
	}
	return nil
}

// Close ends all calls, which return ErrClosed, and the connections. Closing
// twice is harmless.
func (s *Source) Close() error {
	s.calls.End(ErrClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangUp()
	s.topic.client.Close()
	return nil
}

func (s *Source) hangUp() {
	if s.reading != nil {
		s.reading.client.Close()
		s.reading = nil
	}
}
