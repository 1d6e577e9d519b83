package couchdb_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
)

// TestDefects: a row that cannot be used is delivered as a defect with all its
// bytes, and its neighbours as they are.
func TestDefects(t *testing.T) {
	for name, bad := range map[string]string{
		"no id":              `{"seq":"2-b","changes":[{"rev":"1-a"}],"doc":{}}`,
		"empty id":           `{"seq":"2-b","id":"","changes":[{"rev":"1-a"}],"doc":{}}`,
		"id of another type": `{"seq":"2-b","id":7,"changes":[{"rev":"1-a"}],"doc":{}}`,
		"half a surrogate":   `{"seq":"2-b","id":"x\uD800","changes":[{"rev":"1-a"}],"doc":{}}`,
		"id is no UTF-8":     "{\"seq\":\"2-b\",\"id\":\"x\xff\",\"changes\":[{\"rev\":\"1-a\"}],\"doc\":{}}",
		"no changes":         `{"seq":"2-b","id":"x","doc":{}}`,
		"empty changes":      `{"seq":"2-b","id":"x","changes":[],"doc":{}}`,
		"changes no list":    `{"seq":"2-b","id":"x","changes":{"rev":"1-a"},"doc":{}}`,
		"leaf no object":     `{"seq":"2-b","id":"x","changes":["1-a"],"doc":{}}`,
		"leaf without rev":   `{"seq":"2-b","id":"x","changes":[{"ver":"1-a"}],"doc":{}}`,
		"no generation":      `{"seq":"2-b","id":"x","changes":[{"rev":"abc"}],"doc":{}}`,
		"generation 0":       `{"seq":"2-b","id":"x","changes":[{"rev":"0-a"}],"doc":{}}`,
		"generation with 0":  `{"seq":"2-b","id":"x","changes":[{"rev":"01-a"}],"doc":{}}`,
		"generation signed":  `{"seq":"2-b","id":"x","changes":[{"rev":"+1-a"}],"doc":{}}`,
		"generation huge":    `{"seq":"2-b","id":"x","changes":[{"rev":"99999999999999999999-a"}],"doc":{}}`,
		"no hash":            `{"seq":"2-b","id":"x","changes":[{"rev":"1-"}],"doc":{}}`,
		"document a list":    `{"seq":"2-b","id":"x","changes":[{"rev":"1-a"}],"doc":[1]}`,
		"document a text":    `{"seq":"2-b","id":"x","changes":[{"rev":"1-a"}],"doc":"{}"}`,
		"broken off":         `{"seq":"2-b","id":"x","changes":[{"rev":"1-a"}],"doc":{"a":1`,
		"two rows in one":    `{"seq":"2-b","id":"x","changes":[{"rev":"1-a"}],"doc":{}} {"seq":"9-z","id":"y"}`,
		"no JSON":            `hello`,
		"missing colon":      `{"seq" "2-b"}`,
		"missing comma":      `{"seq":"2-b" "id":"x"}`,
		"a list":             `[1,2]`,
	} {
		t.Run(name, func(t *testing.T) {
			for feed, script := range map[string][]http.HandlerFunc{
				"normal":     {normal("3-c", 0, row("1-a", "a", "1-a"), bad, row("3-c", "c", "1-c"))},
				"continuous": {normal("0-a", 0), stay(row("1-a", "a", "1-a"), bad, row("3-c", "c", "1-c"))},
			} {
				b := next(t, open(t, options(newServer(t, script...))), "", untilRows)
				if len(b.Changes) != 3 || b.Changes[0].Defect != "" || b.Changes[2].Defect != "" {
					t.Fatalf("%s: got %+v", feed, b.Changes)
				}
				c := b.Changes[1]
				if c.Defect == "" || string(c.Raw) != bad || c.Body != nil {
					t.Errorf("%s: defect %q, raw %q", feed, c.Defect, c.Raw)
				}
			}
		})
	}
}

// TestMissingDocuments: a live row without a document is asked for again.
func TestMissingDocuments(t *testing.T) {
	bare := func(id, doc string) string {
		return `{"seq":"1-a","id":"` + id + `","changes":[{"rev":"2-b"},{"rev":"1-c"}]` + doc + `}`
	}
	s := newServer(t, normal("2-b", 0,
		bare("null", `,"doc":null`), bare("absent", ""), bare("slash/+", ""), bare("gone", `,"doc":null`),
		bare("broken", `,"doc":null`), bare("flaky", ""), bare("deep", ""), bare("odd", ""), bare("html", ""),
		`{"seq":"1-a","id":"tomb","changes":[{"rev":"2-b"}],"deleted":true,"doc":null}`))
	flaky := 0
	found := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("rev") != "2-b" {
			fail(400, "bad_request", "no rev")(w, r)
			return
		}
		text(`{"_id":"x","_rev":"2-b", "n":1.0}`+"\n")(w, r)
	}
	s.docs = map[string]http.HandlerFunc{
		"null": found, "absent": found, "slash%2F%2B": found,
		"broken": fail(500, "unknown_error", "badmatch"),
		"odd":    text(`["no document"]`),
		"html":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") },
		"deep":   text(strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)),
		"flaky": func(w http.ResponseWriter, r *http.Request) {
			if flaky++; flaky < 3 {
				fail(503, "busy", "x")(w, r)
				return
			}
			found(w, r)
		},
	}
	var asked []string
	o := options(s)
	o.Events.Refetched = func(r couchdb.Refetched) {
		if r.Found {
			asked = append(asked, r.ID)
		}
	}
	b := next(t, open(t, o), "", changes.Limit{})
	for _, c := range b.Changes {
		switch c.ID {
		case "null", "absent", "slash/+", "flaky":
			if string(c.Body) != `{"_id":"x","_rev":"2-b", "n":1.0}` || c.Defect != "" || c.Raw != nil {
				t.Errorf("%s: %+v", c.ID, c)
			}
		case "gone", "broken", "deep", "odd", "html":
			if c.Defect == "" || !strings.Contains(string(c.Raw), c.ID) || c.Body != nil {
				t.Errorf("%s: %+v", c.ID, c)
			}
		case "tomb":
			if c.Defect != "" || !c.Deleted || c.Body != nil {
				t.Errorf("%s: %+v", c.ID, c)
			}
		}
	}
	if len(b.Changes) != 10 || len(asked) != 4 {
		t.Errorf("%q, found again: %q", ids(b), asked)
	}
}

// TestDatabaseGoneWhileRefetching: no document is blamed for that.
func TestDatabaseGoneWhileRefetching(t *testing.T) {
	s := newServer(t, normal("1-a", 0, `{"seq":"1-a","id":"x","changes":[{"rev":"2-b"}],"doc":null}`), fail(404, "not_found", "Database does not exist."))
	s.docs["x"] = fail(404, "not_found", "Database does not exist.")
	if b, err := tryNext(open(t, options(s)), "", changes.Limit{}); err == nil {
		t.Errorf("got %+v", b.Changes)
	}
}

// TestRecordedFeeds reads what real servers sent.
func TestRecordedFeeds(t *testing.T) {
	rec := recordings(t)
	read := func(t *testing.T, name string, feed string) changes.Batch {
		script := []http.HandlerFunc{rec[name].replay}
		limit := changes.Limit{}
		if feed == "continuous" {
			script = append([]http.HandlerFunc{normal("0-a", 0)}, script...)
			limit = untilRows
		}
		return next(t, open(t, options(newServer(t, script...))), "", limit)
	}
	for _, c := range []struct {
		name, feed, ids, rev string
		leaves               int // of the last change
		last                 string
	}{
		{"couchdb/all_docs_incl", "normal", "doc2 doc0 doc3 doc1 withatt doc4 conf doc5", "1-16599e9b349642aef785eac10b9f94a3", 1, ""},
		{"couchdb/cont_include", "continuous", "", "", 0, ""},
		{"couchdb/g_3_winner_deleted_feed_all", "normal", "g", "2-bbb", 2, ""},
		{"couchdb/h_2_3a_to_2b_feed_all", "normal", "h", "2-b", 2, ""},
		{"pouchdb/g_3_winner_deleted_feed_all", "normal", "g", "2-bbb", 2, ""},
		{"pouchdb/all_docs_incl", "normal", "", "", 0, ""},
		{"pouchdb/cont_include", "continuous", "", "", 0, ""},
		{"couchdb/changes_include", "normal", "", "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := read(t, c.name, c.feed)
			if len(b.Changes) == 0 {
				t.Fatal("no changes")
			}
			for _, ch := range b.Changes {
				if ch.Defect != "" || ch.Body == nil {
					t.Errorf("%q: %s", ch.ID, ch.Defect)
				}
			}
			last := b.Changes[len(b.Changes)-1]
			if c.ids != "" && (ids(b) != c.ids || last.Rev.String() != c.rev || len(last.Leaves) != c.leaves || last.Leaves[0] != last.Rev) {
				t.Errorf("got %q, %v, leaves %v", ids(b), last.Rev, last.Leaves)
			}
		})
	}
}

// TestRecordedIDs: every id that the server allowed arrives as it was put.
func TestRecordedIDs(t *testing.T) {
	rec := recordings(t)["couchdb/ids_feed"]
	s := newServer(t, rec.replay)
	b := next(t, open(t, options(s)), "", changes.Limit{})
	got := map[string]bool{}
	for _, c := range b.Changes {
		got[c.ID] = true
	}
	for _, want := range []string{"with space", "a/b/c", "a+b", "ünïcode-é", "日本語", "emoji-😀", "%41", "q?x=1&y=2", `"quoted"`, `back\slash`, "tab\there", "nl\nhere", ".", "..", " ", "\x01ctl", "\u00e9", "e\u0301"} {
		if !got[want] {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestDeepDocument: 100,000 levels are no reason to stop.
func TestDeepDocument(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 50_000) + "1" + strings.Repeat("]}", 50_000)
	s := newServer(t, normal("1-a", 0, `{"seq":"1-a","id":"deep","changes":[{"rev":"1-a"}],"doc":`+deep+`}`))
	b := next(t, open(t, options(s)), "", changes.Limit{})
	if len(b.Changes) != 1 || string(b.Changes[0].Body) != deep {
		t.Errorf("got %q", ids(b))
	}
}
