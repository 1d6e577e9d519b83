package writer_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/golden"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
	"github.com/couch2hudi/couch2hudi/writer"
)

func loaded(t *testing.T, name string) *storage.Bucket {
	t.Helper()
	return golden.Load(t, storage.New(teststore.New(t), nil), name)
}

func viewOf(t *testing.T, b *storage.Bucket, readOnly bool) *table.View {
	t.Helper()
	tb, err := table.Open(t.Context(), b, table.Options{ReadOnly: readOnly})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tb.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRewriteLikeHudi takes back, in Hudi's own tables, each delta commit that
// wrote a small base file again, writes the rows that it brought there with our
// writer, and compares the write stats.
func TestRewriteLikeHudi(t *testing.T) {
	compared, updated := 0, 0
	for _, file := range golden.Names(t, "w015-v6-*") {
		if strings.Contains(file, "failed") {
			continue // pending instants: Recover's tests
		}
		if _, err := table.Open(t.Context(), loaded(t, file), table.Options{}); errors.Is(err, table.ErrMetadataTable) || errors.Is(err, table.ErrUnsupported) {
			continue // we do not write to these
		}
		v := viewOf(t, loaded(t, file), true)
		for _, i := range v.Writes() {
			body, err := v.Body(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			for _, stats := range body.Stats {
				for _, want := range stats {
					if want.Log != nil || want.PrevCommit == "" || i.Action != commitmeta.ActionDeltaCommit {
						continue
					}
					if again(t, file, i, want) {
						compared++
						updated += int(min(want.Updates, 1))
					}
				}
			}
		}
	}
	if compared < 5 || updated < 2 {
		t.Fatalf("%d rewritten files compared, %d with updates", compared, updated)
	}
}

// again says whether the files that it needs are still there.
func again(t *testing.T, file string, i timeline.Instant, want commitmeta.WriteStat) bool {
	t.Helper()
	b := loaded(t, file)
	now := viewOf(t, b, true)
	schema, err := now.AsOf(i.Time).Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	takeBack(t, b, now, i.Time)
	before := viewOf(t, b, true)
	list, err := before.Slices(t.Context(), want.Partition)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(s hudi.Slice) bool { return s.File == want.File && s.Instant == want.PrevCommit })
	if at < 0 {
		return false
	}
	old := map[string]bool{}
	for r, err := range reader.Slice(t.Context(), before, list[at], schema, reader.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		old[strings.Clone(r.Key.Record)] = true
	}
	rs := brought(t, loaded(t, file), i.Time, want, schema, old)
	tb, err := table.Open(t.Context(), b, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := tb.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	x, err := tb.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stats, err := writer.Write(t.Context(), x, schema, rs, writer.Options{})
	if err != nil || len(stats) != 1 {
		t.Fatalf("%s %s: %+v %v", file, want.Path, stats, err)
	}
	got := stats[0]
	if dir, name := path.Split(got.Path); strings.TrimSuffix(dir, "/") != want.Partition || name != string(want.File)+"_0-0-0_"+string(x.Instant())+".parquet" {
		t.Errorf("path %q", got.Path)
	}
	got.Path, got.Bytes, want.CDC = want.Path, want.Bytes, nil
	if !equalStats(got, want) {
		t.Errorf("%s\n got %+v\nwant %+v", file, got, want)
	}
	return true
}

func equalStats(a, b commitmeta.WriteStat) bool {
	a.CDC, b.CDC = nil, nil
	return a.File == b.File && a.Path == b.Path && a.Partition == b.Partition && a.PrevCommit == b.PrevCommit && a.Log == nil && b.Log == nil &&
		a.Writes == b.Writes && a.Inserts == b.Inserts && a.Updates == b.Updates && a.Deletes == b.Deletes && a.Compaction == b.Compaction
}

// takeBack removes an instant and all later ones, with their files.
func takeBack(t *testing.T, b *storage.Bucket, v *table.View, from hudi.Time) {
	t.Helper()
	for _, i := range v.Writes() {
		if i.Time.Before(from) {
			continue
		}
		body, err := v.Body(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		for _, stats := range body.Stats {
			for k := range stats {
				if err := b.DeleteIfExists(t.Context(), stats[k].Path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var names []string
	for o, err := range b.List(t.Context(), ".hoodie/") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Name)
	}
	for _, name := range names {
		instant, _, _ := strings.Cut(path.Base(name), ".")
		if len(instant) == len(from) && path.Dir(name) == ".hoodie" && instant >= string(from) {
			if err := b.DeleteIfExists(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// brought are the rows of a rewritten file that its commit brought there.
func brought(t *testing.T, b *storage.Bucket, at hudi.Time, s commitmeta.WriteStat, schema *hudi.Schema, old map[string]bool) []hudi.Located {
	t.Helper()
	v := viewOf(t, b, true).AsOf(at)
	list, err := v.Slices(t.Context(), s.Partition)
	if err != nil {
		t.Fatal(err)
	}
	k := slices.IndexFunc(list, func(l hudi.Slice) bool { return l.File == s.File })
	if k < 0 {
		t.Fatalf("no slice for %+v", s)
	}
	var rs []hudi.Located
	for r, err := range reader.Slice(t.Context(), v, list[k], schema, reader.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.CommitTime != at {
			continue
		}
		l := hudi.Located{Record: r.Clone(), Location: hudi.Location{Partition: s.Partition}}
		if l.CommitTime, l.CommitSeqno = "", ""; old[l.Key.Record] {
			l.File = s.File
		}
		rs = append(rs, l)
	}
	return rs
}
