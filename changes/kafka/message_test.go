package kafka_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Messages that cannot be read go to the quarantine with their place, and those
// around them are delivered.
func TestPoison(t *testing.T) {
	for name, c := range map[string]struct {
		key, value string
		ours       bool
		headers    []kgo.RecordHeader
		want       string
	}{
		"text":                 {"a", "hello", false, nil, "not a JSON object"},
		"nothing":              {"a", "", false, nil, "not a JSON object"},
		"an array":             {"a", "[1]", false, nil, "not a JSON object"},
		"cut":                  {"a", `{"_id":"a","_rev":"1-a"`, false, nil, "cannot be read"},
		"cut, ours":            {"a", `{"_id":"a","_rev":"1-a","_leaves":["1-a"],"doc":{"x":1`, true, nil, "cannot be read"},
		"two documents":        {"a", `{"_id":"a","_rev":"1-a"}{}`, false, nil, "something follows"},
		"no id":                {"a", `{"_rev":"1-a"}`, false, nil, "no _id"},
		"no revision":          {"a", `{"_id":"a"}`, false, nil, "no _rev"},
		"an id that is none":   {"a", `{"_id":7,"_rev":"1-a"}`, false, nil, `"_id"`},
		"no revision at all":   {"a", `{"_id":"a","_rev":"x"}`, false, nil, "not a revision"},
		"another key":          {"b", `{"_id":"a","_rev":"1-a","_leaves":["1-a"],"doc":{}}`, true, nil, "its key is not its _id"},
		"another winner":       {"a", `{"_id":"a","_rev":"1-a","_leaves":["2-a"],"doc":{}}`, true, nil, "not its first leaf"},
		"a document that is 7": {"a", `{"_id":"a","_rev":"1-a","_leaves":["1-a"],"doc":7}`, true, nil, "doc is not an object"},
		"a later version":      {"a", `{}`, false, []kgo.RecordHeader{{Key: "couch2hudi", Value: []byte("2")}}, `version "2"`},
		"a later type":         {"a", `{}`, false, ours("news"), `type "news"`},
		"a broken row":         {"a", `{"_id":"a","defect":"row has no revision","raw":"eyJpZCI6ImEifQ=="}`, false, ours("defect"), "row has no revision"},
		"one that is cut":      {"a", `{`, false, ours("defect"), "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.Put(t, "before", `{}`)
			h := c.headers
			if c.ours {
				h = ours("")
			}
			w.send(t, &kgo.Record{Key: []byte(c.key), Value: []byte(c.value), Headers: h})
			w.Put(t, "after", `{}`)
			cs, _ := drain(t, open(t, w), "")
			if len(cs) != 3 || cs[0].Defect+cs[2].Defect != "" {
				t.Fatalf("%+v", cs)
			}
			bad := cs[1]
			if !strings.Contains(bad.Defect, c.want) || bad.Place.String() != topicName+"/0@1" || bad.Body != nil {
				t.Errorf("%s: %+v", bad.Place, bad)
			}
			if want := c.value; bad.Raw == nil || string(bad.Raw) != want && string(bad.Raw) != `{"id":"a"}` {
				t.Errorf("raw %q, want %q", bad.Raw, want)
			}
		})
	}
}

// Documents of other tools have the generation of their revision; a key without a
// value deletes whatever there is.
func TestOtherTools(t *testing.T) {
	w := newWorld(t, 1)
	w.opts.Leaves = false
	for _, m := range [][2]string{
		{"a", `{"_id":"a","_rev":"3-x","doc":{"n":1},"_id2":"b"}`},
		{`{"key":1}`, ` {"n":[{"_id":"no"}],"_rev":"2-y","_deleted":true,"_id":"é\"b"} `},
	} {
		w.send(t, &kgo.Record{Key: []byte(m[0]), Value: []byte(m[1])})
	}
	for _, key := range []string{"plain", `"quoted\u00e9"`, `{"_id":"object"}`, `{"id":"id"}`, `{"other":1}`, `{broken`} {
		w.send(t, &kgo.Record{Key: []byte(key)})
	}
	w.send(t, &kgo.Record{Key: []byte("ours"), Headers: ours(""), Value: []byte(`{"_id":"ours","_rev":"2-b","_leaves":["2-b","1-a"],"_deleted":true,"_seq":"9-x"}`)})
	w.send(t, &kgo.Record{})
	cs, _ := drain(t, open(t, w), "")
	if len(cs) != 10 {
		t.Fatalf("%d changes", len(cs))
	}
	for i, want := range []changes.Change{
		{ID: "a", Rev: changes.Rev{Generation: 3, Hash: "x"}},
		{ID: `é"b`, Rev: changes.Rev{Generation: 2, Hash: "y"}, Deleted: true},
		{ID: "plain", Deleted: true, Absent: true, Purged: true},
		{ID: "quotedé", Deleted: true, Absent: true, Purged: true},
		{ID: "object", Deleted: true, Absent: true, Purged: true},
		{ID: "id", Deleted: true, Absent: true, Purged: true},
		{ID: `{"other":1}`, Deleted: true, Absent: true, Purged: true},
		{ID: `{broken`, Deleted: true, Absent: true, Purged: true},
		{ID: "ours", Rev: changes.Rev{Generation: 2, Hash: "b"}, Deleted: true, Seq: "9-x"},
	} {
		c := cs[i]
		if c.ID != want.ID || c.Rev != want.Rev || c.Deleted != want.Deleted || c.Absent != want.Absent || c.Purged != want.Purged || c.Seq != want.Seq || c.Defect != "" {
			t.Errorf("%d: %+v, want %+v", i, c, want)
		}
	}
	if cs[9].Defect == "" || cs[9].Place.At != 9 {
		t.Errorf("a message of nothing: %+v", cs[9])
	}
}

// A table that orders by leaf revisions takes no message without.
func TestNoLeaves(t *testing.T) {
	for name, m := range map[string]*kgo.Record{
		"a document":   {Key: []byte("b"), Value: []byte(`{"_id":"b","_rev":"3-x"}`)},
		"a tombstone":  {Key: []byte("b")},
		"ours without": {Key: []byte("b"), Headers: ours(""), Value: []byte(`{"_id":"b","_rev":"3-x","doc":{}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.Put(t, "a", `{}`)
			w.send(t, m)
			src := open(t, w)
			b, err := next(t, src, "", changes.Limit{})
			if err != nil || len(b.Changes) != 1 {
				t.Fatal(err, ids(b.Changes))
			}
			_, err = next(t, src, b.Last, changes.Limit{})
			if !errors.Is(err, changes.ErrLeaves) || !strings.Contains(err.Error(), topicName+"/0@1") || !strings.Contains(err.Error(), "generation") {
				t.Errorf("got %v", err)
			}
		})
	}
}
