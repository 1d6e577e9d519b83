package couchfake

import (
	"crypto/md5" //nolint:gosec // digests of attachments are MD5 on every CouchDB
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// attachment is what the fake keeps of an attachment: all but its content.
type attachment struct {
	name        string
	contentType string
	digest      string // "md5-" and base64
	revpos      int
	length      int64
	stub        bool // sent as a stub: what is not given is the parent's
}

// missingStub answers a stub that no parent backs.
func missingStub(name string) *failure {
	return &failure{status: http.StatusPreconditionFailed, name: "missing_stub", reason: "Invalid attachment stub in document: " + name}
}

// parseAttachments reads the member _attachments of a document.
func parseAttachments(val []byte) ([]attachment, error) {
	if val[0] != '{' {
		return nil, badMember("_attachments")
	}
	clean, members, err := normalizeJSON(val)
	if err != nil {
		return nil, err
	}
	var out []attachment
	for _, m := range members {
		a, err := parseAttachment(clean[m.valStart:m.valEnd])
		if err != nil {
			return nil, err
		}
		a.name = text(clean[m.keyStart:m.keyEnd])
		out = append(out, a)
	}
	return out, nil
}

func parseAttachment(val []byte) (attachment, error) {
	a := attachment{contentType: "application/octet-stream"}
	if val[0] != '{' {
		return a, badMember("_attachments")
	}
	f, err := fields(val)
	if err != nil {
		return a, err
	}
	if v := f["content_type"]; len(v) > 0 && v[0] == '"' {
		a.contentType = text(v)
	}
	a.revpos, _ = strconv.Atoi(string(f["revpos"]))             // absent: the new revision's
	a.length, _ = strconv.ParseInt(string(f["length"]), 10, 64) // absent: that of the data
	if v := f["digest"]; len(v) > 0 && v[0] == '"' {
		a.digest = text(v)
	}
	if v := f["data"]; len(v) > 0 && v[0] == '"' {
		data, err := base64.StdEncoding.DecodeString(text(v))
		if err != nil {
			return a, badRequest("Invalid attachment data")
		}
		a.fill(data)
		return a, nil
	}
	a.stub = true
	return a, nil
}

// fill takes length and digest from the content.
func (a *attachment) fill(data []byte) {
	sum := md5.Sum(data) //nolint:gosec // see above
	a.digest = "md5-" + base64.StdEncoding.EncodeToString(sum[:])
	a.length = int64(len(data))
	a.stub = false
}

// renderAttachments writes the stubs of a revision on top of parent, and what of them its hash covers.
func renderAttachments(list []attachment, parent Rev, d *document) ([]byte, []attachmentDigest, error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	old := parentAttachments(d, parent)
	b := []byte(`,"_attachments":{`)
	var digests []attachmentDigest
	for i, a := range list {
		if a.stub && a.digest == "" {
			o, ok := old[a.name]
			if !ok {
				return nil, nil, missingStub(a.name)
			}
			a = o
		}
		if a.revpos == 0 {
			a.revpos = parent.Gen + 1
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = a.append(b)
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(a.digest, "md5-"))
		if err != nil {
			return nil, nil, badMember("_attachments")
		}
		digests = append(digests, attachmentDigest{a.name, a.contentType, sum})
	}
	return append(b, '}'), digests, nil
}

func (a attachment) append(b []byte) []byte {
	b = appendString(b, a.name)
	b = append(b, `:{"content_type":`...)
	b = appendString(b, a.contentType)
	b = append(b, `,"revpos":`...)
	b = strconv.AppendInt(b, int64(a.revpos), 10)
	b = append(b, `,"digest":`...)
	b = appendString(b, a.digest)
	b = append(b, `,"length":`...)
	b = strconv.AppendInt(b, a.length, 10)
	return append(b, `,"stub":true}`...)
}

// parentAttachments reads back the stubs that were rendered for the parent.
func parentAttachments(d *document, parent Rev) map[string]attachment {
	out := map[string]attachment{}
	if d == nil {
		return out
	}
	n := d.find(parent)
	if n == nil || len(n.atts) == 0 {
		return out
	}
	list, err := parseAttachments(n.atts[len(`,"_attachments":`):])
	if err != nil {
		return out // our own text: it parses
	}
	for _, a := range list {
		out[a.name] = a
	}
	return out
}

// attachment answers /db/id/name. The fake keeps no content: PUT makes a stub, GET of what is there cannot be answered.
func (x *exchange) attachment() error {
	switch x.r.Method {
	case http.MethodPut:
		return x.putAttachment()
	case http.MethodGet, http.MethodHead:
		return x.getAttachment()
	}
	return x.allow(http.MethodGet, http.MethodHead, http.MethodPut)
}

func (x *exchange) getAttachment() error {
	x.db.mu.RLock()
	defer x.db.mu.RUnlock()
	d := x.db.docs[x.id]
	switch {
	case d == nil:
		return errMissing
	case d.winner().deleted:
		return errDeleted
	}
	if _, ok := parentAttachments(d, d.winner().rev())[x.attach]; !ok {
		return notFound("Document is missing attachment")
	}
	return &failure{status: http.StatusNotImplemented, name: "not_implemented", reason: "this stand-in keeps no content of attachments"}
}

func (x *exchange) putAttachment() error {
	data, err := x.body()
	if err != nil {
		return err
	}
	a := attachment{name: x.attach, contentType: x.r.Header.Get("Content-Type")}
	if a.contentType == "" {
		a.contentType = "application/octet-stream"
	}
	a.fill(data)
	w := write{id: x.id, atts: []attachment{a}}
	if err := x.mergeRev(&w); err != nil {
		return err
	}
	x.db.mu.Lock()
	if d := x.db.docs[x.id]; d != nil && len(w.path) > 0 {
		if n := d.leaf(w.path[0]); n != nil {
			w.body = n.body
			w.atts = append(w.atts, othersThan(a.name, n)...)
		}
	}
	rev, err := x.db.editLocked(w)
	x.db.mu.Unlock()
	if err != nil {
		return err
	}
	x.locate(x.database, x.id, x.attach)
	x.json(http.StatusCreated, append(appendWritten(nil, x.id, rev.String()), '\n'))
	return nil
}

// othersThan lists the attachments of a revision in their order, but for one.
func othersThan(name string, n *node) []attachment {
	if len(n.atts) == 0 {
		return nil
	}
	list, err := parseAttachments(n.atts[len(`,"_attachments":`):])
	if err != nil {
		return nil // our own text: it parses
	}
	return slices.DeleteFunc(list, func(a attachment) bool { return a.name == name })
}
