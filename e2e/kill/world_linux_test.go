package kill

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// world is a database that changes and the table that is to equal it.
type world struct {
	t      *testing.T
	server *couchfake.Server
	db     *couchfake.Database
	dir    string // the table
	config string // the file with its settings
	rand   *rand.Rand
	layout
	docs, days int
	// places are the partitions in which a document was live since the table
	// was last compared, and where the table had it then: its tombstone is in
	// one of them.
	places map[string]map[string]bool
	// withheld is a document whose changes come without a body.
	withheld []*couchfake.Order

	mu     sync.Mutex
	onRead func() // called at each request for changes
}

// layout is what kind of table it is. A tended one is made of many small commits,
// and compacted, cleaned and archived all the time; and it may be taken back.
type layout struct{ partitioned, hard, tended bool }

const withheldID = "withheld"

func newWorld(t *testing.T, seed uint64, l layout) *world {
	t.Helper()
	w := &world{t: t, rand: rand.New(&shared{pcg: rand.NewPCG(seed, 9)}), layout: l, places: map[string]map[string]bool{}}
	var err error
	w.server, err = couchfake.Start(couchfake.Options{Seed: seed, Trace: w.trace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.server.Close() })
	if w.db, err = w.server.Create("docs"); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	w.dir, w.config = filepath.Join(root, "table"), filepath.Join(root, "config.yaml")
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("source: {url: %q}\ntable:\n  url: %q\n", w.server.URL()+"/docs", w.dir)
	if l.partitioned {
		text += "  partition: {field: day, format: yyyyMMdd}\n"
	}
	if l.hard {
		text += "  deletes: hard\n"
	}
	rows := 60
	if l.tended {
		rows = 8
		text += "retain: 1s\ntimeline: {keep_min: 20, keep_max: 21}\n"
	}
	text += fmt.Sprintf("commit: {interval: 100ms, max_rows: %d}\ncompaction: {max_delta_commits: 2, max_age: 1s}\n", rows)
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) trace(r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/_changes") {
		return
	}
	w.mu.Lock()
	call := w.onRead
	w.mu.Unlock()
	if call != nil {
		call()
	}
}

// atRead sets what happens when the binary asks for changes.
func (w *world) atRead(call func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onRead = call
}

// run starts the binary on this world.
func (w *world) run(args ...string) *process {
	w.t.Helper()
	return launch(w.t, append([]string{"run", "-c", w.config}, args...)...)
}

// once runs the binary until it has caught up, which must succeed.
func (w *world) once() {
	w.t.Helper()
	p := w.run("--once")
	if code := p.wait(patience); code != 0 {
		w.t.Fatalf("run --once: exit %d\n%s", code, &p.out)
	}
}

// must fails the test on an error.
func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// withhold lets the changes of one document come without a body from now on,
// which is not to be had by asking either: they are quarantined.
func (w *world) withhold() {
	w.withheld = []*couchfake.Order{
		w.server.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{NullDoc: withheldID}, -1),
		w.server.Control(couchfake.Match{Endpoint: couchfake.Document}, couchfake.Spoil{Status: http.StatusNotFound}, -1),
	}
}

// heal ends that, with a further change.
func (w *world) heal() {
	for _, o := range w.withheld {
		o.Cancel()
	}
	w.withheld = nil
	w.must(w.db.Put(withheldID, w.body()))
	w.live(withheldID)
}

func (w *world) body() []byte {
	return w.bodyOf(time.Date(2024, 1, 1+w.rand.IntN(4), 0, 0, 0, 0, time.UTC))
}

func (w *world) bodyOf(day time.Time) []byte {
	return fmt.Appendf(nil, `{"day":%q,"n":%d,"text":"wert \u00e9 %d","more":{"a":[1,2,%d]}}`,
		day.Format("2006-01-02"), w.rand.IntN(1000), w.rand.IntN(10), w.rand.IntN(10))
}

// burst changes the database: a document on a day of its own, which is a new
// partition, one that is withheld, and n edits of every kind.
func (w *world) burst(n int) {
	w.t.Helper()
	w.days++
	w.put(time.Date(2025, 1, w.days, 0, 0, 0, 0, time.UTC))
	if w.withheld != nil {
		w.must(w.db.Put(withheldID, w.body()))
		w.live(withheldID)
	}
	for range n {
		if w.docs < 4 || w.rand.IntN(4) == 0 {
			w.put(time.Date(2024, 1, 1+w.rand.IntN(4), 0, 0, 0, 0, time.UTC))
		} else {
			w.edit(docID(w.rand.IntN(w.docs)))
		}
	}
}

func docID(n int) string { return fmt.Sprintf("doc-%04d", n) }

// put makes a new document.
func (w *world) put(day time.Time) {
	w.t.Helper()
	id := docID(w.docs)
	w.docs++
	w.must(w.db.Put(id, w.bodyOf(day)))
	w.live(id)
}

// edit changes one document in one of the ways that trees change.
func (w *world) edit(id string) {
	w.t.Helper()
	d, _ := w.db.Doc(id)
	leaf := d.Leaves[w.rand.IntN(len(d.Leaves))]
	switch w.rand.IntN(6) {
	case 0, 1: // the winner is edited, and perhaps moves, or a deleted document comes back
		w.must(w.db.Put(id, w.body()))
	case 2: // a replicated branch: a conflict
		w.must(nil, w.db.Replicate(id, []couchfake.Rev{{Gen: 1, Hash: fmt.Sprintf("%032x", w.rand.Uint64())}}, w.body()))
	case 3: // some leaf is edited
		if !leaf.Deleted {
			w.must(w.db.Edit(id, leaf.Rev, w.body()))
		}
	case 4: // some leaf is deleted: perhaps the winner is demoted
		if !leaf.Deleted {
			w.must(w.db.Edit(id, leaf.Rev, []byte(`{"_deleted":true,"reason":"gone"}`)))
		}
	case 5: // the winner is deleted without a body
		if !d.Deleted() {
			w.must(w.db.Delete(id))
		}
	}
	w.live(id)
}

// live notes where a document is now.
func (w *world) live(id string) {
	w.t.Helper()
	d, ok := w.db.Doc(id)
	if !ok || d.Deleted() {
		return
	}
	if w.places[id] == nil {
		// Before the table sees it live, it may see it dead.
		w.places[id] = map[string]bool{w.partition(""): true}
	}
	w.places[id][w.partition(dayOf(w.t, d))] = true
}

// partition is the folder of a document of a day; "" is one without.
func (w *world) partition(day string) string {
	switch {
	case !w.partitioned:
		return ""
	case day == "":
		return "pt=" + hudi.DefaultPartition
	}
	return "pt=" + strings.ReplaceAll(day, "-", "")
}

func dayOf(t *testing.T, d couchfake.Doc) string {
	t.Helper()
	var doc struct {
		Day string `json:"day"`
	}
	if err := json.Unmarshal(d.Winner().Body, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Day
}

// shared is a source of random numbers for the test and for what runs beside it.
type shared struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *shared) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

// busy changes the database until stop is called, in bursts of which there are
// not more than a few.
func (w *world) busy() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for range 4 {
			select {
			case <-quit:
				return
			case <-time.After(time.Duration(20+w.rand.IntN(60)) * time.Millisecond):
				w.burst(6)
			}
		}
	}()
	return func() { close(quit); <-done }
}
