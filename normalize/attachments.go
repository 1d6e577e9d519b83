package normalize

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Names in attachments as CouchDB has them.
const (
	attachmentsField = "_attachments"
	attachmentData   = "data"
	attachmentLength = "length"
	attachmentStub   = "stub"
)

// stubs are the changes with the contents of attachments taken out of their documents.
// CouchDB is never asked for them, but other sources may send them, and a table of rows
// is no place for files. The batch itself stays as it is.
func (n *Normalizer) stubs(cs []changes.Change) []changes.Change {
	cloned := false
	for i := range cs {
		body := n.withoutContents(cs[i].Body)
		if body == nil {
			continue
		}
		if !cloned {
			cs, cloned = slices.Clone(cs), true
		}
		cs[i].Body = body
	}
	return cs
}

// withoutContents is the document with stubs where its attachments have their contents;
// nil when none has, or when it cannot be read.
func (n *Normalizer) withoutContents(doc []byte) []byte {
	if !bytes.Contains(doc, []byte(`"`+attachmentsField+`"`)) || !bytes.Contains(doc, []byte(`"`+attachmentData+`"`)) {
		return nil
	}
	s := &n.scan
	if s.check(doc) != nil {
		return nil
	}
	var out []byte
	from := 0
	s.members(s.space(0), func(name, value *token) {
		if string(name.text(doc)) != attachmentsField || doc[value.start] != '{' {
			return
		}
		s.members(value.start, func(_, one *token) {
			if doc[one.start] == '{' {
				out, from = s.stub(one.start, out, from)
			}
		})
	})
	if from == 0 {
		return nil
	}
	return append(out, doc[from:]...)
}

// members calls f with the members of the object at place i of a text that was checked.
func (s *scanner) members(i int, f func(name, value *token)) {
	var name, value token
	for i = s.space(i + 1); s.data[i] != '}'; {
		s.value(i, &name)
		s.value(s.colon(name.end), &value)
		f(&name, &value)
		if i = s.space(value.end); s.data[i] == ',' {
			i = s.space(i + 1)
		}
	}
}

// stub puts a length and the word that it is a stub in the place of the contents of the
// attachment at place i. What stands before from is in out already; it returns both anew.
func (s *scanner) stub(i int, out []byte, from int) (newOut []byte, newFrom int) {
	var field, contents token
	found, length, stub := false, false, false
	s.members(i, func(name, value *token) {
		switch string(name.text(s.data)) {
		case attachmentData:
			if s.data[value.start] == '"' {
				field, contents, found = *name, *value, true
			}
		case attachmentLength:
			length = true
		case attachmentStub:
			stub = true
		}
	})
	if !found {
		return out, from
	}
	out = append(out, s.data[from:field.start]...)
	switch {
	case !length && !stub:
		out = strconv.AppendInt(append(out, `"length":`...), decoded(s.data[contents.start+1:contents.end-1]), 10)
		out = append(out, `,"stub":true`...)
	case !length:
		out = strconv.AppendInt(append(out, `"length":`...), decoded(s.data[contents.start+1:contents.end-1]), 10)
	default:
		out = append(out, `"stub":true`...)
	}
	return out, contents.end
}

// decoded is how many bytes a text in Base64 stands for.
func decoded(text []byte) int64 {
	const digit, octet = 6, 8
	n := int64(len(text) - bytes.Count(text, []byte{'\\'}))
	n -= int64(len(text) - len(bytes.TrimRight(text, "=")))
	return n * digit / octet
}
