package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/changes/kafka"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// newest are the newest states by id, as a table has them: by the sum of the leaves'
// generations, in whatever order the messages came.
func newest(cs []changes.Change) map[string]changes.Change {
	sum := func(c changes.Change) (n int64) {
		for _, l := range c.Leaves {
			n += l.Generation
		}
		return n
	}
	out := map[string]changes.Change{}
	for _, c := range cs {
		if before, there := out[c.ID]; !there || sum(c) >= sum(before) {
			out[c.ID] = c
		}
	}
	return out
}

// equal compares the newest states of all messages with the revision trees.
func (c *chain) equal(t *testing.T, what string) {
	t.Helper()
	all, _ := drain(t, open(t, c.world), "")
	got, n := newest(all), 0
	for d := range c.db.Docs() {
		n++
		if rev := d.Winner().Rev.String(); got[d.ID].Rev.String() != rev || got[d.ID].Deleted != d.Deleted() {
			t.Errorf("%s: %q is %s in the topic, want %s", what, d.ID, got[d.ID].Rev, rev)
		}
	}
	if len(got) != n {
		t.Errorf("%s: %d documents, want %d", what, len(got), n)
	}
}

// A feed of a copy that is behind brings old states once more: no reader takes them
// for newer, and once it is healed, they are not the last ones of the topic either.
func TestProducerBesideStaleCopy(t *testing.T) {
	c := newChain(t, 3)
	r := rand.New(rand.NewPCG(5, 6))
	c.fill(t, r, 80)
	c.once(t)
	past := c.db.Snapshot()
	c.fill(t, r, 80)
	c.once(t)
	_, before := drain(t, open(t, c.world), "")
	c.db.ServeStale(past)
	c.db.FailOver()
	c.once(t)
	if cs, _ := drain(t, open(t, c.world), before.Last); len(cs) == 0 {
		t.Fatal("the copy's states never came")
	}
	c.equal(t, "beside a stale copy")
	c.fill(t, r, 40) // nobody is told of them yet
	c.db.FailOver()
	c.once(t)
	c.db.Heal()
	c.once(t)
	c.equal(t, "healed")
	c.same(t)
	c.cluster.Compact()
	c.equal(t, "compacted")
}

// between is a source with something between two calls.
type between struct {
	changes.Purger
	call func()
}

// Next implements changes.Source.
func (b between) Next(ctx context.Context, after changes.Position, l changes.Limit) (changes.Batch, error) {
	b.call()
	l.Rows = 30
	return b.Purger.Next(ctx, after, l)
}

// Whatever happens to the feed in the middle of the transactions: each state is in
// the topic, and nothing is there that the database did not show.
func TestProducerSurvives(t *testing.T) {
	feed := couchfake.Match{Endpoint: couchfake.Changes}
	spoil := func(sp couchfake.Spoil) func(*chain) func(int) {
		return func(c *chain) func(int) {
			c.server.Control(feed, sp, 4)
			return func(int) {}
		}
	}
	for name, prepare := range map[string]func(*chain) func(int){
		"cut":        spoil(couchfake.Spoil{Rows: 20, Cut: true}),
		"cut line":   spoil(couchfake.Spoil{Bytes: 2000, Cut: true}),
		"overloaded": spoil(couchfake.Spoil{Status: 503}),
		"seq null":   spoil(couchfake.Spoil{NullSeq: true}),
		"rewind": func(c *chain) func(int) {
			return func(n int) {
				if n == 3 {
					c.db.FailOver()
				}
			}
		},
		"rewind of a shard": func(c *chain) func(int) {
			return func(n int) {
				if n%2 == 1 && n < 8 {
					c.db.Rewind(0, 3)
				}
			}
		},
		"restart": func(c *chain) func(int) {
			return func(n int) {
				if n == 2 || n == 4 {
					_ = c.server.Stop()
					_ = c.server.Restart()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, 3)
			c.fill(t, rand.New(rand.NewPCG(8, 9)), 200)
			n, happen := 0, prepare(c)
			err := c.produced(t, func() {
				n++
				happen(n)
			})
			if err != nil || n < 4 {
				t.Fatalf("%d batches, %v", n, err)
			}
			c.equal(t, name)
			c.once(t)
			c.same(t)
		})
	}
}

// produced runs a producer once, with a call before each of its batches.
func (c *chain) produced(t *testing.T, call func()) error {
	t.Helper()
	src, err := couchdb.Open(t.Context(), couchdb.Options{URL: c.server.URL() + "/shop", Heartbeat: 200 * time.Millisecond, SeqInterval: 1,
		Sleep: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	p, err := kafka.NewProducer(between{src, call}, c.producer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return p.Run(ctx)
}

// Another database in the place of the one that is being produced ends it, and
// nothing of the other one is in the topic.
func TestProducerRecreatedMeanwhile(t *testing.T) {
	c := newChain(t, 2)
	c.fill(t, rand.New(rand.NewPCG(1, 2)), 150)
	n := 0
	err := c.produced(t, func() {
		if n++; n != 3 {
			return
		}
		db, err := c.server.Recreate("shop")
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := db.Put("other", []byte(`{}`)); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, changes.ErrRecreated) || !strings.Contains(err.Error(), "shop") {
		t.Errorf("got %v", err)
	}
	all, _ := drain(t, open(t, c.world), "")
	if _, there := newest(all)["other"]; there || len(all) == 0 {
		t.Errorf("%d messages, the other database's among them: %t", len(all), there)
	}
}

// Members that join and leave the named group, and the rebalances that this takes, are
// nothing to a reader that joins none: it has each row once, and goes on.
func TestGroupRebalances(t *testing.T) {
	w := newWorld(t, 4)
	w.opts.Group = "tables"
	var mu sync.Mutex
	var warned []string
	w.opts.Events.Warned = func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, reason)
	}
	src, ok := open(t, w).(*kafka.Source)
	if !ok {
		t.Fatal("no *kafka.Source")
	}
	seen := map[string]int{}
	var at changes.Position
	var members []*kgo.Client
	for round := range 6 {
		for i := range 40 {
			w.Put(t, fmt.Sprintf("%d-%d", round, i), `{}`)
		}
		b, err := next(t, src, at, changes.Limit{Rows: 15})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range b.Changes {
			seen[c.ID]++
		}
		at = b.Last
		if round < 4 { // in the middle of what was read: all partitions are given anew
			assigned := make(chan struct{}, 1)
			m := w.connect(t, kgo.ConsumerGroup("tables"), kgo.ConsumeTopics(topicName), kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
				select {
				case assigned <- struct{}{}:
				default:
				}
			}))
			members = append(members, m)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			for done := false; !done; {
				poll, end := context.WithTimeout(ctx, 20*time.Millisecond)
				for _, m := range members { // who does not ask is not told of a rebalance
					m.PollFetches(poll)
				}
				end()
				select {
				case <-assigned:
					done = true
				default:
					done = ctx.Err() != nil
				}
			}
			cancel()
		} else {
			for _, m := range members[:len(members)/2] {
				m.LeaveGroup()
			}
			members = members[len(members)/2:]
		}
		if err := src.Committed(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		rest, last := drain(t, src, at)
		for _, c := range rest {
			seen[c.ID]++
		}
		at = last.Last
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%q was read %d times", id, n)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 6*40 || len(warned) > 1 {
		t.Errorf("%d rows, warned %q", len(seen), warned)
	}
}
