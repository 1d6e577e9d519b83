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

// shape is an assignment as text: "partition/file: keys", "+" before new groups.
func shape(plan []writer.Assignment) string {
	var lines []string
	for _, a := range plan {
		var keys []string
		for _, r := range a.Records {
			keys = append(keys, r.Key.Record)
		}
		mark := ""
		if a.New {
			mark = "+"
		}
		lines = append(lines, fmt.Sprintf("%s%s/%s: %s", mark, a.Slice.Partition, a.Slice.File, strings.Join(keys, " ")))
	}
	return strings.Join(lines, "\n")
}

func TestAssign(t *testing.T) {
	latest := map[string][]hudi.Slice{
		"p=1": {{Location: hudi.Location{Partition: "p=1", File: "a-0"}}, {Location: hudi.Location{Partition: "p=1", File: "b-0"}}},
		"p=2": {{Location: hudi.Location{Partition: "p=2", File: "a-0"}}},
	}
	one := located("k", "p", "")
	record := one.Size()
	for _, c := range []struct {
		name  string
		rs    []hudi.Located
		bytes int64
		want  string
	}{
		{"nothing", nil, 0, ""},
		{"updates, one log a group, as they come", []hudi.Located{located("z", "p=1", "b-0"), located("c", "p=2", "a-0"), located("a", "p=1", "b-0"), located("q", "p=1", "a-0")},
			0, "p=1/a-0: q\np=1/b-0: z a\np=2/a-0: c"},
		{"inserts sorted, a group a partition", []hudi.Located{located("b", "p=9", ""), located("a", "p=9", ""), located("x", "p=1", "")},
			0, "+p=1/new1-0: x\n+p=9/new2-0: a b"},
		{"supplementary characters come before the last of the basic plane", []hudi.Located{located("\uFFFD", "", ""), located("\U0001F600", "", ""), located("z", "", "")},
			0, "+/new1-0: z \U0001F600 \uFFFD"},
		{"groups are closed when full", []hudi.Located{located("e", "", ""), located("d", "", ""), located("c", "", ""), located("b", "", ""), located("a", "", "")},
			int64(2 * record), "+/new1-0: a b\n+/new2-0: c d\n+/new3-0: e"},
		{"a record larger than a group has its own", []hudi.Located{located("b", "", ""), located("a", "", "")},
			1, "+/new1-0: a\n+/new2-0: b"},
		{"updates before inserts in a partition", []hudi.Located{located("n", "p=1", ""), located("z", "p=1", "b-0"), located("m", "p=0", "")},
			0, "+p=0/new1-0: m\np=1/b-0: z\n+p=1/new2-0: n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := writer.Assign(latest, c.rs, writer.Options{FileBytes: c.bytes, NewID: counter()})
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
	if _, err := writer.Assign(map[string][]hudi.Slice{}, []hudi.Located{stray}, writer.Options{}); !errors.Is(err, writer.ErrLocation) {
		t.Fatalf("unknown group: %v", err)
	}
	homeless := hudi.Located{Record: hudi.Record{Key: hudi.Key{Record: "k"}, Delete: true}}
	if _, err := writer.Assign(nil, []hudi.Located{homeless}, writer.Options{}); !errors.Is(err, writer.ErrLocation) {
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
				f = fmt.Sprintf("g%d-0", r.IntN(5))
				at := hudi.Location{Partition: p, File: hudi.FileID(f)}
				if !slices.ContainsFunc(latest[p], func(s hudi.Slice) bool { return s.Location == at }) {
					latest[p] = append(latest[p], hudi.Slice{Location: at})
				}
			}
			rs = append(rs, located(strconv.Itoa(i), p, f))
		}
		o := writer.Options{FileBytes: int64(1 + r.IntN(4000))}
		o.NewID = counter()
		plan, err := writer.Assign(latest, rs, o)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, a := range plan {
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
		if len(seen) != len(rs) {
			t.Fatalf("%d records of %d", len(seen), len(rs))
		}
		o.NewID = counter()
		again, err := writer.Assign(latest, rs, o)
		if err != nil || shape(again) != shape(plan) {
			t.Fatalf("not the same twice: %v", err)
		}
	}
}
