package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/changes"
)

// ProducerOptions say into what a source is written and how. The zero value of
// each field but Cluster, Topic and Partition is its default.
type ProducerOptions struct {
	Cluster
	Topic string
	// Partition is the partition of an id among n.
	Partition func(id string, n int) int
	// Partitions, Copies and Settings are for a topic that does not exist; 16
	// partitions, as many copies as the brokers make by default, and what sane
	// settings are.
	Partitions int
	Copies     int
	Settings   map[string]string
	// Interval is how long changes are gathered after the first; 1 s by default.
	Interval time.Duration
	// Once ends Run when the source has nothing more.
	Once bool
	// Memory bounds, in bytes, the batches and what waits to be sent. 256 MiB by
	// default, of which a part is used.
	Memory int64
	// MaxMessage is the largest message, in bytes, of a topic that is made. 16 MiB
	// by default.
	MaxMessage int
	// Written is told of each transaction that is complete.
	Written func(Written)
	// Events are told what happens.
	Events Events
	// Sleep waits between two attempts; for tests.
	Sleep func(context.Context, time.Duration) error
}

// Written says what a transaction wrote.
type Written struct {
	// Rows are the documents' messages, Bytes those of their values before packing.
	Rows, Bytes int64
	// Seq is the source's position behind it.
	Seq string
	// Pending is the source's estimate of the rows still to come.
	Pending int64
	// CaughtUp says that the source had nothing more.
	CaughtUp bool
	// Took is how long the transaction took.
	Took time.Duration
}

const (
	defaultPartitions = 16
	defaultInterval   = time.Second
	defaultMaxMessage = 16 << 20
	// brokersMaxMessage is what brokers take when a topic says nothing else.
	brokersMaxMessage = 1 << 20
	// batchShare is the part of the memory that the changes of one transaction may
	// take, sendShare the part of their messages.
	batchShare, sendShare = 16, 8
	mostRows              = 20_000
	// quietMarker is how often markers are written when there are no rows.
	quietMarker = time.Minute
	// transactionTimeout is after what time the brokers end a transaction that
	// nobody ends.
	transactionTimeout = time.Minute
	// idle is how long the source waits for a first row.
	idle = 10 * time.Second
)

func (o ProducerOptions) withDefaults() ProducerOptions {
	if o.Partitions <= 0 {
		o.Partitions = defaultPartitions
	}
	if o.Copies <= 0 {
		o.Copies = -1
	}
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = defaultMaxMessage
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	return o
}

// ErrFenced is of the class changes.ErrBusy: another producer writes the topic now.
var ErrFenced = fmt.Errorf("another producer took this topic over: %w", changes.ErrBusy)

// Producer writes what a source says into a topic, each batch as one transaction
// with the source's position.
type Producer struct {
	o      ProducerOptions
	source changes.Source
	topic  *topic

	// The rest is of one session: what the topic said when it began.
	client     *kgo.Client
	partitions []int32
	from       origin
	at         marker
	// purged are the documents of the last list of purges, which the server bounds.
	purged   map[string]bool
	followed bool // the source had nothing more once
	wrote    time.Time
	opened   time.Time // when the last transaction was begun
	buf      []byte
}

// NewProducer prepares to write source into a topic; Run talks to the brokers.
func NewProducer(source changes.Source, o ProducerOptions) (*Producer, error) {
	if err := o.validate(o.Topic); err != nil {
		return nil, err
	}
	if o.Partition == nil {
		return nil, fmt.Errorf("%w: no Partition", ErrOptions)
	}
	o = o.withDefaults()
	t, err := newTopic(&o.Cluster, o.Topic)
	if err != nil {
		return nil, err
	}
	return &Producer{o: o, source: source, topic: t}, nil
}

// Close ends the connections; the source stays open. Run must have returned.
func (p *Producer) Close() error {
	p.hangUp()
	p.topic.client.Close()
	return nil
}

func (p *Producer) hangUp() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// sourceError is one of the source, which has tried again by itself.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// Run writes until ctx is done, or with Once until the source has nothing more.
// What fails is begun anew, from what the topic holds: a batch whose fate is not
// known is there whole or not at all. ErrFenced, of class changes.ErrBusy, says
// that another producer began to write the topic.
func (p *Producer) Run(ctx context.Context) error {
	for failures := 1; ; failures++ {
		before := p.wrote
		err := p.begin(ctx)
		if err == nil {
			err = p.follow(ctx)
		}
		p.hangUp()
		if err == nil {
			return nil
		}
		if end := p.verdict(ctx, err); end != nil {
			return end
		}
		if p.wrote != before {
			failures = 1
		}
		wait := pause(failures)
		p.o.Events.retried(err, wait)
		if p.o.Sleep(ctx, wait) != nil {
			return gone(ctx)
		}
	}
}

// verdict is the error to end with, nil when it is worth to begin anew.
func (p *Producer) verdict(ctx context.Context, err error) error {
	var of sourceError
	switch {
	case ctx.Err() != nil:
		return gone(ctx)
	case errors.As(err, &of):
		return of.error
	case fenced(err) && time.Since(p.opened) < transactionTimeout:
		return fmt.Errorf("topic %q: %w: %w", p.o.Topic, ErrFenced, err)
	case fenced(err): // the brokers ended a transaction that took too long
		return nil
	case final(err):
		return named(p.o.Topic, err)
	}
	return nil
}

// begin takes the topic over from whoever wrote it, and finds where to go on.
func (p *Producer) begin(ctx context.Context) (err error) {
	p.hangUp()
	id, err := p.source.Identify(ctx)
	if err != nil {
		return sourceError{fmt.Errorf("identify source: %w", err)}
	}
	p.from = origin{Name: id.Name, Incarnation: id.Incarnation}
	if _, p.partitions, err = p.topic.describe(ctx); missing(err) {
		err = p.create(ctx)
	}
	if err != nil {
		return err
	}
	largest := p.largest(ctx)
	p.client, err = p.o.client(kgo.TransactionalID("couch2hudi-"+p.o.Topic), kgo.TransactionTimeout(transactionTimeout), kgo.DefaultProduceTopic(p.o.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(largest)), kgo.MaxBufferedBytes(int(p.o.Memory/sendShare)), kgo.MaxBufferedRecords(2*mostRows),
		kgo.RecordDeliveryTimeout(transactionTimeout), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	if _, _, err = p.client.ProducerID(ctx); err != nil { // from here on whoever wrote before is fenced
		return fmt.Errorf("take topic %q over: %w", p.o.Topic, err)
	}
	last, from, found, err := p.lastMarker(ctx)
	if err != nil {
		return err
	}
	p.at = marker{PurgeSeq: id.PurgeSeq}
	if !found {
		return nil
	}
	if from != p.from {
		return fmt.Errorf("%w: topic %q holds database %q, created at %q; the source is %q, created at %q: a topic holds one database, produce this one into another",
			changes.ErrRecreated, p.o.Topic, from.Name, from.Incarnation, p.from.Name, p.from.Incarnation)
	}
	p.at = last
	if p.o.Events.Resumed != nil {
		p.o.Events.Resumed(last.Seq)
	}
	return nil
}

// create makes the topic. That somebody else was quicker is fine.
func (p *Producer) create(ctx context.Context) error {
	text := func(s string) *string { return &s }
	settings := map[string]*string{"cleanup.policy": text("compact"), "max.message.bytes": text(strconv.Itoa(p.o.MaxMessage)), "compression.type": text("producer")}
	for name, value := range p.o.Settings {
		settings[name] = text(value)
	}
	_, err := p.topic.admin.CreateTopic(ctx, int32(p.o.Partitions), int16(p.o.Copies), settings, p.o.Topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		err = fmt.Errorf("make topic %q: %w", p.o.Topic, err)
		var of *kerr.Error
		if errors.As(err, &of) && !of.Retriable {
			err = fmt.Errorf("%w: %w", ErrOptions, err)
		}
		return err
	}
	if err == nil && p.o.Events.Created != nil {
		p.o.Events.Created(p.o.Topic, p.o.Partitions)
	}
	_, p.partitions, err = p.topic.describe(ctx)
	return err
}

// largest is how large a batch of messages the topic takes; the brokers' default
// where it may not be asked.
func (p *Producer) largest(ctx context.Context) int {
	const slack, most = 1 << 10, 64 << 20
	found, err := p.topic.admin.DescribeTopicConfigs(ctx, p.o.Topic)
	if err == nil {
		for _, of := range found {
			for _, c := range of.Configs {
				var n int
				if c.Key == "max.message.bytes" && c.Value != nil {
					if _, err := fmt.Sscan(*c.Value, &n); err == nil && n > 2*slack {
						return min(n, most) - slack
					}
				}
			}
		}
	}
	return brokersMaxMessage - slack
}

// follow writes batches until the source has nothing more, with Once.
func (p *Producer) follow(ctx context.Context) error {
	if err := p.purges(ctx); err != nil {
		return err
	}
	for {
		limit := changes.Limit{Rows: mostRows, Bytes: max(1, p.o.Memory/batchShare), Wait: p.o.Interval}
		if p.followed && !p.o.Once {
			limit.Idle = idle
		}
		b, err := p.source.Next(ctx, changes.Position(p.at.Seq), limit)
		if err != nil {
			return sourceError{fmt.Errorf("read %q: %w", p.from.Name, err)}
		}
		if err := p.reread(ctx, &b); err != nil {
			return err
		}
		quiet := b.CaughtUp && (p.o.Once || time.Since(p.wrote) >= quietMarker)
		if moved := string(b.Last) != p.at.Seq; len(b.Changes) > 0 || moved && quiet {
			next := marker{Seq: string(b.Last), PurgeSeq: p.at.PurgeSeq}
			if err := p.write(ctx, &b, next); err != nil {
				return err
			}
		}
		if err := p.purges(ctx); err != nil {
			return err
		}
		p.followed = p.followed || b.CaughtUp
		if p.o.Once && b.CaughtUp {
			return nil
		}
	}
}

// write is one transaction: the batch's messages, then a marker in every partition.
func (p *Producer) write(ctx context.Context, b *changes.Batch, next marker) error {
	began := time.Now()
	next.N, p.opened = max(p.at.N+1, began.UnixMilli()), began
	var err error
	if _, p.partitions, err = p.topic.describe(ctx); err != nil {
		return err
	}
	if err := p.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction on topic %q: %w", p.o.Topic, err)
	}
	size, err := p.send(ctx, b, next)
	if err == nil {
		err = p.client.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil {
		// Should this fail too: the next begin ends it, by the same id.
		const patience = 5 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if p.client.AbortBufferedRecords(ctx) == nil && !fenced(err) {
			_ = p.client.EndTransaction(ctx, kgo.TryAbort)
		}
		return fmt.Errorf("write to topic %q: %w", p.o.Topic, err)
	}
	p.at, p.wrote = next, time.Now()
	if p.o.Written != nil {
		p.o.Written(Written{Rows: int64(len(b.Changes)), Bytes: size, Seq: next.Seq, Pending: b.Pending, CaughtUp: b.CaughtUp, Took: time.Since(began)})
	}
	return nil
}

// send writes the messages of an open transaction and waits for all of them.
func (p *Producer) send(ctx context.Context, b *changes.Batch, next marker) (size int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := func(r *kgo.Record, err error) {
		if err != nil {
			cancel(explain(r, err))
		}
	}
	plain, bad, last := headers(p.from, ""), headers(p.from, typeDefect), headers(p.from, typeMarker)
	for i := range b.Changes {
		c := &b.Changes[i]
		r := &kgo.Record{Key: []byte(c.ID), Headers: plain, Partition: int32(p.o.Partition(c.ID, len(p.partitions)))}
		if c.Defect != "" {
			r.Headers = bad
			if r.Value, err = json.Marshal(defect{ID: c.ID, Seq: c.Seq, Defect: c.Defect, Raw: c.Raw}); err != nil {
				return size, fmt.Errorf("render a broken row: %w", err)
			}
		} else {
			p.buf = encodeChange(p.buf[:0], c)
			r.Value = slices.Clone(p.buf)
		}
		size += int64(len(r.Value))
		p.client.Produce(ctx, r, done)
		if ctx.Err() != nil {
			break
		}
	}
	value, err := json.Marshal(next)
	if err != nil {
		return size, fmt.Errorf("render a marker: %w", err)
	}
	for _, part := range p.partitions {
		p.client.Produce(ctx, &kgo.Record{Key: []byte(markerKey), Value: value, Headers: last, Partition: part}, done)
	}
	if err := p.client.Flush(ctx); err != nil || ctx.Err() != nil {
		return size, gone(ctx)
	}
	return size, nil
}

// explain says which message was not taken, and what helps.
func explain(r *kgo.Record, err error) error {
	if errors.Is(err, kerr.MessageTooLarge) {
		return fmt.Errorf("document %q, with %d bytes, is larger than the topic takes; raise the topic's max.message.bytes, and then start again: %w", clip(string(r.Key)), len(r.Value), err)
	}
	return err
}
