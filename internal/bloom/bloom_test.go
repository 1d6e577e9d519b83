package bloom_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/bloom"
)

type vectors struct {
	Murmur []struct {
		Key  string
		Seed int32
		Hash int32
	}
	Positions []struct {
		Key          string
		Bits, Hashes int32
		Positions    []uint32
	}
	Sizing []struct {
		NumEntries   int
		FPP          float64
		Bits, Hashes int
	}
	Filters []filterVector
}

type filterVector struct {
	Name, Type             string
	NumEntries, MaxEntries int
	FPP                    float64
	Added                  json.RawMessage
	RawLength              int
	RawSha256              string
	Base64                 string
	Membership             map[string]bool
}

func load(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("../../testdata/vectors/bloom.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Murmur) < 50 || len(v.Positions) < 20 || len(v.Sizing) < 7 || len(v.Filters) < 11 {
		t.Fatalf("vectors are missing: %d %d %d %d", len(v.Murmur), len(v.Positions), len(v.Sizing), len(v.Filters))
	}
	return v
}

func TestMurmurVectors(t *testing.T) {
	for _, v := range load(t).Murmur {
		if got := bloom.Hash(v.Key, uint32(v.Seed)); int32(got) != v.Hash {
			t.Errorf("%q with seed %d: %d, want %d", v.Key, v.Seed, int32(got), v.Hash)
		}
	}
}

func TestPositionVectors(t *testing.T) {
	for _, v := range load(t).Positions {
		seed := uint32(0)
		for i, want := range v.Positions {
			seed = bloom.Hash(v.Key, seed)
			if got := bloom.Position(seed, v.Bits); got != want {
				t.Errorf("%q in %d bits, hash %d: %d, want %d", v.Key, v.Bits, i, got, want)
			}
		}
	}
}

func TestSizeVectors(t *testing.T) {
	for _, v := range load(t).Sizing {
		if bits, hashes := bloom.Size(v.NumEntries, v.FPP); bits != v.Bits || hashes != v.Hashes {
			t.Errorf("%+v: got %d bits, %d hashes", v, bits, hashes)
		}
	}
}

// keys are those that were added: a list, or a pattern with a range.
func (v *filterVector) keys(t *testing.T) []string {
	var keys []string
	if json.Unmarshal(v.Added, &keys) == nil {
		return keys
	}
	var p struct {
		Pattern  string
		From, To int
	}
	if err := json.Unmarshal(v.Added, &p); err != nil {
		t.Fatal(err)
	}
	for i := p.From; i <= p.To; i++ {
		keys = append(keys, fmt.Sprintf(p.Pattern, i))
	}
	return keys
}

func (v *filterVector) empty() *bloom.Filter {
	if v.Type == bloom.Dynamic {
		return bloom.NewDynamic(v.NumEntries, v.FPP, v.MaxEntries)
	}
	return bloom.NewSimple(v.NumEntries, v.FPP)
}

func TestFilterVectors(t *testing.T) {
	for _, v := range load(t).Filters {
		t.Run(v.Name, func(t *testing.T) {
			f := v.empty()
			for _, k := range v.keys(t) {
				f.Add(k)
			}
			text := f.Encode()
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(raw)
			if len(raw) != v.RawLength || hex.EncodeToString(sum[:]) != v.RawSha256 || (v.Base64 != "" && text != v.Base64) {
				t.Fatalf("%d bytes %x, want %d %s", len(raw), sum, v.RawLength, v.RawSha256)
			}
			back, err := bloom.Decode(text, f.Code())
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range []*bloom.Filter{f, back} {
				for k, want := range v.Membership {
					if g.Contains(k) != want {
						t.Errorf("%q: %v, want %v", k, !want, want)
					}
				}
			}
			if back.Encode() != text || back.Code() != v.Type {
				t.Fatal("decoded filter encodes otherwise")
			}
		})
	}
}

func randomKey(r *rand.Rand) string {
	b := make([]byte, 1+r.IntN(40))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// TestBuilderIsAdd: the four-lane way gives the same filter as adding one by one.
func TestBuilderIsAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 3, 4, 5, 63, 1000, 70000} {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = randomKey(r)
		}
		var b bloom.Builder
		f := bloom.NewDynamic(n, bloom.Rate, n)
		for _, k := range keys {
			b.Add(k)
			f.Add(k)
		}
		if b.Len() != n {
			t.Fatalf("%d keys, want %d", b.Len(), n)
		}
		got := b.Filter(bloom.Rate)
		if got.Encode() != f.Encode() || got.Code() != bloom.Dynamic {
			t.Fatalf("%d keys: filters differ", n)
		}
		false1 := 0
		for i := range keys {
			if !got.Contains(keys[i]) {
				t.Fatalf("%q is lost", keys[i])
			}
			if got.Contains(fmt.Sprint("absent-", i)) {
				false1++
			}
		}
		if false1 > 0 {
			t.Errorf("%d false positives of %d at a rate of 1e-9", false1, n)
		}
	}
}

func TestEmpty(t *testing.T) {
	var b bloom.Builder
	b.Add("")
	f := b.Filter(bloom.Rate)
	if b.Len() != 0 || f.Contains("") || f.Contains("a") {
		t.Fatal("an empty filter holds something")
	}
	if _, err := bloom.Decode(f.Encode(), f.Code()); err != nil {
		t.Fatal(err)
	}
	f.Add("")
	if f.Contains("") || f.MemoryBytes() < 6 {
		t.Fatal("the empty key is no key")
	}
}

// TestRateHolds: a filter with a coarse rate keeps to it.
func TestRateHolds(t *testing.T) {
	const n, rate = 5000, 0.01
	var b bloom.Builder
	for i := range n {
		b.Add(fmt.Sprint("key-", i))
	}
	f := b.Filter(rate)
	hits := 0
	for i := range n {
		if f.Contains(fmt.Sprint("other-", i)) {
			hits++
		}
	}
	if hits > 3*rate*n {
		t.Fatalf("%d of %d", hits, n)
	}
}

func TestDecodeRefuses(t *testing.T) {
	f := bloom.NewDynamic(10, 0.01, 30)
	for i := range 25 {
		f.Add(strconv.Itoa(i))
	}
	good, _ := base64.StdEncoding.DecodeString(f.Encode())
	for n := range good {
		if _, err := bloom.Decode(base64.StdEncoding.EncodeToString(good[:n]), bloom.Dynamic); !errors.Is(err, bloom.ErrFormat) {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
	for name, c := range map[string]struct{ text, code string }{
		"base64": {"*", bloom.Simple}, "code": {f.Encode(), "BLOOMY"}, "wrong code": {f.Encode(), ""},
		"wrong code back": {bloom.NewSimple(5, 0.1).Encode(), bloom.Dynamic}, "old form": {base64.StdEncoding.EncodeToString(make([]byte, 20)), ""},
		"trailing": {base64.StdEncoding.EncodeToString(append(append([]byte{}, good...), 0)), bloom.Dynamic},
	} {
		if _, err := bloom.Decode(c.text, c.code); !errors.Is(err, bloom.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	d := bloom.NewDynamic(3, 0.01, 6)
	for i := range 5 {
		d.Add(strconv.Itoa(i))
	}
	f.Add(d.Encode(), bloom.Dynamic, "1")
	f.Add(bloom.NewSimple(3, 0.1).Encode(), "", "a")
	f.Fuzz(func(t *testing.T, text, code, key string) {
		g, err := bloom.Decode(text, code)
		if err != nil {
			if !errors.Is(err, bloom.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		g.Add(key)
		if g.Contains(key) != (key != "") {
			t.Fatalf("%q is lost", key)
		}
		back, err := bloom.Decode(g.Encode(), g.Code())
		if err != nil || back.Encode() != g.Encode() {
			t.Fatalf("does not come back: %v", err)
		}
	})
}

func FuzzBuilder(f *testing.F) {
	f.Add("a,b,c,dddd,eeee,ffff,gggg,hhhh,é")
	f.Fuzz(func(t *testing.T, text string) {
		var b bloom.Builder
		keys := strings.Split(text, ",")
		for _, k := range keys {
			b.Add(k)
		}
		g := b.Filter(0.01)
		for _, k := range keys {
			if g.Contains(k) != (k != "") {
				t.Fatalf("%q is lost", k)
			}
		}
	})
}

func ids(n int) []string {
	keys := make([]string, n)
	r := rand.New(rand.NewPCG(7, 7))
	for i := range keys {
		keys[i] = fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
	}
	return keys
}

// BenchmarkBuilder is the cost of a key in a file of 100,000, the filter made.
func BenchmarkBuilder(b *testing.B) {
	keys := ids(100_000)
	b.ReportAllocs()
	for i := 0; i < b.N; i += len(keys) {
		var f bloom.Builder
		for _, k := range keys[:min(len(keys), b.N-i)] {
			f.Add(k)
		}
		f.Filter(bloom.Rate)
	}
}

func BenchmarkAdd(b *testing.B) {
	keys := ids(100_000)
	f := bloom.NewDynamic(len(keys), bloom.Rate, len(keys))
	b.ReportAllocs()
	for i := range b.N {
		f.Add(keys[i%len(keys)])
	}
}

func BenchmarkContainsAbsent(b *testing.B) {
	keys := ids(100_000)
	f := bloom.NewDynamic(len(keys), bloom.Rate, len(keys))
	for _, k := range keys[:50_000] {
		f.Add(k)
	}
	b.ReportAllocs()
	for i := range b.N {
		f.Contains(keys[50_000+i%50_000])
	}
}
