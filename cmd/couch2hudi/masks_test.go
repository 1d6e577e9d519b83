package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// breaking is a server whose documents with the word BROKEN are no JSON.
func breaking(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&breakingWriter{ResponseWriter: w}, r) })
}

type breakingWriter struct {
	http.ResponseWriter
	line []byte
}

// Write replaces the word once its line is whole.
func (b *breakingWriter) Write(p []byte) (int, error) {
	for _, c := range p {
		if b.line = append(b.line, c); c == '\n' || c == '}' {
			if _, err := b.ResponseWriter.Write(bytes.ReplaceAll(b.line, []byte("BROKEN"), []byte("BROK\x01N"))); err != nil {
				return 0, err
			}
			b.line = b.line[:0]
		}
	}
	return len(p), nil
}

func (b *breakingWriter) Flush() { b.ResponseWriter.(http.Flusher).Flush() }

const masksConfig = `source: {url: %s}
table: {url: %s, cdc: data_before_after%s}
compaction: {mode: "off"}
columns:
  salt: pepper
  declare:
    - {name: email, mask: hash}
    - {path: card.number, mask: redact}
    - {path: secret, mask: drop}
    - {path: "contacts[*].email", mask: hash}
    - {path: "*.ssn", mask: drop}
    - {name: n, type: long, on_conflict: new_column}
`

// secretDoc has the word LEAK in all that is masked, and PUBLIC beside it.
func secretDoc(i int, extra string) string {
	return fmt.Sprintf(`{"open":"PUBLIC %d","email":"LEAK%d","card":{"number":"LEAK","name":"PUBLIC"},"secret":{"LEAK":["LEAK"]},`+
		`"contacts":[{"email":"LEAK","name":"PUBLIC"},{"email":["LEAK"]}],"person":{"ssn":"LEAK"}%s}`, i, i, extra)
}

// What is masked is in no file of the table: base files, log files, change files,
// the timeline, the quarantine, before and after a compaction, in no byte of them and
// in no value.
func TestMasksLeaveNoTrace(t *testing.T) {
	for name, layout := range map[string]string{"bloom": "", "bucket": ", index: bucket, buckets: 1"} {
		t.Run(name, func(t *testing.T) {
			server, db, _ := shop(t, couchfake.Options{Shards: 1}, 0)
			front := httptest.NewServer(breaking(server))
			defer front.Close()
			dir, file := filepath.Join(t.TempDir(), "table"), filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, masksConfig, front.URL+"/shop", dir, layout), 0o600); err != nil {
				t.Fatal(err)
			}
			put := func(i int, extra string) {
				t.Helper()
				if _, err := db.Put(fmt.Sprintf("d%d", i), []byte(secretDoc(i, extra))); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 6 {
				put(i, []string{"", `,"n":1`, `,"n":"PUBLIC"`}[i%3])
			}
			put(6, `,"x":"BROKEN PUBLIC"`)
			want(t, 0, nil, "run", "--once", "-c", file)
			for i := range 3 {
				put(i, `,"n":[1]`)
			}
			if _, err := db.Delete("d5"); err != nil {
				t.Fatal(err)
			}
			want(t, 0, nil, "run", "--once", "-c", file)
			put(7, "") // where it goes the base file is written again, and what changed told
			put(2, "")
			want(t, 0, nil, "run", "--once", "-c", file)
			put(1, "")
			want(t, 0, nil, "run", "--once", "-c", file)
			leaves := leavesNothing(t, dir)
			want(t, 0, []string{"compacted"}, "compact", "--table", dir)
			for kind, n := range leavesNothing(t, dir) {
				leaves[kind] += n
			}
			for _, kind := range []string{"base", "log", "change", "quarantine"} {
				if leaves[kind] == 0 && (kind != "change" || name == "bloom") {
					t.Errorf("no %s file shows what is not masked: %v", kind, leaves)
				}
			}
			for _, args := range [][]string{{}, {"--include-deleted"}, {"--changes", "--since", "earliest"}} {
				out := want(t, 0, []string{"PUBLIC"}, append([]string{"query", "--table", dir, "--format", "jsonl"}, args...)...)
				if strings.Contains(out, "LEAK") {
					t.Errorf("query %v: %s", args, out)
				}
			}
			if layout != "" { // its commit is the newest then, and says what the ones before said
				want(t, 0, nil, "rebucket", "--table", dir, "--buckets", "2")
				layout = strings.Replace(layout, "1", "2", 1)
			}
			lost := strings.Replace(masksConfig, "    - {path: secret, mask: drop}\n", "", 1)
			if err := os.WriteFile(file, fmt.Appendf(nil, lost, front.URL+"/shop", dir, layout), 0o600); err != nil {
				t.Fatal(err)
			}
			said := []string{`{path: "secret", mask: drop}`, "mask: none"}
			want(t, exitUsage, said, "run", "--once", "-c", file)
			want(t, exitUsage, said[:1], "check", "-c", file)
		})
	}
}

// leavesNothing fails when a file shows the word LEAK, and counts those that show
// PUBLIC, by kind.
func leavesNothing(t *testing.T, dir string) map[string]int {
	t.Helper()
	shown := map[string]int{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		kind := "other"
		switch {
		case strings.HasSuffix(path, ".parquet"):
			kind = "base"
			values, err := parquetText(data)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			data = append(data, values...)
		case strings.Contains(path, "quarantine"):
			kind = "quarantine"
		case strings.HasSuffix(path, ".cdc"):
			kind = "change"
		case strings.Contains(filepath.Base(path), ".log."):
			kind = "log"
		}
		if bytes.Contains(data, []byte("LEAK")) {
			t.Errorf("%s shows what is masked", path)
		}
		if bytes.Contains(data, []byte("PUBLIC")) || kind == "quarantine" {
			shown[kind]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// parquetText is every value of a Parquet file, without the pages' compression.
func parquetText(data []byte) (text []byte, err error) {
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, err
	}
	for _, g := range f.RowGroups() {
		rows := g.Rows()
		batch := make([]parquet.Row, 16)
		for {
			n, err := rows.ReadRows(batch)
			for _, r := range batch[:n] {
				for _, v := range r {
					text = append(append(text, v.String()...), '\n')
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, errors.Join(err, rows.Close())
			}
		}
		if err := rows.Close(); err != nil {
			return nil, err
		}
	}
	return text, nil
}
