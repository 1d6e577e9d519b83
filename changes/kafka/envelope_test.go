package kafka

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/changes"
)

// What is encoded is read again as it was.
func TestEnvelope(t *testing.T) {
	revs := []changes.Rev{{Generation: 3, Hash: "a"}, {Generation: 12, Hash: "9-b"}}
	for _, c := range []changes.Change{
		{ID: "a", Rev: revs[0], Leaves: revs[:1], Body: []byte(`{"_id":"a","doc":{"doc":1}}`)},
		{ID: "quote\" \\ \n ü 😀", Rev: revs[0], Leaves: revs, Seq: "9-\"x", Body: []byte("{\n \"x\" : 1.0 }")},
		{ID: "gone", Rev: revs[1], Leaves: revs[1:], Deleted: true},
		{ID: "purged", Rev: revs[1], Leaves: revs[1:], Purged: true, Body: []byte(`{}`)},
		{ID: "absent", Deleted: true, Absent: true, Purged: true},
	} {
		value := encodeChange(nil, &c)
		var d decoder
		for range 2 { // a decoder is used again
			got := d.change(&kgo.Record{Key: []byte(c.ID), Value: value, Topic: "t", Partition: 2, Offset: 7}, kind{ours: true})
			if got.Place.String() != "t/2@7" {
				t.Errorf("place %s", got.Place)
			}
			got.Place = changes.Place{}
			if !reflect.DeepEqual(got, c) {
				t.Errorf("%s\n%+v\nwant\n%+v", value, got, c)
			}
		}
	}
}

// FuzzMessage: no message harms the reader, and what it takes for a change has an
// id, a revision unless it is absent, and a body unless it is a deletion.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{`{"_id":"a","_rev":"1-a","_leaves":["1-a"],"doc":{}}`, `{"_id":"a","_rev":"3-x","x":[{"_id":1}]}`,
		`{"_id":"a","_rev":"1-a","_deleted":true,"_seq":"1"}`, `{"_id":"\ud800","_rev":"1-a"}`, `{"_id":"a","_rev":"1-a","doc":{}}}`, ``, `{`} {
		f.Add([]byte("a"), []byte(s), true)
		f.Add([]byte(`{"_id":"a"}`), []byte(s), false)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, ours bool) {
		var d decoder
		c := d.change(&kgo.Record{Key: key, Value: value}, kind{ours: ours})
		switch {
		case c.Defect != "":
		case c.ID == "":
			t.Errorf("no id: %+v", c)
		case !c.Absent && c.Rev.Generation < 1:
			t.Errorf("no revision: %+v", c)
		case !c.Deleted && !ours && len(c.Body) == 0:
			t.Errorf("no body: %+v", c)
		}
	})
}
