package ndjson

import (
	"bytes"
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
)

// FuzzRow: no line makes the reader fail in another way than by a defect, and what
// it understood is understood alike after it was written.
func FuzzRow(f *testing.F) {
	for _, line := range []string{
		`{"seq":"1-g","id":"a","changes":[{"rev":"2-b"},{"rev":"1-a"}],"doc":{"_id":"a"}}`, `{"id":"a","changes":[{"rev":"2-b"}],"deleted":true}`,
		`{"_id":"a","_rev":"1-a","x":{"rev":1}}`, `{"id":"a","key":"a","value":{"rev":"1-a"},"doc":{}}`, `{"id":"a","deleted":true,"absent":true,"purged":true}`,
		`{"id_base64":"/w==","changes":[{"rev":"1-a"}],"doc_base64":"e30="}`, `{"seq":[1,"x"],"id":"\ud800","changes":[{"rev":"1-a"}],"doc":null}`, `{"id":"a","defect":"x","raw":"e30="}`, `[`, ``, `{"id":1}`, "{\"seq\":\"\xff\"}", "{\"id\":\"\xff\",\"changes\":[{\"rev\":\"1-\xff\"}]}",
	} {
		f.Add([]byte(line), true)
		f.Add([]byte(line), false)
	}
	f.Fuzz(func(t *testing.T, line []byte, plain bool) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // never in a line
		}
		r := rowReader{plain: plain, leaves: true}
		c := r.read(bytes.Clone(line))
		again := (&rowReader{}).read(bytes.TrimSuffix(appendRow(nil, &c), []byte("\n")))
		if again.ID != c.ID || again.Seq != c.Seq || again.Rev != c.Rev || !slices.Equal(again.Leaves, c.Leaves) || again.Deleted != c.Deleted ||
			again.Absent != c.Absent || again.Purged != c.Purged || again.Defect != c.Defect || !bytes.Equal(again.Body, c.Body) || !bytes.Equal(again.Raw, c.Raw) {
			t.Errorf("%q is\n%+v, and written and read\n%+v", line, c, again)
		}
		if c.Defect == "" && c.Rev == (changes.Rev{}) && !c.Absent {
			t.Errorf("%q has neither a revision nor a defect", line)
		}
	})
}
