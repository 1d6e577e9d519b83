package ndjson_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/changestest"
	"github.com/couch2hudi/couch2hudi/changes/ndjson"
)

// memory is a source whose positions are numbers of rows.
type memory struct {
	mu          sync.Mutex
	rows        []changes.Change
	revs        map[string]int64
	incarnation string
	// spoil, when set, is what Next returns.
	spoil error
}

func newMemory() *memory { return &memory{revs: map[string]int64{}, incarnation: "1"} }

func (m *memory) put(id, body string, deleted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revs[id]++
	rev := changes.Rev{Generation: m.revs[id], Hash: fmt.Sprintf("%032x", len(m.rows))}
	m.rows = append(m.rows, changes.Change{ID: id, Rev: rev, Leaves: []changes.Rev{rev}, Deleted: deleted,
		Seq: strconv.Itoa(len(m.rows)+1) + "-g", Body: []byte(body)})
}

func (m *memory) Identify(context.Context) (changes.Identity, error) {
	return changes.Identity{Kind: "couchdb", Name: "shop", Incarnation: m.incarnation, Leaves: true}, nil
}

func (m *memory) Next(ctx context.Context, after changes.Position, l changes.Limit) (changes.Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spoil != nil {
		return changes.Batch{}, m.spoil
	}
	from := 0
	if after != "" {
		if _, err := fmt.Sscanf(string(after), "%d-g", &from); err != nil {
			return changes.Batch{}, fmt.Errorf("%w: %q", changes.ErrPosition, after)
		}
	}
	b := changes.Batch{Last: after}
	for ; from < len(m.rows) && (l.Rows == 0 || len(b.Changes) < l.Rows) && (l.Bytes == 0 || b.Bytes < l.Bytes); from++ {
		b.Changes = append(b.Changes, m.rows[from])
		b.Bytes += int64(len(m.rows[from].Body)) + 100
		b.Last = changes.Position(strconv.Itoa(from+1) + "-g")
	}
	b.CaughtUp = from == len(m.rows)
	return b, ctx.Err()
}

func (m *memory) Now(context.Context) (changes.Position, error) { return "", nil }
func (m *memory) Close() error                                  { return nil }

// export writes what a source has.
func export(t testing.TB, src changes.Source, o ndjson.ExportOptions) []ndjson.Manifest {
	t.Helper()
	var all []ndjson.Manifest
	o.Once = true
	o.Written = func(m ndjson.Manifest) { all = append(all, m) }
	e, err := ndjson.NewExporter(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func open(t testing.TB, o ndjson.Options) *ndjson.Source {
	t.Helper()
	if o.Poll == 0 {
		o.Poll = time.Millisecond
	}
	s, err := ndjson.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// world is a folder to which everything is exported at once.
type world struct {
	db     *memory
	folder string
	mu     sync.Mutex
}

func (w *world) Open(t *testing.T) changes.Source { return open(t, ndjson.Options{Folder: w.folder}) }

func (w *world) write(t *testing.T, id, body string, deleted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.db.put(id, body, deleted)
	export(t, w.db, ndjson.ExportOptions{Folder: w.folder})
}

func (w *world) Put(t *testing.T, id, body string) { w.write(t, id, body, false) }
func (w *world) Delete(t *testing.T, id string)    { w.write(t, id, `{"_deleted":true}`, true) }

func TestSuite(t *testing.T) {
	changestest.Run(t, func(t *testing.T) changestest.World {
		w := &world{db: newMemory(), folder: t.TempDir()}
		export(t, w.db, ndjson.ExportOptions{Folder: w.folder})
		return w
	})
}

// plainWorld is a folder to which a file is added for each document.
type plainWorld struct {
	folder string
	mu     sync.Mutex
	files  int
	revs   map[string]int
}

func (w *plainWorld) Open(t *testing.T) changes.Source {
	return open(t, ndjson.Options{Folder: w.folder, Plain: true, Quiet: time.Nanosecond})
}

func (w *plainWorld) write(t *testing.T, id string, doc map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files++
	w.revs[id]++
	doc["_id"], doc["_rev"] = id, fmt.Sprintf("%d-abc", w.revs[id])
	line, err := json.Marshal(doc)
	if err != nil {
		t.Error(err)
	}
	if w.files%2 == 0 { // as a row of _changes
		line = fmt.Appendf(nil, `{"seq":"%d-x","id":%s,"changes":[{"rev":%q}],"deleted":%v,"doc":%s}`, w.files, quoted(id), doc["_rev"], doc["_deleted"] == true, line)
	}
	name := filepath.Join(w.folder, fmt.Sprintf("%06d.ndjson", w.files))
	if err := os.WriteFile(name+"x", append(line, '\n'), 0o600); err != nil {
		t.Error(err)
	}
	if err := os.Rename(name+"x", name); err != nil {
		t.Error(err)
	}
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // texts always marshal
		panic(err)
	}
	return b
}

func (w *plainWorld) Put(t *testing.T, id, body string) {
	doc := map[string]any{}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Error(err)
	}
	w.write(t, id, doc)
}

func (w *plainWorld) Delete(t *testing.T, id string) {
	w.write(t, id, map[string]any{"_deleted": true})
}

func TestSuiteOfPlainFiles(t *testing.T) {
	changestest.Run(t, func(t *testing.T) changestest.World {
		return &plainWorld{folder: t.TempDir(), revs: map[string]int{}}
	})
}
