package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/changes/kafka"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// chain is a database, a producer and a topic.
type chain struct {
	*world
	server   *couchfake.Server
	db       *couchfake.Database
	producer kafka.ProducerOptions
}

func newChain(t *testing.T, partitions int32) *chain {
	t.Helper()
	s, err := couchfake.Start(couchfake.Options{Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db, err := s.Create("shop")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, partitions)
	return &chain{world: w, server: s, db: db, producer: kafka.ProducerOptions{Cluster: w.opts.Cluster, Topic: topicName, Once: true,
		Partition: func(id string, n int) int {
			h := fnv.New32a()
			_, _ = h.Write([]byte(id))
			return int(h.Sum32() % uint32(n))
		},
		Interval: 10 * time.Millisecond}}
}

func (c *chain) source(t *testing.T) changes.Source {
	t.Helper()
	src, err := couchdb.Open(t.Context(), couchdb.Options{URL: c.server.URL() + "/shop", Heartbeat: 200 * time.Millisecond, SeqInterval: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Close() })
	return src
}

// produce runs a producer until ctx is done, or all is written.
func (c *chain) produce(t *testing.T, ctx context.Context, o kafka.ProducerOptions) error { //nolint:revive // t first, as everywhere in tests
	t.Helper()
	p, err := kafka.NewProducer(c.source(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	return p.Run(ctx)
}

func (c *chain) once(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.produce(t, ctx, c.producer); err != nil {
		t.Fatal(err)
	}
}

// states are the newest states by id, as "rev body"; they stand in each other's order.
func states(cs []changes.Change) map[string]string {
	out := map[string]string{}
	for _, c := range cs {
		out[c.ID] = fmt.Sprintf("%s %v %t %t %s", c.Rev, c.Leaves, c.Deleted, c.Absent, c.Body)
	}
	return out
}

// fill writes n documents and edits, conflicts and deletions among them.
func (c *chain) fill(t *testing.T, r *rand.Rand, n int) {
	t.Helper()
	for range n {
		id := fmt.Sprintf("doc \"%d\"/ü", r.IntN(n))
		doc, there := c.db.Doc(id)
		var err error
		switch dice := r.IntN(8); {
		case dice == 0 && there && !doc.Deleted():
			_, err = c.db.Delete(id)
		case dice == 1 && there:
			err = c.db.Replicate(id, []couchfake.Rev{{Gen: 1, Hash: fmt.Sprintf("%032x", r.Uint64())}}, []byte(`{"conflict":true}`))
		default:
			_, err = c.db.Put(id, fmt.Appendf(nil, `{"n":%d,"text":"a\u0000\n<é>","deep":{"x":[1,2.50,{}]}}`, r.Int()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// same compares what the topic says with what the database says.
func (c *chain) same(t *testing.T) {
	t.Helper()
	var want []changes.Change
	src := c.source(t)
	for after := changes.Position(""); ; {
		b, err := next(t, src, after, changes.Limit{})
		if err != nil {
			t.Fatal(err)
		}
		want, after = append(want, b.Changes...), b.Last
		if b.CaughtUp {
			break
		}
	}
	got, last := drain(t, open(t, c.world), "")
	w, g := states(want), states(got)
	for id, state := range w {
		if g[id] != state {
			t.Errorf("%s: the topic says\n%s, want\n%s", id, g[id], state)
		}
	}
	if len(g) != len(w) {
		t.Errorf("%d documents, want %d", len(g), len(w))
	}
	now, err := src.Now(t.Context())
	if err != nil || last.Seq == "" || strings.SplitN(last.Seq, "-", 2)[0] != strings.SplitN(string(now), "-", 2)[0] {
		t.Errorf("last_seq %q, the database is at %q, %v", last.Seq, now, err)
	}
}

// What the topic says is what the database says, revision by revision.
func TestProduced(t *testing.T) {
	c := newChain(t, 3)
	c.fill(t, rand.New(rand.NewPCG(1, 2)), 300)
	c.once(t)
	c.same(t)
	c.fill(t, rand.New(rand.NewPCG(3, 4)), 100)
	c.once(t)
	c.same(t)
	// Nothing new: no message but markers, the sequence's text may be another one.
	_, before := drain(t, open(t, c.world), "")
	c.once(t)
	if cs, _ := drain(t, open(t, c.world), before.Last); len(cs) > 0 {
		t.Errorf("again: %v", ids(cs))
	}
}

// A message is as docs/kafka.md says.
func TestFormat(t *testing.T) {
	c := newChain(t, 1)
	rev, err := c.db.Put("a\"é", []byte(`{"x": 1.0,  "y":2}`))
	if err != nil {
		t.Fatal(err)
	}
	c.once(t)
	reader := c.connect(t, kgo.ConsumeTopics(topicName), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := reader.PollFetches(ctx).Records()
	if len(got) != 2 {
		t.Fatalf("%d messages", len(got))
	}
	value := string(got[0].Value)
	if want := fmt.Sprintf(`{"_id":"a\"é","_rev":"%s","_leaves":["%s"],"_seq":"`, rev, rev); !strings.HasPrefix(value, want) || string(got[0].Key) != "a\"é" {
		t.Errorf("%s: %s, want %s", got[0].Key, value, want)
	}
	if string(got[1].Key) != "_couch2hudi/marker" || !strings.Contains(string(got[1].Value), `"_seq":"1-`) || !strings.HasPrefix(string(got[1].Value), `{"n":`) {
		t.Errorf("%s: %s", got[1].Key, got[1].Value)
	}
	var names []string
	for _, h := range got[1].Headers {
		names = append(names, h.Key)
	}
	if !slices.Equal(names, []string{"couch2hudi", "couch2hudi.db", "couch2hudi.incarnation", "couch2hudi.type"}) {
		t.Errorf("headers %v", names)
	}
}

// A topic that does not exist is made.
func TestCreates(t *testing.T) {
	c := newChain(t, 1)
	c.producer.Topic, c.opts.Topic = "fresh", "fresh"
	c.producer.Partitions, c.producer.Copies, c.producer.Settings = 5, 1, map[string]string{"retention.ms": "1000000"}
	made := 0
	c.producer.Events.Created = func(topic string, n int) {
		if topic == "fresh" {
			made += n
		}
	}
	c.fill(t, rand.New(rand.NewPCG(1, 2)), 20)
	c.once(t)
	c.once(t)
	c.same(t)
	found, err := c.admin().DescribeTopicConfigs(t.Context(), "fresh")
	if err != nil || made != 5 {
		t.Fatalf("made %d, %v", made, err)
	}
	settings := map[string]string{}
	for _, s := range found[0].Configs {
		settings[s.Key] = s.MaybeValue()
	}
	if settings["cleanup.policy"] != "compact" || settings["max.message.bytes"] != "16777216" || settings["retention.ms"] != "1000000" {
		t.Errorf("settings %v", settings)
	}
}

// A second producer takes the topic over; the first one ends, and its rows are
// there once.
func TestFenced(t *testing.T) {
	c := newChain(t, 2)
	c.fill(t, rand.New(rand.NewPCG(1, 2)), 50)
	o := c.producer
	o.Once = false
	written := make(chan kafka.Written, 100)
	o.Written = func(w kafka.Written) { written <- w }
	ended := make(chan error, 1)
	go func() { ended <- c.produce(t, t.Context(), o) }()
	<-written
	c.once(t) // takes over
	if _, err := c.db.Put("later", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, kafka.ErrFenced) || !errors.Is(err, changes.ErrBusy) {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the first producer goes on")
	}
	c.once(t)
	c.same(t)
}

// Brokers that fail in the middle of a transaction cost nothing.
func TestProducerRetries(t *testing.T) {
	for name, f := range map[string]kfake.Fault{
		"produce": {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: 3},
		"storage": {Keys: []kmsg.Key{kmsg.Produce}, Topic: topicName, Err: kerr.KafkaStorageError, Count: 2},
		// A full disk, at each step that writes.
		"full":     {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.KafkaStorageError, Count: 5},
		"full end": {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.KafkaStorageError, Count: 2},
		"full add": {Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Err: kerr.KafkaStorageError, Count: 2},
		"lost":     {Keys: []kmsg.Key{kmsg.Produce}, Topic: topicName, Err: kerr.UnknownProducerID, Count: 1},
		"end":      {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, Count: 1},
		"init":     {Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorNotAvailable, Count: 3},
		"metadata": {Keys: []kmsg.Key{kmsg.Metadata}, Topic: topicName, Err: kerr.LeaderNotAvailable, Count: 3},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, 3)
			c.producer.Sleep = func(context.Context, time.Duration) error { return nil }
			c.fill(t, rand.New(rand.NewPCG(1, 2)), 60)
			c.cluster.Fault(f)
			c.once(t)
			c.same(t)
		})
	}
}

// A producer that is stopped at any moment leaves a batch whole or not at all.
func TestProducerStopped(t *testing.T) {
	c := newChain(t, 3)
	r := rand.New(rand.NewPCG(7, 8))
	for range 12 {
		c.fill(t, r, 40)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(40))*time.Millisecond)
		if err := c.produce(t, ctx, c.producer); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		cancel()
	}
	c.once(t)
	c.same(t)
}

// The topic of one database takes no other's.
func TestProducerOtherDatabase(t *testing.T) {
	c := newChain(t, 1)
	c.fill(t, rand.New(rand.NewPCG(1, 2)), 5)
	c.once(t)
	if _, err := c.server.Recreate("shop"); err != nil {
		t.Fatal(err)
	}
	if err := c.produce(t, t.Context(), c.producer); !errors.Is(err, changes.ErrRecreated) || !strings.Contains(err.Error(), "into another") {
		t.Errorf("got %v", err)
	}
}

// A document that does not fit is an error that names it, and nothing of its
// batch is seen.
func TestProducerTooLarge(t *testing.T) {
	c := newChain(t, 1)
	c.producer.Topic, c.opts.Topic, c.producer.Copies = "small", "small", 1
	c.producer.MaxMessage = 1 << 16
	if _, err := c.db.Put("huge", fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 1<<17))); err != nil {
		t.Fatal(err)
	}
	err := c.produce(t, t.Context(), c.producer)
	if err == nil || !errors.Is(err, kerr.MessageTooLarge) || !strings.Contains(err.Error(), `"huge"`) || !strings.Contains(err.Error(), "max.message.bytes") {
		t.Errorf("got %v", err)
	}
	if cs, _ := drain(t, open(t, c.world), ""); len(cs) > 0 {
		t.Errorf("got %v", ids(cs))
	}
}

// Purges are told of once, and what is born again after one is delivered.
func TestProducerPurges(t *testing.T) {
	c := newChain(t, 2)
	for _, id := range []string{"a", "b", "c"} {
		if _, err := c.db.Put(id, []byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	c.once(t)
	_, before := drain(t, open(t, c.world), "")
	for _, id := range []string{"a", "b"} {
		if gone := c.db.Purge(id); len(gone) != 1 {
			t.Fatalf("purged %v", gone)
		}
	}
	if _, err := c.db.Put("b", []byte(`{"n":2}`)); err != nil {
		t.Fatal(err)
	}
	c.once(t)
	cs, _ := drain(t, open(t, c.world), before.Last)
	purged := map[string]bool{}
	for _, change := range cs {
		if change.Purged {
			purged[change.ID] = change.Absent
		}
	}
	if len(purged) != 2 || !purged["a"] || purged["b"] {
		t.Errorf("purged (absent): %v of %d changes", purged, len(cs))
	}
	_, before = drain(t, open(t, c.world), "")
	c.once(t)
	if cs, _ := drain(t, open(t, c.world), before.Last); len(cs) > 0 {
		t.Errorf("the purges were told of again: %v", ids(cs))
	}
}
