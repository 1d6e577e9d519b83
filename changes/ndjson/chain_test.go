package ndjson_test

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/ndjson"
)

// chain is one of four bundles of 1,000 rows and more.
func chain(t testing.TB) (*memory, string, []ndjson.Manifest) {
	t.Helper()
	m, folder := newMemory(), t.TempDir()
	var all []ndjson.Manifest
	for b := range 4 {
		for i := range 1000 + b {
			m.put(fmt.Sprintf("doc%04d", i), fmt.Sprintf(`{"n":%d,"b":%d}`, i, b), i%50 == 7)
		}
		all = append(all, export(t, m, ndjson.ExportOptions{Folder: folder})...)
	}
	if len(all) != 4 || all[0].Rows != 1000 || all[3].Rows != 1003 {
		t.Fatalf("%+v", all)
	}
	return m, folder, all
}

func read(t testing.TB, folder, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Every bit of every manifest and every byte of every bundle: no change of one goes
// unnoticed.
func TestEveryByteOfAChain(t *testing.T) {
	_, folder, manifests := chain(t)
	for _, m := range manifests {
		text := read(t, folder, ndjson.ManifestName(m.Number))
		if back, err := ndjson.DecodeManifest(text); err != nil || back != m {
			t.Fatalf("%+v, %v", back, err)
		}
		for i := range text {
			kept := text[i]
			for bit := range 8 {
				text[i] = kept ^ 1<<bit
				if _, err := ndjson.DecodeManifest(text); err == nil {
					t.Fatalf("manifest %d: byte %d as %#x goes unnoticed", m.Number, i, text[i])
				}
			}
			text[i] = kept
		}
		for i := range text { // cut off, and with a byte too few
			if _, err := ndjson.DecodeManifest(text[:i]); err == nil {
				t.Fatalf("manifest %d cut to %d bytes goes unnoticed", m.Number, i)
			}
			if _, err := ndjson.DecodeManifest(append(bytes.Clone(text[:i]), text[i+1:]...)); err == nil {
				t.Fatalf("manifest %d without byte %d goes unnoticed", m.Number, i)
			}
		}
		everyByte(t, m, read(t, folder, ndjson.DataName(m.Number)))
	}
}

// everyByte changes each byte of a bundle. What comes before is hashed once.
func everyByte(t *testing.T, m ndjson.Manifest, data []byte) {
	t.Helper()
	before := sha256.New()
	for i, b := range data {
		state, err := before.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
			t.Fatal(err)
		}
		h.Write([]byte{b ^ byte(1+i%255)})
		h.Write(data[i+1:])
		if hex.EncodeToString(h.Sum(nil)) == m.SHA256 {
			t.Fatalf("bundle %d: byte %d goes unnoticed", m.Number, i)
		}
		before.Write([]byte{b})
	}
	if hex.EncodeToString(before.Sum(nil)) != m.SHA256 || int64(len(data)) != m.Bytes {
		t.Fatalf("bundle %d is not what its manifest says", m.Number)
	}
}

// damage is something done to a folder's files. It says in which bundle the
// damage must be found, and a word of the reason.
type damage struct {
	name   string
	do     func(t *testing.T, f folder)
	bundle int64
	word   string
}

// folder does things to bundles.
type folder struct {
	t    *testing.T
	path string
}

func (f folder) read(name string) []byte { return read(f.t, f.path, name) }

func (f folder) write(name string, data []byte) {
	if err := os.WriteFile(filepath.Join(f.path, name), data, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) remove(name string) {
	if err := os.Remove(filepath.Join(f.path, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) flip(name string, at int) {
	data := f.read(name)
	data[at] ^= 0x20
	f.write(name, data)
}

func (f folder) copy(from, to string) { f.write(to, f.read(from)) }

func (f folder) swap(a, b string) {
	x, y := f.read(a), f.read(b)
	f.write(a, y)
	f.write(b, x)
}

func damages(foreign, fork string) (all []damage) {
	add := func(bundle int64, word, name string, do func(t *testing.T, f folder)) {
		all = append(all, damage{name, do, bundle, word})
	}
	for n := int64(1); n <= 3; n++ {
		data, manifest := ndjson.DataName(n), ndjson.ManifestName(n)
		next, nextManifest := ndjson.DataName(n+1), ndjson.ManifestName(n+1)
		for _, at := range []int{3, 333} {
			add(n, "SHA-256", "a byte of a bundle", func(_ *testing.T, f folder) { f.flip(data, at) })
			add(n, "not as it was written", "a byte of a manifest", func(_ *testing.T, f folder) { f.flip(manifest, at) })
		}
		add(n, "missing", "a bundle's file deleted", func(_ *testing.T, f folder) { f.remove(data) })
		add(n, "missing", "a manifest deleted", func(_ *testing.T, f folder) { f.remove(manifest) })
		add(n, "missing", "a bundle deleted", func(_ *testing.T, f folder) { f.remove(data); f.remove(manifest) })
		add(n, "bytes", "a bundle cut off", func(_ *testing.T, f folder) { f.write(data, f.read(data)[:100]) })
		add(n, "bytes", "an empty bundle", func(_ *testing.T, f folder) { f.write(data, nil) })
		add(n, "bytes", "a bundle with a byte more", func(_ *testing.T, f folder) { f.write(data, append(f.read(data), 0)) })
		add(n, "not as it was written", "an empty manifest", func(_ *testing.T, f folder) { f.write(manifest, nil) })
		add(n+1, "doubled", "a bundle in the place of the next", func(_ *testing.T, f folder) { f.copy(data, next); f.copy(manifest, nextManifest) })
		add(n+1, "its manifest says", "a bundle's file in the place of the next", func(_ *testing.T, f folder) { f.copy(data, next) })
		add(n, "reordered", "two bundles swapped", func(_ *testing.T, f folder) { f.swap(data, next); f.swap(manifest, nextManifest) })
		add(n, "its manifest says", "two bundles' files swapped", func(_ *testing.T, f folder) { f.swap(data, next) })
		add(n, "reordered", "two manifests swapped", func(_ *testing.T, f folder) { f.swap(manifest, nextManifest) })
		if n > 1 {
			add(n, "foreign", "a bundle of another chain", func(t *testing.T, f folder) {
				f.write(data, read(t, foreign, data))
				f.write(manifest, read(t, foreign, manifest))
			})
		}
		if n == 2 {
			add(n+1, "does not follow", "a bundle of a fork", func(t *testing.T, f folder) {
				f.write(data, read(t, fork, data))
				f.write(manifest, read(t, fork, manifest))
			})
		}
	}
	return all
}

// Every change, deletion, duplication and swap is found, and named; what was
// delivered before it is right.
func TestDamagedChains(t *testing.T) {
	m, whole, manifests := chain(t)
	_, foreign, _ := chain(t)
	fork := forked(t, whole)
	for _, d := range damages(foreign, fork) {
		t.Run(fmt.Sprintf("%s %d", d.name, d.bundle), func(t *testing.T) {
			f := folder{t, t.TempDir()}
			for _, b := range manifests {
				f.write(ndjson.DataName(b.Number), read(t, whole, ndjson.DataName(b.Number)))
				f.write(ndjson.ManifestName(b.Number), read(t, whole, ndjson.ManifestName(b.Number)))
			}
			d.do(t, f)
			s := open(t, ndjson.Options{Folder: f.path, Settle: time.Hour})
			rows, err := all(t, s)
			if err == nil {
				err = s.Gap()
			}
			found(t, d, err)
			right := int64(0)
			for _, b := range manifests[:d.bundle-1] {
				right += b.Rows
			}
			if fork := strings.Contains(d.name, "fork"); !fork && describe(rows) != describe(m.rows[:right]) {
				t.Errorf("%d rows before it, want %d", len(rows), right)
			}
			if strings.Contains(d.name, "delete") {
				return // waited for, for ever
			}
			// Followed, it ends as soon as it is sure that nothing is being copied.
			s = open(t, ndjson.Options{Folder: f.path, Settle: time.Millisecond})
			for at := changes.Position(""); ; {
				b, err := s.Next(t.Context(), at, changes.Limit{Idle: time.Minute})
				if err != nil {
					found(t, d, err)
					return
				}
				at = b.Last
			}
		})
	}
}

func found(t *testing.T, d damage, err error) {
	t.Helper()
	name := strings.TrimSuffix(ndjson.ManifestName(d.bundle), ".manifest.json")
	if !errors.Is(err, changes.ErrChain) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), d.word) {
		t.Errorf("got %v, want %q of %s", err, d.word, name)
	}
}

// forked is a folder whose exporter went back: it exported other rows under
// numbers that there were already.
func forked(t *testing.T, whole string) string {
	t.Helper()
	f := folder{t, t.TempDir()}
	f.write(ndjson.ManifestName(1), read(t, whole, ndjson.ManifestName(1)))
	m := newMemory()
	for i := range 4000 {
		m.put(fmt.Sprintf("other%04d", i), "{}", false)
		if i == 1999 || i == 2999 {
			export(t, m, ndjson.ExportOptions{Folder: f.path})
		}
	}
	return f.path
}
