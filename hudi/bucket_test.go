package hudi_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

func TestBucketVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/bucket.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Newer []struct {
			RecordKey, IndexFields    string
			ListHashCode              int32
			Mod4, Mod7, Mod16, Mod256 int
		} `json:"v1_2_0"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Newer) != 31 {
		t.Fatalf("%d vectors", len(all.Newer))
	}
	for _, v := range all.Newer {
		for n, want := range map[int]int{1: 0, 4: v.Mod4, 7: v.Mod7, 16: v.Mod16, 256: v.Mod256, 1 << 31: int(v.ListHashCode & 0x7fffffff)} {
			if got := hudi.BucketBy(v.RecordKey, v.IndexFields, n); got != want {
				t.Errorf("%q by %s of %d: got %d, want %d", v.RecordKey, v.IndexFields, n, got, want)
			}
		}
	}
}

// TestBucketOddKeys pins what the classes of Hudi 1.2.0 said of keys of one
// field that look like several. endless ones they do not come back from.
func TestBucketOddKeys(t *testing.T) {
	for _, c := range []struct {
		key        string
		of256, of7 int
		misplaced  bool
		endless    bool
	}{
		{key: "a:b,c:d", of256: 137, of7: 3, misplaced: true},
		{key: "a:b,c", of256: 31, of7: 4, misplaced: true},
		{key: ":,", of256: 81, of7: 4, misplaced: true},
		{key: "a,b:c", of256: 159, of7: 4, misplaced: true},
		{key: ",:", of256: 173, of7: 4, misplaced: true},
		{key: "_id:5,x:y", of256: 84, of7: 0, misplaced: true},
		{key: "_id:5", of256: 148, of7: 5, misplaced: true},
		{key: "a,_id:9", of256: 141, of7: 1, misplaced: true},
		{key: "x,y:z,_id:q", of256: 144, of7: 4, misplaced: true},
		{key: "_id:a,_id:b", of256: 226, of7: 6, misplaced: true},
		{key: "_id:__null__,b:c", of256: 31, of7: 3, misplaced: true},
		{key: "a:b,", of256: 226, of7: 3, misplaced: true},
		{key: ",a:b,c", of256: 115, of7: 0, misplaced: true},
		{key: "a:b:c,d:e", of256: 244, of7: 5, misplaced: true},
		{key: "_id:a:b,c", of256: 31, of7: 4, misplaced: true},
		{key: "__null__", of256: 166, of7: 5},
		{key: "a:,b:", of256: 202, of7: 3, misplaced: true},
		{key: "q:1,_id:", of256: 31, of7: 3, misplaced: true},
		{key: "é:ü,_id:😀", of256: 130, of7: 5, misplaced: true},
		{key: "a,b", of256: 246, of7: 0},
		{key: "a:b,c:d:e,f", of256: -1, misplaced: true, endless: true},
		{key: "a::b,c", of256: -1, misplaced: true, endless: true},
		{key: "a:b:c,d", of256: -1, misplaced: true, endless: true},
		{key: "_id:a:b,c,d:e:f", of256: -1, misplaced: true, endless: true},
	} {
		misplaced, endless := hudi.BucketTrouble(c.key, hudi.ColumnID)
		if misplaced != c.misplaced || endless != c.endless {
			t.Errorf("%q: misplaced %v, endless %v", c.key, misplaced, endless)
		}
		if c.of256 < 0 {
			continue
		}
		if got := hudi.Bucket(c.key, 256); got != c.of256 {
			t.Errorf("%q of 256: got %d, want %d", c.key, got, c.of256)
		}
		if got := hudi.Bucket(c.key, 7); got != c.of7 {
			t.Errorf("%q of 7: got %d, want %d", c.key, got, c.of7)
		}
	}
}

func TestBucketFile(t *testing.T) {
	const uuid = "0f1fc431-6315-40d8-8a7b-3dacea1d5722"
	for bucket, want := range map[int]hudi.FileID{0: "00000000-6315-40d8-8a7b-3dacea1d5722-0", 3: "00000003-6315-40d8-8a7b-3dacea1d5722-0", 2047: "00002047-6315-40d8-8a7b-3dacea1d5722-0"} {
		got := hudi.BucketFile(bucket, uuid)
		if got != want {
			t.Errorf("bucket %d: %s", bucket, got)
		}
		if back, ok := hudi.BucketOf(got); !ok || back != bucket {
			t.Errorf("%s: %d %v", got, back, ok)
		}
	}
	for _, id := range []hudi.FileID{"", "00000001", "0000000a-6315-40d8-8a7b-3dacea1d5722-0", "000000011-6315-40d8-8a7b-3dacea1d5722-0", "-0000001-6315-40d8-8a7b-3dacea1d5722-0"} {
		if n, ok := hudi.BucketOf(id); ok {
			t.Errorf("%q names bucket %d", id, n)
		}
	}
}

func TestBucketSlices(t *testing.T) {
	at := func(file hudi.FileID) hudi.Slice {
		return hudi.Slice{Location: hudi.Location{Partition: "pt=a", File: file}}
	}
	zero, two, twin := hudi.BucketFile(0, "0f1fc431-a"), hudi.BucketFile(2, "0f1fc431-a"), hudi.BucketFile(2, "0f1fc431-b")
	got, err := hudi.BucketSlices([]hudi.Slice{at(zero), at(two)}, 3)
	if err != nil || len(got) != 2 || got[0].File != zero || got[2].File != two {
		t.Fatalf("%v, %v", got, err)
	}
	for _, c := range []struct {
		list  []hudi.Slice
		names []string
	}{
		{[]hudi.Slice{at(two), at(zero), at(twin)}, []string{string(two), string(twin), "pt=a"}},
		{[]hudi.Slice{at(hudi.BucketFile(3, "0f1fc431-a"))}, []string{"00000003-a-0", "3 buckets"}},
		{[]hudi.Slice{at("0f1fc431-a-0")}, []string{"0f1fc431-a-0"}},
	} {
		_, err := hudi.BucketSlices(c.list, 3)
		if !errors.Is(err, hudi.ErrBuckets) {
			t.Fatalf("%v: %v", c.list, err)
		}
		for _, name := range c.names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v does not say %q", err, name)
			}
		}
	}
}

func FuzzBucket(f *testing.F) {
	f.Add("a:b,_id:c", 7)
	f.Add("😀,:", 2048)
	f.Fuzz(func(t *testing.T, key string, n int) {
		n = max(n, -n) | 1
		if n < 0 {
			n = 1
		}
		if b := hudi.Bucket(key, n); b < 0 || b >= n {
			t.Fatalf("%q of %d: %d", key, n, b)
		}
		hudi.BucketTrouble(key, hudi.ColumnID)
	})
}

func BenchmarkBucket(b *testing.B) {
	for b.Loop() {
		hudi.Bucket("334e26e9-8355-45cc-97c6-c31daf0df330", 256)
	}
}
