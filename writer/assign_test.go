package writer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/writer"
)

func counter() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("new%d", n)
	}
}

func located(key, partition, file string) hudi.Located {
	return hudi.Located{Record: hudi.Record{Key: hudi.Key{Record: key, Partition: partition}, Row: hudi.Row{hudi.String(key)}},
		Location: hudi.Location{Partition: partition, File: hudi.FileID(file)}}
}

// shape is an assignment as text: "partition/file: keys", "+" before new groups,
// "~" before rewritten ones.
func shape(plan []writer.Assignment) string {
	var lines []string
	for _, a := range plan {
		var keys []string
		for _, r := range a.Records {
			keys = append(keys, r.Key.Record)
		}
		mark := ""
		switch {
		case a.New:
			mark = "+"
		case a.Rewrite:
			mark = "~"
		}
		lines = append(lines, fmt.Sprintf("%s%s/%s: %s", mark, a.Slice.Partition, a.Slice.File, strings.Join(keys, " ")))
	}
	return strings.Join(lines, "\n")
}

// sized is a slice with a base file and logs of these sizes.
func sized(partition, file string, base int64, logs ...int64) hudi.Slice {
	s := hudi.Slice{Location: hudi.Location{Partition: partition, File: hudi.FileID(file)}}
	if base > 0 {
		s.Base = hudi.File{Name: file + ".parquet", Size: base}
	}
	for _, size := range logs {
		s.Logs = append(s.Logs, hudi.File{Name: "log", Size: size})
	}
	return s
}

func compacting(s hudi.Slice) hudi.Slice {
	s.Compacting = "20260101000000000"
	return s
}

// fresh are new keys of a partition, a letter each.
func fresh(partition, keys string) []hudi.Located {
	var rs []hudi.Located
	for _, k := range keys {
		rs = append(rs, located(string(k), partition, ""))
	}
	return rs
}

// exact makes the estimate of what records take their size in memory.
const exact = 1e12

func TestAssign(t *testing.T) {
	one := located("k", "p", "")
	record := int64(one.Size())
	a, b := sized("p=1", "a-0", 0), sized("p=1", "b-0", 0)
	for _, c := range []struct {
		name   string
		latest []hudi.Slice
		rs     []hudi.Located
		o      writer.Options
		want   string
	}{
		{"nothing", nil, nil, writer.Options{}, ""},
		{"updates, one log a group, as they come", []hudi.Slice{a, b, sized("p=2", "a-0", 0)},
			[]hudi.Located{located("z", "p=1", "b-0"), located("c", "p=2", "a-0"), located("a", "p=1", "b-0"), located("q", "p=1", "a-0")},
			writer.Options{}, "p=1/a-0: q\np=1/b-0: z a\np=2/a-0: c"},
		{"inserts sorted, a group a partition", nil, []hudi.Located{located("b", "p=9", ""), located("a", "p=9", ""), located("x", "p=1", "")},
			writer.Options{}, "+p=1/new1-0: x\n+p=9/new2-0: a b"},
		{"supplementary characters come before the last of the basic plane", nil, fresh("", "\uFFFD\U0001F600z"),
			writer.Options{}, "+/new1-0: z \U0001F600 \uFFFD"},
		{"groups are closed when full", nil, fresh("", "edcba"), writer.Options{FileBytes: 2 * record}, "+/new1-0: a b\n+/new2-0: c d\n+/new3-0: e"},
		{"a record larger than a group has its own", nil, fresh("", "ba"), writer.Options{FileBytes: 1}, "+/new1-0: a\n+/new2-0: b"},
		{"groups of logs alone take no new keys; updates before inserts", []hudi.Slice{a, b},
			[]hudi.Located{located("n", "p=1", ""), located("z", "p=1", "b-0"), located("m", "p=0", "")},
			writer.Options{}, "+p=0/new1-0: m\np=1/b-0: z\n+p=1/new2-0: n"},

		{"a small group takes new keys", []hudi.Slice{sized("p", "a-0", 100, 50)}, fresh("p", "ab"), writer.Options{FileBytes: 10 * record}, "~p/a-0: a b"},
		{"and what else the commit has for it", []hudi.Slice{sized("p", "a-0", 100)}, append(fresh("p", "n"), located("k", "p", "a-0")),
			writer.Options{FileBytes: 10 * record}, "~p/a-0: n k"},
		{"updates alone rewrite nothing", []hudi.Slice{sized("p", "a-0", 100)}, []hudi.Located{located("k", "p", "a-0")}, writer.Options{}, "p/a-0: k"},
		{"the cheapest first, logs count", []hudi.Slice{sized("p", "a-0", 100, 500), sized("p", "b-0", 300)}, fresh("p", "ab"),
			writer.Options{FileBytes: 10 * record}, "~p/b-0: a b"},
		{"no group above its size", []hudi.Slice{sized("p", "a-0", 8*record), sized("p", "b-0", 8*record+1)}, fresh("p", "abcde"),
			writer.Options{FileBytes: 10 * record}, "~p/a-0: a b\n~p/b-0: c\n+p/new1-0: d e"},
		{"five sixths are full", []hudi.Slice{sized("p", "a-0", 501)}, fresh("p", "a"), writer.Options{FileBytes: 600}, "+p/new1-0: a"},
		{"no more is rewritten than allowed", []hudi.Slice{sized("p", "a-0", 4000), sized("p", "b-0", 3000), sized("q", "c-0", 3500)},
			append(fresh("p", "a"), fresh("q", "b")...), writer.Options{FileBytes: 10000, MaxRewrite: 6499}, "~p/b-0: a\n+q/new1-0: b"},
		{"a group too large to rewrite", []hudi.Slice{sized("p", "a-0", 100, 401)}, fresh("p", "a"), writer.Options{MaxRewrite: 500}, "+p/new1-0: a"},
		{"rewriting is off", []hudi.Slice{sized("p", "a-0", 1)}, fresh("p", "a"), writer.Options{MaxRewrite: -1}, "+p/new1-0: a"},
		{"a pending compaction's group takes logs alone", []hudi.Slice{compacting(sized("p", "a-0", 100))}, append(fresh("p", "n"), located("k", "p", "a-0")),
			writer.Options{}, "p/a-0: k\n+p/new1-0: n"},
		{"what fills files is new groups, the rest is packed", []hudi.Slice{sized("p", "a-0", 100)}, fresh("p", "abcdefghij"),
			writer.Options{FileBytes: 4 * record}, "~p/a-0: i j\n+p/new1-0: a b c d\n+p/new2-0: e f g h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			latest := map[string][]hudi.Slice{}
			for _, s := range c.latest {
				latest[s.Partition] = append(latest[s.Partition], s)
			}
			c.o.NewID = counter()
			plan, err := writer.Assign(writer.State{Latest: latest, RowBytes: exact}, c.rs, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := shape(plan); got != c.want {
				t.Fatalf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestAssignRefusesUnknownPlaces(t *testing.T) {
	stray := located("k", "p=1", "gone-0")
	if _, err := writer.Assign(writer.State{}, []hudi.Located{stray}, writer.Options{}); !errors.Is(err, writer.ErrLocation) {
		t.Fatalf("unknown group: %v", err)
	}
	homeless := hudi.Located{Record: hudi.Record{Key: hudi.Key{Record: "k"}, Delete: true}}
	if _, err := writer.Assign(writer.State{}, []hudi.Located{homeless}, writer.Options{}); !errors.Is(err, writer.ErrLocation) {
		t.Fatalf("delete without a place: %v", err)
	}
}

// TestAssignKeepsEveryRecord: each record is in exactly one file, of its own
// partition, and the outcome does not depend on map order.
func TestAssignKeepsEveryRecord(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		latest := map[string][]hudi.Slice{}
		var rs []hudi.Located
		for i := range r.IntN(300) {
			p, f := fmt.Sprintf("p=%d", r.IntN(4)), ""
			if r.IntN(2) == 0 {
				f = string(hudi.BucketFile(r.IntN(5), "00000000-0000-4000-8000-000000000000"))
				at := hudi.Location{Partition: p, File: hudi.FileID(f)}
				if !slices.ContainsFunc(latest[p], func(s hudi.Slice) bool { return s.Location == at }) {
					latest[p] = append(latest[p], sized(p, f, r.Int64N(3000), r.Int64N(300)))
				}
			}
			rs = append(rs, located(strconv.Itoa(i), p, f))
		}
		o := writer.Options{FileBytes: 1 + r.Int64N(4000), MaxRewrite: 1 + r.Int64N(6000), Buckets: 7 * r.IntN(2)}
		st := writer.State{Latest: latest, RowBytes: float64(r.IntN(300))}
		o.NewID = ids(1)
		plan, err := writer.Assign(st, rs, o)
		if err != nil {
			t.Fatal(err)
		}
		seen, cost := map[string]bool{}, int64(0)
		for _, a := range plan {
			if a.Rewrite {
				cost += a.Slice.Base.Size + a.Slice.Logs[0].Size
			}
			if len(a.Records) == 0 {
				t.Fatal("a file without records")
			}
			for _, rec := range a.Records {
				if seen[rec.Key.Record] || rec.Key.Partition != a.Slice.Partition {
					t.Fatalf("%q twice or astray", rec.Key.Record)
				}
				seen[rec.Key.Record] = true
			}
		}
		if cost > o.MaxRewrite || (o.Buckets > 0 && cost > 0) {
			t.Fatalf("%d bytes rewritten of %d", cost, o.MaxRewrite)
		}
		if len(seen) != len(rs) {
			t.Fatalf("%d records of %d", len(seen), len(rs))
		}
		o.NewID = ids(1)
		again, err := writer.Assign(st, rs, o)
		if err != nil || shape(again) != shape(plan) {
			t.Fatalf("not the same twice: %v", err)
		}
	}
}
