package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/kafka"
)

// patience is how long a call may take that should return at once.
const patience = time.Minute

func open(t *testing.T, w *world) changes.Source {
	t.Helper()
	src := w.Open(t)
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

func next(t *testing.T, src changes.Source, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := src.Next(ctx, after, limit)
	if ctx.Err() != nil {
		t.Fatalf("Next hangs: %v", err)
	}
	return b, err
}

// drain reads to the end.
func drain(t *testing.T, src changes.Source, after changes.Position) (all []changes.Change, last changes.Batch) {
	t.Helper()
	for {
		b, err := next(t, src, after, changes.Limit{})
		if err != nil {
			t.Fatalf("after %s: %v", after, err)
		}
		all, after = append(all, b.Changes...), b.Last
		if b.CaughtUp {
			return all, b
		}
	}
}

func ids(cs []changes.Change) []string {
	var out []string
	for _, c := range cs {
		out = append(out, c.ID)
	}
	slices.Sort(out)
	return out
}

// placed makes the world's producer write into the partition that a record names.
func (w *world) placed(t *testing.T) *world {
	w.client = w.connect(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return w
}

func (w *world) mark(t *testing.T, part int32, n int, seq string) {
	w.send(t, &kgo.Record{Partition: part, Key: []byte("_couch2hudi/marker"), Headers: ours("marker"),
		Value: fmt.Appendf(nil, `{"n":%d,"_seq":%q}`, n, seq)})
}

// Seq is that of the newest marker that every partition has passed, whatever
// comes twice, late, or not everywhere.
func TestMarkers(t *testing.T) {
	w := newWorld(t, 3).placed(t)
	src := open(t, w)
	at, seq := changes.Position(""), ""
	for i, step := range []struct {
		marks map[int32][]int
		want  string
	}{
		{map[int32][]int{0: {1}, 1: {1}}, ""},
		{map[int32][]int{2: {1, 1}}, "s1"},
		{map[int32][]int{0: {2, 3}, 1: {3}}, "s1"},
		{map[int32][]int{2: {2, 1}}, "s2"},
		{map[int32][]int{0: {3, 2}, 2: {1, 3, 3}}, "s3"},
		{map[int32][]int{0: {7}, 1: {9}, 2: {8}}, "s7"},
	} {
		for part, ns := range step.marks {
			for _, n := range ns {
				w.mark(t, part, n, fmt.Sprintf("s%d", n))
			}
		}
		cs, b := drain(t, src, at)
		if b.Seq != step.want || len(cs) > 0 {
			t.Errorf("step %d: seq %q and %d changes, want %q", i, b.Seq, len(cs), step.want)
		}
		at, seq = b.Last, b.Seq
	}
	// What is remembered is in the position.
	if _, b := drain(t, open(t, w), at); b.Seq != seq || b.Last != at {
		t.Errorf("a new source: seq %q at %s, want %q at %s", b.Seq, b.Last, seq, at)
	}
	// A partition that is new has passed none.
	if _, err := w.admin().CreatePartitions(t.Context(), 1, topicName); err != nil {
		t.Fatal(err)
	}
	if _, b := drain(t, src, at); b.Seq != "" || !strings.Contains(string(b.Last), `"3":`) {
		t.Errorf("with a new partition: seq %q at %s", b.Seq, b.Last)
	}
}

// Messages that were deleted before they were read are an ErrPosition, or a gap
// that is accepted.
func TestRetention(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 10 {
		w.Put(t, fmt.Sprintf("doc%d", i), `{}`)
	}
	b, err := next(t, open(t, w), "", changes.Limit{Rows: 3})
	if err != nil || len(b.Changes) != 3 {
		t.Fatal(err, len(b.Changes))
	}
	if err := w.cluster.DeleteRecords(topicName, 0, 7); err != nil {
		t.Fatal(err)
	}
	_, err = next(t, open(t, w), b.Last, changes.Limit{})
	if !errors.Is(err, changes.ErrPosition) || !strings.Contains(err.Error(), "--accept-gap") || !strings.Contains(err.Error(), "from offset 3 to 6") {
		t.Errorf("got %v", err)
	}
	var gaps []error
	w.opts.AcceptGap, w.opts.Events.Gap = true, func(err error) { gaps = append(gaps, err) }
	if cs, _ := drain(t, open(t, w), b.Last); !slices.Equal(ids(cs), []string{"doc7", "doc8", "doc9"}) || len(gaps) != 1 {
		t.Errorf("got %v, gaps %v", ids(cs), gaps)
	}
	// From the beginning is from what there is.
	w.opts.AcceptGap = false
	if cs, _ := drain(t, open(t, w), ""); len(cs) != 3 {
		t.Errorf("got %v", ids(cs))
	}
}

// What is deleted under a reader is noticed, not skipped.
func TestRetentionMeanwhile(t *testing.T) {
	w := newWorld(t, 1)
	src := open(t, w)
	w.Put(t, "a", `{}`)
	_, b := drain(t, src, "")
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 2})
	for i := range 5 {
		w.Put(t, fmt.Sprintf("doc%d", i), `{}`)
	}
	if err := w.cluster.DeleteRecords(topicName, 0, 4); err != nil {
		t.Fatal(err)
	}
	// One that was fetched before is fine; none may be left out without a word.
	got, err := next(t, src, b.Last, changes.Limit{})
	if err == nil && len(got.Changes) != 5 || err != nil && !errors.Is(err, changes.ErrPosition) {
		t.Errorf("got %v, %v", ids(got.Changes), err)
	}
}

// A topic that ends before the position has lost messages.
func TestShortened(t *testing.T) {
	w := newWorld(t, 2)
	w.Put(t, "a", `{}`)
	var retried int
	w.opts.Events.Retried = func(error, time.Duration) { retried++ }
	w.opts.Sleep = func(context.Context, time.Duration) error { return nil }
	_, err := next(t, open(t, w), `{"offsets":{"0":{"next":70,"epoch":0},"1":{"next":0,"epoch":-1}}}`, changes.Limit{})
	if !errors.Is(err, changes.ErrPosition) || !strings.Contains(err.Error(), "the table is at 70") || retried != 2 {
		t.Errorf("%d attempts, %v", retried, err)
	}
}

// Positions that are none of this topic's are refused.
func TestPositions(t *testing.T) {
	src := open(t, newWorld(t, 1))
	for _, p := range []changes.Position{"12-abc", "{}", `{"offsets":{}}`, `{"offsets":{"a":{}}}`, `{"offsets":{"0":{"next":-1}}}`, `{"offsets":{"7":{"next":0}}}`} {
		if _, err := next(t, src, p, changes.Limit{}); !errors.Is(err, changes.ErrPosition) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if b, err := next(t, src, "0", changes.Limit{}); err != nil || !b.CaughtUp {
		t.Error(err)
	}
}

func TestRecreated(t *testing.T) {
	w := newWorld(t, 1)
	src := open(t, w)
	w.Put(t, "a", `{}`)
	before, err := src.Identify(t.Context())
	if err != nil || before.Incarnation == "" || before.Kind != "kafka" || before.Name != topicName || !before.Leaves {
		t.Fatalf("%+v, %v", before, err)
	}
	_, b := drain(t, src, "")
	if err := w.cluster.DeleteTopic(topicName); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.CreateTopic(topicName, 1, nil); err != nil {
		t.Fatal(err)
	}
	w.client = w.connect(t)
	w.Put(t, "x", `{}`)
	w.Put(t, "y", `{}`)
	if _, err := next(t, src, b.Last, changes.Limit{}); !errors.Is(err, changes.ErrRecreated) {
		t.Errorf("got %v", err)
	}
	if after, err := open(t, w).Identify(t.Context()); err != nil || after.Incarnation == before.Incarnation {
		t.Errorf("the same incarnation %s, %v", after.Incarnation, err)
	}
}

func TestMissing(t *testing.T) {
	w := newWorld(t, 1)
	w.opts.Topic = "nowhere"
	slept := time.Duration(0)
	w.opts.Sleep = func(_ context.Context, d time.Duration) error { slept += d; return nil }
	_, err := open(t, w).Identify(t.Context())
	if !errors.Is(err, changes.ErrNotFound) || slept < 10*time.Second || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("after %v: %v", slept, err)
	}
}

func TestNewPartitions(t *testing.T) {
	w := newWorld(t, 1).placed(t)
	told := 0
	w.opts.Events.Partitions = func(n int) { told = n }
	src := open(t, w)
	w.Put(t, "a", `{}`)
	_, b := drain(t, src, "")
	if _, err := w.admin().CreatePartitions(t.Context(), 2, topicName); err != nil {
		t.Fatal(err)
	}
	w = w.placed(t)
	for part := range int32(3) {
		id := fmt.Sprintf("doc%d", part)
		w.send(t, &kgo.Record{Partition: part, Key: []byte(id), Headers: ours(""),
			Value: fmt.Appendf(nil, `{"_id":%q,"_rev":"1-a","_leaves":["1-a"],"doc":{}}`, id)})
	}
	cs, last := drain(t, src, b.Last)
	if !slices.Equal(ids(cs), []string{"doc0", "doc1", "doc2"}) || told != 3 {
		t.Errorf("got %v, told of %d", ids(cs), told)
	}
	if cs, _ := drain(t, src, last.Last); len(cs) > 0 {
		t.Errorf("again: %v", ids(cs))
	}
}

// Leaders move and brokers fail; nothing is lost or given twice.
func TestBrokersFail(t *testing.T) {
	w := newWorld(t, 6, kfake.NumBrokers(3))
	src := open(t, w)
	at, n := changes.Position(""), 0
	var got []string
	for round := range 6 {
		for range 20 {
			w.Put(t, fmt.Sprintf("doc%04d", n), `{}`)
			n++
		}
		switch round {
		case 1, 4:
			w.cluster.ShufflePartitionLeaders()
		case 2:
			w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 4},
				kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.LeaderNotAvailable, Count: 2},
				kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topicName, Err: kerr.UnknownTopicOrPartition, Count: 2})
		case 3:
			w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: 3})
		}
		cs, b := drain(t, src, at)
		at, got = b.Last, append(got, ids(cs)...)
	}
	if len(got) != n || len(slices.Compact(slices.Sorted(slices.Values(got)))) != n {
		t.Errorf("%d changes, want %d", len(got), n)
	}
}

// A broker that cannot be reached is not the end of the topic.
func TestUnreachable(t *testing.T) {
	w := newWorld(t, 1)
	w.Put(t, "a", `{}`)
	w.opts.Brokers = []string{"127.0.0.1:1"}
	var retried atomic.Int64
	w.opts.Events.Retried = func(error, time.Duration) { retried.Add(1) }
	b, err := next(t, open(t, w), "", changes.Limit{Idle: 300 * time.Millisecond})
	if err != nil || b.CaughtUp || b.Last != "" {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestCredentials(t *testing.T) {
	for mechanism, name := range map[string]string{"": "PLAIN", kafka.SASLPlain: "PLAIN", kafka.SASLScramSHA256: "SCRAM-SHA-256", kafka.SASLScramSHA512: "SCRAM-SHA-512"} {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topicName), kfake.EnableSASL(), kfake.Superuser(name, "u", "p"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		src, err := kafka.Open(kafka.Options{Topic: topicName, Cluster: kafka.Cluster{Brokers: cluster.ListenAddrs(), User: "u", Password: "p", Mechanism: mechanism}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := src.Identify(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Who may not read is told so at once.
func TestRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topicName, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if _, err := open(t, w).Identify(t.Context()); !errors.Is(err, changes.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
}

// What a transaction that was given up wrote is never seen, and its end is the
// end of the topic.
func TestAborted(t *testing.T) {
	w := newWorld(t, 1)
	for _, keep := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		c := w.connect(t, kgo.TransactionalID("x"))
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		v := fmt.Appendf(nil, `{"_id":"a","_rev":"1-a","_leaves":["1-a"],"doc":{"kept":%t}}`, bool(keep))
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topicName, Key: []byte("a"), Value: v, Headers: ours("")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := c.EndTransaction(t.Context(), keep); err != nil {
			t.Fatal(err)
		}
	}
	cs, b := drain(t, open(t, w), "")
	if len(cs) != 1 || string(cs[0].Body) != `{"kept":true}` || b.Pending != 0 {
		t.Errorf("%d changes, %d pending", len(cs), b.Pending)
	}
}

// Compaction leaves holes, at the end too.
func TestCompacted(t *testing.T) {
	w := newWorld(t, 1, kfake.BrokerConfigs(map[string]string{"log.cleanup.policy": "compact"}))
	src := open(t, w)
	w.Put(t, "a", `{}`)
	_, b := drain(t, src, "")
	for range 5 {
		w.Put(t, "a", `{}`)
		w.Put(t, "b", `{}`)
	}
	w.cluster.Compact()
	if cs, _ := drain(t, src, b.Last); len(cs) == 0 || cs[len(cs)-1].ID != "b" || cs[len(cs)-1].Rev.Generation != 5 {
		t.Errorf("got %v", ids(cs))
	}
}

func TestGroup(t *testing.T) {
	w := newWorld(t, 2)
	w.opts.Group = "tables"
	for i := range 8 {
		w.Put(t, fmt.Sprintf("doc%d", i), `{}`)
	}
	src, ok := open(t, w).(*kafka.Source)
	if !ok {
		t.Fatal("no *kafka.Source")
	}
	_, b := drain(t, src, "")
	if err := src.Committed(t.Context(), b.Last); err != nil {
		t.Fatal(err)
	}
	lag, err := w.admin().Lag(t.Context(), "tables")
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, p := range lag["tables"].Lag[topicName] {
		sum += p.Lag
	}
	if found, err := w.admin().FetchOffsets(t.Context(), "tables"); err != nil || sum != 0 || len(found[topicName]) != 2 {
		t.Errorf("lag %d, %v, %v", sum, found, err)
	}
	// A group that refuses is told of once, and is no error.
	var warned []string
	w.opts.Events.Warned = func(reason string) { warned = append(warned, reason) }
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownMemberID, Count: -1})
	other, ok := open(t, w).(*kafka.Source)
	if !ok {
		t.Fatal("no *kafka.Source")
	}
	if err := errors.Join(other.Committed(t.Context(), b.Last), other.Committed(t.Context(), b.Last)); err != nil || len(warned) != 1 {
		t.Errorf("warned: %q, %v", warned, err)
	}
}

// Messages of another database end the reading, after what came before.
func TestOtherDatabase(t *testing.T) {
	w := newWorld(t, 1)
	w.Put(t, "a", `{}`)
	h := ours("")
	h[2].Value = []byte("18")
	w.send(t, &kgo.Record{Key: []byte("b"), Headers: h, Value: []byte(`{"_id":"b","_rev":"1-a","_leaves":["1-a"],"doc":{}}`)})
	src := open(t, w)
	b, err := next(t, src, "", changes.Limit{})
	if err != nil || len(b.Changes) != 1 {
		t.Fatal(err, ids(b.Changes))
	}
	for _, s := range []changes.Source{src, open(t, w)} {
		if _, err := next(t, s, b.Last, changes.Limit{}); !errors.Is(err, changes.ErrRecreated) || !strings.Contains(err.Error(), `"18"`) {
			t.Errorf("got %v", err)
		}
	}
}

// A batch that unpacks to more than is allowed is an error that says so.
func TestTooLarge(t *testing.T) {
	w := newWorld(t, 1)
	w.opts.MaxBatch = 1 << 16
	w.send(t, &kgo.Record{Key: []byte("a"), Value: []byte(strings.Repeat(" ", 1<<18))})
	_, err := next(t, open(t, w), "", changes.Limit{})
	if err == nil || !errors.Is(err, kgo.ErrMaxDecompress) {
		t.Errorf("got %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []kafka.Options{{}, {Topic: "t"}, {Cluster: kafka.Cluster{Brokers: []string{"a:1"}}},
		{Topic: "t", Cluster: kafka.Cluster{Brokers: []string{"a:1"}, Mechanism: "x"}}} {
		if _, err := kafka.Open(o); !errors.Is(err, kafka.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A log that was cut and written anew is told by the leader's epoch.
func TestCut(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 6 {
		w.Put(t, fmt.Sprintf("doc%d", i), `{}`)
	}
	_, b := drain(t, open(t, w), "")
	cut := func() {
		w.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			asked, ok := r.(*kmsg.OffsetForLeaderEpochRequest)
			answer, good := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
			if !ok || !good {
				return nil, nil, false
			}
			of := kmsg.NewOffsetForLeaderEpochResponseTopic()
			of.Topic = asked.Topics[0].Topic
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.LeaderEpoch, p.EndOffset = 0, 4
			of.Partitions = append(of.Partitions, p)
			answer.Topics = append(answer.Topics, of)
			return answer, nil, true
		})
	}
	cut()
	_, err := next(t, open(t, w), b.Last, changes.Limit{})
	if !errors.Is(err, changes.ErrPosition) || !strings.Contains(err.Error(), "lost what is from 4 on") {
		t.Errorf("got %v", err)
	}
	gaps := 0
	w.opts.AcceptGap, w.opts.Events.Gap = true, func(error) { gaps++ }
	if cs, last := drain(t, open(t, w), b.Last); !slices.Equal(ids(cs), []string{"doc4", "doc5"}) || gaps != 1 || !strings.Contains(string(last.Last), `"next":6`) {
		t.Errorf("got %v at %s, %d gaps", ids(cs), last.Last, gaps)
	}
}
