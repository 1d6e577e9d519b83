package normalize_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/normalize"
)

// TestContentsOfAttachments: stubs stay as they are, contents become stubs, everywhere.
func TestContentsOfAttachments(t *testing.T) {
	content := strings.Repeat("QUJD", 1000)
	for _, c := range []struct{ doc, want, column string }{
		{`{"_attachments":{"a.txt":{"content_type":"text/plain","revpos":2,"digest":"md5-x","length":5,"stub":true}}}`, "",
			`{"a.txt":{"content_type":"text/plain","revpos":2,"digest":"md5-x","length":5,"stub":true}}`},
		{`{"_attachments":{"a.txt":{"content_type":"text/plain","data":"` + content + `"}},"n":1}`,
			`{"_attachments":{"a.txt":{"content_type":"text/plain","length":3000,"stub":true}},"n":1}`,
			`{"a.txt":{"content_type":"text/plain","length":3000,"stub":true}}`},
		{`{ "_attachments" : { "a" : { "data" : "QQ==" , "content_type":"x" } , "b":{"stub":true}, "data":{"data":"QUI=","revpos":1} } , "data":"QUJD"}`,
			`{ "_attachments" : { "a" : { "length":1,"stub":true , "content_type":"x" } , "b":{"stub":true}, "data":{"length":2,"stub":true,"revpos":1} } , "data":"QUJD"}`,
			`{ "a" : { "length":1,"stub":true , "content_type":"x" } , "b":{"stub":true}, "data":{"length":2,"stub":true,"revpos":1} }`},
		{`{"_attachments":{"a":{"length":7,"data":"QUJD\/w=="}}}`, `{"_attachments":{"a":{"length":7,"stub":true}}}`, `{"a":{"length":7,"stub":true}}`},
		{`{"_attachments":{"a":{"data":"\/\/8="}}}`, `{"_attachments":{"a":{"length":2,"stub":true}}}`, `{"a":{"length":2,"stub":true}}`},
		{`{"_attachments":{"a":{"data":""}}}`, `{"_attachments":{"a":{"length":0,"stub":true}}}`, `{"a":{"length":0,"stub":true}}`},
		{`{"_attachments":{"a":{"data":5}},"x":{"data":"QUJD"}}`, "", `{"a":{"data":5}}`},
		{`{"x":{"_attachments":{"a":{"data":"QUJD"}}}}`, "", ""},
	} {
		if c.want == "" {
			c.want = c.doc
		}
		b := bodies(t, c.doc)
		before := bytes.Clone(b.Changes[0].Body)
		r := normalized(t, normalizer(t, normalize.Options{}), b, nil)
		if got := at(r, 0, "_doc"); got != c.want {
			t.Errorf("%.200s: _doc\n%s\nwant\n%s", c.doc, got, c.want)
		}
		if got, _ := at(r, 0, "_attachments").(string); got != c.column {
			t.Errorf("%.200s: _attachments %s, want %s", c.doc, got, c.column)
		}
		if !bytes.Equal(before, b.Changes[0].Body) {
			t.Error("the batch was written to")
		}
	}
	broken := normalized(t, normalizer(t, normalize.Options{}), bodies(t, `{"_attachments":{"a":{"data":"QUJD"}}`), nil)
	if len(broken.Rejects) != 1 || len(broken.Records) != 0 {
		t.Errorf("%+v", broken)
	}
}
