package kill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/table"
)

// state is what the database and the table say of one document.
type state struct {
	rev, doc, partition string
	order               int64
	deleted             bool
}

// view opens the table to be read.
func (w *world) view() *table.View {
	w.t.Helper()
	d, err := file.New(w.dir, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	t, err := table.Open(context.Background(), storage.New(d, nil), table.Options{ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	v, err := t.View(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// rows are the states that a reading of the table yields.
func (w *world) rows(v *table.View, read iter.Seq2[*hudi.Record, error]) map[string]state {
	w.t.Helper()
	m := map[string]state{}
	schema, err := v.Schema(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	for r, err := range read {
		if err != nil {
			w.t.Fatal(err)
		}
		r := r.Clone()
		text := func(c string) string { return schema.At(r.Row, c).Text() }
		if _, twice := m[r.Key.Record]; twice {
			w.t.Fatalf("%q is in the table twice", r.Key.Record)
		}
		m[r.Key.Record] = state{rev: text(hudi.ColumnRev), doc: text(hudi.ColumnDoc), partition: r.Key.Partition,
			order: schema.At(r.Row, hudi.ColumnRevOrder).Long(), deleted: schema.At(r.Row, hudi.ColumnDeleted).Boolean()}
	}
	return m
}

// check compares the table with the database, its folder with its timeline,
// and the quarantine with what was withheld.
func (w *world) check(what string) {
	w.t.Helper()
	v := w.view()
	got := w.rows(v, reader.Snapshot(context.Background(), v, reader.Options{IncludeDeletes: true}))
	w.compare(what, got)
	w.nothingElse(what, v)
	w.quarantined(what)
}

// compare holds the table's rows against the trees of revisions, and notes
// where the table has each document.
func (w *world) compare(what string, got map[string]state) {
	w.t.Helper()
	bad, live := 0, 0
	differs := func(id string, want any) {
		if bad++; bad < 5 {
			w.t.Errorf("%s: %q\n got %+v\nwant %+v", what, id, got[id], want)
		}
	}
	for d := range w.db.Docs() {
		is, there := got[d.ID]
		delete(got, d.ID)
		if d.ID == withheldID && w.withheld != nil {
			continue
		}
		want := state{rev: d.Winner().Rev.String(), doc: string(d.Winner().Body), order: d.GenerationSum(), deleted: d.Deleted()}
		switch {
		case want.deleted && w.hard:
			if there {
				differs(d.ID, "no row")
			}
			continue
		case want.deleted && w.places[d.ID][is.partition]:
			want.partition = is.partition
		case want.deleted:
			want.partition = "one of " + strings.Join(slices.Sorted(maps.Keys(w.places[d.ID])), ", ")
		default:
			live++
			want.partition = w.partition(dayOf(w.t, d))
		}
		if is != want {
			got[d.ID] = is
			differs(d.ID, want)
			delete(got, d.ID)
		}
		if !w.tended { // else it may be taken back to any of them
			w.places[d.ID] = map[string]bool{}
		}
		w.places[d.ID][is.partition] = true
	}
	for id := range got {
		differs(id, "no row")
	}
	if bad > 0 {
		w.t.Fatalf("%s: %d documents differ", what, bad)
	}
	if live == 0 {
		w.t.Fatalf("%s: no document is live: the comparison says nothing", what)
	}
}

// nothingElse holds the files of the table against what completed commits name,
// those in the archive too.
func (w *world) nothingElse(what string, v *table.View) {
	w.t.Helper()
	named := map[string]bool{}
	for _, i := range v.Instants() {
		if !i.Done() {
			w.t.Errorf("%s: left on the timeline: %s", what, i)
		}
	}
	cleaned, err := v.Cleaned(context.Background())
	w.must(nil, err)
	v, err = v.Reaching(context.Background(), "")
	w.must(nil, err)
	for _, i := range v.Writes() {
		named[".hoodie/couch2hudi/quarantine/"+string(i.Time)+".ndjson"] = true
		b, err := v.Body(context.Background(), i)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, stats := range b.Stats {
			for _, s := range stats {
				named[s.Path] = true
				fi, err := os.Stat(filepath.Join(w.dir, s.Path))
				if gone := errors.Is(err, fs.ErrNotExist) && cleaned.Earliest != ""; !gone && (err != nil || fi.Size() != s.Bytes) {
					w.t.Errorf("%s: %s of %s is not there with its %d bytes: %v", what, s.Path, i, s.Bytes, err)
				}
			}
		}
	}
	for _, name := range w.files() {
		inside, hoodie := strings.CutPrefix(name, ".hoodie/")
		base := filepath.Base(name)
		switch {
		case named[name], base == ".hoodie_partition_metadata" && !hoodie:
		case hoodie && !strings.Contains(inside, "/") && !strings.HasPrefix(base, "."): // the timeline and the properties
		case inside == "couch2hudi/lock", inside == "couch2hudi/compaction.lock":
		case w.tended && strings.HasPrefix(inside, "archived/") && !isTemp(base):
		default:
			w.t.Errorf("%s: no commit names %s", what, name)
		}
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// files are the names of all files under the table, hidden ones included.
func (w *world) files() []string {
	w.t.Helper()
	var names []string
	err := filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a process is at work
		}
		if err == nil && !e.IsDir() {
			var name string
			name, err = filepath.Rel(w.dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	w.must(nil, err)
	return names
}

// quarantined fails unless the newest change of the withheld document is kept.
func (w *world) quarantined(what string) {
	w.t.Helper()
	if w.withheld == nil {
		return
	}
	d, ok := w.db.Doc(withheldID)
	if !ok {
		return
	}
	for _, name := range w.files() {
		if !strings.HasPrefix(name, ".hoodie/couch2hudi/quarantine/") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(w.dir, name))
		w.must(nil, err)
		for line := range bytes.Lines(data) {
			var q struct{ ID, Rev string }
			w.must(nil, json.Unmarshal(line, &q))
			if q.ID == withheldID && q.Rev == d.Winner().Rev.String() {
				return
			}
		}
	}
	w.t.Fatalf("%s: revision %s of the withheld document is in no quarantine", what, d.Winner().Rev)
}

// finish compares what all incremental reads from commit to commit add up to,
// and reads on from last_seq, where there must be nothing.
func (w *world) finish(what string) {
	w.t.Helper()
	ctx, v := context.Background(), w.view()
	all, begin := map[string]state{}, hudi.Time("0")
	if reach, err := v.Cleaned(ctx); err != nil {
		w.t.Fatal(err)
	} else if reach.Earliest != "" {
		begin = reach.Earliest
		all = w.rows(v, reader.Snapshot(ctx, v.AsOf(begin), reader.Options{IncludeDeletes: true}))
	}
	for _, i := range v.Writes() {
		if w.hard { // hard deletes do not show in incremental reads
			break
		}
		if !i.Time.After(begin) {
			continue
		}
		maps.Copy(all, w.rows(v, reader.Incremental(ctx, v, begin, i.Time, reader.Options{IncludeDeletes: true})))
		begin = i.Time
	}
	if !w.hard {
		w.compare(what+": incremental reads replayed", all)
	}
	seq, _, ok, err := v.Extra(ctx, commitmeta.ExtraLastSeq)
	if err != nil || !ok {
		w.t.Fatalf("%s: no last_seq: %v", what, err)
	}
	source, err := couchdb.Open(ctx, couchdb.Options{URL: w.server.URL() + "/docs"})
	w.must(nil, err)
	defer func() { w.must(nil, source.Close()) }()
	b, err := source.Next(ctx, changes.Position(seq), changes.Limit{})
	if err != nil || len(b.Changes) != 0 {
		w.t.Fatalf("%s: reading on from last_seq gave %d rows, %v", what, len(b.Changes), err)
	}
}
