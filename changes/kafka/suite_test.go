package kafka_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/changestest"
	"github.com/couch2hudi/couch2hudi/changes/kafka"
)

const (
	topicName      = "couchdb.binlog"
	warmPartitions = 9
)

// world is a topic of a fake cluster.
type world struct {
	cluster *kfake.Cluster
	client  *kgo.Client
	opts    kafka.Options
	// bare writes messages as other tools do.
	bare bool
	revs map[string]int
}

func newWorld(t *testing.T, partitions int32, o ...kfake.Opt) *world {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, topicName), kfake.SeedTopics(warmPartitions, "warm")}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{cluster: c, revs: map[string]int{}, opts: kafka.Options{Cluster: kafka.Cluster{Brokers: c.ListenAddrs()},
		Topic: topicName, Leaves: true, Wait: 20 * time.Millisecond}}
	w.client = w.connect(t, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ConnIdleTimeout(15*time.Minute))
	w.warm(t)
	return w
}

// warm makes all connections that the world's client will have: the suite counts
// goroutines, of which each connection has some at both ends.
func (w *world) warm(t *testing.T) {
	t.Helper()
	brokers := len(w.cluster.ListenAddrs())
	if brokers > warmPartitions {
		t.Fatalf("%d brokers, and a topic of %d partitions", brokers, warmPartitions)
	}
	for i := range int32(warmPartitions) {
		if err := w.cluster.MoveTopicPartition("warm", i, i%int32(brokers)); err != nil {
			t.Fatal(err)
		}
	}
	// Until each has answered: a broker that leads a partition no more sends elsewhere.
	led := map[int32]bool{}
	for i := 0; len(led) < brokers; i++ {
		r := &kgo.Record{Topic: "warm", Key: []byte{byte(i), byte(i >> 8)}} // any partition
		if err := w.client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		led[r.Partition%int32(brokers)] = true
	}
	for _, b := range append(w.client.DiscoveredBrokers(), w.client.SeedBrokers()...) {
		if _, err := b.Request(t.Context(), kmsg.NewPtrMetadataRequest()); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) connect(t *testing.T, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.DisableFetchSessions()}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (w *world) admin() *kadm.Client { return kadm.NewClient(w.client) }

func (w *world) Open(t *testing.T) changes.Source {
	src, err := kafka.Open(w.opts)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func ours(kind string) []kgo.RecordHeader {
	h := []kgo.RecordHeader{{Key: "couch2hudi", Value: []byte("1")}, {Key: "couch2hudi.db", Value: []byte("shop")},
		{Key: "couch2hudi.incarnation", Value: []byte("17")}}
	if kind != "" {
		h = append(h, kgo.RecordHeader{Key: "couch2hudi.type", Value: []byte(kind)})
	}
	return h
}

// send writes one message, into its key's partition unless one is named.
func (w *world) send(t *testing.T, r *kgo.Record) {
	t.Helper()
	r.Topic = topicName
	if err := w.client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Error(err)
	}
}

func (w *world) put(t *testing.T, id, rev, body string, deleted bool) {
	t.Helper()
	text, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	doc := fmt.Sprintf(`{"_id":%s,"_rev":"%s"`, text, rev)
	if deleted {
		doc += `,"_deleted":true`
	}
	if len(body) > len("{}") {
		doc += "," + body[1:]
	} else {
		doc += "}"
	}
	if w.bare {
		w.send(t, &kgo.Record{Key: []byte(id), Value: []byte(doc)})
		return
	}
	value := fmt.Sprintf(`{"_id":%s,"_rev":"%s","_leaves":["%s"],"_deleted":%t,"doc":%s}`, text, rev, rev, deleted, doc)
	w.send(t, &kgo.Record{Key: []byte(id), Value: []byte(value), Headers: ours("")})
}

func (w *world) Put(t *testing.T, id, body string) {
	w.revs[id]++
	w.put(t, id, fmt.Sprintf("%d-a", w.revs[id]), body, false)
}

func (w *world) Delete(t *testing.T, id string) {
	w.revs[id]++
	w.put(t, id, fmt.Sprintf("%d-d", w.revs[id]), "{}", true)
}

func TestSuite(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) *world{
		"one partition":  func(t *testing.T) *world { return newWorld(t, 1) },
		"five":           func(t *testing.T) *world { return newWorld(t, 5, kfake.NumBrokers(3)) },
		"bare documents": func(t *testing.T) *world { w := newWorld(t, 2); w.bare, w.opts.Leaves = true, false; return w },
	} {
		t.Run(name, func(t *testing.T) {
			changestest.Run(t, func(t *testing.T) changestest.World { return begin(t) })
		})
	}
}
