package keycache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// TestEntries: what goes in comes out, and a revision of CouchDB takes 16 bytes
// and its generation.
func TestEntries(t *testing.T) {
	digest := strings.Repeat("0f", digestBytes)
	for rev, size := range map[string]int{"": 0, "1-" + digest: 17, "300-" + digest: 18, "01-" + digest: 35, "1-" + strings.ToUpper(digest): 34,
		"1-abc": 5, "-" + digest: 33, "1": 1, "+1-" + digest: 35, "18446744073709551616-" + digest: 53, "1-" + digest + "0": 35, "1-" + strings.Repeat("zz", digestBytes): 34} {
		for _, e := range []entry{{rev: rev}, {rev: rev, order: -3, tombstone: true, inBase: true}, {order: 1 << 50, hard: true, rev: rev, instant: "20260102030405006"}} {
			b := appendEntry([]byte("before"), &e)
			got, err := decodeEntry(b[len("before"):])
			if err != nil || got != e {
				t.Errorf("%+v became %+v, %v", e, got, err)
			}
		}
		if n := len(appendEntry(nil, &entry{rev: rev, order: 5})) - 2; n != size {
			t.Errorf("%q takes %d bytes, want %d", rev, n, size)
		}
	}
	e := entry{order: 7, rev: "2-" + digest, instant: "20260102030405006"}
	whole := appendEntry(nil, &e)
	for n := range whole {
		if got, err := decodeEntry(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes: %+v", n, len(whole), got)
		}
	}
}

// TestKeys: no record key's entries are among those of another, and groups are
// told apart.
func TestKeys(t *testing.T) {
	words := []string{"", "a", "a\x00", "a\x00\x01", "a\x00\xff", "a\x01", "\x00", "\x00\x00", "\x00\x01", "\xff", "ab"}
	for _, a := range words {
		for _, b := range words {
			pa, pb := appendPrefix(nil, a), appendPrefix(nil, b)
			if a != b && bytes.HasPrefix(pb, pa) {
				t.Errorf("%q begins %q", a, b)
			}
			if strings.Compare(a, b) != bytes.Compare(pa, pb) {
				t.Errorf("%q and %q have lost their order", a, b)
			}
		}
		prefix, id, ok := groupOf(appendKey(nil, a, 77))
		if !ok || id != 77 || !bytes.Equal(prefix, appendPrefix(nil, a)) {
			t.Errorf("%q: %q %d %t", a, prefix, id, ok)
		}
	}
}

// TestFilter: no key is denied, few are seen that are not there, it stays within
// its budget, and comes back from a file.
func TestFilter(t *testing.T) {
	n, budget := 400_000, int64(8<<20)
	if testing.Short() {
		n, budget = n/10, budget/10
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key-%d", i) }
	for _, c := range []struct {
		budget int64
		most   float64
	}{{budget, 0.01}, {64 << 10, 1}, {1, 1}} {
		f := newFilter(c.budget)
		for i := range n {
			f.add(key(i))
		}
		if f.bytes > c.budget {
			t.Errorf("%d bytes of %d", f.bytes, c.budget)
		}
		var b bytes.Buffer
		if err := f.writeTo(&b); err != nil {
			t.Fatal(err)
		}
		back, err := readFilter(&b, c.budget)
		if err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for i := range n {
			if !f.mayHold(key(i)) || !back.mayHold(key(i)) {
				t.Fatalf("%q was denied", key(i))
			}
			if f.mayHold(key(n + i)) {
				wrong++
			}
		}
		if rate := float64(wrong) / float64(n); rate > c.most {
			t.Errorf("budget %d: %f of the keys seen are not there", c.budget, rate)
		}
	}
}

// TestRunsKeepTheNewest: of a key that a file holds twice.
func TestRunsKeepTheNewest(t *testing.T) {
	r := run{}
	rnd := rand.New(rand.NewPCG(1, 2))
	orders := []int64{3, 9, 4, 9, 1}
	rnd.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
	for _, o := range orders {
		r.add("k", 1, &entry{order: o, rev: strconv.FormatInt(o, 10)})
	}
	slices.SortStableFunc(r.pairs, func(a, b pair) int { return bytes.Compare(r.key(a), r.key(b)) })
	var kept []entry
	for i := range r.pairs {
		if !r.older(i) {
			e, err := decodeEntry(r.bytes[r.pairs[i].value:r.pairs[i].end])
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, e)
		}
	}
	if len(kept) != 1 || kept[0].order != 9 {
		t.Fatalf("%+v", kept)
	}
}

// TestInstantNumbers: old instants of 14 digits keep their place.
func TestInstantNumbers(t *testing.T) {
	if a, b := instantNumber("20260102030405"), instantNumber("20260102030405998"); a <= b {
		t.Error(a, b)
	}
	if n := instantNumber(hudi.Time("no time")); n != 0 {
		t.Error(n)
	}
}
