package index_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
)

// TestGoldenBuckets finds in bucket tables of real Hudi, by the hash alone,
// every row that Hudi reads, in its partition and version, and no deleted one.
func TestGoldenBuckets(t *testing.T) {
	for _, name := range []string{"w015-v6-bucket", "w015-v6-bucket-nomdt", "w015-v6-bucket-compaction", "w120-v6-bucket"} {
		t.Run(name, func(t *testing.T) {
			v, want := golden(t, name)
			if len(want) == 0 {
				t.Fatal("the golden table expects nothing")
			}
			alive := map[string]truth{}
			for _, w := range want {
				alive[w.Key] = w
			}
			var keys []hudi.Key
			for i := range 60 {
				keys = append(keys, hudi.Key{Record: fmt.Sprintf("doc-%04d", i)})
			}
			got, err := index.NewBucket(index.BucketOptions{Buckets: 4}).Locate(t.Context(), v, keys, index.Global)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for i, f := range got {
				w, lives := alive[keys[i].Record]
				if f.Found != lives {
					t.Errorf("%s: %+v, want %+v", keys[i].Record, f, w)
				}
				if !f.Found {
					continue
				}
				found++
				if n, _ := hudi.BucketOf(f.File); n != hudi.Bucket(w.Key, 4) {
					t.Errorf("%s: in %s", w.Key, f.File)
				}
				if f.Partition != w.Partition || f.Rev != w.Rev || f.Order != w.Order || len(f.Others) > 0 {
					t.Errorf("%s: %+v, want %+v", keys[i].Record, f, w)
				}
			}
			if found != len(want) {
				t.Errorf("%d keys found, want %d", found, len(want))
			}
			_, err = index.NewBucket(index.BucketOptions{Buckets: 3}).Locate(t.Context(), v, keys[:1], index.Global)
			if !errors.Is(err, hudi.ErrBuckets) {
				t.Errorf("asked with too few buckets: %v", err)
			}
		})
	}
}

// buckets is a table of three partitions with rows, tombstones and hard deletes
// in base files and logs, and what its index should say, by partition and key.
func buckets(s *store, n int) map[string]map[string]string {
	r := rand.New(rand.NewPCG(5, 6))
	model := map[string]map[string]string{}
	bases := map[hudi.Location][]hudi.Record{}
	logs := map[hudi.Location][]hudi.Record{}
	for p := range 3 {
		partition := fmt.Sprintf("pt=%d", p)
		model[partition] = map[string]string{}
		for i := range 200 {
			key := fmt.Sprintf("doc:%d,%d", i, r.IntN(4))
			if _, twice := model[partition][key]; twice {
				continue
			}
			place := at(partition, string(hudi.BucketFile(hudi.Bucket(key, n), fmt.Sprintf("00000000-%04d", p))))
			words := fmt.Sprintf("%s/%s ", place.Partition, place.File)
			kind := r.IntN(5)
			if kind == 4 && bases[place] != nil { // not yet in the base file
				logs[place] = append(logs[place], live(key, 1, "1-log"))
				model[partition][key] = words + "1 1-log"
				continue
			}
			bases[place] = append(bases[place], live(key, 2, "2-base"))
			switch kind {
			case 0:
				logs[place] = append(logs[place], buried(key, 3, "3-dead"))
				model[partition][key] = words + "3 3-dead tombstone"
			case 1:
				logs[place] = append(logs[place], removed(key, 4))
				model[partition][key] = "hidden " + words + "4 2-base"
			case 2:
				logs[place] = append(logs[place], live(key, 5, "5-newer"))
				model[partition][key] = words + "5 5-newer"
			default:
				model[partition][key] = words + "2 2-base"
			}
		}
	}
	var parts []part
	for place, rs := range bases {
		parts = append(parts, part{at: place, records: rs})
	}
	base := s.commit(parts...)
	parts = nil
	for place, rs := range logs {
		parts = append(parts, part{at: place, base: base, version: 1, records: rs})
	}
	s.commit(parts...)
	return model
}

// TestBucketFindsEveryKeyAndNoOther compares with a model, for both scopes.
func TestBucketFindsEveryKeyAndNoOther(t *testing.T) {
	const n = 7
	s := newStore(t)
	model := buckets(s, n)
	ix := index.NewBucket(index.BucketOptions{Buckets: n, Parallel: 3, Memory: 1 << 10})
	var keys []hudi.Key
	everywhere := map[string][]string{}
	for partition, known := range model {
		for key, w := range known {
			keys = append(keys, hudi.Key{Record: key, Partition: partition}, hudi.Key{Record: key + "x", Partition: partition}, hudi.Key{Record: key, Partition: "pt=nowhere"})
			everywhere[key] = append(everywhere[key], w)
		}
	}
	got, err := ix.Locate(t.Context(), s.view(), keys, index.Partition)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		if answer(got[i]) != model[k.Partition][k.Record] {
			t.Fatalf("%v: got %q, want %q", k, answer(got[i]), model[k.Partition][k.Record])
		}
	}
	got, err = ix.Locate(t.Context(), s.view(), keys, index.Global)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		rows := 0
		for _, w := range everywhere[k.Record] {
			if !strings.HasPrefix(w, "hidden") {
				rows++
			}
		}
		places := len(got[i].Others)
		if got[i].Found {
			places++
		}
		if places != rows {
			t.Fatalf("%v: got %q, want %q", k, answer(got[i]), everywhere[k.Record])
		}
	}
}

// TestBucketOpensOneFile: a key costs a look into one file group of each
// partition, or of the one that it names.
func TestBucketOpensOneFile(t *testing.T) {
	s := newStore(t)
	buckets(s, 16)
	v := s.view()
	ix := index.NewBucket(index.BucketOptions{Buckets: 16})
	for scope, most := range map[index.Scope]int64{index.Global: 3, index.Partition: 1} {
		s.opened.Store(0)
		if _, err := ix.Locate(t.Context(), v, []hudi.Key{{Record: "doc:1,1", Partition: "pt=1"}}, scope); err != nil {
			t.Fatal(err)
		}
		if n := s.opened.Load(); n == 0 || n > most {
			t.Errorf("%s: %d base files opened", scope, n)
		}
	}
}

// TestBucketRefusesTwins: two file groups of one bucket are another writer's
// fault, and the error names both.
func TestBucketRefusesTwins(t *testing.T) {
	s := newStore(t)
	one, other := at("pt=a", "00000002-aaaa-0"), at("pt=a", "00000002-bbbb-0")
	s.commit(part{at: one, records: []hudi.Record{live("a", 1, "1-a")}}, part{at: other, records: []hudi.Record{live("b", 1, "1-b")}})
	_, err := index.NewBucket(index.BucketOptions{Buckets: 4}).Locate(t.Context(), s.view(), []hudi.Key{{Record: "zzz"}}, index.Global)
	if !errors.Is(err, hudi.ErrBuckets) || !strings.Contains(err.Error(), string(one.File)) || !strings.Contains(err.Error(), string(other.File)) {
		t.Fatal(err)
	}
}

func TestBucketOfEmptyTable(t *testing.T) {
	s := newStore(t)
	ix := index.NewBucket(index.BucketOptions{Buckets: 4})
	if got := s.ask(ix, "a")["a"]; got != "" {
		t.Fatal(got)
	}
	if _, err := index.NewBucket(index.BucketOptions{}).Locate(t.Context(), s.view(), []hudi.Key{{Record: "a"}}, index.Global); !errors.Is(err, hudi.ErrBuckets) {
		t.Fatalf("an index without buckets: %v", err)
	}
}

// BenchmarkLocateBucket asks for 1,000 keys of 100,000 in 64 buckets.
func BenchmarkLocateBucket(b *testing.B) {
	const n, rows, asked = 64, 100_000, 1_000
	s := newStore(b)
	r := rand.New(rand.NewPCG(1, 2))
	groups := map[hudi.Location][]hudi.Record{}
	var keys []hudi.Key
	for range rows {
		key := fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
		place := at("pt=a", string(hudi.BucketFile(hudi.Bucket(key, n), "00000000-a")))
		groups[place] = append(groups[place], live(key, 1, "1-abcdef"))
		if len(keys) < asked {
			keys = append(keys, hudi.Key{Record: key})
		}
	}
	var parts []part
	for place, rs := range groups {
		parts = append(parts, part{at: place, records: rs})
	}
	s.commit(parts...)
	v := s.view()
	ix := index.NewBucket(index.BucketOptions{Buckets: n})
	for b.Loop() {
		if _, err := ix.Locate(b.Context(), v, keys, index.Global); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(asked*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
}
