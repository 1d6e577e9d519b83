package index_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// store is a table whose files a test writes.
type store struct {
	t      testing.TB
	driver storage.Driver
	bucket *storage.Bucket
	opened *atomic.Int64
	table  *table.Table
	schema *hudi.Schema
	files  int
}

func newStore(t testing.TB) *store {
	t.Helper()
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev", Kind: hudi.KindString},
		hudi.Column{Name: "_rev_order", Kind: hudi.KindLong}, hudi.Column{Name: "_op", Kind: hudi.KindString},
		hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean}, hudi.Column{Name: "pt", Kind: hudi.KindString}, hudi.Column{Name: "v", Kind: hudi.KindString})
	if err != nil {
		t.Fatal(err)
	}
	opened := new(atomic.Int64)
	o := storage.Options{Observe: func(e storage.Event) {
		if e.Op == "read" && strings.HasSuffix(e.Name, ".parquet") {
			opened.Add(1)
		}
	}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	st := &store{t: t, driver: teststore.New(t), schema: s, opened: opened}
	st.bucket = storage.New(st.driver, &o)
	if st.table, err = table.Create(t.Context(), st.bucket, table.CreateOptions{Name: "docs", PartitionField: "pt"}, table.Options{Clock: clock}); err != nil {
		t.Fatal(err)
	}
	lease, err := st.table.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lease.Close() })
	return st
}

// part is one file of a commit: a log when base is set.
type part struct {
	at      hudi.Location
	base    hudi.Time
	version int
	records []hudi.Record
	// natural makes deletes of the order 0 what Hudi's own delete has, an int 0.
	natural bool
}

func live(key string, order int64, rev string) hudi.Record {
	return hudi.Record{Key: hudi.Key{Record: key}, Order: order, Row: hudi.Row{hudi.String(key), hudi.String(rev), hudi.Long(order), hudi.String("u"),
		hudi.Boolean(false), {}, hudi.String(strings.Repeat("payload ", 10))}}
}

func buried(key string, order int64, rev string) hudi.Record {
	r := live(key, order, rev)
	r.Row[4] = hudi.Boolean(true)
	return r
}

func removed(key string, order int64) hudi.Record {
	return hudi.Record{Key: hudi.Key{Record: key}, Order: order, Delete: true}
}

type encoder interface {
	Append(*hudi.Record) error
}

func (s *store) commit(parts ...part) hudi.Time {
	s.t.Helper()
	x, err := s.table.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	body := commitmeta.Body{Stats: map[string][]commitmeta.WriteStat{}, Extra: map[string]string{commitmeta.ExtraSchema: s.schema.Avro()}}
	for _, p := range parts {
		if p.base == "own" {
			p.base = x.Instant()
		}
		stat := s.write(x, p)
		body.Stats[p.at.Partition] = append(body.Stats[p.at.Partition], stat)
	}
	if err := x.Commit(s.t.Context(), body); err != nil {
		s.t.Fatal(err)
	}
	return x.Instant()
}

func (s *store) write(x *table.Txn, p part) commitmeta.WriteStat {
	s.t.Helper()
	s.files++
	n := int64(len(p.records))
	token := fmt.Sprintf("%d-0-0", s.files)
	name, marker := hudi.BaseFileName{File: p.at.File, Token: token, Instant: x.Instant()}.String(), table.MarkCreate
	stat := commitmeta.WriteStat{File: p.at.File, Partition: p.at.Partition, Writes: n, Inserts: n}
	if p.base != "" {
		name, marker = hudi.LogFileName{File: p.at.File, Instant: p.base, Version: p.version, Token: token}.String(), table.MarkAppend
		stat.PrevCommit, stat.Log = p.base, &commitmeta.LogStat{Version: p.version, LogFiles: []string{name}}
	} else {
		slices.SortFunc(p.records, func(a, b hudi.Record) int { return hudi.CompareUTF16(a.Key.Record, b.Key.Record) })
	}
	up, err := x.Create(s.t.Context(), p.at.Partition, name, marker)
	if err == nil {
		var content bytes.Buffer
		if err = s.encode(&content, x.Instant(), name, p); err == nil {
			_, err = up.Write(natural(content.Bytes(), p))
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	o, err := up.Commit()
	if err != nil {
		s.t.Fatal(err)
	}
	stat.Path, stat.Bytes = path.Join(p.at.Partition, name), o.Size
	return stat
}

func natural(b []byte, p part) []byte {
	if !p.natural {
		return b
	}
	return bytes.ReplaceAll(b, []byte(p.at.Partition+"\x06\x00"), []byte(p.at.Partition+"\x04\x00"))
}

func (s *store) encode(to io.Writer, instant hudi.Time, name string, p part) error {
	stamp := hudi.Stamp{Instant: instant, Task: s.files}
	var w encoder
	var end func() error
	if p.base == "" {
		b, err := basefile.NewWriter(to, s.schema, basefile.WriterOptions{Stamp: stamp, FileName: name})
		if err != nil {
			return err
		}
		w, end = b, func() error { _, err := b.Close(); return err }
	} else {
		l, err := logfile.NewWriter(to, s.schema, logfile.WriterOptions{Stamp: stamp, File: p.at.File})
		if err != nil {
			return err
		}
		w, end = l, func() error { _, err := l.Close(); return err }
	}
	for i := range p.records {
		p.records[i].Key.Partition = p.at.Partition
		if err := w.Append(&p.records[i]); err != nil {
			return err
		}
	}
	return end()
}

func (s *store) view() *table.View {
	s.t.Helper()
	v, err := s.table.View(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// ask is what the index says of keys, as "key: partition/file order rev flags".
func (s *store) ask(ix index.Index, keys ...string) map[string]string {
	s.t.Helper()
	asked := make([]hudi.Key, len(keys))
	for i, k := range keys {
		asked[i] = hudi.Key{Record: k}
	}
	stored, err := ix.Locate(s.t.Context(), s.view(), asked, index.Global)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(stored) != len(keys) {
		s.t.Fatalf("%d answers to %d keys", len(stored), len(keys))
	}
	out := map[string]string{}
	for i, k := range keys {
		out[k] = answer(stored[i])
	}
	return out
}

func answer(f hudi.Stored) string {
	if !f.Found && f.File == "" {
		return ""
	}
	text := fmt.Sprintf("%s/%s %d %s", f.Partition, f.File, f.Order, f.Rev)
	if !f.Found {
		text = "hidden " + text
	}
	if f.Deleted {
		text += " tombstone"
	}
	words := []string{strings.TrimSpace(text)}
	for _, o := range f.Others {
		words = append(words, fmt.Sprintf("also %s/%s", o.Partition, o.File))
	}
	for _, h := range f.Hidden {
		words = append(words, fmt.Sprintf("hidden too %s/%s %d", h.Partition, h.File, h.Order))
	}
	return strings.Join(words, " ")
}

func at(partition, file string) hudi.Location {
	return hudi.Location{Partition: partition, File: hudi.FileID(file)}
}

func TestLocate(t *testing.T) {
	s := newStore(t)
	a, b, c := at("pt=a", "a-0"), at("pt=b", "b-0"), at("pt=a", "c-0")
	t1 := s.commit(part{at: a, records: []hudi.Record{live("k1", 1, "1-a"), live("k2", 1, "1-b"), live("k3", 1, "1-c"), live("\uFFFD", 1, "1-u"), live("\U0001F600", 1, "1-s")}},
		part{at: b, records: []hudi.Record{live("m1", 1, "1-d"), live("k4", 9, "9-d")}})
	s.commit(part{at: a, base: t1, version: 1, records: []hudi.Record{live("k1", 2, "2-a"), buried("k2", 3, "3-b"), removed("k3", 2)}},
		part{at: b, base: t1, version: 1, records: []hudi.Record{live("k4", 8, "8-late")}})
	s.commit(part{at: c, base: "own", version: 1, records: []hudi.Record{live("only in a log", 1, "1-l")}},
		part{at: a, base: t1, version: 2, records: []hudi.Record{live("beside the base", 1, "1-z")}})
	want := map[string]string{"k1": "pt=a/a-0 2 2-a", "k2": "pt=a/a-0 3 3-b tombstone", "k3": "hidden pt=a/a-0 2 1-c", "k4": "pt=b/b-0 9 9-d",
		"m1": "pt=b/b-0 1 1-d", "\uFFFD": "pt=a/a-0 1 1-u", "\U0001F600": "pt=a/a-0 1 1-s", "only in a log": "pt=a/c-0 1 1-l",
		"": "", "k": "", "k11": "", "zzz": "", "m2": ""}
	ix := index.NewBloom(index.BloomOptions{Parallel: 2})
	for key, w := range want {
		if got := s.ask(ix, key)[key]; got != w {
			t.Errorf("%q: got %q, want %q", key, got, w)
		}
	}
	keys := []string{"zzz", "k1", "k1"}
	for key := range want {
		keys = append(keys, key)
	}
	for key, got := range s.ask(ix, keys...) {
		if got != want[key] {
			t.Errorf("%q in a batch: got %q, want %q", key, got, want[key])
		}
	}
	// A key that stands in no base file, but in the log of a group that has
	// one, was put there by another index: it is looked for when asked.
	if got := s.ask(index.NewBloom(index.BloomOptions{}), "beside the base")["beside the base"]; got != "" {
		t.Errorf("found without looking: %s", got)
	}
	if got := s.ask(index.NewBloom(index.BloomOptions{ScanLogs: true}), "beside the base")["beside the base"]; got != "pt=a/a-0 1 1-z" {
		t.Errorf("%q", got)
	}
	old, err := ix.Locate(t.Context(), s.view().AsOf(t1), []hudi.Key{{Record: "k3"}, {Record: "only in a log"}}, index.Global)
	if err != nil || answer(old[0]) != "pt=a/a-0 1 1-c" || answer(old[1]) != "" {
		t.Errorf("as of the first commit: %v %v", old, err)
	}
}

// TestKeyInSeveralPlaces: the newest is the answer, whatever is searched first.
func TestKeyInSeveralPlaces(t *testing.T) {
	s := newStore(t)
	s.commit(part{at: at("pt=a", "a-0"), records: []hudi.Record{live("k", 2, "2-a"), live("tie", 1, "1-t")}},
		part{at: at("pt=b", "b-0"), records: []hudi.Record{live("k", 3, "3-a"), live("tie", 1, "1-t"), live("gone", 5, "5-a")}},
		part{at: at("pt=c", "c-0"), records: []hudi.Record{live("k", 1, "1-a"), live("gone", 1, "1-a")}})
	v := s.view()
	list, err := v.Slices(t.Context(), "pt=b")
	if err != nil {
		t.Fatal(err)
	}
	s.commit(part{at: at("pt=b", "b-0"), base: list[0].Instant, version: 1, records: []hudi.Record{removed("gone", 9)}})
	for range 20 {
		ix := index.NewBloom(index.BloomOptions{Parallel: 3})
		got := s.ask(ix, "k", "tie", "gone")
		for key, want := range map[string]string{"k": "pt=b/b-0 3 3-a also pt=a/a-0 also pt=c/c-0", "tie": "pt=a/a-0 1 1-t also pt=b/b-0", "gone": "pt=c/c-0 1 1-a hidden too pt=b/b-0 9"} {
			if got[key] != want {
				t.Fatalf("%s: got %q, want %q", key, got[key], want)
			}
		}
	}
}

// TestDeletesOfOtherWriters: a delete without an ordering value is known by what it
// hides, so that a row that comes later gets an order, and a place, in which it wins.
func TestDeletesOfOtherWriters(t *testing.T) {
	s := newStore(t)
	a, b := at("pt=a", "a-0"), at("pt=b", "b-0")
	purged := hudi.Order(1, 2)
	t1 := s.commit(part{at: a, records: []hudi.Record{live("base", 3, "3-a"), live("era", purged, "2-a"), live("moved", 1, "1-a"), live("twice", 1, "1-a")}})
	t2 := s.commit(part{at: a, base: t1, version: 1, records: []hudi.Record{removed("moved", 2), removed("twice", 2), live("base", 4, "4-a")}},
		part{at: b, records: []hudi.Record{live("moved", 2, "2-a"), live("twice", 2, "2-a")}})
	s.commit(part{at: a, base: t1, version: 2, natural: true, records: []hudi.Record{removed("base", 0), removed("era", 0)}},
		part{at: b, base: t2, version: 1, natural: true, records: []hudi.Record{removed("moved", 0)}})
	got := s.ask(index.NewBloom(index.BloomOptions{}), "base", "era", "moved", "twice")
	for key, want := range map[string]string{"base": "hidden pt=a/a-0 4 4-a", "era": fmt.Sprintf("hidden pt=a/a-0 %d 2-a", purged),
		"moved": "hidden pt=b/b-0 2 2-a hidden too pt=a/a-0 2", "twice": "pt=b/b-0 2 2-a hidden too pt=a/a-0 2"} {
		if got[key] != want {
			t.Errorf("%s: got %q, want %q", key, got[key], want)
		}
	}
}

// TestFindsEveryKeyAndNoOther compares with a model over many groups, with a
// cache that holds all footers and with one that holds none.
func TestFindsEveryKeyAndNoOther(t *testing.T) {
	s := newStore(t)
	r := rand.New(rand.NewPCG(1, 2))
	model := map[string]string{}
	for c := range 3 {
		var parts []part
		for g := range 6 {
			p := part{at: at(fmt.Sprintf("pt=%d", g%3), fmt.Sprintf("%d%d-0", c, g))}
			for range 40 {
				key := fmt.Sprintf("%08x", r.Uint32())
				if g == 0 {
					key += "\U0001F600\uFFFD"
				}
				p.records = append(p.records, live(key, 1, "1-"+key))
				model[key] = fmt.Sprintf("%s/%s 1 1-%s", p.at.Partition, p.at.File, key)
			}
			parts = append(parts, p)
		}
		s.commit(parts...)
	}
	keys := make([]string, 0, 2*len(model))
	for key := range model {
		keys = append(keys, key, key+"x")
	}
	for _, limit := range []int64{1, 0} {
		ix := index.NewBloom(index.BloomOptions{CacheBytes: limit})
		for range 2 {
			for key, got := range s.ask(ix, keys...) {
				if got != model[key] {
					t.Fatalf("%q: got %q, want %q", key, got, model[key])
				}
			}
		}
	}
}

// TestFootersAreReadOnce: a key that is nowhere costs one look at each footer,
// and then none.
func TestFootersAreReadOnce(t *testing.T) {
	s := newStore(t)
	var parts []part
	for g := range 5 {
		parts = append(parts, part{at: at("pt=a", fmt.Sprintf("%d-0", g)), records: []hudi.Record{live("a", 1, "1-a"), live("z", 1, "1-a")}})
	}
	s.commit(parts...)
	for _, c := range []struct {
		cache        int64
		first, again int64
	}{{0, 5, 0}, {1, 5, 5}} {
		ix := index.NewBloom(index.BloomOptions{CacheBytes: c.cache, Parallel: 1})
		for _, want := range []int64{c.first, c.again} {
			s.opened.Store(0)
			if got := s.ask(ix, "m")["m"]; got != "" || s.opened.Load() != want {
				t.Fatalf("cache of %d: %q, %d files opened, want %d", c.cache, got, s.opened.Load(), want)
			}
		}
	}
}

func TestLocateReportsFaults(t *testing.T) {
	s := newStore(t)
	ix := index.NewBloom(index.BloomOptions{})
	if got := s.ask(ix, "k")["k"]; got != "" {
		t.Fatalf("in an empty table: %s", got)
	}
	s.commit(part{at: at("pt=a", "a-0"), records: []hudi.Record{live("k", 1, "1-a")}})
	v := s.view()
	list, err := v.Slices(t.Context(), "pt=a")
	if err != nil {
		t.Fatal(err)
	}
	name := path.Join("pt=a", list[0].Base.Name)
	if _, err := s.bucket.Put(t.Context(), name, []byte("PAR1 no footer PAR1")); err != nil {
		t.Fatal(err)
	}
	if _, err := ix.Locate(t.Context(), v, []hudi.Key{{Record: "k"}}, index.Global); err == nil || !strings.Contains(err.Error(), "a-0") {
		t.Fatalf("a damaged footer: %v", err)
	}
	if err := s.bucket.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := ix.Locate(t.Context(), v, []hudi.Key{{Record: "k"}}, index.Global); err == nil {
		t.Fatal("a file that is gone was taken for one without the key")
	}
}

// TestTag goes through the index: one key of each fate.
func TestTag(t *testing.T) {
	s := newStore(t)
	s.commit(part{at: at("pt=a", "a-0"), records: []hudi.Record{live("same", 1, "1-a"), live("newer", 1, "1-a"), live("moves", 1, "1-a"), live("dies", 1, "1-a")}})
	row := func(key, partition string, order int64, rev string) hudi.Record {
		r := live(key, order, rev)
		r.Key.Partition = partition
		return r
	}
	dies := row("dies", "pt="+hudi.DefaultPartition, 2, "2-a")
	dies.AnyPartition = true
	batch := []hudi.Record{row("same", "pt=a", 1, "1-a"), row("newer", "pt=a", 2, "2-a"), row("moves", "pt=b", 2, "2-a"), row("born", "pt=b", 1, "1-a"),
		dies, removed("never", 3), row("newer", "pt=a", 1, "1-b")}
	got, err := index.Tag(t.Context(), index.NewBloom(index.BloomOptions{}), s.view(), s.schema, batch, index.TagOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range got.Records {
		lines = append(lines, fmt.Sprintf("%s %s/%s %d %v %s", r.Key.Record, r.Partition, r.File, r.Order, r.Delete, s.schema.At(r.Row, "pt").Text()))
	}
	want := []string{"newer pt=a/a-0 2 false ", "moves pt=a/a-0 2 true ", "moves pt=b/ 2 false ", "born pt=b/ 1 false ", "dies pt=a/a-0 2 false a"}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	got.Records = nil
	if fmt.Sprint(got) != fmt.Sprint(index.Tagged{Collapsed: 1, Replayed: 1, Unknown: 1, Inserts: 1, Updates: 3, Moved: 1}) {
		t.Errorf("%+v", got)
	}
}
