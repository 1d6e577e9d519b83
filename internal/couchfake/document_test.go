package couchfake_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// step is a request and what must come of it.
type step struct {
	method, path, body string
	status             int
	want               string // what the body begins with
}

func walk(t *testing.T, s *couchfake.Server, steps []step) {
	t.Helper()
	for _, c := range steps {
		res, b := ask(t, c.method, s.URL()+c.path, c.body, "Content-Type", "application/json")
		if res.StatusCode != c.status || !strings.HasPrefix(b, c.want) {
			t.Errorf("%s %s %.60s: %d %s; want %d %s", c.method, c.path, c.body, res.StatusCode, b, c.status, c.want)
		}
	}
}

func TestDocuments(t *testing.T) {
	s, db := filled(t, 0)
	replicate(t, db, "c", `{"v":1}`, "2-x", "1-r")
	replicate(t, db, "c", `{"v":2}`, "2-y", "1-r")
	walk(t, s, []step{
		{"PUT", "/db/a", `{"v":1}`, 201, `{"ok":true,"id":"a","rev":"1-7a7e4b29f3af401e69b6f86e4c26b727"}`},
		{"PUT", "/db/a?rev=1-7a7e4b29f3af401e69b6f86e4c26b727", `{"v":2}`, 201, `{"ok":true,"id":"a","rev":"2-`},
		{"PUT", "/db/a?rev=1-x", `{"_rev":"1-y"}`, 400, `{"error":"bad_request","reason":"Document rev from request body and query string have different values"}`},
		{"PUT", "/db/a?rev=x", `{}`, 400, `{"error":"bad_request","reason":"Invalid rev format"}`},
		{"PUT", "/db/a?rev=1-7a7e4b29f3af401e69b6f86e4c26b727", `{}`, 409, `{"error":"conflict"`},
		{"DELETE", "/db/a", ``, 409, `{"error":"conflict"`},
		{"GET", "/db/a?rev=1-7a7e4b29f3af401e69b6f86e4c26b727", ``, 200, `{"_id":"a","_rev":"1-7a7e4b29f3af401e69b6f86e4c26b727","v":1}`},
		{"GET", "/db/a?rev=1-7a7e4b29f3af401e69b6f86e4c26b727&latest=true", ``, 200, `{"_id":"a","_rev":"2-`},
		{"GET", "/db/a?rev=9-none", ``, 404, `{"error":"not_found","reason":"missing"}`},
		{"GET", "/db/c?conflicts=true&local_seq=true", ``, 200, `{"_id":"c","_rev":"2-y","v":2,"_conflicts":["2-x"],"_local_seq":`},
		{"GET", "/db/none?open_revs=all", ``, 404, `{"error":"not_found"`},
		{"GET", "/db/none?open_revs=%5B%221-a%22%5D", ``, 200, `[{"missing":"1-a"}]`},
		{"GET", "/db/none?open_revs=%5B%22x%22%5D", ``, 400, `{"error":"bad_request"`},
		{"GET", "/db/none?open_revs=x", ``, 400, `{"error":"bad_request"`},
		{"PUT", "/db/r?new_edits=false", `{"_rev":"4-d","v":1}`, 201, `{"ok":true,"id":"r","rev":"4-d"}`},
		{"PUT", "/db/r?new_edits=false", `{"v":1}`, 400, `{"error":"bad_request"`},
		{"PUT", "/db/_bad", `{}`, 400, `{"error":"illegal_docid"`},
		{"PUT", "/db/_design/v", `{"views":{}}`, 201, `{"ok":true,"id":"_design/v"`},
		{"GET", "/db/_design%2Fv", ``, 200, `{"_id":"_design/v"`},
		{"POST", "/db", `{"_id":"p"}`, 201, `{"ok":true,"id":"p","rev":"1-`},
		{"PATCH", "/db/p", ``, 405, `{"error":"method_not_allowed","reason":"Only DELETE,GET,HEAD,PUT allowed"}`},
		{"PATCH", "/db", ``, 405, `{"error":"method_not_allowed"`},
		{"GET", "/db/_bulk_docs", ``, 405, `{"error":"method_not_allowed","reason":"Only POST allowed"}`},
		{"POST", "/db/_bulk_docs", `{}`, 400, `{"error":"bad_request"`},
		{"POST", "/db/_bulk_docs", `{"docs":1}`, 400, `{"error":"bad_request"`},
		{"POST", "/db/_bulk_docs", `{"docs":[{"_id":"_local/a","x":1},5]}`, 400, `{"error":"bad_request","reason":"Document must be a JSON object"}`},
		{"POST", "/db/_bulk_docs", `{"docs":[{"_id":"_local/a","x":1}]}`, 201, `[{"ok":true,"id":"_local/a","rev":"0-1"}]`},
		{"POST", "/db/_bulk_get", `{}`, 400, `{"error":"bad_request"`},
		{"GET", "/db/_revs_limit", ``, 200, "1000\n"},
		{"PUT", "/db/_revs_limit", `0`, 400, `{"error":"bad_request"`},
		{"POST", "/db/_ensure_full_commit", ``, 201, `{"ok":true,"instance_start_time":"`},
		{"GET", "/nodb/x", ``, 404, `{"error":"not_found","reason":"Database does not exist."}`},
		{"DELETE", "/nodb", ``, 404, `{"error":"not_found","reason":"Database does not exist."}`},
		{"PUT", "/x?q=0", ``, 400, `{"error":"bad_request"`},
	})
}

func TestHeadAndETag(t *testing.T) {
	s, db := filled(t, 0)
	r := put(t, db, "a", `{"v":1}`)
	res, b := ask(t, "HEAD", s.URL()+"/db/a", "")
	if res.StatusCode != http.StatusOK || b != "" || res.Header.Get("ETag") != `"`+r.String()+`"` || res.ContentLength == 0 {
		t.Errorf("HEAD: %d %q %v", res.StatusCode, b, res.Header)
	}
	if res, _ := ask(t, "GET", s.URL()+"/db/a", "", "If-None-Match", `"`+r.String()+`"`); res.StatusCode != http.StatusNotModified {
		t.Errorf("If-None-Match: %d", res.StatusCode)
	}
	res, _ = ask(t, "GET", s.URL()+"/db/_changes", "")
	etag := res.Header.Get("ETag")
	if res, _ := ask(t, "GET", s.URL()+"/db/_changes", "", "If-None-Match", etag); res.StatusCode != http.StatusNotModified || etag == "" {
		t.Errorf("feed with If-None-Match: %d", res.StatusCode)
	}
	put(t, db, "b", `{}`)
	if res, _ := ask(t, "GET", s.URL()+"/db/_changes", "", "If-None-Match", etag); res.StatusCode != http.StatusOK {
		t.Errorf("a changed feed with an old ETag: %d", res.StatusCode)
	}
}

func TestLocalDocuments(t *testing.T) {
	s, _ := filled(t, 0)
	walk(t, s, []step{
		{"DELETE", "/db/_local/ck", ``, 404, `{"error":"not_found"`},
		{"PUT", "/db/_local/ck", `{"n":1}`, 201, `{"ok":true,"id":"_local/ck","rev":"0-1"}`},
		{"PUT", "/db/_local/ck", `{"n":2}`, 409, `{"error":"conflict"`},
		{"PUT", "/db/_local/ck", `{"_rev":"0-1","n":2}`, 201, `{"ok":true,"id":"_local/ck","rev":"0-2"}`},
		{"GET", "/db/_local/ck", ``, 200, `{"_id":"_local/ck","_rev":"0-2","n":2}`},
		{"DELETE", "/db/_local/ck?rev=0-2", ``, 200, `{"ok":true`},
		{"GET", "/db/_local/ck", ``, 404, `{"error":"not_found"`},
		{"PUT", "/db/_local/", `{}`, 400, `{"error":"illegal_docid"`},
	})
	if l := changes(t, s, "/db/_changes"); len(l.Results) != 0 {
		t.Errorf("local documents in the feed: %+v", l.Results)
	}
}

func TestAllDocs(t *testing.T) {
	s, db := filled(t, 6)
	if _, err := db.Delete("d002"); err != nil {
		t.Fatal(err)
	}
	ids := func(body string) string {
		var out []string
		for _, l := range strings.Split(body, "\r\n") {
			if _, rest, ok := strings.Cut(l, `{"id":"d00`); ok {
				out = append(out, rest[:1])
			}
		}
		return strings.Join(out, "")
	}
	for query, want := range map[string]string{
		"":                                       `{"total_rows":5,"offset":0: 01345`,
		"limit=2&skip=1":                         `{"total_rows":5,"offset":1: 13`,
		"startkey=%22d001%22&limit=2":            `{"total_rows":5,"offset":1: 13`,
		"start_key=%22d002%22":                   `{"total_rows":5,"offset":2: 345`,
		"endkey=%22d003%22":                      `{"total_rows":5,"offset":0: 013`,
		"end_key=%22d003%22&inclusive_end=false": `{"total_rows":5,"offset":0: 01`,
		"descending=true&limit=2":                `{"total_rows":5,"offset":0: 54`,
		"descending=true&startkey=%22d003%22":    `{"total_rows":5,"offset":2: 310`,
		"descending=true&endkey=%22d003%22&inclusive_end=false": `{"total_rows":5,"offset":0: 54`,
		"key=%22d004%22":                        `{"total_rows":5,"offset":3: 4`,
		"startkey=%22x%22":                      `{"total_rows":5,"offset":5: `,
		"startkey=%22d005%22&endkey=%22d001%22": `{"total_rows":5,"offset":4: `,
	} {
		body := read(t, s, "/db/_all_docs?"+query)
		head, _, _ := strings.Cut(body, `,"rows"`)
		if got := head + ": " + ids(body); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	walk(t, s, []step{
		{"GET", "/db/_all_docs?limit=x", ``, 400, `{"error":"query_parse_error"`},
		{"POST", "/db/_all_docs", `{"keys":1}`, 400, `{"error":"bad_request"`},
		{"GET", "/db/_all_docs?limit=1&update_seq=true&include_docs=true", ``, 200, `{"total_rows":5,"offset":0,"update_seq":"7-`},
	})
	put(t, db, "d007", `{}`)
	db.Purge("d000")
	if got := ids(read(t, s, "/db/_all_docs")); got != "13457" {
		t.Errorf("after a write and a purge %s", got)
	}
}

func TestAttachments(t *testing.T) {
	s, db := filled(t, 0)
	res, b := ask(t, "PUT", s.URL()+"/db/a/new%20name", "x", "Content-Type", "application/octet-stream")
	if res.StatusCode != http.StatusCreated || !strings.HasPrefix(b, `{"ok":true,"id":"a","rev":"1-`) || !strings.HasSuffix(res.Header.Get("Location"), "/db/a/new%20name") {
		t.Fatalf("%d %s %v", res.StatusCode, b, res.Header)
	}
	d, _ := db.Doc("a")
	one := `"new name":{"content_type":"application/octet-stream","revpos":1,"digest":"md5-ndTkYSaMgDT1yFZOFVxnpg==","length":1,"stub":true}`
	if !strings.HasSuffix(string(d.Winner().Body), `,"_attachments":{`+one+`}}`) {
		t.Errorf("document %s", d.Winner().Body)
	}
	walk(t, s, []step{
		{"PUT", "/db/a/b?rev=" + d.Winner().Rev.String(), "yy", 201, `{"ok":true,"id":"a","rev":"2-`},
		{"PUT", "/db/a/b?rev=" + d.Winner().Rev.String(), "yy", 409, `{"error":"conflict"`},
		{"GET", "/db/a/none", ``, 404, `{"error":"not_found","reason":"Document is missing attachment"}`},
		{"GET", "/db/a/b", ``, 501, `{"error":"not_implemented"`},
		{"GET", "/db/none/b", ``, 404, `{"error":"not_found","reason":"missing"}`},
		{"DELETE", "/db/a/b", ``, 405, `{"error":"method_not_allowed"`},
	})
	d, _ = db.Doc("a")
	r, err := db.Edit("a", d.Winner().Rev, []byte(`{"_attachments":{"new name":{"stub":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if d, _ = db.Doc("a"); string(d.Winner().Body) != fmt.Sprintf(`{"_id":"a","_rev":"%s","_attachments":{%s}}`, r, one) {
		t.Errorf("a kept stub: %s", d.Winner().Body)
	}
	if _, err := db.Delete("a"); err != nil {
		t.Fatal(err)
	}
	walk(t, s, []step{{"GET", "/db/a/b", ``, 404, `{"error":"not_found","reason":"deleted"}`}})
}

func TestMaxDocumentSize(t *testing.T) {
	s := start(t, couchfake.Options{MaxDocumentSize: 100})
	create(t, s, "db", 1)
	big := `{"v":"` + strings.Repeat("x", 100) + `"}`
	walk(t, s, []step{
		{"PUT", "/db/a", big, 413, `{"error":"document_too_large","reason":""}`},
		{"POST", "/db/_bulk_docs", `{"docs":[` + big + `]}`, 413, `{"error":"document_too_large"`},
		{"POST", "/db/_bulk_docs", `{"docs":[{"v":"` + strings.Repeat("x", 40) + `"},{"v":"` + strings.Repeat("x", 40) + `"}]}`, 201, `[{"ok":true`},
	})
}

func TestCompaction(t *testing.T) {
	s, db := filled(t, 0)
	first := put(t, db, "a", `{"v":1}`)
	put(t, db, "a", `{"v":2}`)
	walk(t, s, []step{{"GET", "/db/a?rev=" + first.String(), "", 200, `{"_id":"a"`}})
	db.Compact()
	walk(t, s, []step{
		{"GET", "/db/a?rev=" + first.String(), "", 404, `{"error":"not_found","reason":"missing"}`},
		{"GET", "/db/a", "", 200, `{"_id":"a"`},
	})
}

func TestServerKeepsItsDatabases(t *testing.T) {
	s := start(t, couchfake.Options{})
	a := create(t, s, "db", 2)
	if _, err := s.Create("db"); err == nil {
		t.Error("made twice")
	}
	b, err := s.Recreate("db")
	if err != nil || b.StartTime() == a.StartTime() || b.Shards() != 2 {
		t.Errorf("made again: %v, born %s and %s, %d shards", err, a.StartTime(), b.StartTime(), b.Shards())
	}
	if _, err := a.Put("x", []byte(`{}`)); err == nil {
		t.Error("a dropped database takes documents")
	}
	if err := s.Drop("none"); err == nil {
		t.Error("dropped what is not there")
	}
	if _, err := s.Recreate("none"); err == nil {
		t.Error("made again what is not there")
	}
	if got := read(t, s, "/_all_dbs"); got != `["db"]`+"\n" {
		t.Errorf("databases %s", got)
	}
	if got := read(t, s, "/db/_shards"); got != `{"shards":{"00000000-7fffffff":["fake@127.0.0.1"],"80000000-ffffffff":["fake@127.0.0.1"]}}`+"\n" {
		t.Errorf("shards %s", got)
	}
	if got := read(t, s, "/"); !strings.HasPrefix(got, `{"couchdb":"Welcome","version":"3.5.0",`) {
		t.Errorf("welcome %s", got)
	}
}
