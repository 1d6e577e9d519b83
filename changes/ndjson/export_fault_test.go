package ndjson_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/ndjson"
)

// filled is a source of n rows, some of them of the same documents, some deletions.
func filled(n int) *memory {
	m := newMemory()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range n {
		m.put(fmt.Sprintf("doc%03d", r.IntN(n)), fmt.Sprintf(`{"n":%d}`, i), r.IntN(10) == 0)
	}
	return m
}

// all reads a folder to its end.
func all(t testing.TB, s *ndjson.Source) (rows []changes.Change, err error) {
	t.Helper()
	var at changes.Position
	for {
		b, err := s.Next(t.Context(), at, changes.Limit{Rows: 700})
		rows = append(rows, b.Changes...)
		if err != nil || b.CaughtUp {
			return rows, err
		}
		at = b.Last
	}
}

// same fails unless a folder holds the rows of a source, each once, in order.
func same(t testing.TB, what, folder string, m *memory) {
	t.Helper()
	s := open(t, ndjson.Options{Folder: folder})
	rows, err := all(t, s)
	if err == nil {
		err = s.Gap()
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if got, want := describe(rows), describe(m.rows); got != want {
		t.Fatalf("%s: got\n%s\nwant\n%s", what, got, want)
	}
}

func describe(rows []changes.Change) string {
	var b strings.Builder
	for i := range rows {
		c := &rows[i]
		fmt.Fprintf(&b, "%s %s %s %v %v %s %s\n", c.Seq, c.ID, c.Rev, c.Leaves, c.Deleted, c.Body, c.Defect)
	}
	return b.String()
}

// carry moves what a tool would from one folder to another: hidden files and the
// exporter's memory stay.
func carry(t testing.TB, from, to string) {
	t.Helper()
	names, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), "bundle-") {
			if err := os.Rename(filepath.Join(from, n.Name()), filepath.Join(to, n.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An exporter that dies at any step of its work loses nothing and writes nothing
// twice, whether its files stay or are carried away at that moment.
func TestExporterDiesAtEachStep(t *testing.T) {
	for _, carried := range []bool{false, true} {
		for at := int64(0); ; at++ {
			m, outbox, inbox := filled(16), t.TempDir(), t.TempDir()
			d := &ndjson.FailingDisk{At: at}
			err := runExport(t, m, d.On(ndjson.ExportOptions{Folder: outbox, Bytes: 600, Once: true}))
			if err != nil && !errors.Is(err, ndjson.ErrDied) {
				t.Fatalf("step %d: %v", at, err)
			}
			if carried {
				carry(t, outbox, inbox)
			}
			m.put("late", `{"n":"late"}`, false)
			last := &ndjson.FailingDisk{At: 1 << 40}
			if err := runExport(t, m, last.On(ndjson.ExportOptions{Folder: outbox, Bytes: 600, Once: true})); err != nil {
				t.Fatalf("after step %d: %v", at, err)
			}
			carry(t, outbox, inbox)
			same(t, fmt.Sprintf("carried %v, died at step %d", carried, at), inbox, m)
			if err == nil {
				if at < 20 {
					t.Fatalf("the export has %d steps", at)
				}
				break
			}
		}
	}
}

func runExport(t testing.TB, m *memory, o ndjson.ExportOptions) error {
	t.Helper()
	e, err := ndjson.NewExporter(t.Context(), m, o)
	if err != nil {
		return err
	}
	return errors.Join(e.Run(t.Context()), e.Close())
}

// A disk that is full ends the export with the file's name; there is room again,
// and it goes on.
func TestExporterOnAFullDisk(t *testing.T) {
	for at := int64(0); ; at++ {
		m, folder := filled(16), t.TempDir()
		d := &ndjson.FailingDisk{At: at, Full: syscall.ENOSPC}
		err := runExport(t, m, d.On(ndjson.ExportOptions{Folder: folder, Bytes: 600, Once: true}))
		if err == nil {
			if at < 8 {
				t.Fatalf("the export has %d writes", at)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), folder) {
			t.Fatalf("write %d: %v", at, err)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, ".*.tmp")); len(left) > 0 {
			t.Errorf("write %d leaves %v", at, left)
		}
		export(t, m, ndjson.ExportOptions{Folder: folder, Bytes: 600})
		same(t, fmt.Sprintf("full at write %d", at), folder, m)
	}
}

// Two exporters do not write to one folder, nor one from two databases; a chain
// goes on where its newest manifest ends, and a damaged one is said.
func TestExporterKeepsToItsChain(t *testing.T) {
	m, folder := filled(5), t.TempDir()
	first := export(t, m, ndjson.ExportOptions{Folder: folder})
	if len(first) != 1 || first[0].Rows != 5 || first[0].FirstSeq != "" || first[0].LastSeq != "5-g" || first[0].Previous != "" {
		t.Fatalf("%+v", first)
	}
	if more := export(t, m, ndjson.ExportOptions{Folder: folder}); len(more) != 0 {
		t.Errorf("nothing new, and %+v", more)
	}
	m.put("more", "{}", false)
	second := export(t, m, ndjson.ExportOptions{Folder: folder})
	if len(second) != 1 || second[0].Number != 2 || second[0].Previous != first[0].Hash || second[0].FirstSeq != "5-g" || second[0].Chain != first[0].Chain {
		t.Fatalf("%+v", second)
	}

	e, err := ndjson.NewExporter(t.Context(), m, ndjson.ExportOptions{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ndjson.NewExporter(t.Context(), m, ndjson.ExportOptions{Folder: folder}); !errors.Is(err, changes.ErrBusy) {
		t.Errorf("a second exporter: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	other := filled(5)
	other.incarnation = "2"
	if err := runExport(t, other, ndjson.ExportOptions{Folder: folder}); !errors.Is(err, changes.ErrRecreated) {
		t.Errorf("another database: %v", err)
	}
	if err := runExport(t, m, ndjson.ExportOptions{Folder: filepath.Join(folder, "none")}); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("no folder: %v", err)
	}
	name := filepath.Join(folder, ndjson.ManifestName(2))
	if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runExport(t, m, ndjson.ExportOptions{Folder: folder}); !errors.Is(err, changes.ErrChain) || !strings.Contains(err.Error(), name) {
		t.Errorf("a damaged manifest: %v", err)
	}
}

// What a source fails with ends the export, and no half bundle stays.
func TestExporterOfAFailingSource(t *testing.T) {
	m, folder := filled(5), t.TempDir()
	m.spoil = changes.ErrUnauthorized
	if err := runExport(t, m, ndjson.ExportOptions{Folder: folder, Once: true}); !errors.Is(err, changes.ErrUnauthorized) {
		t.Error(err)
	}
	m.spoil = nil
	export(t, m, ndjson.ExportOptions{Folder: folder})
	same(t, "after the failure", folder, m)
}
