//go:build oracle

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

func base64URL(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// TestKafkaKilled: a database goes through a real broker into a table, while
// producer, consumer and broker are killed at random. In the end the table is the
// one that a run without Kafka makes, and the database's.
func TestKafkaKilled(t *testing.T) {
	s, err := couchfake.Start(couchfake.Options{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db, err := s.Create("shop")
	if err != nil {
		t.Fatal(err)
	}
	b := newBroker(t)
	source, topic := s.URL()+"/shop", "kafka://"+b.address+"/shop.binlog"
	table := filepath.Join(t.TempDir(), "table")
	partition := []string{"--partition-field", "createdAt", "--partition-format", "yyyyMMdd"}
	consume := append([]string{"run", "--source", topic + "?group=tables", "--table", table, "--commit-interval", "300ms"}, partition...)
	produce := []string{"produce", "--source", source, "--to", topic, "--partitions", "4", "--interval", "50ms"}
	stream := newStream(db, 11)
	change := func() {
		t.Helper()
		if err := stream.next(25); err != nil {
			t.Fatal(err)
		}
	}
	change()
	couch2hudi(t, append(produce, "--once")...)
	couch2hudi(t, append(consume, "--once")...)

	producer, consumer := newWorker(t, produce...), newWorker(t, consume...)
	random := rand.New(rand.NewPCG(4, 2))
	moment := func() { pauseFor(time.Duration(random.IntN(1200)) * time.Millisecond) }
	for round := range 8 {
		change()
		moment()
		switch round {
		case 2, 5: // both others have to come through it
			b.kill()
			change()
			b.start()
		default:
			victim := []*worker{producer, consumer}[random.IntN(2)]
			victim.kill()
			change()
			victim.start()
		}
		if id := fmt.Sprintf("gone-%d", round/2); round%2 == 0 {
			_, err = db.Put(id, []byte(`{"createdAt":"2024-01-01T00:00:00Z"}`))
		} else if db.Purge(id); round%4 == 1 { // and born again
			_, err = db.Put(id, []byte(`{"createdAt":"2024-01-02T00:00:00Z","again":true}`))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// What is told in the end is told while they live.
	change()
	until(t, "the table to come to the database's end", func() bool {
		return t.Failed() || strings.HasPrefix(lastSeq(t, table), strings.SplitN(db.Seq(), "-", 2)[0]+"-")
	}, func() string {
		return fmt.Sprintf("last_seq %s, the database is at %s\nproducer: %s\nconsumer: %s", lastSeq(t, table), db.Seq(), tailOf(&producer.said), tailOf(&consumer.said))
	})
	if code := exitOf(t, append(consume, "--once")...); code != 5 {
		t.Errorf("a second consumer ends with %d, want 5", code)
	}
	producer.kill()
	consumer.kill()
	couch2hudi(t, append(produce, "--once")...)
	couch2hudi(t, append(consume, "--once")...)

	direct := filepath.Join(t.TempDir(), "direct")
	couch2hudi(t, append([]string{"run", "--once", "--source", source, "--table", direct}, partition...)...)
	got, want := tableStates(t, table), tableStates(t, direct)
	if d := differences(got, want); len(got) != len(want) || !strings.HasPrefix(d, "0 ") {
		t.Errorf("through the topic and directly: %s", d)
	}
	for doc := range db.Docs() {
		if state := got[doc.ID]; !strings.HasPrefix(state, doc.Winner().Rev.String()+" ") {
			t.Errorf("%q is %s in the table, %s in the database", doc.ID, state, doc.Winner().Rev)
		}
	}
	t.Logf("%d documents; kills: producer %d, consumer %d, broker 2; %d commits", len(got), producer.kills, consumer.kills, len(deltaCommits(t, table)))
}

// tableStates are the rows of a table by id, without what its commits added. The
// order has no era: a table that was told of a purge has one more.
func tableStates(t *testing.T, table string) map[string]string {
	t.Helper()
	out := map[string]string{}
	text := couch2hudi(t, "query", "--table", table, "--include-deleted", "--columns", "_id,_rev,_deleted,_leaves,_doc", "--format", "jsonl")
	for line := range strings.Lines(text) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r["_rev"] == nil {
			continue // what a purge left: no document
		}
		out[r["_id"].(string)] = fmt.Sprintf("%v %v %v %v", r["_rev"], r["_deleted"], r["_leaves"], r["_doc"])
	}
	return out
}

// lastSeq is that of the newest commit; "" when there is none.
func lastSeq(t *testing.T, table string) string {
	t.Helper()
	commits := deltaCommits(t, table)
	if len(commits) == 0 {
		return ""
	}
	data, err := os.ReadFile(filepath.Join(table, ".hoodie", commits[len(commits)-1]+".deltacommit"))
	if err != nil {
		t.Fatal(err)
	}
	var commit struct {
		Extra map[string]string `json:"extraMetadata"`
	}
	if err := json.Unmarshal(data, &commit); err != nil {
		t.Fatal(err)
	}
	return commit.Extra["last_seq"]
}

func tailOf(b *lockedBuffer) string {
	const most = 3000
	s := b.String()
	return s[max(0, len(s)-most):]
}
