package couchfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// stored writes {"v":…} and gives back what the server keeps of it.
func stored(t testing.TB, db *couchfake.Database, body string) (string, error) {
	t.Helper()
	if _, err := db.Put("x", []byte(body)); err != nil {
		return "", err
	}
	d, _ := db.Doc("x")
	_, rest, _ := strings.Cut(string(d.Winner().Body), `"_rev":"`)
	_, rest, _ = strings.Cut(rest, `"`)
	return "{" + strings.TrimPrefix(rest, ","), nil
}

func TestStoredForm(t *testing.T) {
	_, db := filled(t, 0)
	for in, want := range map[string]string{
		`{"v":1e-6}`:                        `{"v":0.000001}`,
		`{"v":1e-7}`:                        `{"v":1e-7}`,
		`{"v":0.00001}`:                     `{"v":0.00001}`,
		`{"v":1e21}`:                        `{"v":1e+21}`,
		`{"v":1e20}`:                        `{"v":100000000000000000000.0}`,
		`{"v":-1.50e1}`:                     `{"v":-15.0}`,
		`{"v":-0}`:                          `{"v":0}`,
		`{"v":1,"w":2,"v":3,"w":4}`:         `{"v":3,"w":4}`,
		`{"a":1,"b":{"c":1,"c":2},"a":[ ]}`: `{"b":{"c":2},"a":[]}`,
		`{"\u0061":1,"a":2}`:                `{"a":2}`,
		`{"v":"\ud83d\ude00\/\b\f"}`:        `{"v":"😀/\b\f"}`,
		`{"v":[ 1 , {"x" : null } ]}`:       `{"v":[1,{"x":null}]}`,
		" {\"v\":true}\n":                   `{"v":true}`,
		`{}`:                                `{}`,
	} {
		if got, err := stored(t, db, in); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestManyKeysLastOneWins(t *testing.T) {
	_, db := filled(t, 0)
	var b strings.Builder
	b.WriteString(`{"k":0`)
	for i := range 200 {
		fmt.Fprintf(&b, `,"k%d":%d`, i%90, i)
	}
	got, err := stored(t, db, b.String()+`,"k":1}`)
	if err != nil || !strings.HasPrefix(got, `{"k20":110,`) || !strings.HasSuffix(got, `,"k19":199,"k":1}`) || strings.Count(got, ":") != 91 {
		t.Errorf("%v: %s", err, got)
	}
}

func TestRefusedBodies(t *testing.T) {
	_, db := filled(t, 0)
	for _, in := range []string{
		``, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":tru}`, `{"a":nul`, `[1,]`, `{"a":[1`, `{"a":"x`, `{"a":"\x"}`,
		`{"a":"\u12"}`, `{"a":"\u12x4"}`, `{"a":"\ud800\u0041"}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e+}`, `{"a":00}`, "{\"a\":\"\x01\"}",
		`{} {}`, `"s"`, `5`, `{"_id_":1}`, `{"_rev":5}`, `{"_rev":"x"}`, `{"_deleted":1}`, `{"_revisions":{"start":1,"ids":["a","b"]}}`, `{"_revisions":{"start":"1"}}`,
		`{"_attachments":[]}`, `{"_attachments":{"a":1}}`, `{"_attachments":{"a":{"stub":true}}}`, `{"_attachments":{"a":{"data":"!"}}}`,
		`{"a":` + strings.Repeat("9", 400) + `}`, `{"a":` + strings.Repeat("[", 600_000) + `}`,
	} {
		if got, err := stored(t, db, in); err == nil {
			t.Errorf("%.60s is taken as %.60s", in, got)
		}
	}
	if db.Len() != 0 {
		t.Errorf("%d documents came of refused bodies", db.Len())
	}
}

// FuzzStoredForm holds that the stored form means the same, is a fixed point, and that what Go refuses is refused.
func FuzzStoredForm(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"a":2}`, `{"a":[1,2.50,-0,1e3,"\u00e9\ud83d\ude00\u0000"],"b":{"c":null,"d":true}}`, `{"a":12345678901234567890123}`, `{"a":"\ud800"}`, `[]`,
		`{"_deleted":true,"x":1e400}`, `{"":{"":{"":[]}}}`,
	} {
		f.Add([]byte(s))
	}
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	n := 0
	f.Fuzz(func(t *testing.T, body []byte) {
		n++
		db, err := s.Create(fmt.Sprintf("f%d", n))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Drop(db.Name())
		first, err := stored(t, db, string(body))
		if err != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q is no JSON, and was taken", body)
		}
		second, err := stored(t, db, first)
		if err != nil || strings.ReplaceAll(first, `,"_deleted":true`, "") != strings.ReplaceAll(second, `,"_deleted":true`, "") {
			t.Fatalf("%q is stored as %q, and that as %q, %v", body, first, second, err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(first)); err != nil || compact.String() != first {
			t.Fatalf("%q is stored as %q: %v", body, first, err)
		}
	})
}

// FuzzSince holds that no seq from outside does harm: it is refused, or it is read.
func FuzzSince(f *testing.F) {
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	db, err := s.Create("db")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := db.Put("a", []byte(`{}`)); err != nil {
		f.Fatal(err)
	}
	for _, seq := range []string{"0", "now", "", "1-g1AAAA", db.Seq(), `"` + db.Seq() + `"`, "1-", "-", db.Seq() + "A"} {
		f.Add(seq)
	}
	f.Fuzz(func(t *testing.T, since string) {
		res, body := ask(t, http.MethodGet, s.URL()+"/db/_changes?since="+url.QueryEscape(since), "")
		switch res.StatusCode {
		case http.StatusOK:
			var l list
			if err := json.Unmarshal([]byte(body), &l); err != nil || l.LastSeq == "" || len(l.Results) > 1 {
				t.Errorf("%q: %v: %s", since, err, body)
			}
		case http.StatusBadRequest:
			if !strings.Contains(body, "Malformed sequence supplied in 'since' parameter.") {
				t.Errorf("%q: %s", since, body)
			}
		default:
			t.Errorf("%q: %d %s", since, res.StatusCode, body)
		}
	})
}
