package keycache_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// history is a table that a test writes by hand, as any engine might have: the
// files and the timeline are put into the bucket as they are.
type history struct {
	t      testing.TB
	bucket *storage.Bucket
	table  *table.Table
	schema *hudi.Schema
	rand   *rand.Rand
	now    time.Time
	files  int
}

func newHistory(t testing.TB, seed uint64) *history {
	t.Helper()
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev", Kind: hudi.KindString},
		hudi.Column{Name: "_rev_order", Kind: hudi.KindLong}, hudi.Column{Name: "_op", Kind: hudi.KindString},
		hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean}, hudi.Column{Name: "pt", Kind: hudi.KindString}, hudi.Column{Name: "v", Kind: hudi.KindString})
	if err != nil {
		t.Fatal(err)
	}
	h := &history{t: t, bucket: storage.New(teststore.New(t), nil), schema: s, rand: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if h.table, err = table.Create(t.Context(), h.bucket, table.CreateOptions{Name: "docs", PartitionField: "pt"}, table.Options{}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *history) must(_ any, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// instant is the next one.
func (h *history) instant() hudi.Time {
	h.now = h.now.Add(time.Second)
	return hudi.FormatTime(h.now)
}

func (h *history) view() *table.View {
	h.t.Helper()
	v, err := h.table.View(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// mark puts an instant into a state.
func (h *history) mark(at hudi.Time, a commitmeta.Action, s timeline.State, data []byte) {
	h.t.Helper()
	name, err := timeline.FileName(hudi.Version6, timeline.Instant{Time: at, Action: a, State: s})
	h.must(nil, err)
	h.must(h.bucket.Put(h.t.Context(), ".hoodie/"+name, data))
}

// act is a commit that is being made.
type act struct {
	at     hudi.Time
	action commitmeta.Action
	body   commitmeta.Body
}

func (h *history) begin(action commitmeta.Action) *act {
	h.t.Helper()
	c := &act{at: h.instant(), action: action, body: commitmeta.Body{Stats: map[string][]commitmeta.WriteStat{}, Operation: "UPSERT",
		Extra: map[string]string{commitmeta.ExtraSchema: h.schema.Avro()}}}
	pending := action
	if action == commitmeta.ActionCommit {
		pending = commitmeta.ActionCompaction
		c.body.Compacted, c.body.Operation = true, "COMPACT"
	}
	if pending != commitmeta.ActionCompaction {
		h.mark(c.at, pending, timeline.Requested, nil)
	}
	h.mark(c.at, pending, timeline.Inflight, nil)
	return c
}

func (h *history) complete(c *act) {
	h.t.Helper()
	data, err := commitmeta.Encode(hudi.Version6, c.body)
	h.must(nil, err)
	h.mark(c.at, c.action, timeline.Completed, data)
}

// live, buried and removed are the kinds of versions.
func live(key string, order int64) hudi.Record {
	rev := fmt.Sprintf("%d-%032x", order, order*7919)
	if order%5 == 0 {
		rev = fmt.Sprintf("%d-not of CouchDB", order)
	}
	return hudi.Record{Key: hudi.Key{Record: key}, Order: order, Row: hudi.Row{hudi.String(key), hudi.String(rev), hudi.Long(order), hudi.String("u"),
		hudi.Boolean(false), {}, hudi.String(strings.Repeat("payload ", 4))}}
}

func buried(key string, order int64) hudi.Record {
	r := live(key, order)
	r.Row[4] = hudi.Boolean(true)
	return r
}

func removed(key string, order int64) hudi.Record {
	return hudi.Record{Key: hudi.Key{Record: key}, Order: order, Delete: true}
}

type encoder interface{ Append(*hudi.Record) error }

// put stores a file of a commit and says so in its body.
func (h *history) put(c *act, at hudi.Location, name string, stat commitmeta.WriteStat, records []hudi.Record) {
	h.t.Helper()
	var data bytes.Buffer
	stamp := hudi.Stamp{Instant: c.at, Task: h.files}
	var w encoder
	var end func() error
	if stat.Log == nil {
		slices.SortFunc(records, func(a, b hudi.Record) int { return hudi.CompareUTF16(a.Key.Record, b.Key.Record) })
		b, err := basefile.NewWriter(&data, h.schema, basefile.WriterOptions{Stamp: stamp, FileName: name})
		h.must(nil, err)
		w, end = b, func() error { _, err := b.Close(); return err }
	} else {
		l, err := logfile.NewWriter(&data, h.schema, logfile.WriterOptions{Stamp: stamp, File: at.File})
		h.must(nil, err)
		w, end = l, func() error { _, err := l.Close(); return err }
	}
	for i := range records {
		records[i].Key.Partition = at.Partition
		h.must(nil, w.Append(&records[i]))
	}
	h.must(nil, end())
	ctx := h.t.Context()
	h.must(h.bucket.Put(ctx, path.Join(at.Partition, ".hoodie_partition_metadata"), []byte("x")))
	h.must(h.bucket.Put(ctx, path.Join(at.Partition, name), data.Bytes()))
	stat.File, stat.Partition, stat.Path, stat.Bytes = at.File, at.Partition, path.Join(at.Partition, name), int64(data.Len())
	c.body.Stats[at.Partition] = append(c.body.Stats[at.Partition], stat)
}

func (h *history) base(c *act, at hudi.Location, records []hudi.Record) {
	h.t.Helper()
	h.files++
	name := hudi.BaseFileName{File: at.File, Token: fmt.Sprintf("%d-0-0", h.files), Instant: c.at}.String()
	h.put(c, at, name, commitmeta.WriteStat{Writes: int64(len(records))}, records)
}

// log writes a log file onto a slice of a base instant.
func (h *history) log(c *act, at hudi.Location, base hudi.Time, records []hudi.Record) {
	h.t.Helper()
	h.files++
	version := 1
	if s, ok := h.slice(at); ok {
		for _, f := range s.Logs {
			n, err := hudi.ParseLogFileName(f.Name)
			h.must(nil, err)
			if n.Instant == base {
				version = max(version, n.Version+1)
			}
		}
	}
	name := hudi.LogFileName{File: at.File, Instant: base, Version: version, Token: fmt.Sprintf("%d-0-0", h.files)}.String()
	h.put(c, at, name, commitmeta.WriteStat{PrevCommit: base, Log: &commitmeta.LogStat{Version: version, LogFiles: []string{name}}}, records)
}

func (h *history) slices() (all []hudi.Slice) {
	h.t.Helper()
	v := h.view()
	partitions, err := v.Partitions(h.t.Context())
	h.must(nil, err)
	for _, p := range partitions {
		list, err := v.Slices(h.t.Context(), p)
		h.must(nil, err)
		all = append(all, list...)
	}
	return all
}

func (h *history) slice(at hudi.Location) (hudi.Slice, bool) {
	h.t.Helper()
	list, err := h.view().Slices(h.t.Context(), at.Partition)
	h.must(nil, err)
	for _, s := range list {
		if s.File == at.File {
			return s, true
		}
	}
	return hudi.Slice{}, false
}

// rows are the merged rows of a slice.
func (h *history) rows(s hudi.Slice) (rows []hudi.Record) {
	h.t.Helper()
	for r, err := range reader.Slice(h.t.Context(), h.view(), s, h.schema, reader.Options{}) {
		h.must(nil, err)
		rows = append(rows, r.Clone())
	}
	return rows
}

// logInstant is the instant in the name of the slice's next log file.
func logInstant(s hudi.Slice) hudi.Time { return cmp.Or(s.Compacting, s.Instant) }

// write is a commit of records at places; those of new places go into base files.
func (h *history) write(placed []hudi.Located) *act {
	h.t.Helper()
	c := h.begin(commitmeta.ActionDeltaCommit)
	h.fill(c, placed)
	return c
}

func (h *history) fill(c *act, placed []hudi.Located) {
	h.t.Helper()
	by := map[hudi.Location][]hudi.Record{}
	for i := range placed {
		by[placed[i].Location] = append(by[placed[i].Location], placed[i].Record)
	}
	for _, at := range slices.SortedFunc(maps.Keys(by), func(a, b hudi.Location) int { return cmp.Compare(a.File, b.File) }) {
		if s, there := h.slice(at); there {
			h.log(c, at, logInstant(s), by[at])
		} else {
			h.base(c, at, by[at])
		}
	}
}

// archive takes the oldest n completed instants off the timeline, but for the last
// few. What they replaced goes before.
func (h *history) archive(n int) {
	h.t.Helper()
	const least = 3
	v := h.view()
	n = min(n, len(v.Writes())-least)
	var old []timeline.Instant
	for _, i := range v.Instants() {
		if n--; n < 0 || !i.Done() {
			break
		}
		if !i.Writes() {
			h.erase(i) // a restore, which only another engine takes away
			continue
		}
		body, err := v.Body(h.t.Context(), i)
		h.must(nil, err)
		h.clean(body.Replaced)
		old = append(old, i)
	}
	another, err := table.Open(h.t.Context(), h.bucket, table.Options{})
	h.must(nil, err)
	lease, err := another.Lease(h.t.Context())
	h.must(nil, err)
	h.must(another.Archive(h.t.Context(), old))
	h.must(nil, lease.Close())
}

// clean removes the files of replaced groups.
func (h *history) clean(replaced map[string][]hudi.FileID) {
	h.t.Helper()
	for partition, ids := range replaced {
		for o, err := range h.bucket.List(h.t.Context(), partition+"/") {
			h.must(nil, err)
			for _, id := range ids {
				if strings.Contains(o.Name, string(id)) {
					h.must(nil, h.bucket.Delete(h.t.Context(), o.Name))
				}
			}
		}
	}
}

func (h *history) erase(i timeline.Instant) {
	h.t.Helper()
	for o, err := range h.bucket.List(h.t.Context(), ".hoodie/"+string(i.Time)) {
		h.must(nil, err)
		h.must(nil, h.bucket.Delete(h.t.Context(), o.Name))
	}
}
