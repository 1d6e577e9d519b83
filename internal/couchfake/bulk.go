package couchfake

import (
	"errors"
	"net/http"
	"strings"
)

var errNoPath = badRequest("When `new_edits: false`, the document needs `_rev` or `_revisions` specified")

// bulkDocs answers POST /db/_bulk_docs.
func (x *exchange) bulkDocs() error {
	if err := x.allow(http.MethodPost); err != nil {
		return err
	}
	body, err := x.jsonBody()
	if err != nil {
		return err
	}
	top, err := fields(body)
	if err != nil {
		return err
	}
	list, ok := top["docs"]
	if !ok {
		return badRequest("POST body must include `docs` parameter.")
	}
	if list[0] != '[' {
		return badRequest("`docs` parameter must be an array.")
	}
	replicated := string(top["new_edits"]) == "false"
	writes, err := x.parseBulk(elements(list), replicated)
	if err != nil {
		return err
	}
	x.json(http.StatusCreated, x.db.writeAll(writes, replicated))
	return nil
}

// parseBulk reads all documents first: one that cannot be refuses the whole request.
func (x *exchange) parseBulk(docs [][]byte, replicated bool) ([]write, error) {
	writes := make([]write, 0, len(docs))
	for _, raw := range docs {
		w, err := parseDocument(raw, "")
		if err != nil {
			return nil, err
		}
		switch {
		case int64(len(raw)) > x.s.opts.MaxDocumentSize:
			return nil, errTooLarge
		case replicated && len(w.path) == 0:
			return nil, errNoPath
		case w.id == "":
			w.id = string(appendHex(nil, newUUID()))
		}
		if err := x.db.checkPartition(w.id); err != nil {
			return nil, err
		}
		writes = append(writes, w)
	}
	return writes, nil
}

// writeAll writes the documents in their order. With new_edits=false only what was refused is told.
func (db *Database) writeAll(writes []write, replicated bool) []byte {
	db.mu.Lock()
	defer db.mu.Unlock()
	b := []byte{'['}
	for _, w := range writes {
		rev, err := db.writeOne(w, replicated)
		if err == nil && replicated {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		if err == nil {
			b = appendWritten(b, w.id, rev)
			continue
		}
		b = appendRefused(b, w, replicated, err)
	}
	return append(b, ']', '\n')
}

func (db *Database) writeOne(w write, replicated bool) (string, error) {
	if strings.HasPrefix(w.id, "_local/") {
		return db.putLocal(w)
	}
	if replicated {
		return "", db.replicateLocked(w)
	}
	rev, err := db.editLocked(w)
	return rev.String(), err
}

func appendRefused(b []byte, w write, replicated bool, err error) []byte {
	f := asFailure(err)
	b = append(b, `{"id":`...)
	b = appendString(b, w.id)
	if replicated {
		b = append(b, `,"rev":`...)
		b = appendString(b, w.path[0].String())
	}
	b = append(b, `,"error":`...)
	b = appendString(b, f.name)
	b = append(b, `,"reason":`...)
	b = appendString(b, f.reason)
	return append(b, '}')
}

// revsDiff answers POST /db/_revs_diff: which of the named revisions are not here.
func (x *exchange) revsDiff() error {
	if err := x.allow(http.MethodPost); err != nil {
		return err
	}
	body, err := x.jsonBody()
	if err != nil {
		return err
	}
	clean, members, err := normalizeJSON(body)
	if err != nil {
		return err
	}
	x.db.mu.RLock()
	defer x.db.mu.RUnlock()
	b := []byte{'{'}
	for _, m := range members {
		revs, err := stringList(clean[m.valStart:m.valEnd])
		if err != nil {
			return err
		}
		missing := x.db.missing(text(clean[m.keyStart:m.keyEnd]), revs)
		if len(missing) == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, clean[m.keyStart:m.keyEnd]...)
		b = append(b, `:{"missing":[`...)
		for i, r := range missing {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, r)
		}
		b = append(b, ']')
		b = x.db.appendAncestors(b, text(clean[m.keyStart:m.keyEnd]), missing)
		b = append(b, '}')
	}
	x.json(http.StatusOK, append(b, '}', '\n'))
	return nil
}

// appendAncestors names the leaves from which the missing revisions may have come: those of a lower generation than any of them.
func (db *Database) appendAncestors(b []byte, id string, missing []string) []byte {
	d := db.docs[id]
	if d == nil {
		return b
	}
	highest := 0
	for _, s := range missing {
		if r, err := ParseRev(s); err == nil {
			highest = max(highest, r.Gen)
		}
	}
	var ancestors []Rev
	for _, n := range d.leaves {
		if int(n.gen) < highest {
			ancestors = append(ancestors, n.rev())
		}
	}
	if len(ancestors) == 0 {
		return b
	}
	b = append(b, `,"possible_ancestors":`...)
	return appendRevs(b, ancestors)
}

func (db *Database) missing(id string, revs []string) []string {
	var out []string
	for _, s := range revs {
		r, err := ParseRev(s)
		if d := db.docs[id]; err != nil || d == nil || d.find(r) == nil {
			out = append(out, s)
		}
	}
	return out
}

// bulkGet answers POST /db/_bulk_get.
func (x *exchange) bulkGet() error {
	if err := x.allow(http.MethodPost); err != nil {
		return err
	}
	body, err := x.jsonBody()
	if err != nil {
		return err
	}
	top, err := fields(body)
	if err != nil {
		return err
	}
	list, ok := top["docs"]
	if !ok || list[0] != '[' {
		return badRequest("Missing JSON list of 'docs'.")
	}
	e, latest := x.extras(), x.flag("latest")
	x.db.mu.RLock()
	defer x.db.mu.RUnlock()
	b := []byte(`{"results":[`)
	for i, raw := range elements(list) {
		if i > 0 {
			b = append(b, ',')
		}
		f, err := fields(raw)
		if err != nil {
			return err
		}
		if b, err = x.db.appendBulkGet(b, f, e, latest); err != nil {
			return err
		}
	}
	x.json(http.StatusOK, append(b, "]}\n"...))
	return nil
}

func (db *Database) appendBulkGet(b []byte, f map[string][]byte, e extras, latest bool) ([]byte, error) {
	if len(f["id"]) == 0 || f["id"][0] != '"' {
		return nil, badRequest("Missing id of a document.")
	}
	id := text(f["id"])
	b = append(b, `{"id":`...)
	b = appendString(b, id)
	b = append(b, `,"docs":[`...)
	rev := "undefined"
	if v := f["rev"]; len(v) > 0 && v[0] == '"' {
		rev = text(v)
	}
	nodes, err := db.leavesFor(id, rev, latest)
	switch {
	case err != nil:
		fail := asFailure(err)
		b = append(b, `{"error":{"rev":`...)
		b = appendString(b, rev)
		b = append(b, `,"reason":`...)
		b = appendString(b, fail.reason)
		b = append(b, `,"id":`...)
		b = appendString(b, id)
		b = append(b, `,"error":`...)
		b = appendString(b, fail.name)
		b = append(b, `}}`...)
	default:
		for i, n := range nodes {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"ok":`...)
			b = appendDocument(b, db.docs[id], n, e)
			b = append(b, '}')
		}
	}
	return append(b, ']', '}'), nil
}

// leavesFor finds the revisions that one entry of _bulk_get asks for: all leaves when it names none.
func (db *Database) leavesFor(id, rev string, latest bool) ([]*node, error) {
	d := db.docs[id]
	if rev == "undefined" {
		if d == nil {
			return nil, errMissing
		}
		return d.inOrder(), nil
	}
	r, err := ParseRev(rev)
	if err != nil {
		return nil, errors.Join(errBadRev, err)
	}
	if d == nil {
		return nil, errMissing
	}
	n := d.find(r)
	if n != nil && latest {
		n = d.heir(n)
	}
	if n == nil || !n.known {
		return nil, errMissing
	}
	return []*node{n}, nil
}
