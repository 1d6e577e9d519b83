package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Cluster says which brokers to speak to, and how. The zero value of each field
// but Brokers is its default.
type Cluster struct {
	// Brokers are host:port of some of the cluster's.
	Brokers []string
	// User and Password are those of SASL; an empty User speaks none.
	User, Password string
	// Mechanism is SASLPlain by default.
	Mechanism string
	// TLS is the configuration of connections; nil makes plain ones.
	TLS *tls.Config
}

// Mechanisms of SASL.
const (
	SASLPlain       = "plain"
	SASLScramSHA256 = "scram-sha-256"
	SASLScramSHA512 = "scram-sha-512"
)

// ErrOptions marks options that cannot be used.
var ErrOptions = errors.New("invalid kafka options")

// Options say what to read and how. The zero value of each field but Cluster and
// Topic is its default.
type Options struct {
	Cluster
	Topic string
	// Group is a consumer group that is told how far the table is; empty for none.
	Group string
	// Leaves refuses messages without leaf revisions, for tables that order by them.
	Leaves bool
	// AcceptGap goes on from what is there when the topic has lost messages that
	// were not read.
	AcceptGap bool
	// Memory bounds, in bytes, what is fetched ahead. 256 MiB by default, of which
	// a part is used.
	Memory int64
	// MaxBatch is the largest batch, in bytes when unpacked, that is read; a larger
	// one is an error. 64 MiB by default.
	MaxBatch int
	// Wait is how long a broker may keep an answer back when it has nothing new.
	// 500 ms by default.
	Wait time.Duration
	// Patience is how long a topic may be missing before that is believed: a broker
	// that starts does not know its topics. 10 s by default.
	Patience time.Duration
	// Events are told what happens.
	Events Events
	// Sleep waits between two attempts; for tests.
	Sleep func(context.Context, time.Duration) error
}

// Events are told what a Source or a Producer does. Every func may be nil. They
// must return quickly and must not call back.
type Events struct {
	// Retried: something temporary failed and is tried again after wait.
	Retried func(err error, wait time.Duration)
	// Gap: messages were lost, and AcceptGap says to go on.
	Gap func(err error)
	// Warned: something works that should not stay as it is.
	Warned func(reason string)
	// Created: the producer made the topic.
	Created func(topic string, partitions int)
	// Resumed: the producer goes on from what the topic holds.
	Resumed func(seq string)
	// Partitions: the topic has more partitions than before.
	Partitions func(n int)
}

func (e Events) retried(err error, wait time.Duration) {
	if e.Retried != nil {
		e.Retried(err, wait)
	}
}

func (e Events) gap(err error) {
	if e.Gap != nil {
		e.Gap(err)
	}
}

func (e Events) warned(reason string) {
	if e.Warned != nil {
		e.Warned(reason)
	}
}

func (e Events) partitions(n int) {
	if e.Partitions != nil {
		e.Partitions(n)
	}
}

const (
	defaultMemory   = 256 << 20
	defaultMaxBatch = 64 << 20
	defaultWait     = 500 * time.Millisecond
	defaultPatience = 10 * time.Second
	// fetchShare is the part of the memory that one packed answer may take: it
	// grows when it is unpacked, and there may be two.
	fetchShare = 64
	leastFetch = 1 << 20
	mostFetch  = 64 << 20
)

func (o Options) withDefaults() Options {
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = defaultMaxBatch
	}
	if o.Wait <= 0 {
		o.Wait = defaultWait
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	return o
}

func (c *Cluster) validate(topic string) error {
	switch {
	case len(c.Brokers) == 0 || slices.Contains(c.Brokers, ""):
		return fmt.Errorf("%w: no brokers", ErrOptions)
	case topic == "":
		return fmt.Errorf("%w: no topic", ErrOptions)
	case c.Mechanism != "" && !slices.Contains([]string{SASLPlain, SASLScramSHA256, SASLScramSHA512}, c.Mechanism):
		return fmt.Errorf("%w: SASL mechanism %q is not known", ErrOptions, c.Mechanism)
	}
	return nil
}

// client opens connections lazily; o is added to what the cluster needs. Without
// fetch sessions: Close of franz-go 1.22 ends each session with no regard to a
// fetch that a metadata update has just begun (a data race), and all that a session
// spares is the names of a few partitions in each fetch.
func (c *Cluster) client(o ...kgo.Opt) (*kgo.Client, error) {
	const retries, timeout, dial = 3, 10 * time.Second, 5 * time.Second
	const slow, fresh = 2 * time.Second, 250 * time.Millisecond
	all := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID("couch2hudi"), kgo.RequestRetries(retries), kgo.RetryTimeout(timeout),
		kgo.DialTimeout(dial), kgo.RetryBackoffFn(func(n int) time.Duration { return min(pause(n), slow) }), kgo.DisableClientMetrics(), kgo.DisableFetchSessions(), kgo.MetadataMinAge(fresh)}
	if c.TLS != nil {
		all = append(all, kgo.DialTLSConfig(c.TLS))
	}
	if c.User != "" {
		all = append(all, kgo.SASL(c.sasl()))
	}
	client, err := kgo.NewClient(append(all, o...)...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return client, nil
}

func (c *Cluster) sasl() sasl.Mechanism {
	s := scram.Auth{User: c.User, Pass: c.Password}
	switch c.Mechanism {
	case SASLScramSHA256:
		return s.AsSha256Mechanism()
	case SASLScramSHA512:
		return s.AsSha512Mechanism()
	}
	return plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()
}

// pause is how long to wait after failure n, from 1.
func pause(n int) time.Duration {
	const first, most, steps = 100 * time.Millisecond, 10 * time.Second, 8
	return min(first<<min(n-1, steps), most)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
