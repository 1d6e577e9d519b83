package ndjson_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/ndjson"
)

// What CouchDB said comes out as it went in, byte for byte, whatever it is.
func TestRowsAreUnchanged(t *testing.T) {
	m, dir := newMemory(), t.TempDir()
	rev := func(s string) changes.Rev {
		r, err := changes.ParseRev(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	m.rows = []changes.Change{
		{ID: "a", Seq: "1-g", Rev: rev("3-c"), Leaves: []changes.Rev{rev("3-c"), rev("2-b")}, Body: []byte("{ \"_id\":\"a\", \"x\":1.0e+2,\t\"x\":2 ,\"k\":\"\\u00e9\\/\"}")},
		{ID: "ü \"\n\x00\u2028", Rev: rev("1-a"), Leaves: []changes.Rev{rev("1-a")}, Deleted: true},
		{ID: "nobody", Rev: rev("1-a"), Leaves: []changes.Rev{rev("1-a")}, Deleted: true, Body: []byte(`{"why":"\ud800","bad":"` + "\xff" + `"}`)},
		{ID: "two lines", Rev: rev("1-a"), Leaves: []changes.Rev{rev("1-a")}, Body: []byte("{\n}")},
		{ID: "no JSON", Rev: rev("1-a"), Leaves: []changes.Rev{rev("1-a")}, Body: []byte("{x}")},
		{ID: "broken", Defect: "no revision", Raw: []byte("\xfe{"), Seq: "9-\"x"},
		{ID: "not \xff utf8", Rev: rev("1-a"), Leaves: []changes.Rev{rev("1-a")}, Body: []byte("{}")},
		{ID: "gone", Deleted: true, Absent: true, Purged: true},
		{ID: "large", Rev: rev("1-a"), Leaves: []changes.Rev{rev("1-a")}, Body: []byte(`{"t":"` + strings.Repeat("x", 1<<20) + `"}`)},
	}
	export(t, m, ndjson.ExportOptions{Folder: dir})
	rows, err := all(t, open(t, ndjson.Options{Folder: dir}))
	if err != nil || len(rows) != len(m.rows) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, want := range m.rows {
		got := rows[i]
		if got.ID != want.ID || got.Seq != want.Seq || got.Rev != want.Rev || fmt.Sprint(got.Leaves) != fmt.Sprint(want.Leaves) || got.Deleted != want.Deleted ||
			got.Absent != want.Absent || got.Purged != want.Purged || got.Defect != want.Defect || !bytes.Equal(got.Raw, want.Raw) || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("row %d is\n%+v, want\n%+v", i, got, want)
		}
	}
	if _, err := all(t, open(t, ndjson.Options{Folder: dir, MaxRowBytes: 1 << 19})); err == nil || !strings.Contains(err.Error(), "source.max_row_bytes") {
		t.Errorf("a row that is too large: %v", err)
	}
}

// A file that is still being copied is waited for, and nothing of it is delivered
// before it is whole. What is waited for is said once.
func TestHalfCopiedBundles(t *testing.T) {
	m, whole, manifests := chain(t)
	f := folder{t, t.TempDir()}
	var said []string
	s := open(t, ndjson.Options{Folder: f.path, Settle: time.Hour, Events: ndjson.Events{Waiting: func(r string) { said = append(said, r) }}})
	var at changes.Position
	var rows []changes.Change
	look := func(wantRows int, words string) {
		t.Helper()
		for range 3 {
			b, err := s.Next(t.Context(), at, changes.Limit{Idle: time.Millisecond})
			if err != nil || !b.CaughtUp {
				t.Fatalf("%v, caught up %v", err, b.CaughtUp)
			}
			rows, at = append(rows, b.Changes...), b.Last
		}
		if len(rows) != wantRows {
			t.Fatalf("%d rows, want %d", len(rows), wantRows)
		}
		if last := said[len(said)-1]; !strings.Contains(last, words) {
			t.Errorf("it waits for %q, want %q", last, words)
		}
	}
	n := 0
	look(0, ndjson.ManifestName(1)+" has not come")
	for _, m := range manifests {
		data, manifest := ndjson.DataName(m.Number), ndjson.ManifestName(m.Number)
		text := read(t, whole, manifest)
		f.write(manifest, text[:len(text)/2])
		look(n, manifest+" is damaged, or still being copied")
		f.write(manifest, text)
		look(n, data+" is missing")
		all := read(t, whole, data)
		for _, size := range []int{0, 1, len(all) / 2, len(all) - 1} {
			f.write(data, all[:size])
			look(n, fmt.Sprintf("it has %d bytes, its manifest says %d", size, len(all)))
		}
		// The size may be right before the content is.
		f.write(data, append(bytes.Clone(all[:len(all)-1]), 0xff^all[len(all)-1]))
		look(n, "SHA-256")
		f.write(data, all)
		n += int(m.Rows)
		look(n, ndjson.ManifestName(m.Number+1)+" has not come")
	}
	if got, want := describe(rows), describe(m.rows); got != want {
		t.Error("the rows are others")
	}
	for i := range said {
		if i > 0 && said[i] == said[i-1] {
			t.Errorf("said twice: %s", said[i])
		}
	}
}

// Files go once their rows are committed, and not before.
func TestConsumedFiles(t *testing.T) {
	_, whole, manifests := chain(t)
	done := t.TempDir()
	for name, consumed := range map[string]ndjson.Consumed{"keep": {}, "delete": {Delete: true}, "move": {MoveTo: done}} {
		t.Run(name, func(t *testing.T) {
			f := folder{t, t.TempDir()}
			for _, b := range manifests {
				f.write(ndjson.DataName(b.Number), read(t, whole, ndjson.DataName(b.Number)))
				f.write(ndjson.ManifestName(b.Number), read(t, whole, ndjson.ManifestName(b.Number)))
			}
			s := open(t, ndjson.Options{Folder: f.path, Consumed: consumed})
			there := func(want int) {
				t.Helper()
				if names, _ := filepath.Glob(filepath.Join(f.path, "bundle-*")); len(names) != want {
					t.Errorf("%d files, want %d: %v", len(names), want, names)
				}
			}
			first, err := s.Next(t.Context(), "", changes.Limit{Rows: 1500})
			if err != nil {
				t.Fatal(err)
			}
			there(8)
			commit := func(at changes.Position) {
				t.Helper()
				if err := s.Committed(t.Context(), at); err != nil {
					t.Fatal(err)
				}
			}
			commit(first.Last) // in the middle of the second
			second, err := s.Next(t.Context(), first.Last, changes.Limit{})
			if err != nil {
				t.Fatal(err)
			}
			if consumed == (ndjson.Consumed{}) {
				commit(second.Last)
				there(8)
				return
			}
			there(6)
			commit(second.Last)
			commit(second.Last)
			there(0)
			// Nothing is needed of what was read to its end.
			again := open(t, ndjson.Options{Folder: f.path})
			if b, err := again.Next(t.Context(), second.Last, changes.Limit{}); err != nil || !b.CaughtUp || len(b.Changes) > 0 || again.Gap() != nil {
				t.Errorf("%+v, %v, %v", b, err, again.Gap())
			}
		})
	}
	same(t, "moved", done, func() *memory { m, _, _ := chain(t); return m }())
	for text, ok := range map[string]bool{"": true, "keep": true, "delete": true, "move:/a": true, "move:a": false, "move": false, "drop": false} {
		if _, err := ndjson.ParseConsumed(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Positions that are none, or of the other format, are refused.
func TestPositions(t *testing.T) {
	_, dir, _ := chain(t)
	for _, at := range []changes.Position{"9-g1AAA", "{}", `{"bundle":-1}`, `{"bundle":1,"x":1}`, `{"file":"a","row":1}`, `{"bundle":1,"row":-1}`} {
		if _, err := open(t, ndjson.Options{Folder: dir}).Next(t.Context(), at, changes.Limit{}); !errors.Is(err, changes.ErrPosition) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := open(t, ndjson.Options{Folder: dir, Plain: true}).Next(t.Context(), `{"bundle":1}`, changes.Limit{}); !errors.Is(err, changes.ErrPosition) {
		t.Errorf("a bundle's position for plain files: %v", err)
	}
	if _, err := ndjson.Open(ndjson.Options{Folder: filepath.Join(dir, "none")}); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("no folder: %v", err)
	}
}

// Files of other tools: rows of _changes and of _all_docs as curl writes them, or
// documents alone, compressed or not.
func TestPlainFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		var b bytes.Buffer
		switch filepath.Ext(name) {
		case ".gz":
			w := gzip.NewWriter(&b)
			if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
				t.Fatal(err)
			}
		case ".zst":
			w, err := zstd.NewWriter(&b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
				t.Fatal(err)
			}
		default:
			b.WriteString(text)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1.json", "{\"results\":[\n{\"seq\":\"1-x\",\"id\":\"a\",\"changes\":[{\"rev\":\"2-b\"},{\"rev\":\"2-a\"}],\"doc\":{\"_id\":\"a\",\"v\":1}},\r\n"+
		"{\"seq\":2,\"id\":\"b\",\"changes\":[{\"rev\":\"3-c\"}],\"deleted\":true}\n],\n\"last_seq\":\"2-x\",\"pending\":0}\n")
	write("2.json.gz", `{"total_rows":1,"offset":0,"rows":[`+"\n"+`{"id":"c","key":"c","value":{"rev":"1-a"},"doc":{"_id":"c","_rev":"1-a"}}`+"\n]}\n")
	write("3.ndjson.zst", `{"_id":"d","_rev":"4-d","id":7,"changes":"own","doc":1,"value":2}`+"\n\n"+`{"_id":"e","_rev":"5-e","_deleted":true}`)
	write("4.jsonl", `{"_id":"f"}`+"\n"+`not JSON`+"\n"+`{"id":"g","changes":[{"rev":"x"}],"doc":{}}`+"\n"+`{"last_seq":"3-x","pending":0}`+"\n")
	write("notes.txt", "no rows")
	write(".5.json", "hidden")
	const want = `1-x a 2-b [] false {"_id":"a","v":1} 
2 b 3-c [] true  
 c 1-a [] false {"_id":"c","_rev":"1-a"} 
 d 4-d [] false {"_id":"d","_rev":"4-d","id":7,"changes":"own","doc":1,"value":2} 
 e 5-e [] true {"_id":"e","_rev":"5-e","_deleted":true} 
 f  [] false  row has no revision
   [] false  row cannot be read: `
	o := ndjson.Options{Folder: dir, Plain: true, Quiet: time.Nanosecond}
	rows, err := all(t, open(t, o))
	if got := describe(rows); err != nil || !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "g  [] false  not a revision: \"x\"\n") {
		t.Errorf("%v, got\n%swant\n%s", err, got, want)
	}
	o.Leaves = true
	rows, err = all(t, open(t, o))
	if err != nil || len(rows[0].Leaves) != 2 || rows[0].Leaves[0].String() != "2-b" {
		t.Errorf("%+v, %v", rows, err)
	}
	plainOrder(t, dir, o, write)
}

// plainOrder: files are read in the order of their names, and none is passed over
// in silence.
func plainOrder(t *testing.T, dir string, o ndjson.Options, write func(name, text string)) {
	t.Helper()
	o.Consumed.Delete = true
	s := open(t, o)
	end, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Next(t.Context(), end, changes.Limit{}); err != nil || len(b.Changes) > 0 {
		t.Fatalf("%+v, %v", b, err)
	}
	write("6.ndjson", `{"_id":"x","_rev":"1-a"}`+"\n")
	b, err := s.Next(t.Context(), end, changes.Limit{})
	if err != nil || len(b.Changes) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	if err := s.Committed(t.Context(), b.Last); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "6.ndjson")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "1.json")); err != nil {
		t.Errorf("a file that was not read is gone: %v", err)
	}
	write("5.ndjson", `{"_id":"y","_rev":"1-a"}`+"\n")
	if _, err := s.Next(t.Context(), b.Last, changes.Limit{}); !errors.Is(err, changes.ErrChain) || !strings.Contains(err.Error(), "5.ndjson") {
		t.Errorf("a file that comes too late: %v", err)
	}
	write("7.ndjson", `{"_id":"z","_rev":"1-a"}`+"\n"+`{"_id":"z","_rev":"2-a"}`+"\n")
	if err := os.Remove(filepath.Join(dir, "5.ndjson")); err != nil {
		t.Fatal(err)
	}
	half, err := s.Next(t.Context(), b.Last, changes.Limit{Rows: 1})
	if err != nil || len(half.Changes) != 1 {
		t.Fatalf("%+v, %v", half, err)
	}
	write("7.ndjson", `{"_id":"z","_rev":"1-a"}`+"\n")
	if _, err := open(t, o).Next(t.Context(), half.Last, changes.Limit{}); !errors.Is(err, changes.ErrChain) || !strings.Contains(err.Error(), "7.ndjson") {
		t.Errorf("a file that changed: %v", err)
	}
}
