package writer_test

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// TestChangelog: with a changelog rows, changes and increments are those of a table
// without; and the log files read row by row, without merging, say what happened:
// each update behind the row as it was, each delete as its row; there is no delete block.
func TestChangelog(t *testing.T) {
	const batches = 8
	rewrites := 0
	for seed := range uint64(4) {
		plain := newWorldWith(t, seed, seed%2 == 0, table.CreateOptions{})
		told := newWorldWith(t, seed, seed%2 == 0, table.CreateOptions{Extra: map[string]string{hudi.PropChangelog: "true"}})
		for range batches {
			for _, w := range []*world{plain, told} {
				w.o.FileBytes, w.o.Parallel = 60_000, 1
				rs, committed := w.batch(1 + w.r.IntN(60))
				x, body := w.write(rs)
				if err := x.Commit(t.Context(), body); err != nil {
					t.Fatal(err)
				}
				committed()
				w.locate()
			}
			if got := told.state(); !maps.Equal(got, plain.state()) {
				t.Fatalf("seed %d: %v", seed, got)
			}
		}
		rewrites += told.rewrites
		got, want := told.changes("", reader.Options{}), plain.changes("", reader.Options{})
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: other changes than without a changelog", seed)
		}
		told.unmerged(got)
	}
	if rewrites == 0 {
		t.Error("nothing was written again")
	}
}

// unmerged holds the operations in log files against the changes of the commits.
func (w *world) unmerged(changes []string) {
	w.t.Helper()
	said := map[string]string{} // "instant key" to op
	for _, line := range changes {
		f := strings.Split(line, "\t")
		_, key, _ := strings.Cut(f[2], " ")
		said[f[0]+" "+key] = f[1]
	}
	updates, deletes := 0, 0
	v, err := w.table.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range v.Writes() {
		body, err := v.Body(w.t.Context(), i)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, stats := range body.Stats {
			for k := range stats {
				if stats[k].Log == nil {
					continue
				}
				last := ""
				for _, row := range w.operations(v, stats[k].Partition, path.Base(stats[k].Path)) {
					op, key, _ := strings.Cut(row, " ")
					change := said[string(i.Time)+" "+key]
					switch {
					case op == hudi.RowUpdateBefore && change == "u":
					case op == hudi.RowUpdateAfter && change == "u" && last == hudi.RowUpdateBefore+" "+key:
						updates++
					case op == hudi.RowDelete && change == "d":
						deletes++
					default:
						w.t.Fatalf("commit %s: %q after %q, the change is %q", i.Time, row, last, change)
					}
					last = row
				}
			}
		}
	}
	if updates == 0 || deletes == 0 {
		w.t.Errorf("%d updates, %d deletes in logs", updates, deletes)
	}
}

// operations are the rows of a log file's data blocks as "op key", in order.
func (w *world) operations(v *table.View, partition, name string) []string {
	w.t.Helper()
	r, err := v.Open(w.t.Context(), partition, hudi.File{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	var out []string
	for s := logfile.NewScanner(r, r.Size()); ; {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if b.Type == logfile.Delete {
			w.t.Fatalf("%s has a delete block", name)
		}
		if b.Type != logfile.AvroData {
			continue
		}
		for datum, err := range b.Datums() {
			if err != nil {
				w.t.Fatal(err)
			}
			const key, operation = 2, 5 // places among the six meta columns
			meta := texts(datum, operation+1)
			out = append(out, meta[operation]+" "+meta[key])
		}
	}
}

// texts are the first n fields of a datum, all nullable strings.
func texts(datum []byte, n int) []string {
	var out []string
	for range n {
		size, width := binary.Varint(datum[1:])
		datum = datum[1+width:]
		out = append(out, string(datum[:size]))
		datum = datum[size:]
	}
	return out
}
