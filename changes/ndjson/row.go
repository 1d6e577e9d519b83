package ndjson

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/couch2hudi/couch2hudi/changes"
)

// lenient takes documents as they come: what is wrong with one is for whoever
// reads it.
func lenient() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

// appendRow appends a change as a line: a row of _changes, with what that has no
// word for beside it.
func appendRow(b []byte, c *changes.Change) []byte {
	b = append(b, '{')
	b = appendText(b, "seq", c.Seq)
	b = appendText(b, "id", c.ID)
	leaves := c.Leaves
	if len(leaves) == 0 && c.Rev.Generation > 0 {
		leaves = []changes.Rev{c.Rev}
	}
	for i, leaf := range leaves {
		if i == 0 {
			b = append(comma(b), `"changes":[`...)
		}
		b = append(appendText(append(b, '{'), "rev", leaf.String()), '}')
		if i < len(leaves)-1 {
			b = append(b, ',')
		} else {
			b = append(b, ']')
		}
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{{c.Deleted, `"deleted":true`}, {c.Absent, `"absent":true`}, {c.Purged, `"purged":true`}} {
		if flag.set {
			b = append(comma(b), flag.name...)
		}
	}
	if c.Defect != "" {
		b = appendText(b, "defect", c.Defect)
		b = appendBase64(b, "raw", c.Raw)
	}
	return append(appendDoc(b, c.Body), '}', '\n')
}

func comma(b []byte) []byte {
	if b[len(b)-1] == '{' {
		return b
	}
	return append(b, ',')
}

// appendText appends a key with a text, unless that is empty.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	if !utf8.ValidString(text) {
		return appendBase64(b, name+"_base64", []byte(text))
	}
	b = append(append(append(comma(b), '"'), name...), '"', ':')
	b, err := jsontext.AppendQuote(b, text)
	if err != nil { // it is valid UTF-8
		panic(err)
	}
	return b
}

func appendBase64(b []byte, name string, data []byte) []byte {
	if len(data) == 0 {
		return b
	}
	b = append(append(append(comma(b), '"'), name...), '"', ':', '"')
	return append(base64.StdEncoding.AppendEncode(b, data), '"')
}

// appendDoc appends the document's own bytes where a line can hold them.
func appendDoc(b, doc []byte) []byte {
	if doc == nil {
		return b
	}
	if len(doc) > 0 && bytes.IndexByte(doc, '\n') < 0 && jsontext.Value(doc).IsValid(lenient()...) {
		return append(append(comma(b), `"doc":`...), doc...)
	}
	return appendBase64(b, "doc_base64", doc)
}

// rowReader takes lines apart.
type rowReader struct {
	in  bytes.Reader
	dec *jsontext.Decoder
	// plain takes documents without a row around them too, and says with leaves
	// that the revisions of a row are all leaves.
	plain, leaves bool
}

// parsed is what a line has.
type parsed struct {
	docID, rev, valueRev string
	hasDocID, docDeleted bool
	revs                 []string
	// rowErr and docErr are what was wrong with members of a row, of a document.
	rowErr, docErr error
}

var errNoObject = errors.New("it is no JSON object")

// read makes a change of a line, which it holds on to. A line that cannot be
// understood is a change with a defect.
func (r *rowReader) read(line []byte) changes.Change {
	if r.dec == nil {
		r.dec = jsontext.NewDecoder(&r.in, lenient()...)
	}
	r.in.Reset(line)
	r.dec.Reset(&r.in, lenient()...)
	var c changes.Change
	var p parsed
	err := r.object(line, func(name string, value []byte) { p.take(&c, name, value) })
	switch {
	case err != nil:
	case p.hasDocID && r.plain: // what else it has is the document's own
		err = p.docErr
		c = changes.Change{ID: p.docID, Deleted: p.docDeleted, Body: line}
		p.revs, p.valueRev = nil, p.rev
	default:
		err = p.rowErr
	}
	if err != nil {
		return changes.Change{ID: c.ID, Raw: line, Defect: "row cannot be read: " + err.Error()}
	}
	if c.Defect != "" {
		return c
	}
	if err := r.finish(&c, &p); err != nil {
		return changes.Change{ID: c.ID, Seq: c.Seq, Raw: line, Defect: err.Error()}
	}
	return c
}

// finish reads the revisions, and what a plain row says in other words.
func (r *rowReader) finish(c *changes.Change, p *parsed) error {
	if len(p.revs) == 0 && p.valueRev != "" {
		p.revs = []string{p.valueRev}
	}
	if len(p.revs) == 0 && !c.Absent {
		return errors.New("row has no revision")
	}
	for _, text := range p.revs {
		rev, err := changes.ParseRev(text)
		if err != nil {
			return err
		}
		c.Leaves = append(c.Leaves, rev)
	}
	if len(c.Leaves) > 0 {
		c.Rev = c.Leaves[0]
	}
	if r.plain && !r.leaves {
		c.Leaves = nil
	}
	if len(c.Body) > 0 && c.Body[0] != '{' {
		if string(c.Body) != "null" {
			return errors.New("document is not an object")
		}
		c.Body = nil
	}
	return nil
}

// object yields the members of an object that is all of line, values as they
// stand there.
func (r *rowReader) object(line []byte, yield func(name string, value []byte)) error {
	if r.dec.PeekKind() != '{' {
		return errNoObject
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() == '"' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		value, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		end := r.dec.InputOffset()
		yield(name, line[end-int64(len(value)):end])
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	if r.dec.PeekKind() != 0 {
		return errors.New("something follows the object")
	}
	return nil
}

// take keeps what a member says.
func (p *parsed) take(c *changes.Change, name string, value []byte) {
	var err error
	switch name {
	case "id":
		c.ID, err = text(value)
	case "id_base64":
		var id []byte
		id, err = binary(value)
		c.ID = string(id)
	case "seq":
		c.Seq = seqText(value)
	case "seq_base64":
		var seq []byte
		seq, err = binary(value)
		c.Seq = string(seq)
	case "changes":
		p.revs, err = revisions(value)
	case "value":
		p.valueRev = valueRev(value)
	case "deleted":
		c.Deleted = string(value) == "true"
	case "absent":
		c.Absent = string(value) == "true"
	case "purged":
		c.Purged = string(value) == "true"
	case "doc":
		c.Body = value
	case "doc_base64":
		c.Body, err = binary(value)
	case "defect":
		c.Defect, err = text(value)
	case "raw":
		c.Raw, err = binary(value)
	default:
		p.takeDocument(name, value)
	}
	if err != nil && p.rowErr == nil {
		p.rowErr = fmt.Errorf("%s: %w", name, err)
	}
}

// takeDocument keeps what a member says of a document without a row around it.
func (p *parsed) takeDocument(name string, value []byte) {
	var err error
	switch name {
	case "_id":
		p.hasDocID = true
		p.docID, err = text(value)
	case "_rev":
		p.rev, err = text(value)
	case "_deleted":
		p.docDeleted = string(value) == "true"
	}
	if err != nil && p.docErr == nil {
		p.docErr = fmt.Errorf("%s: %w", name, err)
	}
}

func text(value []byte) (string, error) {
	if len(value) == 0 || value[0] != '"' {
		return "", errors.New("it is no text")
	}
	b, err := jsontext.AppendUnquote(nil, value)
	return string(b), err
}

func binary(value []byte) ([]byte, error) {
	s, err := text(value)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(s)
}

// seqText is a sequence: a text, a number of CouchDB 1, or what Cloudant writes.
func seqText(value []byte) string {
	if string(value) == "null" {
		return ""
	}
	if s, err := text(value); err == nil {
		return s
	}
	return string(value)
}

// revisions are those of a row's changes.
func revisions(value []byte) (revs []string, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(value), lenient()...)
	for {
		kind := d.PeekKind()
		if kind == 0 {
			return revs, nil
		}
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		if kind == '"' && token.String() == "rev" && d.PeekKind() == '"' {
			if token, err = d.ReadToken(); err != nil {
				return nil, err
			}
			revs = append(revs, token.String())
		}
	}
}

// valueRev is the revision in a row of _all_docs.
func valueRev(value []byte) string {
	if len(value) == 0 || value[0] != '{' {
		return ""
	}
	if revs, err := revisions(value); err == nil && len(revs) > 0 {
		return revs[0]
	}
	return ""
}
