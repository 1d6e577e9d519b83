package normalize_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// recorded are the changes with documents in the answers of a real CouchDB
// (testdata/couchdb): rows of feeds, and documents that were read.
func recorded(t *testing.T) []changes.Change {
	t.Helper()
	paths, err := filepath.Glob("../testdata/couchdb/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal("no recordings", err)
	}
	var all []changes.Change
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Exchanges []struct {
				Response struct {
					Body struct{ Text string }
				}
			}
		}
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(path, err)
		}
		for _, e := range file.Exchanges {
			all = append(all, documents(t, e.Response.Body.Text)...)
		}
	}
	return all
}

// documents are the changes in one answer.
func documents(t *testing.T, text string) []changes.Change {
	t.Helper()
	var feed struct {
		Results []struct {
			ID      string
			Deleted bool
			Changes []struct{ Rev string }
			Doc     json.RawMessage
		}
	}
	var doc struct {
		ID  string `json:"_id"`
		Rev string `json:"_rev"`
	}
	var all []changes.Change
	if json.Unmarshal([]byte(text), &feed) == nil {
		for _, r := range feed.Results {
			c := changes.Change{ID: r.ID, Deleted: r.Deleted, Body: r.Doc}
			for _, l := range r.Changes {
				c.Leaves = append(c.Leaves, rev(t, l.Rev))
			}
			if len(r.Doc) > 0 && len(c.Leaves) > 0 {
				c.Rev = c.Leaves[0]
				all = append(all, c)
			}
		}
	}
	if json.Unmarshal([]byte(text), &doc) == nil && doc.ID != "" && !strings.HasPrefix(doc.ID, "_local/") && doc.Rev != "" {
		r := rev(t, doc.Rev)
		all = append(all, changes.Change{ID: doc.ID, Rev: r, Leaves: []changes.Rev{r}, Body: []byte(text)})
	}
	return all
}

// sameButContents says whether a document is the one that was received, byte for byte;
// where that has contents of attachments, they alone are missing.
func sameButContents(t *testing.T, got, want string) bool {
	t.Helper()
	if got == want {
		return true
	}
	fields := func(text string) (attachments map[string]map[string]json.RawMessage, others map[string]json.RawMessage) {
		if err := json.Unmarshal([]byte(text), &others); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := json.Unmarshal(others["_attachments"], &attachments); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		delete(others, "_attachments")
		return attachments, others
	}
	have, rest := fields(got)
	sent, all := fields(want)
	taken := 0
	for name := range sent {
		if _, inline := sent[name]["data"]; !inline {
			continue
		}
		taken++
		if string(have[name]["stub"]) != "true" || len(have[name]["length"]) == 0 {
			return false
		}
		delete(sent[name], "data")
		delete(have[name], "stub")
		delete(have[name], "length")
	}
	return taken > 0 && reflect.DeepEqual(have, sent) && reflect.DeepEqual(rest, all)
}

// Every document that a real server gave becomes a row, and every value of it
// stands in a column or in _rescued, exactly.
func TestRecordedDocuments(t *testing.T) {
	cs := recorded(t)
	live := 0
	for _, c := range cs {
		r := normalized(t, normalizer(t, normalize.Options{MaxColumns: 1 << 20}), batch(c), nil)
		if len(r.Records) != 1 {
			t.Errorf("%q: %s", c.ID, r.Rejects[0].Reason)
			continue
		}
		if doc, _ := at(r, 0, "_doc").(string); !sameButContents(t, doc, string(c.Body)) || at(r, 0, "_id") != c.ID || at(r, 0, "_rev") != c.Rev.String() {
			t.Errorf("%q: envelope", c.ID)
		}
		if c.Deleted {
			continue
		}
		live++
		var want map[string]json.RawMessage
		if err := json.Unmarshal(c.Body, &want); err != nil {
			t.Fatal(err)
		}
		for name := range want {
			if strings.HasPrefix(name, "_") {
				delete(want, name)
			}
		}
		sameValues(t, r, want)
	}
	if live < 100 || live == len(cs) {
		t.Errorf("only %d live documents of %d: are these the recordings?", live, len(cs))
	}
	// All of them in one batch, as if from one database.
	r := normalized(t, normalizer(t, normalize.Options{MaxColumns: 50}), changes.Batch{Changes: cs}, nil)
	if len(r.Rejects) != 0 || r.Stats.Collapsed+len(r.Records) != len(cs) {
		t.Errorf("%d rejects, %+v", len(r.Rejects), r.Stats)
	}
}
