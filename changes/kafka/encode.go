package kafka

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/changes"
)

// markerKey is no document's id: those that begin with an underscore are
// reserved. It is the same for all markers, so that compaction keeps the last.
const markerKey = "_couch2hudi/marker"

// headers are those of all messages of one database; kind may be empty.
func headers(from origin, kind string) []kgo.RecordHeader {
	h := []kgo.RecordHeader{{Key: headerVersion, Value: []byte(version)}, {Key: headerDB, Value: []byte(from.Name)},
		{Key: headerIncarnation, Value: []byte(from.Incarnation)}}
	if kind != "" {
		h = append(h, kgo.RecordHeader{Key: headerType, Value: []byte(kind)})
	}
	return h
}

// encodeChange appends the value of a change's message: the envelope, and the
// document's text as it came, last.
func encodeChange(dst []byte, c *changes.Change) []byte {
	member := func(name, value string) {
		dst = append(dst, name...)
		dst, _ = jsontext.AppendQuote(dst, value) // the error only tells of bytes that are no UTF-8, which it replaces
	}
	member(`{"_id":`, c.ID)
	if c.Rev.Generation > 0 {
		member(`,"_rev":`, c.Rev.String())
	}
	for i, l := range c.Leaves {
		if i == 0 {
			member(`,"_leaves":[`, l.String())
		} else {
			member(`,`, l.String())
		}
	}
	if len(c.Leaves) > 0 {
		dst = append(dst, ']')
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"_deleted", c.Deleted}, {"_absent", c.Absent}, {"_purged", c.Purged}} {
		if flag.set {
			dst = append(dst, `,"`+flag.name+`":true`...)
		}
	}
	if c.Seq != "" {
		member(`,"_seq":`, c.Seq)
	}
	if c.Body != nil {
		dst = append(append(dst, `,"doc":`...), c.Body...)
	}
	return append(dst, '}')
}
