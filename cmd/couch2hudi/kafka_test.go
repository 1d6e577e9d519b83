package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// topic is a topic of a fake cluster, and its URL.
func topic(t *testing.T, name string, partitions int32) (*kfake.Cluster, *kgo.Client, string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return c, client, "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/" + url.PathEscape(name)
}

func send(t *testing.T, c *kgo.Client, messages ...[2]string) {
	t.Helper()
	for _, m := range messages {
		r := &kgo.Record{Key: []byte(m[0]), Value: []byte(m[1])}
		if m[1] == "" {
			r.Value = nil
		}
		if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunOtherTools: messages of other tools go into a table that orders by
// generation, deletions without revision included, and into no other.
func TestRunOtherTools(t *testing.T) {
	cluster, client, source := topic(t, "docs", 1)
	send(t, client, [2]string{"a", `{"_id":"a","_rev":"7-x","n":1}`}, [2]string{"b", `{"_id":"b","_rev":"1-x","n":2}`},
		[2]string{"a", ""}, [2]string{"a", `{"_id":"a","_rev":"1-y","n":3}`}, [2]string{"b", ""}, [2]string{"never", ""}, [2]string{"x", "poison"})
	dir := filepath.Join(t.TempDir(), "table")
	want(t, 2, []string{"no leaf revisions", "docs/0@0", "generation"}, "run", "--once", "--source", source, "--table", filepath.Join(t.TempDir(), "leaves"))
	run := []string{"run", "--once", "--source", source, "--table", dir, "--ordering", "generation"}
	want(t, 0, []string{"committed"}, run...)
	query := []string{"query", "--table", dir, "--columns", "_id,_rev,n", "--format", "jsonl"}
	rows := func(n int, has string) {
		t.Helper()
		if out := want(t, 0, nil, query...); strings.Count(out, "\n") != n || !strings.Contains(out, has) {
			t.Errorf("got\n%swant %d, one of them %s", out, n, has)
		}
	}
	rows(1, `"_id":"a","_rev":"1-y","n":3`)
	// In a later commit, and born again in one still later.
	send(t, client, [2]string{"a", ""}, [2]string{"b", `{"_id":"b","_rev":"1-z","n":4}`})
	want(t, 0, []string{"committed"}, run...)
	rows(1, `"_id":"b","_rev":"1-z","n":4`)
	send(t, client, [2]string{"b", ""}, [2]string{"a", `{"_id":"a","_rev":"1-z","n":5}`})
	want(t, 0, []string{"committed"}, run...)
	rows(1, `"_id":"a","_rev":"1-z","n":5`)
	found, err := filepath.Glob(filepath.Join(dir, ".hoodie", "couch2hudi", "quarantine", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("quarantine: %v, %v", found, err)
	}
	if data, err := os.ReadFile(found[0]); err != nil || !strings.Contains(string(data), `"place":"docs/0@6"`) {
		t.Errorf("quarantine: %s, %v", data, err)
	}
	// Pinned.
	want(t, 2, []string{"table.ordering"}, "run", "--once", "--source", source, "--table", dir)
	// Retention takes what was not read.
	for i := range 4 {
		send(t, client, [2]string{"c", fmt.Sprintf(`{"_id":"c","_rev":"%d-x"}`, i+1)})
	}
	if err := cluster.DeleteRecords("docs", 0, 13); err != nil {
		t.Fatal(err)
	}
	want(t, 4, []string{"does not hold 2 messages of partition 0", "--accept-gap"}, run...)
	want(t, 0, []string{"going on over a gap", "committed"}, append(run, "--accept-gap")...)
	rows(2, `"_id":"c","_rev":"4-x"`)
	// The topic is created anew.
	if err := cluster.DeleteTopic("docs"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreateTopic("docs", 1, nil); err != nil {
		t.Fatal(err)
	}
	want(t, 3, []string{"deleted and created again"}, run...)
	want(t, 1, []string{"does not exist"}, "check", "--source", source+"x", "--table", dir, "--timeout", "1s")
}

// TestProduceAndRun: a database goes through a topic into a table of each index,
// with last_seq the database's, purges and rows that cannot be read included.
func TestProduceAndRun(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 40)
	_, _, topic := topic(t, "other", 1)
	topic = strings.TrimSuffix(topic, "other") + "shop"
	write := []string{"produce", "--once", "--source", url, "--to", topic, "--partitions", "3"}
	want(t, 0, []string{"made the topic", "produced"}, write...)
	tables := map[string][]string{}
	for _, index := range []string{"bloom", "bucket"} {
		dir := filepath.Join(t.TempDir(), index)
		tables[dir] = []string{"run", "--once", "--source", topic + "?group=tables", "--table", dir, "--index", index, "--buckets", "3", "--partition-field", "at", "--partition-format", "yyyyMMdd"}
		want(t, 0, []string{"committed", `"last_seq":"40-`}, tables[dir]...)
	}
	for i := range 20 {
		id := fmt.Sprintf("d%03d", i)
		var err error
		switch i % 4 {
		case 0:
			_, err = db.Delete(id)
		case 1:
			if gone := db.Purge(id); len(gone) != 1 {
				t.Fatal("nothing was purged")
			}
			if i%8 == 1 {
				_, err = db.Put(id, []byte(`{"n":-1,"at":"2025-01-01T00:00:00Z"}`))
			}
		case 2:
			_, err = db.Put(id, fmt.Appendf(nil, `{"n":%d,"at":"2024-02-01T00:00:00Z"}`, 1000+i))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want(t, 0, []string{"going on where the topic ends", "produced"}, write...)
	direct := filepath.Join(t.TempDir(), "direct")
	want(t, 0, nil, "run", "--once", "--source", url, "--table", direct, "--partition-field", "at", "--partition-format", "yyyyMMdd")
	query := func(dir string) string {
		lines := strings.Split(strings.TrimSpace(want(t, 0, nil, "query", "--table", dir, "--columns", "_id,_rev,n,at,_doc", "--format", "jsonl")), "\n")
		for i := range lines { // without the columns that Hudi adds
			lines[i] = lines[i][max(0, strings.Index(lines[i], `"_id":`)):]
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	for dir, run := range tables {
		want(t, 0, []string{"committed"}, run...)
		if got, want := query(dir), query(direct); got != want {
			t.Errorf("through the topic\n%s\nwant\n%s", got, want)
		}
	}
	for dir := range tables {
		if strings.HasSuffix(dir, "bloom") {
			want(t, 0, []string{`topic "shop", its id is`, "lists all leaf revisions"}, "check", "--source", topic, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd")
		}
	}
	want(t, 2, []string{"produce.to"}, "produce", "--source", url)
	want(t, 2, []string{"only CouchDB"}, "produce", "--source", topic, "--to", topic)
	want(t, 2, []string{"produce.to", "kafka://"}, "produce", "--source", url, "--to", "http://x/y")
}

// TestRunOutOfOrder: a message that comes late, or twice, changes nothing, in one
// batch and in the next, from its own partition and from another.
func TestRunOutOfOrder(t *testing.T) {
	_, client, source := topic(t, "mixed", 2)
	put := func(part int32, id string, generations ...int) {
		t.Helper()
		for _, g := range generations {
			r := &kgo.Record{Topic: "mixed", Partition: part, Key: []byte(id), Headers: []kgo.RecordHeader{{Key: "couch2hudi", Value: []byte("1")}},
				Value: fmt.Appendf(nil, `{"_id":%q,"_rev":"%d-x","_leaves":["%d-x"],"doc":{"_id":%q,"n":%d}}`, id, g, g, id, g)}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", source, "--table", dir}
	for _, late := range [][]int{{3, 1, 3, 2}, {2, 1}, {4, 4, 2}} {
		for _, id := range []string{"a", "b", "c"} {
			put(0, id, late...)
			put(1, id, late[len(late)-1])
		}
		want(t, 0, nil, run...)
	}
	out := want(t, 0, nil, "query", "--table", dir, "--columns", "_id,n", "--format", "jsonl")
	for _, id := range []string{"a", "b", "c"} {
		if strings.Count(out, "\n") != 3 || !strings.Contains(out, fmt.Sprintf(`"_id":%q,"n":4`, id)) {
			t.Errorf("%s: got\n%s", id, out)
		}
	}
}
