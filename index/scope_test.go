package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
)

// TestLocateInPartitions: by a scope of Partition a key is another one in each
// partition, and only the file groups of the partitions asked for are opened.
func TestLocateInPartitions(t *testing.T) {
	s := newStore(t)
	s.commit(part{at: at("pt=a", "a-0"), records: []hudi.Record{live("k", 1, "1-a"), live("only a", 1, "1-a")}},
		part{at: at("pt=b", "b-0"), records: []hudi.Record{live("k", 2, "2-b")}},
		part{at: at("pt=c", "c-0"), records: []hudi.Record{live("k", 3, "3-c")}})
	s.opened.Store(0)
	keys := []hudi.Key{{Record: "k", Partition: "pt=b"}, {Record: "only a", Partition: "pt=b"}, {Record: "k", Partition: "pt=a"},
		{Record: "only a", Partition: "pt=a"}, {Record: "k", Partition: "pt=nowhere"}}
	got, err := index.NewBloom(index.BloomOptions{}).Locate(t.Context(), s.view(), keys, index.Partition)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pt=b/b-0 2 2-b", "", "pt=a/a-0 1 1-a", "pt=a/a-0 1 1-a", ""}
	for i := range keys {
		if answer(got[i]) != want[i] {
			t.Errorf("%v: got %q, want %q", keys[i], answer(got[i]), want[i])
		}
	}
	if n := s.opened.Load(); n == 0 || n > 4 {
		t.Errorf("%d files opened: the third partition is none of ours", n)
	}
}

// TestTagInPartitions: a document whose partition changed gets a second row, a
// deletion that knows no partition finds all of them.
func TestTagInPartitions(t *testing.T) {
	s := newStore(t)
	s.commit(part{at: at("pt=a", "a-0"), records: []hudi.Record{live("moves", 1, "1-a"), live("dies", 1, "1-a"), live("stays", 1, "1-a")}},
		part{at: at("pt=b", "b-0"), records: []hudi.Record{live("dies", 2, "2-a")}})
	row := func(key, partition string, order int64) hudi.Record {
		r := live(key, order, fmt.Sprintf("%d-z", order))
		r.Key.Partition = partition
		return r
	}
	dies := row("dies", "pt="+hudi.DefaultPartition, 3)
	dies.AnyPartition = true
	batch := []hudi.Record{row("moves", "pt=b", 2), row("stays", "pt=a", 2), dies}
	got, err := index.Tag(t.Context(), index.NewBloom(index.BloomOptions{}), s.view(), s.schema, batch, index.TagOptions{Scope: index.Partition})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range got.Records {
		lines = append(lines, fmt.Sprintf("%s %s/%s delete=%t", r.Key.Record, r.Key.Partition, r.File, r.Delete))
	}
	slices.Sort(lines)
	want := "dies pt=a/a-0 delete=true\ndies pt=b/b-0 delete=false\nmoves pt=b/ delete=false\nstays pt=a/a-0 delete=false"
	if text := strings.Join(lines, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
