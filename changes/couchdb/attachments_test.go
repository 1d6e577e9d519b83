package couchdb_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// Whatever is asked of a server, the contents of attachments are not: backlog, feed,
// single documents, purges.
func TestContentsAreNeverAskedFor(t *testing.T) {
	fake, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fake.Close() }()
	db, err := fake.Create("db")
	if err != nil {
		t.Fatal(err)
	}
	put := func(id string) {
		if _, err := db.Put(id, []byte(`{"n":1}`)); err != nil {
			t.Error(err)
		}
	}
	target, err := url.Parse(fake.URL())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	kinds := map[string]bool{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		q := r.URL.Query()
		if q.Get("feed") == "continuous" && !kinds["continuous"] {
			put("c")
		}
		if strings.HasSuffix(r.URL.Path, "/_bulk_get") {
			kinds["_bulk_get"] = true
		}
		kinds[q.Get("feed")+q.Get("filter")+q.Get("rev")] = true
		if q.Has("attachments") || q.Has("att_encoding_info") || q.Has("atts_since") {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	put("a")
	put("withheld")
	row := fake.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{NullDoc: "withheld"}, -1)
	if got := next(t, open(t, couchdb.Options{URL: front.URL + "/db", Parallel: 4}), "", changes.Limit{}); len(got.Changes) != 2 {
		t.Errorf("read side by side: %q", ids(got))
	}
	src := open(t, couchdb.Options{URL: front.URL + "/db"})
	b := next(t, src, "", changes.Limit{})
	row.Cancel()
	put("b")
	live := next(t, src, b.Last, untilRows)
	if ids(live) != "b" || len(b.Changes) != 2 {
		t.Errorf("got %q, %q", ids(b), ids(live))
	}
	if live := next(t, src, live.Last, untilRows); ids(live) != "c" {
		t.Errorf("got %q of the continuous feed", ids(live))
	}
	db.Purge("a")
	if purged, _, err := src.Purged(t.Context(), ""); err != nil || !slices.Contains(purged, "a") {
		t.Errorf("%v, %v", purged, err)
	}
	if states, err := src.Read(t.Context(), []string{"a", "b"}); err != nil || len(states) != 2 {
		t.Errorf("%v, %v", states, err)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	rev := b.Changes[slices.IndexFunc(b.Changes, func(c changes.Change) bool { return c.ID == "withheld" })].Rev.String()
	for _, kind := range []string{"normal", "continuous", "normal_doc_ids", "_bulk_get", rev} {
		if !kinds[kind] {
			t.Errorf("no request of the kind %q among %v", kind, kinds)
		}
	}
}
