package couchfake_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// follower reads a feed over cuts and ends, and keeps the last row of each document by the sum of its leaves' generations.
type follower struct {
	s     *couchfake.Server
	since string
	docs  map[string]row
	sums  map[string]int
	stop  string // the document that ends it
}

func sum(r row) int {
	n := 0
	for _, c := range r.Changes {
		gen := 0
		fmt.Sscanf(c.Rev, "%d-", &gen)
		n += gen
	}
	return n
}

// run follows until the last document has come.
func (f *follower) run() {
	for f.docs[f.stop].ID == "" {
		res, err := http.Get(f.s.URL() + "/db/_changes?feed=continuous&style=all_docs&include_docs=true&heartbeat=500&since=" + url.QueryEscape(f.since))
		if err != nil {
			continue // a cut before the head
		}
		f.read(res.Body)
		res.Body.Close()
	}
}

func (f *follower) read(body io.Reader) {
	for lines := bufio.NewScanner(body); f.docs[f.stop].ID == "" && lines.Scan(); {
		l := lines.Bytes()
		if len(l) == 0 {
			continue
		}
		var x row
		if json.Unmarshal(l, &x) != nil {
			break // cut within the line: it comes again
		}
		if x.LastSeq != "" {
			f.since = x.LastSeq
			return
		}
		f.since = *x.Seq
		if n := sum(x); n >= f.sums[x.ID] {
			f.docs[x.ID], f.sums[x.ID] = x, n
		}
	}
}

// TestFollowersSeeEverythingWhileAllGoesWrong writes from several hands, cuts, rewinds and compacts, and lets followers read on.
func TestFollowersSeeEverythingWhileAllGoesWrong(t *testing.T) {
	s := start(t, couchfake.Options{})
	db := create(t, s, "db", 4)
	n := 1500
	if testing.Short() {
		n = 300
	}
	orders := []*couchfake.Order{
		s.Control(feedOf, couchfake.Spoil{Rows: 97, Cut: true}, 3),
		s.Control(feedOf, couchfake.Spoil{Bytes: 4321, Cut: true}, 3),
		s.Control(feedOf, couchfake.Spoil{Cut: true}, 1),
		s.Control(feedOf, couchfake.Spoil{Rows: 50, Finish: true, Call: db.FailOver}, 2),
	}
	followers := make([]*follower, 3)
	var reading, writing sync.WaitGroup
	for i := range followers {
		f := &follower{s: s, since: "0", docs: map[string]row{}, sums: map[string]int{}, stop: "zz-last"}
		followers[i] = f
		reading.Go(f.run)
	}
	for hand := range 3 {
		writing.Go(func() { scribble(t, db, uint64(hand), n) })
	}
	writing.Wait()
	put(t, db, "zz-last", `{}`)
	reading.Wait()
	for _, o := range orders {
		o.Cancel()
	}
	for i, f := range followers {
		f.catchUp(t)
		for d := range db.Docs() {
			if got := f.docs[d.ID]; string(got.Doc) != string(d.Winner().Body) || got.Deleted != d.Deleted() {
				t.Errorf("follower %d has %s as %s, want %s", i, d.ID, got.Doc, d.Winner().Body)
			}
		}
	}
}

// catchUp reads what the other shards hold beyond the last document.
func (f *follower) catchUp(t *testing.T) {
	t.Helper()
	for _, r := range changes(t, f.s, "/db/_changes?style=all_docs&include_docs=true&since="+url.QueryEscape(f.since)).Results {
		if n := sum(r); n >= f.sums[r.ID] {
			f.docs[r.ID], f.sums[r.ID] = r, n
		}
	}
}

func scribble(t *testing.T, db *couchfake.Database, seed uint64, n int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for i := range n {
		id := fmt.Sprintf("d%02d", rng.IntN(60))
		var err error
		switch rng.IntN(12) {
		case 0:
			_, err = db.Delete(id)
		case 1:
			err = db.Replicate(id, []couchfake.Rev{{Gen: 1 + rng.IntN(3), Hash: strconv.FormatUint(rng.Uint64(), 16)}}, []byte(`{"branch":true}`))
		case 2:
			if i%50 == 0 {
				db.Compact()
			}
		default:
			_, err = db.Put(id, fmt.Appendf(nil, `{"hand":%d,"n":%d}`, seed, i))
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestTraceSeesEachRequest(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	s := start(t, couchfake.Options{Trace: func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.URL.Path)
	}})
	read(t, s, "/_up")
	read(t, s, "/nosuch")
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(seen, ", "); got != "GET /_up, GET /nosuch" {
		t.Error(got)
	}
}
